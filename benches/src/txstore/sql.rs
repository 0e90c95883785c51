//! The node store on SQL engines, beside the same rows in bare statements.

use utxokeep_sql::{Database, Durability, Options, SqlError, Value};
use utxokeep_txstore::{NodeStore, StoreSettings};

use super::{Rates, id, numbers, parent_of, rate, rates, show};

/// Transactions that can be spent; fewer than on RocksDB, because making them takes longer.
const PARENTS: u64 = 50_000;

/// Measures pairs of batch size and clients; `place` makes an empty database and answers its URL.
pub(super) fn measure(
    sizes: &[(usize, usize)],
    place: &mut dyn FnMut() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    for (name, durability) in [("off", Durability::Relaxed), ("on", Durability::Synced)] {
        for &(batch, clients) in sizes {
            let options = Options::default().with(|settings| {
                settings.durability = durability;
                settings.connections_max = 16;
            });
            let database = Database::open(&place()?, &options)?;
            let store = NodeStore::on_sql(database.clone(), StoreSettings::default(), 0)?;
            let own = rates(&store, PARENTS, batch, clients)?;
            drop(store);
            // On the same tables, so that both work on rows of the same number.
            let bound = bound(&database, batch, clients)?;
            show(&format!("fsync {name}, batch {batch}, {clients} clients"), own, bound);
        }
    }
    Ok(())
}

/// Rows of each operation, in as few statements as they fit: no reads, no rules. Updates change rows
/// that are there, in turn.
fn bound(database: &Database, batch: usize, clients: usize) -> anyhow::Result<Rates> {
    let of = |inserts: &'static [&'static str], updates: &'static [&'static str]| {
        rate(clients, batch, &|call, batch| {
            let kind = (updates.len() as u64 + 1) << 34;
            let new: Vec<_> = numbers(call, batch).map(|number| id(number + kind)).collect();
            let turn = call % (PARENTS / batch as u64);
            let old: Vec<_> = numbers(turn, batch).map(|number| id(parent_of(number))).collect();
            let position = Value::from(i64::try_from(call)? + 1);
            database.write(|transaction| -> Result<(), SqlError> {
                for (statements, ids) in [(inserts, &new), (updates, &old)] {
                    let keys: Vec<_> = ids.iter().map(|id| Value::from(id.as_bytes())).collect();
                    for statement in statements {
                        let (head, tail) = statement.split_once('~').unwrap_or((*statement, ""));
                        let fixed = head.contains("$1").then_some(position);
                        transaction.execute_rows(head, tail, fixed.as_slice(), 1, &keys)?;
                    }
                }
                Ok(())
            })?;
            Ok(batch)
        })
    };
    Ok([
        of(&[RECORD, INPUT, OUTPUT, OUTPUT_2], &[])?,
        of(&[], &[UPDATE_RECORD, UPDATE_OUTPUT])?,
        of(&[RECORD, INPUT, OUTPUT, OUTPUT_2], &[UPDATE_RECORD, UPDATE_OUTPUT])?,
        of(&[], &[UPDATE_RECORD, BLOCK])?,
    ])
}

const RECORD: &str = "INSERT INTO node_transactions (txid, version, lock_time, fee, is_coinbase, \
     blob, outputs, created_at_ms, is_conflicting, is_locked, utxos, spent, unmined_since, \
     blocks, conflicting_children, reassignments, deleted_children) \
     SELECT column1, 1, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 100, 0, 0, 0, 0 FROM (VALUES~) AS v";
const INPUT: &str = "INSERT INTO node_inputs (txid, vin, previous_txid, previous_vout, \
     previous_satoshis, previous_script, script, sequence) \
     SELECT column1, 0, column1, 0, 1000, column1, column1, 0 FROM (VALUES~) AS v";
const OUTPUT: &str = "INSERT INTO node_outputs (txid, vout, satoshis, script, utxo_hash, \
     is_frozen) SELECT column1, 0, 1000, column1, column1, 0 FROM (VALUES~) AS v";
const OUTPUT_2: &str = "INSERT INTO node_outputs (txid, vout, satoshis, script, utxo_hash, \
     is_frozen) SELECT column1, 1, 1000, column1, column1, 0 FROM (VALUES~) AS v";
const UPDATE_RECORD: &str = "UPDATE node_transactions SET created_at_ms = created_at_ms + 1 FROM (VALUES~) AS v \
     WHERE txid = v.column1";
const UPDATE_OUTPUT: &str = "UPDATE node_outputs SET spendable_at = COALESCE(spendable_at, 0) + 1 FROM (VALUES~) AS v \
     WHERE txid = v.column1 AND vout = 0";
const BLOCK: &str = "INSERT INTO node_block_ids (txid, position, block_id, block_height, \
     subtree_idx) SELECT column1, $1, 1, 100, 0 FROM (VALUES~) AS v";
