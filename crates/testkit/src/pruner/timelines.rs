//! The worked tables of safe deletion, height by height.

use utxokeep_core::node::{KeepReason, NodeTx};
use utxokeep_pruner::{JobState, PrunerError, PrunerSettings, SkipReason, TriggerMode};

use super::stage::{PruneStage, at};
use crate::txstore::{seed, spending};

const UNMINED: Option<KeepReason> = Some(KeepReason::ChildUnmined);
const YOUNG: Option<KeepReason> = Some(KeepReason::ChildYoung);

/// A parent of block 900, fully spent at 1000 by a child that is in no block.
pub(super) fn spent_at_1000(stage: &PruneStage) -> (NodeTx, NodeTx) {
    let parent = seed(1, &[5]);
    let child = spending(2, &[(&parent, 0)], &[4]);
    stage.mined(&parent, 900);
    stage.unmined(&child, 1_000);
    assert_eq!(stage.due(&parent), Some(1_288));
    (parent, child)
}

pub(super) fn a_parent_goes_288_blocks_after_its_child_was_mined(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    stage.mine(&child, 1_001);
    assert_eq!(stage.prune_one(&parent, 1_287), Some(KeepReason::NotDue));
    assert_eq!(stage.prune_one(&parent, 1_288), YOUNG, "1288 - 1001 = 287");
    assert_eq!(stage.prune_one(&parent, 1_289), None, "1289 - 1001 = 288");
}

/// Scenario A, a long-running block assembly.
pub(super) fn a_due_parent_stays_while_its_child_is_unmined(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    assert_eq!(stage.prune_one(&parent, 1_200), Some(KeepReason::NotDue));
    assert_eq!(stage.prune_one(&parent, 1_288), UNMINED);
    assert!(stage.is_there(&parent) && stage.is_there(&child), "at 1300 it still validates");
}

/// Scenario B, a reorganisation.
pub(super) fn a_parent_stays_when_a_reorganisation_unmines_its_child(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    stage.mine(&child, 1_100);
    assert_eq!(stage.prune_one(&parent, 1_288), YOUNG);
    stage.orphan(&child, 1_100);
    assert_eq!(stage.prune_one(&parent, 1_300), UNMINED);
}

pub(super) fn a_parent_stays_for_ever_when_its_child_is_never_mined(stage: &PruneStage) {
    let (parent, _) = spent_at_1000(stage);
    for height in [1_288, 1_500, 2_000] {
        assert_eq!(stage.prune_one(&parent, height), UNMINED, "at {height}");
    }
}

pub(super) fn the_wait_of_a_parent_starts_when_a_late_child_is_mined(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    assert_eq!(stage.prune_one(&parent, 1_288), UNMINED);
    stage.mine(&child, 1_500);
    assert_eq!(stage.prune_one(&parent, 1_787), YOUNG);
    assert_eq!(stage.prune_one(&parent, 1_788), None, "1788 - 1500 = 288");
}

pub(super) fn the_wait_of_a_parent_starts_anew_when_its_child_is_mined_again(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    stage.mine(&child, 1_100);
    stage.orphan(&child, 1_100);
    assert_eq!(stage.prune_one(&parent, 1_288), UNMINED);
    stage.mine(&child, 1_300);
    assert_eq!(stage.prune_one(&parent, 1_587), YOUNG);
    assert_eq!(stage.prune_one(&parent, 1_588), None, "1588 - 1300 = 288");
}

/// Shut down at 1400, started at 1500, and the first thing that happens is
/// a deletion.
pub(super) fn a_parent_of_an_unmined_child_survives_the_first_run_after_a_restart(
    stage: &PruneStage,
) {
    let (parent, child) = spent_at_1000(stage);
    assert_eq!(stage.record(&parent).unwrap().preserve_until, None, "nothing was preserved");
    // Even with phase 1 left out, so that the order of phases cannot be what saves it.
    let settings = PrunerSettings::default().with(|settings| settings.skip_preserve_parents = true);
    let job = stage.run(&stage.pruner(settings), 1_500);
    let JobState::Completed(report) = job.state else { panic!("{job:?}") };
    assert_eq!((report.deleted, report.kept[&KeepReason::ChildUnmined]), (0, 1));
    assert!(stage.is_there(&parent) && stage.is_there(&child));
}

/// Child A spends output 0 at 100, child B output 1 at 200; A is reorganised away.
pub(super) fn a_parent_waits_for_its_youngest_child(stage: &PruneStage) {
    let parent = seed(1, &[5, 5]);
    let (a, b) = (spending(2, &[(&parent, 0)], &[4]), spending(3, &[(&parent, 1)], &[4]));
    stage.mined(&parent, 90);
    stage.mined(&a, 100);
    stage.mined(&b, 200);
    assert_eq!(stage.due(&parent), Some(488));
    stage.orphan(&a, 100);
    assert_eq!(stage.prune_one(&parent, 488), UNMINED, "B alone is not enough");
    stage.mine(&a, 490);
    assert_eq!(stage.prune_one(&parent, 500), YOUNG);
    assert_eq!(stage.prune_one(&parent, 778), None);
}

/// Current height 1300, persister at 1280: nothing that is due above 1280 goes.
pub(super) fn nothing_that_is_due_above_the_persisted_height_goes(stage: &PruneStage) {
    let parent = seed(1, &[5]);
    let child = spending(2, &[(&parent, 0)], &[4]);
    stage.mined(&parent, 900);
    stage.mined(&child, 1_000);
    let trigger = TriggerMode::BlockPersisted;
    let pruner =
        stage.pruner(PrunerSettings::default().with(|settings| settings.trigger = trigger));
    stage.reach(1_300);
    let asked = pruner.trigger(Some(at(1_300)));
    assert!(matches!(asked, Err(PrunerError::NothingPersisted)), "{asked:?}");
    let reported = pruner.block_persisted(at(1_280)).unwrap();
    assert_eq!(reported.pending, Some(at(1_280)));
    pruner.run_at(at(1_280));
    assert!(stage.is_there(&parent));
    let reported = pruner.block_persisted(at(1_288)).unwrap();
    assert_eq!(reported.pending, Some(at(1_288)));
    let asked = pruner.trigger(Some(at(1_300)));
    assert!(matches!(asked, Err(PrunerError::Ahead { .. })), "{asked:?}");
    assert_eq!(pruner.run_at(at(1_300)).state, JobState::Skipped(SkipReason::Ahead));
    pruner.run_at(at(1_288));
    assert!(!stage.is_there(&parent));
}
