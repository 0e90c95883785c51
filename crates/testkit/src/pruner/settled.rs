//! Children that were known to be settled, and then were not: whatever an engine remembers of them
//! has to go before the next verdict.

use utxokeep_core::node::{CreateOptions, KeepReason, NodeTx};
use utxokeep_pruner::PrunerSettings;

use super::stage::{PruneStage, WINDOW, at, unspend_of};
use crate::txstore::{seed, spending};

const UNMINED: Option<KeepReason> = Some(KeepReason::ChildUnmined);
const YOUNG: Option<KeepReason> = Some(KeepReason::ChildYoung);

/// Height at which everything of the first blocks may go.
const HEIGHT: u32 = 20 + WINDOW;

/// Two parents and a child that spends both, all settled at 10; a third record was pruned at
/// [`HEIGHT`] just before, so that everything an engine remembers up to there is loaded.
fn family(stage: &PruneStage) -> ([NodeTx; 2], NodeTx) {
    let parents = [seed(1, &[5]), seed(2, &[5])];
    let child = spending(3, &[(&parents[0], 0), (&parents[1], 0)], &[4]);
    let (other, others_child) = (seed(4, &[5]), 5);
    let others_child = spending(others_child, &[(&other, 0)], &[4]);
    for tx in parents.iter().chain([&child, &other, &others_child]) {
        stage.mined(tx, 10);
    }
    assert_eq!(stage.prune_one(&other, HEIGHT), None);
    (parents, child)
}

/// Without any of what follows the parents may go.
pub(super) fn a_settled_child_lets_its_parents_go(stage: &PruneStage) {
    let ([first, second], child) = family(stage);
    assert_eq!(stage.prune(&[&first, &second], HEIGHT), [None, None]);
    assert!(stage.is_there(&child));
}

pub(super) fn a_settled_child_that_loses_its_block_keeps_its_parents(stage: &PruneStage) {
    let ([first, second], child) = family(stage);
    stage.orphan(&child, 10);
    assert_eq!(stage.prune(&[&first, &second], HEIGHT), [UNMINED, UNMINED]);
    stage.mine(&child, 400);
    assert_eq!(stage.prune_one(&first, 400 + WINDOW - 1), YOUNG, "it is in another block now");
    assert_eq!(stage.prune(&[&first, &second], 400 + WINDOW), [None, None]);
}

pub(super) fn a_settled_child_off_the_longest_chain_keeps_its_parents(stage: &PruneStage) {
    let ([first, second], child) = family(stage);
    let mark = |is_on, height| {
        let answer = stage.store.mark_on_longest_chain(&[child.txid], is_on, at(height));
        answer.unwrap().remove(0).unwrap();
    };
    mark(false, 300);
    assert_eq!(stage.prune_one(&first, HEIGHT), UNMINED);
    mark(true, 301);
    assert_eq!(stage.prune_one(&first, HEIGHT + 1_000), None, "its block has not changed");
    mark(false, 302);
    assert_eq!(stage.prune_one(&second, HEIGHT + 1_000), UNMINED);
}

pub(super) fn a_settled_child_in_two_blocks_counts_from_the_higher_one(stage: &PruneStage) {
    let ([first, _], child) = family(stage);
    stage.mine(&child, 200);
    assert_eq!(stage.prune_one(&first, 200 + WINDOW - 1), YOUNG, "the greater height counts");
    stage.orphan(&child, 200);
    assert_eq!(stage.prune_one(&first, HEIGHT), None, "and then only the first is left");
}

pub(super) fn a_settled_child_that_loses_a_conflict_keeps_its_parents(stage: &PruneStage) {
    let ([first, _], child) = family(stage);
    stage.store.set_conflicting(&[child.txid], true, at(300)).unwrap().remove(0).unwrap();
    assert_eq!(stage.prune_one(&first, HEIGHT), Some(KeepReason::ChildUnknown));
}

pub(super) fn a_settled_child_deleted_by_hand_keeps_its_parents(stage: &PruneStage) {
    let ([first, second], child) = family(stage);
    assert_eq!(stage.store.delete(&[child.txid]).unwrap(), 1);
    let missing = Some(KeepReason::ChildMissing);
    assert_eq!(stage.prune(&[&first, &second], HEIGHT + 5_000), [missing, missing]);
    stage.store.create(&[(child.clone(), CreateOptions::default())], at(400)).unwrap();
    assert_eq!(stage.prune_one(&first, HEIGHT + 5_000), UNMINED, "it is back, in no block");
}

/// A child that was pruned and comes back by hand, or by restoring, counts as it stands.
pub(super) fn a_settled_child_that_is_restored_counts_as_it_stands(stage: &PruneStage) {
    let ([first, second], child) = family(stage);
    stage.mined(&spending(6, &[(&child, 0)], &[4]), 12);
    for parent in [&first, &second] {
        assert_eq!(stage.store.preserve(&[parent.txid], at(HEIGHT + 1)).unwrap(), 1);
    }
    let pruner = stage.pruner(PrunerSettings::default().with(|settings| settings.undo_blocks = 5));
    stage.run(&pruner, HEIGHT);
    assert!(!stage.is_there(&child) && stage.is_there(&first), "the child went first");
    assert!(pruner.restore(&child.txid, Some(at(HEIGHT))).unwrap());
    stage.orphan(&child, 10);
    assert_eq!(stage.store.expire_preservations(at(HEIGHT + 1), 10).unwrap(), 2);
    let later = HEIGHT + 1 + WINDOW;
    assert_eq!(stage.prune(&[&first, &second], later), [UNMINED, UNMINED]);
    stage.mine(&child, HEIGHT);
    assert_eq!(stage.prune(&[&first, &second], later), [None, None]);
}

/// A spend is taken back and another transaction spends the output: only that one counts.
pub(super) fn a_settled_child_that_is_replaced_counts_no_more(stage: &PruneStage) {
    let ([first, second], child) = family(stage);
    let request = unspend_of(&first, 0, &child, 300);
    assert_eq!(stage.store.unspend(&[request]).unwrap(), [Ok(true)]);
    stage.unmined(&spending(7, &[(&first, 0)], &[4]), 301);
    let later = 301 + WINDOW;
    assert_eq!(stage.prune(&[&first, &second], later), [UNMINED, None]);
}
