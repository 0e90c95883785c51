//! Every scenario of the conformance suite, on every engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tempfile::TempDir;
use utxokeep_core::node::Policy;
use utxokeep_kv::{Durability, MemoryKv, RocksKv, RocksOptions};
use utxokeep_testkit::conformance_tests;
use utxokeep_txstore::{KvTxStore, TABLES, TxStore};

fn memory(policy: Policy) -> (Box<dyn TxStore>, Option<TempDir>) {
    let kv = MemoryKv::new(TABLES);
    (Box::new(KvTxStore::open(kv, policy, Durability::Buffered).unwrap()), None)
}

fn rocksdb(policy: Policy) -> (Box<dyn TxStore>, Option<TempDir>) {
    let dir = tempfile::tempdir().unwrap();
    let kv = RocksKv::open(dir.path(), TABLES, RocksOptions::within(16 << 20), true).unwrap();
    (Box::new(KvTxStore::open(kv, policy, Durability::Buffered).unwrap()), Some(dir))
}

conformance_tests!(on_memory, super::memory);
conformance_tests!(on_rocksdb, super::rocksdb);
