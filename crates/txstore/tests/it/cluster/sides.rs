//! A partition with callers on both sides: a program that reaches only the primary which is cut off, and
//! one that reaches only the others, want the same outputs. At `replica` neither side wins anything
//! meanwhile, since the two servers of the shard are apart; when they are together again one does.

use std::{
    collections::BTreeSet,
    env, fs,
    path::Path,
    process::{Child, Stdio},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use utxokeep_core::{
    Txid,
    node::{CreateOptions, NodeTx, SpendAndCreate, SpendFlags},
};
use utxokeep_records::testing::{Namespaces, TestCluster};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{Fields, NodeStore, RecordFaults, TxStore as _};

use super::{connect, number, open, record_settings};
use crate::records::world::{AT, create};

/// Outputs that both sides want.
const WANTED: u16 = 240;
/// Of these, what the program on the smaller side may take before it is cut off.
const BEFORE: u16 = 40;
/// Calls that each side has under way at the same time.
const THREADS: u16 = 4;
/// How long both sides go on while they are apart and each has a primary.
const APART: Duration = Duration::from_secs(2);
/// Time for one side.
const LONGEST: Duration = Duration::from_secs(90);

/// In the program on the smaller side: the directory by which it and the test talk.
const BESIDE: &str = "UTXOKEEP_TEST_BESIDE";
const URL: &str = "url";
/// The program has opened the store and taken its first outputs.
const READY: &str = "ready";
/// The network is cut.
const CUT: &str = "cut";
/// What the program was told that it had spent, by number.
const WON: &str = "won";

/// An id on a shard.
fn id(shard: u16, round: u64, kind: u8, number: u16) -> Txid {
    let mut bytes = [kind; 32];
    let first = u32::from(shard) * 0x1_0000 / u32::from(record_settings().shards);
    bytes[..2].copy_from_slice(&u16::try_from(first).unwrap().to_be_bytes());
    bytes[2..10].copy_from_slice(&round.to_be_bytes());
    bytes[10..12].copy_from_slice(&number.to_be_bytes());
    Txid::from_bytes(bytes)
}

fn parent(shard: u16, round: u64, number: u16) -> NodeTx {
    NodeTx { txid: id(shard, round, 1, number), ..seed(1, &[9]) }
}

/// What a side spends the output of a parent with.
fn wish(shard: u16, round: u64, number: u16, side: u8) -> NodeTx {
    let parent = parent(shard, round, number);
    NodeTx { txid: id(shard, round, side, number), ..spending(side, &[(&parent, 0)], &[1]) }
}

const SMALLER: u8 = 2;
const LARGER: u8 = 3;

/// Spends what a transaction spends, which is one record; answers whether that was acknowledged.
fn spend(store: &NodeStore, tx: &NodeTx) -> Result<bool, ()> {
    let flags = SpendFlags::default();
    let how = SpendAndCreate { spend_only: true, create_only: false, flags };
    let answer = store.spend_and_create(tx, AT, how, &CreateOptions::default());
    answer.map(|answer| answer.is_ok()).map_err(drop)
}

/// What a side was told.
#[derive(Debug, Default)]
struct Told {
    won: BTreeSet<u16>,
    /// Without an answer that says yes or no.
    unanswered: u16,
}

/// Callers of one side go through the numbers, each with a store of its own, once all of them have opened
/// it and `begin` says so.
fn spend_all(
    url: &str,
    (shard, round): (u16, u64),
    side: u8,
    numbers: &[u16],
    begin: impl FnOnce(),
) -> Told {
    let (told, faults) = (Mutex::new(Told::default()), RecordFaults::default());
    let (open_all, start) =
        (Barrier::new(usize::from(THREADS) + 1), Barrier::new(usize::from(THREADS) + 1));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (told, faults, open_all, start) = (&told, &faults, &open_all, &start);
            scope.spawn(move || {
                let store = open(&connect(url), faults);
                open_all.wait();
                start.wait();
                let end = Instant::now() + LONGEST;
                for number in numbers.iter().filter(|number| **number % THREADS == thread) {
                    assert!(Instant::now() < end, "a side is not done in {LONGEST:?}");
                    let answer = spend(&store, &wish(shard, round, *number, side));
                    let mut told = told.lock().unwrap();
                    match answer {
                        Ok(true) => drop(told.won.insert(*number)),
                        Ok(false) => {}
                        Err(()) => told.unanswered += 1,
                    }
                }
            });
        }
        open_all.wait();
        begin();
        start.wait();
    });
    told.into_inner().unwrap()
}

fn wait_for(path: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < end, "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The program on the smaller side: a few outputs, and the rest once it is cut off.
fn act_beside(dir: &Path) {
    let text = fs::read_to_string(dir.join(URL)).unwrap();
    let mut words = text.split_whitespace();
    let mut word = || words.next().unwrap();
    let (url, at) = (word().to_owned(), (word().parse().unwrap(), word().parse().unwrap()));
    let (before, rest): (Vec<u16>, Vec<u16>) = (0..WANTED).partition(|number| *number < BEFORE);
    let mut told = spend_all(&url, at, SMALLER, &before, || {});
    let later = spend_all(&url, at, SMALLER, &rest, || {
        fs::write(dir.join(READY), "").unwrap();
        wait_for(&dir.join(CUT));
    });
    told.won.extend(later.won);
    told.unanswered += later.unanswered;
    let won: Vec<String> = told.won.iter().map(u16::to_string).collect();
    fs::write(dir.join(WON), format!("{}\n{}", told.unanswered, won.join(" "))).unwrap();
}

/// The program on the smaller side; killed when dropped.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        // One that is gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_beside(cluster: &TestCluster, holder: usize, test: &str, dir: &Path) -> Beside {
    let mut command = cluster.command_beside(holder, &env::current_exe().unwrap()).unwrap();
    command.args(["--exact", test, "--nocapture"]).env(BESIDE, dir);
    Beside(command.stdin(Stdio::null()).spawn().unwrap())
}

