//! What a store believes of its chain: wrong heights delete nothing, and nothing is forgotten.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use utxokeep_core::node::{Assembly, ChainReport, CreateOptions, NodeTx, Waiting};
use utxokeep_pruner::{
    ChainState as _, JobState, Pruner, PrunerError, PrunerSettings, SkipReason, TriggerMode,
};
use utxokeep_txstore::{Agreement, BlockState, StoreError};

use super::stage::{PruneStage, StillClock, at};
use crate::txstore::{seed, spending};

/// A parent that is due at 1288 and whose child was mined at 1001: nobody may delete it before 1289.
fn young(stage: &PruneStage) -> NodeTx {
    let parent = seed(1, &[5]);
    let child = spending(2, &[(&parent, 0)], &[4]);
    stage.mined(&parent, 900);
    stage.unmined(&child, 1_000);
    stage.mine(&child, 1_001);
    parent
}

fn tell_block_state(stage: &PruneStage, height: u32) {
    let state = BlockState { height: at(height), median_time: 1 };
    stage.store.set_block_state(state).unwrap().unwrap();
}

pub(super) fn a_wrong_height_deletes_nothing_and_silences_nobody(stage: &PruneStage) {
    let parent = young(stage);
    let pruner = stage.pruner(PrunerSettings::default());
    stage.reach(1_001);
    pruner.block_mined(at(1_002)).unwrap();
    pruner.run_at(at(1_002));
    for wrong in [4_000_000_000, u32::MAX] {
        let reported = pruner.block_mined(at(wrong)).unwrap();
        assert_eq!((reported.held(), reported.pending), (Some(at(wrong)), Some(at(1_002))));
        let asked = pruner.trigger(Some(at(wrong)));
        assert!(matches!(asked, Err(PrunerError::Ahead { .. })), "{asked:?}");
        assert_eq!(pruner.run_at(at(wrong)).state, JobState::Skipped(SkipReason::Ahead));
        assert!(!pruner.health().is_ready(), "somebody has to look");
    }
    assert!(stage.is_there(&parent));
    let reported = pruner.block_mined(at(1_003)).unwrap();
    assert_eq!((reported.held(), reported.pending), (None, Some(at(1_003))), "runs go on");
    assert!(pruner.health().is_ready());
    assert!(matches!(pruner.run_at(at(1_003)).state, JobState::Completed(_)));
}

pub(super) fn a_fresh_store_refuses_heights(stage: &PruneStage) {
    let parent = young(stage);
    let pruner = stage.pruner(PrunerSettings::default());
    for asked in [None, Some(at(1_300)), Some(at(u32::MAX))] {
        let answer = pruner.trigger(asked);
        assert!(matches!(answer, Err(PrunerError::NoHeight)), "{answer:?}");
    }
    assert_eq!(pruner.run_at(at(1_300)).state, JobState::Skipped(SkipReason::Ahead));
    assert_eq!(pruner.block_mined(at(1_300)).unwrap().pending, None, "one witness");
    assert!(matches!(pruner.trigger(None), Err(PrunerError::NoHeight)));
    assert!(stage.is_there(&parent));
    tell_block_state(stage, 1_300);
    assert_eq!(pruner.trigger(None).unwrap(), Some(at(1_300)), "two");
}

/// Away from 1002 on; the first block it reports is held, the second is believed.
pub(super) fn a_node_that_was_away_catches_up(stage: &PruneStage) {
    let parent = young(stage);
    stage.reach(1_002);
    let pruner = stage.pruner(PrunerSettings::default());
    assert_eq!(pruner.block_mined(at(1_800)).unwrap().held(), Some(at(1_800)));
    // Also over a restart.
    let next = stage.pruner(PrunerSettings::default());
    assert_eq!(next.block_mined(at(1_801)).unwrap().pending, Some(at(1_801)));
    assert!(matches!(next.run_at(at(1_801)).state, JobState::Completed(_)));
    assert!(!stage.is_there(&parent));
    assert_eq!(next.block_mined(at(5_000)).unwrap().held(), Some(at(5_000)));
    let known = next.confirm_height(at(5_001)).unwrap();
    assert_eq!((known.newest(), known.held()), (Some(at(5_000)), None), "a person agrees");
}

