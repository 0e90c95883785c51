//! From an empty ledger to a payment with a higher fee, on a chain that a real Bitcoin Core made.

use std::fs;

use serde_json::{Value, json};
use utxokeep_testkit::{RegtestA, postgres::TestDatabase};

use crate::wallet_cli::program::{DESCRIPTOR, STRANGER, TAPROOT, User, amount, text};

/// What Core's wallet has in coinbase outputs that are too young.
const IMMATURE: &str = "12500090723";

fn import(user: &User) -> String {
    let blocks = RegtestA::default().path("blocks.dat.xz").display().to_string();
    let args = ["chain", "import", "--network", "regtest", "--json", &blocks];
    let output = user.bare(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    blocks
}

fn follow(user: &User, blocks: &str) -> Value {
    user.json(&["wallet", "follow", "--until-tip", "--blocks", blocks])
}

fn watch_and_follow(user: &User) -> String {
    let made = user.json(&["wallet", "create", "hot", "--network", "regtest"]);
    assert_eq!((text(&made, "name"), text(&made, "chain")), ("hot", "bitcoin"));
    assert_eq!(user.json(&["wallet", "show", "hot"])["tip"], Value::Null);
    let keychains = user.json(&["wallet", "descriptor", "add", "hot", DESCRIPTOR]);
    assert_eq!(keychains["items"].as_array().unwrap().len(), 2);
    let again = user.json(&["wallet", "descriptor", "list", "hot"]);
    assert_eq!(again, keychains, "nothing was handed out yet");

    user.json(&["wallet", "descriptor", "add", "hot", TAPROOT]);
    let blocks = import(user);
    let followed = follow(user, &blocks);
    assert_eq!((&followed["height"], &followed["chain_height"]), (&json!(300), &json!(300)));
    let shown = user.json(&["wallet", "show", "hot"]);
    assert_eq!(shown["tip"]["height"], 300);
    blocks
}

fn balance_is_the_sum_of_the_coins(user: &User) {
    let balance = user.json(&["wallet", "balance", "hot"]);
    assert_eq!(text(&balance, "immature"), IMMATURE);
    let coins = user.json(&["wallet", "utxos", "hot", "--page-size", "5000"]);
    let coins = coins["items"].as_array().unwrap();
    let sum: u64 = coins.iter().map(|coin| amount(&coin["amount"])).sum();
    assert_eq!(sum, amount(&balance["total"]));
    assert!(coins.len() > 10, "{}", coins.len());
    let deep = user.json(&["wallet", "balance", "hot", "--min-confirmations", "101"]);
    assert!(amount(&deep["total"]) < sum);
    assert_eq!(user.json(&["wallet", "verify", "hot"])["is_sound"], true);
}

/// Pays a stranger; answers the id.
fn pay(user: &User) -> (String, String) {
    let file = user.text_path("payment.psbt");
    let to = format!("{STRANGER}=1000000");
    let pay = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "2.5", "--record"];
    let args = ["--algorithm", "largest-first", "--out", &file];
    let made = user.json(&[&pay[..], &args].concat());
    assert_eq!(made["is_tx_hash_final"], true);
    assert!(fs::read(&file).unwrap().starts_with(b"psbt\xff"));
    let change = made["change_address"].as_str().unwrap();
    assert!(change.starts_with("bcrt1q"), "{change}");
    let (txid, owner) = (text(&made, "tx_hash"), text(&made["selection"]["leased"], "owner"));

    let open = user.json(&["wallet", "txs", "hot", "--unconfirmed"]);
    assert_eq!(
        (&open["items"][0]["tx_hash"], &open["items"][0]["status"]),
        (&json!(txid), &json!("pending"))
    );
    assert_eq!(user.json(&["wallet", "publish", "hot", txid])["status"], "published");
    let details = user.json(&["wallet", "tx", "hot", txid]);
    assert_eq!(details["fee"], made["selection"]["fee"]);
    let fee = amount(&details["fee"]);
    assert_eq!(text(&details, "delta"), format!("-{}", 1_000_000 + fee));
    (txid.to_owned(), owner.to_owned())
}

