//! One wallet from its first address to its last audit, on both engines.

use serde_json::{Value, json};
use utxokeep::config::{RestConfig, WalletConfig};
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_rest::client::{
    Api, DESCRIPTOR, ELSEWHERE, FIRST, block, block_hash, payment, texts, txid,
};

const LEDGER: &str = "/api/v1/ledger/bitcoin/regtest";

/// A name that has to be written in percents.
const NAME: &str = "my treasury/2 é";
const WALLET: &str = "/api/v1/wallets/my%20treasury%2F2%20%C3%A9";

#[test]
fn a_wallet_lives_over_http_on_sqlite() {
    tell(&Api::new());
}

#[test]
fn a_wallet_lives_over_http_on_postgres() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    tell(&Api::over(database.url(), &RestConfig::default(), &WalletConfig::default()));
}

fn at(path: &str) -> String {
    format!("{WALLET}/{path}")
}

fn tell(api: &Api) {
    let address = it_watches(api);
    it_is_paid(api, &address);
    it_selects(api);
    let (first, owner) = it_pays(api);
    let second = it_raises_the_fee(api, &first, &owner);
    it_follows_blocks(api, &first, &second);
    its_labels_travel(api, &first);
    it_takes_records(api);
    it_takes_leave(api, &first);
}

fn it_watches(api: &Api) -> String {
    let create = json!({ "name": NAME, "chain": "bitcoin", "network": "regtest" });
    let made = api.post("/api/v1/wallets", &create);
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!((&made.json()["name"], &made.json()["network"]), (&NAME.into(), &"regtest".into()));
    let shown = api.get(WALLET).good();
    assert_eq!((&shown["name"], &shown["tip"]), (&NAME.into(), &Value::Null));
    let listed = api.get("/api/v1/wallets").good();
    assert_eq!((&listed["items"][0], &listed["next_cursor"]), (&made.json(), &Value::Null));

    let add = json!({ "descriptor": DESCRIPTOR, "lookahead": 5 });
    let added = api.post(&at("descriptors"), &add).good();
    assert_eq!(added["items"].as_array().unwrap().len(), 2, "{added}");
    assert_eq!(added["items"][1]["keychain"], 1, "{added}");
    assert_eq!(api.get(&at("descriptors")).good(), added);
    let id = &added["items"][0]["id"];
    let next = |index: u32| {
        let next = api.post_bare(&at(&format!("descriptors/{id}/next-address"))).good();
        assert_eq!(next["index"], index, "{next}");
        next["address"].as_str().unwrap().to_owned()
    };
    let address = next(0);
    assert_ne!(next(1), address);

    let watch = json!({ "addresses": [{ "address": ELSEWHERE, "spend_weight": 272 }] });
    assert_eq!(
        api.post(&at("addresses"), &watch).good()["address_ids"].as_array().unwrap().len(),
        1
    );
    let watched = api.get(&at("addresses")).good();
    assert!(texts(&watched["items"], "script").contains(&ELSEWHERE.to_owned()), "{watched}");
    assert!(texts(&watched["items"], "address").contains(&address), "{watched}");
    address
}

fn it_is_paid(api: &Api, address: &str) {
    assert_eq!(api.get(&format!("{LEDGER}/tip")).good()["tip"], Value::Null);
    let paid = [payment(1, address, &[60_000, 50_000, 40_000])];
    let applied = api.apply(FIRST, &paid).good();
    let tip = json!({ "height": FIRST, "hash": block_hash(FIRST) });
    assert_eq!(applied, json!({ "is_already_applied": false, "recorded": 1, "tip": tip }));
    assert_eq!(api.apply(FIRST, &paid).good()["is_already_applied"], true);
    assert_eq!(api.get(&format!("{LEDGER}/tip")).good()["tip"], tip);

    let balance = api.get(&at("balance")).good();
    for (line, amount) in [("confirmed", "150000"), ("available", "150000"), ("leased", "0")] {
        assert_eq!(balance[line], amount, "{balance}");
    }
    assert_eq!(balance["tip"], tip);
    assert_eq!(api.get(&at("balance?min_confirmations=2")).good()["total"], "0");
    let coins = api.get(&at("utxos")).good();
    let mut amounts = texts(&coins["items"], "amount");
    amounts.sort();
    assert_eq!(amounts, ["40000", "50000", "60000"]);
    let coin = &coins["items"][0];
    let one = api.get(&at(&format!("utxos/{}", coin["outpoint"].as_str().unwrap()))).good();
    assert_eq!(&one, coin);
    assert_eq!((&one["class"], &one["confirmations"]), (&"confirmed".into(), &1.into()));
}

