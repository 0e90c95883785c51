//! Every scenario of safe deletion, on every engine.

#![allow(clippy::unnecessary_wraps, reason = "an engine may be missing")]

mod circles;

use std::sync::Arc;

use utxokeep_core::node::Policy;
use utxokeep_kv::{Durability, MemoryKv, OpenMode, RocksKv, RocksOptions};
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, MemoryRecords, RedisOptions, RedisRecords,
    testing::AerospikePlace,
};
use utxokeep_sql::{Database, Options};
use utxokeep_testkit::{postgres::TestDatabase, pruner::OpenedPruneStore, pruner_tests};
use utxokeep_txstore::{Blobs, NodeStore, RecordContext, RecordSettings, StoreSettings, TABLES};

fn with(policy: Policy) -> StoreSettings {
    StoreSettings::default().with(|settings| settings.policy = policy)
}

fn memory(policy: Policy) -> Option<OpenedPruneStore> {
    let kv = MemoryKv::new(TABLES);
    let store = NodeStore::on_kv(kv, with(policy), Durability::Buffered).unwrap();
    Some((Arc::new(store), None))
}

/// Every body in a file.
fn files(policy: Policy) -> Option<OpenedPruneStore> {
    let settings = with(policy).with(|settings| settings.inline_body_bytes_max = 0);
    let kv = MemoryKv::new(TABLES);
    let blobs = Blobs::open("memory:", Durability::Buffered, 5_000, OpenMode::Create).unwrap();
    let store = NodeStore::on_kv(kv, settings, Durability::Buffered).unwrap();
    Some((Arc::new(store.with_blobs(blobs)), None))
}

fn rocksdb(policy: Policy) -> Option<OpenedPruneStore> {
    let dir = tempfile::tempdir().unwrap();
    let kv = RocksKv::open(dir.path(), TABLES, RocksOptions::within(16 << 20), OpenMode::Create)
        .unwrap();
    let store = NodeStore::on_kv(kv, with(policy), Durability::Buffered).unwrap();
    Some((Arc::new(store), Some(Box::new(dir))))
}

/// Two outputs in a record: many transactions have pages.
fn records(policy: Policy) -> Option<OpenedPruneStore> {
    let records = RecordSettings::default().with(|settings| {
        settings.shards = 8;
        settings.outputs_per_record = 2;
    });
    let port = Arc::new(MemoryRecords::new());
    let context = RecordContext::default();
    let store = NodeStore::on_records(port, with(policy), records, context, OpenMode::Create);
    Some((Arc::new(store.unwrap()), None))
}

/// The same on the cluster that all tests share; `None` where no server is installed.
fn redis(policy: Policy) -> Option<OpenedPruneStore> {
    let url = utxokeep_records::testing::shared_url_or_skip("ack=replica")?;
    let records = RecordSettings::default().with(|settings| {
        settings.shards = 8;
        settings.outputs_per_record = 2;
    });
    let port = Arc::new(RedisRecords::open(RedisOptions::parse(&url).unwrap()).unwrap());
    let context = RecordContext::default();
    let store = NodeStore::on_records(port, with(policy), records, context, OpenMode::Create);
    Some((Arc::new(store.unwrap()), None))
}

/// Where the environment names a server.
fn aerospike(policy: Policy) -> Option<OpenedPruneStore> {
    let place = AerospikePlace::new_or_skip("")?;
    let records = RecordSettings::default().with(|settings| {
        settings.shards = 8;
        settings.outputs_per_record = 2;
    });
    let port = AerospikeRecords::open(AerospikeOptions::parse(&place.url()).unwrap()).unwrap();
    let (port, context) = (Arc::new(port), RecordContext::default());
    let store = NodeStore::on_records(port, with(policy), records, context, OpenMode::Create);
    Some((Arc::new(store.unwrap()), Some(Box::new(place))))
}

fn sql(url: &str, policy: Policy) -> Arc<NodeStore> {
    let database = Database::open(url, &Options::default()).unwrap();
    Arc::new(NodeStore::on_sql(database, with(policy), 0).unwrap())
}

fn sqlite(policy: Policy) -> Option<OpenedPruneStore> {
    let dir = tempfile::tempdir().unwrap();
    let store = sql(&format!("sqlite:{}", dir.path().join("db").display()), policy);
    Some((store, Some(Box::new(dir))))
}

fn postgres(policy: Policy) -> Option<OpenedPruneStore> {
    let database = TestDatabase::create_or_skip()?;
    let store = sql(database.url(), policy);
    Some((store, Some(Box::new(database))))
}

pruner_tests!(on_memory, super::memory);
pruner_tests!(with_files, super::files);
pruner_tests!(on_rocksdb, super::rocksdb);
pruner_tests!(on_sqlite, super::sqlite);
pruner_tests!(on_records, super::records);
pruner_tests!(on_a_cluster, super::redis);
pruner_tests!(on_aerospike, super::aerospike);
pruner_tests!(on_postgres, super::postgres);
