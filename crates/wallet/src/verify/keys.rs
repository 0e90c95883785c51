//! Foreign keys, looked up one by one: a client that turned them off may have broken them, and an
//! engine checks them only when a row changes. Keys that lead to the wallet or its chain cannot be
//! broken for a wallet that is found.

use super::rules::{RESTORE, Rule, Subject};

/// Child and parent of a key, and the rule that its rows are there.
pub(super) const KEYS: &[(&str, &str, Rule)] = &[
    (
        "transactions",
        "blocks",
        Rule {
            text: "there is no transaction in a block whose row is gone",
            remedy: RESTORE,
            subject: Subject::Transaction,
            query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
                LEFT JOIN blocks b ON b.chain_id = t.chain_id AND b.height = t.block_height
                WHERE t.wallet_id = $1 AND t.block_height IS NOT NULL AND b.height IS NULL",
        },
    ),
    (
        "transactions",
        "transactions",
        Rule {
            text: "there is no transaction that another one ended, whose row is gone",
            remedy: RESTORE,
            subject: Subject::Transaction,
            query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
                LEFT JOIN transactions b ON b.wallet_id = t.wallet_id AND b.id = t.invalidated_by_tx_id
                WHERE t.wallet_id = $1 AND t.invalidated_by_tx_id IS NOT NULL AND b.id IS NULL",
        },
    ),
    (
        "tx_inputs",
        "transactions",
        Rule {
            text: "there is no input whose transaction is gone",
            remedy: RESTORE,
            subject: Subject::Transaction,
            query: "SELECT COUNT(*), MIN(i.tx_id) FROM tx_inputs i
                LEFT JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
                WHERE i.wallet_id = $1 AND t.id IS NULL",
        },
    ),
    (
        "utxos",
        "transactions",
        Rule {
            text: "there is no output whose transaction is gone",
            remedy: RESTORE,
            subject: Subject::Output,
            query: "SELECT COUNT(*), MIN(u.id) FROM utxos u
                LEFT JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
                WHERE u.wallet_id = $1 AND t.id IS NULL",
        },
    ),
    (
        "utxos",
        "addresses",
        Rule {
            text: "there is no output whose address is gone",
            remedy: RESTORE,
            subject: Subject::Output,
            query: "SELECT COUNT(*), MIN(u.id) FROM utxos u
                LEFT JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
                WHERE u.wallet_id = $1 AND a.id IS NULL",
        },
    ),
    (
        "utxos",
        "tx_inputs",
        Rule {
            text: "there is no output whose spending input is gone",
            remedy: RESTORE,
            subject: Subject::Output,
            query: "SELECT COUNT(*), MIN(u.id) FROM utxos u
                LEFT JOIN tx_inputs i ON i.wallet_id = u.wallet_id AND i.tx_id = u.spent_by_tx_id
                    AND i.input_index = u.spent_input_index
                WHERE u.wallet_id = $1 AND u.spent_by_tx_id IS NOT NULL AND i.tx_id IS NULL",
        },
    ),
    (
        "tx_replacements",
        "transactions",
        Rule {
            text: "there is no replaced transaction that is gone",
            remedy: RESTORE,
            subject: Subject::Transaction,
            query: "SELECT COUNT(*), MIN(r.replaced_tx_id) FROM tx_replacements r
                LEFT JOIN transactions t ON t.wallet_id = r.wallet_id AND t.id = r.replaced_tx_id
                WHERE r.wallet_id = $1 AND t.id IS NULL",
        },
    ),
    (
        "tx_replacements",
        "transactions",
        Rule {
            text: "there is no replacement that is gone",
            remedy: RESTORE,
            subject: Subject::Transaction,
            query: "SELECT COUNT(*), MIN(r.replacement_tx_id) FROM tx_replacements r
                LEFT JOIN transactions t ON t.wallet_id = r.wallet_id AND t.id = r.replacement_tx_id
                WHERE r.wallet_id = $1 AND t.id IS NULL",
        },
    ),
    (
        "utxo_leases",
        "utxos",
        Rule {
            text: "there is no lease whose output is gone",
            remedy: RESTORE,
            subject: Subject::Output,
            query: "SELECT COUNT(*), MIN(l.utxo_id) FROM utxo_leases l
                LEFT JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
                WHERE l.wallet_id = $1 AND u.id IS NULL",
        },
    ),
    (
        "utxo_marks",
        "utxos",
        Rule {
            text: "there is no mark whose output is gone",
            remedy: RESTORE,
            subject: Subject::Output,
            query: "SELECT COUNT(*), MIN(m.utxo_id) FROM utxo_marks m
                LEFT JOIN utxos u ON u.wallet_id = m.wallet_id AND u.id = m.utxo_id
                WHERE m.wallet_id = $1 AND u.id IS NULL",
        },
    ),
    (
        "descriptor_scripts",
        "descriptors",
        Rule {
            text: "there is no script whose keychain is gone",
            remedy: RESTORE,
            subject: Subject::Keychain,
            query: "SELECT COUNT(*), MIN(s.descriptor_id) FROM descriptor_scripts s
                LEFT JOIN descriptors d ON d.wallet_id = s.wallet_id AND d.id = s.descriptor_id
                WHERE s.wallet_id = $1 AND d.id IS NULL",
        },
    ),
    (
        "descriptor_scripts",
        "addresses",
        Rule {
            text: "there is no script whose address is gone",
            remedy: RESTORE,
            subject: Subject::Address,
            query: "SELECT COUNT(*), MIN(s.address_id) FROM descriptor_scripts s
                LEFT JOIN addresses a ON a.wallet_id = s.wallet_id AND a.id = s.address_id
                WHERE s.wallet_id = $1 AND a.id IS NULL",
        },
    ),
];

#[cfg(test)]
mod tests {
    use utxokeep_sql::{Database, Options, SqlError};

    use super::*;
    use crate::{Micros, schema};

    #[test]
    fn every_foreign_key_below_a_wallet_is_looked_up() {
        let dir = tempfile::TempDir::new().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let database = Database::open(&url, &Options::default()).unwrap();
        schema::migrate(&database, Micros::new(0)).unwrap();
        let stored = database.read(|tx| {
            let keys = "SELECT DISTINCT t.name, k.\"table\", k.id
                FROM pragma_table_list t, pragma_foreign_key_list(t.name) k
                WHERE t.schema = 'main' AND k.\"table\" NOT IN ('wallets', 'chains')";
            tx.query_all(keys, &[], |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))
        });
        let mut stored = stored.map_err(|error: SqlError| error).unwrap();
        let mut checked: Vec<(String, String)> = KEYS
            .iter()
            .map(|(child, parent, _)| ((*child).to_owned(), (*parent).to_owned()))
            .collect();
        stored.sort_unstable();
        checked.sort_unstable();
        assert_eq!(checked, stored);
    }
}