pub(super) fn what_the_node_said_survives_a_restart(stage: &PruneStage) {
    let parent = young(stage);
    stage.reach(1_300);
    let stopped = Assembly { is_running: false, height: at(1_300) };
    let first = stage.pruner(PrunerSettings::default());
    first.report(&[ChainReport::Assembly(stopped)]).unwrap();
    drop(first);
    let next = stage.pruner(PrunerSettings::default());
    assert_eq!(next.run_at(at(1_300)).state, JobState::Skipped(SkipReason::AssemblyTimeout));
    let running = Assembly { is_running: true, ..stopped };
    next.report(&[ChainReport::Assembly(running), ChainReport::MinedSet(at(1_299))]).unwrap();
    drop(next);
    let next = stage.pruner(PrunerSettings::default());
    assert_eq!(next.run_at(at(1_300)).state, JobState::Skipped(SkipReason::MinedSetTimeout));
    next.report(&[ChainReport::MinedSet(at(1_300)), ChainReport::Persisted(at(1_288))]).unwrap();
    drop(next);
    let next = stage.pruner(PrunerSettings::default());
    assert_eq!(next.run_at(at(1_300)).state, JobState::Skipped(SkipReason::Ahead));
    assert!(stage.is_there(&parent), "everything above holds without its first layer too");
    next.block_persisted(at(1_300)).unwrap();
    assert!(matches!(next.run_at(at(1_300)).state, JobState::Completed(_)));
    assert!(!stage.is_there(&parent));
    drop(next);
    let next = stage.pruner(PrunerSettings::default());
    let heights = next.status().unwrap().heights;
    assert_eq!((heights.completed(), heights.persisted()), (Some(at(1_300)), Some(at(1_300))));
    assert_eq!(next.trigger(None).unwrap(), None, "it is complete");
}

/// A service over the store, with threads, that has run out of what it could do.
fn started(stage: &PruneStage, passes: &dyn Fn(&Pruner) -> bool) -> Pruner {
    let settings = PrunerSettings::default().with(|settings| {
        settings.mined_set_wait_ms = 0;
        settings.assembly_wait_ms = 0;
    });
    let clock = Arc::new(StillClock::default());
    let pruner = Pruner::start(Arc::clone(&stage.store), clock, settings).unwrap();
    until(&pruner, passes);
    pruner
}

