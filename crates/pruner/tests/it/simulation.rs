//! Seeds that no deletion may break, and mistakes that every seed must find.
//!
//! `UTXOKEEP_SIM_SEEDS` and `UTXOKEEP_SIM_BLOCKS` make it as long as a night.

use std::sync::Arc;

use utxokeep_core::node::Check;
use utxokeep_kv::{Durability, MemoryKv, OpenMode, RocksKv, RocksOptions};
use utxokeep_records::{RedisOptions, RedisRecords};
use utxokeep_sql::{Database, Options};
use utxokeep_testkit::pruner::{OrdersConfig, SimulationConfig, any_order, simulate};
use utxokeep_txstore::{
    KvOptions, NodeStore, ProofFault, PruneStore, RecordContext, RecordSettings, StoreSettings,
    TABLES,
};

/// A mistake that was planted is found long before: it ends with the first finding.
const PLANTED_BLOCKS: u32 = 5_000;

fn settings() -> StoreSettings {
    StoreSettings::default().with(|settings| settings.policy = SimulationConfig::policy())
}

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn seeds(default: u32) -> std::ops::Range<u64> {
    0..u64::from(number("UTXOKEEP_SIM_SEEDS", default))
}

fn in_memory(config: SimulationConfig) -> Result<(), String> {
    in_memory_with(config, Durability::Buffered.into(), |store| store)
}

fn in_memory_with(
    config: SimulationConfig,
    options: KvOptions,
    change: fn(NodeStore) -> NodeStore,
) -> Result<(), String> {
    simulate(config, &mut |store: Option<Arc<dyn PruneStore>>| {
        store.unwrap_or_else(|| {
            let kv = MemoryKv::new(TABLES);
            let store = NodeStore::on_kv(kv, settings(), options).unwrap();
            Arc::new(change(store))
        })
    })
}

#[test]
fn no_seed_breaks_an_invariant() {
    let blocks = number("UTXOKEEP_SIM_BLOCKS", 150);
    for seed in seeds(8) {
        in_memory(SimulationConfig { seed, blocks, planted: None }).unwrap();
    }
}

/// With little memory most of what is known is forgotten again and its rows are trimmed; without
/// any, every child is read.
#[test]
fn no_seed_breaks_an_invariant_whatever_memory_there_is_for_settled_children() {
    let blocks = number("UTXOKEEP_SIM_BLOCKS", 150);
    for seed in seeds(2) {
        let config = SimulationConfig { seed: seed + (1 << 33), blocks, planted: None };
        for proof_bytes_max in [2_500, 0] {
            let options = KvOptions { proof_bytes_max, ..Durability::Buffered.into() };
            in_memory_with(config, options, |store| store).unwrap();
        }
    }
}

/// A journal that does not say who left: every reorganisation is a trap.
#[test]
fn every_seed_finds_a_journal_that_does_not_say_who_left() {
    for seed in seeds(4) {
        let config = SimulationConfig { seed, blocks: PLANTED_BLOCKS, planted: None };
        let found = in_memory_with(config, Durability::Buffered.into(), |store| {
            store.unsafe_with(ProofFault::LeavingNotWritten)
        });
        assert!(found.is_err(), "seed {seed}: nobody noticed");
    }
}

#[test]
fn no_seed_breaks_an_invariant_on_rocksdb_reopened_again_and_again() {
    let blocks = number("UTXOKEEP_SIM_BLOCKS", 150);
    for seed in seeds(1) {
        let dir = tempfile::tempdir().unwrap();
        let config = SimulationConfig { seed: seed + (1 << 32), blocks, planted: None };
        simulate(config, &mut |store| {
            drop(store);
            let options = RocksOptions::within(16 << 20);
            let kv = RocksKv::open(dir.path(), TABLES, options, OpenMode::Create).unwrap();
            Arc::new(NodeStore::on_kv(kv, settings(), Durability::Buffered).unwrap())
        })
        .unwrap();
    }
}

/// A part of the blocks: each of them is many round trips that wait for replicas.
#[test]
fn no_seed_breaks_an_invariant_on_a_cluster() {
    let Some(url) = utxokeep_records::testing::shared_url_or_skip("ack=replica") else { return };
    let port = Arc::new(RedisRecords::open(RedisOptions::parse(&url).unwrap()).unwrap());
    let blocks = number("UTXOKEEP_SIM_BLOCKS", 150) / 5;
    let config = SimulationConfig { seed: 1 << 34, blocks, planted: None };
    simulate(config, &mut |store| {
        drop(store);
        let records = RecordSettings::default().with(|settings| settings.shards = 8);
        let (port, context) = (Arc::clone(&port), RecordContext::default());
        Arc::new(
            NodeStore::on_records(port, settings(), records, context, OpenMode::Create).unwrap(),
        )
    })
    .unwrap();
}

/// Each check of the verdict is left out in turn, and every seed finds out. `Outputs` guards
/// against counters that drifted, which no sequence of calls produces: its test is beside the rule.
#[test]
fn every_planted_mistake_is_found_by_every_seed() {
    for check in Check::ALL.into_iter().filter(|check| *check != Check::Outputs) {
        for seed in seeds(4) {
            let config = SimulationConfig { seed, blocks: PLANTED_BLOCKS, planted: Some(check) };
            let found = in_memory(config);
            assert!(found.is_err(), "seed {seed}: nobody noticed that {check:?} was left out");
        }
    }
}

/// Calls in any order on several engines: the same answers everywhere, rehearsals that tell the truth,
/// and nothing goes that a child needs.
#[test]
fn no_order_of_calls_takes_away_what_a_child_needs() {
    let settings =
        || StoreSettings::default().with(|settings| settings.policy = OrdersConfig::policy());
    let steps = number("UTXOKEEP_ORDER_STEPS", 400);
    let first = u64::from(number("UTXOKEEP_ORDER_SEED", 1));
    for seed in first..first + u64::from(number("UTXOKEEP_ORDERS", 20)) {
        let kv = MemoryKv::new(TABLES);
        let memory = NodeStore::on_kv(kv, settings(), Durability::Buffered).unwrap();
        let mut stores: Vec<Arc<dyn PruneStore>> = vec![Arc::new(memory)];
        let dir = tempfile::tempdir().unwrap();
        if seed % 5 == 0 {
            let options = RocksOptions::within(16 << 20);
            let path = dir.path().join("rocks");
            let kv = RocksKv::open(&path, TABLES, options, OpenMode::Create).unwrap();
            stores.push(Arc::new(NodeStore::on_kv(kv, settings(), Durability::Buffered).unwrap()));
            let url = format!("sqlite:{}", dir.path().join("db").display());
            let database = Database::open(&url, &Options::default()).unwrap();
            stores.push(Arc::new(NodeStore::on_sql(database, settings(), 0).unwrap()));
        }
        if let Err(what) = any_order(OrdersConfig { seed, steps }, stores) {
            panic!("{what}\n\nrun it again: UTXOKEEP_ORDER_SEED={seed} UTXOKEEP_ORDERS=1");
        }
    }
}
