//! The node store on SQL engines, beside the same rows in bare statements.

use utxokeep_sql::{Database, Durability, Options, SqlError, Value};
use utxokeep_txstore::{NodeStore, Settings};

use super::{Rates, id, numbers, rate, rates, show};

/// Transactions that can be spent; fewer than on RocksDB, because making them takes longer.
const PARENTS: u64 = 50_000;

/// Measures pairs of batch size and clients; `place` makes an empty database and answers its URL.
pub(super) fn measure(
    sizes: &[(usize, usize)],
    place: &mut dyn FnMut() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    for (name, durability) in [("off", Durability::Relaxed), ("on", Durability::Synced)] {
        for &(batch, clients) in sizes {
            let options = Options { durability, connections_max: 16, ..Options::default() };
            let database = Database::open(&place()?, &options)?;
            let store = NodeStore::on_sql(database, Settings::default(), 0)?;
            let own = rates(&store, PARENTS, batch, clients)?;
            drop(store);
            let bare = Database::open(&place()?, &options)?;
            let bound = bound(&bare, batch, clients)?;
            show(&format!("fsync {name}, batch {batch}, {clients} clients"), own, bound);
        }
    }
    Ok(())
}

/// Rows of each operation, in as few statements as they fit: no reads, no rules.
fn bound(database: &Database, batch: usize, clients: usize) -> anyhow::Result<Rates> {
    let settings = Settings::default();
    drop(NodeStore::on_sql(database.clone(), settings, 0)?);
    let rows = |call, batch| numbers(call, batch).map(id).collect::<Vec<_>>();
    // Each insert has numbers of its own; updates hit what the first inserted.
    let of = |statements: &'static [&'static str], from: u64| {
        rate(clients, batch, &|call, batch| {
            let ids = rows(call + from, batch);
            let keys: Vec<_> = ids.iter().map(|id| Value::from(id.as_bytes())).collect();
            database.write(|transaction| -> Result<(), SqlError> {
                for statement in statements {
                    let (head, tail) = statement.split_once('~').unwrap_or((*statement, ""));
                    transaction.execute_rows(head, tail, &[], 1, &keys)?;
                }
                Ok(())
            })?;
            Ok(batch)
        })
    };
    Ok([
        of(&[RECORD, INPUT, OUTPUT, OUTPUT_2], 0)?,
        of(&[UPDATE_RECORD, UPDATE_OUTPUT], 0)?,
        of(&[RECORD, INPUT, OUTPUT, OUTPUT_2, UPDATE_RECORD, UPDATE_OUTPUT], 1 << 30)?,
        of(&[UPDATE_RECORD, BLOCK], 0)?,
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
const UPDATE_RECORD: &str = "UPDATE node_transactions SET spent = 1 FROM (VALUES~) AS v \
     WHERE txid = v.column1";
const UPDATE_OUTPUT: &str = "UPDATE node_outputs SET spendable_at = 1 FROM (VALUES~) AS v \
     WHERE txid = v.column1 AND vout = 0";
const BLOCK: &str = "INSERT INTO node_block_ids (txid, position, block_id, block_height, \
     subtree_idx) SELECT column1, 0, 1, 100, 0 FROM (VALUES~) AS v \
     WHERE true ON CONFLICT (txid, position) DO NOTHING";