fn until(pruner: &Pruner, passes: &dyn Fn(&Pruner) -> bool) {
    for _ in 0..1_000 {
        if passes(pruner) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come: {:?}", pruner.status());
}

fn last(pruner: &Pruner) -> Option<JobState> {
    pruner.status().unwrap().last.map(|job| job.state)
}

/// With default settings, and the same for a store that was never told of block assembly: there a
/// service goes on at once.
pub(super) fn after_a_restart_nothing_goes_before_the_node_reports_again(stage: &PruneStage) {
    let parent = young(stage);
    stage.reach(1_288);
    let is_complete = |pruner: &Pruner| matches!(last(pruner), Some(JobState::Completed(_)));
    drop(started(stage, &is_complete));
    let running = Assembly { is_running: true, height: at(1_289) };
    let reports = [ChainReport::Assembly(running), ChainReport::MinedSet(at(1_289))];
    let by_hand = stage.pruner(PrunerSettings::default());
    by_hand.report(&reports).unwrap();
    drop(by_hand);
    stage.reach(1_289);
    let is_skipped =
        |reason: SkipReason| move |pruner: &Pruner| last(pruner) == Some(JobState::Skipped(reason));
    let service = started(stage, &is_skipped(SkipReason::MinedSetTimeout));
    service.report(&reports[1..]).unwrap();
    until(&service, &is_skipped(SkipReason::AssemblyTimeout));
    assert!(stage.is_there(&parent), "the node said so before the restart");
    let heights = service.status().unwrap().heights;
    assert_eq!((heights.assembly(), heights.mined_set()), (Some(running), Some(at(1_289))));
    service.report(&reports[..1]).unwrap();
    until(&service, &is_complete);
    assert!(!stage.is_there(&parent));
}

/// Two services over one store: what the node said to the first stays said, while the second waits.
pub(super) fn the_start_of_one_service_closes_only_its_own_gate(stage: &PruneStage) {
    let parent = young(stage);
    stage.reach(1_288);
    let is_complete = |pruner: &Pruner| matches!(last(pruner), Some(JobState::Completed(_)));
    let first = started(stage, &is_complete);
    let running = Assembly { is_running: true, height: at(1_289) };
    let reports = [ChainReport::Assembly(running), ChainReport::MinedSet(at(1_289))];
    first.report(&reports).unwrap();
    let second = started(stage, &|_| true);
    stage.reach(1_289);
    let waits_for = |pruner: &Pruner| -> Vec<&'static str> {
        pruner.status().unwrap().waits_for.into_iter().map(Waiting::name).collect()
    };
    assert_eq!(waits_for(&second), ["mined_set", "assembly"]);
    assert_eq!(waits_for(&first), [""; 0]);
    let skipped = JobState::Skipped(SkipReason::MinedSetTimeout);
    assert_eq!(second.run_at(at(1_289)).state, skipped);
    assert!(stage.is_there(&parent));
    assert!(matches!(first.run_at(at(1_289)).state, JobState::Completed(_)));
    assert!(!stage.is_there(&parent), "the first goes on");
    stage.reach(1_290);
    first.report(&[ChainReport::Assembly(Assembly { height: at(1_290), ..running })]).unwrap();
    first.report(&[ChainReport::MinedSet(at(1_290))]).unwrap();
    assert!(matches!(second.run_at(at(1_290)).state, JobState::Completed(_)), "heard by both");
}

/// Preservations that end set new heights, so a service with an old retention does not end them.
pub(super) fn a_retention_that_was_changed_stops_a_service_before_its_first_phase(
    stage: &PruneStage,
) {
    let parent = young(stage);
    let pruner = stage.pruner(PrunerSettings::default());
    assert_eq!(stage.store.preserve(&[parent.txid], at(1_290)).unwrap(), 1);
    stage.reach(1_300);
    let change = Agreement::Change { now_ms: 7 };
    stage.store.agree(&[("retention_blocks", 1_000)], change).unwrap().unwrap();
    let job = pruner.run_at(at(1_300));
    let JobState::Failed { error, .. } = &job.state else { panic!("{job:?}") };
    assert!(error.contains("retention_blocks = 1000") && error.contains("288"), "{error}");
    assert_eq!(stage.due(&parent), None, "it is still preserved");
    let told = pruner.status().unwrap().waits_for;
    assert_eq!(told.iter().map(|one| one.name()).collect::<Vec<_>>(), ["settings_changed"]);
    assert!(!pruner.health().is_ready());
}

/// Heights of deletion are made with these numbers: a program that has the old ones would make heights
/// that nobody wants any more.
pub(super) fn a_program_with_old_numbers_writes_nothing(stage: &PruneStage) {
    let parent = young(stage);
    let change = |blocks| {
        let change = Agreement::Change { now_ms: 7 };
        stage.store.agree(&[("retention_blocks", blocks)], change).unwrap().unwrap();
    };
    change(1_000);
    let before = stage.record(&parent);
    let refused = |error: StoreError| {
        assert!(matches!(&error, StoreError::Disagreement(_)), "{error}");
        assert!(error.to_string().contains("retention_blocks = 1000"), "{error}");
    };
    refused(stage.store.preserve(&[parent.txid], at(5_000)).unwrap_err());
    refused(stage.store.set_locked(&[parent.txid], true, at(1_003)).unwrap_err());
    refused(stage.store.set_conflicting(&[parent.txid], true, at(1_003)).unwrap_err());
    let other = (seed(99, &[5]), CreateOptions::default());
    refused(stage.store.create(&[other], at(1_003)).unwrap_err());
    assert_eq!(stage.record(&parent), before, "reading goes on");
    change(288);
    assert_eq!(stage.store.preserve(&[parent.txid], at(5_000)).unwrap(), 1, "as it was");
}

