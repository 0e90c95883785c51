//! Consumers of the chain log: what they are told, what they hold back, and for how long.

use std::collections::BTreeMap;

use utxokeep_chains::{Simulator, SimulatorConfig};
use utxokeep_core::{BlockDelta, BlockHash, Height, OutPoint};
use utxokeep_index::{
    CONSUMERS_MAX, ChainIndex, ChainWriter, ConsumerNeeds, ConsumerState, Cursor, DeltaKind,
    Follower, IndexSettings, LogError, LogEvent, Mode,
    tables::ids::{META, SIDE_BODY, UNSPENT},
};
use utxokeep_kv::{Kv, Read as _};
use utxokeep_testkit::Archive;

use crate::common::{
    self, InMemory, IndexPlace, OnDisk, assert_clean, dump, prune_fully, settings,
};

/// What a consumer has on disk: its effects and its cursor, changed together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeptSet {
    cursor: Cursor,
    outputs: BTreeMap<OutPoint, Vec<u8>>,
}

impl KeptSet {
    fn take(&mut self, event: &LogEvent, delta: &BlockDelta) {
        let mut create = |outpoint, record: &Option<Vec<u8>>| {
            self.outputs.insert(outpoint, record.clone().unwrap());
        };
        match event {
            LogEvent::Applied(_) => {
                delta.created.iter().for_each(|created| create(created.outpoint, &created.record));
                for spent in &delta.spent {
                    assert_eq!(self.outputs.remove(&spent.outpoint), spent.record);
                }
            }
            LogEvent::Undone(_) => {
                delta.spent.iter().for_each(|spent| create(spent.outpoint, &spent.record));
                for created in &delta.created {
                    assert_eq!(self.outputs.remove(&created.outpoint), created.record);
                }
            }
        }
        self.cursor = event.cursor();
    }

    /// Reads some events. Answers whether there were any.
    fn read_on<K: Kv>(&mut self, index: &ChainIndex<K>, limit: usize) -> Result<bool, LogError> {
        let view = index.view()?;
        let events = view.log().events(self.cursor, limit)?;
        assert!(events.len() <= limit);
        for event in &events {
            let changes = view.log().changes(event)?;
            assert_eq!(changes.hash, event.block().entry.hash);
            self.take(event, &changes);
        }
        Ok(!events.is_empty())
    }

    fn read_all<K: Kv>(&mut self, index: &ChainIndex<K>) -> Result<(), LogError> {
        while self.read_on(index, 7)? {}
        Ok(())
    }

    /// The set of the index, byte for byte.
    #[track_caller]
    fn assert_is<K: Kv>(&self, index: &ChainIndex<K>) {
        let rows = &dump(index.engine()).0[usize::from(UNSPENT.0)];
        let ours: Vec<_> = self
            .outputs
            .iter()
            .map(|(key, value)| (key.to_key().to_vec(), value.clone()))
            .collect();
        let mut ours = ours;
        ours.sort_unstable();
        assert!(ours == *rows, "{} outputs kept, {} in the index", ours.len(), rows.len());
        let tip = index.view().unwrap().log().tip().unwrap();
        assert_eq!(self.cursor, tip.cursor());
    }
}

/// A small generator, so that a failure can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn simulator(seed: u64, reorg_percent: u32) -> Simulator {
    Simulator::new(SimulatorConfig {
        seed,
        txs_per_block: 1..6,
        same_block_spend_percent: 25,
        odd_output_permille: 60,
        reorg_percent,
        reorg_depth_max: 7,
        addresses: 15,
        ..SimulatorConfig::default()
    })
}

fn follower<K: Kv>(index: &ChainIndex<K>) -> Follower<K> {
    Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap()
}

