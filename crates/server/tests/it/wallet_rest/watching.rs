//! What a wallet watches over REST: options of a known descriptor, edges, freezing, archives, and what
//! was pruned.

use serde_json::{Value, json};

use crate::wallet_rest::client::{Api, FIRST, payment, txid};

#[test]
fn descriptors_take_more_and_say_where_to_scan() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    let descriptors = format!("{wallet}/descriptors");
    let known = api.get(&descriptors).good()["items"][0].clone();
    let text = known["descriptor"].clone();
    let add = |options: Value| {
        let mut body = json!({ "descriptor": text });
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        api.post(&descriptors, &body)
    };
    add(json!({ "lookahead": 24 })).bad(409, "descriptor_differs");
    add(json!({ "keychain": 1 })).bad(409, "descriptor_differs");
    add(json!({ "next_index": 0 })).bad(409, "descriptor_differs");
    add(json!({ "lookahead": 0 })).bad(400, "bad_request");
    // Nobody else writes while scripts are derived.
    let far = add(json!({ "next_index": 89_000, "lookahead": 10_000 })).bad(400, "bad_request");
    assert!(far["message"].as_str().unwrap().contains("in steps"), "{far}");
    assert_eq!(api.get(&descriptors).good()["items"][0], known);
    api.apply(FIRST, &[payment(1, &script, &[10_000])]).good();
    let wider = add(json!({ "lookahead": 1_500 })).good();
    assert_eq!(
        (&wider["items"][0]["lookahead"], &wider["scan_from_height"]),
        (&json!(1_500), &json!(FIRST))
    );
    assert_eq!(api.get(&wallet).good()["descriptors_near_edge"], json!([]));

    let coin = format!("{wallet}/utxos/{}:0", txid(1));
    assert_eq!(api.post_bare(&format!("{coin}/freeze")).good()["is_spendable"], false);
    assert_eq!(api.get(&coin).good()["is_spendable"], false);
    assert_eq!(api.post_bare(&format!("{coin}/unfreeze")).good()["is_spendable"], true);
    api.post_bare(&format!("{wallet}/utxos/{}:0/freeze", txid(9))).bad(404, "unknown_output");
}

#[test]
fn wallets_and_keychains_are_archived_and_restored() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    api.apply(FIRST, &[payment(1, &script, &[10_000])]).good();
    let archive = format!("{wallet}/archive");
    api.post(&archive, &json!({})).bad(409, "cannot_archive");
    api.post(&archive, &json!({ "allow": ["all"] })).bad(400, "bad_request");
    let keychain = format!("{wallet}/descriptors/2");
    assert_eq!(api.post(&format!("{keychain}/archive"), &json!({})).status, 200);
    api.post_bare(&format!("{keychain}/next-address")).bad(409, "descriptor_archived");
    let descriptors = format!("{wallet}/descriptors");
    assert_eq!(api.get(&descriptors).good()["items"].as_array().unwrap().len(), 1);
    let all = api.get(&format!("{descriptors}?archived=true")).good();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let restored = api.post_bare(&format!("{keychain}/restore")).good();
    assert_eq!(restored, json!({ "scan_from_height": null }));

    let keyed = json!({ "value": "1000", "fee_rate": 1, "lease": {}, "idempotency_key": "k1" });
    let first = api.post(&format!("{wallet}/selections"), &keyed).good();
    assert_eq!(api.post(&archive, &json!({ "allow": ["coins", "leases"] })).status, 200);
    // What happened before has happened.
    assert_eq!(api.post(&format!("{wallet}/selections"), &keyed).good(), first);
    assert_eq!(api.get("/api/v1/wallets").good()["items"], json!([]));
    let all = api.get("/api/v1/wallets?archived=true").good();
    assert!(all["items"][0]["archived_at_us"].is_i64(), "{all}");
    let pay = json!({ "value": "1000", "fee_rate": 1, "lease": {} });
    api.post(&format!("{wallet}/selections"), &pay).bad(409, "wallet_archived");
    api.apply(FIRST + 1, &[payment(2, &script, &[20_000])]).good();
    let balance = api.get(&format!("{wallet}/balance")).good();
    assert_eq!(balance["total"], "10000");
    assert_eq!((&balance["archived_height"], &balance["tip"]), (&json!(FIRST), &Value::Null));
    let restored = api.post_bare(&format!("{wallet}/restore")).good();
    assert_eq!(restored, json!({ "scan_from_height": FIRST + 1 }));

    // Until the block that passed meanwhile was looked at, nothing is paid.
    let coin = format!("utxos/{}:0", txid(1));
    let transaction = format!("transactions/{}", txid(1));
    for path in
        ["", "/balance", "/utxos", &format!("/{coin}"), &format!("/{transaction}"), "/leases"]
    {
        let answer = api.get(&format!("{wallet}{path}")).good();
        assert_eq!(answer["set_aside"]["height"], FIRST + 1, "{path}: {answer}");
        assert_eq!(answer["set_aside"]["hash"], Value::Null);
    }
    let health = api.get("/health").text;
    assert!(health.contains("w since block 102: it was restored"), "{health}");
    let refused = api.post(&format!("{wallet}/selections"), &pay);
    assert!(refused.text.contains("blocks from 102 on"), "{}", refused.text);
    refused.bad(409, "wallet_set_aside");
    // Clients bring the blocks here: the same one again is the way on.
    let again = api.apply(FIRST + 1, &[payment(2, &script, &[20_000])]).good();
    assert_eq!((&again["is_already_applied"], &again["recorded"]), (&json!(true), &json!(1)));
    let balance = api.get(&format!("{wallet}/balance")).good();
    assert_eq!((&balance["total"], &balance["set_aside"]), (&json!("30000"), &Value::Null));
    api.post(&format!("{wallet}/selections"), &pay).good();
    let again = api.apply(FIRST + 1, &[]).good();
    assert_eq!(again["is_already_applied"], true, "it is the tip");
}

