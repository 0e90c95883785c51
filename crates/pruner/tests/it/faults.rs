//! A store that fails when it is told to: what was promised holds, and the next run goes on.

mod agreed;
mod faulty;
mod settled;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, NodeInput, NodeOutput, NodeTx, PreviousOutput, PruneRules,
        SpendAndCreate, SpendFlags,
    },
};
use utxokeep_kv::{Batch, Durability, Kv, KvError, OpenMode, TableId};
use utxokeep_pruner::{JobState, Phase, Pruner, PrunerSettings, RunReport};
use utxokeep_testkit::pruner::StillClock;
use utxokeep_txstore::{
    Blobs, BlockState, Fields, NodeStore, PruneStore, StoreSettings, TABLES, TxStore,
};

use faulty::Faulty;

fn transient() -> KvError {
    KvError::Engine { op: "commit", source: "the disk is busy".into() }
}

fn table(name: &str) -> TableId {
    let at = TABLES.iter().position(|table| table.name == name).unwrap();
    TableId(u8::try_from(at).unwrap())
}

fn tx(name: u8, spends: &[(u8, u32)], coins: u32) -> NodeTx {
    let input = |&(parent, vout): &(u8, u32)| NodeInput {
        outpoint: OutPoint::new(Txid::from_bytes([parent; 32]), vout),
        script: Vec::new(),
        sequence: 0,
        previous: Some(PreviousOutput { satoshis: 5, script: vec![0x51] }),
    };
    let coin = NodeOutput { satoshis: 5, script: vec![0x51] };
    let data = NodeOutput { satoshis: 0, script: vec![0x6a] };
    NodeTx {
        txid: Txid::from_bytes([name; 32]),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: spends.iter().map(input).collect(),
        outputs: if coins == 0 { vec![data] } else { vec![coin; coins as usize] },
    }
}

fn put(store: &dyn TxStore, tx: &NodeTx, height: u32, is_mined: bool) {
    let block = MinedBlock { id: height, height: Height::new(height), subtree: 0 };
    let mined = is_mined.then_some(block).into_iter().collect();
    let options = CreateOptions { mined, ..CreateOptions::default() };
    let (spend_only, create_only) = (false, tx.inputs.is_empty());
    let how = SpendAndCreate { spend_only, create_only, flags: SpendFlags::default() };
    store.spend_and_create(tx, Height::new(height), how, &options).unwrap().unwrap();
}

/// A parent that stays, and six children without coins that are due at 298.
fn due(store: &dyn TxStore) -> Vec<NodeTx> {
    put(store, &tx(1, &[], 7), 5, true);
    let children: Vec<NodeTx> = (0..6).map(|n| tx(10 + n, &[(1, n.into())], 0)).collect();
    for child in &children {
        put(store, child, 10, true);
    }
    for height in [HEIGHT.minus(1), HEIGHT] {
        store.set_block_state(BlockState { height, median_time: 1 }).unwrap().unwrap();
    }
    children
}

const HEIGHT: Height = Height::new(298);

fn pruner(store: &Arc<dyn PruneStore>) -> Pruner {
    let settings = PrunerSettings::default().with(|settings| {
        settings.chunk_rows = 2;
        settings.parallel_chunks = 1;
        settings.retry_max = 3;
    });
    let clock = Arc::new(StillClock::default());
    Pruner::new(Arc::clone(store), clock, settings).unwrap()
}

fn left(store: &dyn TxStore, txs: &[NodeTx]) -> usize {
    let txids: Vec<Txid> = txs.iter().map(|tx| tx.txid).collect();
    store.get(&txids, Fields::default()).unwrap().iter().flatten().count()
}

fn marked(store: &dyn TxStore) -> u32 {
    let parent = Txid::from_bytes([1; 32]);
    store.get(&[parent], Fields::default()).unwrap().remove(0).unwrap().record.deleted_children
}