/// The example of the persister, with default settings.
pub(super) fn the_safe_height_is_that_of_the_persister(stage: &PruneStage) {
    let pruner = stage.pruner(PrunerSettings::default());
    for height in [1, 100] {
        pruner.block_mined(at(height)).unwrap();
    }
    assert_eq!(pruner.trigger(Some(at(100))).unwrap(), None, "100 waits: no persister reported");
    pruner.block_persisted(at(95)).unwrap();
    assert_eq!(pruner.safe_height(None).unwrap(), at(95));
    let next = stage.pruner(PrunerSettings::default());
    assert_eq!(next.safe_height(None).unwrap(), at(95), "also after a restart");
    assert_eq!(next.run_at(at(100)).state, JobState::Skipped(SkipReason::Ahead));
    let answer = next.trigger(Some(at(96)));
    assert!(matches!(answer, Err(PrunerError::Ahead { .. })), "{answer:?}");
    // A program that was told that there is none refuses one, and still obeys what is known.
    let trigger = TriggerMode::BlockMined;
    let told = stage.pruner(PrunerSettings::default().with(|settings| settings.trigger = trigger));
    let answer = told.block_persisted(at(96));
    assert!(matches!(answer, Err(PrunerError::UnexpectedPersister)), "{answer:?}");
    assert_eq!(told.safe_height(None).unwrap(), at(95));
    told.report(&[ChainReport::NoPersister]).unwrap();
    assert_eq!(told.safe_height(None).unwrap(), at(100), "somebody said that there is none");
}

/// A persister that was wrong once, and a node that is wrong once later, are not two witnesses.
pub(super) fn a_height_that_a_persister_took_back_deletes_nothing(stage: &PruneStage) {
    let parent = young(stage);
    stage.reach(1_002);
    let pruner = stage.pruner(PrunerSettings::default());
    let wrong = at(1_000_000);
    for takes_back in [ChainReport::Persisted(at(1_002)), ChainReport::NoPersister] {
        assert_eq!(pruner.block_persisted(wrong).unwrap().held(), Some(wrong));
        pruner.report(&[takes_back]).unwrap();
        assert_eq!(pruner.status().unwrap().heights.held(), None, "{takes_back:?}");
        assert_eq!(pruner.block_mined(wrong).unwrap().held(), Some(wrong), "{takes_back:?}");
        assert_eq!(pruner.run_at(wrong).state, JobState::Skipped(SkipReason::Ahead));
        assert_eq!(pruner.block_mined(at(1_002)).unwrap().held(), None);
    }
    assert!(stage.is_there(&parent));
}

pub(super) fn nothing_completes_above_the_newest_block(stage: &PruneStage) {
    let pruner = stage.pruner(PrunerSettings::default());
    assert!(matches!(stage.run(&pruner, 500).state, JobState::Completed(_)));
    pruner.report(&[ChainReport::Reorganised(at(490))]).unwrap();
    let heights = pruner.status().unwrap().heights;
    assert_eq!((heights.newest(), heights.completed()), (Some(at(490)), Some(at(490))));
    assert_eq!(pruner.run_at(at(500)).state, JobState::Skipped(SkipReason::Ahead));
    assert_eq!(pruner.block_mined(at(491)).unwrap().pending, Some(at(491)), "runs go on");
}