#[test]
fn a_record_says_what_it_did_and_whose_it_is() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    let transactions = format!("{wallet}/transactions");
    let record =
        |parts: Value| api.post(&transactions, &json!({ "parts": parts, "seen": "mempool" }));
    let foreign = format!("0014{}", "5a".repeat(20));
    record(payment(1, &foreign, &[7_000])).bad(409, "not_ours");
    api.get(&format!("{transactions}/{}", txid(1))).bad(404, "unknown_transaction");
    // One output is watched, later the other one too.
    let mut both = payment(2, &script, &[5_000]);
    both["outputs"].as_array_mut().unwrap().push(json!({ "address": foreign, "amount": "6000" }));
    assert_eq!(record(both.clone()).good()["change"], "inserted");
    assert_eq!(record(both.clone()).good()["change"], "unchanged");
    let watch = json!({ "addresses": [{ "address": foreign }] });
    api.post(&format!("{wallet}/addresses"), &watch).good();
    assert_eq!(record(both.clone()).good()["change"], "updated", "it credits");
    assert_eq!(record(both).good()["change"], "unchanged");
    assert_eq!(api.get(&format!("{wallet}/balance")).good()["total"], "11000");
}

#[test]
fn a_birthday_says_where_scans_begin() {
    let api = Api::new();
    let new = json!({ "name": "late", "network": "regtest", "birthday_height": FIRST + 1 });
    assert_eq!(api.post("/api/v1/wallets", &new).status, 201);
    assert_eq!(api.get("/api/v1/wallets/late").good()["birthday_height"], FIRST + 1);
    for height in FIRST..FIRST + 3 {
        api.apply(height, &[]).good();
    }
    let watch = json!({ "addresses": [{ "address": format!("0014{}", "5a".repeat(20)) }] });
    let watched = api.post("/api/v1/wallets/late/addresses", &watch).good();
    assert_eq!(watched["scan_from_height"], FIRST + 1);
    let asked = api.post("/api/v1/wallets/late/rescan", &json!({})).good();
    assert_eq!(asked["from_height"], FIRST + 1);
    let unborn = json!({ "name": "unborn", "network": "regtest", "birthday_height": FIRST + 3 });
    api.post("/api/v1/wallets", &unborn).bad(409, "birthday_above_tip");
    assert_eq!(api.get("/api/v1/wallets/unborn").status, 404);
    // One whose blocks were not there yet when it was created.
    let early = json!({ "name": "early", "network": "testnet4", "birthday_height": 5 });
    assert_eq!(api.post("/api/v1/wallets", &early).status, 201);
    api.post("/api/v1/wallets/early/rescan", &json!({})).bad(409, "unknown_block");
}

