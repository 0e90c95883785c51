use std::sync::mpsc;

use utxokeep_pruner::{JobState, PrunerError};
use utxokeep_txstore::{BlockState, TxStore as _};

use super::*;
use crate::{config::PrunerTrigger, config::TxStoreConfig, node_store};

fn height(height: u32) -> Height {
    Height::new(height)
}

fn block(at: u32) -> BlockEvent {
    BlockEvent { height: height(at), mined_set: None, is_catching_up: None }
}

fn start(config: &PrunerConfig) -> Pruning {
    let store = node_store::open("memory:", &TxStoreConfig::default()).unwrap();
    Pruning::start(store, config).unwrap()
}

/// Waits for a run at a height to be over.
fn wait_for(pruning: &Pruning, at: u32) -> JobState {
    for _ in 0..3_000 {
        let jobs = pruning.pruner().jobs(1).unwrap();
        if let Some(job) = jobs.into_iter().find(|job| job.height == height(at))
            && job.ended_ms.is_some()
        {
            return job.state;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("no run at {at}: {:?}", pruning.pruner().jobs(10).unwrap());
}

fn is_completed(state: &JobState) -> bool {
    matches!(state, JobState::Completed(_))
}

#[test]
fn a_store_that_knows_its_height_is_pruned_at_the_start() {
    let store = node_store::open("memory:", &TxStoreConfig::default()).unwrap();
    store.set_block_state(BlockState { height: height(7), median_time: 1 }).unwrap().unwrap();
    let pruning = Pruning::start(store, &PrunerConfig::default()).unwrap();
    assert!(is_completed(&wait_for(&pruning, 7)));
    assert!(matches!(pruning.pruner().trigger(Some(height(8))), Err(PrunerError::Ahead { .. })));
    assert_eq!(pruning.pruner().trigger(None).unwrap(), None, "it is complete");
}

#[test]
fn after_a_reorganisation_the_node_has_to_say_again_what_it_reached() {
    let pruning =
        start(&PrunerConfig { gate_poll_ms: 5.try_into().unwrap(), ..Default::default() });
    // What it said reaches ahead of the block, so that only the reorganisation can take it back.
    let at_20 = BlockEvent { mined_set: Some(height(21)), ..block(20) };
    pruning.assembly_changed(Assembly { is_running: true, height: height(21) }).unwrap();
    pruning.block(at_20).unwrap();
    assert!(is_completed(&wait_for(&pruning, 20)));
    pruning.reorganised(height(18)).unwrap();
    pruning.block(block(21)).unwrap();
    thread::sleep(Duration::from_millis(50));
    let job = pruning.pruner().jobs(1).unwrap().remove(0);
    assert_eq!((job.height, job.state), (height(21), JobState::Waiting));
    pruning.block(BlockEvent { mined_set: Some(height(21)), ..block(21) }).unwrap();
    pruning.assembly_changed(Assembly { is_running: true, height: height(21) }).unwrap();
    assert!(is_completed(&wait_for(&pruning, 21)));
}

#[test]
fn with_a_persister_nothing_runs_before_it_reported() {
    let trigger = PrunerTrigger::BlockPersisted;
    let pruning = start(&PrunerConfig { trigger, ..PrunerConfig::default() });
    assert_eq!(pruning.block(block(20)).unwrap().pending, None);
    assert!(matches!(pruning.pruner().trigger(None), Err(PrunerError::NothingPersisted)));
    pruning.block_persisted(height(15)).unwrap();
    assert!(is_completed(&wait_for(&pruning, 15)));
    assert!(matches!(pruning.pruner().trigger(Some(height(16))), Err(PrunerError::Ahead { .. })));
}

#[test]
fn a_tip_is_followed_up_and_down_until_it_stops() {
    let pruning = start(&PrunerConfig::default());
    let (send, tips) = mpsc::channel();
    let tips = Mutex::new((tips, None));
    let follow = move || {
        let mut tips = lock(&tips);
        if let Ok(next) = tips.0.try_recv() {
            tips.1 = Some(height(next));
        }
        Ok(tips.1)
    };
    pruning.follow_tip(follow).unwrap();
    send.send(10).unwrap();
    assert!(is_completed(&wait_for(&pruning, 10)));
    send.send(9).unwrap();
    send.send(11).unwrap();
    assert!(is_completed(&wait_for(&pruning, 11)));
    let began = std::time::Instant::now();
    pruning.stop();
    assert!(began.elapsed() < Duration::from_secs(1));
    pruning.block(block(12)).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(pruning.pruner().jobs(1).unwrap()[0].height, height(11), "it is stopped");
}
