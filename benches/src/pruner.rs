//! Safe deletion: verified against unverified, both beside bare deletes of the same rows; what a
//! pass over nothing costs; and what a run does to spends.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        Check, CreateOptions, MinedBlock, NodeInput, NodeOutput, NodeTx, PreviousOutput,
        PruneRules, Pruned, SpendFlags, SpendRequest,
    },
};
use utxokeep_kv::{Batch, Durability, Kv, Read, RocksKv, RocksOptions, TableId};
use utxokeep_pruner::{Control, MonotonicClock, PrunerSettings, Run};
use utxokeep_txstore::{NodeStore, PruneStore, Settings, TABLES, TxStore};

use crate::output;

const MINED: u32 = 100;
const WINDOW: u32 = 288;
const DUE: Height = Height::new(MINED + WINDOW);
/// Records of one commit, as a run has them.
const CHUNK: usize = 64;

fn id(kind: u64, number: u64) -> Txid {
    let mut bytes = [0; 32];
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ kind;
    for chunk in bytes.chunks_exact_mut(8) {
        z = (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(number + kind);
        chunk.copy_from_slice(&z.to_le_bytes());
    }
    Txid::from_bytes(bytes)
}

fn tx(txid: Txid, spends: &[OutPoint], outputs: u32) -> NodeTx {
    let input = |outpoint: &OutPoint| NodeInput {
        outpoint: *outpoint,
        script: vec![0x48; 107],
        sequence: u32::MAX,
        previous: Some(PreviousOutput { satoshis: 1_000, script: vec![0x76; 25] }),
    };
    let output = || NodeOutput { satoshis: 1_000, script: vec![0x76; 25] };
    NodeTx {
        txid,
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: spends.iter().map(input).collect(),
        outputs: std::iter::repeat_with(output).take(outputs as usize).collect(),
    }
}

const PARENT: u64 = 1 << 50;
const CHILD: u64 = 1 << 51;
const COIN: u64 = 1 << 52;
const SPENDER: u64 = 1 << 53;
const GRANDPARENT: u64 = 1 << 54;

fn open(dir: &Path, durability: Durability) -> anyhow::Result<Arc<NodeStore>> {
    let kv = RocksKv::open(dir, TABLES, RocksOptions::within(256 << 20), true)?;
    Ok(Arc::new(NodeStore::on_kv(kv, Settings::default(), durability)?))
}

/// Stores mined transactions, many at a time, and spends what they spend.
fn fill(store: &NodeStore, txs: impl Iterator<Item = NodeTx>) -> anyhow::Result<()> {
    let block = MinedBlock { id: 1, height: Height::new(MINED), subtree: 0 };
    let options =
        CreateOptions { mined: vec![block], may_lack_previous: true, ..CreateOptions::default() };
    let mut page = Vec::new();
    let write = |page: &mut Vec<NodeTx>| -> anyhow::Result<()> {
        let requests: Vec<SpendRequest> = page
            .iter()
            .filter(|tx| !tx.inputs.is_empty())
            .map(|tx| SpendRequest::of(tx, Height::new(MINED), SpendFlags::default()))
            .collect::<Result<_, _>>()?;
        let items: Vec<_> = page.drain(..).map(|tx| (tx, options.clone())).collect();
        let made = store.create(&items, Height::new(MINED))?;
        anyhow::ensure!(made.iter().all(Result::is_ok), "a transaction was refused");
        if !requests.is_empty() {
            store.spend(&requests)?;
        }
        Ok(())
    };
    for tx in txs {
        page.push(tx);
        if page.len() == 1_000 {
            write(&mut page)?;
        }
    }
    write(&mut page)
}

/// Parents of one input each, whose outputs are spent by one child each.
fn fill_parents(store: &NodeStore, parents: u64, children: u32) -> anyhow::Result<()> {
    // Gone since long, as most parents of what is due are.
    let spent = |n| [OutPoint::new(id(GRANDPARENT, n), 0)];
    fill(store, (0..parents).map(|n| tx(id(PARENT, n), &spent(n), children)))?;
    let pairs = (0..parents).flat_map(|n| (0..children).map(move |vout| (n, vout)));
    fill(
        store,
        pairs.map(|(n, vout)| {
            let child = id(CHILD, n * u64::from(children) + u64::from(vout));
            tx(child, &[OutPoint::new(id(PARENT, n), vout)], 1)
        }),
    )
}

/// What a way of deleting did so far.
#[derive(Default)]
struct Pace {
    records: u32,
    took: Duration,
}

impl Pace {
    fn add(&mut self, records: usize, took: Duration) -> anyhow::Result<()> {
        self.records += u32::try_from(records)?;
        self.took += took;
        Ok(())
    }

    fn per_second(&self) -> f64 {
        f64::from(self.records) / self.took.as_secs_f64()
    }
}

fn prune(store: &NodeStore, txids: &[Txid], rules: &PruneRules) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let answers = store.prune(txids, rules)?.map_err(|error| anyhow::anyhow!(error))?;
    let took = started.elapsed();
    let gone = answers.iter().filter(|one| matches!(one, Pruned::Deleted { .. })).count();
    anyhow::ensure!(gone == txids.len(), "something was kept");
    Ok(took)
}

