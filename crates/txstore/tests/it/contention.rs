//! Many threads, and for databases many processes, fight over the same outputs: each has one
//! winner, every loser is told who, counters stay exact, and nobody waits for ever.

mod fight;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use fight::{Contender, Outcome, check_race, check_riot, prepare};
use utxokeep_core::{OutPoint, Txid};
use utxokeep_records::{MemoryRecords, RecordStore, RedisOptions, RedisRecords};
use utxokeep_sql::Durability;
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{NodeStore, StoreSettings};

use crate::engines;

const THREADS: u8 = 16;
const PROCESSES: u8 = 4;
/// Only something that hangs takes this long.
const PATIENCE: Duration = Duration::from_secs(400);

/// In a process that takes part: the store, and the number of its first contender.
const STORE: &str = "UTXOKEEP_CONTENTION_STORE";
const FIRST: &str = "UTXOKEEP_CONTENTION_FIRST";

/// Fails if `work` does not come to an end.
fn within_patience<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let worker = thread::spawn(move || send.send(work()));
    match receive.recv_timeout(PATIENCE) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("somebody waits for ever"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().unwrap_err())
        }
    }
}

fn each<T: Send>(numbers: std::ops::Range<u8>, work: impl Fn(u8) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = numbers.map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn threads_fight(opened: engines::Opened) {
    within_patience(move || {
        let store = &opened.store;
        prepare(store);
        let outcomes = each(0..THREADS, |number| Contender::new(number).race(store)).concat();
        check_race(store, &outcomes, THREADS);
        each(0..THREADS, |number| Contender::new(number).riot(store));
        check_riot(store);
        drop(opened);
    });
}

#[test]
fn threads_fight_in_memory() {
    threads_fight(engines::memory(StoreSettings::default()));
}

#[test]
fn threads_fight_on_rocksdb() {
    threads_fight(engines::rocksdb(StoreSettings::default()));
}

#[test]
fn threads_fight_on_sqlite() {
    threads_fight(engines::sqlite(StoreSettings::default()));
}

#[test]
fn threads_fight_on_postgres() {
    if let Some(opened) = engines::postgres(StoreSettings::default()) {
        threads_fight(opened);
    }
}

#[test]
fn threads_fight_on_records() {
    threads_fight(engines::records(StoreSettings::default()));
}

/// Every thread is a program of its own: nothing but the records is common to them.
#[test]
fn programs_fight_on_records() {
    let port: Arc<dyn RecordStore> = Arc::new(MemoryRecords::new());
    within_patience(move || {
        let open = || engines::open_records(Arc::clone(&port), StoreSettings::default(), 4);
        let store = open();
        prepare(&store);
        let race = |number| Contender::new(number).race(&open());
        let outcomes = each(0..THREADS, race).concat();
        check_race(&store, &outcomes, THREADS);
        each(0..THREADS, |number| Contender::new(number).riot(&open()));
        check_riot(&store);
    });
}

#[test]
fn threads_fight_on_a_cluster() {
    if let Some(opened) = engines::redis(StoreSettings::default()) {
        threads_fight(opened);
    }
}

/// Four programs with connections of their own.
#[test]
fn programs_fight_on_a_cluster() {
    let Some(url) = utxokeep_records::testing::shared_url_or_skip("ack=replica") else { return };
    within_patience(move || {
        let open = |_| {
            let port = RedisRecords::open(RedisOptions::parse(&url).unwrap()).unwrap();
            engines::open_records(Arc::new(port), StoreSettings::default(), 4)
        };
        let stores: Vec<NodeStore> = (0..PROCESSES).map(open).collect();
        let store = |number: u8| &stores[usize::from(number % PROCESSES)];
        prepare(store(0));
        let race = |number| Contender::new(number).race(store(number));
        let outcomes = each(0..THREADS, race).concat();
        check_race(store(0), &outcomes, THREADS);
        each(0..THREADS, |number| Contender::new(number).riot(store(number)));
        check_riot(store(0));
    });
}

#[test]
fn threads_fight_over_transactions_in_files() {
    threads_fight(engines::blobs(StoreSettings::default()));
}

fn open(url: &str) -> NodeStore {
    engines::open_sql_with(url, StoreSettings::default(), Durability::Relaxed)
}

/// Tells whoever started this process.
fn say(words: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{words}").unwrap();
    out.flush().unwrap();
}

/// Takes part: waits for the start, races, tells, waits again, riots.
fn take_part(url: &str) {
    let first: u8 = std::env::var(FIRST).unwrap().parse().unwrap();
    let numbers = first..first + THREADS / PROCESSES;
    let store = open(url);
    let mut go = std::io::stdin().lines();
    say(format_args!("ready"));
    go.next().unwrap().unwrap();
    for outcome in each(numbers.clone(), |number| Contender::new(number).race(&store)).concat() {
        let Outcome { output, contender, winner } = outcome;
        let [parent, contender, winner] =
            [*output.txid(), contender, winner].map(|txid| txid.to_reversed_hex());
        say(format_args!("outcome {parent} {} {contender} {winner}", output.index()));
    }
    say(format_args!("told"));
    go.next().unwrap().unwrap();
    each(numbers, |number| Contender::new(number).riot(&store));
    say(format_args!("over"));
}

/// Reads what a process says up to a word.
fn read_until(lines: &mut impl Iterator<Item = String>, word: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for line in lines {
        // The test harness may have begun the line.
        if line.ends_with(word) {
            return outcomes;
        }
        if let Some(told) = line.split("outcome ").nth(1) {
            let told: Vec<&str> = told.split(' ').collect();
            let txid = |at: usize| Txid::from_reversed_hex(told[at]).unwrap();
            let output = OutPoint::new(txid(0), told[1].parse().unwrap());
            outcomes.push(Outcome { output, contender: txid(2), winner: txid(3) });
        }
    }
    panic!("a process ended before it said {word:?}");
}

fn spawn(test: &str, url: &str, first: u8) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(STORE, url)
        .env(FIRST, first.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends with the test, whatever becomes of it.
struct Players(Vec<Child>);

impl Players {
    fn go(&mut self) {
        for child in &mut self.0 {
            child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        }
    }
}

impl Drop for Players {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn processes_fight(test: &'static str, url: String) {
    within_patience(move || {
        let store = open(&url);
        prepare(&store);
        let firsts = (0..PROCESSES).map(|number| number * (THREADS / PROCESSES));
        let mut players = Players(firsts.map(|first| spawn(test, &url, first)).collect());
        let mut said: Vec<_> = players
            .0
            .iter_mut()
            .map(|child| {
                let out: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
                BufReader::new(out).lines().map_while(Result::ok)
            })
            .collect();
        for lines in &mut said {
            read_until(lines, "ready");
        }
        players.go();
        let outcomes: Vec<_> =
            said.iter_mut().flat_map(|lines| read_until(lines, "told")).collect();
        check_race(&store, &outcomes, THREADS);
        players.go();
        for lines in &mut said {
            read_until(lines, "over");
        }
        for child in &mut players.0 {
            assert!(child.wait().unwrap().success());
        }
        check_riot(&store);
    });
}

#[test]
fn processes_fight_on_sqlite() {
    if let Ok(url) = std::env::var(STORE) {
        return take_part(&url);
    }
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("db").display());
    processes_fight("contention::processes_fight_on_sqlite", url);
}

#[test]
fn processes_fight_on_postgres() {
    if let Ok(url) = std::env::var(STORE) {
        return take_part(&url);
    }
    if let Some(database) = TestDatabase::create_or_skip() {
        processes_fight("contention::processes_fight_on_postgres", database.url().to_owned());
    }
}
