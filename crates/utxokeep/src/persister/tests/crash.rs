//! A process that persists and prunes dies at every step between a block, its files, the watermark, the
//! cursor, the pruner's report and its run. Files are whole or not there, the cursor never names a block
//! that is not persisted, nothing is pruned that is not, and in the end the database that is built from
//! the files is the same.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use utxokeep_chains::{BlockFiles, BlockList as _, ScanOptions, write_block_file};
use utxokeep_core::{
    Txid,
    node::{CreateOptions, MinedBlock, NodeOutput, NodeTx},
};
use utxokeep_kv::{RocksKv, RocksOptions};
use utxokeep_pruner::{ChainState as _, JobState};
use utxokeep_txstore::{Fields, NodeStore, TxStore as _};

use super::*;
use crate::consumers::{LogConsumer as _, PrunerConsumer};

/// In the process that is to die: the directory that it works in.
const DIR: &str = "UTXOKEEP_PERSISTER_CRASH_DIR";
const TEST: &str = "persister::tests::crash::a_process_that_dies_anywhere_leaves_whole_files";
const DELETION_TEST: &str = "persister::tests::crash::a_process_that_dies_among_deletions_resumes";
const SIGABRT: i32 = 6;
const BLOCKS: usize = 60;

/// Blocks that a record is kept for.
const RETENTION: u32 = 5;

/// Each point, and the passages at which the process dies there.
const POINTS: &[(&str, &[u32])] = &[
    ("persister_before_files", &[1, 3]),
    ("before_group_file", &[1, 2, 9, 30]),
    ("after_group_file", &[1, 5, 14]),
    ("persister_after_files", &[1, 2]),
    ("persister_before_undo", &[1, 2]),
    ("persister_after_watermark", &[1, 2, 5]),
    ("persister_after_cursor", &[1, 4]),
    ("pruner_before_report", &[1, 3, 4]),
    ("pruner_after_report", &[2, 3]),
];

struct Places {
    chain: PathBuf,
    blocks: PathBuf,
    files: PathBuf,
}

impl Places {
    fn of(dir: &Path) -> Self {
        Self {
            chain: dir.join("chain"),
            blocks: dir.join("blk00000.dat"),
            files: dir.join("files"),
        }
    }

    fn open(&self) -> ChainIndex<RocksKv> {
        let settings = IndexSettings::new(NETWORK);
        let options = RocksOptions::within(32 << 20);
        ChainIndex::open_dir(&self.chain, settings, options, OpenMode::Create).unwrap()
    }
}

/// The node store beside the chain.
fn open_store(dir: &Path) -> Arc<NodeStore> {
    let config = TxStoreConfig {
        retention_blocks: RETENTION,
        unmined_retention_blocks: 2,
        height_jump_blocks_max: 2.try_into().unwrap(),
        ..TxStoreConfig::default()
    };
    let url = format!("rocksdb:{}", dir.join("store").display());
    node_store::open(&url, &config, OpenMode::Create).unwrap()
}

fn pruner_config() -> PrunerConfig {
    PrunerConfig {
        unmined_retention_blocks: 2,
        safety_window_blocks: 3,
        parent_preservation_blocks: 4,
        ..PrunerConfig::default()
    }
}

fn record(height: u32) -> Txid {
    let mut bytes = [0x55; 32];
    bytes[..4].copy_from_slice(&height.to_be_bytes());
    Txid::from_bytes(bytes)
}

/// A record without a coin, which may go `RETENTION` blocks above its own.
fn keep_record(store: &NodeStore, at: u32) {
    let height = Height::new(at);
    let outputs = vec![NodeOutput { satoshis: 0, script: vec![0x6a] }];
    let (txid, inputs, is_coinbase) = (record(at), Vec::new(), false);
    let tx = NodeTx { txid, version: 1, lock_time: 0, is_coinbase, inputs, outputs };
    let block = MinedBlock { id: at, height, subtree: 0 };
    let how = CreateOptions { mined: vec![block], ..CreateOptions::default() };
    store.create(&[(tx, how)], height).unwrap().remove(0).unwrap();
}

fn is_kept(store: &NodeStore, at: u32) -> bool {
    store.get(&[record(at)], Fields::default()).unwrap()[0].is_some()
}

