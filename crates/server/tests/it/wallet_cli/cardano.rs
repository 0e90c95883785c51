//! Errors on a Cardano wallet name hashes as people of Cardano write them: as they are, where
//! Bitcoin's tools reverse them.

use serde_json::json;
use utxokeep::wallets::{ApplyBlock, BlockPlace, BlockTx, DisconnectBlock, PayTo, PlainTx};
use utxokeep_chains::cardano::address_text;
use utxokeep_core::{Network, hex_encode};

use crate::wallet_cli::program::{User, told};

const NETWORK: Network = Network::CardanoPreview;
const TIME: u64 = 1_800_000_000;

/// The text of hash `n`: it reads differently from behind.
fn hash(n: u8) -> String {
    let bytes: Vec<u8> = (0..32).map(|at| if at == 0 { n } else { at }).collect();
    hex_encode(&bytes)
}

/// The same with its bytes in reversed order, which exists nowhere.
fn reversed(text: &str) -> String {
    let pairs: Vec<&str> = (0..text.len() / 2).rev().map(|at| &text[2 * at..2 * at + 2]).collect();
    pairs.concat()
}

fn address(n: u8) -> String {
    let mut bytes = vec![n; 29];
    bytes[0] = 0x60;
    address_text(&bytes)
}

fn pays(txid: &str, spends: &str, to: &str) -> PlainTx {
    let outputs = vec![PayTo { address: to.to_owned(), amount: "5000000".parse().unwrap() }];
    PlainTx {
        tx_hash: txid.to_owned(),
        inputs: vec![spends.to_owned()],
        outputs,
        is_coinbase: false,
    }
}

fn block(height: u8, transactions: Vec<PlainTx>) -> ApplyBlock {
    ApplyBlock {
        chain: "cardano".to_owned(),
        network: NETWORK.name().to_owned(),
        block: BlockPlace { height: height.into(), hash: hash(height), time: TIME },
        parent: (height > 1).then(|| hash(height - 1)),
        transactions: transactions.into_iter().map(BlockTx::Parts).collect(),
    }
}

/// A wallet `ada` that watches one address. Block 1 pays it, block 5 spends that and pays it again;
/// block 9 is the last.
fn user() -> User {
    let user = User::new();
    user.json(&["wallet", "create", "ada", "--chain", "cardano", "--network", "preview"]);
    user.json(&["wallet", "address", "add", "ada", &address(7)]);
    let wallets = user.wallets();
    for height in 1..=9 {
        let txs = match height {
            1 => vec![pays(&hash(0xa1), &format!("{}:0", hash(0xee)), &address(7))],
            5 => vec![pays(&hash(0xa5), &format!("{}:0", hash(0xa1)), &address(7))],
            _ => Vec::new(),
        };
        wallets.apply_block(&block(height, txs)).unwrap();
    }
    user
}

/// Refuses a command, whose message has `hash` and never its reversed form.
fn names(user: &User, code: i32, hash: &str, args: &[&str]) {
    check(hash, &user.refused(code, &[&["wallet"], args].concat()), args);
}

fn check(hash: &str, message: &str, what: &[&str]) {
    assert!(message.contains(hash), "{what:?}: {message}");
    assert!(!message.contains(&reversed(&hash[..64])), "{what:?}: {message}");
}

/// Records a transaction by its parts; `more` says where it was seen.
fn record(user: &User, tx: &PlainTx, more: &[&str]) -> std::process::Output {
    let outputs: Vec<_> =
        tx.outputs.iter().map(|to| json!({"address": to.address, "amount": to.amount})).collect();
    let parts = json!({"tx_hash": tx.tx_hash, "inputs": tx.inputs, "outputs": outputs});
    let args = [&["wallet", "record", "ada", "--parts-file", "-"], more].concat();
    user.run_with(&args, &parts.to_string())
}

#[test]
fn what_is_not_known_is_named_as_it_was_given() {
    let user = user();
    let coin = format!("{}:1", hash(0xcc));
    names(&user, 3, &hash(0xcc), &["tx", "ada", &hash(0xcc)]);
    names(&user, 3, &hash(0xcc), &["abandon", "ada", &hash(0xcc)]);
    names(&user, 3, &hash(0xcc), &["bump", "ada", &hash(0xcc), "--fee-rate", "5"]);
    names(&user, 3, &coin, &["lease", "acquire", "ada", &coin]);
    names(&user, 3, &coin, &["freeze", "ada", &coin]);
    names(&user, 3, &coin, &["lease", "release", "ada", &coin, "--owner", "me"]);
}

