//! What a wallet has: one pass over an index that holds everything a balance needs.

use utxokeep_core::wallet::{
    Amount, Balance, Bucket, CoinFacts, CoinView, ConfirmationRange, LockTime, Maturity, Micros,
    WalletId,
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{Ledger, LedgerError, rows, session::Session};

/// Every amount is at least 0; saying so leads SQLite to the index by amount.
const SUM_COINS: &str = "SELECT
    CAST(SUM(amount) FILTER (WHERE parent_class = 4 AND parent_height BETWEEN $2 AND $3
        AND (parent_coinbase = 0 OR parent_height <= $4)) AS BIGINT),
    CAST(SUM(amount) FILTER (WHERE parent_class = 4 AND parent_height BETWEEN $2 AND $3
        AND parent_coinbase = 1 AND parent_height > $4) AS BIGINT),
    CAST(SUM(amount) FILTER (WHERE parent_class = 3) AS BIGINT),
    CAST(SUM(amount) FILTER (WHERE parent_class = 2) AS BIGINT),
    CAST(SUM(amount) FILTER (WHERE parent_class = 1) AS BIGINT)
    FROM utxos WHERE wallet_id = $1 AND spent_by_tx_id IS NULL AND parent_class > 0
        AND amount >= 0";
/// Two parts with an index each, so that leases that have expired are not even read.
const SELECT_LEASED: &str = "SELECT u.amount, u.parent_class, u.parent_height, u.parent_coinbase
    FROM (SELECT a.wallet_id, a.utxo_id FROM utxo_leases a
            WHERE a.wallet_id = $1 AND a.expires_at_us > $2
        UNION ALL SELECT h.wallet_id, h.utxo_id FROM utxo_leases h
            WHERE h.wallet_id = $1 AND h.is_held = 1 AND h.expires_at_us <= $2) l
    JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
    WHERE u.spent_by_tx_id IS NULL AND u.parent_class > 0";
const SELECT_HELD_BACK: &str = "SELECT u.amount, u.parent_class, u.parent_height, u.parent_coinbase
    FROM utxo_marks m JOIN utxos u ON u.wallet_id = m.wallet_id AND u.id = m.utxo_id
    WHERE m.wallet_id = $1 AND m.is_unspendable = 1
        AND u.spent_by_tx_id IS NULL AND u.parent_class > 0
        AND NOT EXISTS (SELECT 1 FROM utxo_leases l WHERE l.wallet_id = m.wallet_id
            AND l.utxo_id = m.utxo_id AND (l.expires_at_us > $2 OR l.is_held = 1))";

/// Coins that are neither leased nor held back.
const SELECT_FREE: &str = "SELECT u.amount, u.parent_class, u.parent_height, u.parent_coinbase
    FROM utxos u WHERE u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.parent_class > 2
        AND NOT EXISTS (SELECT 1 FROM utxo_leases l WHERE l.wallet_id = u.wallet_id
            AND l.utxo_id = u.id AND (l.expires_at_us > $2 OR l.is_held = 1))
        AND NOT EXISTS (SELECT 1 FROM utxo_marks m WHERE m.wallet_id = u.wallet_id
            AND m.utxo_id = u.id AND m.is_unspendable = 1)";

/// Which coins a balance counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BalanceQuery {
    /// How many confirmations a coin has.
    pub range: ConfirmationRange,
    /// When coinbase outputs stop being immature.
    pub maturity: Maturity,
}

impl Ledger {
    /// The balance of a wallet at the tip of the ledger; leases count as of `now`.
    pub fn balance(
        &self,
        wallet: WalletId,
        query: &BalanceQuery,
        now: Micros,
    ) -> Result<Balance, LedgerError> {
        self.read_wallet_at(wallet, now, |session| session.balance(query))
    }
}

impl Session<'_, '_> {
    pub(crate) fn balance(&mut self, query: &BalanceQuery) -> Result<Balance, LedgerError> {
        let tip = self.tip_height();
        // An empty range of heights when no block can be meant.
        let heights = query.range.heights(tip);
        let (lowest, highest) =
            heights.map_or((0, -1), |(low, high)| (low.get().into(), high.get().into()));
        let maturity = self.maturity(query.maturity);
        let mature = maturity.highest_mature(tip).map_or(-1, |height| height.get().into());
        let parameters: [i64; 4] = [self.wallet, lowest, highest, mature];
        let mut balance = self.tx.query_one(SUM_COINS, &parameters.map(Value::from), |row| {
            let mut balance = Balance {
                confirmed: rows::sum(row, 0)?,
                immature: rows::sum(row, 1)?,
                ..Balance::default()
            };
            if query.range.wants_unconfirmed() {
                balance.trusted_unconfirmed = rows::sum(row, 2)?;
                balance.untrusted_unconfirmed = rows::sum(row, 3)?;
                balance.pending = rows::sum(row, 4)?;
            }
            Ok(balance)
        })?;
        let view = CoinView { tip, range: query.range, maturity };
        let parameters = [self.id(), Value::from(self.lease_now()?.get())];
        for (statement, set_apart) in [
            (SELECT_LEASED, Balance::add_lease as fn(&mut Balance, Bucket, Amount)),
            (SELECT_HELD_BACK, Balance::hold_back),
        ] {
            self.tx.query(statement, &parameters, |row| {
                if let Some(bucket) = view.bucket(&read_facts(row)?) {
                    set_apart(&mut balance, bucket, rows::amount(row, 0)?);
                }
                Ok(())
            })?;
        }
        self.count_locked(&view, &mut balance)?;
        Ok(balance)
    }

    /// Counts what the next block cannot hold. A transaction has one lock time, a height or a time:
    /// coins count as locked that the better of the two leaves out. A ledger that was opened without
    /// the formats of its chain cannot tell.
    fn count_locked(&mut self, view: &CoinView, balance: &mut Balance) -> Result<(), LedgerError> {
        if self.codec.is_none() {
            return Ok(());
        }
        let now = Value::from(self.lease_now()?.get());
        let mut most = 0;
        for closed in self.closed_at(LockTime::Height(0), false)? {
            if closed.is_empty() {
                return Ok(());
            }
            let mut parameters = vec![self.id(), now];
            let open = closed.condition(self.chain, &mut parameters);
            let mut sum = 0;
            self.tx.query(&format!("{SELECT_FREE}{open}"), &parameters, |row| {
                let bucket = view.bucket(&read_facts(row)?);
                if matches!(bucket, Some(Bucket::Confirmed | Bucket::Trusted)) {
                    sum += rows::amount(row, 0)?.get();
                }
                Ok(())
            })?;
            most = most.max(sum);
        }
        balance.lock_all_but(most);
        Ok(())
    }
}

fn read_facts(row: &Row<'_>) -> Result<CoinFacts, SqlError> {
    Ok(CoinFacts {
        class: rows::class(row, 1)?,
        height: rows::height(row, 2)?,
        coinbase: rows::flag(row, 3)?,
    })
}
