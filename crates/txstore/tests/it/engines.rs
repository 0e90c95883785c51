//! A fresh store on each engine.

pub(crate) mod by_item;

use std::{any::Any, path::Path};

use utxokeep_kv::{Durability, MemoryKv, OpenMode, RocksKv, RocksOptions};
use utxokeep_sql::{Database, Durability as SqlDurability, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{Blobs, NodeStore, Settings, TABLES};

/// A store, and what has to stay while it is open.
pub(crate) struct Opened {
    pub(crate) store: NodeStore,
    pub(crate) place: Option<Box<dyn Any + Send + Sync>>,
}

pub(crate) fn memory(settings: Settings) -> Opened {
    let kv = MemoryKv::new(TABLES);
    Opened { store: NodeStore::on_kv(kv, settings, Durability::Buffered).unwrap(), place: None }
}

pub(crate) fn open_rocksdb(dir: &Path, settings: Settings, durability: Durability) -> NodeStore {
    let kv = RocksKv::open(dir, TABLES, RocksOptions::within(16 << 20), OpenMode::Create).unwrap();
    NodeStore::on_kv(kv, settings, durability).unwrap()
}

pub(crate) fn rocksdb(settings: Settings) -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let store = open_rocksdb(dir.path(), settings, Durability::Buffered);
    Opened { store, place: Some(Box::new(dir)) }
}

pub(crate) fn open_sql(url: &str, settings: Settings) -> NodeStore {
    open_sql_with(url, settings, SqlDurability::Synced)
}

pub(crate) fn open_sql_with(url: &str, settings: Settings, durability: SqlDurability) -> NodeStore {
    let options = Options { durability, ..Options::default() };
    let database = Database::open(url, &options).unwrap();
    NodeStore::on_sql(database, settings, 0).unwrap()
}

pub(crate) fn sqlite(settings: Settings) -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sql(&format!("sqlite:{}", dir.path().join("db").display()), settings);
    Opened { store, place: Some(Box::new(dir)) }
}

/// `None` where no server is installed.
pub(crate) fn postgres(settings: Settings) -> Option<Opened> {
    let database = TestDatabase::create_or_skip()?;
    let store = open_sql(database.url(), settings);
    Some(Opened { store, place: Some(Box::new(database)) })
}

/// Every body in a file.
pub(crate) fn blobs(settings: Settings) -> Opened {
    let settings = Settings { inline_body_bytes_max: 0, ..settings };
    let opened = memory(settings);
    let blobs = Blobs::open("memory:", Durability::Buffered, 5_000, OpenMode::Create).unwrap();
    Opened { store: opened.store.with_blobs(blobs), ..opened }
}

/// Every engine by its name; the last one where a server is installed.
pub(crate) fn all(settings: Settings) -> Vec<(&'static str, Opened)> {
    let embedded = [
        ("memory", memory(settings)),
        ("rocksdb", rocksdb(settings)),
        ("sqlite", sqlite(settings)),
    ];
    let server = postgres(settings).map(|opened| ("postgres", opened));
    embedded.into_iter().chain(server).collect()
}