/// Tells the pruner what the log says, and runs; nothing may go that is not persisted by then.
fn prune(pruning: &Pruning, consumer: &mut PrunerConsumer<RocksKv>, at: &Places) {
    while !consumer.step(&|| false).unwrap().is_done {}
    let Ok(safe) = pruning.pruner().safe_height(None) else { return };
    if Some(safe) <= pruning.pruner().status().unwrap().heights.completed() {
        return;
    }
    let mark = place(&at.files).watermark().unwrap().unwrap().block.unwrap();
    assert!(safe <= mark.0, "a run at {safe}, and the watermark is at {}", mark.0);
    let job = pruning.pruner().run_at(safe);
    assert!(matches!(job.state, JobState::Completed(_)), "{job:?}");
}

/// Takes block after block, persists and prunes, until all is done or a crash point ends it.
fn work(dir: &Path, places: &Places) {
    let index = places.open();
    let paths = [places.blocks.clone()];
    let spool = std::env::temp_dir();
    let files = BlockFiles::open(&paths, NETWORK, &spool, ScanOptions::default()).unwrap();
    let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    let bodies = BodyFinder::new(BlockDecoder::new(NETWORK)).with_files(&paths, None, &spool);
    let mut persister = Persister::new(index.clone(), place(&places.files), bodies, settings());
    // Before the pruner hears anything, as an engine starts its parts.
    persister.register().unwrap();
    let store = open_store(dir);
    let pruning = Pruning::without_threads(store.clone(), &pruner_config()).unwrap();
    let mut consumer = PrunerConsumer::new(pruning.clone(), index.clone());
    let mut stored_to = 0;
    while is_known(dir, stored_to + 1) {
        stored_to += 1;
    }
    let mut both = |persister: &mut Persister<RocksKv>| {
        let tip = index.view().unwrap().tip().unwrap().0.get();
        while stored_to < tip {
            stored_to += 1;
            // Noted after it is stored: one that was stored and not noted is stored again, and found.
            if !is_kept(&store, stored_to) {
                keep_record(&store, stored_to);
            }
            std::fs::write(dir.join(format!("noted-{stored_to}")), b"").unwrap();
        }
        prune(&pruning, &mut consumer, places);
        run(persister).unwrap();
        prune(&pruning, &mut consumer, places);
    };
    for (at, header) in files.headers().iter().enumerate() {
        follower.accept(header, &files).unwrap();
        if at % 3 == 0 {
            follower.writer_mut().flush().unwrap();
            both(&mut persister);
        }
    }
    follower.writer_mut().flush().unwrap();
    both(&mut persister);
}

/// Whether a record of this height was stored once.
fn is_known(dir: &Path, height: u32) -> bool {
    dir.join(format!("noted-{height}")).exists()
}

/// What must hold whenever the process is dead.
fn check(dir: &Path, places: &Places) {
    let (index, place) = (places.open(), place(&places.files));
    if let Some(reached) = index.reached(NAME).unwrap()
        && reached > Height::GENESIS
    {
        let report = verify(&index, &place, Height::GENESIS, &mut |_, _| true).unwrap();
        let missing = report.faults.iter().filter(|fault| fault.height <= reached);
        assert_eq!(missing.count(), 0, "the cursor is at {reached}: {report:?}");
    }
    // Where a `.block` file is, its block is whole, whichever branch it is of.
    let mut highest = 0;
    for folder in place.folders_from(Height::GENESIS).unwrap() {
        for hash in place.blocks_in(&folder).unwrap() {
            let block = place.block_in(&folder, hash).unwrap();
            place.raw(block.height, hash).unwrap();
            highest = highest.max(block.height.get());
        }
    }
    // What has gone was due no higher than what is in files.
    let store = open_store(dir);
    for height in (1..).take_while(|height| is_known(dir, *height)) {
        let due = height + RETENTION;
        assert!(is_kept(&store, height) || due <= highest, "due at {due}, files to {highest}");
    }
}

/// Runs the test again in a process of its own, which is to die at a point; answers whether it did.
fn dies(test: &str, dir: &Path, crash_at: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(DIR, dir);
    command.envs(crash_at.map(|point| ("UTXOKEEP_CRASH_AT", point)));
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    let died = output.status.signal() == Some(SIGABRT);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(died || output.status.success(), "{crash_at:?}: {told}");
    assert!(crash_at.is_some() || !died, "{told}");
    died
}

