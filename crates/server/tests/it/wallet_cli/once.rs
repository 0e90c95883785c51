//! Requests with an idempotency key: sent twice, they are one payment.

use std::{collections::BTreeSet, process::Stdio, sync::Barrier, thread};

use serde_json::{Value, json};
use utxokeep::{
    config::WalletConfig,
    wallets::{CreatePsbt, ListDescriptors, NextAddress, PsbtInfo, Wallets, WalletsError},
};
use utxokeep_sql::SqlError;
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_cli::program::{STRANGER, User, text, told};

const COINS: [u64; 8] = [90_000; 8];

fn request(key: Option<&str>, amount: u64) -> CreatePsbt {
    let pay = json!({ "address": STRANGER, "amount": amount });
    let request = json!({
        "wallet": "hot",
        "payment": { "outputs": [pay], "fee_rate": 2 },
        "record": true,
        "idempotency_key": key,
    });
    serde_json::from_value(request).unwrap()
}

fn payments(user: &User) -> usize {
    user.json(&["wallet", "txs", "hot", "--unconfirmed"])["items"].as_array().unwrap().len()
}

fn leases(user: &User) -> usize {
    user.json(&["wallet", "lease", "list", "hot"])["items"].as_array().unwrap().len()
}

fn on_both(test: impl Fn(User)) {
    test(User::new());
    if let Some(database) = TestDatabase::create_or_skip() {
        test(User::at(database.url()));
    }
}

/// Eight threads do the same at the same time.
fn eight(
    work: impl Fn(&Wallets) -> Result<PsbtInfo, WalletsError> + Sync,
    user: &User,
) -> Vec<PsbtInfo> {
    let start = Barrier::new(8);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let wallets = user.wallets();
                    start.wait();
                    work(&wallets).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn eight_threads_with_one_key_make_one_payment() {
    on_both(|user| {
        let user = user.with_coins(&COINS);
        let paid = request(Some("order-7"), 50_000);
        let answers = eight(|wallets| wallets.create_psbt(&paid), &user);
        let texts: BTreeSet<String> =
            answers.iter().map(|answer| serde_json::to_string(answer).unwrap()).collect();
        assert_eq!(texts.len(), 1, "the same bytes for all");
        assert_eq!((payments(&user), leases(&user)), (1, 1));
    });
}

/// The twin: whoever looks the key up without the lock, and pays afterwards, pays more than once.
#[test]
fn looking_the_key_up_without_the_lock_pays_more_than_once() {
    const SEEN: &str = "SELECT COUNT(*) FROM transactions WHERE wallet_id = 1 AND status = 0";
    on_both(|user| {
        let user = user.with_coins(&COINS);
        let paid = request(None, 50_000);
        let looked = Barrier::new(8);
        let answers = eight(
            |wallets| {
                let ledger = wallets.ledger().database();
                let seen = ledger.read(|tx| tx.query_one(SEEN, &[], |row| row.int(0)));
                assert_eq!(seen.map_err(|error: SqlError| error).unwrap(), 0);
                looked.wait();
                wallets.create_psbt(&paid)
            },
            &user,
        );
        let txids: BTreeSet<String> =
            answers.iter().map(|answer| answer.tx_hash.to_string()).collect();
        assert_eq!((txids.len(), payments(&user)), (8, 8));
    });
}

#[test]
fn programs_with_one_key_make_one_payment() {
    let user = User::new().with_coins(&COINS);
    let to = format!("{STRANGER}=50000");
    let pay = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "2", "--record", "--json"];
    let args = [&pay[..], &["--idempotency-key", "order-7"]].concat();
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = user.command(&args);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut answers = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        answers.insert(output.stdout);
    }
    assert_eq!((answers.len(), payments(&user), leases(&user)), (1, 1, 1));
}

#[test]
fn a_key_of_another_request_is_refused_and_changes_nothing() {
    let user = User::new().with_coins(&COINS);
    let to = |amount: u64| format!("{STRANGER}={amount}");
    let (first, second, too_much) = (to(50_000), to(51_000), to(9_000_000));
    let pay = ["wallet", "psbt", "hot", "--fee-rate", "2", "--record", "--idempotency-key", "k"];
    // A refused request stores nothing, so that its key is free.
    user.refused(4, &[&pay[..], &["--pay", &too_much]].concat());
    let answer = user.json(&[&pay[..], &["--pay", &first]].concat());
    let told = user.refused(4, &[&pay[..], &["--pay", &second]].concat());
    assert!(told.contains("belongs to another request"), "{told}");
    // Another operation with the same key is another request too.
    user.refused(4, &["wallet", "address", "next", "hot", "--idempotency-key", "k"]);
    assert_eq!(payments(&user), 1);
    assert_eq!(user.json(&[&pay[..], &["--pay", &first]].concat()), answer);
    // Another wallet has its own keys.
    user.json(&["wallet", "create", "cold", "--network", "regtest"]);
    user.json(&["wallet", "descriptor", "add", "cold", crate::wallet_cli::program::TAPROOT]);
    user.json(&["wallet", "address", "next", "cold", "--idempotency-key", "k"]);
}

