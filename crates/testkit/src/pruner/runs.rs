//! Runs and the service: phases in order, bounded work, and what a user sees of it.

use std::{sync::Arc, time::Duration};

use utxokeep_core::node::{CreateOptions, NodeTx};
use utxokeep_pruner::{JobState, MonotonicClock, Pruner, PrunerSettings, RunReport, SkipReason};

use super::stage::{PruneStage, StillClock, WINDOW, at};
use crate::txstore::{seed, spending};

fn completed(job: &utxokeep_pruner::Job) -> RunReport {
    match &job.state {
        JobState::Completed(report) => report.clone(),
        other => panic!("expected a complete run: {other:?}"),
    }
}

/// Transactions without outputs that could be spent, due at 10 + WINDOW, which spend from one
/// parent that stays.
fn due(stage: &PruneStage, count: u8) -> (NodeTx, Vec<NodeTx>) {
    let parent = seed(1, &vec![5; usize::from(count) + 1]);
    stage.mined(&parent, 5);
    let txs: Vec<NodeTx> =
        (0..count).map(|n| spending(10 + n, &[(&parent, n.into())], &[0])).collect();
    for tx in &txs {
        stage.mined(tx, 10);
    }
    (parent, txs)
}

pub(super) fn bounded_chunks_delete_and_mark_everything_due(stage: &PruneStage) {
    for parallel_chunks in [1, 3] {
        let (parent, txs) = due(stage, 5);
        let settings = PrunerSettings::default().with(|settings| {
            settings.chunk_rows = 2;
            settings.parallel_chunks = parallel_chunks;
        });
        let report = completed(&stage.run(&stage.pruner(settings), 10 + WINDOW));
        assert_eq!((report.examined, report.deleted, report.parents_marked), (5, 5, 5));
        assert!(txs.iter().all(|tx| !stage.is_there(tx)));
        assert_eq!(stage.record(&parent).unwrap().deleted_children, 5);
        stage.store.delete(&[parent.txid]).unwrap();
    }
}

pub(super) fn parents_of_old_unmined_transactions_are_preserved(stage: &PruneStage) {
    let settings = |unmined, preserved| {
        PrunerSettings::default().with(|settings| {
            settings.unmined_retention_blocks = unmined;
            settings.parent_preservation_blocks = preserved;
        })
    };
    let run = |unmined, preserved, height| {
        completed(&stage.run(&stage.pruner(settings(unmined, preserved)), height))
    };
    assert_eq!(run(5, 1_440, 10).old_unmined, 0, "an empty store");
    let parents: Vec<NodeTx> = (1..=4).map(|name| seed(name, &[5])).collect();
    for (name, (parent, since)) in (11..).zip(parents.iter().zip([1, 3, 5, 6])) {
        stage.mined(parent, 1);
        stage.unmined(&spending(name, &[(parent, 0)], &[4]), since);
    }
    assert_eq!(run(5, 1_440, 5).old_unmined, 0, "not above the retention");
    assert_eq!(run(5, 0, 10).old_unmined, 0, "left out");
    for preserved in [3, 0] {
        let report = run(5, 1_440, 10);
        assert_eq!((report.old_unmined, report.deleted), (3, 0), "1, 3 and 5, not 6");
        assert_eq!(report.parents_preserved, preserved, "each is counted once");
    }
    for (parent, is_preserved) in parents.iter().zip([true, true, true, false]) {
        let until = stage.record(parent).unwrap().kept_for_child_until;
        assert_eq!(until, is_preserved.then(|| at(10 + 1_440)));
    }
}

/// What phase 1 protects, phase 2 of the same run sees as preserved.
pub(super) fn what_phase_1_preserves_phase_2_leaves_alone(stage: &PruneStage) {
    let parent = seed(1, &[5]);
    stage.mined(&parent, 900);
    stage.unmined(&spending(2, &[(&parent, 0)], &[4]), 1_000);
    let report = completed(&stage.run(&stage.pruner(PrunerSettings::default()), 1_288));
    assert_eq!((report.parents_preserved, report.examined), (1, 0));
    // The child is evicted: the preservation ends by its height, and the retention starts anew.
    let child = spending(2, &[(&parent, 0)], &[4]);
    stage.store.delete(&[child.txid]).unwrap();
    let until = 1_288 + 1_440;
    let pruner = stage.pruner(PrunerSettings::default());
    assert_eq!(completed(&stage.run(&pruner, until)).expired, 1);
    assert_eq!(stage.due(&parent), Some(until + WINDOW));
    stage.mined(&child, until);
    assert_eq!(completed(&stage.run(&pruner, until + WINDOW)).deleted, 1);
}

