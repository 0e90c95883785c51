//! A store goes from any engine to any other in the middle of a history. The move stops again and
//! again, the source is written meanwhile, and the history goes on in the target as if nothing had
//! happened.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use utxokeep_core::{Height, Txid};
use utxokeep_kv::{Durability, OpenMode};
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, MemoryRecords, RedisOptions, RedisRecords,
    testing::{AerospikePlace, shared_url_or_skip},
};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{
    Agreement, Blobs, BlockState, MoveError, MoveOptions, MoveProgress, MoveReport, NodeStore,
    PruneStore as _, RecordContext, RecordSettings, StoreError, StoreOpenError, StoreSettings,
    TxStore as _, abandon_move, compare_stores, move_store,
};

mod creating;
mod owner;

use super::{
    choose::Chooser,
    engines,
    model::Model,
    random::Random,
    run::{look, number, settings, step},
};

/// Somewhere that a store can be opened again and again.
enum Place {
    Rocks(PathBuf),
    Sql { url: String, _database: Option<TestDatabase> },
    Records(Arc<MemoryRecords>),
    Redis(String),
    Aerospike(AerospikePlace),
}

impl Place {
    fn open(&self, settings: StoreSettings) -> Result<NodeStore, StoreOpenError> {
        let on = |port, outputs_per_record| {
            let records = RecordSettings::default().with(|settings| {
                settings.shards = 8;
                settings.outputs_per_record = outputs_per_record;
            });
            let context = RecordContext::default();
            NodeStore::on_records(port, settings, records, context, OpenMode::Create)
        };
        match self {
            Self::Rocks(dir) => engines::try_open_rocksdb(dir, settings, Durability::Buffered),
            Self::Sql { url, .. } => engines::try_open_sql(url, settings),
            Self::Records(port) => on(Arc::<MemoryRecords>::clone(port), 2),
            Self::Redis(url) => {
                on(Arc::new(RedisRecords::open(RedisOptions::parse(url).unwrap()).unwrap()), 4)
            }
            Self::Aerospike(place) => {
                let options = AerospikeOptions::parse(&place.url()).unwrap();
                on(Arc::new(AerospikeRecords::open(options).unwrap()), 4)
            }
        }
    }

    fn open_for_move(&self, seed: u64) -> NodeStore {
        self.open(settings(seed).with(|settings| settings.agreement = Agreement::Moving)).unwrap()
    }
}

/// A place on an engine; `None` where this machine does not have it.
fn place(engine: &str, dir: &Path) -> Option<Place> {
    match engine {
        "rocksdb" => Some(Place::Rocks(dir.join("rocksdb"))),
        "sqlite" => {
            let url = format!("sqlite:{}", dir.join("sqlite").display());
            Some(Place::Sql { url, _database: None })
        }
        "records" => Some(Place::Records(Arc::new(MemoryRecords::new()))),
        "postgres" => {
            let database = TestDatabase::create_or_skip()?;
            Some(Place::Sql { url: database.url().to_owned(), _database: Some(database) })
        }
        "redis" => shared_url_or_skip("ack=primary").map(Place::Redis),
        _ => AerospikePlace::new_or_skip("").map(Place::Aerospike),
    }
}

const ENGINES: [&str; 6] = ["rocksdb", "sqlite", "records", "postgres", "redis", "aerospike"];

fn options(batch: usize) -> MoveOptions {
    MoveOptions {
        from: "source".to_owned(),
        to: "target".to_owned(),
        retires_source: false,
        batch,
        passes_max: 20,
        quiet_ms: 0,
        creating_wait_ms: 0,
    }
}

/// A history that goes on from store to store.
struct History {
    chooser: Chooser,
    model: Model,
}

impl History {
    fn new(seed: u64) -> Self {
        Self { chooser: Chooser::new(seed), model: Model::new(settings(seed).policy) }
    }

    fn go(&mut self, store: &NodeStore, steps: usize, about: &str) {
        for number in 0..steps {
            let op = self.chooser.next(&self.model);
            let known = self.chooser.known();
            let outcome = step(store, &mut self.model, &op, &known);
            outcome.unwrap_or_else(|error| panic!("{about}, step {number}: {error}"));
        }
    }

