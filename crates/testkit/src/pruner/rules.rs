//! Single rules: what goes, what stays, and what is left behind.

use utxokeep_core::{
    OutPoint,
    node::{CreateOptions, KeepReason, MinedBlock, NodeError, NodeTx, PruneRules, SpendError},
};
use utxokeep_pruner::{JobState, PrunerError, PrunerSettings, RunReport};

use super::stage::{PruneStage, WINDOW, at, unspend_of};
use crate::txstore::{seed, spending};

/// 1 keeps a live output, 2 spends the other, 3 spends all of 2; all in block 10.
fn grandchild(stage: &PruneStage) -> [NodeTx; 3] {
    let first = seed(1, &[5, 5]);
    let second = spending(2, &[(&first, 1)], &[4]);
    let third = spending(3, &[(&second, 0)], &[3]);
    for tx in [&first, &second, &third] {
        stage.mined(tx, 10);
    }
    [first, second, third]
}

fn deleted_children(stage: &PruneStage, tx: &NodeTx) -> u32 {
    stage.record(tx).expect("it is stored").deleted_children
}

/// Two that are due at different heights; a surviving parent is marked, a missing one not
/// made.
pub(super) fn a_record_goes_at_its_deletion_height_and_marks_a_surviving_parent(
    stage: &PruneStage,
) {
    let survivor = seed(1, &[5, 5, 5]);
    stage.mined(&survivor, 1);
    let mut early = spending(2, &[(&survivor, 0)], &[0]);
    let late = spending(3, &[(&survivor, 1)], &[0]);
    stage.mined(&early, 3);
    stage.mined(&late, 4);
    assert_eq!((stage.due(&early), stage.due(&late)), (Some(3 + WINDOW), Some(4 + WINDOW)));
    let kept = Some(KeepReason::NotDue);
    assert_eq!(stage.prune(&[&early, &late], 2 + WINDOW), [kept, kept]);
    assert_eq!(stage.prune(&[&early, &late], 3 + WINDOW), [None, kept]);
    assert_eq!(stage.prune(&[&late], 4 + WINDOW), [None]);
    assert_eq!(deleted_children(stage, &survivor), 2);
    let missing = seed(9, &[5]);
    early = spending(4, &[(&missing, 0)], &[0]);
    let mined = vec![MinedBlock { id: 5, height: at(5), subtree: 0 }];
    let options = CreateOptions { mined, ..CreateOptions::default() };
    stage.store.create(&[(early.clone(), options)], at(5)).unwrap().remove(0).unwrap();
    assert_eq!(stage.prune_one(&early, 5 + WINDOW), None);
    assert!(!stage.is_there(&missing));
}

pub(super) fn pruning_refuses_height_zero_and_takes_any_other(stage: &PruneStage) {
    let rules = PruneRules::at(at(0), WINDOW);
    assert_eq!(stage.store.prune(&[], &rules).unwrap(), Err(NodeError::HeightZero));
    assert_eq!(stage.prune(&[], u32::MAX), []);
    assert_eq!(stage.prune_one(&seed(1, &[5]), u32::MAX), Some(KeepReason::Missing));
    let JobState::Completed(report) =
        stage.run(&stage.pruner(PrunerSettings::default()), u32::MAX).state
    else {
        panic!("an empty store is pruned in no time");
    };
    assert_eq!((report.examined, report.deleted), (0, 0));
}

pub(super) fn pruning_a_height_again_deletes_nothing(stage: &PruneStage) {
    let [_, second, _] = grandchild(stage);
    let pruner = stage.pruner(PrunerSettings::default());
    for deleted in [1, 0] {
        let JobState::Completed(report) = stage.run(&pruner, 10 + WINDOW).state else {
            panic!("it runs");
        };
        assert_eq!(report.deleted, deleted);
        assert!(!stage.is_there(&second));
    }
}

