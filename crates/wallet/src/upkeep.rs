//! What is done and counted for all wallets of a ledger together, by whoever runs it.

use utxokeep_core::wallet::{Micros, WalletId};
use utxokeep_sql::{Dialect, Row, SqlError, Transaction, Value};

use crate::{Cleaned, Ledger, LedgerError, rows, session::Session};

/// The wallet of the lease that expired first.
const SELECT_EXPIRED: &str = "SELECT wallet_id FROM utxo_leases
    WHERE expires_at_us <= $1 AND is_held = 0 ORDER BY expires_at_us LIMIT 1";
const COUNT_EXPIRED: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM utxo_leases
    WHERE expires_at_us <= $1 AND is_held = 0 LIMIT $2) x";
const COUNT_ACTIVE: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM utxo_leases
    WHERE expires_at_us > $1 AND is_held = 0 LIMIT $2) x";
const COUNT_HELD: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM utxo_leases
    WHERE is_held = 1 LIMIT $1) x";
const DELETE_OLD_ANSWERS: &str = "DELETE FROM idempotency_keys WHERE created_at_us <= $1
    AND (wallet_id, request_key) IN (SELECT wallet_id, request_key FROM idempotency_keys
        WHERE created_at_us <= $1 ORDER BY created_at_us LIMIT $2)";
/// Wallets with more events than are kept, or whose oldest is too old.
const SELECT_OVERFULL: &str = "SELECT w.id FROM wallets w
    JOIN wallet_events e ON e.wallet_id = w.id AND e.id = w.first_event_id
    WHERE w.id > $1 AND (w.next_event_id - w.first_event_id > $2 OR e.at_us <= $3)
    ORDER BY w.id LIMIT 1";
const SELECT_DUE: &str = "SELECT h.wallet_id, h.id FROM wallet_webhooks h
    JOIN wallets w ON w.id = h.wallet_id
    WHERE h.state = 0 AND h.next_event_id < w.next_event_id AND h.next_attempt_us <= $1
        AND (h.held_until_us IS NULL OR h.held_until_us <= $1)
    ORDER BY h.next_attempt_us, h.wallet_id, h.id LIMIT $2";
/// What PostgreSQL last measured; below 0 before it did.
const ESTIMATE_ROWS: &str = "SELECT CAST(c.reltuples AS BIGINT) FROM pg_class c
    WHERE c.oid = to_regclass($1)";

/// Tables whose rows are counted.
const TABLES: &[&str] = &[
    "wallets",
    "wallet_rescans",
    "idempotency_keys",
    "blocks",
    "recent_blocks",
    "addresses",
    "descriptors",
    "descriptor_scripts",
    "transactions",
    "tx_inputs",
    "tx_replacements",
    "utxos",
    "utxo_leases",
    "utxo_marks",
    "labels",
    "pruned_transactions",
    "wallet_events",
    "wallet_webhooks",
];

/// Leases of all wallets, each figure up to the limit that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseCounts {
    /// Active ones, held ones among them.
    pub active: u64,
    /// Rows of expired ones that were not removed yet.
    pub expired: u64,
}

impl Ledger {
    /// Removes rows of expired leases of all wallets, those that expired first first, at most
    /// `rows_max` of them. Wallets are locked one at a time.
    pub fn clean_all_leases(&self, rows_max: usize, now: Micros) -> Result<Cleaned, LedgerError> {
        let mut done = Cleaned::default();
        loop {
            let left = rows_max.saturating_sub(usize::try_from(done.rows).unwrap_or(usize::MAX));
            let Some(wallet) = self.wallet_with_expired(now)? else { return Ok(done) };
            if left == 0 {
                return Ok(Cleaned { has_more: true, ..done });
            }
            let cleaned = self.clean_leases(wallet, left, now)?;
            if cleaned.rows == 0 {
                // Another program was faster, and may still be at it.
                return Ok(done);
            }
            done.rows += cleaned.rows;
        }
    }

    /// Forgets keys of requests that are older than `keep_us`, the oldest first, at most `rows_max`
    /// of them.
    pub fn clean_answers(
        &self,
        keep_us: i64,
        rows_max: usize,
        now: Micros,
    ) -> Result<Cleaned, LedgerError> {
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        self.write(|tx| {
            let now = Session::read_lease_time(tx, self.lease_clock, now)?;
            let key = [Value::from(now.plus(-keep_us).get()), Value::from(limit)];
            let rows = tx.execute(DELETE_OLD_ANSWERS, &key)?;
            Ok(Cleaned { rows, has_more: i64::try_from(rows) == Ok(limit) })
        })
    }