    fn look(&self, store: &NodeStore, about: &str) {
        let found = look(store, &self.model, &self.chooser.known());
        found.unwrap_or_else(|error| panic!("{about}: {error}"));
    }
}

/// Moves until it stops by itself, or after so many reports.
fn move_until(
    source: &NodeStore,
    target: &NodeStore,
    options: &MoveOptions,
    reports_max: u64,
) -> Result<MoveReport, MoveError> {
    let mut reports = 0;
    let mut watch = |_: &MoveProgress| {
        reports += 1;
        reports <= reports_max
    };
    move_store(source, target, options, &mut watch)
}

/// Moves a store in spite of stops, while its history goes on in the source.
fn move_with_stops(
    history: &mut History,
    source: &NodeStore,
    target: &Place,
    seed: u64,
    about: &str,
) -> u32 {
    let mut random = Random::new(seed);
    let options = options(7);
    let mut stops = 0;
    loop {
        let opened = target.open_for_move(seed);
        let reports_max = random.below(6 + 4 * stops);
        match move_until(source, &opened, &options, reports_max) {
            Ok(report) => {
                assert_eq!(report.transactions, history.model.records.len() as u64, "{about}");
                let compared = compare_stores(source, &opened, 50, &mut |_| {}).unwrap();
                assert_eq!(compared.differences, [], "{about}");
                return u32::try_from(stops).unwrap();
            }
            Err(MoveError::Stopped) => {
                drop(opened);
                let refused = target.open(settings(seed)).err();
                let is_refused = matches!(refused, Some(StoreOpenError::HalfMoved { .. }));
                assert!(is_refused, "{about}: half a store was opened: {refused:?}");
                stops += 1;
                if stops < 6 {
                    history.go(source, 10, about);
                }
            }
            Err(error) => panic!("{about}: {error}"),
        }
    }
}

#[test]
fn a_history_goes_on_in_whatever_engine_its_store_is_moved_to() {
    let first: u64 = number("UTXOKEEP_SEED").unwrap_or(3_001);
    let steps: usize = number("UTXOKEEP_MOVE_STEPS").unwrap_or(150);
    let dir = tempfile::tempdir().unwrap();
    let has = |engine: &&str| place(engine, dir.path()).is_some();
    let engines: Vec<&str> = ENGINES.into_iter().filter(has).collect();
    let pairs = engines.iter().flat_map(|from| engines.iter().map(move |to| (*from, *to)));
    let mut stopped = 0;
    for ((from, to), seed) in pairs.clone().zip(first..) {
        let home = dir.path().join(seed.to_string());
        std::fs::create_dir_all(home.join("to")).unwrap();
        let source = place(from, &home).unwrap();
        let target = place(to, &home.join("to")).unwrap();
        let about = format!("seed {seed}, from {from} to {to}");
        let mut history = History::new(seed);
        let store = source.open(settings(seed)).unwrap();
        history.go(&store, steps, &about);
        stopped += move_with_stops(&mut history, &store, &target, seed, &about);
        drop(store);
        let store = target.open(settings(seed)).unwrap_or_else(|error| panic!("{about}: {error}"));
        history.look(&store, &about);
        history.go(&store, steps / 2, &about);
        history.look(&store, &about);
    }
    let count = pairs.count();
    eprintln!("{count} pairs of {engines:?}, {stopped} stops");
    assert!(stopped as usize > count, "hardly any move was stopped");
}