fn it_selects(api: &Api) {
    let mut request = json!({ "value": "45000", "fee_rate": "1.5", "seed": 7 });
    let chosen = api.post(&at("selections"), &request).good();
    assert_eq!(chosen["leased"], Value::Null);
    assert_eq!(api.get(&at("leases")).good()["items"], json!([]));

    request["lease"] = json!({ "seconds": 60 });
    let chosen = api.post(&at("selections"), &request).good();
    let outpoints = texts(&chosen["coins"], "outpoint");
    let owner = chosen["leased"]["owner"].as_str().unwrap();
    let leases = api.get(&at("leases")).good();
    assert_eq!(texts(&leases["items"], "outpoint"), outpoints);
    assert_eq!(api.get(&at("balance")).good()["leased"], chosen["input_total"]);
    let free = api.get(&at("utxos?only_free=true")).good();
    assert_eq!(free["items"].as_array().unwrap().len(), 3 - outpoints.len());

    let release = at(&format!("leases?owner={owner}&outpoint={}", outpoints[0]));
    assert_eq!(api.delete(&release).good()["leases"], 1);
    let again = json!({ "outpoints": [outpoints[0]], "lease": { "owner": owner } });
    assert_eq!(api.post(&at("leases"), &again).good()["owner"], owner);
    let all = api.delete(&at(&format!("leases?owner={owner}"))).good();
    assert_eq!(all["leases"], outpoints.len());
    assert_eq!(api.get(&at("balance")).good()["leased"], "0");
}

/// Answers the transaction, and who leases its inputs.
/// The same request again, by header or by body, is answered with the same bytes.
fn it_pays_once(api: &Api, request: &Value, first: &str) {
    let key = "Idempotency-Key: order-7\r\n";
    let leases = api.get(&at("leases")).good();
    let mut with_key = request.clone();
    with_key["idempotency_key"] = "order-7".into();
    assert_eq!(api.post_with(&at("psbts"), request, key).text, first);
    assert_eq!(api.post(&at("psbts"), &with_key).text, first);
    assert_eq!(api.post_with(&at("psbts"), &with_key, key).text, first);
    let mut other = request.clone();
    other["payment"]["fee_rate"] = 3.into();
    api.post_with(&at("psbts"), &other, key).bad(409, "idempotency_key_reused");
    let another = "Idempotency-Key: order-8\r\n";
    api.post_with(&at("psbts"), &with_key, another).bad(400, "bad_request");
    let twice = format!("{key}{another}");
    assert_eq!(api.post_with(&at("psbts"), request, &twice).status, 400);
    let mut inner = request.clone();
    inner["payment"]["idempotency_key"] = "order-9".into();
    api.post(&at("psbts"), &inner).bad(400, "bad_request");
    assert_eq!(api.get(&at("leases")).good(), leases);
    // A route that would ignore the key refuses it, and carries nothing out.
    let wallet = json!({ "name": "keyed", "network": "regtest" });
    api.post_with("/api/v1/wallets", &wallet, key).bad(400, "bad_request");
    api.get("/api/v1/wallets/keyed").bad(404, "unknown_wallet");
    api.post_with(&at("leases/clean"), &json!({}), key).bad(400, "bad_request");
}

