//! Every scenario of safe deletion, on every engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use tempfile::TempDir;
use utxokeep_core::node::Policy;
use utxokeep_kv::{Durability, MemoryKv, RocksKv, RocksOptions};
use utxokeep_testkit::pruner_tests;
use utxokeep_txstore::{NodeStore, PruneStore, Settings, TABLES};

fn with(policy: Policy) -> Settings {
    Settings { policy, ..Settings::default() }
}

fn memory(policy: Policy) -> (Arc<dyn PruneStore>, Option<TempDir>) {
    let kv = MemoryKv::new(TABLES);
    (Arc::new(NodeStore::on_kv(kv, with(policy), Durability::Buffered).unwrap()), None)
}

fn rocksdb(policy: Policy) -> (Arc<dyn PruneStore>, Option<TempDir>) {
    let dir = tempfile::tempdir().unwrap();
    let kv = RocksKv::open(dir.path(), TABLES, RocksOptions::within(16 << 20), true).unwrap();
    (Arc::new(NodeStore::on_kv(kv, with(policy), Durability::Buffered).unwrap()), Some(dir))
}

pruner_tests!(on_memory, super::memory);
pruner_tests!(on_rocksdb, super::rocksdb);