/// Drives an index through `blocks` blocks with reorganisations, rollbacks and restarts, beside a
/// consumer that is killed between its effects and the next look, and is away for a while.
fn consumer_equals_index<P: IndexPlace>(seed: u64, blocks: u32, settings: &IndexSettings) {
    let place = P::default();
    let mut dice = Dice(seed);
    let mut simulator = simulator(seed, 25);
    let mut archive = Archive::default();
    let mut on_disk = KeptSet::default();
    let (mut undone, mut killed, mut compared) = (0u32, 0u32, 0u32);
    let mut index = place.open(settings.clone());
    index.register_consumer("kept-set", ConsumerNeeds::Changes, Cursor::START).unwrap();
    let mut follower = self::follower(&index);
    for _ in 0..blocks {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
        follower.accept(&header, &archive).unwrap();
        follower.writer_mut().prune_pass().unwrap();
        match dice.roll(40) {
            // The process of the index ends, and comes back.
            0 => {
                drop(follower);
                drop(index);
                index = place.open(settings.clone());
                follower = self::follower(&index);
            }
            // An operator goes back by hand; the blocks are connected again from their source.
            1 => {
                let (mut writer, _) = follower.into_writer().unwrap();
                let tip = writer.tip().unwrap().height;
                let target =
                    tip.minus(1 + u32::try_from(dice.roll(5)).unwrap()).max(writer.floor());
                let depth = writer.rollback(target).unwrap();
                undone += depth;
                on_disk.read_all(&index).unwrap();
                on_disk.assert_is(&index);
                follower = Follower::new(writer).unwrap();
                for header in archive.headers() {
                    follower.accept(header, &archive).unwrap();
                }
            }
            _ => {}
        }
        match dice.roll(6) {
            // It reads, and dies before it has committed anything.
            0 => {
                let mut lost = on_disk.clone();
                lost.read_on(&index, 3).unwrap();
                killed += 1;
            }
            // It reads some, commits, and is cut off; it may die before it says so.
            1 => {
                on_disk.read_on(&index, 2).unwrap();
                if dice.roll(2) == 0 {
                    index.publish_cursor("kept-set", on_disk.cursor).unwrap();
                }
            }
            2 => {
                on_disk.read_all(&index).unwrap();
                on_disk.assert_is(&index);
                index.publish_cursor("kept-set", on_disk.cursor).unwrap();
                compared += 1;
            }
            // It is away.
            _ => {}
        }
    }
    on_disk.read_all(&index).unwrap();
    on_disk.assert_is(&index);
    assert!(undone > 20 && killed > 50 && compared > 50, "{undone} {killed} {compared}");
    assert!(follower.report().reorganisations > 0 || undone > 0);
    prune_fully(follower.writer_mut());
    assert_clean(&index, "after all");
}

#[test]
fn a_set_kept_by_events_equals_the_index_through_a_thousand_blocks_of_kills_and_reorganisations() {
    for (seed, delta) in [(1, DeltaKind::Compact), (2, DeltaKind::SelfContained)] {
        consumer_equals_index::<InMemory>(
            seed,
            1_000,
            &settings(12).with(|settings| settings.delta = delta),
        );
    }
}

#[test]
fn the_same_on_disk() {
    consumer_equals_index::<OnDisk>(3, 600, &settings(12));
}

/// An index with a straight chain of `blocks` blocks above the first.
fn straight(settings: IndexSettings, blocks: u32) -> (ChainIndex<common::MemoryEngine>, Archive) {
    let index = InMemory::default().open(settings);
    let mut simulator = simulator(9, 0);
    let mut archive = Archive::default();
    // The first block that is mined is the first of the network.
    for _ in 0..=blocks {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
    }
    (index, archive)
}

#[test]
fn a_consumer_that_never_reads_holds_undo_data_only_up_to_its_bound() {
    let bounded = settings(10).with(|settings| settings.consumer_lag_blocks_max = 60);
    let (index, archive) = straight(bounded, 150);
    index.register_consumer("idle", ConsumerNeeds::Changes, Cursor::START).unwrap();
    index.register_consumer("names-only", ConsumerNeeds::Blocks, Cursor::START).unwrap();
    let mut follower = follower(&index);
    let base = || index.status().unwrap().undo_base.unwrap().get();
    for (number, header) in (1u32..).zip(&archive.headers()[1..]) {
        follower.accept(header, &archive).unwrap();
        prune_fully(follower.writer_mut());
        let held = if number <= 60 { 0 } else { number - 10 };
        assert_eq!(base(), held, "at {number}");
        let idle = &index.consumers().unwrap()[0];
        assert_eq!(
            (idle.name.as_str(), idle.lag_blocks(Height::new(number))),
            ("idle", u64::from(number) + 1)
        );
        let expected = if number <= 60 {
            ConsumerState::Attached
        } else {
            ConsumerState::Detached { at: Height::new(61) }
        };
        assert_eq!(idle.state, expected, "at {number}");
    }
    // What it missed is gone, and it is told from where it can read on.
    let mut late = KeptSet::default();
    let error = late.read_all(&index).unwrap_err();
    assert_eq!(error.start_from(), Some(Height::new(140)), "{error}");
    assert!(error.to_string().contains("start again from the set at height 140"), "{error}");
    // From the set there, it can.
    let set_then = InMemory::default().open(settings(200));
    let mut twin = self::follower(&set_then);
    for header in &archive.headers()[..=140] {
        twin.accept(header, &archive).unwrap();
    }
    let mut restarted = KeptSet::default();
    restarted.read_all(&set_then).unwrap();
    index.register_consumer("idle", ConsumerNeeds::Changes, restarted.cursor).unwrap();
    restarted.read_all(&index).unwrap();
    restarted.assert_is(&index);
    assert_eq!(index.consumers().unwrap()[0].state, ConsumerState::Attached);
    assert_clean(&index, "after all");
}