pub(super) fn a_missing_child_without_a_marker_keeps_its_parent(stage: &PruneStage) {
    let [_, second, third] = grandchild(stage);
    stage.store.delete(&[third.txid]).unwrap();
    assert_eq!(stage.prune_one(&second, 5_000), Some(KeepReason::ChildMissing), "no marker");
    let marked = seed(5, &[5]);
    let child = spending(6, &[(&marked, 0)], &[0]);
    stage.mined(&marked, 10);
    stage.mined(&child, 10);
    stage.store.preserve(&[marked.txid], at(400)).unwrap();
    assert_eq!(stage.prune_one(&child, 10 + WINDOW), None);
    assert_eq!(deleted_children(stage, &marked), 1);
    stage.store.expire_preservations(at(400), 10).unwrap();
    assert_eq!(stage.prune_one(&marked, 400 + WINDOW), None, "the marker proves the child");
}

pub(super) fn a_due_conflicting_record_goes_though_unspent_and_unmined(stage: &PruneStage) {
    let parent = seed(1, &[5]);
    stage.mined(&parent, 5);
    let loser = spending(2, &[(&parent, 0)], &[4, 4]);
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.store_with(&loser, 10, &options).unwrap();
    assert_eq!(stage.record(&parent).unwrap().conflicting_children, [loser.txid]);
    assert_eq!(stage.prune_one(&loser, 9 + WINDOW), Some(KeepReason::NotDue));
    assert_eq!(stage.prune_one(&loser, 10 + WINDOW), None, "unspent and unmined, and gone");
    let parent = stage.record(&parent).unwrap();
    assert_eq!((parent.deleted_children, parent.conflicting_children), (0, vec![]));
}

/// A node that forgets to process a conflict, or is in between the two calls.
pub(super) fn a_conflicting_record_that_is_mined_is_kept(stage: &PruneStage) {
    let loser = seed(1, &[5]);
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.store_with(&loser, 1_000, &options).unwrap();
    assert_eq!(stage.due(&loser), Some(1_000 + WINDOW));
    stage.mine(&loser, 1_002);
    assert_eq!(stage.due(&loser), None);
    assert_eq!(stage.prune_one(&loser, 9_000), Some(KeepReason::Contradiction));
    stage.run(&stage.pruner(PrunerSettings::default()), 9_000);
    assert!(stage.is_there(&loser), "its output is unspent");
    stage.orphan(&loser, 1_002);
    assert_eq!(stage.due(&loser), Some(1_002 + WINDOW), "it has only lost");
}

fn lose(stage: &PruneStage, txs: &[&NodeTx], is_conflicting: bool, height: u32) {
    let txids: Vec<_> = txs.iter().map(|tx| tx.txid).collect();
    for answer in stage.store.set_conflicting(&txids, is_conflicting, at(height)).unwrap() {
        answer.unwrap();
    }
}

/// Parent and child lose together, and the child is mined all the same: it needs its parent until
/// it lies deep enough, or loses its block.
pub(super) fn a_loser_waits_for_its_child_that_is_mined_all_the_same(stage: &PruneStage) {
    let parent = seed(1, &[5]);
    let child = spending(2, &[(&parent, 0)], &[4]);
    stage.unmined(&parent, 1_000);
    stage.unmined(&child, 1_000);
    lose(stage, &[&parent, &child], true, 1_000);
    stage.mine(&child, 1_286);
    let due = 1_000 + WINDOW;
    assert_eq!(stage.due(&parent), Some(due));
    assert_eq!(stage.prune(&[&parent, &child], due)[0], Some(KeepReason::ChildUnknown));
    stage.run(&stage.pruner(PrunerSettings::default()), 9_000);
    assert!(stage.is_there(&parent), "whether the child lost or was mined is not known");
    lose(stage, &[&child], false, 9_001);
    assert_eq!(stage.prune_one(&parent, 1_286 + WINDOW - 1), Some(KeepReason::ChildYoung));
    assert_eq!(stage.prune_one(&parent, 1_286 + WINDOW), None, "the child lies deep enough");
    // The other way out: the block was wrong.
    let parent = seed(3, &[5]);
    let child = spending(4, &[(&parent, 0)], &[4]);
    stage.unmined(&parent, 1_000);
    stage.unmined(&child, 1_000);
    lose(stage, &[&parent, &child], true, 1_000);
    stage.mine(&child, 1_286);
    stage.orphan(&child, 1_286);
    assert_eq!(stage.prune_one(&parent, due), None, "both have only lost");
    assert_eq!(stage.prune_one(&child, 1_286 + WINDOW), None, "and nothing is left behind");
}

