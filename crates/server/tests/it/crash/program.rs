//! The real program on a directory of its own: run to the end, killed, or made to crash.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use utxokeep::config::Config;
use utxokeep_chains::Simulator;
use utxokeep_core::BlockEntry;
use utxokeep_index::{
    ChainIndex,
    tables::{
        BLOCKS, META, TABLES,
        ids::{SIDE, SIDE_BODY},
    },
};
use utxokeep_kv::{OpenMode, Read, RocksKv, RocksOptions, Scan, TableId};

use crate::{
    crash::story::{State, Story, temp_dir},
    program::utxokeep,
};

const SIGKILL: i32 = 9;
#[cfg(debug_assertions)]
const SIGABRT: i32 = 6;

/// How a process ended that was to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Killed,
    /// It was faster.
    Finished,
}

/// Rows of every table, except those of branches that lost, and without the numbers of blocks: both
/// depend on what was seen, and when.
#[derive(PartialEq, Eq)]
pub(crate) struct Tables(Vec<Vec<(Vec<u8>, Vec<u8>)>>);

/// All that an uninterrupted run must have in common with one that was interrupted.
pub(crate) struct Outcome {
    pub(crate) digest: Value,
    pub(crate) tables: Tables,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn assert_same(&self, other: &Self) {
        assert_eq!(self.digest, other.digest);
        self.tables.assert_same(&other.tables);
    }
}

impl Tables {
    #[track_caller]
    pub(crate) fn assert_same(&self, other: &Self) {
        for ((left, right), spec) in self.0.iter().zip(&other.0).zip(TABLES) {
            let (name, rows) = (spec.name, (left.len(), right.len()));
            assert!(left == right, "table {name} differs; it has {rows:?} rows");
        }
    }
}

/// The program, pointed at one database.
pub(crate) struct Program {
    home: TempDir,
    config: String,
}

impl Program {
    pub(crate) fn new(config: &str) -> Self {
        let home = temp_dir();
        fs::write(home.path().join("config.toml"), config).unwrap();
        Self { home, config: config.to_owned() }
    }

    /// The same database in another directory, under another configuration.
    pub(crate) fn copy(&self, config: &str) -> Self {
        let copy = Self::new(config);
        fs::create_dir(copy.data()).unwrap();
        for entry in fs::read_dir(self.data()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), copy.data().join(entry.file_name())).unwrap();
            }
        }
        copy
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.home.path().join("stderr.txt")
    }

    /// Runs a command; everything but its result goes to the log.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = utxokeep(args);
        command
            .arg("--json")
            .current_dir(self.home.path())
            .env("UTXOKEEP_DATA", self.data())
            .env("UTXOKEEP_CONFIG", self.home.path().join("config.toml"))
            .stderr(File::create(self.log()).unwrap());
        command
    }

    #[track_caller]
    fn assert_success(&self, args: &[&str], status: ExitStatus) {
        let told = || fs::read_to_string(self.log()).unwrap();
        assert!(status.success(), "{args:?}: {status}: {}", told());
    }

    /// Runs a command to its end, which must be a good one.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).output().unwrap();
        self.assert_success(args, output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// How long a command takes that nobody interrupts.
    #[track_caller]
    pub(crate) fn duration_of(&self, args: &[&str]) -> Duration {
        let started = Instant::now();
        self.json(args);
        started.elapsed()
    }

    /// Starts a command and kills it after `delay`.
    #[track_caller]
    pub(crate) fn kill_during(&self, args: &[&str], delay: Duration) -> Ended {
        let mut child = self.command(args).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(delay);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        if status.signal() == Some(SIGKILL) {
            return Ended::Killed;
        }
        self.assert_success(args, status);
        Ended::Finished
    }

    /// Runs a command that dies when it comes by a crash point; answers whether it came by.
    #[cfg(debug_assertions)]
    #[track_caller]
    pub(crate) fn crash_at(&self, point: &str, args: &[&str]) -> bool {
        let mut command = self.command(args);
        let status = command.env("UTXOKEEP_CRASH_AT", point).stdout(Stdio::null()).status();
        let status = status.unwrap();
        if status.signal() == Some(SIGABRT) {
            return true;
        }
        self.assert_success(args, status);
        false
    }

    fn open(&self) -> ChainIndex<RocksKv> {
        let config = Config::parse(&self.config, "config.toml").unwrap();
        let settings = config.settings(Simulator::NETWORK, None).unwrap();
        ChainIndex::open_dir(&self.data(), settings, config.rocks_options(), OpenMode::Existing)
            .unwrap()
    }

    /// What is there after a crash, once the program itself has found nothing wrong with it;
    /// `None` before the first block.
    #[track_caller]
    pub(crate) fn recovered(&self, story: &Story) -> Option<State> {
        let args = ["chain", "verify"];
        let output = self.command(&args).output().unwrap();
        if output.status.code() == Some(4) {
            let told = fs::read_to_string(self.log()).unwrap();
            assert!(told.contains("there is no database at"), "{told}");
            return None;
        }
        self.assert_success(&args, output.status);
        let state = self.state()?;
        story.assert_known(&state);
        Some(state)
    }

    fn state(&self) -> Option<State> {
        let index = self.open();
        let view = index.view().unwrap();
        view.tip()?;
        // An audit reads the set itself, whatever accumulators say.
        let digest = view.digest(true).unwrap();
        let (height, hash) = (digest.point.height.get(), digest.point.hash);
        Some(State { height, hash, totals: digest.totals, muhash: digest.muhash })
    }

    /// The deepest height a rollback may go to.
    pub(crate) fn floor(&self) -> u32 {
        self.open().view().unwrap().floor().unwrap().unwrap().get()
    }

    pub(crate) fn tables(&self) -> Tables {
        tables_in(&self.data())
    }

    #[track_caller]
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome { digest: self.json(&["chain", "digest", "--audit"]), tables: self.tables() }
    }
}

/// A log entry without its number, which tells of every block that ever left the chain.
fn unnumbered(entry: &[u8]) -> Vec<u8> {
    BlockEntry { number_ahead: 0, ..BlockEntry::decode(entry).unwrap() }.encode()
}

fn tables_in(dir: &Path) -> Tables {
    let kv =
        RocksKv::open(dir, TABLES, RocksOptions::within(16 << 20), OpenMode::Existing).unwrap();
    let rows = |table: TableId| {
        let mut rows = Vec::new();
        kv.scan(table, &Scan::ALL, &mut |key, value| {
            if table == META.id() && key == b"undone_number" {
                return true;
            }
            let value = if table == BLOCKS.id() { unnumbered(value) } else { value.to_vec() };
            rows.push((key.to_vec(), value));
            true
        })
        .unwrap();
        rows
    };
    let ids = (0u8..).take(TABLES.len()).map(TableId);
    Tables(ids.map(|id| if [SIDE, SIDE_BODY].contains(&id) { vec![] } else { rows(id) }).collect())
}