fn completed(pruner: &Pruner) -> RunReport {
    match pruner.run_at(HEIGHT).state {
        JobState::Completed(report) => report,
        other => panic!("expected a complete run: {other:?}"),
    }
}

/// Markers and deletions are one commit: if it fails, neither is there.
#[test]
fn a_failed_commit_leaves_child_and_parent_as_they_were() {
    let kv = Faulty::new();
    let store = kv.store();
    let children = due(store.as_ref());
    kv.on_commit(|_| Err(KvError::Poisoned));
    let job = pruner(&store).run_at(HEIGHT);
    let JobState::Failed { report, error } = job.state else { panic!("{job:?}") };
    assert!(error.contains("phase delete failed after 1 attempts"), "no retry helps: {error}");
    assert_eq!(
        (report.deleted, left(store.as_ref(), &children), marked(store.as_ref())),
        (0, 6, 0)
    );
    kv.heal();
    assert_eq!(completed(&pruner(&store)).deleted, 6);
    assert_eq!(marked(store.as_ref()), 6);
}

#[test]
fn faults_that_pass_are_tried_again_up_to_the_limit() {
    let kv = Faulty::new();
    let store = kv.store();
    due(store.as_ref());
    let mut failures = 2;
    kv.on_commit(move |_| {
        failures -= i32::from(failures > 0);
        if failures > 0 { Err(transient()) } else { Ok(()) }
    });
    let report = completed(&pruner(&store));
    assert_eq!((report.deleted, report.retries), (6, 1), "only the chunk that failed");
    let kv = Faulty::new();
    let store = kv.store();
    let children = due(store.as_ref());
    let mut commits = 0;
    kv.on_commit(move |_| {
        commits += 1;
        if commits > 1 { Err(transient()) } else { Ok(()) }
    });
    let pruner = pruner(&store);
    let JobState::Failed { report, error } = pruner.run_at(HEIGHT).state else {
        panic!("it fails")
    };
    assert!(error.contains("after 4 attempts"), "{error}");
    assert_eq!((report.deleted, left(store.as_ref(), &children)), (2, 4), "progress is kept");
    kv.heal();
    assert_eq!(completed(&pruner).deleted, 4, "and the next run goes on");
}

#[test]
fn a_failed_preservation_stops_the_run_before_it_deletes() {
    let kv = Faulty::new();
    let store = kv.store();
    let children = due(store.as_ref());
    // An old unmined transaction whose parent would be preserved.
    put(store.as_ref(), &tx(50, &[], 1), 5, true);
    put(store.as_ref(), &tx(51, &[(50, 0)], 1), 6, false);
    let preserved = table("tx_kept_for_child");
    kv.on_commit(move |batch| {
        let is_phase_1 = batch.rows().any(|row| row.table == preserved);
        if is_phase_1 { Err(KvError::Poisoned) } else { Ok(()) }
    });
    let pruner = pruner(&store);
    let JobState::Failed { error, report } = pruner.run_at(HEIGHT).state else {
        panic!("it fails")
    };
    assert!(error.contains(Phase::PreserveParents.name()), "{error}");
    assert_eq!((report.examined, left(store.as_ref(), &children)), (0, 6));
    assert_eq!(pruner.status().unwrap().heights.completed(), None);
    kv.heal();
    let report = completed(&pruner);
    assert_eq!((report.parents_preserved, report.deleted), (1, 6));
    assert_eq!(pruner.status().unwrap().heights.completed(), Some(HEIGHT));
}

#[test]
fn a_cancelled_run_stops_after_its_chunk_and_the_next_one_goes_on() {
    let kv = Faulty::new();
    let store = kv.store();
    let children = due(store.as_ref());
    let pruner = Arc::new(pruner(&store));
    let same = Arc::downgrade(&pruner);
    kv.on_commit(move |_| {
        same.upgrade().unwrap().cancel();
        Ok(())
    });
    let job = pruner.run_at(HEIGHT);
    let JobState::Cancelled(report) = job.state else { panic!("{job:?}") };
    assert_eq!((report.deleted, left(store.as_ref(), &children)), (2, 4));
    assert_eq!(pruner.status().unwrap().heights.completed(), None);
    kv.heal();
    assert_eq!(completed(&pruner).deleted, 4);
}

