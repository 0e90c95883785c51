//! Bulk load takes another way through the engine and must end in the same tables.

use tempfile::TempDir;
use utxokeep_chains::{
    BlockFiles, ScanOptions, Simulator, SimulatorConfig, decode_block, genesis_block,
    write_block_file,
};
use utxokeep_core::{BlockHash, Height};
use utxokeep_index::{
    ChainIndex, ChainWriter, Follower, ImportStage, IndexSettings, Mode, import_files,
    tables::ids::{SIDE, SIDE_BODY},
};
use utxokeep_kv::Kv;
use utxokeep_testkit::{Archive, RegtestA};

use crate::common::{
    self, InMemory, IndexPlace, OnDisk, REGTEST, assert_clean, assert_same, dump, fresh,
};

const WINDOW: u32 = 10;
const SIDE_TABLES: &[utxokeep_kv::TableId] = &[SIDE, SIDE_BODY];

fn config(seed: u64, reorg_percent: u32) -> SimulatorConfig {
    SimulatorConfig {
        seed,
        txs_per_block: 0..9,
        wide_outputs_max: 12,
        wide_percent: 15,
        fan_in_max: 8,
        fan_in_percent: 20,
        same_block_spend_percent: 20,
        reorg_percent,
        reorg_depth_max: 6,
        addresses: 20,
        ..SimulatorConfig::default()
    }
}

/// Blocks in order of arrival, up to this height of the best chain.
fn simulate(config: SimulatorConfig, height: u32) -> Archive {
    let mut simulator = Simulator::new(config);
    let mut archive = Archive::default();
    while simulator.tip_height().get() < height {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
    }
    archive
}

struct Files {
    dir: TempDir,
}

impl Files {
    /// Writes the first `count` blocks that arrived.
    fn new(archive: &Archive, count: usize) -> Self {
        use utxokeep_chains::BlockSource;
        let dir = TempDir::new().unwrap();
        let raws = archive.headers()[..count].iter().map(|h| archive.raw(&h.hash).unwrap());
        write_block_file(&dir.path().join("blk00000.dat"), REGTEST, raws).unwrap();
        Self { dir }
    }

    fn open(&self) -> BlockFiles {
        let paths = [self.dir.path().join("blk00000.dat")];
        BlockFiles::open(&paths, REGTEST, self.dir.path(), ScanOptions::default()).unwrap()
    }
}

fn import<K: Kv>(index: &ChainIndex<K>, files: &Files, bulk: bool) {
    let writer = ChainWriter::new(index.clone()).unwrap();
    let (_, report) = import_files(writer, &files.open(), bulk, &mut |_| true).unwrap();
    assert_eq!(report.refused, []);
}

fn chain_of(archive: &Archive) -> Vec<BlockHash> {
    common::best_chain(REGTEST.genesis_hash(), archive.headers())
}

/// Block by block at the tip, then pruned as far as allowed.
fn expected(settings: &IndexSettings, archive: &Archive) -> common::Dump {
    let index = fresh(settings.clone(), archive, &chain_of(archive));
    common::prune_fully(&mut ChainWriter::new(index.clone()).unwrap());
    dump(index.engine())
}

fn variants(window: u32) -> impl Iterator<Item = IndexSettings> {
    let with = move |muhash, bulk_batch_bytes_max| {
        let mut settings = common::settings(window);
        settings.muhash = muhash;
        settings.bulk_batch_bytes_max = bulk_batch_bytes_max;
        settings
    };
    // One block per batch, a few blocks per batch, all blocks in one.
    [false, true].into_iter().flat_map(move |m| [1, 20_000, 256 << 20].map(|max| with(m, max)))
}

#[test]
fn bulk_load_ends_in_the_tables_of_block_by_block_and_pruning() {
    let archive = simulate(config(11, 0), 150);
    let files = Files::new(&archive, archive.headers().len());
    for settings in variants(WINDOW) {
        let expected = expected(&settings, &archive);
        let memory = InMemory::default().open(settings.clone());
        import(&memory, &files, true);
        assert_same(&dump(memory.engine()), &expected, &[], "in memory");
        assert_clean(&memory, "in memory");
        let place = OnDisk::default();
        let disk = place.open(settings.clone());
        import(&disk, &files, true);
        assert_same(&dump(disk.engine()), &expected, &[], "on disk");
    }
}

#[test]
fn bulk_load_of_a_real_chain_through_table_files_ends_in_the_same_tables() {
    // Large enough for the engine to be loaded past its write path.
    let mut settings = common::settings(20);
    settings.muhash = true;
    let data = RegtestA::default();
    let source = data.block_files();
    let index = fresh(settings.clone(), &source, &data.active_chain());
    common::prune_fully(&mut ChainWriter::new(index.clone()).unwrap());
    let place = OnDisk::default();
    let disk = place.open(settings);
    let writer = ChainWriter::new(disk.clone()).unwrap();
    import_files(writer, &data.block_files(), true, &mut |_| true).unwrap();
    assert_same(&dump(disk.engine()), &dump(index.engine()), SIDE_TABLES, "regtest-a");
    assert_clean(&disk, "regtest-a");
}

