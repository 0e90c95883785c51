//! What guards every row whatever a client does: constraints, unique indexes, and that each row
//! belongs to a wallet that exists.

use std::collections::BTreeSet;

use utxokeep_sql::{Dialect, SqlError};

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
    "wallet_rescans",
];

/// Constraints and indexes without which rows can be stored that the ledger never stores.
const GUARDS: &[&str] = &[
    "addresses_is_used",
    "addresses_key",
    "addresses_script",
    "addresses_script_once",
    "addresses_spend_weight",
    "addresses_wallet",
    "blocks_chain",
    "blocks_hash",
    "blocks_hash_once",
    "blocks_height",
    "blocks_key",
    "chains_name",
    "chains_tip_hash",
    "chains_tip_height",
    "chains_tip_whole",
    "descriptor_scripts_address",
    "descriptor_scripts_descriptor",
    "descriptor_scripts_index",
    "descriptor_scripts_key",
    "descriptors_counts",
    "descriptors_is_ranged",
    "descriptors_key",
    "descriptors_keychain",
    "descriptors_lookahead",
    "descriptors_text",
    "descriptors_wallet",
    "idempotency_keys_digest",
    "idempotency_keys_key",
    "idempotency_keys_request_key",
    "idempotency_keys_wallet",
    "labels_kind",
    "labels_one_per_origin",
    "labels_origin",
    "labels_spendable",
    "labels_wallet",
    "pruned_transactions_key",
    "pruned_transactions_txid",
    "pruned_transactions_wallet",
    "recent_blocks_chain",
    "recent_blocks_hash",
    "recent_blocks_height",
    "recent_blocks_key",
    "recent_blocks_work",
    "transactions_block",
    "transactions_block_whole",
    "transactions_coinbase_in_block_or_orphaned",
    "transactions_confirmed_is_published",
    "transactions_counts",
    "transactions_flags",
    "transactions_invalid_has_reason",
    "transactions_invalidated_by",
    "transactions_key",
    "transactions_lease_id",
    "transactions_only_coinbase_is_orphaned",
    "transactions_only_pending_waits",
    "transactions_reason",
    "transactions_replaced_by_reason",
    "transactions_status",
    "transactions_txid",
    "transactions_txid_once",
    "transactions_wallet",
    "tx_inputs_claim",
    "tx_inputs_index",
    "tx_inputs_key",
    "tx_inputs_one_holder",
    "tx_inputs_outpoint",
    "tx_inputs_tx",
    "tx_replacements_key",
    "tx_replacements_not_itself",
    "tx_replacements_reason",
    "tx_replacements_replaced",
    "tx_replacements_replacement",
    "utxo_leases_hold",
    "utxo_leases_is_held",
    "utxo_leases_key",
    "utxo_leases_lease_id",
    "utxo_leases_spent_is_held",
    "utxo_leases_utxo",
    "utxo_marks_is_unspendable",
    "utxo_marks_key",
    "utxo_marks_not_empty",
    "utxo_marks_script",
    "utxo_marks_utxo",
    "utxos_address",
    "utxos_amount",
    "utxos_key",
    "utxos_not_spent_by_itself",
    "utxos_one_per_input",
    "utxos_outpoint_once",
    "utxos_output_index",
    "utxos_parent_class",
    "utxos_parent_coinbase",
    "utxos_parent_height",
    "utxos_spender",
    "utxos_spent_whole",
    "utxos_tx",
    "wallet_rescans_failed_hash",
    "wallet_rescans_failed_whole",
    "wallet_rescans_has_cause",
    "wallet_rescans_heights",
    "wallet_rescans_is_requested",
    "wallet_rescans_key",
    "wallet_rescans_wallet",
    "wallets_chain",
    "wallets_chain_key",
    "wallets_name",
    "wallets_name_once",
];

/// SQLite keeps the statements that made its tables and indexes.
const SELECT_STATEMENTS: &str = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL";
const SELECT_NAMES: &str = "SELECT CAST(c.conname AS TEXT) FROM pg_constraint c
    JOIN pg_namespace n ON n.oid = c.connamespace
    WHERE n.nspname = current_schema() AND c.convalidated
    UNION ALL SELECT CAST(i.relname AS TEXT) FROM pg_index x
    JOIN pg_class i ON i.oid = x.indexrelid
    JOIN pg_namespace n ON n.oid = i.relnamespace
    WHERE n.nspname = current_schema() AND x.indisvalid AND x.indisready";

const OWNERLESS: &str = "every row belongs to a wallet that exists";
const UNGUARDED: &str = "every constraint and unique index of the ledger is in force";

impl Session<'_, '_> {
    /// Looks over the whole ledger, whatever wallet is verified.
    pub(super) fn verify_guards(&mut self, findings: &mut Findings) -> Result<(), SqlError> {
        let in_force = self.guards_in_force()?;
        for name in GUARDS.iter().filter(|name| !in_force.contains(**name)) {
            findings.add(UNGUARDED, RESTORE, 0, (*name).to_owned());
        }
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

    fn guards_in_force(&mut self) -> Result<BTreeSet<String>, SqlError> {
        let mut names = BTreeSet::new();
        match self.tx.dialect() {
            Dialect::Sqlite => self.tx.query(SELECT_STATEMENTS, &[], |row| {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let words = row.text(0)?.split(|c| !is_name(c)).map(str::to_owned);
                names.extend(words);
                Ok(())
            })?,
            Dialect::Postgres => self.tx.query(SELECT_NAMES, &[], |row| {
                names.insert(row.text(0)?.to_owned());
                Ok(())
            })?,
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_sql::{Database, Options, SqlError};

    use super::*;
    use crate::{Micros, schema};

    #[test]
    fn every_constraint_and_table_of_a_new_ledger_is_looked_for() {
        let dir = tempfile::TempDir::new().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let database = Database::open(&url, &Options::default()).unwrap();
        schema::migrate(&database, Micros::new(0)).unwrap();
        let stored = database.read(|tx| {
            let mut names = BTreeSet::new();
            tx.query(SELECT_STATEMENTS, &[], |row| {
                let words: Vec<&str> =
                    row.text(0)?.split(|c: char| c.is_whitespace() || c == '(').collect();
                for pair in words.windows(2) {
                    if pair[0] == "CONSTRAINT" {
                        names.insert(pair[1].to_owned());
                    }
                }
                if let ["CREATE", "UNIQUE", "INDEX", name, ..] = words[..] {
                    names.insert(name.to_owned());
                }
                Ok(())
            })?;
            let owned = "SELECT t.name FROM pragma_table_list t, pragma_table_info(t.name) c
                WHERE t.schema = 'main' AND t.type = 'table' AND c.name = 'wallet_id'";
            let tables = tx.query_all(owned, &[], |row| Ok(row.text(0)?.to_owned()))?;
            Ok::<_, SqlError>((names, tables))
        });
        let (names, mut tables) = stored.unwrap();
        tables.sort_unstable();
        assert_eq!(GUARDS.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), names);
        assert_eq!(TABLES, tables);
    }
}
