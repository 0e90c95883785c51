//! Deletion against everybody else: whoever was first has it, and the other is told.

use std::{sync::Barrier, thread};

use utxokeep_core::node::{KeepReason, NodeTx};

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

/// A preserve that was accepted is never lost; one that came too late says so.
pub(super) fn r_preserve_against_delete(stage: &PruneStage) {
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
pub(super) fn r_delete_against_respend(stage: &PruneStage) {
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
pub(super) fn r_chunks_against_each_other(stage: &PruneStage) {
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
