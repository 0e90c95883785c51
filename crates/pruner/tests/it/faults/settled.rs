//! Children that were known to be settled and leave at the worst moment; and the same with the guard
//! against it left out, which has to show.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use utxokeep_core::{
    Height, Txid,
    node::{MinedBlock, MinedInfo, PruneRules, Pruned},
};
use utxokeep_txstore::{Fields, ProofFault, PruneStore, TxStore};

use super::{HEIGHT, faulty::Faulty, put, table, tx};

/// A parent with a parent of its own that survives it, and a child that is settled at 10. Pruning
/// the parent reads the grandparent after the verdict: the moment at which a race is forced.
fn three_generations(store: &dyn TxStore) -> [Txid; 3] {
    put(store, &tx(1, &[], 2), 10, true);
    put(store, &tx(2, &[(1, 0)], 1), 10, true);
    put(store, &tx(3, &[(2, 0)], 1), 10, true);
    [1, 2, 3].map(|name| Txid::from_bytes([name; 32]))
}

fn is_there(store: &dyn TxStore, txid: Txid) -> bool {
    store.get(&[txid], Fields::default()).unwrap()[0].is_some()
}

/// The child leaves after the verdict over its parent and before the commit; answers whether the
/// parent is still there.
fn child_leaves_after_the_verdict(
    fault: Option<ProofFault>,
    leave: fn(&dyn PruneStore, Txid),
) -> bool {
    let kv = Faulty::new();
    let store = kv.store_with(fault);
    let [grandparent, parent, child] = three_generations(store.as_ref());
    let (records, other) = (table("tx_records"), Arc::downgrade(&store));
    let mut is_done = false;
    kv.on_read(move |table, key| {
        if !is_done && table == records && key == grandparent.as_bytes() {
            is_done = true;
            leave(other.upgrade().unwrap().as_ref(), child);
        }
    });
    let answer = store.prune(&[parent], &PruneRules::at(HEIGHT, 288)).unwrap().unwrap();
    kv.heal_reads();
    let is_kept = matches!(answer[0], Pruned::Kept { .. });
    assert_eq!(is_there(store.as_ref(), parent), is_kept, "the answer is the truth");
    is_kept
}

fn leaves_the_longest_chain(store: &dyn PruneStore, child: Txid) {
    store.mark_on_longest_chain(&[child], false, Height::new(300)).unwrap().remove(0).unwrap();
}

fn is_deleted_by_hand(store: &dyn PruneStore, child: Txid) {
    assert_eq!(store.delete(&[child]).unwrap(), 1);
}

fn is_mined_again(store: &dyn PruneStore, child: Txid) {
    let info = MinedInfo {
        block: MinedBlock { id: 11, height: Height::new(200), subtree: 0 },
        on_longest_chain: true,
        unset: false,
        unmined_since: Height::new(200),
    };
    store.set_mined(&[child], &info).unwrap().remove(0).unwrap();
}

#[test]
fn a_known_child_left_between_verdict_and_commit_and_the_verdict_is_taken_again() {
    for leave in [leaves_the_longest_chain, is_deleted_by_hand, is_mined_again] {
        assert!(child_leaves_after_the_verdict(None, leave), "nobody may rely on it any more");
        // The same without the look at the commit: this test finds out.
        let fault = Some(ProofFault::OvertakenIgnored);
        assert!(!child_leaves_after_the_verdict(fault, leave));
    }
}

/// The parent is preserved, so that pruning it loads what is known of its child and keeps it; then
/// the child leaves. Answers whether the parent is still there after another attempt.
fn child_leaves_between_runs(fault: Option<ProofFault>, restarts: bool) -> bool {
    let kv = Faulty::new();
    let mut store = kv.store_with(fault);
    let [_, parent, child] = three_generations(store.as_ref());
    let prune = |store: &Arc<dyn PruneStore>, height| {
        store.prune(&[parent], &PruneRules::at(Height::new(height), 288)).unwrap().unwrap();
        is_there(store.as_ref(), parent)
    };
    assert_eq!(store.preserve(&[parent], Height::new(310)).unwrap(), 1);
    assert!(prune(&store, 298));
    leaves_the_longest_chain(store.as_ref(), child);
    assert_eq!(store.expire_preservations(Height::new(310), 10).unwrap(), 1);
    if restarts {
        store = kv.store_with(fault);
    }
    prune(&store, 310 + 288)
}

#[test]
fn a_known_child_left_between_two_runs() {
    assert!(child_leaves_between_runs(None, false));
    assert!(!child_leaves_between_runs(Some(ProofFault::LeavingNotForgotten), false));
}

#[test]
fn a_known_child_left_and_the_program_was_started_again() {
    assert!(child_leaves_between_runs(None, true));
    assert!(!child_leaves_between_runs(Some(ProofFault::LeavingNotWritten), true));
}

/// What was settled before a restart is known after it: no record of a child is read.
#[test]
fn a_settled_child_is_known_without_reading_it_also_after_a_restart() {
    let kv = Faulty::new();
    let [_, parent, child] = three_generations(kv.store().as_ref());
    let store = kv.store();
    let (reads, records) = (Arc::new(AtomicBool::new(false)), table("tx_records"));
    let was_read = Arc::clone(&reads);
    kv.on_read(move |table, key| {
        if table == records && key == child.as_bytes() {
            was_read.store(true, Ordering::Relaxed);
        }
    });
    store.prune(&[parent], &PruneRules::at(HEIGHT, 288)).unwrap().unwrap();
    assert!(!is_there(store.as_ref(), parent) && !reads.load(Ordering::Relaxed));
}
