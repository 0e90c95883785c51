//! The REST API over a private Cardano chain made by hand.

use std::{fs, num::NonZeroU32};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, header},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt;
use utxokeep::config::RestConfig;
use utxokeep_chains::{
    BlockDecoder,
    cardano::{CardanoFiles, Genesis, address_text},
};
use utxokeep_core::{Filter, IndexKey, Network, hex_encode};
use utxokeep_index::{ChainIndex, ChainWriter, IndexSettings, import_files};
use utxokeep_kv::{OpenMode, RocksOptions};
use utxokeep_server::rest::{RestState, openapi, router};
use utxokeep_testkit::cardano::{Credential, enterprise, stake};

use crate::devnet::{
    COINS, Devnet, HASH, NAME, POLICY, STAKE, alice, alice_alone, contract, genesis, old,
};

const BAD: StatusCode = StatusCode::BAD_REQUEST;

struct Api {
    chain: Devnet,
    router: Router,
    runtime: Runtime,
    _dir: TempDir,
}

impl Api {
    fn new() -> Self {
        Self::with(|_| {}, &RestConfig::default(), 0)
    }

    /// The chain from block `from` on, in an index with other settings.
    fn with(change: impl FnOnce(&mut IndexSettings), config: &RestConfig, from: usize) -> Self {
        let (chain, dir) = (Devnet::new(), TempDir::new().unwrap());
        let file = dir.path().join("blocks.cbor");
        fs::write(&file, chain.bytes(from..chain.blocks.len())).unwrap();
        let genesis = Genesis::from_files(None, genesis().as_bytes()).unwrap();
        let files = CardanoFiles::open(&[file], Network::CardanoDevnet, &genesis).unwrap();
        let decoder = BlockDecoder::with_genesis(Network::CardanoDevnet, genesis);
        let mut settings = IndexSettings::with_decoder(decoder);
        change(&mut settings);
        let options = RocksOptions::within(32 << 20);
        let index =
            ChainIndex::open_dir(&dir.path().join("data"), settings, options, OpenMode::Create)
                .unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        drop(import_files(writer, &files, true, &mut |_| true).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { chain, router: router(RestState::new(index, config)), runtime, _dir: dir }
    }

    fn get(&self, path: &str) -> (StatusCode, HeaderMap, Value) {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let bytes = to_bytes(body, usize::MAX).await.unwrap();
            (parts.status, parts.headers, serde_json::from_slice(&bytes).unwrap())
        })
    }

    fn good(&self, path: &str) -> Value {
        let (status, _, json) = self.get(path);
        assert_eq!(status, StatusCode::OK, "{path}: {json}");
        json
    }

    fn bad(&self, path: &str, status: StatusCode, code: &str) -> String {
        let (found, _, json) = self.get(path);
        assert_eq!((found, &json["error"]["code"]), (status, &code.into()), "{path}: {json}");
        json["error"]["message"].as_str().unwrap().to_owned()
    }
}

fn rows(answer: &Value) -> Vec<Value> {
    answer["items"].as_array().unwrap().clone()
}

#[test]
fn hashes_are_not_reversed_and_tag_the_answers() {
    let api = Api::new();
    let tip = api.chain.tip_hash();
    let (_, headers, block) = api.get("/api/v1/chain/tip");
    assert_eq!(block["hash"], tip);
    assert_eq!(headers[header::ETAG], format!("\"{tip}\""));
    assert_eq!((&block["epoch"], &block["era"]), (&1.into(), &"conway".into()));
    assert_eq!(block["previous_hash"], hex_encode(&api.chain.blocks[4].hash));
    let first =
        api.good(&format!("/api/v1/chain/blocks/{}", block["previous_hash"].as_str().unwrap()));
    assert_eq!(first["height"], 4);
    assert_eq!(api.good("/api/v1/chain/blocks/0")["era"], "babbage");

    let status = api.good("/api/v1/status");
    assert_eq!((&status["chain"], &status["network"]), (&"cardano".into(), &"devnet".into()));
    assert_eq!((&status["slot"], &status["epoch"]), (&5.into(), &1.into()));
    assert_eq!((&status["missing_inputs"], &status["filter_entries"]), (&0.into(), &0.into()));
    assert_eq!(status["indexes"], serde_json::json!(["address_hash", "payment_credential"]));
    assert!(status.get("started_mid_chain_at").is_none());
}