/// A transaction conflicted over an output that another one has, and is mined all the same: it
/// names the record as much as the one that has the output.
pub(super) fn a_record_waits_for_a_rival_that_is_mined(stage: &PruneStage) {
    let parent = seed(1, &[5]);
    let (holder, rival) = (spending(2, &[(&parent, 0)], &[4]), spending(3, &[(&parent, 0)], &[3]));
    stage.mined(&parent, 10);
    stage.mined(&holder, 10);
    let conflicting = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.store_with(&rival, 20, &conflicting).unwrap();
    stage.mine(&rival, 400);
    assert_eq!(stage.prune_one(&parent, 500), Some(KeepReason::ChildUnknown));
    lose(stage, &[&rival], false, 401);
    assert_eq!(stage.prune_one(&parent, 400 + WINDOW - 1), Some(KeepReason::ChildYoung));
    assert_eq!(stage.prune_one(&parent, 400 + WINDOW), None);
}

/// Parents with a child each, all lost at one height, in chunks that separate them.
pub(super) fn chains_of_conflicting_records_do_not_leak(stage: &PruneStage) {
    let mut all = Vec::new();
    for name in 1..=60 {
        let parent = seed(name, &[5]);
        // Ids of children lie anywhere between those of the parents.
        let child = spending(name.wrapping_mul(97) | 0x80, &[(&parent, 0)], &[4]);
        if stage.is_there(&child) {
            continue;
        }
        stage.unmined(&parent, 10);
        stage.unmined(&child, 10);
        all.extend([parent.txid, child.txid]);
    }
    for lost in stage.store.set_conflicting(&all, true, at(11)).unwrap() {
        lost.unwrap();
    }
    let settings = PrunerSettings::default().with(|settings| settings.chunk_rows = 7);
    let job = stage.run(&stage.pruner(settings), 11 + WINDOW);
    let JobState::Completed(report) = job.state else { panic!("{job:?}") };
    assert!(all.len() > 40 && report.kept.is_empty(), "{report:?}");
    assert_eq!(report.deleted, all.len() as u64);
}

/// Somebody holds evidence in advance.
pub(super) fn a_record_preserved_before_it_is_due_stays(stage: &PruneStage) {
    let parent = seed(1, &[5]);
    stage.mined(&parent, 10);
    assert_eq!(stage.store.preserve(&[parent.txid], at(100_000)).unwrap(), 1);
    stage.mined(&spending(2, &[(&parent, 0)], &[4]), 11);
    stage.run(&stage.pruner(PrunerSettings::default()), 50_000);
    assert_eq!(stage.prune_one(&parent, 50_000), Some(KeepReason::Preserved));
}

pub(super) fn a_record_preserved_after_it_was_listed_stays(stage: &PruneStage) {
    let [_, second, _] = grandchild(stage);
    let due = stage.store.due(at(10 + WINDOW), None, 10).unwrap();
    assert_eq!(due, [(at(10 + WINDOW), second.txid)]);
    // The list was taken before; the verdict is taken now.
    assert_eq!(stage.store.preserve(&[second.txid], at(5_000)).unwrap(), 1);
    assert_eq!(stage.prune_one(&second, 10 + WINDOW), Some(KeepReason::Preserved));
}

pub(super) fn only_a_parent_that_survives_the_pass_is_marked(stage: &PruneStage) {
    let [first, second, third] = grandchild(stage);
    let last = spending(4, &[(&first, 0), (&third, 0)], &[0]);
    stage.mined(&last, 20);
    // First and second go in one pass: second leaves no marker on a parent that dies with it.
    let height = 20 + WINDOW;
    assert_eq!(stage.prune(&[&second, &first], height), [None, None]);
    assert_eq!(stage.prune(&[&last], height), [None]);
    assert_eq!(deleted_children(stage, &third), 1, "third outlives last, first does not");
    assert_eq!(stage.prune(&[&third], height), [None]);
}