    /// Forgets the oldest events of wallets that have more than `keep_rows`, and those that are older
    /// than `keep_us`, at most `rows_max` of each wallet. Wallets are locked one at a time.
    pub fn clean_events(
        &self,
        keep_rows: u64,
        keep_us: i64,
        rows_max: usize,
        now: Micros,
    ) -> Result<Cleaned, LedgerError> {
        let keep_rows = i64::try_from(keep_rows).unwrap_or(i64::MAX);
        let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let mut done = Cleaned::default();
        let mut after = 0;
        loop {
            let found = self.read(|tx| {
                let young = Session::read_lease_time(tx, self.lease_clock, now)?.plus(-keep_us);
                let key = [Value::from(after), Value::from(keep_rows), Value::from(young.get())];
                Ok(tx.query_opt(SELECT_OVERFULL, &key, |row| row.int(0))?.map(|id| (id, young)))
            })?;
            let Some((wallet, young)) = found else { return Ok(done) };
            after = wallet;
            let wallet = WalletId::new(wallet);
            let cleaned = self.write_wallet_even_archived(wallet, now, |session| {
                session.forget_events(keep_rows, young, rows_max)
            })?;
            done.rows += cleaned.rows;
            done.has_more |= cleaned.has_more;
        }
    }

    /// Webhooks with events to deliver that no program holds, those that wait longest first. Asking
    /// writes nothing.
    pub fn due_webhooks(
        &self,
        limit: usize,
        now: Micros,
    ) -> Result<Vec<(WalletId, i64)>, LedgerError> {
        let limit = self.page(limit);
        self.read(|tx| {
            let now = Session::read_lease_time(tx, self.lease_clock, now)?;
            let read = |row: &Row<'_>| Ok((WalletId::new(row.int(0)?), row.int(1)?));
            Ok(tx.query_all(SELECT_DUE, &[Value::from(now.get()), limit], read)?)
        })
    }

    fn wallet_with_expired(&self, now: Micros) -> Result<Option<WalletId>, LedgerError> {
        self.read(|tx| {
            let now = Session::read_lease_time(tx, self.lease_clock, now)?;
            let key = [Value::from(now.get())];
            let wallet = tx.query_opt(SELECT_EXPIRED, &key, |row| row.int(0))?;
            Ok(wallet.map(WalletId::new))
        })
    }

    /// Counts the leases of all wallets: active ones that end by the clock, held ones and expired
    /// ones up to `rows_max` each.
    pub fn count_leases(&self, rows_max: usize, now: Micros) -> Result<LeaseCounts, LedgerError> {
        let limit = Value::from(i64::try_from(rows_max).unwrap_or(i64::MAX));
        self.read(|tx| {
            let now = Session::read_lease_time(tx, self.lease_clock, now)?;
            let clocked = [Value::from(now.get()), limit];
            let mut count = |statement, parameters: &[Value<'_>]| {
                tx.query_one(statement, parameters, |row| rows::sum(row, 0))
            };
            Ok(LeaseCounts {
                active: count(COUNT_ACTIVE, &clocked)? + count(COUNT_HELD, &[limit])?,
                expired: count(COUNT_EXPIRED, &clocked)?,
            })
        })
    }

    /// Rows of each table of the ledger, cheaply: on PostgreSQL what it last measured, and where
    /// it never did, and on SQLite, counted up to `rows_max`.
    pub fn count_rows(&self, rows_max: usize) -> Result<Vec<(&'static str, u64)>, LedgerError> {
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        self.read(|tx| {
            let count = |table: &&'static str| Ok((*table, table_rows(tx, table, limit)?));
            TABLES.iter().map(count).collect()
        })
    }
}

fn table_rows(tx: &mut Transaction<'_>, table: &str, limit: i64) -> Result<u64, SqlError> {
    if tx.dialect() == Dialect::Postgres {
        let rows = tx.query_opt(ESTIMATE_ROWS, &[Value::from(table)], |row| row.int(0))?;
        if let Some(rows) = rows.and_then(|rows| u64::try_from(rows).ok()) {
            return Ok(rows);
        }
    }
    // The name is one of the list above.
    let counted = ["SELECT", " COUNT(*) FROM (SELECT 1 FROM ", table, " LIMIT $1) x"].concat();
    tx.query_one(&counted, &[Value::from(limit)], |row| rows::sum(row, 0))
}

#[cfg(test)]
mod tests {
    use utxokeep_sql::{Database, Options};

    use super::*;
    use crate::Limits;

    #[test]
    fn every_table_of_wallets_is_counted() {
        let dir = tempfile::TempDir::new().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let database = Database::open(&url, &Options::default()).unwrap();
        let ledger = Ledger::open(database, Limits::default(), Micros::new(1)).unwrap();
        let stored = ledger.database().read(|tx| {
            let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
                AND name NOT LIKE 'sqlite_%' AND name NOT IN ('chains', 'utxokeep_migrations')
                ORDER BY name";
            tx.query_all(tables, &[], |row| Ok(row.text(0)?.to_owned()))
        });
        let mut counted: Vec<String> =
            ledger.count_rows(10).unwrap().into_iter().map(|(table, _)| table.to_owned()).collect();
        counted.sort_unstable();
        assert_eq!(counted, stored.map_err(|error: SqlError| error).unwrap());
    }
}
