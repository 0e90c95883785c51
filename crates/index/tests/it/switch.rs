//! The index switched off and on again: afterwards its tables are those of a database that was never
//! off, byte for byte.

use std::path::Path;

use utxokeep_chains::{BlockSource as _, Simulator, SimulatorConfig, cardano::ImmutableDb};
use utxokeep_core::{Block, BlockHash, Height, Network, OutPoint, Txid};
use utxokeep_index::{
    CatchUpError, CaughtUp, ChainIndex, ChainWriter, Cursor, DeltaKind, Follower, IndexOpenError,
    IndexSettings, LogError, LogEvent, QueryError, Readers, RollbackError, SetStanding,
    peek_identity,
    tables::{
        LOG_TABLES, TABLES,
        ids::{SIDE, SIDE_BODY},
    },
};
use utxokeep_kv::{Durability, Kv, MemoryKv, OpenMode, RocksKv};
use utxokeep_testkit::{Archive, preview_immutable};

use crate::common::{
    self, Dump, InMemory, IndexPlace, MemoryEngine, OnDisk, REGTEST, assert_clean, assert_same,
    best_chain, block, dump, prune_fully,
};

/// Tables that remember other branches: they tell how a log came to its chain.
const SIDE_TABLES: &[utxokeep_kv::TableId] = &[SIDE, SIDE_BODY];

/// Chance without surprise.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn simulated(seed: u64, blocks: usize) -> Archive {
    let mut simulator = Simulator::new(SimulatorConfig {
        seed,
        txs_per_block: 0..7,
        wide_outputs_max: 9,
        wide_percent: 10,
        fan_in_max: 6,
        fan_in_percent: 25,
        same_block_spend_percent: 25,
        op_return_percent: 10,
        odd_output_permille: 60,
        reorg_percent: 25,
        reorg_depth_max: 5,
        addresses: 8,
        coins_max: 2_000,
        ..SimulatorConfig::default()
    });
    let mut archive = Archive::default();
    for _ in 0..blocks {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
    }
    archive
}

fn variants() -> [IndexSettings; 3] {
    [(DeltaKind::Compact, false), (DeltaKind::Compact, true), (DeltaKind::SelfContained, true)].map(
        |(delta, muhash)| {
            common::settings(12).with(|settings| {
                settings.delta = delta;
                settings.muhash = muhash;
                settings.catch_up_blocks_max = 5;
            })
        },
    )
}

fn off(settings: &IndexSettings) -> IndexSettings {
    settings.clone().with(|settings| settings.enabled = false)
}

/// Tables of the index alone.
fn set_rows(read: &impl utxokeep_kv::Read) -> Dump {
    Dump(dump(read).0.split_off(LOG_TABLES))
}

fn accept<K: Kv>(
    writer: ChainWriter<K>,
    archive: &Archive,
    from: usize,
    to: usize,
) -> ChainWriter<K> {
    let mut follower = Follower::new(writer).unwrap();
    for header in &archive.headers()[from..to] {
        follower.accept(header, archive).unwrap();
    }
    let (writer, report) = follower.into_writer().unwrap();
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    writer
}

/// Catches up with the bodies of an archive, stopping after `steps` blocks.
fn catch_up<K: Kv>(
    writer: &mut ChainWriter<K>,
    archive: &Archive,
    readers: Readers,
    steps: u64,
) -> Result<CaughtUp, CatchUpError> {
    let mut left = steps;
    writer.catch_up(
        readers,
        &mut |_, hash| Ok::<_, CatchUpError>(Some(block(archive, hash))),
        &mut |_, _| {
            left -= 1;
            left > 0
        },
    )
}

/// What an index that was never off holds after everything has arrived.
fn never_off(settings: &IndexSettings, archive: &Archive) -> Dump {
    let index = InMemory::default().open(settings.clone());
    let writer = ChainWriter::new(index.clone()).unwrap();
    let mut writer = accept(writer, archive, 0, archive.headers().len());
    prune_fully(&mut writer);
    dump(index.engine())
}