#[test]
fn addresses_and_credentials_in_every_form_find_their_outputs() {
    let api = Api::new();
    let list = |owner: &str| rows(&api.good(&format!("/api/v1/addresses/{owner}/utxos")));
    let by_alice = list(&address_text(&alice()));
    assert_eq!(by_alice.len(), 2 * COINS);
    assert_eq!(list(&hex_encode(&alice())), by_alice);
    let old = format!("/api/v1/addresses/{}/utxos?at=0", address_text(&old()));
    assert_eq!(rows(&api.good(&old)).len(), 1);

    let bare = hex_encode(&HASH);
    let of = |text: &str| rows(&api.good(&format!("/api/v1/credentials/{text}")));
    let by_key = of(&format!("{bare}/utxos?kind=key"));
    assert_eq!(by_key.len(), 2 * COINS + 2);
    assert_eq!(of(&format!("key:{bare}/utxos")), by_key);
    assert_eq!(list(&format!("key:{bare}")), by_key);
    let addresses = [address_text(&alice()), address_text(&alice_alone())];
    assert!(by_key.iter().all(|row| addresses.iter().any(|known| row["owner_addr"] == **known)));
    let by_script = of(&format!("{bare}/utxos?kind=script"));
    assert_eq!(by_script, list(&address_text(&contract())));
    assert_eq!(by_script.len(), 2, "a key with the same hash is another credential");

    let balance = api.good(&format!("/api/v1/credentials/{bare}/balance?kind=key"));
    assert_eq!(balance["utxo_count"], 2 * COINS + 2);
    assert_eq!(balance["amounts"][0]["unit"], "lovelace");
    assert_eq!(balance["amounts"][0]["quantity"], balance["lovelace_amount"]);
    let units = balance["amounts"].as_array().unwrap();
    assert_eq!(units.len(), 4);
    assert_eq!(units[3]["quantity"], u64::MAX.to_string());
}

#[test]
fn pages_of_an_asset_are_full_by_number_and_by_cursor() {
    let api = Api::new();
    let asset = format!("{}{}", hex_encode(&POLICY), hex_encode(NAME));
    let path = format!("/api/v1/addresses/{}/utxos", address_text(&alice()));
    let all = rows(&api.good(&format!("{path}?asset={asset}")));
    assert_eq!(all.len(), COINS);
    assert!(all.iter().all(|row| row["amounts"][1]["unit"] == asset));
    let (mut cursor, mut found) = (String::new(), Vec::new());
    for (page, full) in [(1, 10), (2, 10), (3, 5)] {
        let numbered = api.good(&format!("{path}?asset={asset}&page_size=10&page={page}"));
        assert_eq!(rows(&numbered).len(), full);
        let answer = api.good(&format!("{path}?asset={asset}&page_size=10{cursor}"));
        assert_eq!(rows(&answer), rows(&numbered));
        found.extend(rows(&answer));
        let next = answer["next_cursor"].as_str();
        cursor = next.map_or_else(String::new, |next| format!("&cursor={next}"));
    }
    assert_eq!((found, cursor), (all, String::new()));
    let none = api.good(&format!("{path}?asset={}.", hex_encode(&POLICY)));
    assert_eq!(rows(&none), Vec::<Value>::new());

    let count = |value| NonZeroU32::new(value).unwrap();
    let limits = RestConfig { scan_rows_max: count(5), ..RestConfig::default() };
    let api = Api::with(|_| {}, &limits, 0);
    assert_eq!(rows(&api.good(&format!("{path}?page_size=10"))).len(), 10);
    let absent = "ee".repeat(28);
    let page = api.good(&format!("{path}?page_size=10&asset={absent}"));
    assert_eq!(rows(&page).len(), 0, "a search that has looked at enough says where to go on");
    let next = page["next_cursor"].as_str().unwrap();
    api.good(&format!("{path}?page_size=10&asset={absent}&cursor={next}"));
}

#[test]
fn an_output_has_the_fields_that_the_description_names() {
    let api = Api::new();
    let failed = api.chain.txid(1);
    let returned = api.good(&format!("/api/v1/utxos/{failed}/2"));
    assert_eq!(returned["is_collateral_return"], true);
    assert_eq!((&returned["slot"], &returned["block"]), (&1.into(), &1.into()));
    assert_eq!(returned["block_hash"], hex_encode(&api.chain.blocks[1].hash));

    let document = serde_json::to_value(openapi()).unwrap();
    let described = &document["components"]["schemas"]["Utxo"]["properties"];
    let locked = api.good(&format!("/api/v1/utxos/{}/{}", api.chain.txid(0), 2 * COINS + 2));
    let spent = api.good(&format!("/api/v1/utxos/{}/0", api.chain.txid(0)));
    assert_eq!(spent["spent_tx_hash"], api.chain.txid(2));
    assert_eq!(spent["spent_epoch"], 0);
    for utxo in [returned, locked, spent] {
        for name in utxo.as_object().unwrap().keys().filter(|name| *name != "point") {
            assert!(described[name]["description"].is_string(), "{name}");
        }
    }
}