/// What was run survives a restart, and is bounded.
pub(super) fn the_last_runs_survive_a_restart(stage: &PruneStage) {
    let settings = PrunerSettings::default().with(|settings| settings.job_history_max = 3);
    let pruner = stage.pruner(settings.clone());
    assert_eq!(pruner.status().unwrap().last, None);
    let first = stage.run(&pruner, 500);
    pruner.pause().unwrap();
    let second = stage.run(&pruner, 501);
    assert_eq!(second.state, JobState::Skipped(SkipReason::Paused));
    assert_eq!(pruner.jobs(9).unwrap(), [second.clone(), first.clone()]);
    drop(pruner);
    let next = stage.pruner(settings);
    assert_eq!(next.jobs(9).unwrap(), [second.clone(), first]);
    assert_eq!(next.status().unwrap().last, Some(second));
    next.resume().unwrap();
    // Another program over the same store runs in between.
    let other =
        stage.pruner(PrunerSettings::default().with(|settings| settings.job_history_max = 3));
    let mut numbers = Vec::new();
    for (pruner, height) in [(&next, 502), (&other, 503), (&next, 504)] {
        stage.run(pruner, height);
        numbers = next.jobs(9).unwrap().iter().map(|job| (job.number, job.height.get())).collect();
    }
    assert_eq!(numbers, [(5, 504), (4, 503), (3, 502)]);
}

/// Two programs that disagree over what may go are never both right.
pub(super) fn every_pruner_has_the_window_of_the_store(stage: &PruneStage) {
    let window = |safety_window_blocks| {
        PrunerSettings::default()
            .with(|settings| settings.safety_window_blocks = safety_window_blocks)
    };
    drop(stage.pruner(window(288)));
    let open =
        |settings| Pruner::new(Arc::clone(&stage.store), Arc::new(StillClock::default()), settings);
    let error = open(window(200)).unwrap_err().to_string();
    for part in ["safety_window_blocks = 288", "200", "utxokeep tx settings --change"] {
        assert!(error.contains(part), "{error}");
    }
    let change = Agreement::Change { now_ms: 7 };
    stage.store.agree(&window(200).agreed(), change).unwrap().unwrap();
    assert!(open(window(200)).is_ok() && open(window(288)).is_err());
}

/// A service that runs on while somebody changes the window.
pub(super) fn a_window_that_was_changed_stops_whoever_has_the_old_one(stage: &PruneStage) {
    let parent = young(stage);
    let pruner = stage.pruner(PrunerSettings::default());
    stage.reach(1_300);
    assert!(pruner.health().is_ready());
    let wider = PrunerSettings::default().with(|settings| settings.safety_window_blocks = 400);
    let change = Agreement::Change { now_ms: 7 };
    stage.store.agree(&wider.agreed(), change).unwrap().unwrap();
    let job = pruner.run_at(at(1_300));
    let JobState::Failed { error, .. } = &job.state else { panic!("{job:?}") };
    for part in ["safety_window_blocks = 400", "288", "nothing was changed"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(stage.is_there(&parent), "the old window would let it go");
    let health = pruner.health();
    let fault = health.dependencies.iter().find_map(|one| one.fault.clone()).unwrap();
    assert!(fault.contains("safety_window_blocks = 400"), "{fault}");
    let told = stage.pruner(wider);
    assert!(matches!(stage.run(&told, 1_402).state, JobState::Completed(_)));
    assert!(!stage.is_there(&parent));
}

/// Several programs tell a store different things at the same moment.
pub(super) fn reports_at_the_same_time_are_all_remembered(stage: &PruneStage) {
    stage.reach(100);
    for round in 101..=110 {
        let height = at(round);
        let assembly = Assembly { is_running: true, height };
        let reports = [
            ChainReport::MinedSet(height),
            ChainReport::Assembly(assembly),
            ChainReport::CatchingUp(round % 2 == 0),
        ];
        let start = Barrier::new(reports.len() + 1);
        thread::scope(|scope| {
            for report in reports {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    stage.store.report(&[report], 1).unwrap();
                });
            }
            start.wait();
            tell_block_state(stage, round);
        });
        let heights = stage.store.heights().unwrap();
        assert_eq!((heights.newest(), heights.mined_set()), (Some(height), Some(height)));
        assert_eq!(heights.assembly(), Some(assembly));
        assert_eq!(heights.is_catching_up(), Some(round % 2 == 0));
    }
}
