//! The driver on a source of another chain than the node client's: a Bitcoin node in memory.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use utxokeep_chains::{RecentBlocks, RecentLimits, Simulator, SimulatorConfig};
use utxokeep_core::{BlockHash, Network};
use utxokeep_index::{ChainIndex, ChainWriter, Digest, IndexSettings, Readers, tables::TABLES};
use utxokeep_kv::{Batch, KvError, MemoryKv, SortedRows};
use utxokeep_testkit::{Hook, HookedKv, live::SimulatedNode};

use super::*;

const NETWORK: Network = Network::BitcoinRegtest;
const PATIENCE: Duration = Duration::from_secs(60);

fn empty() -> ChainIndex<MemoryKv> {
    ChainIndex::open(MemoryKv::new(TABLES), IndexSettings::new(NETWORK)).unwrap()
}

fn simulator(seed: u64) -> Simulator {
    let small = SimulatorConfig { seed, txs_per_block: 0..4, ..SimulatorConfig::default() };
    Simulator::new(SimulatorConfig { reorg_percent: 15, reorg_depth_max: 8, ..small })
}

/// The digest of a database that never saw another branch.
fn expected(node: &SimulatedNode) -> Digest {
    let index = empty();
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for raw in node.blocks() {
        writer.apply(&index.settings().decoder.decode(raw).unwrap()).unwrap();
    }
    index.view().unwrap().digest(true).unwrap()
}

fn options(node: &SimulatedNode) -> FollowOptions {
    let mut options = FollowOptions::new(Arc::new(node.clone()), &FollowConfig::default());
    options.reconnect_first = Duration::from_millis(1);
    options.reconnect_max = Duration::from_millis(20);
    options
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn tip_of(index: &ChainIndex<MemoryKv>) -> Option<BlockHash> {
    index.view().unwrap().tip().map(|(_, entry)| entry.hash)
}

#[test]
fn a_bitcoin_source_that_forks_stalls_cuts_off_and_restarts_is_followed_to_its_chain() {
    for (seed, readers) in [(1, Readers::Present), (2, Readers::Absent)] {
        let (node, index, mut simulator) = (SimulatedNode::default(), empty(), simulator(seed));
        let (options, is_stopped) = (options(&node), AtomicBool::new(false));
        let recent = RecentBlocks::new(RecentLimits { blocks_max: 1_000, bytes_max: 1 << 30 });
        let mut away = 0;
        thread::scope(|scope| {
            let following = scope.spawn(|| {
                let mut live = LiveFollower::new(ChainWriter::new(index.clone()).unwrap(), readers);
                let stop = || is_stopped.load(Ordering::Relaxed);
                follow(&mut live, &options, &stop, &mut |what| match what {
                    Happened::Arrived(block) => recent.keep(block),
                    Happened::Away(error, _) => {
                        assert!(error.is_worth_retrying(), "{error}");
                        away += 1;
                    }
                    _ => {}
                })
                .unwrap();
                live.into_writer().unwrap().1
            });
            let at_tip = |simulator: &Simulator| tip_of(&index) == Some(simulator.tip().hash);
            for round in 0..60 {
                node.mine(&mut simulator, 1 + round % 9);
                match round % 6 {
                    1 => node.stall(),
                    2 => node.cut_off(),
                    3 => {
                        node.resume();
                        node.stop();
                        node.mine(&mut simulator, 5);
                        node.start();
                    }
                    _ => wait_until("the tip", || at_tip(&simulator)),
                }
            }
            wait_until("the last tip", || at_tip(&simulator));
            is_stopped.store(true, Ordering::Relaxed);
            let report = following.join().unwrap();
            assert!(report.reorganisations > 5, "{report:?}");
        });
        assert!(away >= 10, "every sixth round the node stops, and is then reached again: {away}");
        assert_eq!(index.view().unwrap().digest(true).unwrap(), expected(&node));
        assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());
        let is_kept = |raw: Vec<u8>| {
            let block = index.settings().decoder.decode(raw).unwrap();
            recent.get(&block.header.hash).is_some_and(|kept| *kept == block)
        };
        assert!(node.blocks().into_iter().all(is_kept), "each block is handed on, decoded");
        assert_eq!(node.connections(), 0);
    }
}

