//! `wallet verify` against the UTXO set of the chain database.

use serde_json::Value;
use utxokeep_core::Height;
use utxokeep_sql::{SqlError, Transaction};
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_follow::{
    bitcoin::{LAST, NETWORK, import, wallet_with, write_blocks},
    program::{LedgerHome, NOW, wait_for_tip},
};

const VERIFY: &[&str] = &["wallet", "verify", "hd", "--json"];

/// What `wallet verify --data DIR` answers, and its exit code.
fn verified(place: &LedgerHome) -> (Option<i32>, Value) {
    let output = place.command(VERIFY).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

fn tamper(place: &LedgerHome, sql: &str) {
    let changed = place.ledger().database().write(|tx: &mut Transaction<'_>| tx.execute(sql, &[]));
    assert_eq!(changed.map_err(|error: SqlError| error).unwrap(), 1, "{sql}");
}

fn broken(answer: &Value) -> Vec<&str> {
    let violations = answer["violations"].as_array().unwrap();
    violations.iter().map(|found| found["rule"].as_str().unwrap()).collect()
}

fn coins_are_compared_with_the_chain(place: &LedgerHome) {
    let blocks = place.path("blocks");
    write_blocks(&blocks, "blk00000.dat", |_| true);
    place.configure(Some(&blocks), "");
    import(place);
    let ledger = place.ledger();
    wallet_with(&ledger, "hd", 1_000);
    place.run(&["wallet", "follow", "--until-tip"]);
    let (code, sound) = verified(place);
    assert_eq!((code, &sound["is_sound"]), (Some(0), &Value::from(true)), "{sound:#}");
    assert_eq!(sound["chain"]["tip"]["height"], LAST);
    assert!(sound["chain"]["outputs"].as_u64() > Some(100), "{sound:#}");
    assert_eq!(sound["transactions"], sound["transactions_decoded"]);

    // A ledger that is behind is compared at its own block.
    let tip = ledger.rollback_from(NETWORK, Height::new(LAST - 5), NOW).unwrap().unwrap();
    let (code, behind) = verified(place);
    assert_eq!(code, Some(0), "{behind:#}");
    assert_eq!(behind["chain"]["tip"]["height"], tip.0.get());
    // One that is ahead, or on another branch, is not.
    place.run(&["chain", "rollback", "200"]);
    let refused = place.command(VERIFY).output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("the chain database ends lower: let it follow its node"), "{told}");
    import(place);

    // Served, over REST; following brings the ledger to the tip again.
    let serving = place.serve();
    wait_for_tip(&ledger, NETWORK, (LAST, crate::wallet_follow::bitcoin::hash_at(LAST)));
    let answer = serving.get("/api/v1/wallets/hd/verify?with_chain=true");
    assert!(answer.contains("\"is_sound\":true") && answer.contains("\"scripts\":"), "{answer}");
    serving.wait_for_metric("utxokeep_wallet_rows{table=\"utxos\"}", |rows| rows > 100.0);
    serving.wait_for_metric("utxokeep_wallet_leases_expired", |rows| rows < 0.5);
    serving.wait_for_metric("utxokeep_wallet_cleanup_seconds_count", |passes| passes > 0.5);
    serving.stop();

    // Blocks and places in them are the chain's.
    for (change, back, rule) in [
        (
            "UPDATE blocks SET time_us = time_us + 1000000 WHERE height = 150",
            "UPDATE blocks SET time_us = time_us - 1000000 WHERE height = 150",
            "a block has the hash and the time that the chain says",
        ),
        (
            "UPDATE transactions SET block_position = block_position + 77
                WHERE id = (SELECT MAX(tx_id) FROM utxos
                    WHERE parent_class = 4 AND spent_by_tx_id IS NULL)",
            "UPDATE transactions SET block_position = block_position - 77
                WHERE id = (SELECT MAX(tx_id) FROM utxos
                    WHERE parent_class = 4 AND spent_by_tx_id IS NULL)",
            "a transaction is at the place in its block that the chain says",
        ),
        (
            "UPDATE transactions SET block_position = -1 - block_position
                WHERE id = (SELECT MAX(tx_id) FROM utxos
                    WHERE parent_class = 4 AND spent_by_tx_id IS NULL)",
            "UPDATE transactions SET block_position = -1 - block_position
                WHERE id = (SELECT MAX(tx_id) FROM utxos
                    WHERE parent_class = 4 AND spent_by_tx_id IS NULL)",
            "a transaction that a block brought has a position in it",
        ),
        (
            "UPDATE recent_blocks SET work = hash WHERE height = 150",
            "UPDATE recent_blocks SET work = (SELECT r.work FROM recent_blocks r
                WHERE r.height = 151) WHERE height = 150",
            "a block has the work that the chain says",
        ),
    ] {
        tamper(place, change);
        let (code, answer) = verified(place);
        assert_eq!(code, Some(5), "{answer:#}");
        assert!(broken(&answer).contains(&rule), "{rule}: {answer:#}");
        tamper(place, back);
        assert_eq!(verified(place).0, Some(0));
    }

    // Both directions, and what both have.
    tamper(
        place,
        "DELETE FROM utxos WHERE id = (SELECT MAX(id) FROM utxos
            WHERE parent_class = 4 AND spent_by_tx_id IS NULL)",
    );
    tamper(
        place,
        "UPDATE utxos SET spent_by_tx_id = NULL, spent_input_index = NULL
            WHERE id = (SELECT MIN(id) FROM utxos WHERE spent_by_tx_id IS NOT NULL)",
    );
    tamper(
        place,
        "UPDATE utxos SET amount = amount + 1 WHERE id = (SELECT MIN(id) FROM utxos
            WHERE parent_class = 4 AND spent_by_tx_id IS NULL
                AND id > (SELECT MIN(spent_by_tx_id) FROM utxos))",
    );
    let (code, answer) = verified(place);
    assert_eq!(code, Some(5));
    let rules = broken(&answer);
    for rule in [
        "the chain has every confirmed coin of the wallet",
        "the ledger has every output that the chain has for its scripts",
        "a coin has the amount that the chain says",
    ] {
        assert!(rules.contains(&rule), "{rule}: {answer:#}");
    }
}

