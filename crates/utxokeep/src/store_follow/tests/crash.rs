//! A process that follows dies between any two calls of a block. The next one goes on, whether or not
//! the block is still on the chain, and in the end the store agrees with the index.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use utxokeep_chains::{BlockFiles, BlockList as _, ScanOptions, write_block_file};
use utxokeep_kv::{RocksKv, RocksOptions};

use super::*;

/// In the process that is to die: the directory that it works in.
const DIR: &str = "UTXOKEEP_STORE_FOLLOW_CRASH_DIR";
const TEST: &str = "store_follow::tests::crash::a_process_that_dies_anywhere_goes_on";
const SIGABRT: i32 = 6;
const BLOCKS: usize = 260;

/// Each point, and the passages at which the process dies there.
const POINTS: &[(&str, &[u32])] = &[
    ("store_follow_before_block", &[1, 60]),
    ("store_follow_in_hand", &[1, 70, 40]),
    ("store_follow_after_coinbase", &[1, 115]),
    ("store_follow_after_list", &[1, 30, 31]),
    ("store_follow_contested", &[1, 1, 2]),
    ("store_follow_after_conflict", &[1, 1, 2]),
    ("store_follow_after_mined", &[1, 2, 3]),
    ("store_follow_after_unset", &[1, 2, 3]),
    ("store_follow_after_loser", &[1, 2, 2]),
    ("store_follow_after_block", &[1, 80]),
    ("store_follow_published", &[1, 90]),
];

struct Places {
    chain: PathBuf,
    blocks: PathBuf,
    store: String,
}

impl Places {
    fn of(dir: &Path) -> Self {
        Self {
            chain: dir.join("chain"),
            blocks: dir.join("blk00000.dat"),
            store: format!("rocksdb:{}", dir.join("store").display()),
        }
    }

    fn open(&self) -> ChainIndex<RocksKv> {
        let settings = IndexSettings::new(NETWORK);
        let options = RocksOptions::within(32 << 20);
        ChainIndex::open_dir(&self.chain, settings, options, OpenMode::Create).unwrap()
    }
}

/// Takes block after block and follows, until all are there or a crash point ends it.
fn work(places: &Places) {
    let index = places.open();
    let paths = [places.blocks.clone()];
    let spool = std::env::temp_dir();
    let files = BlockFiles::open(&paths, NETWORK, &spool, ScanOptions::default()).unwrap();
    let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    let bodies = BodyFinder::new(BlockDecoder::new(NETWORK)).with_files(&paths, None, &spool);
    let store = open_store(&places.store);
    let mut following = StoreFollower::new(index.clone(), store, bodies, lists_of(7));
    let tip = || index.view().unwrap().tip().map(|(_, entry)| entry.hash);
    let mut moved = 0;
    for header in files.headers() {
        let before = tip();
        follower.accept(header, &files).unwrap();
        follower.writer_mut().flush().unwrap();
        // In a process that starts again the chain moves before the store looks at it: the block that
        // was in hand may have left.
        if tip() != before {
            moved += 1;
            if moved % 2 == 0 {
                run(&mut following).unwrap();
            }
        }
    }
    follower.writer_mut().flush().unwrap();
    run(&mut following).unwrap();
}

#[test]
fn a_process_that_dies_anywhere_goes_on() {
    if let Some(dir) = std::env::var_os(DIR) {
        return work(&Places::of(Path::new(&dir)));
    }
    if !cfg!(debug_assertions) {
        return;
    }
    let config = SimulatorConfig {
        seed: 11,
        txs_per_block: 3..25,
        reorg_percent: 25,
        remine_percent: 40,
        ..SimulatorConfig::default()
    };
    let mut world = World::new(config);
    let raws: Vec<Vec<u8>> = (0..BLOCKS).map(|_| world.draw().1).collect();
    for (point, passages) in POINTS {
        // One directory for all deaths at a point: the next process goes on where the last one died.
        let dir = tempfile::tempdir().unwrap();
        let places = Places::of(dir.path());
        write_block_file(&places.blocks, NETWORK, &raws).unwrap();
        let mut deaths = 0;
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
        }
        assert!(deaths > 0, "no process came by {point}");
        let (index, store) = (places.open(), open_store(&places.store));
        assert_eq!(index.reached(NAME).unwrap(), Some(index.view().unwrap().tip().unwrap().0));
        compare(&index, &store, &world.raws, false);
    }
}
