//! The node store: operations per second by batch size and clients, beside the bound.

mod sql;

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeInput, NodeOutput, NodeTx, PreviousOutput,
        SpendFlags, SpendRequest,
    },
};
use utxokeep_kv::{Batch, Durability, Kv, OpenMode, RocksKv, RocksOptions, TableId, Use};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{NodeStore, StoreSettings, TABLES, TxStore};

use crate::output;

/// How long each measurement lasts.
const LASTS: Duration = Duration::from_millis(1_500);
/// Transactions that can be spent.
const PARENTS: u64 = 250_000;
const HEIGHT: Height = Height::new(100);

/// What one client does with one batch; answers how many operations that were.
type Work<'w> = dyn Fn(u64, usize) -> anyhow::Result<usize> + Sync + 'w;

fn id(number: u64) -> Txid {
    let mut bytes = [0; 32];
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for chunk in bytes.chunks_exact_mut(8) {
        z = (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(number);
        chunk.copy_from_slice(&z.to_le_bytes());
    }
    Txid::from_bytes(bytes)
}

/// A transaction of the usual size: one input, two outputs.
fn tx(number: u64, parent: u64) -> NodeTx {
    let output = || NodeOutput { satoshis: 1_000, script: vec![0x76; 25] };
    NodeTx {
        txid: id(number),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: vec![NodeInput {
            outpoint: OutPoint::new(id(parent), 0),
            script: vec![0x48; 107],
            sequence: u32::MAX,
            previous: Some(PreviousOutput { satoshis: 1_000, script: vec![0x76; 25] }),
        }],
        outputs: vec![output(), output()],
    }
}

/// Lets clients work for a while; answers operations per second.
fn rate(clients: usize, batch: usize, work: &Work<'_>) -> anyhow::Result<f64> {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    thread::scope(|scope| {
        let client = || -> anyhow::Result<()> {
            while started.elapsed() < LASTS {
                let number = next.fetch_add(1, Ordering::Relaxed);
                done.fetch_add(work(number, batch)? as u64, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("clients do not panic"))
    })?;
    let done = u32::try_from(done.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
    Ok(f64::from(done) / started.elapsed().as_secs_f64())
}

/// Numbers of the transactions of a batch. Parents come from a range of their own.
fn numbers(call: u64, batch: usize) -> impl Iterator<Item = u64> {
    let first = call * batch as u64;
    (first..first + batch as u64).map(|number| number + (1 << 40))
}

fn parent_of(number: u64) -> u64 {
    number + (1 << 41)
}

/// What is measured of a store: create, spend, spend and create, set mined.
const OPERATIONS: [&str; 4] = ["create", "spend", "spend and create", "set mined"];

/// Operations per second of each kind.
type Rates = [f64; 4];

pub(crate) fn measure(dir: &Path) -> anyhow::Result<()> {
    measure_rocksdb(dir)?;
    output::heading("node store on SQLite: operations per second (and ratio to the bound)");
    let mut number = 0;
    sql::measure(&[(1, 1), (1, 8), (100, 1), (1_000, 1), (1_000, 8)], &mut || {
        number += 1;
        Ok(format!("sqlite:{}", dir.join(format!("node-{number}.db")).display()))
    })?;
    output::heading("node store on PostgreSQL: operations per second (and ratio to the bound)");
    let mut databases = Vec::new();
    sql::measure(&[(1, 1), (1, 8), (100, 1), (1_000, 1), (1_000, 8)], &mut || {
        databases.push(TestDatabase::create()?);
        Ok(databases.last().map(|database| database.url().to_owned()).unwrap_or_default())
    })
}

fn measure_rocksdb(dir: &Path) -> anyhow::Result<()> {
    output::heading("node store on RocksDB: operations per second (and ratio to the bound)");
    for (name, durability) in [("off", Durability::Buffered), ("on", Durability::Synced)] {
        for (batch, clients) in
            [(1, 1), (1, 8), (1, 64), (100, 1), (100, 8), (1_000, 1), (1_000, 8)]
        {
            let place = dir.join(format!("txstore-{name}-{batch}-{clients}"));
            let options = || RocksOptions::within(256 << 20).for_use(Use::ManyWriters);
            let kv = RocksKv::open(&place.join("store"), TABLES, options(), OpenMode::Create)?;
            let store = NodeStore::on_kv(kv, StoreSettings::default(), durability)?;
            let own = rates(&store, PARENTS, batch, clients)?;
            drop(store);
            let bare = RocksKv::open(&place.join("bound"), TABLES, options(), OpenMode::Create)?;
            let bound = bound(&bare, durability, batch, clients)?;
            show(&format!("fsync {name}, batch {batch}, {clients} clients"), own, bound);
            std::fs::remove_dir_all(&place)?;
        }
    }
    Ok(())
}

fn show(what: &str, own: Rates, bound: Rates) {
    let one = |at: usize| {
        let (name, own, bound) = (OPERATIONS[at], own[at], bound[at]);
        format!("{name} {own:.0} ({:.2})", own / bound)
    };
    output::line(&format!("{what}: {}", [0, 1, 2, 3].map(one).join(", ")));
}

/// Each operation for a while, on a store that has parents to spend.
fn rates(store: &dyn TxStore, parents: u64, batch: usize, clients: usize) -> anyhow::Result<Rates> {
    let seeds = CreateOptions { may_lack_previous: true, ..CreateOptions::default() };
    // Parents of what is spent below, made in large batches: enough for any rate.
    for call in 0..parents / 1_000 {
        let items: Vec<_> =
            numbers(call, 1_000).map(|number| (tx(parent_of(number), 0), seeds.clone())).collect();
        store.create(&items, HEIGHT)?;
    }
    let create = rate(clients, batch, &|call, batch| {
        let new = numbers(call, batch).map(|number| number + (1 << 42));
        let items: Vec<_> = new.map(|number| (tx(number, 0), seeds.clone())).collect();
        let made = store.create(&items, HEIGHT)?;
        anyhow::ensure!(made.iter().all(Result::is_ok), "a transaction was refused");
        Ok(made.len())
    })?;
    // What has no parent is refused and not counted.
    let spend = rate(clients, batch, &|call, batch| {
        let requests: Vec<_> = numbers(call, batch)
            .filter_map(|number| {
                let mut spender = tx(number, parent_of(number));
                spender.inputs[0].outpoint = OutPoint::new(id(parent_of(number)), 1);
                SpendRequest::of(&spender, HEIGHT, SpendFlags::default()).ok()
            })
            .collect();
        Ok(store.spend(&requests)?.iter().filter(|answer| answer.is_ok()).count())
    })?;
    let both = rate(clients, batch, &|call, batch| {
        let items: Vec<_> = numbers(call, batch)
            .map(|number| (tx(number, parent_of(number)), CreateOptions::default()))
            .collect();
        let answers = store.spend_and_create_list(&items, HEIGHT, SpendFlags::default())?;
        let answers = answers.map_err(|error| anyhow::anyhow!(error))?;
        Ok(answers.iter().filter(|answer| answer.is_ok()).count())
    })?;
    let info = MinedInfo {
        block: MinedBlock { id: 1, height: HEIGHT, subtree: 0 },
        on_longest_chain: true,
        unset: false,
        unmined_since: HEIGHT,
    };
    let mined = rate(clients, batch, &|call, batch| {
        let ids: Vec<_> = numbers(call, batch).map(|number| id(parent_of(number))).collect();
        Ok(store.set_mined(&ids, &info)?.iter().filter(|answer| answer.is_ok()).count())
    })?;
    Ok([create, spend, both, mined])
}

/// The same rows put blindly: no reads, no rules.
fn bound(
    bare: &RocksKv,
    durability: Durability,
    batch: usize,
    clients: usize,
) -> anyhow::Result<Rates> {
    let of = |rows: &'static [(u8, usize, usize)]| {
        rate(clients, batch, &|call, batch| {
            let mut all = Batch::new();
            for number in numbers(call, batch) {
                let key = [id(number).as_bytes().as_slice(), &[0; 4]].concat();
                for (table, key_len, value_len) in rows {
                    all.put(TableId(*table), &key[..*key_len], &vec![7; *value_len]);
                }
            }
            bare.commit(all, durability)?;
            Ok(batch)
        })
    };
    // The rows of each operation, by table, length of key and length of value.
    Ok([
        of(&[(1, 32, 16), (2, 36, 37), (2, 36, 37), (3, 32, 270), (5, 36, 0)])?,
        of(&[(1, 32, 16), (2, 36, 73)])?,
        of(&[
            (1, 32, 16),
            (2, 36, 73),
            (1, 32, 16),
            (2, 36, 37),
            (2, 36, 37),
            (3, 32, 270),
            (5, 36, 0),
        ])?,
        of(&[(1, 32, 22), (5, 36, 0)])?,
    ])
}
