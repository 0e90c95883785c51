//! What guards every row whatever a client does: the schema, compared with what the migrations
//! make, and that each row belongs to a wallet that exists.

use utxokeep_sql::{Definitions, SqlError};

use super::{Findings, rules::RESTORE};
use crate::session::Session;

/// Tables whose rows belong to a wallet.
const TABLES: &[&str] = &[
    "addresses",
    "descriptor_scripts",
    "descriptors",
    "idempotency_keys",
    "labels",
    "pruned_transactions",
    "transactions",
    "tx_inputs",
    "tx_replacements",
    "utxo_leases",
    "utxo_marks",
    "utxos",
    "wallet_events",
    "wallet_rescans",
    "wallet_webhooks",
];

const OWNERLESS: &str = "every row belongs to a wallet that exists";
const ALTERED: &str =
    "tables, constraints, indexes, views and triggers are as the ledger made them";
const MAKE_ANEW: &str = "somebody changed the schema by hand: make the object again as it was, and \
    drop what was added; rows that came meanwhile may be wrong, so verify again, and restore the \
    ledger from a copy if anything else is found";

impl Session<'_, '_> {
    /// Compares the schema with what the migrations make; returns how many definitions were
    /// compared.
    pub(super) fn verify_schema(
        &mut self,
        expected: Option<&Definitions>,
        findings: &mut Findings,
    ) -> Result<u64, SqlError> {
        let Some(expected) = expected else { return Ok(0) };
        let stored = Definitions::stored(self.tx)?;
        for fault in expected.faults(&stored) {
            findings.add(ALTERED, MAKE_ANEW, 0, fault.to_string());
        }
        Ok(u64::try_from(expected.len()).unwrap_or(u64::MAX))
    }

    /// Looks over the whole ledger, whatever wallet is verified.
    pub(super) fn verify_owners(&mut self, findings: &mut Findings) -> Result<(), SqlError> {
        for table in TABLES {
            let query = format!(
                "SELECT t.wallet_id, COUNT(*) FROM {table} t LEFT JOIN wallets w
                 ON w.id = t.wallet_id WHERE w.id IS NULL GROUP BY t.wallet_id
                 ORDER BY t.wallet_id LIMIT 10"
            );
            self.tx.query(&query, &[], |row| {
                let (wallet, rows) = (row.int(0)?, row.int(1)?);
                let example = format!("{rows} rows of {table} with wallet number {wallet}");
                findings.add(OWNERLESS, RESTORE, wallet, example);
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_sql::{Database, Options, SqlError};

    use super::*;
    use crate::{Micros, schema};

    #[test]
    fn every_table_of_a_new_ledger_is_looked_at() {
        let dir = tempfile::TempDir::new().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let database = Database::open(&url, &Options::default()).unwrap();
        schema::migrate(&database, Micros::new(0)).unwrap();
        let stored = database.read(|tx| {
            let owned = "SELECT t.name FROM pragma_table_list t, pragma_table_info(t.name) c
                WHERE t.schema = 'main' AND t.type = 'table' AND c.name = 'wallet_id'";
            tx.query_all(owned, &[], |row| Ok(row.text(0)?.to_owned()))
        });
        let mut tables = stored.map_err(|error: SqlError| error).unwrap();
        tables.sort_unstable();
        assert_eq!(TABLES, tables);
    }
}
