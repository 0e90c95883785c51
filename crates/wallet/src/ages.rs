//! How old coins are, and which block may come next: what locks of a transaction are held against.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Height,
    wallet::{CoinAge, Micros, NextBlock, WalletId},
};
use utxokeep_sql::Value;

use crate::{Ledger, LedgerError, SelectedCoin, rows, session::Session};

const SELECT_TIMES: &str = "SELECT height, time_us FROM blocks WHERE chain_id = $1 AND height IN";

/// Nodes hold lock times against the median time of the newest eleven blocks, which lies about an
/// hour behind the clock. The ledger does not have those times; it takes twice the distance.
const MEDIAN_TIME_LAG_SECS: i64 = 7_200;
const MICROS: i64 = 1_000_000;

impl Ledger {
    /// The block of each coin, in the order given, and the block that may come next.
    pub fn coin_ages(
        &self,
        wallet: WalletId,
        coins: &[SelectedCoin],
        now: Micros,
    ) -> Result<(Vec<Option<CoinAge>>, NextBlock), LedgerError> {
        self.read_wallet(wallet, |session| session.coin_ages(coins, now))
    }
}

impl Session<'_, '_> {
    pub(crate) fn coin_ages(
        &mut self,
        coins: &[SelectedCoin],
        now: Micros,
    ) -> Result<(Vec<Option<CoinAge>>, NextBlock), LedgerError> {
        let heights: BTreeSet<Height> = coins.iter().filter_map(|coin| coin.height).collect();
        let keys: Vec<Value<'_>> = heights.iter().map(|height| height.get().into()).collect();
        let (chain, mut times) = ([Value::from(self.chain)], BTreeMap::new());
        self.tx.query_in(SELECT_TIMES, "", &chain, 1, &keys, |row| {
            times.insert(rows::u32_at(row, 0)?, seconds(row.int(1)?));
            Ok(())
        })?;
        let age = |height: Height| {
            let height = height.get();
            CoinAge { height, time: times.get(&height).copied() }
        };
        let ages = coins.iter().map(|coin| coin.height.map(age)).collect();
        Ok((ages, self.next_block(now)))
    }

    /// The block that may come next.
    pub(crate) fn next_block(&self, now: Micros) -> NextBlock {
        NextBlock {
            height: self.tip_height().map_or(0, |tip| tip.get().saturating_add(1)),
            median_time: seconds(now.get() - MEDIAN_TIME_LAG_SECS * MICROS),
        }
    }
}

fn seconds(micros: i64) -> u32 {
    u32::try_from(micros.div_euclid(MICROS).max(0)).unwrap_or(u32::MAX)
}