#[test]
fn the_state_of_a_source_says_whether_it_is_there_and_how_far_it_is() {
    let (node, index, mut simulator) = (SimulatedNode::default(), empty(), simulator(3));
    let (options, is_stopped) = (options(&node), AtomicBool::new(false));
    let status = || options.state.status();
    node.stop();
    thread::scope(|scope| {
        scope.spawn(|| {
            let writer = ChainWriter::new(index.clone()).unwrap();
            let mut live = LiveFollower::new(writer, Readers::Present);
            let stop = || is_stopped.load(Ordering::Relaxed);
            follow(&mut live, &options, &stop, &mut |_| {}).unwrap();
        });
        wait_until("the fault", || status().fault.is_some());
        assert_eq!((status().is_connected, status().last_contact), (false, None));
        assert_eq!(status().address, "a simulated node");

        node.mine(&mut simulator, 30);
        let height = Some(u64::from(simulator.tip_height().get()));
        node.start();
        wait_until("the tip", || status().lag_blocks == Some(0) && status().height == height);
        assert_eq!((status().is_connected, status().fault), (true, None));

        node.stop();
        wait_until("the loss", || !status().is_connected);
        assert!(status().fault.unwrap().contains("simulated node"));
        is_stopped.store(true, Ordering::Relaxed);
    });
}

#[test]
fn following_until_the_tip_ends_there_and_a_chain_that_parted_below_the_floor_is_refused() {
    let (node, index, mut first) = (SimulatedNode::default(), empty(), simulator(4));
    // Longer than the window, so that the floor is above the first block, which both chains share.
    let height = index.settings().window.horizon() + 50;
    while first.tip_height().get() < height {
        node.mine(&mut first, 10);
    }
    let mut options = options(&node);
    options.until_tip = true;
    let writer = ChainWriter::new(index.clone()).unwrap();
    let mut live = LiveFollower::new(writer, Readers::Absent);
    follow(&mut live, &options, &|| false, &mut |_| {}).unwrap();
    assert_eq!(tip_of(&index), Some(first.tip().hash));

    let (other, mut second) = (SimulatedNode::default(), simulator(5));
    while second.tip_height() <= first.tip_height() {
        other.mine(&mut second, 10);
    }
    options.source = Arc::new(other);
    let error = follow(&mut live, &options, &|| false, &mut |_| {}).unwrap_err();
    assert!(format!("{error:#}").contains("the node cannot be followed"), "{error:#}");
    assert_eq!(tip_of(&index), Some(first.tip().hash), "nothing was changed");
}

/// A disk that is full for some writes.
#[derive(Debug, Default)]
struct SmallDisk(AtomicU32);

impl SmallDisk {
    fn take(&self) -> Result<(), KvError> {
        let left =
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_or(Ok(()), |_| {
            Err(KvError::DiskFull { op: "writing a batch", source: "full".into() })
        })
    }
}

impl Hook for SmallDisk {
    fn commit(&self, _: &Batch) -> Result<(), KvError> {
        self.take()
    }

    fn load(&self, _: &[&dyn SortedRows], _: &Batch) -> Result<(), KvError> {
        self.take()
    }
}

/// One block in sixteen.
fn is_marked(block: &Block) -> bool {
    block.header.hash.as_bytes()[0].is_multiple_of(16)
}