#[test]
fn a_consumer_that_reads_along_holds_nothing_and_one_without_a_name_never_does() {
    let (index, archive) = straight(settings(10), 60);
    index.register_consumer("along", ConsumerNeeds::Changes, Cursor::START).unwrap();
    let mut follower = follower(&index);
    let mut kept = KeptSet::default();
    for (number, header) in (1u32..).zip(&archive.headers()[1..]) {
        follower.accept(header, &archive).unwrap();
        kept.read_all(&index).unwrap();
        index.publish_cursor("along", kept.cursor).unwrap();
        prune_fully(follower.writer_mut());
        let base = index.status().unwrap().undo_base.unwrap().get();
        assert_eq!(base, number.saturating_sub(10));
        assert_eq!(index.watermark(&[]).unwrap(), Some(Height::new(number)));
    }
    assert_eq!(index.watermark(&["along"]).unwrap(), None);
    let gone = index.forget_consumer("along").unwrap();
    assert_eq!(gone.cursor, kept.cursor);
    assert!(index.consumers().unwrap().is_empty());
}

#[test]
fn a_block_that_left_the_chain_stays_for_a_consumer_that_stands_on_it() {
    let bounded = settings(10).with(|settings| settings.consumer_lag_blocks_max = 1_000);
    let (index, archive) = straight(bounded, 20);
    let mut follower = follower(&index);
    for header in archive.headers() {
        follower.accept(header, &archive).unwrap();
    }
    let mut kept = KeptSet::default();
    index.register_consumer("stands", ConsumerNeeds::Changes, Cursor::START).unwrap();
    kept.read_all(&index).unwrap();
    index.publish_cursor("stands", kept.cursor).unwrap();
    // The chain goes another way from block 17 on, and on for a hundred blocks.
    let mut archive = archive;
    let chain: Vec<BlockHash> = archive.headers().iter().map(|header| header.hash).collect();
    let config = SimulatorConfig { seed: 77, reorg_percent: 0, ..SimulatorConfig::default() };
    let branch = common::simulate_branch(&mut archive, config, &chain[..=17], 120);
    for header in archive.headers().to_vec().iter().filter(|header| branch.contains(&header.hash)) {
        follower.accept(header, &archive).unwrap();
        prune_fully(follower.writer_mut());
    }
    assert_eq!(follower.report().deepest_reorganisation, 3);
    let left = || dump(index.engine()).0[usize::from(SIDE_BODY.0)].len();
    assert_eq!(left(), 3);
    kept.read_all(&index).unwrap();
    kept.assert_is(&index);
    // Once it has been told, they go.
    index.publish_cursor("stands", kept.cursor).unwrap();
    prune_fully(follower.writer_mut());
    let base = index.status().unwrap().undo_base.unwrap().get();
    assert_eq!((left(), base), (0, 127));
    assert_clean(&index, "after all");
}

#[test]
fn a_cursor_on_a_block_that_nobody_knows_is_refused_with_a_height_to_start_from() {
    let (index, archive) = straight(settings(10), 30);
    let mut follower = follower(&index);
    for header in archive.headers() {
        follower.accept(header, &archive).unwrap();
    }
    prune_fully(follower.writer_mut());
    let view = index.view().unwrap();
    let stranger = Cursor::at(Height::new(25), BlockHash::from_bytes([0xab; 32]));
    let error = view.log().events(stranger, 10).unwrap_err();
    assert!(
        matches!(error, LogError::UnknownCursor { height, start_from }
        if (height.get(), start_from.get()) == (25, 20)),
        "{error}"
    );
    let above = Cursor::at(Height::new(31), BlockHash::from_bytes([0xab; 32]));
    assert!(matches!(view.log().events(above, 10), Err(LogError::UnknownCursor { .. })));
    assert!(view.log().events(Cursor::START, 0).unwrap().is_empty());
}

#[test]
fn while_a_consumer_reads_changes_a_bulk_load_writes_them() {
    for registered in [false, true] {
        let (index, archive) = straight(settings(10), 120);
        if registered {
            index.register_consumer("reads", ConsumerNeeds::Changes, Cursor::START).unwrap();
        }
        let mut follower = follower(&index);
        follower.writer_mut().set_mode(Mode::Bulk).unwrap();
        assert_eq!(follower.writer().mode() == Mode::Bulk, !registered);
        for header in archive.headers() {
            follower.accept(header, &archive).unwrap();
        }
        follower.into_writer().unwrap();
        let mut kept = KeptSet::default();
        match kept.read_all(&index) {
            Ok(()) if registered => kept.assert_is(&index),
            Err(LogError::PastWindow { height, start_from }) if !registered => {
                assert_eq!((height.get(), start_from.get()), (1, 120));
            }
            other => panic!("{registered}: {other:?}"),
        }
    }
}