/// Deletes the rows of these records without asking anything.
fn delete_bare(kv: &RocksKv, txids: &[Txid], children: u32) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut batch = Batch::new();
    for txid in txids {
        batch.delete(TableId(1), txid.as_bytes());
        batch.delete(TableId(3), txid.as_bytes());
        for vout in 0..children {
            batch.delete(TableId(2), &OutPoint::new(*txid, vout).to_key());
        }
        batch.delete(TableId(4), &[DUE.to_key().as_slice(), txid.as_bytes()].concat());
    }
    kv.commit(batch, Durability::Buffered)?;
    Ok(started.elapsed())
}

/// Reads the rows of these records, then deletes them: what nobody who looks first can beat.
fn read_and_delete(kv: &RocksKv, txids: &[Txid], children: u32) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut sorted: Vec<Txid> = txids.to_vec();
    sorted.sort_unstable();
    let keys: Vec<&[u8]> = sorted.iter().map(|txid| txid.as_bytes().as_slice()).collect();
    let mut bytes = 0;
    for table in [1, 3] {
        kv.multi_get(TableId(table), &keys, &mut |_, row| bytes += row.map_or(0, <[u8]>::len))?;
    }
    let outputs = sorted.iter().flat_map(|id| (0..children).map(|n| OutPoint::new(*id, n)));
    let outputs: Vec<_> = outputs.map(OutPoint::to_key).collect();
    let keys: Vec<&[u8]> = outputs.iter().map(<[u8; 36]>::as_slice).collect();
    kv.multi_get(TableId(2), &keys, &mut |_, row| bytes += row.map_or(0, <[u8]>::len))?;
    anyhow::ensure!(bytes > 0, "nothing was read");
    Ok(started.elapsed() + delete_bare(kv, txids, children)?)
}

pub(crate) fn measure(dir: &Path, due: u64) -> anyhow::Result<()> {
    output::heading(
        "pruner on RocksDB, fsync off: records deleted per second, ways taken in turn chunk by chunk",
    );
    for (parents, children) in [(200_000, 1), (100_000, 3), (6_000, 100)] {
        measure_delete(dir, parents, children)?;
    }
    measure_nothing(dir)?;
    measure_latency(dir, due)
}

/// Every way gets a chunk in turn, so that whatever else the machine does hits all alike.
fn measure_delete(dir: &Path, parents: u64, children: u32) -> anyhow::Result<()> {
    let (place, bare_place) = (dir.join("prune-store"), dir.join("prune-bare"));
    fill_parents(&*open(&bare_place, Durability::Buffered)?, parents, children)?;
    let kv = RocksKv::open(&bare_place, TABLES, RocksOptions::within(256 << 20), true)?;
    let store = open(&place, Durability::Buffered)?;
    fill_parents(&store, parents, children)?;
    let verified = PruneRules::at(DUE, WINDOW);
    let unverified = [Check::ChildUnmined, Check::ChildStable, Check::ChildMissing]
        .into_iter()
        .fold(verified, PruneRules::unsafe_without);
    let mut paces: [Pace; 4] = std::array::from_fn(|_| Pace::default());
    let chunk = if children > 10 { CHUNK / 8 } else { CHUNK };
    let mut after = None;
    loop {
        let page = store.due(DUE, after, 2 * chunk)?;
        let txids: Vec<Txid> = page.iter().map(|(_, txid)| *txid).collect();
        if txids.len() < 2 * chunk {
            break;
        }
        let (first, second) = txids.split_at(chunk);
        paces[0].add(chunk, prune(&store, first, &verified)?)?;
        paces[1].add(chunk, prune(&store, second, &unverified)?)?;
        paces[2].add(chunk, read_and_delete(&kv, first, children)?)?;
        paces[3].add(chunk, delete_bare(&kv, second, children)?)?;
        after = page.last().copied();
    }
    let [own, unverified, read, bare] = paces.each_ref().map(Pace::per_second);
    output::line(&format!(
        "{children} children each: verified {own:.0}, unverified {unverified:.0} ({:.2}), bare \
         reads and deletes of the same rows {read:.0} ({:.2}), bare deletes {bare:.0} ({:.2})",
        own / unverified,
        own / read,
        own / bare
    ));
    drop((store, kv));
    std::fs::remove_dir_all(&place)?;
    std::fs::remove_dir_all(&bare_place)?;
    Ok(())
}