#[test]
fn mistakes_have_codes() {
    let api = Api::new();
    let zeros = "00".repeat(32);
    let bare = hex_encode(&HASH);
    let mainnet = address_text(&enterprise(1, Credential::Key(HASH)));
    let stake = address_text(&stake(0, Credential::Key(STAKE)));
    let owner = address_text(&alice());
    let gone = StatusCode::NOT_FOUND;
    let off = StatusCode::NOT_IMPLEMENTED;
    let cases = [
        (format!("/api/v1/addresses/{mainnet}/utxos"), BAD, "wrong_network"),
        (format!("/api/v1/addresses/{mainnet}/balance"), BAD, "wrong_network"),
        (format!("/api/v1/addresses/{bare}/utxos"), BAD, "bad_address"),
        ("/api/v1/addresses/hello/balance".to_owned(), BAD, "bad_address"),
        (format!("/api/v1/credentials/{bare}/utxos"), BAD, "bad_address"),
        (format!("/api/v1/credentials/{owner}/utxos"), BAD, "bad_address"),
        (format!("/api/v1/credentials/key:{bare}/utxos?kind=script"), BAD, "bad_address"),
        (format!("/api/v1/credentials/{bare}/balance?kind=lock"), BAD, "bad_parameter"),
        (format!("/api/v1/addresses/{owner}/utxos?asset=gold"), BAD, "bad_asset"),
        (format!("/api/v1/addresses/{stake}/utxos"), off, "stake_credential_index_disabled"),
        (format!("/api/v1/credentials/{stake}/balance"), off, "stake_credential_index_disabled"),
        (format!("/api/v1/scripts/{zeros}/utxos"), gone, "not_on_this_chain"),
        (format!("/api/v1/scripts/{zeros}/balance"), gone, "not_on_this_chain"),
        (format!("/api/v1/utxos/{zeros}/0"), gone, "unknown_output"),
        (format!("/api/v1/chain/blocks/{zeros}"), gone, "unknown_block"),
    ];
    for (path, status, code) in &cases {
        api.bad(path, *status, code);
    }
    let message = api.bad(&cases[0].0, BAD, "wrong_network");
    assert!(message.contains("cardano/devnet"), "{message}");

    let api = Api::with(|settings| settings.payment_index = false, &RestConfig::default(), 0);
    let path = format!("/api/v1/credentials/key:{bare}/utxos");
    api.bad(&path, off, "payment_credential_index_disabled");
    let api = Api::with(|settings| settings.address_index = false, &RestConfig::default(), 0);
    api.bad(&format!("/api/v1/addresses/{owner}/utxos"), off, "address_index_disabled");
}

#[test]
fn stake_credentials_are_answered_where_their_index_is_kept() {
    let api = Api::with(|settings| settings.stake_index = true, &RestConfig::default(), 0);
    let stake = address_text(&stake(0, Credential::Key(STAKE)));
    let alice = rows(&api.good(&format!("/api/v1/addresses/{}/utxos", address_text(&alice()))));
    assert_eq!(rows(&api.good(&format!("/api/v1/addresses/{stake}/utxos"))), alice);
    assert_eq!(rows(&api.good(&format!("/api/v1/credentials/{stake}/utxos"))), alice);
    assert_eq!(alice[0]["owner_stake_addr"], stake);
}

#[test]
fn the_status_of_a_mid_chain_start_says_so() {
    let api = Api::with(|settings| settings.may_start_mid_chain = true, &RestConfig::default(), 1);
    let status = api.good("/api/v1/status");
    assert_eq!(status["started_mid_chain_at"], 1);
    assert_eq!(status["missing_inputs"], 2);
    assert_eq!((&status["height"], &status["utxo_count"]), (&5.into(), &2.into()));
}

/// Every answer that tells amounts, counts or outputs.
fn answers(api: &Api, owner: &str) -> Vec<Value> {
    let paths = [
        format!("/api/v1/addresses/{owner}/utxos"),
        format!("/api/v1/addresses/{owner}/balance"),
        format!("/api/v1/utxos/{}/2", api.chain.txid(1)),
        "/api/v1/chain/tip".to_owned(),
        "/api/v1/chain/blocks/5".to_owned(),
        "/api/v1/status".to_owned(),
    ];
    paths.iter().map(|path| api.good(path)).collect()
}

#[test]
fn a_complete_index_is_not_called_partial() {
    let api = Api::new();
    for answer in answers(&api, &address_text(&contract())) {
        assert!(answer.get("partial").is_none(), "{answer}");
    }
}