/// Cuts a primary off together with a program, lets both sides spend, and joins them again. Answers what
/// the sides were told, and the numbers of outputs that do not have the winner which was told so.
fn round(cluster: &TestCluster, ack: &str, test: &str, round: u64) -> ([Told; 2], BTreeSet<u16>) {
    let shard = u16::try_from((round * 29) % 64).unwrap();
    let slot = cluster.slot_of(&format!("{{{shard}}}")).unwrap();
    let holder = cluster.holder(slot).unwrap();
    let times = "acknowledge_timeout_ms=300&command_timeout_ms=1500";
    let url = cluster.url(&format!("ack={ack}&{times}"));
    let store = open(&connect(&url), &RecordFaults::default());
    for number in 0..WANTED {
        create(&store, &parent(shard, round, number)).unwrap().unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(URL), format!("{url} {shard} {round}")).unwrap();
    let mut beside = start_beside(cluster, holder, test, dir.path());
    wait_for(&dir.path().join(READY));
    let numbers: Vec<u16> = (0..WANTED).rev().collect();
    let (is_open, may_begin) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait_until = |flag: &AtomicBool| {
        let end = Instant::now() + LONGEST;
        while !flag.load(Ordering::Relaxed) {
            assert!(Instant::now() < end, "the other side does not go on");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let larger = std::thread::scope(|scope| {
        let larger = scope.spawn(|| {
            spend_all(&url, (shard, round), LARGER, &numbers, || {
                is_open.store(true, Ordering::Relaxed);
                wait_until(&may_begin);
            })
        });
        wait_until(&is_open);
        cluster.cut_off(holder, true).unwrap();
        fs::write(dir.path().join(CUT), "").unwrap();
        cluster.wait_owner_changed(slot, holder).unwrap();
        may_begin.store(true, Ordering::Relaxed);
        std::thread::sleep(APART);
        cluster.cut_off(holder, false).unwrap();
        larger.join().unwrap()
    });
    assert!(beside.0.wait().unwrap().success(), "the program on the smaller side failed");
    cluster.wait_ready().unwrap();
    let noted = fs::read_to_string(dir.path().join(WON)).unwrap();
    let (unanswered, won) = noted.split_once('\n').unwrap();
    let won = won.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let smaller = Told { won, unanswered: unanswered.parse().unwrap() };

    let store = open(&connect(&url), &RecordFaults::default());
    let winner = |number| {
        let stored =
            store.get(&[parent(shard, round, number).txid], Fields { body: false, slots: true });
        let stored = stored.unwrap().remove(0).unwrap();
        stored.slots.unwrap()[0].as_ref().unwrap().spent_by().map(|by| by.txid)
    };
    let mut wrong = BTreeSet::new();
    for (side, told) in [(SMALLER, &smaller), (LARGER, &larger)] {
        let lost =
            |number: &&u16| winner(**number) != Some(wish(shard, round, **number, side).txid);
        wrong.extend(told.won.iter().filter(lost));
    }
    ([smaller, larger], wrong)
}

/// Both tests: at `replica` nothing that either side was told is wrong, at `primary` something is.
fn with_callers_on_both_sides(test: &str, ack: &str, check: impl Fn(&Told, &Told, &BTreeSet<u16>)) {
    if let Some(dir) = env::var_os(BESIDE) {
        return act_beside(Path::new(&dir));
    }
    let Some(namespaces) = Namespaces::enter_or_skip(test) else { return };
    // Long enough for the smaller side to act before it notices.
    let settings = [("cluster-node-timeout", "2000")];
    let Some(cluster) = TestCluster::start_apart_or_skip(namespaces, &settings) else { return };
    for number in 0..number("UTXOKEEP_CLUSTER_ROUNDS", 1) {
        let ([smaller, larger], wrong) = round(&cluster, ack, test, number);
        eprintln!(
            "{ack}, round {number}: the smaller side won {}, {} without an answer; the larger one won {}, \
             {} without an answer; {} broken promises",
            smaller.won.len(),
            smaller.unanswered,
            larger.won.len(),
            larger.unanswered,
            wrong.len(),
        );
        check(&smaller, &larger, &wrong);
    }
}

#[test]
fn callers_on_both_sides_of_a_partition_never_both_win() {
    let test = "cluster::sides::callers_on_both_sides_of_a_partition_never_both_win";
    with_callers_on_both_sides(test, "replica", |smaller, larger, wrong| {
        assert!(wrong.is_empty(), "told that they won, and did not: {wrong:?}");
        assert!(smaller.won.is_disjoint(&larger.won));
        assert!(smaller.won.len() >= usize::from(BEFORE), "{smaller:?}");
        assert!(!larger.won.is_empty(), "{larger:?}");
    });
}

/// The twin: a primary that waits for nobody acknowledges what nobody else knows of.
#[test]
fn at_level_primary_a_partition_with_callers_on_both_sides_is_noticed() {
    let test = "cluster::sides::at_level_primary_a_partition_with_callers_on_both_sides_is_noticed";
    with_callers_on_both_sides(test, "primary", |smaller, larger, wrong| {
        assert!(smaller.won.len() > usize::from(BEFORE), "it took nothing while it was cut off");
        assert!(!larger.won.is_empty() && !wrong.is_empty(), "nobody noticed");
    });
}