#[test]
fn a_full_disk_is_waited_out_where_that_is_wanted_and_ends_following_where_not() {
    for readers in [Readers::Present, Readers::Absent] {
        let (node, mut simulator) = (SimulatedNode::default(), simulator(6));
        node.mine(&mut simulator, 300);
        let kv = HookedKv::new(MemoryKv::new(TABLES), SmallDisk::default());
        let index = ChainIndex::open(kv.clone(), IndexSettings::new(NETWORK)).unwrap();
        let mut options = options(&node);
        (options.until_tip, options.waits_for_room) = (true, true);
        let mut live = LiveFollower::new(ChainWriter::new(index.clone()).unwrap(), readers);
        let (mut waits, mut met) = (0, BTreeSet::new());
        let mut tell = |what: &Happened<'_>| {
            match what {
                // Forks of the simulator are staged, and fail as a whole.
                Happened::Arrived(block) if is_marked(block) && met.insert(block.header.hash) => {
                    kv.hook.0.store(2, Ordering::SeqCst);
                }
                Happened::NoRoom(error, wait) => {
                    assert!(error.to_string().contains("the disk is full"), "{error}");
                    assert!(!wait.is_zero() && *wait <= ROOM_WAIT_MAX, "{wait:?}");
                    let why = options.state.trouble(now_s(), 3_600).unwrap();
                    assert!(why.contains("cannot be kept"), "{why}");
                    waits += 1;
                }
                _ => {}
            }
        };
        for _ in 0..8 {
            follow(&mut live, &options, &|| false, &mut tell).unwrap();
            node.mine(&mut simulator, 12);
        }
        kv.hook.0.store(0, Ordering::SeqCst);
        follow(&mut live, &options, &|| false, &mut |_| {}).unwrap();
        assert!(waits > 3, "{readers:?}: {waits}");
        assert_eq!(options.state.trouble(now_s(), 3_600), None);
        assert_eq!(index.view().unwrap().digest(true).unwrap(), expected(&node), "{readers:?}");
        assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());

        node.mine(&mut simulator, 3);
        options.waits_for_room = false;
        kv.hook.0.store(u32::MAX, Ordering::SeqCst);
        let error = follow(&mut live, &options, &|| false, &mut |_| {}).unwrap_err();
        assert!(format!("{error:#}").contains("the disk is full"), "{error:#}");
    }
}

#[test]
fn far_below_the_tip_of_its_source_many_blocks_are_one_commit_and_the_window_can_be_undone() {
    for (readers, bulk) in
        [(Readers::Present, false), (Readers::Absent, false), (Readers::Absent, true)]
    {
        let (node, index, mut simulator) = (SimulatedNode::default(), empty(), simulator(7));
        let window = index.settings().window;
        while simulator.tip_height().get() < window.horizon() + 700 {
            node.mine(&mut simulator, 10);
        }
        let mut options = options(&node);
        options.until_tip = true;
        let writer = ChainWriter::new(index.clone()).unwrap();
        let mut live = LiveFollower::new(writer, readers).with_bulk(bulk);
        let mut seen = Vec::new();
        follow(&mut live, &options, &|| false, &mut |what| {
            if let Happened::Moved(_) = what {
                let view = index.view().unwrap();
                let Some((height, entry)) = view.tip() else { return };
                if seen.last() != Some(&height) {
                    seen.push(height);
                    assert_eq!(view.digest(true).unwrap().totals, entry.totals, "{height}");
                }
            }
        })
        .unwrap();
        let blocks = simulator.tip_height().get();
        let states = u32::try_from(seen.len()).unwrap();
        assert!(states < blocks / 2, "{readers:?} {bulk}: {states} states of {blocks} blocks");
        assert_eq!(index.view().unwrap().digest(true).unwrap(), expected(&node));
        assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());
        let (mut writer, _) = live.into_writer().unwrap();
        let floor = writer.floor();
        let oldest = simulator.tip_height().minus(window.rollback_window);
        assert!(floor <= oldest, "{readers:?} {bulk}: {floor} {oldest}");
        assert_eq!(writer.rollback(oldest).unwrap(), window.rollback_window);
        drop(writer);
        assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());
    }
}
