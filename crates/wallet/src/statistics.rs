//! What SQLite is told about the sizes of the tables.
//!
//! Without statistics it expects ten rows behind every wallet. Then it prefers to read the whole
//! wallet over an index that finds the row. Measuring would depend on the moment: an empty ledger
//! says as little. So the planner is told about wallets as they are when speed matters, and its
//! plans are the same for every ledger. Statistics that somebody measured stay.

use utxokeep_sql::{Database, Dialect, SqlError, Transaction, Value};

/// A table, an index (or the table again for its primary key), the rows in it, and the rows that
/// share the first column, the first two, and so on.
const ASSUMED: &[(&str, &str, &str)] = &[
    ("addresses", "sqlite_autoindex_addresses_1", "100000 10000 1"),
    ("addresses", "sqlite_autoindex_addresses_2", "100000 1 1"),
    ("blocks", "sqlite_autoindex_blocks_1", "50000 50000 1"),
    ("blocks", "sqlite_autoindex_blocks_2", "50000 50000 1"),
    ("descriptor_scripts", "descriptor_scripts", "100000 10000 5000 1"),
    ("descriptor_scripts", "descriptor_scripts_by_address", "100000 10000 1"),
    ("labels", "labels", "10000 1000 500 1 1"),
    ("labels", "labels_unspendable", "1000 100 1"),
    ("transactions", "sqlite_autoindex_transactions_1", "1000000 100000 1"),
    ("transactions", "sqlite_autoindex_transactions_2", "1000000 1000000 1 1"),
    ("transactions", "transactions_by_height", "1000000 100000 20 1"),
    ("transactions", "transactions_by_block", "1000000 1000000 20"),
    ("transactions", "transactions_unconfirmed", "10000 1000 1"),
    ("transactions", "transactions_by_invalidator", "1000 100 1"),
    ("transactions", "transactions_sent", "1000 100 1"),
    ("tx_inputs", "tx_inputs", "2000000 200000 2 1"),
    ("tx_inputs", "tx_inputs_one_holder", "2000000 2 1 1"),
    ("tx_inputs", "tx_inputs_waiting", "100 2 1 1"),
    ("tx_replacements", "tx_replacements", "1000 100 1 1"),
    ("tx_replacements", "tx_replacements_by_replacement", "1000 100 1"),
    ("utxo_leases", "utxo_leases", "10000 1000 1"),
    ("utxo_leases", "utxo_leases_by_expiry", "10000 1000 2"),
    ("utxo_leases", "utxo_leases_held", "1000 100 1"),
    ("utxo_leases", "utxo_leases_by_end", "10000 2 1"),
    ("utxo_marks", "utxo_marks", "1000 100 1"),
    ("utxos", "utxos", "2000000 200000 1"),
    ("utxos", "sqlite_autoindex_utxos_2", "2000000 200000 2 1"),
    ("utxos", "utxos_unspent_by_amount", "1000000 100000 2 1 1 1 1 1"),
    ("utxos", "utxos_unspent_by_age", "1000000 100000 20 1"),
    ("utxos", "utxos_one_per_input", "1000000 100000 1 1"),
    ("utxos", "utxos_by_address", "2000000 200000 20"),
];

const HAS_STATISTICS: &str = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'";
/// Measures a table of a few rows: there is no other way to make the table of statistics.
const MAKE_STATISTICS: &str = "ANALYZE chains";
const SELECT_KNOWN: &str = "SELECT 1 FROM sqlite_stat1 WHERE tbl = $1 LIMIT 1";
const INSERT: &str = "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ($1, $2, $3)";
/// Makes the open connection read the statistics again.
const READ_STATISTICS: &str = "ANALYZE sqlite_schema";

/// Tells SQLite what to assume about tables that nobody has measured.
pub(crate) fn assume(database: &Database) -> Result<(), SqlError> {
    if database.dialect() == Dialect::Postgres {
        return Ok(());
    }
    database.write(|tx| {
        if tx.query_opt(HAS_STATISTICS, &[], |_| Ok(()))?.is_none() {
            tx.execute_batch(MAKE_STATISTICS)?;
        }
        let mut is_new = false;
        for of_table in ASSUMED.chunk_by(|one, other| one.0 == other.0) {
            is_new |= assume_table(tx, of_table)?;
        }
        if is_new {
            tx.execute_batch(READ_STATISTICS)?;
        }
        Ok(())
    })
}

