use std::thread;

use utxokeep_core::{Header, Network};
use utxokeep_index::{ChainWriter, ConsumerNeeds, Cursor, IndexSettings, tables::TABLES};
use utxokeep_kv::MemoryKv;
use utxokeep_pruner::{JobState, PrunerError};
use utxokeep_testkit::{ANYONE, mine};
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
    let store =
        node_store::open("memory:", &TxStoreConfig::default(), utxokeep_core::OpenMode::Create)
            .unwrap();
    Pruning::start(store, config).unwrap()
}

/// Waits for a run at a height to be over.
fn wait_for(pruning: &Pruning, at: u32) -> JobState {
    for _ in 0..3_000 {
        let jobs = pruning.pruner().jobs(10).unwrap();
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
    let store =
        node_store::open("memory:", &TxStoreConfig::default(), utxokeep_core::OpenMode::Create)
            .unwrap();
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
fn a_pause_holds_every_service_of_a_store_and_any_of_them_ends_it() {
    let create = utxokeep_core::OpenMode::Create;
    let store = node_store::open("memory:", &TxStoreConfig::default(), create).unwrap();
    let config = PrunerConfig::default();
    let first = Pruning::start(store.clone(), &config).unwrap();
    let second = Pruning::start(store, &config).unwrap();
    second.block(block(10)).unwrap();
    assert!(is_completed(&wait_for(&second, 10)));
    first.pruner().pause().unwrap();
    assert!(second.pruner().status().unwrap().is_paused);
    second.block(block(11)).unwrap();
    assert_eq!(wait_for(&second, 11), JobState::Skipped(utxokeep_pruner::SkipReason::Paused));
    second.pruner().resume().unwrap();
    assert!(!first.pruner().status().unwrap().is_paused);
    first.block(block(12)).unwrap();
    assert!(is_completed(&wait_for(&first, 12)));
}

/// A chain database in memory, and blocks for it.
struct Chain {
    index: ChainIndex<MemoryKv>,
    writer: ChainWriter<MemoryKv>,
    headers: Vec<Header>,
    /// Tells blocks of one branch from those of another.
    branch: u64,
}

impl Chain {
    fn new() -> Self {
        let settings = IndexSettings::new(Network::BitcoinRegtest);
        let first = settings.decoder.decode(settings.decoder.first_block().unwrap()).unwrap();
        let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        writer.apply(&first).unwrap();
        Self { index, writer, headers: vec![first.header], branch: 0 }
    }

    fn tip(&self) -> u32 {
        self.writer.tip().unwrap().height.get()
    }

    fn mine_to(&mut self, target: u32) {
        while self.tip() < target {
            let parent = self.headers.last().unwrap();
            let mined = mine(parent, self.tip() + 1, self.branch, &[(50, ANYONE)], &[]);
            let block = self.index.settings().decoder.decode(mined.raw).unwrap();
            self.writer.apply(&block).unwrap();
            self.headers.push(block.header);
        }
    }

    /// Leaves the chain above a block for another branch, which ends at the same height.
    fn reorganise_above(&mut self, fork: u32) {
        let tip = self.tip();
        self.writer.rollback(height(fork)).unwrap();
        self.headers.truncate(fork as usize + 1);
        self.branch += 1;
        self.mine_to(tip);
    }

    fn cursor(&self, at: u32) -> Cursor {
        self.index.view().unwrap().log().block(height(at)).unwrap().unwrap().cursor()
    }
}

#[test]
fn a_log_is_followed_up_and_down_until_it_stops() {
    let pruning = start(&PrunerConfig::default());
    let mut chain = Chain::new();
    chain.mine_to(10);
    pruning.follow_log(&chain.index).unwrap();
    assert!(is_completed(&wait_for(&pruning, 10)));
    chain.mine_to(11);
    assert!(is_completed(&wait_for(&pruning, 11)));
    assert!(pruning.follower().runs());
    pruning.stop();
    chain.mine_to(12);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(pruning.pruner().jobs(1).unwrap()[0].height, height(11), "it is stopped");
}

#[test]
fn a_reorganisation_that_ends_at_the_same_height_or_happens_while_nobody_follows_is_told() {
    let config = PrunerConfig { gate_poll_ms: 5.try_into().unwrap(), ..Default::default() };
    let tip = 20;
    for is_down in [false, true] {
        let mut chain = Chain::new();
        chain.mine_to(tip);
        let pruning = start(&config);
        if !is_down {
            pruning.follow_log(&chain.index).unwrap();
        }
        // What the node says reaches ahead, so that only the reorganisation can take it back.
        let assembly = Assembly { is_running: true, height: height(tip + 9) };
        pruning.assembly_changed(assembly).unwrap();
        pruning.block(BlockEvent { mined_set: Some(height(tip + 9)), ..block(tip) }).unwrap();
        assert!(is_completed(&wait_for(&pruning, tip)));
        if is_down {
            let (needs, cursor) = (ConsumerNeeds::Blocks, chain.cursor(tip));
            chain.index.register_consumer("pruner", needs, cursor).unwrap();
        }
        // One that has not begun to follow would begin with the new branch.
        while chain.index.consumers().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        chain.reorganise_above(tip - 2);
        if is_down {
            pruning.follow_log(&chain.index).unwrap();
        }
        // Blocks of the new branch wait until the node has said again what it reached.
        chain.mine_to(tip + 1);
        // The run of whichever of them the pruner heard of first stands at the gate.
        let waits = |job: &utxokeep_pruner::Job| {
            job.height > height(tip - 2) && job.state == JobState::Waiting
        };
        let mut looks = 0;
        while !pruning.pruner().jobs(1).unwrap().first().is_some_and(waits) {
            looks += 1;
            assert!(looks < 3_000, "{is_down}: {:?}", pruning.pruner().jobs(2).unwrap());
            thread::sleep(Duration::from_millis(10));
        }
        pruning.stop();
    }
}

#[test]
fn nothing_is_pruned_above_the_lowest_cursor_of_the_other_consumers() {
    let pruning = start(&PrunerConfig::default());
    let mut chain = Chain::new();
    chain.mine_to(20);
    let register = |cursor| chain.index.register_consumer("slow", ConsumerNeeds::Blocks, cursor);
    register(chain.cursor(15)).unwrap();
    pruning.follow_log(&chain.index).unwrap();
    assert!(is_completed(&wait_for(&pruning, 15)));
    chain.mine_to(25);
    chain.index.publish_cursor("slow", chain.cursor(18)).unwrap();
    assert!(is_completed(&wait_for(&pruning, 18)));
    chain.index.forget_consumer("slow").unwrap();
    assert!(is_completed(&wait_for(&pruning, 25)));
    let heights: Vec<u32> =
        pruning.pruner().jobs(10).unwrap().iter().map(|job| job.height.get()).collect();
    assert!(heights.iter().all(|height| [15, 18, 25].contains(height)), "{heights:?}");
}

fn opened() -> Arc<utxokeep_txstore::NodeStore> {
    node_store::open("memory:", &TxStoreConfig::default(), utxokeep_core::OpenMode::Create).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} does not come");
}

fn waits_for(pruning: &Pruning) -> Vec<(&'static str, String)> {
    let found = pruning.pruner().status().unwrap().waits_for;
    found.into_iter().map(|one| (one.name(), one.to_string())).collect()
}

#[test]
fn heights_from_elsewhere_do_not_pass_the_slowest_consumer_which_is_named() {
    let store = opened();
    let pruning = Pruning::start(Arc::clone(&store) as _, &PrunerConfig::default()).unwrap();
    let mut chain = Chain::new();
    chain.mine_to(20);
    let needs = ConsumerNeeds::Blocks;
    chain.index.register_consumer("slow", needs, chain.cursor(15)).unwrap();
    pruning.follow_log(&chain.index).unwrap();
    assert!(is_completed(&wait_for(&pruning, 15)));
    let named = |waits: Vec<(&'static str, String)>| {
        assert!(
            matches!(&waits[..], [("consumer_behind", text)] if text.contains("slow")),
            "{waits:?}"
        );
    };
    for _ in 0..2 {
        pruning.block(block(20)).unwrap();
        pruning.block(block(21)).unwrap();
        pruning.pruner().confirm_height(height(21)).unwrap();
        let trigger = pruning.pruner().trigger(Some(height(16)));
        assert!(matches!(trigger, Err(PrunerError::Ahead { newest, .. }) if newest == height(15)));
        assert_eq!(pruning.pruner().trigger(None).unwrap(), None, "it is complete");
        named(waits_for(&pruning));
    }
    chain.index.publish_cursor("slow", chain.cursor(18)).unwrap();
    assert!(is_completed(&wait_for(&pruning, 18)));
    pruning.stop();
    drop(pruning);
    // The store remembers who holds, also where nobody follows the log.
    let pruning = Pruning::start(store, &PrunerConfig::default()).unwrap();
    pruning.block(block(22)).unwrap();
    named(waits_for(&pruning));
    let highest = pruning.pruner().jobs(100).unwrap().iter().map(|job| job.height).max();
    assert_eq!(highest, Some(height(18)));
    pruning.pruner().report(&[ChainReport::NoNodeState]).unwrap();
    assert!(is_completed(&wait_for(&pruning, 22)));
}

#[test]
fn a_store_that_knows_its_height_waits_for_consumers_from_its_first_run_on() {
    let store = opened();
    store.set_block_state(BlockState { height: height(20), median_time: 1 }).unwrap().unwrap();
    let mut chain = Chain::new();
    chain.mine_to(20);
    let needs = ConsumerNeeds::Blocks;
    chain.index.register_consumer("slow", needs, chain.cursor(15)).unwrap();
    let pruning = Pruning::start_following(store, &PrunerConfig::default(), &chain.index).unwrap();
    assert!(is_completed(&wait_for(&pruning, 15)));
    chain.index.forget_consumer("slow").unwrap();
    assert!(is_completed(&wait_for(&pruning, 20)));
    let jobs = pruning.pruner().jobs(10).unwrap();
    let heights: Vec<u32> = jobs.iter().map(|job| job.height.get()).collect();
    assert_eq!(heights, [20, 15]);
}

/// Nobody tells this service: the store knows.
#[test]
fn what_another_program_reports_to_the_store_starts_a_run_and_only_one() {
    let store = opened();
    let pruning = Pruning::start(Arc::clone(&store) as _, &PrunerConfig::default()).unwrap();
    let tell = |at: u32| {
        store.set_block_state(BlockState { height: height(at), median_time: 1 }).unwrap().unwrap();
    };
    tell(7);
    assert!(is_completed(&wait_for(&pruning, 7)));
    // A run that was skipped is not asked for again and again.
    pruning.pruner().pause().unwrap();
    tell(8);
    assert_eq!(wait_for(&pruning, 8), JobState::Skipped(utxokeep_pruner::SkipReason::Paused));
    thread::sleep(Duration::from_millis(1_200));
    assert_eq!(pruning.pruner().jobs(10).unwrap().len(), 2);
    pruning.pruner().resume().unwrap();
    until("a run at 8", || {
        pruning.pruner().status().unwrap().heights.completed() == Some(height(8))
    });
}

#[test]
fn a_consumer_that_registers_later_holds_from_then_on() {
    let pruning = start(&PrunerConfig::default());
    let mut chain = Chain::new();
    chain.mine_to(20);
    pruning.follow_log(&chain.index).unwrap();
    assert!(is_completed(&wait_for(&pruning, 20)));
    let needs = ConsumerNeeds::Blocks;
    chain.index.register_consumer("late", needs, Cursor::START).unwrap();
    until("the late consumer", || {
        waits_for(&pruning).iter().any(|(name, _)| *name == "consumer_behind")
    });
    let refused = pruning.pruner().trigger(None).unwrap_err();
    assert!(refused.to_string().contains("late"), "{refused}");
    chain.mine_to(21);
    chain.index.publish_cursor("late", chain.cursor(21)).unwrap();
    assert!(is_completed(&wait_for(&pruning, 21)));
}

#[test]
fn a_new_store_beside_an_old_cursor_hears_of_the_height() {
    let mut chain = Chain::new();
    chain.mine_to(20);
    let (needs, cursor) = (ConsumerNeeds::Blocks, chain.cursor(20));
    chain.index.register_consumer("pruner", needs, cursor).unwrap();
    // No block comes: the cursor alone tells where the chain is.
    let pruning =
        Pruning::start_following(opened(), &PrunerConfig::default(), &chain.index).unwrap();
    assert!(is_completed(&wait_for(&pruning, 20)));
}