/// Switches at random moments while blocks arrive and branches replace each other, stops catch-ups
/// half way, and compares every row at the end. Answers how many catch-ups were stopped.
fn random_switching<P: IndexPlace>(settings: &IndexSettings, archive: &Archive, seed: u64) -> u32 {
    let what = format!("seed {seed}");
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9) + 7);
    let place = P::default();
    let (mut arrived, total) = (0, archive.headers().len());
    let (mut switched, mut stopped) = (0, 0);
    while arrived < total {
        // A database that never was on has no tables to compare.
        let is_on = arrived == 0 || dice.below(2) == 0;
        let own = if is_on { settings.clone() } else { off(settings) };
        let index = place.open(own);
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        switched += u32::from(writer.behind().is_some());
        let readers = if dice.below(2) == 0 { Readers::Present } else { Readers::Absent };
        let steps = if dice.below(2) == 0 { u64::MAX } else { 1 + dice.below(20) };
        let is_behind =
            is_on && catch_up(&mut writer, archive, readers, steps).unwrap() == CaughtUp::Stopped;
        stopped += u32::from(is_behind);
        let before = set_rows(index.engine());
        let to = total.min(arrived + usize::try_from(dice.below(40)).unwrap());
        let mut writer = accept(writer, archive, arrived, to);
        arrived = to;
        if !is_on || is_behind {
            prune_fully(&mut writer);
            assert_same(&before, &set_rows(index.engine()), &[], &format!("{what}: off"));
            let standing = index.status().unwrap().set_standing;
            assert_eq!(matches!(standing, SetStanding::CatchingUp { .. }), is_on, "{what}");
            let asked = index.view().unwrap().utxo(OutPoint::new(Txid::default(), 0));
            let refused = asked.unwrap_err();
            assert!(
                matches!(
                    (&refused, is_on),
                    (QueryError::CatchingUp { .. }, true) | (QueryError::Disabled, false)
                ),
                "{what}: {refused}"
            );
        } else if dice.below(2) == 0 {
            prune_fully(&mut writer);
            assert_clean(&index, &what);
        }
    }
    assert!(switched > 0 || total < 100, "{what}: never switched on again");
    let index = place.open(settings.clone());
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    while catch_up(&mut writer, archive, Readers::Absent, 30).unwrap() == CaughtUp::Stopped {
        stopped += 1;
    }
    assert_eq!(writer.behind(), None);
    prune_fully(&mut writer);
    assert_same(&never_off(settings, archive), &dump(index.engine()), SIDE_TABLES, &what);
    assert_clean(&index, &what);
    // From here on it goes as if nothing had been.
    let mut more = Archive::default();
    for header in archive.headers() {
        more.push(*header, archive.raw(&header.hash).unwrap());
    }
    let chain = best_chain(REGTEST.genesis_hash(), archive.headers());
    let config = SimulatorConfig { seed: 99, reorg_percent: 0, ..SimulatorConfig::default() };
    common::simulate_branch(&mut more, config, &chain, 3);
    let writer = accept(writer, &more, total, total + 3);
    assert!(writer.floor() > Height::GENESIS);
    assert_clean(&index, "three more");
    stopped
}

#[test]
fn switched_at_random_moments_the_tables_end_as_if_it_never_was_off() {
    let mut stopped = 0;
    for seed in 0..8 {
        let archive = simulated(seed, 260);
        for settings in variants() {
            stopped += random_switching::<InMemory>(&settings, &archive, seed);
        }
    }
    assert!(stopped > 10, "{stopped} catch-ups were stopped half way");
}

#[test]
fn switched_at_random_moments_on_disk() {
    let archive = simulated(77, 200);
    for (seed, settings) in (70..).zip(variants()) {
        random_switching::<OnDisk>(&settings, &archive, seed);
    }
}

#[test]
fn every_write_of_a_catch_up_may_be_the_last_one() {
    let archive = simulated(5, 230);
    for (seed, settings) in (0..).zip(variants()) {
        let mut dice = Dice(seed);
        let place = InMemory::default();
        let writer = ChainWriter::new(place.open(settings.clone())).unwrap();
        drop(accept(writer, &archive, 0, 120));
        let writer = ChainWriter::new(place.open(off(&settings))).unwrap();
        drop(accept(writer, &archive, 120, 175));
        let mut deaths = 0;
        loop {
            let dying = place.dying_after(1 + dice.below(3));
            let mut writer = ChainWriter::new(dying.open(settings.clone())).unwrap();
            let readers = if deaths % 2 == 0 { Readers::Present } else { Readers::Absent };
            match catch_up(&mut writer, &archive, readers, u64::MAX) {
                Ok(caught) => {
                    assert_eq!(caught, CaughtUp::Done);
                    break;
                }
                Err(_) => deaths += 1,
            }
            drop(writer);
            // The log may go on in between, without the index.
            if deaths == 4 {
                let writer = ChainWriter::new(place.open(off(&settings))).unwrap();
                drop(accept(writer, &archive, 175, 230));
            }
        }
        assert!(deaths > 5, "{deaths}");
        let index = place.open(settings.clone());
        prune_fully(&mut ChainWriter::new(index.clone()).unwrap());
        assert_same(&never_off(&settings, &archive), &dump(index.engine()), SIDE_TABLES, "dying");
        assert_clean(&index, "dying");
    }
}