/// Moves a source that programs write to whenever the move reports how far it is, until it is retired;
/// `through` says through which of their stores.
fn move_while_in_use(
    engine: &str,
    seed: u64,
    through: impl Fn(&Place, &NodeStore) -> Option<NodeStore>,
) -> Option<(MoveReport, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (place(engine, dir.path())?, Place::Rocks(dir.path().join("to")));
    let running = source.open(settings(seed)).unwrap();
    let mut history = History::new(seed);
    history.go(&running, 300, engine);
    let retiring = MoveOptions { retires_source: true, ..options(7) };
    let (opened, half) = (source.open_for_move(seed), target.open_for_move(seed));
    let unlisted = through(&source, &running);
    let mut after_retirement = 0;
    let mut watch = |now: &MoveProgress| {
        if now.is_retired {
            after_retirement = now.transactions;
        } else if let (Some(store), true) = (&unlisted, now.is_following) {
            history.go(store, 40, engine);
        } else if unlisted.is_none() {
            history.go(&running, 3, engine);
        }
        true
    };
    let report = move_store(&opened, &half, &retiring, &mut watch).unwrap();
    let compared = compare_stores(&opened, &half, 50, &mut |_| {}).unwrap();
    if unlisted.is_none() {
        assert_eq!(compared.differences, [], "{engine}");
        drop(half);
        history.look(&target.open(settings(seed)).unwrap(), engine);
    }
    let all = history.model.records.len() as u64;
    eprintln!("{engine}: {all} transactions, {report:?}, {after_retirement} in the last step");
    assert!(after_retirement < all, "the last step looked at everything");
    Some((report, compared.differing))
}

#[test]
fn a_source_in_use_is_followed_and_the_last_step_copies_only_what_is_left() {
    for (engine, seed) in ENGINES.into_iter().filter(|engine| *engine != "rocksdb").zip(3_400..) {
        let Some((report, _)) = move_while_in_use(engine, seed, |_, _| None) else { continue };
        assert!(report.followed > 0 && report.last_step_ms.is_some(), "{engine}: {report:?}");
    }
}

/// What the first pass leaves is not enough where somebody writes to the source: the twin of the test
/// above, without the later passes.
#[test]
fn without_the_later_passes_a_source_in_use_and_its_copy_differ() {
    let (seed, dir) = (3_500, tempfile::tempdir().unwrap());
    let source = Place::Records(Arc::new(MemoryRecords::new())).open(settings(seed)).unwrap();
    let target = Place::Rocks(dir.path().join("to")).open_for_move(seed);
    let mut history = History::new(seed);
    history.go(&source, 200, "source");
    let mut is_copied = false;
    let mut watch = |now: &MoveProgress| {
        is_copied |= now.at >= 0x8000;
        !is_copied
    };
    let stopped = move_store(&source, &target, &options(5), &mut watch).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped));
    history.go(&source, 50, "source");
    let compared = compare_stores(&source, &target, 50, &mut |_| {}).unwrap();
    assert!(compared.differing > 0);
    move_until(&source, &target, &options(5), u64::MAX).unwrap();
    let compared = compare_stores(&source, &target, 50, &mut |_| {}).unwrap();
    assert_eq!(compared.differing, 0);
}

#[test]
fn a_target_that_is_a_store_or_belongs_to_another_move_is_refused() {
    let seed = 3_600;
    let place = || Place::Records(Arc::new(MemoryRecords::new()));
    let (source, target) = (place(), place());
    let mut history = History::new(seed);
    let opened = source.open(settings(seed)).unwrap();
    history.go(&opened, 60, "source");
    let used = place();
    let other = used.open(settings(seed)).unwrap();
    other.set_block_state(BlockState { height: Height::new(7), median_time: 8 }).unwrap().unwrap();
    let refused = move_until(&opened, &other, &options(5), u64::MAX).unwrap_err();
    assert!(matches!(refused, MoveError::NotEmpty), "{refused}");
    assert_eq!(other.block_state().unwrap().map(|state| state.median_time), Some(8));

    let half = target.open_for_move(seed);
    let stopped = move_until(&opened, &half, &options(5), 1).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped));
    let another = MoveOptions { from: "elsewhere".to_owned(), ..options(5) };
    let refused = move_until(&opened, &half, &another, u64::MAX).unwrap_err();
    assert!(matches!(refused, MoveError::OtherMove { ref from } if from == "source"), "{refused}");
    let onward = place().open_for_move(seed);
    let refused = move_until(&half, &onward, &options(5), u64::MAX).unwrap_err();
    assert!(matches!(refused, MoveError::HalfMovedSource { .. }), "{refused}");
}