/// A client that did not get the answer asks again, with the same file.
#[test]
fn a_payment_that_is_sent_again_finds_its_file() {
    let user = User::new().with_coins(&COINS);
    let to = format!("{STRANGER}=50000");
    let place = user.path("payment.psbt");
    let path = place.to_str().unwrap();
    let out = ["--fee-rate", "2", "--record", "--out", path, "--idempotency-key"];
    let pay = [&["wallet", "psbt", "hot", "--pay", &to][..], &out].concat();
    let first = user.json(&[&pay[..], &["k"]].concat());
    let written = std::fs::read(&place).unwrap();
    assert_eq!(user.json(&[&pay[..], &["k"]].concat()), first);
    // The program was stopped before it had written everything.
    for left in [0, written.len() / 2] {
        std::fs::write(&place, &written[..left]).unwrap();
        assert_eq!(user.json(&[&pay[..], &["k"]].concat()), first);
        assert_eq!(std::fs::read(&place).unwrap(), written);
    }
    // Another request never writes there, and leases nothing.
    user.refused(4, &[&pay[..], &["another"]].concat());
    user.refused(4, &pay[..pay.len() - 1]);
    std::fs::write(&place, b"something else").unwrap();
    let told = user.refused(4, &[&pay[..], &["k"]].concat());
    assert!(told.contains("other content"), "{told}");
    assert_eq!(std::fs::read(&place).unwrap(), b"something else");
    assert_eq!((payments(&user), leases(&user)), (1, 1));

    let bump = ["wallet", "bump", "hot", text(&first, "tx_hash"), "--fee-rate", "20", "--lease-of"];
    let place = user.path("bump.psbt");
    let owner = text(&first["selection"]["leased"], "owner");
    let again = [owner, "--out", place.to_str().unwrap(), "--idempotency-key", "higher"];
    let raise = [&bump[..], &again].concat();
    let answer = user.json(&raise);
    assert_eq!(user.json(&raise), answer);
}

#[test]
fn every_write_that_leases_or_hands_out_takes_a_key() {
    let user = User::new().with_coins(&COINS);
    let coins = user.json(&["wallet", "utxos", "hot"]);
    let coin = text(&coins["items"][0], "outpoint").to_owned();
    let to = format!("{STRANGER}=50000");
    let made = user.json(&["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "2", "--record"]);
    let (txid, owner) = (text(&made, "tx_hash"), text(&made["selection"]["leased"], "owner"));
    let select = ["select", "hot", "--value", "60000", "--fee-rate", "1", "--lease"];
    let bump = ["bump", "hot", txid, "--fee-rate", "20", "--lease-of", owner];
    let raw = crate::wallet_cli::program::payment(77, 5_000, text(&coins["items"][0], "script"));
    let cases: [&[&str]; 6] = [
        &["lease", "acquire", "hot", &coin, "--owner", "payroll"],
        &["lease", "renew", "hot", &coin, "--owner", "payroll"],
        &select,
        &bump,
        &["address", "next", "hot"],
        &["record", "hot", "--raw", &raw, "--mempool"],
    ];
    for (number, words) in cases.iter().enumerate() {
        let key = format!("key {number}");
        let words = [&["wallet"][..], words, &["--idempotency-key", &key]].concat();
        let first = user.json(&words);
        let state = || {
            let ask = |what: &[&str]| user.json(&[&["wallet"], what, &["hot"]].concat());
            [ask(&["lease", "list"]), ask(&["txs"]), ask(&["descriptor", "list"])]
        };
        let before = state();
        assert_eq!(user.json(&words), first, "{words:?}");
        assert_eq!(state(), before, "{words:?}");
    }
    // Where nothing would be changed a key is refused, not dropped.
    let without = ["wallet", "select", "hot", "--value", "60000", "--fee-rate", "1"];
    user.refused(2, &[&without[..], &["--idempotency-key", "k"]].concat());
    let dry = [&["wallet"][..], &bump, &["--dry-run", "--idempotency-key", "k"]].concat();
    user.refused(2, &dry);
    for wrong in ["", " k", "k\u{e9}", &"k".repeat(201)] {
        user.refused(2, &["wallet", "address", "next", "hot", "--idempotency-key", wrong]);
    }
}

#[test]
fn keys_are_forgotten_and_bounded() {
    on_both(|user| {
        let user = user.with_coins(&COINS);
        let idempotency_keys_max = 2.try_into().unwrap();
        let config = WalletConfig { idempotency_keys_max, ..WalletConfig::default() };
        let wallets = Wallets::open(&user.url, &config, utxokeep_core::OpenMode::Create).unwrap();
        let list = ListDescriptors { wallet: "hot".to_owned(), archived: false };
        let keychain = wallets.list_descriptors(&list).unwrap().items[0].id;
        let next = |key: &str| {
            wallets.next_address(&NextAddress {
                wallet: "hot".to_owned(),
                descriptor_id: Some(keychain),
                idempotency_key: Some(key.to_owned()),
            })
        };
        let first = next("a").unwrap();
        next("b").unwrap();
        let full = next("c").unwrap_err();
        assert_eq!(full.code(), "too_many_idempotency_keys");
        assert_eq!(next("a").unwrap(), first, "a known key is answered");
        // Two days later.
        let aged = wallets.ledger().database().write(|tx| {
            let sql = "UPDATE idempotency_keys SET created_at_us = created_at_us - 172800000000";
            tx.execute(sql, &[])
        });
        assert_eq!(aged.map_err(|error: SqlError| error).unwrap(), 2);
        assert_ne!(next("a").unwrap(), first, "an old key is a new one");
        next("c").unwrap();
        let now = utxokeep_wallet::Micros::new(i64::MAX / 2);
        let kept = wallets.ledger().clean_answers(86_400_000_000, 100, now).unwrap();
        let is_postgres = user.url.starts_with("postgres");
        assert_eq!(kept.rows, if is_postgres { 0 } else { 2 }, "each by its clock");
        assert_eq!(Value::from(kept.has_more), json!(false));
    });
}