fn it_pays(api: &Api) -> (String, String) {
    let outputs = json!([{ "address": ELSEWHERE.replace("75", "76"), "amount": 70_000 }]);
    let request = json!({ "payment": { "outputs": outputs, "fee_rate": 2 }, "record": true });
    let key = "Idempotency-Key: order-7\r\n";
    let answer = api.post_with(&at("psbts"), &request, key);
    let made = answer.good();
    it_pays_once(api, &request, &answer.text);
    assert!(made["psbt"].as_str().unwrap().starts_with("cHNidP8"), "{made}");
    assert_eq!(
        (&made["is_tx_hash_final"], &made["recorded"]["status"]),
        (&true.into(), &"pending".into())
    );
    assert!(made["change_address"].is_string(), "{made}");
    let txid = made["tx_hash"].as_str().unwrap().to_owned();

    let label = at(&format!("transactions/{txid}/label"));
    assert_eq!(api.put(&label, &json!({ "label": "rent" })).good()["label"], "rent");
    let shown = api.get(&at(&format!("transactions/{txid}"))).good();
    assert_eq!((&shown["label"], &shown["status"]), (&"rent".into(), &"pending".into()));

    let sent = api.post_bare(&at(&format!("transactions/{txid}/publish"))).good();
    assert_eq!((&sent["change"], &sent["status"]), (&"updated".into(), &"published".into()));
    let open = api.get(&at("transactions?unconfirmed=true")).good();
    assert_eq!(texts(&open["items"], "tx_hash"), [txid.as_str()]);
    let owner = made["selection"]["leased"]["owner"].as_str().unwrap().to_owned();
    (txid, owner)
}

/// Answers the replacement.
fn it_raises_the_fee(api: &Api, first: &str, owner: &str) -> String {
    let bump = at(&format!("transactions/{first}/bump"));
    let replacements = at(&format!("transactions/{first}/replacements"));
    let mut request = json!({ "fee_rate": 12, "lease_of": owner, "is_dry_run": true });
    let plan = api.post(&bump, &request).good();
    assert_eq!((&plan["replaces"], &plan["recorded"]), (&first.into(), &Value::Null));
    assert_eq!(api.get(&replacements).good()["items"], json!([]));

    request["is_dry_run"] = false.into();
    let made = api.post(&bump, &request).good();
    assert_eq!(made["fee"], plan["fee"]);
    assert_eq!(made["recorded"]["is_waiting"], true, "{made}");
    let second = made["tx_hash"].as_str().unwrap().to_owned();
    let edges = api.get(&replacements).good();
    assert_eq!(texts(&edges["items"], "replacement"), [second.as_str()]);

    let sent = api.post_bare(&at(&format!("transactions/{second}/publish"))).good();
    assert_eq!(sent["losers"], json!([first]));
    let old = api.get(&at(&format!("transactions/{first}"))).good();
    assert_eq!(
        (&old["status"], &old["invalidated_by"]),
        (&"replaced".into(), &second.as_str().into())
    );
    second
}

fn it_follows_blocks(api: &Api, first: &str, second: &str) {
    let shown = at(&format!("transactions/{second}"));
    let raw = api.get(&shown).good()["raw"].clone();
    assert_eq!(api.apply(FIRST + 1, std::slice::from_ref(&raw)).good()["recorded"], 1);
    assert_eq!(api.get(&shown).good()["height"], FIRST + 1);

    let top = json!({ "block": block(FIRST + 1), "parent": block_hash(FIRST) });
    let off = api.post(&format!("{LEDGER}/disconnect"), &top).good();
    assert_eq!(off["tip"]["height"], FIRST);
    let again = api.get(&shown).good();
    assert_eq!((&again["height"], &again["status"]), (&Value::Null, &"published".into()));

    api.apply(FIRST + 1, std::slice::from_ref(&raw)).good();
    let back = api.post(&format!("{LEDGER}/rollback"), &json!({ "from_height": FIRST + 1 })).good();
    assert_eq!(back["tip"]["hash"], block_hash(FIRST));

    api.apply(FIRST + 1, &[]).good();
    let place = json!({ "block": block(FIRST + 1), "position": 4 });
    let said = api.post(&at(&format!("transactions/{second}/confirm")), &place).good();
    assert_eq!(said["height"], FIRST + 1);
    assert_eq!(api.get(&shown).good()["position"], 4);
    let unconfirm = at(&format!("transactions/{second}/unconfirm"));
    let taken_back = api.post(&unconfirm, &json!({})).good();
    assert_eq!((&taken_back["height"], &taken_back["change"]), (&Value::Null, &"updated".into()));
    let first_place = json!({ "block": block(FIRST + 1), "position": 0 });
    let refused = api.post(&at(&format!("transactions/{second}/confirm")), &first_place);
    refused.bad(409, "impossible_place");
    let old = api.get(&at(&format!("transactions/{first}"))).good();
    assert_eq!(old["status"], "replaced");
}