/// A branch that lost, but reaches above the last bulk-loaded block, arrives before the blocks
/// that beat it: it must not be taken for a better one that cannot be reached.
#[test]
fn a_reorganisation_across_the_bottom_of_the_window_does_not_stop_a_bulk_load() {
    for seed in 0..6 {
        let archive = simulate(config(seed, 30), 130);
        for bulk in [false, true] {
            for settings in variants(WINDOW).step_by(2) {
                let index = InMemory::default().open(settings.clone());
                import(&index, &Files::new(&archive, archive.headers().len()), bulk);
                let expected = expected(&settings, &archive);
                // Losing branches are kept where they still could win.
                assert_same(&dump(index.engine()), &expected, SIDE_TABLES, "with branches");
            }
        }
    }
}

#[test]
fn bulk_load_on_top_of_undo_data_leaves_none_of_it_behind() {
    let archive = simulate(config(5, 0), 170);
    for settings in variants(WINDOW) {
        let index = InMemory::default().open(settings.clone());
        import(&index, &Files::new(&archive, 121), true);
        assert_eq!(index.view().unwrap().floor().unwrap(), Some(Height::new(120 - WINDOW)));
        import(&index, &Files::new(&archive, archive.headers().len()), true);
        assert_clean(&index, "after the second import");
        assert_same(&dump(index.engine()), &expected(&settings, &archive), &[], "twice");
    }
}

#[test]
fn bulk_mode_between_tip_modes_ends_in_the_same_tables() {
    let archive = simulate(config(6, 0), 140);
    let chain = chain_of(&archive);
    let settings = common::settings(WINDOW).with(|settings| settings.muhash = true);
    let index = InMemory::default().open(settings.clone());
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for hash in &chain[..=120] {
        writer.apply(&common::block(&archive, hash)).unwrap();
    }
    writer.set_mode(Mode::Bulk).unwrap();
    for hash in &chain[121..=130] {
        writer.apply(&common::block(&archive, hash)).unwrap();
    }
    writer.set_mode(Mode::Tip).unwrap();
    assert_clean(&index, "after bulk mode");
    for hash in &chain[131..] {
        writer.apply(&common::block(&archive, hash)).unwrap();
    }
    common::prune_fully(&mut writer);
    assert_same(&dump(index.engine()), &expected(&settings, &archive), &[], "modes");
}

#[test]
fn an_import_stopped_anywhere_goes_on_where_it_was() {
    let archive = simulate(config(8, 15), 135);
    let files = Files::new(&archive, archive.headers().len());
    let settings = common::settings(WINDOW).with(|settings| settings.bulk_batch_bytes_max = 9_000);
    let expected = expected(&settings, &archive);
    let mut stages = Vec::new();
    for stop_after in (0..archive.headers().len()).step_by(9) {
        let place = InMemory::default();
        let writer = ChainWriter::new(place.open(settings.clone())).unwrap();
        let mut seen = 0;
        import_files(writer, &files.open(), true, &mut |progress| {
            seen += 1;
            stages.push(progress.stage);
            seen <= stop_after
        })
        .unwrap();
        let index = place.open(settings.clone());
        assert_clean(&index, "stopped");
        import(&index, &files, true);
        assert_same(&dump(index.engine()), &expected, SIDE_TABLES, "gone on");
    }
    assert!(stages.contains(&ImportStage::Bulk) && stages.contains(&ImportStage::Window));
}

#[test]
fn an_import_that_dies_after_any_write_goes_on_where_it_was() {
    let archive = simulate(config(8, 15), 125);
    let files = Files::new(&archive, archive.headers().len());
    let mut settings =
        common::settings(WINDOW).with(|settings| settings.bulk_batch_bytes_max = 2_000);
    settings.catch_up_blocks_max = 2;
    settings.prune_rows_max = 5;
    let expected = expected(&settings, &archive);
    for commits in 1.. {
        let place = InMemory::default();
        let dying = place.dying_after(commits);
        let writer = ChainWriter::new(dying.open(settings.clone())).unwrap();
        let died = import_files(writer, &files.open(), true, &mut |_| true).is_err();
        let index = place.open(settings.clone());
        assert_clean(&index, &format!("dead after {commits} writes"));
        import(&index, &files, true);
        let what = format!("gone on after {commits} writes");
        assert_same(&dump(index.engine()), &expected, SIDE_TABLES, &what);
        if !died {
            assert!(commits > 40, "{commits} writes were enough");
            break;
        }
    }
}