/// The process dies between two chunks; another one starts on what is stored.
#[test]
fn a_crash_between_chunks_loses_nothing_and_repeats_nothing() {
    for survives in 0..3 {
        let kv = Faulty::new();
        let store = kv.store();
        let children = due(store.as_ref());
        let mut commits = 0;
        kv.on_commit(move |_| {
            commits += 1;
            if commits > survives { Err(KvError::Poisoned) } else { Ok(()) }
        });
        drop(pruner(&store).run_at(HEIGHT));
        drop(store);
        kv.heal();
        let store = kv.store();
        assert_eq!(left(store.as_ref(), &children), 6 - 2 * survives);
        completed(&pruner(&store));
        assert_eq!((left(store.as_ref(), &children), marked(store.as_ref())), (0, 6));
    }
}

#[test]
fn a_record_that_does_not_decode_is_kept_and_does_not_hold_up_the_others() {
    let kv = Faulty::new();
    let store = kv.store();
    let children = due(store.as_ref());
    let mut damage = Batch::new();
    damage.put(table("tx_records"), children[3].txid.as_bytes(), b"not a record");
    kv.0.commit(damage, Durability::Buffered).unwrap();
    let report = completed(&pruner(&store));
    assert_eq!((report.deleted, report.unreadable, report.examined), (5, 1, 6));
}

/// A store whose bodies are files in `dir`.
fn with_files(kv: &Faulty, dir: &std::path::Path) -> Arc<dyn PruneStore> {
    let settings = StoreSettings::default().with(|settings| settings.inline_body_bytes_max = 0);
    let url = format!("file:{}", dir.display());
    let blobs = Blobs::open(&url, Durability::Buffered, 5_000, OpenMode::Create).unwrap();
    let store = NodeStore::on_kv(kv.0.clone(), settings, Durability::Buffered).unwrap();
    Arc::new(store.with_blobs(blobs))
}

fn files(dir: &std::path::Path) -> usize {
    let dirs =
        std::fs::read_dir(dir).unwrap().filter_map(|entry| entry.unwrap().path().read_dir().ok());
    dirs.flatten().count()
}

#[test]
fn record_and_file_go_and_a_file_that_is_missing_counts_as_deleted() {
    let (kv, dir) = (Faulty::new(), tempfile::tempdir().unwrap());
    let store = with_files(&kv, dir.path());
    let children = due(store.as_ref());
    assert_eq!(files(dir.path()), 7);
    let pruner = pruner(&store);
    assert_eq!(completed(&pruner).deleted, 6);
    assert_eq!((files(dir.path()), store.blobs_waiting(100).unwrap()), (7, 6), "records first");
    let gone = format!("{}", children[0].txid);
    std::fs::remove_file(dir.path().join(&gone[..2]).join(format!("{gone}.tx"))).unwrap();
    let done = pruner.delete_blobs().unwrap();
    assert_eq!((done.deleted, done.missing, done.failed.len()), (5, 1, 0));
    assert_eq!((files(dir.path()), store.blobs_waiting(100).unwrap()), (1, 0));
}

#[test]
fn a_missing_body_keeps_its_record_because_its_parents_are_not_known() {
    let (kv, dir) = (Faulty::new(), tempfile::tempdir().unwrap());
    let store = with_files(&kv, dir.path());
    let children = due(store.as_ref());
    let lost = format!("{}", children[0].txid);
    std::fs::remove_file(dir.path().join(&lost[..2]).join(format!("{lost}.tx"))).unwrap();
    let report = completed(&pruner(&store));
    assert_eq!(report.deleted, 5);
    assert_eq!(report.kept[&utxokeep_core::node::KeepReason::BodyMissing], 1);
    assert_eq!(left(store.as_ref(), &children), 1);
}

