//! A fresh store on each engine.

pub(crate) mod by_item;

use std::{any::Any, path::Path, sync::Arc};

use utxokeep_kv::{Durability, MemoryKv, OpenMode, RocksKv, RocksOptions};
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, MemoryRecords, RecordStore, RedisOptions, RedisRecords,
    testing::AerospikePlace,
};
use utxokeep_sql::{Database, Durability as SqlDurability, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{
    Blobs, NodeStore, RecordContext, RecordSettings, StoreOpenError, StoreSettings, TABLES,
};

/// A store, and what has to stay while it is open.
pub(crate) struct Opened {
    pub(crate) store: NodeStore,
    pub(crate) place: Option<Box<dyn Any + Send + Sync>>,
}

pub(crate) fn memory(settings: StoreSettings) -> Opened {
    let kv = MemoryKv::new(TABLES);
    Opened { store: NodeStore::on_kv(kv, settings, Durability::Buffered).unwrap(), place: None }
}

pub(crate) fn open_rocksdb(
    dir: &Path,
    settings: StoreSettings,
    durability: Durability,
) -> NodeStore {
    try_open_rocksdb(dir, settings, durability).unwrap()
}

pub(crate) fn try_open_rocksdb(
    dir: &Path,
    settings: StoreSettings,
    durability: Durability,
) -> Result<NodeStore, StoreOpenError> {
    let kv = RocksKv::open(dir, TABLES, RocksOptions::within(16 << 20), OpenMode::Create).unwrap();
    NodeStore::on_kv(kv, settings, durability)
}

pub(crate) fn rocksdb(settings: StoreSettings) -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let store = open_rocksdb(dir.path(), settings, Durability::Buffered);
    Opened { store, place: Some(Box::new(dir)) }
}

pub(crate) fn open_sql(url: &str, settings: StoreSettings) -> NodeStore {
    open_sql_with(url, settings, SqlDurability::Synced)
}

pub(crate) fn open_sql_with(
    url: &str,
    settings: StoreSettings,
    durability: SqlDurability,
) -> NodeStore {
    let options = Options::default().with(|settings| settings.durability = durability);
    let database = Database::open(url, &options).unwrap();
    NodeStore::on_sql(database, settings, 0).unwrap()
}

pub(crate) fn try_open_sql(
    url: &str,
    settings: StoreSettings,
) -> Result<NodeStore, StoreOpenError> {
    let options = Options::default().with(|settings| settings.durability = SqlDurability::Relaxed);
    NodeStore::on_sql(Database::open(url, &options).unwrap(), settings, 0)
}

pub(crate) fn sqlite(settings: StoreSettings) -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sql(&format!("sqlite:{}", dir.path().join("db").display()), settings);
    Opened { store, place: Some(Box::new(dir)) }
}

/// A store on records, over few shards.
pub(crate) fn open_records(
    port: Arc<dyn RecordStore>,
    settings: StoreSettings,
    outputs_per_record: u32,
) -> NodeStore {
    let records = RecordSettings::default().with(|settings| {
        settings.shards = 8;
        settings.outputs_per_record = outputs_per_record;
    });
    open_records_with(port, settings, records).unwrap()
}

pub(crate) fn open_records_with(
    port: Arc<dyn RecordStore>,
    settings: StoreSettings,
    records: RecordSettings,
) -> Result<NodeStore, StoreOpenError> {
    let (context, mode) = (RecordContext::default(), OpenMode::Create);
    NodeStore::on_records(port, settings, records, context, mode)
}

pub(crate) fn records(settings: StoreSettings) -> Opened {
    let port = Arc::new(MemoryRecords::new());
    Opened { store: open_records(port, settings, 128), place: None }
}

/// A store on the cluster that all tests share; `None` where no server is installed.
pub(crate) fn redis(settings: StoreSettings) -> Option<Opened> {
    let url = utxokeep_records::testing::shared_url_or_skip("ack=replica")?;
    let port = RedisRecords::open(RedisOptions::parse(&url).unwrap()).unwrap();
    Some(Opened { store: open_records(Arc::new(port), settings, 4), place: None })
}

/// A store on the server that the environment names; `None` where it names none.
pub(crate) fn aerospike(settings: StoreSettings) -> Option<Opened> {
    let place = AerospikePlace::new_or_skip("")?;
    let port = AerospikeRecords::open(AerospikeOptions::parse(&place.url()).unwrap()).unwrap();
    let store = open_records(Arc::new(port), settings, 4);
    Some(Opened { store, place: Some(Box::new(place)) })
}

/// Two outputs in a record: most transactions have pages.
pub(crate) fn record_pages(settings: StoreSettings) -> Opened {
    let port = Arc::new(MemoryRecords::new());
    Opened { store: open_records(port, settings, 2), place: None }
}

/// `None` where no server is installed.
pub(crate) fn postgres(settings: StoreSettings) -> Option<Opened> {
    let database = TestDatabase::create_or_skip()?;
    let store = open_sql(database.url(), settings);
    Some(Opened { store, place: Some(Box::new(database)) })
}

/// Every body in a file.
pub(crate) fn blobs(settings: StoreSettings) -> Opened {
    let settings = settings.with(|settings| settings.inline_body_bytes_max = 0);
    let opened = memory(settings);
    let blobs = Blobs::open("memory:", Durability::Buffered, 5_000, OpenMode::Create).unwrap();
    Opened { store: opened.store.with_blobs(blobs), ..opened }
}

/// Every engine by its name; the last one where a server is installed.
pub(crate) fn all(settings: StoreSettings) -> Vec<(&'static str, Opened)> {
    let embedded = [
        ("memory", memory(settings)),
        ("rocksdb", rocksdb(settings)),
        ("sqlite", sqlite(settings)),
        ("records", records(settings)),
    ];
    let server = postgres(settings).map(|opened| ("postgres", opened));
    embedded.into_iter().chain(server).collect()
}