pub(super) fn a_pruned_child_is_not_stored_again(stage: &PruneStage) {
    let [first, second, _] = grandchild(stage);
    assert_eq!(stage.prune_one(&second, 10 + WINDOW), None);
    let again = stage.store_with(&second, 400, &CreateOptions::default());
    assert!(matches!(again, Err(NodeError::Spend { .. })), "{again:?}");
    assert!(!stage.is_there(&second) && stage.is_there(&first));
}

/// `Create` alone takes no pruned child for new either: its output was spent once.
pub(super) fn creating_a_pruned_child_is_refused(stage: &PruneStage) {
    let [first, second, _] = grandchild(stage);
    assert_eq!(stage.prune_one(&second, 10 + WINDOW), None);
    let options = CreateOptions::default();
    let create = |tx: &NodeTx| stage.store.create(&[(tx.clone(), options.clone())], at(400));
    match create(&second).unwrap().remove(0) {
        Err(NodeError::Spend { errors, .. }) => {
            assert!(matches!(errors[..], [(0, SpendError::SpenderPruned { .. })]), "{errors:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!stage.is_there(&second) && stage.is_there(&first));
    create(&spending(9, &[(&first, 1)], &[4])).unwrap().remove(0).expect("another one is new");
}

/// The marker outlives the spend: taking that back
/// does not let the pruned child in again, but another spender.
pub(super) fn a_marker_outlives_the_spend_that_is_taken_back(stage: &PruneStage) {
    let [first, second, _] = grandchild(stage);
    assert_eq!(stage.prune_one(&second, 10 + WINDOW), None);
    let refused = |answer: Result<_, NodeError>| match answer {
        Err(NodeError::Spend { errors, .. }) => {
            matches!(errors[..], [(0, SpendError::SpenderPruned { .. })])
        }
        other => panic!("{other:?}"),
    };
    let again = |tx: &NodeTx| stage.store_with(tx, 400, &CreateOptions::default());
    assert!(refused(again(&second)), "it is the recorded spender, and gone for good");
    let back = stage.store.unspend(&[unspend_of(&first, 1, &second, 400)]).unwrap().remove(0);
    assert_eq!(back, Ok(true));
    assert!(refused(again(&second)), "the marker is still there");
    let other = spending(9, &[(&first, 1)], &[4]);
    again(&other).expect("another spender may have it");
    assert_eq!(deleted_children(stage, &first), 1);
}

/// Letting a transaction win against a spender that was pruned is
/// refused: it was final.
pub(super) fn nobody_wins_against_a_pruned_spender(stage: &PruneStage) {
    let [first, second, _] = grandchild(stage);
    let rival = spending(9, &[(&first, 1)], &[4]);
    let conflicting = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.store_with(&rival, 20, &conflicting).expect("it is new");
    assert_eq!(stage.prune_one(&second, 10 + WINDOW), None);
    let answer = stage.store.process_conflicting(&[rival.txid], at(400)).unwrap();
    let is_refused = matches!(answer, Err(NodeError::Output(SpendError::SpenderPruned { .. })));
    assert!(is_refused, "{answer:?}");
}

/// A child is unmined, a reorganisation marks it anew each time, and its parent falls due.
pub(super) fn a_parent_survives_a_child_that_reorganisations_mark_again_and_again(
    stage: &PruneStage,
) {
    let parent = seed(1, &[5]);
    let child = spending(2, &[(&parent, 0)], &[4]);
    stage.mined(&parent, 900);
    stage.mined(&child, 1_000);
    let pruner = stage.pruner(PrunerSettings::default());
    for height in (1_010..2_000).step_by(60) {
        let answer = stage.store.mark_on_longest_chain(&[child.txid], false, at(height));
        answer.unwrap().remove(0).unwrap();
        stage.run(&pruner, height);
        assert!(stage.is_there(&parent), "at {height}");
    }
}

/// A parent with a live output is preserved and the preservation ends: it is never
/// deleted.
pub(super) fn a_parent_with_a_live_output_survives_its_preservation(stage: &PruneStage) {
    let parent = seed(1, &[5, 5]);
    let (first, second) = (spending(2, &[(&parent, 0)], &[0]), spending(3, &[(&parent, 1)], &[4]));
    stage.mined(&parent, 10);
    stage.mined(&first, 10);
    stage.unmined(&second, 10);
    assert_eq!(stage.store.preserve(&[parent.txid], at(50)).unwrap(), 1);
    let request = unspend_of(&parent, 1, &second, 20);
    assert_eq!(stage.store.unspend(&[request]).unwrap(), [Ok(true)]);
    let pruner = stage.pruner(PrunerSettings::default());
    for height in [60, 400, 800, 5_000] {
        stage.run(&pruner, height);
        assert!(stage.is_there(&parent), "at {height}");
    }
    assert_eq!(stage.due(&parent), None);
}

pub(super) fn explain_says_why_and_until_when_a_record_stays(stage: &PruneStage) {
    let parent = seed(1, &[5, 5]);
    let (a, b) = (spending(2, &[(&parent, 0)], &[4]), spending(3, &[(&parent, 1)], &[4]));
    stage.mined(&parent, 900);
    stage.unmined(&b, 1_000);
    stage.mined(&a, 1_200);
    let pruner = stage.pruner(PrunerSettings::default());
    let facts = |height| {
        let found = pruner.explain(&parent.txid, Some(at(height))).unwrap();
        let mut facts: Vec<_> = found
            .iter()
            .map(|fact| (fact.reason, fact.child, fact.until.map(utxokeep_core::Height::get)))
            .collect();
        facts.sort_unstable();
        facts
    };
    let unmined = (KeepReason::ChildUnmined, Some(b.txid), None);
    let young = (KeepReason::ChildYoung, Some(a.txid), Some(1_488));
    let not_due = (KeepReason::NotDue, None, Some(1_488));
    assert_eq!(facts(1_287), [not_due, unmined, young]);
    stage.mine(&b, 1_300);
    assert_eq!(facts(1_587), [(KeepReason::ChildYoung, Some(b.txid), Some(1_588))]);
    assert_eq!(facts(1_588), []);
    assert_eq!(stage.prune_one(&parent, 1_588), None, "it says when, and then it is so");
}

pub(super) fn a_dry_run_foretells_the_run_and_deletes_nothing(stage: &PruneStage) {
    let [_, second, third] = grandchild(stage);
    stage.mined(&spending(4, &[(&third, 0)], &[3]), 20);
    let pruner = stage.pruner(PrunerSettings::default());
    let height = Some(at(20 + WINDOW - 1));
    let rehearsed = pruner.dry_run(height).unwrap();
    assert_eq!((rehearsed.examined, rehearsed.deleted), (1, 1));
    assert!(rehearsed.bytes > 100, "{rehearsed:?}");
    assert!(stage.is_there(&second), "nothing was changed");
    let backlog = pruner.backlog(Some(at(20 + WINDOW))).unwrap();
    assert_eq!((backlog.total, backlog.oldest), (2, Some(at(10 + WINDOW))));
    assert_eq!(backlog.by_age[..4], [(0, 1), (1, 0), (6, 1), (144, 0)]);
    let JobState::Completed(report) = stage.run(&pruner, 20 + WINDOW - 1).state else {
        panic!("it runs");
    };
    assert_eq!(report.deleted, rehearsed.deleted, "what was rehearsed is what happens");
}

/// What phase 1 kept for a child is let go by the run that finds the child mined, and what an old
/// unmined transaction names is kept by it: a rehearsal sees both.
pub(super) fn a_dry_run_foretells_what_the_phases_before_deletion_change(stage: &PruneStage) {
    let parent = seed(1, &[5]);
    let child = spending(2, &[(&parent, 0)], &[4]);
    stage.mined(&parent, 900);
    stage.unmined(&child, 1_000);
    let pruner = stage.pruner(PrunerSettings::default());
    stage.run(&pruner, 1_144);
    assert!(stage.record(&parent).unwrap().kept_for_child_until.is_some());
    stage.mine(&child, 1_500);
    // Named by a transaction that was stored and never spent its input.
    let named = seed(3, &[5]);
    stage.mined(&named, 1_000);
    stage.mined(&spending(4, &[(&named, 0)], &[4]), 1_100);
    let waits = spending(5, &[(&named, 0)], &[3]);
    stage.store.create(&[(waits, CreateOptions::default())], at(1_200)).unwrap().remove(0).unwrap();
    for height in [1_787, 1_788] {
        let rehearsed = pruner.dry_run(Some(at(height))).unwrap();
        let JobState::Completed(report) = stage.run(&pruner, height).state else {
            panic!("it runs");
        };
        let told = |report: &RunReport| (report.examined, report.deleted, report.kept.clone());
        assert_eq!(told(&rehearsed), told(&report), "at {height}");
        assert_eq!(report.deleted, u64::from(height == 1_788));
        assert!(stage.is_there(&named), "a transaction that waits names it");
    }
}

pub(super) fn a_pruned_record_is_restored_with_everything_it_had(stage: &PruneStage) {
    let [first, second, third] = grandchild(stage);
    stage.mined(&spending(4, &[(&third, 0)], &[0]), 10);
    let before = stage.record(&second).unwrap();
    let pruner = stage.pruner(PrunerSettings::default().with(|settings| settings.undo_blocks = 2));
    let height = 10 + WINDOW;
    stage.run(&pruner, height);
    assert!(!stage.is_there(&second) && !stage.is_there(&third));
    assert_eq!(deleted_children(stage, &first), 1);
    assert!(pruner.restore(&second.txid, Some(at(height + 1))).unwrap());
    assert!(stage.is_there(&second), "body and outputs too");
    assert_eq!(deleted_children(stage, &first), 0, "it is no deleted child any more");
    let restored = stage.record(&second).unwrap();
    assert_eq!(restored.deleted_children, 1, "but third is");
    assert_eq!((restored.spent, restored.blocks), (before.spent, before.blocks));
    assert!(restored.preserve_until > Some(at(height)));
    assert_eq!(
        pruner.restore_height(at(height)).unwrap().restored,
        2,
        "third, and the one that spent it"
    );
    assert!(!pruner.restore(&second.txid, Some(at(height + 1))).unwrap(), "it is there");
    // Out of the window nothing can be restored, and nothing is kept.
    let other = spending(7, &[(&first, 0)], &[0]);
    stage.mined(&other, 20);
    stage.run(&pruner, 20 + WINDOW);
    stage.run(&pruner, 21 + WINDOW);
    assert!(pruner.restore(&other.txid, Some(at(21 + WINDOW))).unwrap());
    stage.store.delete(&[other.txid]).unwrap();
    let off = stage.pruner(PrunerSettings::default());
    let error = off.restore(&other.txid, Some(at(22 + WINDOW))).unwrap_err();
    assert!(error.to_string().contains("undo_blocks"));
}

/// The spend of a pruned transaction was taken back, and another has the output: both would spend
/// it. What was refused can be restored when the output is free.
pub(super) fn restoring_a_record_whose_input_another_one_has_is_refused(stage: &PruneStage) {
    let [first, second, third] = grandchild(stage);
    stage.mined(&spending(4, &[(&third, 0)], &[0]), 10);
    let pruner = stage.pruner(PrunerSettings::default().with(|settings| settings.undo_blocks = 2));
    let height = 10 + WINDOW;
    stage.run(&pruner, height);
    assert!(!stage.is_there(&second));
    let unspend = |by: &NodeTx| {
        let request = unspend_of(&first, 1, by, height);
        assert_eq!(stage.store.unspend(&[request]).unwrap(), [Ok(true)]);
    };
    unspend(&second);
    let other = spending(9, &[(&first, 1)], &[3]);
    stage.unmined(&other, height);
    let is_refused = |error: &NodeError| {
        let NodeError::Spend { spender, errors } = error else { return false };
        let is_spent = |error: &SpendError| matches!(error, SpendError::Spent { by, .. } if by.txid == other.txid);
        *spender == second.txid && matches!(&errors[..], [(0, error)] if is_spent(error))
    };
    for _ in 0..2 {
        let refused = pruner.restore(&second.txid, None).unwrap_err();
        assert!(refused.to_string().contains(&other.txid.to_string()), "{refused}");
        assert!(matches!(&refused, PrunerError::NotRestored(error) if is_refused(error)));
        assert!(!stage.is_there(&second), "and it can be asked for again");
    }
    assert_eq!(deleted_children(stage, &first), 1, "nothing was changed");
    let done = pruner.restore_height(at(height)).unwrap();
    assert_eq!((done.restored, done.refused), (2, 1), "the others came back");
    assert!(is_refused(&done.named[0].1) && done.named[0].0 == second.txid);
    unspend(&other);
    assert!(pruner.restore(&second.txid, None).unwrap());
    assert_eq!(deleted_children(stage, &first), 0);
    let again =
        stage.store_with(&spending(11, &[(&first, 1)], &[2]), height, &CreateOptions::default());
    assert!(matches!(again, Err(NodeError::Spend { .. })), "it spends its input again: {again:?}");
    assert_eq!(stage.record(&first).unwrap().spent, 1);
}

/// An output that was frozen after the spend was taken back is nobody's.
pub(super) fn restoring_a_record_whose_input_is_frozen_is_refused(stage: &PruneStage) {
    let [first, second, _] = grandchild(stage);
    let pruner = stage.pruner(PrunerSettings::default().with(|settings| settings.undo_blocks = 2));
    stage.run(&pruner, 10 + WINDOW);
    stage.store.unspend(&[unspend_of(&first, 1, &second, 400)]).unwrap().remove(0).unwrap();
    let output = (OutPoint::new(first.txid, 1), first.utxo_hash(1).unwrap());
    stage.store.freeze(&[output]).unwrap().remove(0).unwrap();
    let refused = pruner.restore(&second.txid, None).unwrap_err();
    assert!(refused.to_string().contains("frozen"), "{refused}");
    stage.store.unfreeze(&[output]).unwrap().remove(0).unwrap();
    assert!(pruner.restore(&second.txid, None).unwrap());
}

/// Any height may be named: work depends on what can be restored, and the record is not preserved
/// for ever.
pub(super) fn restoring_at_any_height_is_bounded(stage: &PruneStage) {
    let [_, second, third] = grandchild(stage);
    stage.mined(&spending(4, &[(&third, 0)], &[0]), 10);
    let pruner = stage.pruner(PrunerSettings::default().with(|settings| settings.undo_blocks = 2));
    let height = 10 + WINDOW;
    stage.run(&pruner, height);
    assert!(!stage.is_there(&second));
    let never_stored = seed(99, &[1]);
    assert!(!pruner.restore(&never_stored.txid, Some(at(u32::MAX))).unwrap());
    assert!(!pruner.restore(&second.txid, Some(at(height - 1))).unwrap(), "it went later");
    assert!(pruner.restore(&second.txid, Some(at(u32::MAX))).unwrap());
    let preserved = PrunerSettings::default().restored_preservation_blocks;
    let until = stage.record(&second).unwrap().preserve_until;
    assert_eq!(until, Some(at(height + preserved)));
}

pub(super) fn a_parent_of_many_children_waits_for_the_last_one(stage: &PruneStage) {
    let parent = seed(1, &[5; 100]);
    stage.mined(&parent, 10);
    let children: Vec<NodeTx> =
        (0..100).map(|vout| spending(100 + vout, &[(&parent, vout.into())], &[4])).collect();
    for child in &children {
        stage.mined(child, 10);
    }
    stage.orphan(&children[99], 10);
    assert_eq!(stage.prune_one(&parent, 10 + WINDOW), Some(KeepReason::ChildUnmined));
    stage.mine(&children[99], 11);
    assert_eq!(stage.prune_one(&parent, 10 + WINDOW), Some(KeepReason::ChildYoung));
    assert_eq!(stage.prune_one(&parent, 11 + WINDOW), None);
}
