//! What a transaction costs on each engine: bytes at rest, and time to create and to spend.
//!
//! A transaction here has one input and two outputs, with scripts of the usual lengths, and is held as
//! nodes hold it: created and unspent, then with one of two outputs spent and mined.
//! `UTXOKEEP_COST_TXS` sets how many are made (2,000 otherwise, which says little about bytes).

use std::{any::Any, path::Path, sync::Arc, time::Instant};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, NodeInput, NodeOutput, NodeTx, PreviousOutput, SpendFlags, SpendRequest,
    },
};
use utxokeep_kv::{Durability, OpenMode};
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, RecordStore, RedisOptions, RedisRecords,
    testing::{AerospikePlace, shared_url_or_skip},
};
use utxokeep_sql::{Database, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{NodeStore, RecordContext, RecordSettings, StoreSettings, TxStore as _};

use crate::engines;

const AT_ONCE: usize = 1_000;

fn txid(kind: u8, number: u64) -> Txid {
    // Ids of real transactions are random; so is where they lie.
    let mut bytes = [0; 32];
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(kind);
    for chunk in bytes.chunks_mut(8) {
        state ^= state >> 30;
        state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x1234_5678_9abc_def1);
        state ^= state >> 27;
        chunk.copy_from_slice(&state.to_be_bytes());
    }
    Txid::from_bytes(bytes)
}

fn tx(kind: u8, number: u64, spends: OutPoint) -> NodeTx {
    let output = |satoshis| NodeOutput { satoshis, script: vec![0x76; 25] };
    let previous = Some(PreviousOutput { satoshis: 2_000, script: vec![0x76; 25] });
    let input = NodeInput { outpoint: spends, script: vec![7; 107], sequence: u32::MAX, previous };
    let (inputs, outputs) = (vec![input], vec![output(2_000), output(2_500)]);
    NodeTx {
        txid: txid(kind, number),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs,
        outputs,
    }
}

fn parent(number: u64) -> NodeTx {
    tx(1, number, OutPoint::new(txid(0, number), 0))
}

fn child(number: u64) -> NodeTx {
    tx(2, number, OutPoint::new(txid(1, number), 0))
}

/// Creates and spends; microseconds for each.
fn work(store: &NodeStore, count: u32) -> (f64, f64) {
    let height = Height::new(800_000);
    let micros = |since: Instant| since.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    let started = Instant::now();
    for first in (0..count).step_by(AT_ONCE) {
        let numbers = (first..count).take(AT_ONCE).map(u64::from);
        let txs: Vec<_> = numbers.map(|n| (parent(n), CreateOptions::default())).collect();
        assert!(store.create(&txs, height).unwrap().iter().all(Result::is_ok));
    }
    let created = micros(started);
    let started = Instant::now();
    for first in (0..count).step_by(AT_ONCE) {
        let numbers = (first..count).take(AT_ONCE).map(u64::from);
        let spends: Vec<_> = numbers
            .map(|n| SpendRequest::of(&child(n), height, SpendFlags::default()).unwrap())
            .collect();
        assert!(store.spend(&spends).unwrap().iter().all(Result::is_ok));
    }
    (created, micros(started))
}

/// A store, and how to ask for its bytes.
struct Weighed {
    engine: &'static str,
    store: NodeStore,
    bytes: Box<dyn Fn() -> u64>,
    _place: Box<dyn Any>,
}

fn dir_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries.map(|entry| entry.metadata().unwrap().len()).sum()
}

fn embedded(settings: StoreSettings) -> [Weighed; 2] {
    ["rocksdb", "sqlite"].map(|engine| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let store = if engine == "rocksdb" {
            engines::open_rocksdb(&path, settings, Durability::Synced)
        } else {
            engines::open_sql(&format!("sqlite:{}", path.join("db").display()), settings)
        };
        Weighed { engine, store, bytes: Box::new(move || dir_bytes(&path)), _place: Box::new(dir) }
    })
}

fn postgres(settings: StoreSettings) -> Option<Weighed> {
    let database = TestDatabase::create_or_skip()?;
    let store = engines::open_sql(database.url(), settings);
    let asked = Database::open(database.url(), &Options::default()).unwrap();
    let sql = "SELECT pg_database_size(current_database())";
    let bytes =
        move || asked.read(|tx| tx.query_one(sql, &[], |row| row.int(0))).unwrap().cast_unsigned();
    let (bytes, place) = (Box::new(bytes), Box::new(database));
    Some(Weighed { engine: "postgres", store, bytes, _place: place })
}

fn on_records(
    engine: &'static str,
    settings: StoreSettings,
    port: Arc<dyn RecordStore>,
    place: Box<dyn Any>,
) -> Weighed {
    let (context, mode) = (RecordContext::default(), OpenMode::Create);
    let records = RecordSettings::default();
    let asked = Arc::clone(&port);
    let bytes = Box::new(move || asked.stored_bytes().unwrap().unwrap());
    let store = NodeStore::on_records(port, settings, records, context, mode).unwrap();
    Weighed { engine, store, bytes, _place: place }
}

fn redis(settings: StoreSettings) -> Option<Weighed> {
    let url = shared_url_or_skip("ack=replica")?;
    let port = RedisRecords::open(RedisOptions::parse(&url).unwrap()).unwrap();
    Some(on_records("redis", settings, Arc::new(port), Box::new(())))
}

fn aerospike(settings: StoreSettings) -> Option<Weighed> {
    let place = AerospikePlace::new_or_skip("")?;
    let port = AerospikeRecords::open(AerospikeOptions::parse(&place.url()).unwrap()).unwrap();
    Some(on_records("aerospike", settings, Arc::new(port), Box::new(place)))
}

#[test]
fn what_a_transaction_costs_is_printed_for_every_engine() {
    let count: u32 = std::env::var("UTXOKEEP_COST_TXS").map_or(2_000, |n| n.parse().unwrap());
    let settings = StoreSettings::default();
    let servers = [postgres(settings), redis(settings), aerospike(settings)];
    for weighed in embedded(settings).into_iter().chain(servers.into_iter().flatten()) {
        let Weighed { engine, store, bytes, .. } = &weighed;
        let before = bytes();
        let (created, spent) = work(store, count);
        let each = bytes().saturating_sub(before) / u64::from(count);
        eprintln!(
            "{engine}: {count} transactions, {each} bytes each, {created:.1} us to create, \
             {spent:.1} us to spend"
        );
    }
}