#[test]
fn a_retired_source_takes_no_writes_and_is_not_opened_until_the_move_is_abandoned() {
    let seed = 3_700;
    let place = || Place::Records(Arc::new(MemoryRecords::new()));
    let (source, target) = (place(), place());
    let mut history = History::new(seed);
    // Health looks anew each time it is asked.
    let looking = settings(seed).with(|settings| settings.health_probe_ms = 0);
    let running = source.open(looking).unwrap();
    history.go(&running, 60, "source");
    // So that there is something to trim.
    let undo = || vec![("undo/0000000001/t".to_owned(), Some(vec![1]))];
    running.update_states(&mut |_| Ok(undo())).unwrap();
    let retiring = MoveOptions { retires_source: true, ..options(5) };
    let half = target.open_for_move(seed);
    let opened = source.open_for_move(seed);
    let mut watch = |now: &MoveProgress| !now.is_retired;
    let stopped = move_store(&opened, &half, &retiring, &mut watch).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped));
    let state = BlockState { height: Height::new(99), median_time: 8 };
    let refused = running.set_block_state(state).unwrap_err();
    assert!(matches!(refused, StoreError::MovedAway { ref to } if to == "target"), "{refused}");
    let txid = Txid::from_bytes([7; 32]);
    let refused = running.preserve(&[txid], Height::new(5)).unwrap_err();
    assert!(matches!(refused, StoreError::MovedAway { ref to } if to == "target"), "{refused}");
    // Nothing that the pruner does either, and readiness says so.
    let refused = running.trim_undo(Height::new(u32::MAX - 1)).unwrap_err();
    assert!(matches!(refused, StoreError::MovedAway { ref to } if to == "target"), "{refused}");
    let refused = running.update_states(&mut |_| Ok(vec![("pruner_paused".to_owned(), None)]));
    assert!(matches!(refused, Err(StoreError::MovedAway { .. })), "{refused:?}");
    let trouble = running.trouble().unwrap();
    assert!(trouble.reason.contains("moved to target") && trouble.passes, "{trouble:?}");
    let refused = source.open(settings(seed)).unwrap_err();
    assert!(matches!(refused, StoreOpenError::MovedAway { ref to } if to == "target"), "{refused}");
    let elsewhere = MoveOptions { to: "elsewhere".to_owned(), ..retiring.clone() };
    let new = place().open_for_move(seed);
    let refused = move_until(&opened, &new, &elsewhere, u64::MAX).unwrap_err();
    assert!(matches!(refused, MoveError::MovedAway { .. }), "{refused}");

    assert!(abandon_move(&opened, &half, &retiring).unwrap());
    drop(source.open(settings(seed)).unwrap());
    assert_eq!(running.trouble(), None);
    assert!(running.trim_undo(Height::new(2)).unwrap() > 0);
    history.go(&running, 20, "source, after the move was abandoned");
    move_until(&opened, &half, &retiring, u64::MAX).unwrap();
    let refused = abandon_move(&opened, &half, &retiring).unwrap_err();
    assert!(matches!(refused, MoveError::NotEmpty), "the target is whole: {refused}");
    let store = target.open(settings(seed)).unwrap();
    history.look(&store, "target");
}

