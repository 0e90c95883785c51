//! A process that writes is killed again and again: what it acknowledged is there, nothing is half
//! there, and recounting finds nothing wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use utxokeep_core::{
    Height, Txid,
    node::{CreateOptions, NodeOutput, NodeTx, Policy, SpendAndCreate, SpendFlags, SpendStatus},
};
use utxokeep_kv::{Durability, RocksKv, RocksOptions};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{Fields, KvTxStore, TABLES, TxStore};

const ROUNDS: u64 = 25;
/// Names the directory in the process that is to be killed.
const CHILD: &str = "UTXOKEEP_CRASH_CHILD";

fn open(dir: &Path) -> KvTxStore<RocksKv> {
    let kv = RocksKv::open(dir, TABLES, RocksOptions::within(16 << 20), true).unwrap();
    KvTxStore::open(kv, Policy::default(), Durability::Synced).unwrap()
}

fn id(number: u64) -> Txid {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    Txid::from_bytes(bytes)
}

/// The transaction after another: spends its first output.
fn link(number: u64, parent: &NodeTx) -> NodeTx {
    let mut tx = spending(7, &[(parent, 0)], &[9, 1]);
    tx.txid = id(number);
    tx
}

fn first() -> NodeTx {
    let mut tx = seed(7, &[9]);
    tx.txid = id(0);
    tx.outputs.push(NodeOutput { satoshis: 1, script: vec![0x51] });
    tx
}

/// The chain of transactions up to a number, as it was made.
fn chain(until: u64) -> Vec<NodeTx> {
    let mut chain = vec![first()];
    for number in 1..=until {
        let next = link(number, chain.last().unwrap());
        chain.push(next);
    }
    chain
}

/// How many transactions of the chain are stored.
fn stored(store: &dyn TxStore) -> u64 {
    let exists = |number| store.get(&[id(number)], Fields::default()).unwrap()[0].is_some();
    let mut count = 0;
    while exists(count) {
        count += 1;
    }
    count
}

/// Writes until it is killed, and says each number once it is acknowledged.
fn write_for_ever(dir: &Path) {
    let store = open(dir);
    let height = Height::new(5);
    let options = CreateOptions::default();
    let mut number = stored(&store);
    if number == 0 {
        store.create(&[(first(), options.clone())], height).unwrap().remove(0).unwrap();
        number = 1;
    }
    let mut parent = chain(number - 1).pop().unwrap();
    let flags = SpendFlags::default();
    let how = SpendAndCreate { spend_only: false, create_only: false, flags };
    let mut out = std::io::stdout();
    loop {
        let tx = link(number, &parent);
        store.spend_and_create(&tx, height, how, &options).unwrap().unwrap();
        writeln!(out, "acknowledged {number}").unwrap();
        out.flush().unwrap();
        parent = tx;
        number += 1;
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9_and_nothing_is_half_there() {
    if let Some(dir) = std::env::var_os(CHILD) {
        write_for_ever(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut before = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_acknowledged_survives_kill_9_and_nothing_is_half_there"])
            .arg("--nocapture")
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = thread::spawn(move || {
            let numbers = lines.map_while(Result::ok).filter_map(|line| {
                line.split("acknowledged ").nth(1).and_then(|number| number.trim().parse().ok())
            });
            numbers.last().unwrap_or(0u64)
        });
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        thread::sleep(Duration::from_millis(40 + (random >> 33) % 120));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap().max(before);

        let store = open(dir.path());
        let count = stored(&store);
        assert!(count > acknowledged || acknowledged == 0, "round {round}: {count} {acknowledged}");
        assert!(count <= acknowledged + 2, "round {round}: {count} after {acknowledged}");
        let report = store.verify().unwrap();
        assert!(report.is_clean(), "round {round}: {:?}", report.findings);
        for (number, tx) in (1u64..).zip(chain(count.saturating_sub(1))) {
            let output = (utxokeep_core::OutPoint::new(tx.txid, 0), None);
            let view = store.spend_views(&[output], Height::new(9)).unwrap().remove(0).unwrap();
            let is_last = number == count;
            let expected = if is_last { SpendStatus::Ok } else { SpendStatus::Spent };
            assert_eq!(view.status, expected, "round {round}: output of {}", number - 1);
        }
        before = count.saturating_sub(1);
    }
    assert!(before > ROUNDS, "the rounds got somewhere: {before}");
}
