//! A process that writes dies again and again: at every named point of the write path, and at any
//! moment. What it acknowledged is there, what was in flight is there whole or not at all, and
//! recounting finds nothing wrong.
//!
//! The process goes through a history. After each death the store is opened again and must be as
//! the model is after the last step that was acknowledged, or after the one behind it.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use utxokeep_core::Txid;
use utxokeep_kv::{Durability, OpenMode};
use utxokeep_sql::{Database, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{Blobs, NodeStore};

use super::{
    choose::Chooser,
    engines,
    model::Model,
    ops::{self, Op},
    random::Random,
    run::{look, number, settings},
};

/// In the process that is to die: where the store is, and the step to start at.
const STORE: &str = "UTXOKEEP_CRASH_STORE";
const BLOBS: &str = "UTXOKEEP_CRASH_BLOBS";
const START: &str = "UTXOKEEP_CRASH_START";
/// Deaths at each point, unless `UTXOKEEP_ROUNDS` says otherwise.
const ROUNDS: u32 = 14;
/// A process that has not come by its point after so many steps ends by itself.
const STEPS_MAX: usize = 300;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

fn seed() -> u64 {
    number("UTXOKEEP_SEED").unwrap_or(21)
}

/// Everything synced; most bodies in files.
fn open(url: &str, blobs: &Path) -> NodeStore {
    let settings = settings(seed()).with(|settings| settings.inline_body_bytes_max = 30);
    let store = match url.strip_prefix("rocksdb:") {
        Some(dir) => engines::open_rocksdb(Path::new(dir), settings, Durability::Synced),
        None => engines::open_sql(url, settings),
    };
    let blobs = format!("file:{}", blobs.display());
    store.with_blobs(Blobs::open(&blobs, Durability::Synced, 10_000, OpenMode::Create).unwrap())
}

/// A history up to a step.
#[derive(Clone)]
struct Reached {
    chooser: Chooser,
    model: Model,
    steps: usize,
}

impl Reached {
    fn new() -> Self {
        Self { chooser: Chooser::new(seed()), model: Model::new(settings(seed()).policy), steps: 0 }
    }

    fn next(&mut self) -> (Op, String) {
        let op = self.chooser.next(&self.model);
        let expected = self.model.apply(&op);
        self.steps += 1;
        (op, expected)
    }

    fn go_to(&mut self, steps: usize) {
        while self.steps < steps {
            self.next();
        }
    }

    fn differs(&self, store: &NodeStore, known: &[Txid]) -> Result<(), String> {
        for op in [Op::Pending(1_000), Op::Unmined(u32::MAX, 1_000)] {
            let (found, expected) = (ops::apply(store, &op), self.model.clone().apply(&op));
            if found != expected {
                return Err(format!("{op:?} is {found}, expected {expected}"));
            }
        }
        let state = utxokeep_txstore::TxStore::block_state(store).unwrap();
        if state != self.model.block_state {
            return Err(format!("the block state is {state:?}"));
        }
        look(store, &self.model, known)
    }
}

/// Writes until it dies, and says each step once it is acknowledged.
fn write_and_die(url: &str) {
    let store = open(url, Path::new(&std::env::var(BLOBS).unwrap()));
    let mut reached = Reached::new();
    let start: usize = number(START).unwrap();
    reached.go_to(start);
    let mut out = std::io::stdout();
    for step in start..start + STEPS_MAX {
        let (op, expected) = reached.next();
        assert_eq!(ops::apply(&store, &op), expected, "step {step}: {op:?}");
        writeln!(out, "acknowledged {}", step + 1).unwrap();
        out.flush().unwrap();
    }
}

struct Victim<'v> {
    test: &'v str,
    url: &'v str,
    blobs: &'v Path,
}