#[test]
fn importing_the_same_file_again_changes_nothing() {
    let archive = simulate(config(9, 20), 130);
    let files = Files::new(&archive, archive.headers().len());
    let index = InMemory::default().open(common::settings(WINDOW));
    import(&index, &files, true);
    let before = dump(index.engine());
    for bulk in [true, false] {
        import(&index, &files, bulk);
        assert_same(&before, &dump(index.engine()), &[], "once more");
    }
}

#[test]
fn a_follower_takes_over_a_writer_with_staged_blocks() {
    let archive = simulate(config(10, 0), 30);
    let index = InMemory::default().open(common::settings(WINDOW));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    writer.apply(&decode_block(genesis_block(REGTEST), REGTEST).unwrap()).unwrap();
    writer.set_mode(Mode::CatchUp).unwrap();
    for header in &archive.headers()[1..20] {
        writer.apply(&common::block(&archive, &header.hash)).unwrap();
    }
    let mut follower = Follower::new(writer).unwrap();
    for header in archive.headers() {
        follower.accept(header, &archive).unwrap();
    }
    follower.into_writer().unwrap();
    let tip = index.view().unwrap().point().unwrap();
    assert_eq!((tip.height, tip.hash), (Height::new(30), archive.headers()[30].hash));
}

/// Block files that count how many bodies are read.
struct Counting<'a> {
    files: &'a BlockFiles,
    bodies: std::sync::atomic::AtomicUsize,
}

impl utxokeep_chains::BlockSource for Counting<'_> {
    fn next(&mut self) -> Result<Option<utxokeep_core::Header>, utxokeep_chains::SourceError> {
        Ok(None)
    }

    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, utxokeep_chains::SourceError> {
        self.bodies.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        utxokeep_chains::BlockSource::raw(self.files, hash)
    }
}

impl utxokeep_chains::BlockList for Counting<'_> {
    fn headers(&self) -> &[utxokeep_core::Header] {
        utxokeep_chains::BlockList::headers(self.files)
    }
}

#[test]
fn an_import_of_known_files_reads_no_block_again() {
    let archive = simulate(config(17, 10), 160);
    let all = archive.headers().len();
    for bulk in [true, false] {
        let index = InMemory::default().open(common::settings(300));
        let read = |count: usize| {
            let files = Files::new(&archive, count);
            let files = files.open();
            let counting = Counting { files: &files, bodies: 0.into() };
            let writer = ChainWriter::new(index.clone()).unwrap();
            let (_, report) = import_files(writer, &counting, bulk, &mut |_| true).unwrap();
            assert_eq!(report.refused, []);
            (counting.bodies.into_inner(), report.connected)
        };
        read(all - 5);
        let before = dump(index.engine());
        // Side blocks are known as well: the window holds them all.
        assert_eq!(read(all - 5), (0, 0));
        assert_same(&before, &dump(index.engine()), &[], "imported again");
        let (bodies, connected) = read(all);
        assert!(bodies >= 5 && connected <= 5 + 6, "{bodies} {connected}");
        assert!(bodies <= 5 + 2 * 6, "{bodies}: what is new, and what it takes to switch");
        assert_eq!(read(all), (0, 0));
        assert_eq!(
            index.view().unwrap().point().unwrap().hash,
            *chain_of(&archive).last().unwrap()
        );
    }
}

#[test]
fn a_side_block_whose_parent_was_rolled_back_is_read_again() {
    use utxokeep_chains::BlockSource;
    let straight = config(23, 0);
    let mut all = simulate(straight.clone(), 20);
    let base = chain_of(&all);
    let base_count = all.headers().len();
    let first = common::simulate_branch(&mut all, config(24, 0), &base, 2);
    let second = common::simulate_branch(&mut all, config(25, 0), &base, 5);
    // One block of the second branch arrives first, and loses against two of the other.
    let mut early = Archive::default();
    let arrived = base.iter().chain(&second[..1]).chain(&first);
    for hash in arrived {
        let header = all.headers().iter().find(|header| header.hash == *hash).unwrap();
        early.push(*header, all.raw(hash).unwrap());
    }
    for bulk in [true, false] {
        let index = InMemory::default().open(common::settings(300));
        let import = |archive: &Archive| {
            let files = Files::new(archive, archive.headers().len());
            let writer = ChainWriter::new(index.clone()).unwrap();
            let (writer, report) =
                import_files(writer, &files.open(), bulk, &mut |_| true).unwrap();
            assert_eq!((report.refused, report.waiting), (vec![], 0));
            writer
        };
        let mut writer = import(&early);
        assert_eq!(writer.tip().unwrap().hash, first[1]);
        writer.rollback(Height::new(u32::try_from(base_count).unwrap() - 6)).unwrap();
        drop(writer);
        assert_eq!(import(&all).tip().unwrap().hash, second[4]);
        assert_clean(&index, "read again");
    }
}