#[test]
fn consumers_are_known_by_name_survive_a_restart_and_are_limited_in_number() {
    let place = InMemory::default();
    let index = place.open(settings(10));
    assert!(matches!(
        index.publish_cursor("nobody", Cursor::START),
        Err(LogError::UnknownConsumer { .. })
    ));
    assert!(matches!(index.forget_consumer("nobody"), Err(LogError::UnknownConsumer { .. })));
    for number in 0..CONSUMERS_MAX {
        index
            .register_consumer(&format!("c-{number:02}"), ConsumerNeeds::Blocks, Cursor::START)
            .unwrap();
    }
    let more = index.register_consumer("one-more", ConsumerNeeds::Blocks, Cursor::START);
    assert!(matches!(more, Err(LogError::TooMany)));
    index.register_consumer("c-00", ConsumerNeeds::Changes, Cursor::START).unwrap();
    let before = index.consumers().unwrap();
    drop(index);
    let after = place.open(settings(10)).consumers().unwrap();
    assert_eq!(before, after);
    assert_eq!((after.len(), after[0].needs), (CONSUMERS_MAX, ConsumerNeeds::Changes));
}

#[test]
fn every_commit_that_moves_the_tip_wakes_readers() {
    let (index, archive) = straight(settings(10), 5);
    let mut follower = follower(&index);
    for header in &archive.headers()[1..] {
        let seen = index.tip_signal().count();
        follower.accept(header, &archive).unwrap();
        assert!(index.tip_signal().count() > seen);
    }
    let (mut writer, _) = follower.into_writer().unwrap();
    let seen = index.tip_signal().count();
    writer.rollback(Height::new(3)).unwrap();
    assert!(index.tip_signal().count() > seen);
}

#[test]
fn every_block_has_a_number_of_its_own_which_it_keeps_when_it_comes_back() {
    let place = OnDisk::default();
    let mut simulator = simulator(5, 12);
    let (mut numbers, mut undone) = (BTreeMap::new(), false);
    for _ in 0..25 {
        // Counted on disk, not in the writer.
        let index = place.open(settings(30));
        let mut follower = follower(&index);
        for _ in 0..8 {
            let header = utxokeep_chains::BlockSource::next(&mut simulator).unwrap().unwrap();
            follower.accept(&header, &simulator).unwrap();
        }
        let writer = follower.writer_mut();
        writer.flush().unwrap();
        undone |= numbers_grow(&index, &mut numbers);
        let tip = writer.tip().unwrap().height;
        if tip < Height::new(10) {
            continue;
        }
        // Back and forth: the same blocks, from what the database kept of them.
        let events = {
            let (view, from) = (index.view().unwrap(), tip.minus(4));
            let below = view.log().block(from.minus(1)).unwrap().unwrap().cursor();
            view.log().events(below, 100).unwrap()
        };
        let blocks = events.iter().map(|event| {
            let raw = utxokeep_chains::BlockSource::raw(&simulator, &event.block().entry.hash);
            utxokeep_chains::decode_block(raw.unwrap(), common::REGTEST).unwrap()
        });
        let blocks: Vec<_> = blocks.collect();
        let greatest = events.last().unwrap().block().number();
        writer.rollback(tip.minus(5)).unwrap();
        let row = index.engine().get(META, b"undone_number").unwrap();
        assert_eq!(row, Some(greatest.to_be_bytes().to_vec()));
        for block in &blocks {
            writer.apply(block).unwrap();
        }
        writer.flush().unwrap();
        undone |= numbers_grow(&index, &mut numbers);
    }
    assert!(undone, "no block was numbered above its height");
    let mut all: Vec<u32> = numbers.values().copied().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), numbers.len(), "two blocks have the same number");
}

/// Notes the numbers of the chain's blocks; answers whether one is above its height.
fn numbers_grow<K: Kv>(index: &ChainIndex<K>, numbers: &mut BTreeMap<BlockHash, u32>) -> bool {
    let view = index.view().unwrap();
    let (mut last, mut is_above) = (None, false);
    for event in view.log().events(Cursor::START, usize::MAX).unwrap() {
        let block = event.block();
        let number = block.number();
        assert!(last < Some(number), "block {} has number {number}", block.height);
        assert_eq!(*numbers.entry(block.entry.hash).or_insert(number), number);
        is_above |= number > block.height.get();
        last = Some(number);
    }
    is_above
}