/// A run over a store in which nothing is due.
fn measure_nothing(dir: &Path) -> anyhow::Result<()> {
    for records in [1_000, 200_000] {
        let place = dir.join(format!("prune-nothing-{records}"));
        let store = open(&place, Durability::Buffered)?;
        fill(&store, (0..records).map(|n| tx(id(COIN, n), &[], 2)))?;
        let (settings, control) = (PrunerSettings::default(), Control::default());
        let clock = MonotonicClock::default();
        let run = Run { store: &*store, settings: &settings, clock: &clock, control: &control };
        let mut sample = Vec::new();
        for height in 0..200 {
            let started = Instant::now();
            let report = run.at(DUE.plus(height), &mut None)?;
            anyhow::ensure!(report.examined == 0, "something was due");
            sample.push(started.elapsed());
        }
        output::line(&format!(
            "a run over nothing, {records} records stored: {}",
            output::percentiles(sample)
        ));
        drop(store);
        std::fs::remove_dir_all(&place)?;
    }
    Ok(())
}

/// Spends of single transactions, at rest and during a run.
fn measure_latency(dir: &Path, due: u64) -> anyhow::Result<()> {
    let place = dir.join("prune-latency");
    let store = open(&place, Durability::Buffered)?;
    let coins = 400_000;
    fill(&store, (0..coins).map(|n| tx(id(COIN, n), &[], 2)))?;
    fill_parents(&store, due, 1)?;
    let mut next = 0;
    let mut spend = |until: &mut dyn FnMut() -> bool| -> anyhow::Result<Vec<Duration>> {
        let mut sample = Vec::new();
        while !until() && next < coins {
            let spender = tx(id(SPENDER, next), &[OutPoint::new(id(COIN, next), 0)], 1);
            let request =
                SpendRequest::of(&spender, Height::new(MINED + 1), SpendFlags::default())?;
            let started = Instant::now();
            anyhow::ensure!(store.spend(&[request])?[0].is_ok(), "a spend was refused");
            sample.push(started.elapsed());
            next += 1;
            // A client at a steady rate, well below what the store could do.
            thread::sleep(Duration::from_micros(100));
        }
        Ok(sample)
    };
    let started = Instant::now();
    let idle = spend(&mut || started.elapsed() > Duration::from_secs(3))?;
    let is_over = AtomicBool::new(false);
    let (settings, control) = (PrunerSettings::default(), Control::default());
    let clock = MonotonicClock::default();
    let (busy, took) = thread::scope(|scope| -> anyhow::Result<_> {
        let run = scope.spawn(|| {
            let run = Run { store: &*store, settings: &settings, clock: &clock, control: &control };
            let started = Instant::now();
            let report = run.at(DUE, &mut None);
            is_over.store(true, Ordering::Release);
            (report, started.elapsed())
        });
        let busy = spend(&mut || is_over.load(Ordering::Acquire))?;
        let (report, took) = run.join().expect("a run does not panic");
        anyhow::ensure!(report?.deleted == due, "something was kept");
        Ok((busy, took))
    })?;
    output::line(&format!(
        "spends at rest: {}; while {due} records are deleted in {took:.1?}: {}",
        output::percentiles(idle),
        output::percentiles(busy)
    ));
    drop(store);
    std::fs::remove_dir_all(&place)?;
    Ok(())
}
