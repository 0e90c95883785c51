//! Long random histories: a plain model beside every engine, which is closed and opened again now
//! and then. After every step the records agree, and recounting finds nothing wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod model;

use std::path::Path;

use model::{Model, Op, Random};
use utxokeep_core::node::Policy;
use utxokeep_kv::{Durability, Kv, MemoryKv, RocksKv, RocksOptions};
use utxokeep_txstore::{Fields, KvTxStore, TABLES, TxStore};

const STEPS: usize = 5_000;

fn policy() -> Policy {
    Policy {
        retention_blocks: 10,
        coinbase_maturity: 3,
        unmined_retention_blocks: 4,
        conflict_walk_max: 100,
    }
}

/// One step on store and model; both must say the same.
fn step(store: &dyn TxStore, model: &mut Model, op: &Op, context: &str) {
    let said = model::apply(store, op);
    let expected = model.apply(op);
    assert_eq!(said, expected, "{context}: {op:?}");
    for txid in model.touched(op) {
        let fields = Fields { body: false, slots: true };
        let stored = store.get(&[txid], fields).unwrap().remove(0);
        assert_eq!(stored.map(model::shown), model.shown(&txid), "{context}: {op:?}");
    }
}

fn run<K: Kv>(seed: u64, mut open: impl FnMut(Option<KvTxStore<K>>) -> KvTxStore<K>) {
    let mut random = Random::new(seed);
    let mut model = Model::new(policy());
    let mut store = open(None);
    for number in 0..STEPS {
        let op = model.choose(&mut random);
        step(&store, &mut model, &op, &format!("seed {seed:#x}, step {number}"));
        if random.below(500) == 0 {
            store = open(Some(store));
        }
        if number % 250 == 0 {
            let report = store.verify().unwrap();
            let unknown = |finding: &utxokeep_txstore::Finding| finding.detail.contains("unknown");
            let wrong: Vec<_> = report.findings.iter().filter(|f| !unknown(f)).collect();
            assert!(wrong.is_empty(), "seed {seed:#x}, step {number}: {wrong:?}");
        }
    }
}

#[test]
fn any_history_agrees_with_the_model_in_memory() {
    for seed in [1, 2, 3] {
        run(seed, |store| {
            store.unwrap_or_else(|| {
                let kv = MemoryKv::new(TABLES);
                KvTxStore::open(kv, policy(), Durability::Buffered).unwrap()
            })
        });
    }
}

#[test]
fn any_history_agrees_with_the_model_on_rocksdb() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        let kv = RocksKv::open(path, TABLES, RocksOptions::within(16 << 20), true).unwrap();
        KvTxStore::open(kv, policy(), Durability::Buffered).unwrap()
    };
    for seed in [4, 5] {
        let path = dir.path().join(seed.to_string());
        run(seed, |store| {
            drop(store);
            open(&path)
        });
    }
}