impl Victim<'_> {
    fn start(&self, step: usize, point: Option<(&str, u32)>) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", self.test, "--nocapture"]);
        command.env(STORE, self.url).env(BLOBS, self.blobs).env(START, step.to_string());
        if let Some((name, passage)) = point {
            command.env("UTXOKEEP_CRASH_AT", format!("{name}:{passage}"));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Lets a process die; the last step it acknowledged, and what it died of.
    fn die(
        &self,
        step: usize,
        point: Option<(&str, u32)>,
        random: &mut Random,
    ) -> (usize, Option<i32>) {
        let mut child = self.start(step, point);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut steps = lines.map_while(Result::ok).filter_map(|line| {
            line.split("acknowledged ").nth(1).and_then(|number| number.trim().parse().ok())
        });
        let last = if point.is_some() {
            steps.last().unwrap_or(step)
        } else {
            // It works; from here on it may be killed at any moment.
            let first = steps.next().unwrap_or(step);
            let reader = thread::spawn(move || steps.last().unwrap_or(first));
            thread::sleep(Duration::from_millis(random.below(40)));
            child.kill().unwrap();
            reader.join().unwrap()
        };
        let status = child.wait().unwrap();
        assert!(status.success() || status.signal().is_some(), "{point:?} from {step}: {status}");
        (last, status.signal())
    }
}

/// A server may still be at work for a client that is gone.
fn wait_until_alone(url: &str) {
    if !url.starts_with("postgres") {
        return;
    }
    let database = Database::open(url, &Options::default()).unwrap();
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                  AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    for _ in 0..1_000 {
        let count = database.read(|tx| tx.query_one(others, &[], |row| row.int(0))).unwrap();
        if count == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("a client that was killed is still connected");
}

/// `points` that the engine comes by, each as often as the rounds say, and as many kills at any
/// moment.
fn die_at(test: &str, url: &str, blobs: &Path, points: &[&str]) {
    let victim = Victim { test, url, blobs };
    let mut random = Random::new(seed());
    let rounds: u32 = number("UTXOKEEP_ROUNDS").unwrap_or(ROUNDS);
    let mut reached = Reached::new();
    let moments = points.iter().map(|point| Some(*point)).chain([None]);
    for point in moments {
        let mut died = 0;
        for round in 0..rounds {
            let passage = 1 + random.small(10);
            let at = point.map(|name| (name, passage));
            let (last, signal) = victim.die(reached.steps, at, &mut random);
            died += u32::from(matches!(signal, Some(SIGABRT | SIGKILL)));
            wait_until_alone(url);

            let context =
                format!("seed {}, {point:?}, round {round}, {last} steps acknowledged", seed());
            reached.go_to(last);
            let mut behind = reached.clone();
            behind.next();
            let known = behind.chooser.known();
            let store = open(url, blobs);
            if let Err(before) = reached.differs(&store, &known) {
                if let Err(after) = behind.differs(&store, &known) {
                    panic!("{context}: neither\n{before}\nnor, after the next,\n{after}");
                }
                reached = behind;
            }
        }
        assert!(died * 2 > rounds, "{point:?}: only {died} of {rounds} processes came by");
    }
    // Files whose commit never came can go; every other is needed.
    let store = open(url, blobs);
    let report = store.check_blobs(i64::MAX, 0, true).unwrap().unwrap();
    assert!(report.removed > 0 && report.removed == report.orphans, "{report:?}");
    reached.differs(&store, &reached.chooser.known()).unwrap();
}

/// The store that this process is to write to and to die of.
fn is_victim() -> bool {
    let Ok(url) = std::env::var(STORE) else { return false };
    write_and_die(&url);
    true
}

const ON_KV: [&str; 4] = ["before_blob", "after_blob", "before_commit", "after_commit"];
const ON_SQL: [&str; 5] =
    ["before_blob", "after_blob", "between_statements", "before_commit", "after_commit"];

#[test]
fn rocksdb_survives_death_at_every_point() {
    if is_victim() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let url = format!("rocksdb:{}", dir.path().join("db").display());
    let test = "histories::crash::rocksdb_survives_death_at_every_point";
    die_at(test, &url, &dir.path().join("blobs"), &ON_KV);
}

#[test]
fn sqlite_survives_death_at_every_point() {
    if is_victim() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("db").display());
    let test = "histories::crash::sqlite_survives_death_at_every_point";
    die_at(test, &url, &dir.path().join("blobs"), &ON_SQL);
}

#[test]
fn postgres_survives_the_death_of_its_client_at_every_point() {
    if is_victim() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(database) = TestDatabase::create_or_skip() else { return };
    let test = "histories::crash::postgres_survives_the_death_of_its_client_at_every_point";
    die_at(test, database.url(), &dir.path().join("blobs"), &ON_SQL);
}