fn assume_table(
    tx: &mut Transaction<'_>,
    indexes: &[(&str, &str, &str)],
) -> Result<bool, SqlError> {
    let Some((table, ..)) = indexes.first() else { return Ok(false) };
    if tx.query_opt(SELECT_KNOWN, &[Value::from(*table)], |_| Ok(()))?.is_some() {
        return Ok(false);
    }
    for (table, index, rows) in indexes {
        tx.execute(INSERT, &[Value::from(*table), Value::from(*index), Value::from(*rows)])?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use utxokeep_sql::Options;

    use super::*;
    use crate::{Micros, schema};

    const INDEXES: &str = "SELECT t.name, i.name, i.origin, CAST(COUNT(c.seqno) AS BIGINT), t.wr
        FROM pragma_table_list t, pragma_index_list(t.name) i, pragma_index_info(i.name) c
        WHERE t.schema = 'main' AND t.type = 'table' GROUP BY t.name, i.name";

    fn ledger(dir: &tempfile::TempDir) -> Database {
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let database = Database::open(&url, &Options::default()).unwrap();
        schema::migrate(&database, Micros::new(0)).unwrap();
        database
    }

    #[test]
    fn every_index_of_a_table_is_described_with_all_its_columns() {
        let dir = tempfile::TempDir::new().unwrap();
        let rows = ledger(&dir).read(|tx| {
            tx.query_all(INDEXES, &[], |row| {
                let (table, index) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
                // The rows of a table without numbers lie in its primary key.
                let is_table = row.text(2)? == "pk" && row.int(4)? == 1;
                let name = if is_table { table.clone() } else { index };
                Ok(((table, name), usize::try_from(row.int(3)?).unwrap()))
            })
        });
        let stored: BTreeMap<_, _> =
            rows.map_err(|error: SqlError| error).unwrap().into_iter().collect();
        let assumed = ASSUMED.iter().map(|(table, index, rows)| {
            (((*table).to_owned(), (*index).to_owned()), rows.split(' ').count() - 1)
        });
        let assumed: BTreeMap<_, _> = assumed.collect();
        let described = |(table, _): &(String, String)| assumed.keys().any(|(of, _)| of == table);
        let stored: BTreeMap<_, _> = stored.into_iter().filter(|(key, _)| described(key)).collect();
        assert_eq!(stored, assumed);
    }

    #[test]
    fn a_wallet_is_not_read_whole_to_find_one_row() {
        let dir = tempfile::TempDir::new().unwrap();
        let explained = ledger(&dir).read(|tx| {
            let by_spender = "SELECT 1 FROM utxos
                WHERE wallet_id = $1 AND spent_by_tx_id = $2 AND parent_class < 3";
            let by_tx = "SELECT 1 FROM utxos
                WHERE wallet_id = $1 AND tx_id = $2 AND parent_class = 2";
            // Unlike any other statement, an explained one does not notice new statistics.
            tx.query_opt("SELECT 1 FROM utxos LIMIT 1", &[], |_| Ok(()))?;
            let mut plans = Vec::new();
            for statement in [by_spender, by_tx] {
                plans.push(tx.explain(statement, &[Value::from(1), Value::from(2)])?.join(" "));
            }
            Ok(plans)
        });
        let plans = explained.map_err(|error: SqlError| error).unwrap();
        assert!(plans[0].contains("utxos_one_per_input"), "{plans:?}");
        assert!(plans[1].contains("sqlite_autoindex_utxos_2"), "{plans:?}");
    }

    #[test]
    fn what_was_measured_stays() {
        let dir = tempfile::TempDir::new().unwrap();
        let database = ledger(&dir);
        let stat = "SELECT stat FROM sqlite_stat1 WHERE tbl = 'utxos' AND idx = 'utxos'";
        let changed = database.write(|tx| {
            tx.execute("UPDATE sqlite_stat1 SET stat = '7 7 1' WHERE idx = 'utxos'", &[])
        });
        assert_eq!(changed.map_err(|error: SqlError| error).unwrap(), 1);
        assume(&database).unwrap();
        let found = database.read(|tx| tx.query_one(stat, &[], |row| Ok(row.text(0)?.to_owned())));
        assert_eq!(found.map_err(|error: SqlError| error).unwrap(), "7 7 1");
    }
}
