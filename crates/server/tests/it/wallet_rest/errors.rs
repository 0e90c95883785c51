//! Every kind of error, in one shape.

use std::num::NonZeroU32;

use serde_json::{Value, json};
use utxokeep::config::{RestConfig, WalletConfig};
use utxokeep_sql::{Database, Options, SqlError};
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_rest::client::{
    Api, DESCRIPTOR, ELSEWHERE, FIRST, block, block_hash, payment, texts, txid,
};

const WALLETS: &str = "/api/v1/wallets";

#[test]
fn what_cannot_be_right_is_refused_and_changes_nothing() {
    let api = Api::new();
    let (wallet, _) = api.wallet("w");
    let cases = [
        (WALLETS, json!({ "name": "v", "network": "moon" }), "unknown_network"),
        (WALLETS, json!({ "name": "", "network": "regtest" }), "bad_request"),
        (WALLETS, json!({ "name": "v", "network": "regtest", "colour": 1 }), "bad_request"),
        (WALLETS, json!({ "name": 5, "network": "regtest" }), "bad_request"),
        (WALLETS, json!({ "name": "v" }), "bad_request"),
        (WALLETS, json!([]), "bad_request"),
        ("addresses", json!({ "addresses": [{ "address": "bc1qnothing" }] }), "bad_address"),
        ("descriptors", json!({ "descriptor": "wpkh(nonsense)" }), "cannot_read"),
        ("selections", json!({ "value": "-1", "fee_rate": 1 }), "bad_request"),
        ("selections", json!({ "value": 1, "fee_rate": "fast" }), "bad_request"),
        ("transactions", json!({ "raw": "0102", "seen": "mempool" }), "bad_request"),
        ("leases", json!({ "outpoints": ["here"] }), "bad_request"),
        ("prune", json!({}), "bad_request"),
        // What is not given is left out.
        ("prune", json!({ "dead_older_than_secs": 1, "confirmed_up_to": null }), "bad_request"),
        (WALLETS, json!({ "name": "v", "network": "regtest", "birthday": null }), "bad_request"),
        ("selections", json!({ "value": 1, "fee_rate": 1, "lease": null }), "bad_request"),
    ];
    for (path, body, code) in cases {
        let path = if path == WALLETS { path.to_owned() } else { format!("{wallet}/{path}") };
        api.post(&path, &body).bad(400, code);
    }
    let unknown = api.post(WALLETS, &json!({ "name": "v", "network": "regtest", "colour": 1 }));
    assert!(unknown.text.contains("colour"), "{unknown:?}");
    let odd = json!({ "block": block(1), "transactions": [7] });
    let odd = api.post("/api/v1/ledger/bitcoin/regtest/blocks", &odd).bad(400, "bad_request");
    assert!(odd["message"].as_str().unwrap().contains("hexadecimal"), "{odd}");

    for query in ["page_size=x", "cursor=x", "page=1", "page_size=-1", "page_size=0", "count=1"] {
        let error = api.get(&format!("{WALLETS}?{query}")).json()["error"].clone();
        assert!(
            ["bad_parameter", "bad_request"].contains(&error["code"].as_str().unwrap()),
            "{error}"
        );
    }
    api.get(&format!("{wallet}/utxos/nothing")).bad(400, "bad_request");
    api.get(&format!("{wallet}/balance?min_confirmations=2&max_confirmations=1"))
        .bad(400, "bad_request");
    api.get("/api/v1/ledger/bitcoin/moon/tip").bad(400, "unknown_network");
    assert_eq!(api.get(WALLETS).good()["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_body_of_very_many_values_is_refused_before_they_take_memory() {
    let kib = NonZeroU32::new(16 << 10).unwrap();
    let rest = RestConfig { body_kib_max: kib, ..RestConfig::default() };
    let api = Api::with(&rest, &WalletConfig::default());
    let many = format!("{{\"name\":[{}\"\"]}}", "\"\",".repeat(1 << 20));
    let error = api.send("POST", WALLETS, "application/json", &many).bad(400, "bad_request");
    assert!(error["message"].as_str().unwrap().contains("send fewer at a time"), "{error}");
    // One long text is one value.
    let long = format!("{{\"name\":\"w\",\"network\":\"{}\"}}", ",[{".repeat(1 << 20));
    let error = api.send("POST", WALLETS, "application/json", &long);
    assert_ne!(error.status, 413);
    assert!(!format!("{:?}", error.bad(400, "unknown_network")).contains("send fewer"));
}

#[test]
fn bodies_that_are_not_json_not_text_or_too_long_are_refused() {
    let kib = NonZeroU32::new(1).unwrap();
    let rest = RestConfig { body_kib_max: kib, ..RestConfig::default() };
    let api = Api::with(&rest, &WalletConfig::default());
    let good = "{\"name\":\"w\",\"network\":\"regtest\"}";
    api.send("POST", WALLETS, "application/json", "{\"name\":").bad(400, "bad_json");
    api.send("POST", WALLETS, "application/json", "").bad(400, "bad_json");
    api.send("POST", WALLETS, "application/json", &format!("{good}x")).bad(400, "bad_json");
    api.send("POST", WALLETS, "text/plain", good).bad(415, "unsupported_media_type");
    api.send("POST", WALLETS, "", good).bad(415, "unsupported_media_type");
    let long = format!("{good}{}", " ".repeat(1_024));
    let error = api.send("POST", WALLETS, "application/json", &long).bad(413, "body_too_large");
    assert!(error["message"].as_str().unwrap().contains("1 KiB"), "{error}");
    assert_eq!(api.get(WALLETS).good()["items"], json!([]));

    let charset = "application/json; charset=utf-8";
    assert_eq!(api.send("POST", WALLETS, charset, good).status, 201);
    let labels = format!("{WALLETS}/w/labels");
    let long = " ".repeat(1_025);
    api.send("POST", &labels, "application/jsonl", &long).bad(413, "body_too_large");
    let head = format!(
        "POST {labels} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/jsonl\r\nContent-Length: 1\r\n\r\n"
    );
    let not_text = [head.as_bytes(), &[0xff]].concat();
    let skipped = crate::http::exchange(api.address, &not_text).good();
    assert_eq!((&skipped["skipped"], &skipped["notes"][0]["line"]), (&json!(1), &json!(1)));
}

#[test]
fn what_does_not_exist_or_exists_already_is_named() {
    let api = Api::new();
    let (wallet, _) = api.wallet("w");
    let nowhere = format!("{WALLETS}/none");
    for path in ["", "/addresses", "/balance", "/utxos", "/leases", "/labels", "/verify"] {
        api.get(&format!("{nowhere}{path}")).bad(404, "unknown_wallet");
    }
    let unknown = txid(77);
    api.get(&format!("{wallet}/transactions/{unknown}")).bad(404, "unknown_transaction");
    api.post_bare(&format!("{wallet}/transactions/{unknown}/publish"))
        .bad(404, "unknown_transaction");
    api.get(&format!("{wallet}/utxos/{unknown}:0")).bad(404, "unknown_output");
    api.post_bare(&format!("{wallet}/descriptors/99/next-address")).bad(404, "unknown_descriptor");
    api.post_bare(&format!("{wallet}/descriptors/x/next-address")).bad(400, "bad_parameter");
    api.post(WALLETS, &json!({ "name": "w", "network": "regtest" })).bad(409, "wallet_exists");
    api.get("/api/v1/utxos/00/0").bad(404, "unknown_route");
    let wrong = api.send("PATCH", &wallet, "", "");
    wrong.bad(405, "wrong_method");
    assert!(wrong.headers.contains("allow: get"), "{wrong:?}");
}

#[test]
fn what_the_state_forbids_is_refused_with_the_numbers_that_matter() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    api.apply(FIRST, &[payment(1, &script, &[30_000, 20_000])]).good();
    let coins = texts(&api.get(&format!("{wallet}/utxos")).good()["items"], "outpoint");
    let leases = format!("{wallet}/leases");
    let lease = |owner: &str| json!({ "outpoints": [coins[0]], "lease": { "owner": owner } });
    api.post(&leases, &lease(&"aa".repeat(32))).good();
    api.post(&leases, &lease(&"bb".repeat(32))).bad(409, "already_leased");
    let foreign = format!("{leases}?owner={}&outpoint={}", "bb".repeat(32), coins[0]);
    api.delete(&foreign).bad(409, "not_lease_owner");

    let taken = api.get(&format!("{wallet}/balance")).good()["leased"].clone();
    let free = 50_000 - taken.as_str().unwrap().parse::<u64>().unwrap();
    let select = json!({ "value": 45_000, "fee_rate": 1 });
    let error = api.post(&format!("{wallet}/selections"), &select).bad(409, "insufficient_funds");
    assert_eq!((&error["leased"], &error["available"]), (&taken, &free.to_string().into()));
    assert_eq!((&error["immature"], &error["pending"]), (&"0".into(), &"0".into()));
    assert!(error["needed"].as_str().unwrap().parse::<u64>().unwrap() > 45_000, "{error}");
    let payment = json!({ "outputs": [{ "address": ELSEWHERE, "amount": 45_000 }], "fee_rate": 1 });
    let psbt = api.post(&format!("{wallet}/psbts"), &json!({ "payment": payment }));
    psbt.bad(409, "insufficient_funds");

    for key in ["uneconomic", "excluded", "held_back"] {
        assert_eq!(error[key], "0", "{key}");
    }
    let dust = json!({ "outputs": [{ "address": ELSEWHERE, "amount": 100 }], "fee_rate": 1 });
    let error = api.post(&format!("{wallet}/selections"), &dust).bad(409, "guarded");
    assert_eq!((&error["guard"], &error["output"]), (&"dust".into(), &0.into()));
    assert_eq!((&error["figure"], &error["bound"]), (&"100".into(), &"294".into()));
    let mut allowed = dust.clone();
    allowed["allow"] = json!(["dust"]);
    api.post(&format!("{wallet}/selections"), &allowed).good();
    allowed["allow"] = json!(["dusty"]);
    let error = api.post(&format!("{wallet}/selections"), &allowed).bad(400, "bad_request");
    assert!(error["message"].as_str().unwrap().contains("unspendable_value"), "{error}");
    let psbt = api.post(&format!("{wallet}/psbts"), &json!({ "payment": dust }));
    psbt.bad(409, "guarded");

    api.apply(FIRST + 2, &[]).bad(409, "not_next_block");
    let below = json!({ "block": block(FIRST - 1), "parent": block_hash(FIRST - 2) });
    api.post("/api/v1/ledger/bitcoin/regtest/disconnect", &below).bad(409, "not_tip");
    let other = api.get(&leases).good();
    assert_eq!(other["items"].as_array().unwrap().len(), 1, "nothing else was leased");
}

#[test]
fn a_damaged_ledger_is_an_error_of_the_server() {
    let api = Api::new();
    let (wallet, _) = api.wallet("w");
    let database = Database::open(&api.ledger_url(), &Options::default()).unwrap();
    let broken: Result<(), SqlError> = database.write(|tx| tx.execute_batch("DROP TABLE labels"));
    broken.unwrap();
    let error = api.get(&format!("{wallet}/labels")).bad(500, "database");
    assert!(error["needed"].is_null(), "{error}");
}

#[test]
fn a_database_that_is_away_is_a_reason_to_come_back_and_health_says_so() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    let api = Api::over(database.url(), &RestConfig::default(), &WalletConfig::default());
    let (wallet, _) = api.wallet("w");
    let ledger = |reply: &Value| {
        assert_eq!(reply["dependencies"][0]["name"], "wallet_ledger", "{reply}");
        reply["dependencies"][0]["status"].clone()
    };
    let healthy = api.get("/health");
    assert_eq!((healthy.status, ledger(&healthy.json())), (200, "ok".into()));
    drop(database);
    let away = api.get(&wallet);
    away.bad(503, "database");
    assert!(away.headers.contains("retry-after: 1"), "{away:?}");
    api.post(&format!("{wallet}/descriptors"), &json!({ "descriptor": DESCRIPTOR }))
        .bad(503, "database");
    let ill = api.get("/health");
    assert_eq!((ill.status, ledger(&ill.json())), (503, "fault".into()));
    assert_eq!(ill.json()["status"], "unavailable");
}
