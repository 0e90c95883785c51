//! Rows of leases that have expired, removed in passes of limited size.

use utxokeep_core::wallet::{Micros, WalletId};
use utxokeep_sql::Value;

use crate::{Ledger, LedgerError};

const DELETE_EXPIRED: &str = "DELETE FROM utxo_leases WHERE wallet_id = $1
    AND utxo_id IN (SELECT utxo_id FROM utxo_leases
        WHERE wallet_id = $1 AND expires_at_us <= $2 AND is_held = 0
        ORDER BY expires_at_us LIMIT $3)";

/// What a pass removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Rows that were removed.
    pub rows: u64,
    /// Whether the limit ended the pass; then there may be more.
    pub has_more: bool,
}

impl Ledger {
    /// Removes rows of expired leases of a wallet, at most `rows_max` of them.
    pub fn clean_leases(
        &self,
        wallet: WalletId,
        rows_max: usize,
        now: Micros,
    ) -> Result<Cleaned, LedgerError> {
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        self.write_wallet(wallet, now, |session| {
            let now = Value::from(session.lease_now()?.get());
            let rows =
                session.tx.execute(DELETE_EXPIRED, &[session.id(), now, Value::from(limit)])?;
            Ok(Cleaned { rows, has_more: i64::try_from(rows) == Ok(limit) })
        })
    }
}
