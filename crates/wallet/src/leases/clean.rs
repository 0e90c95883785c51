//! Rows of leases that have expired, removed in passes of limited size.

use utxokeep_core::wallet::{LeaseId, Micros, WalletId};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{Ledger, LedgerError, outbox::ExpiredLease, rows, session::Session};

const SELECT_EXPIRED: &str = "SELECT l.utxo_id, t.txid, u.output_index, l.lease_id, l.expires_at_us
    FROM (SELECT wallet_id, utxo_id, lease_id, expires_at_us FROM utxo_leases
        WHERE wallet_id = $1 AND expires_at_us <= $2 AND is_held = 0
        ORDER BY expires_at_us, utxo_id LIMIT $3) l
    JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    ORDER BY l.expires_at_us, l.utxo_id";
const SELECT_EXPIRED_OF: &str = "SELECT l.utxo_id, t.txid, u.output_index, l.lease_id,
        l.expires_at_us
    FROM utxo_leases l
    JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    WHERE l.wallet_id = $1 AND l.expires_at_us <= $2 AND l.is_held = 0 AND l.utxo_id IN";
const DELETE_LEASES: &str = "DELETE FROM utxo_leases WHERE wallet_id = $1 AND utxo_id IN";

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
            let key = [session.id(), now, Value::from(limit)];
            let expired = session.tx.query_all(SELECT_EXPIRED, &key, read_expired)?;
            let rows = session.drop_expired(&expired)?;
            Ok(Cleaned { rows, has_more: i64::try_from(rows) == Ok(limit) })
        })
    }
}

impl Session<'_, '_> {
    /// Removes leases on these coins that have expired, and tells of it, before others take the
    /// coins.
    pub(crate) fn clean_expired(&mut self, coins: &[i64], now: Micros) -> Result<(), SqlError> {
        let keys: Vec<Value<'_>> = coins.iter().map(|coin| Value::from(*coin)).collect();
        let fixed = [self.id(), Value::from(now.get())];
        let mut expired = Vec::new();
        self.tx.query_in(SELECT_EXPIRED_OF, "", &fixed, 1, &keys, |row| {
            expired.push(read_expired(row)?);
            Ok(())
        })?;
        expired.sort_unstable_by_key(|(utxo, _)| *utxo);
        self.drop_expired(&expired).map(drop)
    }

    fn drop_expired(&mut self, expired: &[(i64, ExpiredLease)]) -> Result<u64, SqlError> {
        let keys: Vec<Value<'_>> = expired.iter().map(|(utxo, _)| Value::from(*utxo)).collect();
        let rows = self.tx.execute_in(DELETE_LEASES, "", &[self.id()], 1, &keys)?;
        for (_, lease) in expired {
            self.note_expired(*lease);
        }
        Ok(rows)
    }
}

fn read_expired(row: &Row<'_>) -> Result<(i64, ExpiredLease), SqlError> {
    let lease = ExpiredLease {
        outpoint: rows::outpoint(row, 1)?,
        owner: LeaseId::from_bytes(row.array(3)?),
        expired_at: Micros::new(row.int(4)?),
    };
    Ok((row.int(0)?, lease))
}