fn raise_the_fee(user: &User, txid: &str, owner: &str) {
    let bump = ["wallet", "bump", "hot", txid, "--fee-rate", "20", "--lease-of", owner];
    let before = user.json(&["wallet", "txs", "hot", "--unconfirmed"]);
    let planned = user.json(&[&bump[..], &["--dry-run"]].concat());
    assert_eq!((&planned["recorded"], &planned["leased"]), (&Value::Null, &Value::Null));
    assert_eq!(user.json(&["wallet", "txs", "hot", "--unconfirmed"]), before);

    let bumped = user.json(&bump);
    assert_eq!(bumped["fee"], planned["fee"]);
    assert!(amount(&bumped["fee"]) > amount(&bumped["replaced_fees"]));
    assert_eq!(bumped["recorded"]["is_waiting"], true);
    let new = text(&bumped, "tx_hash");
    let published = user.json(&["wallet", "publish", "hot", new]);
    assert_eq!(published["losers"], json!([txid]));
    let edges = user.json(&["wallet", "replacements", "hot", txid]);
    assert_eq!(edges["items"][0]["replacement"], *new);
    assert_eq!(user.json(&["wallet", "tx", "hot", txid])["status"], "replaced");
    let told = user.lines(&["wallet", "tx", "hot", txid]);
    assert!(told.contains(&format!("because of   {new}")), "{told}");
}

fn blocks_leave_and_come_back(user: &User, blocks: &str) {
    let before = user.json(&["wallet", "balance", "hot"]);
    let at = user.json(&["wallet", "disconnect", "250", "--network", "regtest"]);
    assert!(at["tip"]["height"].as_u64().unwrap() < 250, "{at}");
    assert_ne!(user.json(&["wallet", "balance", "hot"]), before);
    assert_eq!(follow(user, blocks)["height"], 300);
    assert_eq!(user.json(&["wallet", "balance", "hot"]), before);
}

fn old_rows_are_kept_in_a_file(user: &User, dead: &str) {
    let prune = ["wallet", "prune", "hot", "--dead-older-than", "0"];
    let told = user.refused(2, &prune);
    assert!(told.contains("--archive") && told.contains("--no-archive"), "{told}");
    let file = user.text_path("archive.jsonl");
    let with_archive = [&prune[..], &["--archive", &file]].concat();
    let removed = user.json(&with_archive);
    let kept = fs::read_to_string(&file).unwrap();
    let rows: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Value::from(rows.clone()), removed["transactions"]);
    assert!(rows.iter().any(|row| row["tx_hash"] == dead && row["raw"].is_string()), "{kept}");
    user.refused(3, &["wallet", "tx", "hot", dead]);
    assert_eq!(user.json(&with_archive)["transactions"], json!([]));
    assert_eq!(fs::read_to_string(&file).unwrap(), kept, "a file is added to, never emptied");
}

fn story(user: &User) {
    let blocks = watch_and_follow(user);
    balance_is_the_sum_of_the_coins(user);
    let (txid, owner) = pay(user);
    raise_the_fee(user, &txid, &owner);
    blocks_leave_and_come_back(user, &blocks);
    old_rows_are_kept_in_a_file(user, &txid);
    assert_eq!(user.json(&["wallet", "verify", "hot"])["is_sound"], true);
}

#[test]
fn a_wallet_follows_pays_and_raises_a_fee_in_a_file() {
    story(&User::new());
}

#[test]
fn a_wallet_follows_pays_and_raises_a_fee_on_a_server() {
    if let Some(database) = TestDatabase::create_or_skip() {
        story(&User::at(database.url()));
    }
}

#[test]
fn a_wallet_that_comes_late_scans_what_the_ledger_has_passed() {
    let user = User::new();
    user.json(&["wallet", "create", "early", "--network", "regtest"]);
    let blocks = import(&user);
    follow(&user, &blocks);
    user.json(&["wallet", "create", "late", "--network", "regtest"]);
    user.json(&["wallet", "descriptor", "add", "late", DESCRIPTOR]);
    user.json(&["wallet", "descriptor", "add", "late", TAPROOT]);
    assert_eq!(text(&user.json(&["wallet", "balance", "late"]), "total"), "0");
    let scanned = user.json(&["wallet", "scan", "late", "--blocks", &blocks]);
    assert_eq!(text(&scanned, "wallet"), "late");
    assert_eq!(text(&user.json(&["wallet", "balance", "late"]), "immature"), IMMATURE);
}