/// Blocks leave the log while the index is off, and the same ones join it again: their entries must
/// get their totals back, although nobody undoes or applies them.
#[test]
fn blocks_that_left_and_came_back_while_it_was_off_have_their_totals() {
    let mut archive = simulated(9, 1);
    let config = SimulatorConfig { seed: 3, reorg_percent: 0, ..SimulatorConfig::default() };
    let genesis = [archive.headers()[0].hash];
    common::simulate_branch(&mut archive, config, &genesis, 130);
    let chain: Vec<BlockHash> = archive.headers().iter().map(|header| header.hash).collect();
    let settings = variants()[1].clone();
    let index = InMemory::default();
    let mut writer = ChainWriter::new(index.open(settings.clone())).unwrap();
    for hash in &chain[..=125] {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    prune_fully(&mut writer);
    let before = dump(index.0.kv.as_ref());
    drop(writer);
    for back in [120, 114] {
        let mut writer = ChainWriter::new(index.open(off(&settings))).unwrap();
        writer.rollback(Height::new(back)).unwrap();
        for hash in &chain[back as usize + 1..=125] {
            writer.apply(&block(&archive, hash)).unwrap();
        }
        drop(writer);
        let mut writer = ChainWriter::new(index.open(settings.clone())).unwrap();
        let caught = writer.catch_up(
            Readers::Absent,
            &mut |_, _| -> Result<Option<Block>, CatchUpError> { panic!("no body is needed") },
            &mut |_, _| true,
        );
        assert_eq!(caught.unwrap(), CaughtUp::Done);
        assert_same(&before, &dump(index.0.kv.as_ref()), &[], "there and back");
    }
}

#[test]
fn the_log_is_not_undone_below_what_the_tables_can_be_taken_back_to() {
    let archive = simulated(1, 140);
    let settings = variants()[0].clone();
    let place = InMemory::default();
    let writer = ChainWriter::new(place.open(settings.clone())).unwrap();
    let mut writer = accept(writer, &archive, 0, 140);
    prune_fully(&mut writer);
    let tip = writer.tip().unwrap().height;
    drop(writer);
    let safe = tip.minus(12);
    for own in [off(&settings), settings.clone()] {
        let index = place.open(own);
        let before = dump(index.engine());
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        let error = writer.rollback(safe.minus(1)).unwrap_err();
        assert!(
            matches!(error, RollbackError::BelowTables { safe: at, .. } if at == safe),
            "{error}"
        );
        assert_eq!(error.safe_height(), Some(safe));
        assert!(error.to_string().contains("import again into a new directory"), "{error}");
        assert_same(&before, &dump(index.engine()), &[], "refused");
        assert_eq!(index.view().unwrap().rollback_floor().unwrap(), Some(safe));
        writer.rollback(safe.max(writer.tip().unwrap().height.minus(6))).unwrap();
    }
    let mut writer = ChainWriter::new(place.open(settings)).unwrap();
    assert_eq!(catch_up(&mut writer, &archive, Readers::Absent, 99).unwrap(), CaughtUp::Done);
    assert_eq!(writer.tip().unwrap().height, safe);
}

#[test]
fn what_cannot_be_had_or_breaks_a_rule_is_named_and_loses_nothing() {
    let mut archive = simulated(2, 1);
    let config = SimulatorConfig { seed: 4, reorg_percent: 0, ..SimulatorConfig::default() };
    let genesis = [archive.headers()[0].hash];
    common::simulate_branch(&mut archive, config, &genesis, 120);
    let settings = variants()[0].clone();
    let chain: Vec<BlockHash> = archive.headers().iter().map(|header| header.hash).collect();
    let bad = common::bad_branch(&mut archive, &chain);
    let place = InMemory::default();
    let mut writer = ChainWriter::new(place.open(settings.clone())).unwrap();
    for hash in &chain[..=110] {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    drop(writer);
    let mut writer = ChainWriter::new(place.open(off(&settings))).unwrap();
    for hash in chain[111..].iter().chain(&bad) {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    drop(writer);
    let index = place.open(settings.clone());
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let missing = chain[115];
    let error = writer
        .catch_up::<CatchUpError>(
            Readers::Absent,
            &mut |_, hash| Ok((*hash != missing).then(|| block(&archive, hash))),
            &mut |_, _| true,
        )
        .unwrap_err();
    assert!(
        matches!(error, CatchUpError::MissingBody { height, .. } if height == Height::new(115)),
        "{error}"
    );
    let at = Cursor::at(Height::new(114), chain[114]);
    assert_eq!(writer.behind(), Some(at), "what was there was applied");
    let error = catch_up(&mut writer, &archive, Readers::Absent, 99).unwrap_err();
    assert!(
        matches!(error, CatchUpError::Refused { height, .. } if height == Height::new(122)),
        "{error}"
    );
    assert!(error.to_string().contains("utxokeep chain rollback 121"), "{error}");
    writer.rollback(Height::new(121)).unwrap();
    assert_eq!(catch_up(&mut writer, &archive, Readers::Absent, 99).unwrap(), CaughtUp::Done);
    prune_fully(&mut writer);
    let expected = common::fresh(settings, &archive, &[&chain[..], &bad[..1]].concat());
    prune_fully(&mut ChainWriter::new(expected.clone()).unwrap());
    assert_same(&dump(expected.engine()), &dump(index.engine()), SIDE_TABLES, "without it");
}

/// A reader of changes meets a typed error while the index is off or behind; afterwards it goes on,
/// unless it stands on a block of which nobody knows what undoing it took back.
#[test]
fn readers_of_changes_go_on_behind_blocks_that_stayed_and_not_behind_those_that_left() {
    let mut archive = simulated(2, 1);
    let config = SimulatorConfig { seed: 4, reorg_percent: 0, ..SimulatorConfig::default() };
    let genesis = [archive.headers()[0].hash];
    common::simulate_branch(&mut archive, config.clone(), &genesis, 112);
    let chain: Vec<BlockHash> = archive.headers().iter().map(|header| header.hash).collect();
    let other = SimulatorConfig { seed: 5, ..config };
    let branch = common::simulate_branch(&mut archive, other, &chain[..=110], 4);
    let settings = variants()[0].clone();
    let place = InMemory::default();
    let mut writer = ChainWriter::new(place.open(settings.clone())).unwrap();
    for hash in &chain {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    drop(writer);
    let index = place.open(off(&settings));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    writer.rollback(Height::new(110)).unwrap();
    for hash in &branch {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    let stayed = Cursor::at(Height::new(110), chain[110]);
    let left = Cursor::at(Height::new(112), chain[112]);
    let changes = |index: &ChainIndex<MemoryEngine>, from: Cursor| {
        let view = index.view().unwrap();
        let events = view.log().events(from, 10).unwrap();
        let first = view.log().changes(&events[0]).map(|delta| delta.hash);
        (events, first)
    };
    assert!(matches!(changes(&index, stayed), (_, Err(LogError::Disabled))));
    drop(writer);
    let index = place.open(settings.clone());
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    assert!(matches!(changes(&index, stayed), (_, Err(LogError::CatchingUp { .. }))));
    assert_eq!(catch_up(&mut writer, &archive, Readers::Present, 99).unwrap(), CaughtUp::Done);
    let (events, first) = changes(&index, stayed);
    assert_eq!((events.len(), first.unwrap()), (4, branch[0]));
    let (events, first) = changes(&index, left);
    assert!(matches!(events[0], LogEvent::Undone(block) if block.entry.hash == chain[112]));
    assert!(matches!(first, Err(LogError::PastWindow { .. })));
}

#[test]
fn a_database_that_never_had_its_index_on_gets_it_from_the_first_block_on() {
    let archive = simulated(3, 150);
    for settings in variants() {
        let place = OnDisk::default();
        let writer = ChainWriter::new(place.open(off(&settings))).unwrap();
        drop(accept(writer, &archive, 0, 150));
        assert!(!peek_identity(place.0.path()).unwrap().enabled);
        let read = |own: IndexSettings| {
            ChainIndex::open_dir(place.0.path(), own, common::rocks_options(), OpenMode::Read)
        };
        // Reading makes no tables, whatever the configuration says.
        let standing = read(settings.clone()).unwrap().status().unwrap().set_standing;
        assert_eq!(standing, SetStanding::Off { at: None });
        let names = RocksKv::tables_on_disk(place.0.path()).unwrap();
        assert!(names.iter().all(|name| name != TABLES[LOG_TABLES].name));
        let index = place.open(settings.clone());
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        assert_eq!(writer.behind(), Some(Cursor::START));
        assert_eq!(
            catch_up(&mut writer, &archive, Readers::Absent, 70).unwrap(),
            CaughtUp::Stopped
        );
        drop((writer, index));
        assert!(matches!(
            read(settings.clone()).unwrap().status().unwrap().set_standing,
            SetStanding::CatchingUp { .. }
        ));
        assert!(matches!(
            read(off(&settings)).unwrap().status().unwrap().set_standing,
            SetStanding::Off { at: Some(_) }
        ));
        let index = place.open(settings.clone());
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        let caught = catch_up(&mut writer, &archive, Readers::Absent, u64::MAX).unwrap();
        assert_eq!(caught, CaughtUp::Done);
        prune_fully(&mut writer);
        let expected = never_off(&settings, &archive);
        assert_same(&expected, &dump(index.engine()), SIDE_TABLES, "never on");
        assert_clean(&index, "never on");
        drop((writer, index));
        assert!(peek_identity(place.0.path()).unwrap().enabled);
    }
}

#[test]
fn an_index_that_keeps_a_range_is_not_switched_off() {
    let ranged = common::settings(12)
        .with(|settings| settings.mmr = Some(utxokeep_core::mmr::MmrRule::Tombstone));
    let place = OnDisk::default();
    drop(place.open(ranged.clone()));
    let error = ChainIndex::open_dir(
        place.0.path(),
        off(&ranged),
        common::rocks_options(),
        OpenMode::Existing,
    )
    .unwrap_err();
    assert!(matches!(error, IndexOpenError::MmrRefused { .. }), "{error}");
    assert!(error.to_string().contains("`chain mmr disable`"), "{error}");
    drop(place.open(ranged));
}

/// On Cardano, with blocks of the preview network: off, further, back, further, on.
#[test]
fn preview_switched_off_and_on_is_as_if_it_never_was_off() {
    let Some(dir) = preview_immutable(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let db = ImmutableDb::open(&dir).unwrap();
    let settings = IndexSettings::new(Network::CardanoPreview).with(|settings| {
        settings.stake_index = true;
        settings.durability = Durability::Buffered;
        settings.window.prune_depth = 432;
        settings.window.rollback_window = 432;
    });
    let decoder = settings.decoder.clone();
    let blocks: Vec<Block> = db
        .blocks_from(db.start())
        .take(5_000)
        .map(|raw| decoder.decode(raw.unwrap().bytes).unwrap())
        .collect();
    let of_hash: std::collections::BTreeMap<BlockHash, &Block> =
        blocks.iter().map(|block| (block.header.hash, block)).collect();
    let never_off = ChainIndex::open(MemoryKv::new(TABLES), settings.clone()).unwrap();
    let mut writer = ChainWriter::new(never_off.clone()).unwrap();
    for block in &blocks {
        writer.apply(block).unwrap();
    }
    prune_fully(&mut writer);

    let place = OnDisk::default();
    let mut at = 0;
    let moves: [(bool, usize, u32); 5] = [
        (true, 1_500, 0),
        (false, 1_800, 350),
        (false, 2_600, 20),
        (true, 3_100, 0),
        (false, 5_000, 40),
    ];
    for (is_on, to, back) in moves {
        let own = if is_on { settings.clone() } else { off(&settings) };
        let index = place.open(own);
        let before = set_rows(index.engine());
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        if is_on {
            let caught = writer.catch_up::<CatchUpError>(
                Readers::Present,
                &mut |_, hash| Ok(of_hash.get(hash).map(|block| (*block).clone())),
                &mut |_, _| true,
            );
            assert_eq!(caught.unwrap(), CaughtUp::Done);
        }
        for back in [back, 0] {
            let tip = writer.tip().map_or(Height::GENESIS, |tip| tip.height);
            if back > 0 {
                writer.rollback(tip.minus(back)).unwrap();
                at -= back as usize;
            }
            for block in &blocks[at..to] {
                writer.apply(block).unwrap();
            }
            at = to;
        }
        if !is_on {
            assert_same(&before, &set_rows(index.engine()), &[], "off");
        }
    }
    let index = place.open(settings);
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let caught = writer.catch_up::<CatchUpError>(
        Readers::Absent,
        &mut |_, hash| Ok(of_hash.get(hash).map(|block| (*block).clone())),
        &mut |_, _| true,
    );
    assert_eq!(caught.unwrap(), CaughtUp::Done);
    prune_fully(&mut writer);
    let (expected, found) = (dump(never_off.engine()), dump(index.engine()));
    assert_same(&expected, &found, SIDE_TABLES, "preview");
    assert_clean(&index, "preview");
}
