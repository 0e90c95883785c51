//! A process that persists dies at every step between a block, its files, the watermark and the
//! cursor. Files are whole or not there, the cursor never names a block that is not persisted, and in
//! the end the database that is built from the files is the same.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use utxokeep_chains::{BlockFiles, BlockList as _, ScanOptions, write_block_file};
use utxokeep_kv::{RocksKv, RocksOptions};

use super::*;

/// In the process that is to die: the directory that it works in.
const DIR: &str = "UTXOKEEP_PERSISTER_CRASH_DIR";
const TEST: &str = "persister::tests::crash::a_process_that_dies_anywhere_leaves_whole_files";
const SIGABRT: i32 = 6;
const BLOCKS: usize = 60;

/// Each point, and the passages at which the process dies there.
const POINTS: &[(&str, &[u32])] = &[
    ("persister_before_files", &[1, 3]),
    ("before_group_file", &[1, 2, 9, 30]),
    ("after_group_file", &[1, 5, 14]),
    ("persister_after_files", &[1, 2]),
    ("persister_before_undo", &[1, 2]),
    ("persister_after_watermark", &[1, 2, 5]),
    ("persister_after_cursor", &[1, 4]),
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

/// Takes block after block and persists each, until all are there or a crash point ends it.
fn work(places: &Places) {
    let index = places.open();
    let paths = [places.blocks.clone()];
    let spool = std::env::temp_dir();
    let files = BlockFiles::open(&paths, NETWORK, &spool, ScanOptions::default()).unwrap();
    let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    let bodies = BodyFinder::new(BlockDecoder::new(NETWORK)).with_files(&paths, None, &spool);
    let mut persister = Persister::new(index, place(&places.files), bodies, settings());
    for (at, header) in files.headers().iter().enumerate() {
        follower.accept(header, &files).unwrap();
        if at % 3 == 0 {
            follower.writer_mut().flush().unwrap();
            run(&mut persister).unwrap();
        }
    }
    follower.writer_mut().flush().unwrap();
    run(&mut persister).unwrap();
}

/// What must hold whenever the process is dead.
fn check(places: &Places) {
    let (index, place) = (places.open(), place(&places.files));
    if let Some(reached) = index.reached(NAME).unwrap()
        && reached > Height::GENESIS
    {
        let mut first = true;
        let report = verify(&index, &place, Height::GENESIS, &mut |_, _| {
            first = false;
            true
        });
        let report = report.unwrap();
        let missing = report.faults.iter().filter(|fault| fault.height <= reached);
        assert_eq!(missing.count(), 0, "the cursor is at {reached}: {report:?}");
    }
    // Where a `.block` file is, its block is whole, whichever branch it is of.
    for folder in place.folders_from(Height::GENESIS).unwrap() {
        for hash in place.blocks_in(&folder).unwrap() {
            let block = place.block_in(&folder, hash).unwrap();
            place.raw(block.height, hash).unwrap();
        }
    }
}

#[test]
fn a_process_that_dies_anywhere_leaves_whole_files() {
    if let Some(dir) = std::env::var_os(DIR) {
        return work(&Places::of(Path::new(&dir)));
    }
    if !cfg!(debug_assertions) {
        return;
    }
    let mut simulator = Simulator::new(SimulatorConfig { seed: 5, ..SimulatorConfig::default() });
    let raws: Vec<Vec<u8>> = (0..BLOCKS).map(|_| simulator.mine_next().1).collect();
    let mut deaths = 0;
    for (point, passages) in POINTS {
        // One directory for all deaths at a point: the next process goes on where the last one died.
        let dir = tempfile::tempdir().unwrap();
        let places = Places::of(dir.path());
        write_block_file(&places.blocks, NETWORK, &raws).unwrap();
        for passage in passages.iter().map(Some).chain([None]) {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", TEST, "--nocapture"]).env(DIR, dir.path());
            if let Some(passage) = passage {
                command.env("UTXOKEEP_CRASH_AT", format!("{point}:{passage}"));
            }
            let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
            let died = output.status.signal() == Some(SIGABRT);
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(died || output.status.success(), "{point}: {told}");
            assert!(passage.is_some() || !died, "{point}: {told}");
            deaths += usize::from(died);
            check(&places);
        }
        let (index, place) = (places.open(), place(&places.files));
        let (height, entry) = index.view().unwrap().tip().unwrap();
        assert_eq!(place.watermark().unwrap().unwrap().block, Some((height, entry.hash)));
        assert_eq!(digest(&rebuilt(&place)), digest(&index), "{point}");
    }
    assert!(deaths >= POINTS.len(), "only {deaths} processes died");
}