#[test]
fn a_filtered_index_refuses_the_owners_it_does_not_keep() {
    let network = Network::CardanoDevnet;
    let kept = [
        IndexKey::address(network, &alice_alone()),
        IndexKey::credentials(network, &contract())[0].unwrap(),
    ];
    let api = Api::with(|settings| settings.filter = Filter::new(kept), &RestConfig::default(), 0);
    for answer in answers(&api, &address_text(&contract())) {
        assert_eq!(answer["partial"], serde_json::json!({ "filter_entries": 2 }), "{answer}");
    }
    let gone = StatusCode::NOT_FOUND;
    let alone = api.good(&format!("/api/v1/addresses/{}/balance", address_text(&alice_alone())));
    assert_eq!(alone["utxo_count"], 2);
    for owner in
        [address_text(&alice()), address_text(&old()), format!("key:{}", hex_encode(&HASH))]
    {
        for what in ["utxos", "balance"] {
            let message = api.bad(&format!("/api/v1/addresses/{owner}/{what}"), gone, "not_kept");
            assert!(message.contains("only outputs of 2 addresses and credentials"), "{message}");
        }
    }
    let message = api.bad(&format!("/api/v1/utxos/{}/0", api.chain.txid(0)), gone, "not_kept");
    assert!(message.contains("may exist") && !message.contains("never existed"), "{message}");
    // Not even a client that has an answer of this block is told that nothing has changed.
    let tip = format!("\"{}\"", api.chain.tip_hash());
    let path = format!("/api/v1/addresses/{}/utxos", address_text(&alice()));
    let request = Request::builder().uri(&path).header(header::IF_NONE_MATCH, tip);
    let request = request.body(Body::empty()).unwrap();
    let response = api.runtime.block_on(api.router.clone().oneshot(request)).unwrap();
    assert_eq!(response.status(), gone);
}

#[test]
fn an_index_that_starts_mid_chain_marks_every_answer_and_denies_no_output() {
    let api = Api::with(|settings| settings.may_start_mid_chain = true, &RestConfig::default(), 1);
    for answer in answers(&api, &address_text(&contract())) {
        assert_eq!(answer["partial"], serde_json::json!({ "started_mid_chain_at": 1 }), "{answer}");
    }
    // Alice's outputs are in the block before the first: the empty list is marked.
    let path = format!("/api/v1/addresses/{}/utxos", address_text(&alice()));
    let list = api.good(&path);
    assert_eq!((rows(&list).len(), &list["partial"]["started_mid_chain_at"]), (0, &1.into()));
    let path = format!("/api/v1/utxos/{}/1", api.chain.txid(0));
    let message = api.bad(&path, StatusCode::NOT_FOUND, "not_kept");
    assert!(message.contains("only outputs created from height 1 on"), "{message}");
}

#[test]
fn an_index_that_starts_mid_chain_does_not_deny_the_blocks_before() {
    let api = Api::with(|settings| settings.may_start_mid_chain = true, &RestConfig::default(), 1);
    let before = hex_encode(&api.chain.blocks[0].hash);
    let nobodys = "00".repeat(32);
    let balance = format!("/api/v1/addresses/{}/balance", address_text(&alice()));
    for block in ["0", &before, &nobodys] {
        for path in [format!("/api/v1/chain/blocks/{block}"), format!("{balance}?at={block}")] {
            let message = api.bad(&path, StatusCode::NOT_FOUND, "not_kept");
            assert!(message.contains("this index starts at height 1"), "{path}: {message}");
            assert!(message.contains("only outputs created from height 1 on"), "{path}: {message}");
        }
    }
    // Of what is to come it knows that it is not there yet.
    api.bad("/api/v1/chain/blocks/6", StatusCode::NOT_FOUND, "unknown_block");
    api.bad(&format!("{balance}?at=6"), StatusCode::BAD_REQUEST, "outside_window");
    let whole = Api::new();
    for block in ["6", &nobodys] {
        let path = format!("/api/v1/chain/blocks/{block}");
        whole.bad(&path, StatusCode::NOT_FOUND, "unknown_block");
    }
}

#[test]
fn a_slot_names_the_newest_block_up_to_it() {
    let api = Api::new();
    let path = format!("/api/v1/addresses/{}/balance", address_text(&alice()));
    for (slot, built) in (0u64..).zip(&api.chain.blocks) {
        let answer = api.good(&format!("{path}?at=slot:{slot}"));
        assert_eq!(answer["point"]["slot"], slot);
        assert_eq!(answer["point"]["hash"], hex_encode(&built.hash));
        let by_hash = api.good(&format!("{path}?at={}", hex_encode(&built.hash)));
        assert_eq!(by_hash, answer);
        assert_eq!(answer["point"]["height"], built.number);
    }
    let message = api.bad(&format!("{path}?at=slot:6"), BAD, "outside_window");
    assert!(message.contains("from slot 0 (height 0) to slot 5 (height 5)"), "{message}");
}