#[test]
fn a_store_with_bodies_in_files_is_moved_only_if_it_is_retired() {
    let (seed, dir) = (3_800, tempfile::tempdir().unwrap());
    let files = format!("file:{}", dir.path().join("blobs").display());
    let blobs = || Blobs::open(&files, Durability::Buffered, 5_000, OpenMode::Create).unwrap();
    let in_files = settings(seed).with(|settings| settings.inline_body_bytes_max = 0);
    let source = Place::Rocks(dir.path().join("from"));
    let target = Place::Records(Arc::new(MemoryRecords::new()));
    let mut history = History::new(seed);
    let store = source.open(in_files).unwrap().with_blobs(blobs());
    store.claim_blobs(false).unwrap().unwrap();
    history.go(&store, 80, "source");
    drop(store);
    let (opened, half) = (source.open_for_move(seed), target.open_for_move(seed));
    let refused = move_until(&opened, &half, &options(5), u64::MAX).unwrap_err();
    assert!(matches!(refused, MoveError::BodiesInFiles), "{refused}");
    let retiring = MoveOptions { retires_source: true, ..options(5) };
    move_until(&opened, &half, &retiring, u64::MAX).unwrap();
    drop((opened, half));
    let store = target.open(in_files).unwrap().with_blobs(blobs());
    store.claim_blobs(false).unwrap().unwrap();
    history.look(&store, "target");
    history.go(&store, 40, "target");
    assert!(matches!(source.open(in_files), Err(StoreOpenError::MovedAway { .. })));
}

/// In the process that is to die: where the stores are.
const FROM: &str = "UTXOKEEP_MOVE_FROM";
const TO: &str = "UTXOKEEP_MOVE_TO";

#[test]
#[cfg(debug_assertions)]
fn a_move_that_is_killed_at_any_point_goes_on() {
    let seed = 3_900;
    let at = |place: String| match place.strip_prefix("rocksdb:") {
        Some(dir) => Place::Rocks(dir.into()),
        None => Place::Sql { url: place, _database: None },
    };
    let retiring = MoveOptions { retires_source: true, ..options(3) };
    if let (Ok(from), Ok(to)) = (std::env::var(FROM), std::env::var(TO)) {
        let (source, target) = (at(from).open_for_move(seed), at(to).open_for_move(seed));
        match move_until(&source, &target, &retiring, u64::MAX) {
            Ok(_) | Err(MoveError::AlreadyMoved) => return,
            Err(error) => panic!("{error}"),
        }
    }
    let test = "histories::moving::a_move_that_is_killed_at_any_point_goes_on";
    let deaths = [
        ("move_marked", 1),
        ("move_listing", 1),
        ("move_copied", 1),
        ("move_saved", 1),
        ("move_copied", 4),
        ("move_pending", 1),
        ("move_taken", 1),
        ("move_followed", 1),
        ("move_states", 1),
        ("move_compared", 1),
        ("move_retired", 1),
        ("move_done", 1),
    ];
    let mut random = Random::new(seed);
    for round in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let url = |engine: &str| format!("{engine}:{}", dir.path().join(engine).display());
        let (from, to) = [("rocksdb", "sqlite"), ("sqlite", "rocksdb")][round % 2];
        let (from, to) = (url(from), url(to));
        let mut history = History::new(seed + round as u64);
        let store = at(from.clone()).open(settings(seed)).unwrap();
        // The same settings whatever the history.
        history.model = Model::new(settings(seed).policy);
        history.go(&store, 200, "source");
        drop(store);
        let start = |death: Option<(&str, u32)>| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", test, "--nocapture"]).env(FROM, &from).env(TO, &to);
            if let Some((point, passage)) = death {
                command.env("UTXOKEEP_CRASH_AT", format!("{point}:{passage}"));
            }
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        if round < 4 {
            for death in deaths {
                let is_whole = start(Some(death)).wait().unwrap().success();
                assert!(!is_whole, "seed {seed}, round {round}: it did not die at {death:?}");
                if ["move_listing", "move_saved", "move_taken"].contains(&death.0) {
                    // A program uses the source until the move goes on.
                    let store = at(from.clone()).open(settings(seed)).unwrap();
                    history.go(&store, 30, "source");
                }
            }
        } else {
            // At any moment; one that has ended by itself is as good.
            for _ in 0..8 {
                let mut child = start(None);
                std::thread::sleep(Duration::from_millis(random.below(80)));
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        assert!(start(None).wait().unwrap().success(), "seed {seed}, round {round}");
        let store = at(to).open(settings(seed)).unwrap();
        history.look(&store, "target");
        history.go(&store, 40, "target");
        assert!(matches!(at(from).open(settings(seed)), Err(StoreOpenError::MovedAway { .. })));
    }
}