/// With threads of its own: blocks come, and what is due goes.
pub(super) fn the_service_reaches_the_newest_block_and_never_goes_back(stage: &PruneStage) {
    let (_, txs) = due(stage, 20);
    let clock = Arc::new(MonotonicClock::default());
    let settings = PrunerSettings::default().with(|settings| settings.chunk_rows = 3);
    let store = Arc::clone(&stage.store);
    let mut pruner = Pruner::start(store, clock, settings).unwrap();
    for height in 11..=10 + WINDOW {
        pruner.block_mined(at(height)).unwrap();
    }
    for _ in 0..1_000 {
        if pruner.status().unwrap().heights.completed() == Some(at(10 + WINDOW)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(
        pruner.status().unwrap().heights.completed(),
        Some(at(10 + WINDOW)),
        "the newest is processed"
    );
    assert!(txs.iter().all(|tx| !stage.is_there(tx)));
    let heights: Vec<u32> =
        pruner.jobs(1_000).unwrap().iter().map(|job| job.height.get()).collect();
    assert!(heights.is_sorted_by(|newer, older| newer > older), "{heights:?}");
    pruner.shut_down();
}

pub(super) fn a_paused_pruner_completes_no_height(stage: &PruneStage) {
    let (_, txs) = due(stage, 1);
    let pruner = stage.pruner(PrunerSettings::default());
    pruner.pause().unwrap();
    let job = stage.run(&pruner, 10 + WINDOW);
    assert_eq!(job.state, JobState::Skipped(SkipReason::Paused));
    assert!(stage.is_there(&txs[0]) && pruner.status().unwrap().is_paused);
    assert_eq!(
        pruner.status().unwrap().heights.completed(),
        None,
        "a skipped height is not complete"
    );
    pruner.resume().unwrap();
    assert_eq!(completed(&stage.run(&pruner, 10 + WINDOW)).deleted, 1);
}

/// A pause is kept in the store: who starts next finds it.
pub(super) fn a_pause_outlives_the_program(stage: &PruneStage) {
    let (_, txs) = due(stage, 1);
    stage.pruner(PrunerSettings::default()).pause().unwrap();
    let next = stage.pruner(PrunerSettings::default());
    assert!(next.status().unwrap().is_paused);
    assert_eq!(stage.run(&next, 10 + WINDOW).state, JobState::Skipped(SkipReason::Paused));
    assert!(stage.is_there(&txs[0]));
    next.resume().unwrap();
    let last = stage.pruner(PrunerSettings::default());
    assert!(!last.status().unwrap().is_paused);
    assert_eq!(completed(&last.run_at(at(10 + WINDOW))).deleted, 1);
}

pub(super) fn health_names_the_dependency_at_fault(stage: &PruneStage) {
    let fine = stage.pruner(PrunerSettings::default());
    assert!(fine.health().is_ready());
    let strict = PrunerSettings::default().with(|settings| settings.requires_assembly_state = true);
    let pruner = stage.pruner(strict);
    let health = pruner.health();
    let fault = health.dependencies.iter().find(|dependency| dependency.fault.is_some()).unwrap();
    assert_eq!(fault.name, "block assembly");
    let job = stage.run(&pruner, 500);
    assert_eq!(job.state, JobState::Skipped(SkipReason::AssemblyTimeout));
    pruner.block_mined(at(9_000)).unwrap();
    let health = fine.health();
    let fault = health.dependencies.iter().find(|dependency| dependency.fault.is_some()).unwrap();
    assert_eq!(fault.name, "chain state", "a height is held");
}

/// Every look at the clock takes a second.
struct Hasty(StillClock);
impl utxokeep_pruner::Clock for Hasty {
    fn now_ms(&self) -> u64 {
        self.0.sleep_ms(1_000);
        self.0.now_ms()
    }
    fn sleep_ms(&self, ms: u64) {
        self.0.sleep_ms(ms);
    }
}

/// A run whose time is over stops after a chunk, and the next one goes on behind it.
pub(super) fn a_run_out_of_time_stops_and_the_next_one_resumes(stage: &PruneStage) {
    let (parent, _) = due(stage, 6);
    let blocked = spending(90, &[(&parent, 6)], &[0]);
    stage.store_with(&blocked, 10, &CreateOptions::default()).unwrap();
    let settings = PrunerSettings::default().with(|settings| {
        settings.chunk_rows = 2;
        settings.parallel_chunks = 1;
        settings.run_time_max_ms = 8_000;
    });
    let clock = Arc::new(Hasty(StillClock::default()));
    let store = Arc::clone(&stage.store);
    let pruner = Pruner::new(store, clock, settings).unwrap();
    let (mut deleted, mut runs) = (0, 0);
    loop {
        runs += 1;
        let job = stage.run(&pruner, 10 + WINDOW);
        match job.state {
            JobState::Cancelled(report) => deleted += report.deleted,
            JobState::Completed(report) => {
                deleted += report.deleted;
                break;
            }
            other => panic!("{other:?}"),
        }
        assert!(pruner.status().unwrap().heights.completed().is_none() && runs < 10);
    }
    assert_eq!(deleted, 6);
    assert!(runs > 1, "one run had not enough time");
}