/// Where an answer says that the wallet was compared, and why no further.
fn compared(answer: &Value) -> (Option<u64>, Option<u64>, Option<&str>) {
    let chain = &answer["chain"];
    let reason = chain["unseen_reason"].as_str();
    (chain["tip"]["height"].as_u64(), chain["unseen_from_height"].as_u64(), reason)
}

fn only_what_a_wallet_has_looked_at_is_compared(place: &LedgerHome) {
    let blocks = place.path("blocks");
    write_blocks(&blocks, "blk00000.dat", |_| true);
    place.configure(Some(&blocks), "");
    import(place);
    let ledger = place.ledger();
    let wallet = wallet_with(&ledger, "hd", 1_000);
    wallet_with(&ledger, "other", 1_000);
    place.run(&["wallet", "follow", "--until-tip"]);
    // It is archived at 250, and the others go on.
    ledger.rollback_from(NETWORK, Height::new(251), NOW).unwrap();
    place.run(&["wallet", "archive", "hd", "--allow", "coins", "--allow", "unconfirmed"]);
    place.run(&["wallet", "follow", "--until-tip"]);
    let (code, answer) = verified(place);
    assert_eq!(code, Some(0), "{answer:#}");
    assert_eq!(compared(&answer), (Some(250), Some(251), Some("archived")), "{answer:#}");
    assert!(answer["chain"]["outputs"].as_u64() > Some(50), "{answer:#}");
    // Restored, it waits for its rescan.
    place.run(&["wallet", "restore", "hd"]);
    let (code, answer) = verified(place);
    assert_eq!(code, Some(0), "{answer:#}");
    assert_eq!(compared(&answer), (Some(250), Some(251), Some("rescan")), "{answer:#}");
    let told = place.command(&["wallet", "verify", "hd"]).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("blocks from 251 on: a rescan is pending"), "{told}");
    // What is due is looked at all the same.
    tamper(
        place,
        &format!(
            "DELETE FROM utxos WHERE wallet_id = {0} AND id = (SELECT MIN(id) FROM utxos
                WHERE wallet_id = {0} AND parent_class = 4 AND spent_by_tx_id IS NULL)",
            wallet.get()
        ),
    );
    let (code, answer) = verified(place);
    assert_eq!(code, Some(5), "{answer:#}");
    let missing = "the ledger has every output that the chain has for its scripts";
    assert!(broken(&answer).contains(&missing), "{answer:#}");
    let all = place.command(&["wallet", "verify", "--json"]).output().unwrap();
    assert_eq!(all.status.code(), Some(5));
    let all: Value = serde_json::from_slice(&all.stdout).unwrap();
    assert_eq!(all["items"][1]["verified"]["chain"]["tip"]["height"], LAST, "{all:#}");
    assert_eq!(all["items"][1]["verified"]["is_sound"], true, "{all:#}");
}

#[test]
fn only_what_a_wallet_has_looked_at_is_compared_on_sqlite() {
    only_what_a_wallet_has_looked_at_is_compared(&LedgerHome::sqlite());
}

#[test]
fn only_what_a_wallet_has_looked_at_is_compared_on_postgres() {
    if let Some(database) = TestDatabase::create_or_skip() {
        only_what_a_wallet_has_looked_at_is_compared(&LedgerHome::with_ledger(database.url()));
    }
}

#[test]
fn coins_are_compared_with_the_chain_on_sqlite() {
    coins_are_compared_with_the_chain(&LedgerHome::sqlite());
}

#[test]
fn coins_are_compared_with_the_chain_on_postgres() {
    if let Some(database) = TestDatabase::create_or_skip() {
        coins_are_compared_with_the_chain(&LedgerHome::with_ledger(database.url()));
    }
}