#[test]
fn a_process_that_dies_anywhere_leaves_whole_files() {
    if let Some(dir) = std::env::var_os(DIR) {
        return work(Path::new(&dir), &Places::of(Path::new(&dir)));
    }
    if !cfg!(debug_assertions) {
        return;
    }
    let config = SimulatorConfig { seed: 5, reorg_percent: 20, ..SimulatorConfig::default() };
    let mut simulator = Simulator::new(config);
    let raws: Vec<Vec<u8>> = (0..BLOCKS).map(|_| simulator.mine_next().1).collect();
    for (point, passages) in POINTS {
        // One directory for all deaths at a point: the next process goes on where the last one died.
        let dir = tempfile::tempdir().unwrap();
        let places = Places::of(dir.path());
        write_block_file(&places.blocks, NETWORK, &raws).unwrap();
        let mut deaths = 0;
        for passage in passages.iter().map(Some).chain([None]) {
            let at = passage.map(|passage| format!("{point}:{passage}"));
            deaths += usize::from(dies(TEST, dir.path(), at.as_deref()));
            check(dir.path(), &places);
        }
        // Each of them, so that no point is one that nothing passes.
        assert_eq!(deaths, passages.len(), "{point}");
        let (index, place) = (places.open(), place(&places.files));
        let (height, entry) = index.view().unwrap().tip().unwrap();
        assert_eq!(place.watermark().unwrap().unwrap().block, Some((height, entry.hash)));
        assert_eq!(digest(&rebuilt(&place)), digest(&index), "{point}");
        let store = open_store(dir.path());
        assert_eq!(store.heights().unwrap().completed(), Some(height), "{point}");
        for at in 1..=height.get() {
            assert_eq!(is_kept(&store, at), at + RETENTION > height.get(), "{point} {at}");
        }
    }
}

/// Persists the blocks of a file as far as they are in it, with old files deleted.
fn persist_and_delete(places: &Places) {
    let index = places.open();
    let paths = [places.blocks.clone()];
    let spool = std::env::temp_dir();
    let files = BlockFiles::open(&paths, NETWORK, &spool, ScanOptions::default()).unwrap();
    let writer = ChainWriter::new(index.clone()).unwrap();
    import_files(writer, &files, false, &mut |_| true).unwrap();
    let bodies = BodyFinder::new(BlockDecoder::new(NETWORK)).with_files(&paths, None, &spool);
    let settings =
        PersisterSettings { retention_blocks: Some(20), batch_blocks_max: 50, ..settings() };
    let mut persister = Persister::new(index, place(&places.files), bodies, settings);
    run(&mut persister).unwrap();
}

#[test]
fn a_process_that_dies_among_deletions_resumes() {
    if let Some(dir) = std::env::var_os(DIR) {
        return persist_and_delete(&Places::of(Path::new(&dir)));
    }
    if !cfg!(debug_assertions) {
        return;
    }
    let config =
        SimulatorConfig { reorg_percent: 0, txs_per_block: 0..2, ..SimulatorConfig::default() };
    let mut simulator = Simulator::new(config);
    let raws: Vec<Vec<u8>> = (0..1_060).map(|_| simulator.mine_next().1).collect();
    let dir = tempfile::tempdir().unwrap();
    let places = Places::of(dir.path());
    let crashes = [
        Some("persister_before_deletion:1"),
        Some("persister_before_deletion:300"),
        Some("persister_before_deletion:2500"),
        Some("persister_after_deletion:1"),
        None,
    ];
    for (at, crash_at) in crashes.into_iter().enumerate() {
        // Each process has some blocks more, after which it deletes.
        write_block_file(&places.blocks, NETWORK, &raws[..1_035 + 5 * at]).unwrap();
        assert_eq!(dies(DELETION_TEST, dir.path(), crash_at), crash_at.is_some(), "{crash_at:?}");
        let (index, place) = (places.open(), place(&places.files));
        let reached = index.reached(NAME).unwrap().unwrap();
        for folder in place.folders_from(Height::GENESIS).unwrap() {
            for hash in place.blocks_in(&folder).unwrap() {
                let block = place.block_in(&folder, hash).unwrap();
                place.raw(block.height, hash).unwrap();
            }
        }
        // Of what is to be kept nothing has gone.
        let first = Height::new(1_000);
        let report = verify(&index, &place, first, &mut |_, _| true).unwrap();
        let gone = report.faults.iter().filter(|fault| fault.height <= reached);
        assert_eq!(gone.count(), 0, "{crash_at:?}: {report:?}");
    }
    let place = place(&places.files);
    let left = place.blocks_in("0000000").unwrap();
    assert_eq!(left, [], "the last one has finished");
}
