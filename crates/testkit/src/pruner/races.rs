//! Deletion against everybody else: whoever was first has it, and the other is told.

use std::{sync::Barrier, thread};

use utxokeep_core::{
    Txid,
    node::{KeepReason, MinedBlock, MinedInfo, NodeTx, Pruned},
};

use super::stage::{PruneStage, WINDOW, at, rules_at, unspend_of};
use crate::txstore::{seed, spending};

const ROUNDS: u8 = 60;

/// A parent and the child that spent all of it, both stable at 10 + WINDOW.
fn pair(stage: &PruneStage, name: u8) -> (NodeTx, NodeTx) {
    let parent = seed(name, &[5]);
    let child = spending(name + 1, &[(&parent, 0)], &[4]);
    stage.mined(&parent, 10);
    stage.mined(&child, 10);
    (parent, child)
}

/// Lets two do something at the same moment.
fn race<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            start.wait();
            a()
        });
        start.wait();
        let second = b();
        (first.join().expect("it does not panic"), second)
    })
}

/// A preserve that was accepted is never lost; one that came too late
/// says so.
pub(super) fn an_accepted_preserve_is_never_lost(stage: &PruneStage) {
    for _ in 0..ROUNDS {
        let (parent, child) = pair(stage, 1);
        let (kept, held) = race(
            || stage.store.prune(&[parent.txid], &rules_at(10 + WINDOW)),
            || stage.store.preserve(&[parent.txid], at(5_000)).unwrap(),
        );
        kept.unwrap().unwrap();
        assert_eq!(stage.is_there(&parent), held == 1, "accepted means kept");
        stage.store.delete(&[parent.txid, child.txid]).unwrap();
    }
}

/// Taking a spend back and deleting exclude each other.
pub(super) fn taking_a_spend_back_and_deleting_exclude_each_other(stage: &PruneStage) {
    for _ in 0..ROUNDS {
        let (parent, child) = pair(stage, 1);
        let request = unspend_of(&parent, 0, &child, 300);
        let (answer, taken_back) = race(
            || stage.store.prune(&[parent.txid], &rules_at(10 + WINDOW)),
            || stage.store.unspend(&[request]).unwrap().remove(0),
        );
        answer.unwrap().unwrap();
        assert_eq!(stage.is_there(&parent), taken_back == Ok(true));
        stage.store.delete(&[parent.txid, child.txid]).unwrap();
    }
}

/// Parent and child in two chunks at once: the child leaves a marker, or the parent is gone.
pub(super) fn parent_and_child_in_two_chunks_may_both_go(stage: &PruneStage) {
    for _ in 0..ROUNDS {
        let (parent, child) = pair(stage, 1);
        let last = spending(3, &[(&child, 0)], &[4]);
        stage.mined(&last, 10);
        let prune = |tx: &NodeTx| {
            stage.store.prune(&[tx.txid], &rules_at(10 + WINDOW)).unwrap().unwrap();
        };
        race(|| prune(&parent), || prune(&child));
        assert!(!stage.is_there(&parent) && !stage.is_there(&child), "both may go");
        assert_eq!(stage.prune_one(&parent, 10 + WINDOW), Some(KeepReason::Missing));
        stage.store.delete(&[last.txid]).unwrap();
    }
}

/// Transactions of a chain in two chunks at once, so that each chunk holds parents and children of
/// the other: nobody waits in a circle, and everything that may go does.
pub(super) fn chunks_never_wait_in_a_circle(stage: &PruneStage) {
    const LENGTH: u8 = 24;
    for _ in 0..10 {
        let mut chain = vec![seed(1, &[5])];
        for name in 2..=LENGTH {
            chain.push(spending(name, &[(&chain[chain.len() - 1], 0)], &[5]));
        }
        for tx in &chain {
            stage.mined(tx, 10);
        }
        let (last, settled) = chain.split_last().expect("it is long");
        let chunk = |from: usize| -> Vec<Txid> {
            settled.iter().skip(from).step_by(2).map(|tx| tx.txid).collect()
        };
        let prune = |txids: &[Txid]| {
            stage.store.prune(txids, &rules_at(10 + WINDOW)).unwrap().unwrap();
        };
        race(|| prune(&chunk(0)), || prune(&chunk(1)));
        for tx in settled {
            assert!(!stage.is_there(tx), "all but the last are spent by a settled transaction");
        }
        assert!(stage.is_there(last));
        stage.store.delete(&[last.txid]).unwrap();
    }
}

/// A reorganisation takes children off their block while their parents are looked at, over and
/// over: parents whose children are not settled stay, and nobody waits in a circle.
pub(super) fn parents_stay_when_their_children_are_unmined_during_pruning(stage: &PruneStage) {
    const FAMILIES: u8 = 20;
    let (mut parents, mut old, mut young) = (Vec::new(), Vec::new(), Vec::new());
    for name in 0..FAMILIES {
        let parent = seed(name, &[5, 5]);
        old.push(spending(100 + name, &[(&parent, 0)], &[4]));
        young.push(spending(200 + name, &[(&parent, 1)], &[4]));
        parents.push(parent);
    }
    for tx in parents.iter().chain(&old) {
        stage.mined(tx, 10);
    }
    // One below the depth at which their parents could go.
    for tx in &young {
        stage.mined(tx, 11);
    }
    let ids = |txs: &[NodeTx]| txs.iter().map(|tx| tx.txid).collect::<Vec<Txid>>();
    let (parents, old, young) = (ids(&parents), ids(&old), ids(&young));
    let move_block = |txids: &[Txid], height: u32, unset: bool| {
        let block = MinedBlock { id: height, height: at(height), subtree: 0 };
        let info = MinedInfo { block, on_longest_chain: true, unset, unmined_since: at(WINDOW) };
        for answer in stage.store.set_mined(txids, &info).unwrap() {
            answer.unwrap();
        }
    };
    race(
        || {
            for _ in 0..ROUNDS / 2 {
                for (txids, height) in [(&young, 11), (&old, 10)] {
                    move_block(txids, height, true);
                    move_block(txids, height, false);
                }
            }
        },
        || {
            for _ in 0..ROUNDS {
                for pruned in stage.store.prune(&parents, &rules_at(10 + WINDOW)).unwrap().unwrap()
                {
                    assert!(matches!(pruned, Pruned::Kept { .. }), "a child is not deep enough");
                }
            }
        },
    );
    move_block(&old, 10, true);
    for pruned in stage.store.prune(&parents, &rules_at(11 + WINDOW)).unwrap().unwrap() {
        let reason = KeepReason::ChildUnmined;
        assert!(matches!(pruned, Pruned::Kept { reason: r, .. } if r == reason), "{pruned:?}");
    }
    move_block(&old, 10, false);
    for pruned in stage.store.prune(&parents, &rules_at(11 + WINDOW)).unwrap().unwrap() {
        assert!(matches!(pruned, Pruned::Deleted { .. }));
    }
}