#[test]
fn what_was_pruned_stays_until_it_is_acknowledged() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    for number in 1..=3 {
        let seen = json!({ "parts": payment(number, &script, &[1_000]), "seen": "mempool" });
        api.post(&format!("{wallet}/transactions"), &seen).good();
        api.post_bare(&format!("{wallet}/transactions/{}/abandon", txid(number))).good();
    }
    let prune = |more: Value| {
        let mut body = json!({ "dead_older_than_secs": 0 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.post(&format!("{wallet}/prune"), &body).good()
    };
    let told = prune(json!({ "is_dry_run": true }));
    assert_eq!((told["transactions"].as_array().unwrap().len(), &told["waiting"]), (3, &json!(0)));
    let gone = prune(json!({ "txs_max": 2 }));
    assert_eq!(gone["waiting"], 2);
    assert_eq!(prune(json!({ "discard": true }))["waiting"], 2, "the third is nowhere");
    let first = api.get(&format!("{wallet}/pruned?page_size=1")).good();
    assert_eq!(first["items"][0]["transaction"], gone["transactions"][0]);
    let next = format!("{wallet}/pruned?cursor={}", first["next_cursor"].as_str().unwrap());
    let second = api.get(&next).good();
    assert_eq!(second["items"][0]["transaction"], gone["transactions"][1]);
    let acknowledge = format!("{wallet}/pruned/acknowledge");
    let read = json!({ "up_to": first["items"][0]["id"] });
    assert_eq!(api.post(&acknowledge, &read).good(), json!({ "transactions": 1, "waiting": 1 }));
    assert_eq!(api.post(&acknowledge, &read).good(), json!({ "transactions": 0, "waiting": 1 }));
    assert_eq!(api.get(&format!("{wallet}/pruned")).good()["items"], second["items"]);
    let deep = json!({ "confirmed_up_to": 5 });
    api.post(&format!("{wallet}/prune"), &deep).bad(409, "prune_too_shallow");
}

/// Blocks come from a client here, so that the client brings those of the rescan too.
#[test]
fn blocks_that_a_wallet_was_pruned_from_are_taken_back_only_on_purpose() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    let funding = payment(1, &script, &[10_000]);
    let stranger = format!("0014{}", "77".repeat(20));
    let mut spend = payment(2, &stranger, &[9_000]);
    spend["inputs"] = json!([format!("{}:0", txid(1))]);
    let last = FIRST + 1 + 288;
    for height in FIRST..=last {
        let txs = match height {
            FIRST => vec![funding.clone()],
            _ if height == FIRST + 1 => vec![spend.clone()],
            _ => Vec::new(),
        };
        api.apply(height, &txs).good();
    }
    let prune = json!({ "confirmed_up_to": FIRST + 1 });
    let gone = api.post(&format!("{wallet}/prune"), &prune).good();
    assert_eq!(gone["waiting"], 2);
    let rollback = "/api/v1/ledger/bitcoin/regtest/rollback";
    let below = |allow: Value| json!({ "from_height": FIRST + 1, "allow": allow });
    api.post(rollback, &json!({ "from_height": FIRST + 1 })).bad(409, "reaches_pruned");
    api.post(rollback, &below(json!(["everything"]))).bad(400, "bad_request");
    assert_eq!(api.get(&wallet).good()["tip"]["height"], last);
    let tip = api.post(rollback, &below(json!(["pruned"]))).good();
    assert_eq!(tip["tip"]["height"], FIRST);
    let aside = api.get(&wallet).good()["set_aside"].clone();
    assert_eq!((&aside["height"], &aside["hash"]), (&json!(FIRST), &Value::Null));
    assert!(aside["reason"].as_str().unwrap().contains("pruned"), "{aside}");
    let pay = json!({ "value": "1000", "fee_rate": 1, "lease": {} });
    api.post(&format!("{wallet}/selections"), &pay).bad(409, "wallet_set_aside");
    assert_eq!(api.get(&format!("{wallet}/balance")).good()["total"], "0");
    api.apply(FIRST, &[funding]).good();
    let balance = api.get(&format!("{wallet}/balance")).good();
    assert_eq!((&balance["total"], &balance["set_aside"]), (&json!("10000"), &Value::Null));
    api.post(&format!("{wallet}/selections"), &pay).good();
}