fn its_labels_travel(api: &Api, first: &str) {
    let exported = api.get(&at("labels"));
    assert_eq!(exported.status, 200);
    assert!(
        exported.headers.contains("content-type: application/jsonl; charset=utf-8"),
        "{exported:?}"
    );
    let line: Value = serde_json::from_str(exported.text.lines().next().unwrap()).unwrap();
    assert_eq!((&line["ref"], &line["label"]), (&first.into(), &"rent".into()));

    let copy = json!({ "name": "copy", "network": "regtest" });
    assert_eq!(api.post("/api/v1/wallets", &copy).status, 201);
    let labels = "/api/v1/wallets/copy/labels";
    let unknown = "{\"type\":\"future\",\"ref\":\"x\",\"label\":\"y\"}\n";
    let lines = format!("{}{unknown}", exported.text);
    let imported = api.send("POST", labels, "application/jsonl", &lines).good();
    let done = json!({ "imported": 1, "ignored": 1, "skipped": 0, "truncated": 0, "notes": [] });
    assert_eq!(imported, done);
    assert_eq!(api.get(labels).text, exported.text);
}

fn it_takes_records(api: &Api) {
    let transactions = at("transactions");
    let incoming =
        |number| json!({ "parts": payment(number, ELSEWHERE, &[9_000]), "seen": "mempool" });
    let recorded = api.post(&transactions, &incoming(10)).good();
    assert_eq!((&recorded["tx_hash"], &recorded["change"]), (&txid(10).into(), &"inserted".into()));
    assert_eq!(api.post(&transactions, &incoming(10)).good()["change"], "unchanged");
    assert_eq!(api.get(&at("balance")).good()["untrusted_unconfirmed"], "9000");
    let given_up = api.post_bare(&at(&format!("transactions/{}/abandon", txid(10)))).good();
    assert_eq!(given_up["tx_hash"], txid(10));
    assert_eq!(api.get(&at("balance")).good()["untrusted_unconfirmed"], "0");

    api.post(&transactions, &incoming(11)).good();
    let one = at(&format!("transactions/{}", txid(11)));
    let gone = api.delete(&one);
    assert_eq!(gone.good()["removed"], txid(11));
    api.get(&one).bad(404, "unknown_transaction");
}

fn it_takes_leave(api: &Api, first: &str) {
    let before = api.get(&at("balance")).good();
    let archive = api.post(&at("prune"), &json!({ "dead_older_than_secs": 0 })).good();
    let pruned = texts(&archive["transactions"], "tx_hash");
    assert!(pruned.contains(&txid(10)), "{archive}");
    assert!(pruned.contains(&first.to_owned()), "{archive}");
    api.get(&at(&format!("transactions/{first}"))).bad(404, "unknown_transaction");
    assert_eq!(api.get(&at("balance")).good(), before);
    let verified = api.get(&at("verify")).good();
    assert_eq!((&verified["is_sound"], &verified["violations"]), (&json!(true), &json!([])));
    assert_eq!(verified["chain"], Value::Null, "{verified}");
    api.get(&at("verify?with_chain=true")).bad(409, "no_chain_database");
    let all = api.get("/api/v1/ledger/verify?page_size=1").good();
    assert_eq!(all["items"][0]["verified"], verified, "{all}");
    let all = api.get("/api/v1/ledger/verify?with_chain=true").good();
    assert_eq!(all["items"][0]["error"]["code"], "no_chain_database", "{all}");
}
