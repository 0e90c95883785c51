//! Taking transactions out of blocks, for one wallet.

use rustc_hash::FxHashSet;
use utxokeep_core::{
    Height, Txid,
    wallet::{CoinClass, Evidence, TxState},
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{
    LedgerError,
    ingest::RESET_LEASES,
    rows,
    session::{Session, StoredTx},
};

const SELECT_FROM: &str = "SELECT id, txid, is_coinbase FROM transactions
    WHERE wallet_id = $1 AND block_height >= $2 ORDER BY id";
const SELECT_AT: &str = "SELECT id, txid, is_coinbase FROM transactions
    WHERE wallet_id = $1 AND block_height = $2 ORDER BY id";
const DETACH_COINS: &str = "UPDATE utxos SET parent_class = $2, parent_height = NULL
    WHERE wallet_id = $1 AND tx_id IN (SELECT id FROM transactions
        WHERE wallet_id = $1 AND (input_count = owned_input_count) = ($3 = 1) AND id IN";
const SELECT_DOUBTFUL: &str = "SELECT DISTINCT tx_id FROM utxos
    WHERE wallet_id = $1 AND parent_class < 3 AND spent_by_tx_id IS NOT NULL AND tx_id IN";
const SELECT_DOUBTFUL_PARENTS: &str = "SELECT DISTINCT tx_id FROM utxos
    WHERE wallet_id = $1 AND parent_class < 3 AND spent_by_tx_id IN";
const DETACH_TXS: &str = "UPDATE transactions
    SET block_height = NULL, block_position = NULL, is_claimed = 0
    WHERE wallet_id = $1 AND id IN";
const SELECT_REPEATED: &str = "SELECT id, earlier_height FROM transactions
    WHERE wallet_id = $1 AND block_height >= $2 AND earlier_height < $2";
const BACK_TO_EARLIER: &str = "UPDATE transactions
    SET block_height = earlier_height, block_position = earlier_position, is_claimed = 0,
        earlier_height = NULL, earlier_position = NULL
    WHERE wallet_id = $1 AND id = $2";

/// A transaction that is to leave its block.
struct Confirmed {
    id: i64,
    txid: Txid,
    is_coinbase: bool,
}

impl Session<'_, '_> {
    /// Takes this wallet's transactions out of all blocks from `height` on.
    pub(crate) fn detach_from(&mut self, height: Height) -> Result<(), LedgerError> {
        self.evidence = Evidence::Block;
        self.restore_repeated(height)?;
        let all = self.confirmed(SELECT_FROM, height)?;
        self.detach(&all).map(drop)
    }

    /// Takes one transaction out of its block; answers what fails with it.
    pub(crate) fn take_out(
        &mut self,
        stored: &StoredTx,
        txid: Txid,
    ) -> Result<Vec<Txid>, LedgerError> {
        self.detach(&[Confirmed { id: stored.id, txid, is_coinbase: stored.coinbase }])
    }

    /// A coinbase whose later block leaves the chain is in its earlier one again.
    fn restore_repeated(&mut self, height: Height) -> Result<(), LedgerError> {
        let key = [self.id(), Value::from(height.get())];
        let read = |row: &Row<'_>| Ok((row.int(0)?, rows::height(row, 1)?));
        for (id, earlier) in self.tx.query_all(SELECT_REPEATED, &key, read)? {
            self.touch(&[id])?;
            self.tx.execute(BACK_TO_EARLIER, &[self.id(), Value::from(id)])?;
            self.set_class(id, CoinClass::Confirmed, earlier)?;
        }
        Ok(())
    }

    /// Takes out of the block at `height` what was claimed to be in it and is not.
    pub(super) fn detach_others(
        &mut self,
        height: Height,
        held: &FxHashSet<Txid>,
    ) -> Result<(), LedgerError> {
        self.evidence = Evidence::Block;
        let mut claimed = self.confirmed(SELECT_AT, height)?;
        claimed.retain(|tx| !held.contains(&tx.txid));
        self.detach(&claimed).map(drop)
    }

    fn confirmed(&mut self, statement: &str, height: Height) -> Result<Vec<Confirmed>, SqlError> {
        let read = |row: &Row<'_>| {
            let is_coinbase = rows::flag(row, 2)?;
            Ok(Confirmed { id: row.int(0)?, txid: rows::txid(row, 1)?, is_coinbase })
        };
        self.tx.query_all(statement, &[self.id(), Value::from(height.get())], read)
    }

    /// Payments come first, so that what spends from a coinbase is unconfirmed when that ends. Where
    /// a block says so, nothing that was claimed about a descendant, and no limit, holds it up.
    fn detach(&mut self, txs: &[Confirmed]) -> Result<Vec<Txid>, LedgerError> {
        if txs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = txs.iter().map(|tx| tx.id).collect();
        self.touch(&ids)?;
        let fixed = [self.id()];
        let all: Vec<Value<'_>> = txs.iter().map(|tx| Value::from(tx.id)).collect();
        let payments: Vec<Value<'_>> =
            txs.iter().filter(|tx| !tx.is_coinbase).map(|tx| Value::from(tx.id)).collect();
        if self.has_leases()? {
            self.tx.execute_in(RESET_LEASES, ")", &fixed, 1, &all)?;
        }
        for (class, trusted) in [(CoinClass::Trusted, 1i64), (CoinClass::Untrusted, 0)] {
            let fixed = [self.id(), Value::from(class.code()), Value::from(trusted)];
            self.tx.execute_in(DETACH_COINS, ")", &fixed, 1, &payments)?;
        }
        // Whoever spends from these is not trusted any more; they may lie in no block already.
        let mut doubtful = Vec::new();
        for statement in [SELECT_DOUBTFUL, SELECT_DOUBTFUL_PARENTS] {
            self.tx.query_in(statement, "", &fixed, 1, &payments, |row| {
                doubtful.push(row.int(0)?);
                Ok(())
            })?;
        }
        doubtful.sort_unstable();
        doubtful.dedup();
        self.tx.execute_in(DETACH_TXS, "", &fixed, 1, &payments)?;
        self.lower_trust(doubtful)?;
        let mut failed = Vec::new();
        for coinbase in txs.iter().filter(|tx| tx.is_coinbase) {
            let doomed = self.end(coinbase.id, coinbase.txid, TxState::Orphaned)?;
            failed.extend(doomed.descendants());
        }
        Ok(failed)
    }
}
