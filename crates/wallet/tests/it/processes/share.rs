//! Four processes pay from one wallet at the same time, until it has nothing left.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use utxokeep_sql::Durability;
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::{LeaseId, LedgerError};

use crate::processes::{
    LEDGER, NUMBER, number, open,
    wallet::{COIN, PER_PAYMENT, create, find, leases, owner, take},
    within_patience,
};

const PROCESSES: u32 = 4;
/// One more than payments need, so that the last one is refused with a coin to spare.
const COINS: usize = 121;

/// Pays until nothing is left, and says which coins each payment took.
fn pay_all(url: &str) {
    let ledger = open(url, Durability::Relaxed);
    let wallet = find(&ledger);
    let process = number(NUMBER);
    let mut out = std::io::stdout();
    writeln!(out, "ready").unwrap();
    out.flush().unwrap();
    std::io::stdin().read_exact(&mut [0]).unwrap();
    for payment in 0.. {
        let owner = owner(process, payment);
        match take(&ledger, wallet, owner, u64::from(process * 1_000 + payment)) {
            Ok(coins) => {
                let coins: Vec<String> = coins.iter().map(ToString::to_string).collect();
                writeln!(out, "took {owner} {}", coins.join(" ")).unwrap();
            }
            Err(LedgerError::InsufficientFunds { available, leased, .. }) => {
                writeln!(out, "end {available} {leased}").unwrap();
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

fn start(test: &str, url: &str, process: u32) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(LEDGER, url).env(NUMBER, process.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The first line may follow what the test harness prints.
    assert!(lines.any(|line| line.unwrap().ends_with("ready")), "{process} did not start");
    Process { child, input, lines }
}

/// What a process has to say, until it ends.
fn finish(mut process: Process) -> Vec<String> {
    let lines = process.lines.map(Result::unwrap);
    let said: Vec<String> =
        lines.filter(|line| line.starts_with("took ") || line.starts_with("end ")).collect();
    assert!(process.child.wait().unwrap().success());
    said
}

fn share(test: &str, url: &str) {
    let ledger = open(url, Durability::Relaxed);
    let wallet = create(&ledger, COINS);
    let mut processes: Vec<Process> = (0..PROCESSES).map(|n| start(test, url, n)).collect();
    let is_over = AtomicBool::new(false);
    let said: Vec<Vec<String>> = thread::scope(|scope| {
        // Whoever looks sees whole payments only.
        let looks = scope.spawn(|| {
            let mut looks = 0u32;
            while !is_over.load(Ordering::SeqCst) {
                for (owner, coins) in leases(&ledger, wallet) {
                    assert_eq!(coins.len(), PER_PAYMENT, "{owner} has part of a payment");
                }
                looks += 1;
                thread::sleep(Duration::from_millis(1));
            }
            looks
        });
        for process in &mut processes {
            process.input.write_all(b"!").unwrap();
            process.input.flush().unwrap();
        }
        let threads: Vec<_> = processes.into_iter().map(|p| scope.spawn(|| finish(p))).collect();
        let said = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        is_over.store(true, Ordering::SeqCst);
        assert!(looks.join().unwrap() > 0);
        said
    });

    let mut taken = BTreeSet::new();
    let mut payments = Vec::new();
    for lines in &said {
        let (last, took) = lines.split_last().unwrap();
        assert_eq!(*last, format!("end {COIN} {}", COIN * (COINS as u64 - 1)));
        for line in took {
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            assert_eq!(words.len(), 1 + PER_PAYMENT);
            payments.push(LeaseId::from_hex(words[0]).unwrap());
            for coin in &words[1..] {
                assert!(taken.insert((*coin).to_owned()), "{coin} was taken twice");
            }
        }
    }
    assert_eq!(taken.len(), COINS - 1, "all that fits was taken");
    payments.sort_unstable();
    let stored: Vec<LeaseId> =
        leases(&ledger, wallet).into_iter().map(|(owner, _)| owner).collect();
    assert_eq!(stored, payments);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn is_process() -> bool {
    let Ok(url) = std::env::var(LEDGER) else { return false };
    pay_all(&url);
    true
}

/// S118.
#[test]
fn four_processes_share_a_wallet_on_sqlite() {
    if is_process() {
        return;
    }
    within_patience(|| {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("wallet.db").display());
        share("processes::share::four_processes_share_a_wallet_on_sqlite", &url);
    });
}

/// S118.
#[test]
fn four_processes_share_a_wallet_on_postgres() {
    if is_process() {
        return;
    }
    within_patience(|| {
        let Some(database) = TestDatabase::create_or_skip() else { return };
        share("processes::share::four_processes_share_a_wallet_on_postgres", database.url());
    });
}