/// An old unmined transaction whose file is lost stops its own record only.
#[test]
fn one_unreadable_body_of_an_old_unmined_transaction_stops_no_run() {
    let (kv, dir) = (Faulty::new(), tempfile::tempdir().unwrap());
    let store = with_files(&kv, dir.path());
    let children = due(store.as_ref());
    let waiting = tx(60, &[(1, 6)], 1);
    put(store.as_ref(), &waiting, 20, false);
    let lost = format!("{}", waiting.txid);
    std::fs::remove_file(dir.path().join(&lost[..2]).join(format!("{lost}.tx"))).unwrap();
    let report = completed(&pruner(&store));
    assert_eq!((report.deleted, report.unreadable), (6, 1));
    assert_eq!(left(store.as_ref(), &children), 0);
    assert_eq!(left(store.as_ref(), &[tx(1, &[], 7), waiting]), 2, "and its parent stays");
}

#[test]
fn a_file_that_cannot_be_deleted_is_tried_again_from_the_queue() {
    let (kv, dir) = (Faulty::new(), tempfile::tempdir().unwrap());
    let store = with_files(&kv, dir.path());
    due(store.as_ref());
    completed(&pruner(&store));
    // Nobody says where the files are.
    let blind = kv.store();
    let done = pruner(&blind).delete_blobs().unwrap();
    assert_eq!((done.deleted, done.failed.len(), files(dir.path())), (0, 6, 7));
    assert_eq!(pruner(&store).delete_blobs().unwrap().deleted, 6);
    assert_eq!(files(dir.path()), 1);
}

#[test]
fn a_restored_body_keeps_its_file() {
    let (kv, dir) = (Faulty::new(), tempfile::tempdir().unwrap());
    let store = with_files(&kv, dir.path());
    let children = due(store.as_ref());
    let settings = PrunerSettings::default().with(|settings| settings.undo_blocks = 5);
    let clock = Arc::new(StillClock::default());
    let pruner = Pruner::new(Arc::clone(&store), clock, settings).unwrap();
    completed(&pruner);
    assert!(pruner.restore(&children[0].txid, Some(HEIGHT)).unwrap());
    assert_eq!(pruner.delete_blobs().unwrap().deleted, 5);
    let fields = Fields { body: true, slots: true };
    let stored = store.get(&[children[0].txid], fields).unwrap().remove(0).unwrap();
    assert_eq!(stored.body.as_ref(), Some(&children[0]));
    assert_eq!(marked(store.as_ref()), 5);
}

#[test]
fn a_child_left_the_longest_chain_between_verdict_and_commit() {
    let kv = Faulty::new();
    let store = kv.store();
    let (parent, child) = (tx(1, &[], 1), tx(2, &[(1, 0)], 1));
    put(store.as_ref(), &parent, 10, true);
    put(store.as_ref(), &child, 10, true);
    let (done, is_done) = mpsc::channel();
    let (other, child) = (Arc::clone(&store), child.txid);
    let was_first = Arc::new(AtomicBool::new(false));
    let first = Arc::clone(&was_first);
    kv.on_commit(move |_| {
        let (other, done) = (Arc::clone(&other), done.clone());
        thread::spawn(move || {
            other.mark_on_longest_chain(&[child], false, Height::new(300)).unwrap();
            done.send(()).unwrap();
        });
        // The pruner holds the child: the mark waits for its commit, and this for nothing.
        let waited = is_done.recv_timeout(Duration::from_millis(300));
        first.store(waited.is_ok(), Ordering::Relaxed);
        Ok(())
    });
    let rules = PruneRules::at(Height::new(298), 288);
    let _ = store.prune(&[parent.txid], &rules).unwrap().unwrap();
    let was_pruned = store.get(&[parent.txid], Fields::default()).unwrap()[0].is_none();
    assert!(!(was_first.load(Ordering::Relaxed) && was_pruned), "its child was unmined by then");
}
