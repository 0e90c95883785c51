//! Pruning loses nothing, wherever the program dies: what was removed is in the ledger, in its
//! archive or in the file, at worst in two of them.

use std::{
    collections::BTreeSet, fs, os::unix::process::ExitStatusExt, process::Stdio, thread,
    time::Duration,
};

use serde_json::{Value, json};
use utxokeep::wallets::{ListTransactions, OneTx, RecordTx, SeenIn};
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_cli::program::{User, payment, text, told};

/// Transactions that may go.
const DEAD: u8 = 12;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// A wallet with payments that were given up; small pages make many commits.
fn with_dead(user: User, page_rows: u32) -> (User, BTreeSet<String>) {
    let user = user.with_coins(&[50_000]);
    let config = format!("[wallet]\npage_rows_max = {page_rows}\n");
    fs::write(user.path("config.toml"), config).unwrap();
    let script = user.json(&["wallet", "address", "next", "hot"])["script"].clone();
    let wallets = user.wallets();
    let mut txids = BTreeSet::new();
    for seed in 100..100 + DEAD {
        let raw = payment(seed, 1_000, script.as_str().unwrap());
        let wallet = "hot".to_owned();
        let (raw, seen) = (Some(raw), SeenIn::Mempool);
        let request = RecordTx { wallet, raw, seen, ..RecordTx::default() };
        let txid = wallets.record_tx(&request).unwrap().tx_hash.to_string();
        let (wallet, tx_hash) = ("hot".to_owned(), txid.clone());
        wallets.abandon_tx(&OneTx { wallet, tx_hash }).unwrap();
        txids.insert(txid);
    }
    (user, txids)
}

const PRUNE: [&str; 9] = [
    "wallet",
    "prune",
    "hot",
    "--dead-older-than",
    "0",
    "--archive",
    "kept.jsonl",
    "--config",
    "config.toml",
];

/// Ids of whole lines of the file, and how many lines are not whole.
fn kept(user: &User) -> (Vec<String>, usize) {
    let lines = fs::read_to_string(user.path("kept.jsonl")).unwrap_or_default();
    let all: Vec<Option<Value>> =
        lines.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let torn = all.iter().filter(|line| line.is_none()).count();
    (all.iter().flatten().map(|row| text(row, "tx_hash").to_owned()).collect(), torn)
}

/// Everything that is somewhere.
fn somewhere(user: &User) -> BTreeSet<String> {
    let wallets = user.wallets();
    let wallet = "hot".to_owned();
    let list = ListTransactions { wallet, unconfirmed: true, ..ListTransactions::default() };
    let stored = wallets.list_transactions(&list).unwrap().items;
    let waiting = wallets.pruned_rows("hot", 0, 1_000).unwrap();
    let waiting = waiting.iter().map(|row| {
        text(&serde_json::from_str::<Value>(&row.document).unwrap(), "tx_hash").to_owned()
    });
    stored.into_iter().map(|tx| tx.tx_hash.to_string()).chain(waiting).chain(kept(user).0).collect()
}

fn finished(user: &User, txids: &BTreeSet<String>) {
    user.json(&PRUNE);
    assert_eq!(kept(user).0.into_iter().collect::<BTreeSet<_>>(), *txids);
    assert_eq!(user.wallets().ledger().pruned_count(wallet(user)).unwrap(), 0);
    assert_eq!(user.json(&["wallet", "verify", "hot"])["is_sound"], true);
}

fn wallet(user: &User) -> utxokeep_wallet::WalletId {
    user.wallets().ledger().wallet_named("hot").unwrap().id
}

fn survives_every_crash_point(user: impl Fn() -> User) {
    let mut died = 0;
    for point in ["before_commit", "after_commit"] {
        for number in 1..=6 {
            let (user, txids) = with_dead(user(), 5);
            let mut command = user.command(&PRUNE);
            command.env("UTXOKEEP_CRASH_AT", format!("{point}:{number}"));
            let output = command.output().unwrap();
            died += u32::from(output.status.signal() == Some(SIGABRT));
            assert_eq!(somewhere(&user), txids, "{point}:{number}: {}", told(&output));
            finished(&user, &txids);
        }
    }
    assert!(died >= 10, "only {died} came by their point");
}

