//! A process that pays dies again and again: between selecting and committing, inside a block, and
//! at any moment. A payment is leased whole or not at all, and so is a block.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use utxokeep_core::Height;
use utxokeep_sql::{Database, Durability, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::{LeaseId, Ledger, WalletId};

use crate::processes::{
    LEDGER, NUMBER, number, open,
    wallet::{
        FIRST, NETWORK, PER_PAYMENT, block, create, find, leases, outside, owner, pays, take,
    },
    within_patience,
};

/// Deaths at each point.
const ROUNDS: u32 = 8;
/// A process that has not come by its point after so many steps ends by itself.
const STEPS_MAX: u32 = 60;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const POINTS: [&str; 5] =
    ["after_select", "after_lease", "before_commit", "after_commit", "in_block"];

/// Even steps lease coins for a payment; odd ones bring the block that makes it.
fn step(ledger: &Ledger, wallet: WalletId, number: u32) {
    if number.is_multiple_of(2) {
        let coins = take(ledger, wallet, owner(0, number), number.into()).unwrap();
        assert_eq!(coins.len(), PER_PAYMENT);
        return;
    }
    let mut inputs = leases(ledger, wallet).remove(0).1;
    inputs.push(outside(number));
    let payment = pays(number, inputs, PER_PAYMENT);
    ledger
        .apply_block(
            NETWORK,
            &block(FIRST + number.div_ceil(2)),
            &[payment],
            crate::processes::wallet::NOW,
        )
        .unwrap();
}

/// What the ledger looks like after so many steps: its tip, and who holds how many leases.
type Look = (Height, Vec<(LeaseId, usize)>);

fn expected(steps: u32) -> Look {
    let holders = if steps % 2 == 1 { vec![(owner(0, steps - 1), PER_PAYMENT)] } else { vec![] };
    (Height::new(FIRST + steps / 2), holders)
}

fn look(ledger: &Ledger, wallet: WalletId) -> Look {
    let holders = leases(ledger, wallet).into_iter().map(|(owner, coins)| (owner, coins.len()));
    (ledger.tip(NETWORK).unwrap().unwrap().0, holders.collect())
}

/// Takes steps until it dies, and says each once it is done.
fn pay_and_die(url: &str) {
    let ledger = open(url, Durability::Synced);
    let wallet = find(&ledger);
    let start = number(NUMBER);
    let mut out = std::io::stdout();
    for number in start..start + STEPS_MAX {
        step(&ledger, wallet, number);
        writeln!(out, "done {}", number + 1).unwrap();
        out.flush().unwrap();
    }
}

/// Lets a process die; how many steps it has acknowledged, and what it died of.
fn die(test: &str, url: &str, start: u32, point: Option<&str>, round: u32) -> (u32, Option<i32>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(LEDGER, url).env(NUMBER, start.to_string());
    if let Some(point) = point {
        command.env("UTXOKEEP_CRASH_AT", format!("{point}:{}", 1 + round % 5));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut steps = lines
        .map_while(Result::ok)
        .filter_map(|line| line.split("done ").nth(1).and_then(|number| number.parse().ok()));
    let last = if point.is_some() {
        steps.last().unwrap_or(start)
    } else {
        // It works; from here on it may be killed at any moment.
        let first = steps.next().unwrap_or(start);
        let reader = thread::spawn(move || steps.last().unwrap_or(first));
        thread::sleep(Duration::from_micros(u64::from(round) * 7_919 % 40_000));
        child.kill().unwrap();
        reader.join().unwrap()
    };
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal().is_some(), "{point:?} from {start}: {status}");
    (last, status.signal())
}

/// A server may still be at work for a client that is gone.
fn wait_until_alone(url: &str) {
    if !url.starts_with("postgres") {
        return;
    }
    let database = Database::open(url, &Options::default()).unwrap();
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    for _ in 0..1_000 {
        let count = database.read(|tx| tx.query_one(others, &[], |row| row.int(0)));
        if count.map_err(|error: utxokeep_sql::SqlError| error).unwrap() == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("a client that was killed is still connected");
}

fn survives(test: &str, url: &str) {
    let wallet = create(&open(url, Durability::Synced), 4 * PER_PAYMENT);
    let mut steps = 0;
    for point in POINTS.into_iter().map(Some).chain([None]) {
        let mut died = 0;
        for round in 0..ROUNDS {
            let (last, signal) = die(test, url, steps, point, round);
            died += u32::from(matches!(signal, Some(SIGABRT | SIGKILL)));
            wait_until_alone(url);
            let ledger = open(url, Durability::Synced);
            let context = format!("{point:?}, round {round}, {last} steps done");
            assert_eq!(ledger.verify(wallet).unwrap(), [], "{context}");
            let found = look(&ledger, wallet);
            let before_commit = !matches!(point, None | Some("after_commit"));
            if found == expected(last) {
                steps = last;
            } else {
                // It was committed and not yet acknowledged.
                assert_eq!(found, expected(last + 1), "{context}");
                assert!(!before_commit, "{context}: a commit that never was");
                steps = last + 1;
            }
        }
        assert!(died * 2 > ROUNDS, "{point:?}: only {died} of {ROUNDS} processes came by");
    }
}

fn is_victim() -> bool {
    let Ok(url) = std::env::var(LEDGER) else { return false };
    pay_and_die(&url);
    true
}

/// S120.
#[test]
fn death_between_select_and_commit_leaves_all_or_nothing_on_sqlite() {
    if is_victim() {
        return;
    }
    within_patience(|| {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("wallet.db").display());
        survives(
            "processes::crash::death_between_select_and_commit_leaves_all_or_nothing_on_sqlite",
            &url,
        );
    });
}

/// S120.
#[test]
fn death_between_select_and_commit_leaves_all_or_nothing_on_postgres() {
    if is_victim() {
        return;
    }
    within_patience(|| {
        let Some(database) = TestDatabase::create_or_skip() else { return };
        survives(
            "processes::crash::death_between_select_and_commit_leaves_all_or_nothing_on_postgres",
            database.url(),
        );
    });
}
