//! The worked tables of safe deletion once more, through the whole service: gate and every phase,
//! with the settings that a user gets.

use utxokeep_core::node::NodeTx;
use utxokeep_pruner::{JobState, Pruner, PrunerSettings};

use super::{
    stage::{PruneStage, at},
    timelines::spent_at_1000,
};
use crate::txstore::{seed, spending};

fn service(stage: &PruneStage) -> Pruner {
    stage.pruner(PrunerSettings::default())
}

fn run(stage: &PruneStage, pruner: &Pruner, height: u32) {
    let job = stage.run(pruner, height);
    assert!(matches!(job.state, JobState::Completed(_)), "at {height}: {job:?}");
}

/// Runs at each height, after which the transaction is still there.
fn stays(stage: &PruneStage, pruner: &Pruner, tx: &NodeTx, heights: &[u32]) {
    for height in heights {
        run(stage, pruner, *height);
        assert!(stage.is_there(tx), "it went at {height}");
    }
}

fn goes(stage: &PruneStage, pruner: &Pruner, tx: &NodeTx, height: u32) {
    run(stage, pruner, height);
    assert!(!stage.is_there(tx), "it is still there at {height}");
}

pub(super) fn the_service_deletes_a_parent_288_blocks_after_its_child_was_mined(
    stage: &PruneStage,
) {
    let (parent, child) = spent_at_1000(stage);
    let pruner = service(stage);
    stays(stage, &pruner, &parent, &[1_000]);
    stage.mine(&child, 1_001);
    stays(stage, &pruner, &parent, &[1_001, 1_287, 1_288]);
    goes(stage, &pruner, &parent, 1_289);
    assert!(stage.is_there(&child));
}

/// Scenario A, a long-running block assembly.
pub(super) fn the_service_keeps_a_due_parent_for_its_unmined_child(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    let pruner = service(stage);
    stays(stage, &pruner, &parent, &[1_000, 1_200, 1_288, 1_300]);
    stage.mine(&child, 1_301);
    stays(stage, &pruner, &parent, &[1_301, 1_588]);
    goes(stage, &pruner, &parent, 1_589);
}

/// Scenario B, a reorganisation.
pub(super) fn the_service_keeps_a_parent_when_a_reorganisation_unmines_its_child(
    stage: &PruneStage,
) {
    let (parent, child) = spent_at_1000(stage);
    let pruner = service(stage);
    stage.mine(&child, 1_100);
    stays(stage, &pruner, &parent, &[1_100, 1_288, 1_299]);
    stage.orphan(&child, 1_100);
    stays(stage, &pruner, &parent, &[1_300, 1_388]);
    stage.mine(&child, 1_390);
    stays(stage, &pruner, &parent, &[1_390, 1_677]);
    goes(stage, &pruner, &parent, 1_678);
}

pub(super) fn the_service_keeps_a_parent_whose_child_is_never_mined(stage: &PruneStage) {
    let (parent, _) = spent_at_1000(stage);
    let pruner = service(stage);
    stays(stage, &pruner, &parent, &[1_000, 1_144, 1_288, 1_500, 2_000, 3_439, 3_440, 9_000]);
}

/// What phase 1 kept for the child ends when the child is mined.
pub(super) fn the_service_waits_288_blocks_after_a_child_that_was_mined_late(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    let pruner = service(stage);
    for height in [1_000, 1_143, 1_144, 1_288, 1_499] {
        stays(stage, &pruner, &parent, &[height]);
        let record = stage.record(&parent).unwrap();
        assert_eq!(record.kept_for_child_until.is_some(), height >= 1_144, "at {height}");
        assert_eq!(record.preserve_until, None, "nobody asked for it");
    }
    stage.mine(&child, 1_500);
    stays(stage, &pruner, &parent, &[1_500, 1_787]);
    goes(stage, &pruner, &parent, 1_788);
    assert!(stage.is_there(&child));
}

pub(super) fn the_service_waits_anew_when_a_child_is_mined_again(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    let pruner = service(stage);
    stage.mine(&child, 1_100);
    stays(stage, &pruner, &parent, &[1_100, 1_199]);
    stage.orphan(&child, 1_100);
    stays(stage, &pruner, &parent, &[1_200, 1_288, 1_299]);
    stage.mine(&child, 1_300);
    stays(stage, &pruner, &parent, &[1_300, 1_587]);
    goes(stage, &pruner, &parent, 1_588);
}

/// Shut down at 1400 before anything was preserved, started at 1500.
pub(super) fn the_service_keeps_the_parent_of_an_unmined_child_over_a_restart(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    stays(stage, &service(stage), &parent, &[1_100]);
    let restarted = service(stage);
    stays(stage, &restarted, &parent, &[1_500]);
    stage.mine(&child, 1_501);
    stays(stage, &restarted, &parent, &[1_501, 1_788]);
    goes(stage, &restarted, &parent, 1_789);
}

pub(super) fn the_service_waits_for_the_youngest_child(stage: &PruneStage) {
    let parent = seed(1, &[5, 5]);
    let (a, b) = (spending(2, &[(&parent, 0)], &[4]), spending(3, &[(&parent, 1)], &[4]));
    let pruner = service(stage);
    stage.mined(&parent, 90);
    stage.mined(&a, 100);
    stage.mined(&b, 200);
    stays(stage, &pruner, &parent, &[200]);
    stage.orphan(&a, 100);
    stays(stage, &pruner, &parent, &[201, 488]);
    stage.mine(&a, 490);
    stays(stage, &pruner, &parent, &[490, 500, 777]);
    goes(stage, &pruner, &parent, 778);
}

/// A mined child ends what phase 1 did, never what somebody asked for.
pub(super) fn what_an_operator_preserves_outlives_the_child(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    let pruner = service(stage);
    stays(stage, &pruner, &parent, &[1_288]);
    assert_eq!(pruner.preserve(&[parent.txid], at(2_000)).unwrap(), 1);
    stage.mine(&child, 1_300);
    stays(stage, &pruner, &parent, &[1_300]);
    let record = stage.record(&parent).unwrap();
    assert_eq!((record.preserve_until, record.kept_for_child_until), (Some(at(2_000)), None));
    stays(stage, &pruner, &parent, &[1_999, 2_000, 2_287]);
    goes(stage, &pruner, &parent, 2_288);
}

/// An evicted child can be sent again as long as the preservation lasts.
pub(super) fn an_evicted_child_leaves_the_preservation(stage: &PruneStage) {
    let (parent, child) = spent_at_1000(stage);
    let pruner = service(stage);
    stays(stage, &pruner, &parent, &[1_288]);
    stage.store.delete(&[child.txid]).unwrap();
    let until = Some(at(1_288 + 1_440));
    stays(stage, &pruner, &parent, &[1_289, 1_500]);
    assert_eq!(stage.record(&parent).unwrap().kept_for_child_until, until);
    stage.unmined(&child, 1_501);
    stage.mine(&child, 1_502);
    stays(stage, &pruner, &parent, &[1_502, 1_789]);
    goes(stage, &pruner, &parent, 1_790);
}