#[test]
fn a_prune_that_crashes_loses_nothing_in_a_file() {
    survives_every_crash_point(User::new);
}

#[test]
fn a_prune_that_crashes_loses_nothing_on_a_server() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    let (user, txids) = with_dead(User::at(database.url()), 5);
    for (point, number) in [("after_commit", 1), ("before_commit", 1), ("after_commit", 2)] {
        let mut command = user.command(&PRUNE);
        command.env("UTXOKEEP_CRASH_AT", format!("{point}:{number}"));
        assert_eq!(command.output().unwrap().status.signal(), Some(SIGABRT));
        assert_eq!(somewhere(&user), txids, "{point}:{number}");
    }
    finished(&user, &txids);
}

#[test]
fn a_prune_that_is_killed_at_any_moment_loses_nothing() {
    let (user, txids) = with_dead(User::new(), 1);
    let mut killed = 0;
    for round in 0..30u64 {
        let mut command = user.command(&PRUNE);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(5_000 + round * 7_919 % 40_000));
        child.kill().unwrap();
        let signal = child.wait().unwrap().signal();
        killed += usize::from(signal == Some(SIGKILL));
        assert_eq!(somewhere(&user), txids, "round {round}");
        assert!(kept(&user).1 <= killed, "a line is cut by a kill only");
    }
    finished(&user, &txids);
}

#[test]
fn a_file_that_cannot_be_written_leaves_everything_in_the_ledger() {
    let (user, txids) = with_dead(User::new(), 5);
    let full = ["wallet", "prune", "hot", "--dead-older-than", "0", "--archive", "/dev/full"];
    let refused = user.refused(1, &full);
    assert!(refused.contains("waits in the ledger"), "{refused}");
    assert_eq!(somewhere(&user), txids);
    // The ledger is no archive, under another name neither.
    fs::hard_link(user.path("ledger.db"), user.path("other.db")).unwrap();
    for name in ["ledger.db", "other.db", "ledger.db-wal"] {
        let file = user.path(name);
        let own = ["wallet", "prune", "hot", "--dead-older-than", "0", "--archive"];
        let refused = user.refused(2, &[&own[..], &[file.to_str().unwrap()]].concat());
        assert!(refused.contains("a file of the ledger itself"), "{name}: {refused}");
    }
    assert_eq!(somewhere(&user), txids);
    // A line that was cut is ended; the row comes again, whole.
    fs::write(user.path("kept.jsonl"), "{\"tx_hash\":\"cut").unwrap();
    let output = user.run(&PRUNE);
    assert!(told(&output).contains("that an earlier run had removed"), "{}", told(&output));
    assert_eq!(kept(&user).1, 1);
    finished(&user, &txids);
}

#[test]
fn a_dry_run_and_a_depth_that_reorganisations_reach() {
    let (user, txids) = with_dead(User::new(), 100);
    let dry = ["wallet", "prune", "hot", "--dead-older-than", "0", "--dry-run"];
    let told = user.json(&dry);
    assert_eq!(told["transactions"].as_array().unwrap().len(), txids.len());
    assert_eq!(somewhere(&user), txids);
    let deep = ["wallet", "prune", "hot", "--confirmed-up-to", "1", "--no-archive"];
    let refused = user.refused(4, &deep);
    assert!(refused.contains("288 blocks must lie above"), "{refused}");
    let gone = user.json(&["wallet", "prune", "hot", "--dead-older-than", "0", "--no-archive"]);
    assert_eq!(
        (gone["transactions"].as_array().unwrap().len(), &gone["waiting"]),
        (txids.len(), &json!(0))
    );
    assert!(somewhere(&user).is_empty());
}