#[test]
fn leases_name_their_output() {
    let user = user();
    let coin = format!("{}:0", hash(0xa5));
    names(&user, 4, &coin, &["lease", "renew", "ada", &coin, "--owner", "me"]);
    user.json(&["wallet", "lease", "acquire", "ada", &coin, "--owner", "me"]);
    names(&user, 4, &coin, &["lease", "acquire", "ada", &coin, "--owner", "other"]);
    names(&user, 4, &coin, &["lease", "renew", "ada", &coin, "--owner", "other"]);
    names(&user, 4, &coin, &["lease", "release", "ada", &coin, "--owner", "other"]);
    user.json(&["wallet", "lease", "release", "ada", &coin, "--owner", "me"]);
    user.json(&["wallet", "freeze", "ada", &coin]);
    names(&user, 4, &coin, &["lease", "acquire", "ada", &coin]);
}

#[test]
fn states_that_do_not_allow_it_name_their_transaction() {
    let user = user();
    names(&user, 4, &hash(0xa5), &["abandon", "ada", &hash(0xa5)]);
    names(&user, 4, &hash(0xa5), &["remove", "ada", &hash(0xa5)]);
    names(&user, 4, &hash(0xa5), &["unconfirm", "ada", &hash(0xa5)]);
    names(&user, 4, &hash(0xa5), &["bump", "ada", &hash(0xa5), "--fee-rate", "5"]);
    let place = format!("5:{}:{TIME}", hash(5));
    let elsewhere = ["confirm", "ada", &hash(0xa5), "--block", &place, "--position", "3"];
    names(&user, 4, &hash(0xa5), &elsewhere);
    let other = format!("5:{}:{TIME}", hash(0x55));
    names(&user, 4, &hash(0x55), &["confirm", "ada", &hash(0xa5), "--block", &other]);
}

#[test]
fn records_that_are_refused_name_transactions_and_outputs() {
    let user = user();
    let coin = format!("{}:0", hash(0xa5));
    let refused = |tx: &PlainTx, more: &[&str], expected: &[String]| {
        let output = record(&user, tx, more);
        assert_eq!(output.status.code(), Some(4), "{}", told(&output));
        for hash in expected {
            check(hash, &told(&output), more);
        }
    };
    let stranger = pays(&hash(0xb0), &format!("{}:0", hash(0xee)), &address(9));
    refused(&stranger, &["--mempool"], &[hash(0xb0)]);

    let first = pays(&hash(0xb1), &coin, &address(7));
    assert!(record(&user, &first, &["--mempool"]).status.success());
    let rival = pays(&hash(0xb2), &coin, &address(7));
    refused(&rival, &["--mempool"], &[hash(0xb1), hash(0xb2)]);
    let child = pays(&hash(0xb3), &format!("{}:0", hash(0xb1)), &address(7));
    assert!(record(&user, &child, &["--mempool"]).status.success());
    names(&user, 4, &hash(0xb1), &["remove", "ada", &hash(0xb1)]);
    user.json(&["wallet", "abandon", "ada", &hash(0xb1)]);
    let orphan = pays(&hash(0xb4), &format!("{}:0", hash(0xb1)), &address(7));
    refused(&orphan, &["--mempool"], &[format!("{}:0", hash(0xb1))]);

    // It spends from block 5, and somebody says that it is in block 3.
    let early = pays(&hash(0xb5), &coin, &address(7));
    let place = format!("3:{}:{TIME}", hash(3));
    refused(&early, &["--block", &place], &[hash(0xb5), hash(0xa5)]);
}

/// Blocks come over REST and gRPC, which print the same texts.
#[test]
fn blocks_that_are_refused_name_blocks_and_transactions() {
    let user = user();
    let wallets = user.wallets();
    let refused = |request: &ApplyBlock| wallets.apply_block(request).unwrap_err();
    check(&hash(9), &refused(&block(11, Vec::new())).to_string(), &["a gap"]);
    let spends = format!("{}:0", hash(0xa5));
    let twice = || pays(&hash(0xd1), &spends, &address(7));
    check(&hash(0xd1), &refused(&block(10, vec![twice(), twice()])).to_string(), &["twice"]);
    let rival = pays(&hash(0xd2), &spends, &address(7));
    check(&spends, &refused(&block(10, vec![twice(), rival])).to_string(), &["rivals"]);
    let ApplyBlock { chain, network, block, parent, .. } = block(8, Vec::new());
    let request = DisconnectBlock { chain, network, block, parent };
    let error = wallets.disconnect_block(&request).unwrap_err();
    check(&hash(9), &error.to_string(), &["not the tip"]);
}
