//! `wallet verify` of one wallet and of all of them.

use serde_json::json;
use utxokeep::wallets::VerifyWallets;
use utxokeep_sql::SqlError;
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_cli::program::{User, text};

fn tamper(user: &User, sql: &str) {
    let wallets = user.wallets();
    let changed = wallets.ledger().database().write(|tx| tx.execute(sql, &[]));
    assert_eq!(changed.map_err(|error: SqlError| error).unwrap(), 1, "{sql}");
}

#[test]
fn all_wallets_are_verified_and_one_that_cannot_be_read_does_not_end_the_others() {
    let user = User::new().with_coins(&[50_000_000]);
    assert_eq!(user.json(&["wallet", "verify", "hot"])["is_sound"], true);
    for (name, network) in [("cold", "regtest"), ("far", "signet")] {
        user.json(&["wallet", "create", name, "--network", network]);
    }
    user.json(&["wallet", "archive", "cold"]);
    let told = user.lines(&["wallet", "verify"]);
    assert_eq!(
        told.lines().take(3).collect::<Vec<_>>(),
        ["hot  sound", "cold  sound", "far  sound"]
    );
    let all = user.json(&["wallet", "verify"]);
    assert_eq!(all["items"][0]["verified"]["is_sound"], true, "{all}");

    tamper(&user, "UPDATE chains SET network = 'nowhere' WHERE network = 'signet'");
    let unreadable = user.run(&["wallet", "verify", "--json"]);
    assert_eq!(unreadable.status.code(), Some(5));
    let answer: serde_json::Value = serde_json::from_slice(&unreadable.stdout).unwrap();
    assert_eq!(answer["items"][1]["verified"]["is_sound"], true, "{answer}");
    assert_eq!(answer["items"][2]["verified"], json!(null), "{answer}");
    assert!(answer["items"][2]["error"]["message"].as_str().unwrap().contains("nowhere"));

    tamper(&user, "UPDATE utxos SET amount = amount + 1");
    let broken = user.run(&["wallet", "verify"]);
    assert_eq!(broken.status.code(), Some(5));
    let told = String::from_utf8(broken.stdout).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "hot  broken rules: 1, shown by wallet verify hot");
    assert_eq!(lines[1], "cold  sound");
    assert!(lines[2].starts_with("far  not checked: "), "{told}");
}

#[test]
fn a_comparison_without_a_chain_database_is_refused() {
    let user = User::new().with_coins(&[50_000_000]);
    let refused = user.run(&["wallet", "verify", "--with-chain"]);
    assert_eq!(refused.status.code(), Some(4), "there is no chain database");
}

#[test]
fn the_archived_document_of_a_pruned_transaction_is_its_own() {
    let user = User::new().with_coins(&[50_000_000]);
    let paid =
        user.json(&["wallet", "txs", "hot"])["items"][0]["tx_hash"].as_str().unwrap().to_owned();
    let wallets = user.wallets();
    let insert = format!(
        "INSERT INTO pruned_transactions (wallet_id, id, txid, document)
         SELECT 1, 1, txid, '{{\"tx_hash\":\"{paid}\"}}' FROM transactions"
    );
    tamper(&user, &insert);
    tamper(&user, "UPDATE wallets SET next_pruned_id = 2");
    assert_eq!(user.json(&["wallet", "verify", "hot"])["is_sound"], true);
    drop(wallets);
    tamper(&user, "UPDATE pruned_transactions SET document = '{\"tx_hash\":\"00\"}'");
    let output = user.run(&["wallet", "verify", "hot"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8(output.stdout).unwrap().contains("and is of it"));
}

#[test]
fn all_wallets_are_verified_page_after_page() {
    let user = User::new();
    let names: Vec<String> = (1..=11).map(|n| format!("w{n}")).collect();
    for name in &names {
        user.json(&["wallet", "create", name, "--network", "regtest"]);
    }
    let first = user.wallets().verify_wallets(&VerifyWallets::default()).unwrap();
    assert_eq!((first.items.len(), first.next_cursor.is_some()), (10, true));
    let all = user.json(&["wallet", "verify"]);
    let listed: Vec<&str> =
        all["items"].as_array().unwrap().iter().map(|each| text(each, "wallet")).collect();
    assert_eq!(listed, names);
}

/// A user of the database that may not make temporary tables cannot find out what the migrations
/// make on this server.
#[test]
fn a_schema_that_could_not_be_compared_is_told() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    let owner = User::at(database.url()).with_coins(&[50_000_000]);
    let told = owner.lines(&["wallet", "verify", "hot"]);
    assert!(told.contains("definitions") && !told.contains("not compared"), "{told}");
    assert!(owner.json(&["wallet", "verify", "hot"])["definitions_compared"].as_u64() > Some(50));

    let name = database.url().rsplit('/').next().unwrap().split('?').next().unwrap();
    let role = format!("limited_{name}");
    let batch = |sql: &str| owner.wallets().ledger().database().write(|tx| tx.execute_batch(sql));
    let grants = format!(
        "REVOKE TEMPORARY ON DATABASE \"{name}\" FROM PUBLIC; CREATE ROLE \"{role}\";
         GRANT ALL ON SCHEMA public TO \"{role}\"; GRANT ALL ON ALL TABLES IN SCHEMA public TO \"{role}\""
    );
    batch(&grants).map_err(|error: SqlError| error).unwrap();
    let separator = if database.url().contains('?') { '&' } else { '?' };
    let limited = User::at(&format!("{}{separator}options=-c%20role%3D{role}", database.url()));
    let told = limited.lines(&["wallet", "verify", "hot"]);
    assert!(told.contains("not compared: the database user may not make temporary"), "{told}");
    assert_eq!(limited.json(&["wallet", "verify", "hot"])["definitions_compared"], 0);
    let told = limited.lines(&["wallet", "verify"]);
    assert_eq!(told.lines().next(), Some("hot  sound; schema not compared"));
    let drop_role = format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\"");
    batch(&drop_role).map_err(|error: SqlError| error).unwrap();
}
