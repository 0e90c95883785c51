//! Deletion on SQL engines beside the same rows deleted by bare statements.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use utxokeep_core::Txid;
use utxokeep_sql::{Database, Durability, Options, SqlError, Value};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{NodeStore, PruneStore, StoreSettings};

use super::{Family, Pace, families, fill, prune, rules};
use crate::output;

/// Children in all; fewer than on RocksDB, because making them takes longer.
const CHILDREN: u64 = 20_000;

pub(super) fn measure(dir: &Path) -> anyhow::Result<()> {
    output::heading("pruner on SQLite, fsync off");
    for (number, family) in families(CHILDREN).enumerate() {
        let place = dir.join(format!("prune-{number}.db"));
        measure_on(&format!("sqlite:{}", place.display()), family)?;
    }
    output::heading("pruner on PostgreSQL, fsync off");
    for family in families(CHILDREN) {
        measure_on(TestDatabase::create()?.url(), family)?;
    }
    Ok(())
}

/// Deletes the rows of these records without asking anything.
fn delete_bare(database: &Database, txids: &[Txid]) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let keys: Vec<_> = txids.iter().map(|txid| Value::from(txid.as_bytes())).collect();
    database.write(|transaction| -> Result<(), SqlError> {
        for table in ["node_inputs", "node_outputs", "node_block_ids", "node_transactions"] {
            let delete = format!("DELETE FROM {table} WHERE txid IN");
            transaction.execute_in(&delete, "", &[], 1, &keys)?;
        }
        Ok(())
    })?;
    Ok(started.elapsed())
}

/// Three ways in turn, chunk by chunk, on the same tables.
fn measure_on(url: &str, family: Family) -> anyhow::Result<()> {
    let options = Options::default().with(|settings| settings.durability = Durability::Relaxed);
    let database = Database::open(url, &options)?;
    let store = NodeStore::on_sql(database.clone(), StoreSettings::default(), 0)?;
    fill::parents(&store, family)?;
    // As a database that has been running for a while knows its tables.
    database.write(|transaction| transaction.execute_batch("ANALYZE"))?;
    let (due, chunk) = (family.due(), family.chunk());
    let [verified, unverified] = rules(due);
    let mut paces: [Pace; 3] = Default::default();
    loop {
        let page = store.due(due, None, 3 * chunk)?;
        let txids: Vec<Txid> = page.iter().map(|(_, txid)| *txid).collect();
        if txids.len() < 3 * chunk {
            break;
        }
        paces[0].add(chunk, prune(&store, &txids[..chunk], &verified)?)?;
        paces[1].add(chunk, prune(&store, &txids[chunk..2 * chunk], &unverified)?)?;
        paces[2].add(chunk, delete_bare(&database, &txids[2 * chunk..])?)?;
    }
    let [own, unverified, bare] = paces.each_ref().map(Pace::per_second);
    output::line(&format!(
        "{}: verified {own:.0}, unverified {unverified:.0} ({:.2}), bare deletes {bare:.0} ({:.2})",
        family.name(),
        own / unverified,
        own / bare
    ));
    Ok(())
}
