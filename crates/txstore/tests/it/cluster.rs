//! The node store on a real cluster of three primaries and three replicas: creations that stop
//! halfway, servers that fail under load, and transactions of a million outputs.
//!
//! `UTXOKEEP_CLUSTER_ROUNDS` sets how often each kind of fault strikes, `UTXOKEEP_SEED` the seed of
//! the callers.

mod creation;
mod faults;
mod health;
mod ledger;
mod lists;
mod load;
mod million;
mod sides;
mod sweep;

use std::sync::Arc;

use utxokeep_kv::OpenMode;
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, RecordStore, RedisOptions, RedisRecords,
};
use utxokeep_txstore::{NodeStore, RecordContext, RecordFaults, RecordSettings, StoreSettings};

/// Few shards and small records: most transactions have several records, on several servers.
fn record_settings() -> RecordSettings {
    RecordSettings::default().with(|settings| {
        settings.shards = 64;
        settings.outputs_per_record = 4;
        settings.call_deadline_ms = 1_500;
        settings.wait_ms_max = 6_000;
    })
}

fn connect(url: &str) -> Arc<dyn RecordStore> {
    if url.starts_with("aerospike") {
        return Arc::new(AerospikeRecords::open(AerospikeOptions::parse(url).unwrap()).unwrap());
    }
    Arc::new(RedisRecords::open(RedisOptions::parse(url).unwrap()).unwrap())
}

/// A program of its own over the records.
fn open(port: &Arc<dyn RecordStore>, faults: &RecordFaults) -> NodeStore {
    try_open(Arc::clone(port), faults).unwrap()
}

fn try_open(
    port: Arc<dyn RecordStore>,
    faults: &RecordFaults,
) -> Result<NodeStore, utxokeep_txstore::StoreOpenError> {
    let context = RecordContext { faults: faults.clone(), ..RecordContext::default() };
    let (settings, mode) = (StoreSettings::default(), OpenMode::Create);
    NodeStore::on_records(port, settings, record_settings(), context, mode)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
