//! The REST API over a chain made by a real node: its answers, its paging, its errors.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::TcpStream,
    num::NonZeroU32,
    path::Path,
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, header},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt;
use utxokeep::{config::RestConfig, json::script_hash};
use utxokeep_chains::{parse_address_or_script, script_to_address};
use utxokeep_core::{BlockHash, Height, hex_decode, hex_encode};
use utxokeep_index::{ChainIndex, ChainWriter, IndexSettings, import_files};
use utxokeep_kv::{OpenMode, RocksKv, RocksOptions};
use utxokeep_server::{
    access::RestAccess,
    doors::Doors,
    rest::{METRICS, RestState, openapi, router, serve},
};
use utxokeep_testkit::{RegtestA, sat};

use crate::alone::is_alone;

/// The node's `[txid, index, amount, height, coinbase]`.
type NodeRow = (String, u32, String, u32, bool);

/// A script with tens of thousands of outputs.
const BUSY: &str = "51";

const BAD: StatusCode = StatusCode::BAD_REQUEST;

fn open(dir: &Path, settings: IndexSettings) -> ChainIndex<RocksKv> {
    ChainIndex::open_dir(dir, settings, RocksOptions::within(64 << 20), OpenMode::Create).unwrap()
}

/// A database in a directory of its own, gone with its last user.
struct Chain {
    index: ChainIndex<RocksKv>,
    _dir: TempDir,
}

impl Chain {
    fn empty(settings: IndexSettings) -> Self {
        let dir = TempDir::new().unwrap();
        Self { index: open(dir.path(), settings), _dir: dir }
    }

    /// The chain of the node.
    fn import() -> (Self, ChainWriter<RocksKv>) {
        let chain = Self::empty(IndexSettings::new(RegtestA::NETWORK));
        let writer = ChainWriter::new(chain.index.clone()).unwrap();
        let files = RegtestA::default().block_files();
        let (writer, _) = import_files(writer, &files, true, &mut |_| true).unwrap();
        (chain, writer)
    }

    /// The chain of the node, shared by the tests that run at the same time.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Chain>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let chain = Arc::new(Self::import().0);
            *shared = Arc::downgrade(&chain);
            chain
        })
    }
}

fn node_scripts() -> BTreeMap<String, Vec<NodeRow>> {
    let answers: BTreeMap<String, Value> = RegtestA::default().json("scantxoutset.json.xz");
    serde_json::from_value(answers["scripts"].clone()).unwrap()
}

fn limits() -> RestConfig {
    let count = |value| NonZeroU32::new(value).unwrap();
    RestConfig { page_rows_max: count(1_000), ..RestConfig::default() }
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn code(&self) -> String {
        let json = self.json();
        assert!(json["error"]["message"].is_string(), "{json}");
        json["error"]["code"].as_str().unwrap().to_owned()
    }

    fn etag(&self) -> &str {
        self.headers[header::ETAG].to_str().unwrap()
    }
}

struct Api {
    router: Router,
    runtime: Runtime,
    _chain: Arc<Chain>,
}

impl Api {
    fn new(chain: Arc<Chain>, config: &RestConfig) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let state = RestState::new(chain.index.clone(), config);
        Self { router: router(state), runtime, _chain: chain }
    }

    fn over_the_chain() -> Self {
        Self::new(Chain::shared(), &limits())
    }

    async fn send(router: Router, request: Request<Body>) -> Reply {
        let response = router.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Reply { status: parts.status, headers: parts.headers, text }
    }

    fn request(&self, method: &str, path: &str, if_none_match: Option<&str>) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(tag) = if_none_match {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        let request = request.body(Body::empty()).unwrap();
        self.runtime.block_on(Self::send(self.router.clone(), request))
    }

    fn get(&self, path: &str) -> Reply {
        self.request("GET", path, None)
    }

    /// The answer, which must be a good one that names its block.
    fn good(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text);
        let json = reply.json();
        let hash = json["point"]["hash"].as_str().unwrap();
        assert_eq!(reply.etag().trim_start_matches("W/"), format!("\"{hash}\""), "{path}");
        assert_eq!(json["point"]["slot"], json["point"]["height"]);
        json
    }

    fn bad(&self, path: &str, status: StatusCode, code: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        assert_eq!(reply.code(), code, "{path}");
        reply.json()["error"].clone()
    }

    /// The whole list, page by page, by number or by cursor.
    fn walk(&self, path: &str, order: &str, count: usize, by_cursor: bool) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut cursor: Option<String> = None;
        for page in 1.. {
            let place = match (&cursor, by_cursor) {
                (Some(cursor), true) => format!("cursor={cursor}"),
                (None, true) => String::new(),
                _ => format!("page={page}"),
            };
            let answer = self.good(&format!("{path}?order={order}&page_size={count}&{place}"));
            let new = answer["items"].as_array().unwrap();
            rows.extend(new.iter().cloned());
            cursor = answer["next_cursor"].as_str().map(str::to_owned);
            assert!(cursor.is_none() || new.len() == count, "a page before the last is full");
            if cursor.is_none() {
                break;
            }
        }
        rows
    }
}

fn place(row: &Value) -> (u64, u64, u64) {
    let number = |name: &str| row[name].as_u64().unwrap();
    (number("slot"), number("tx_index"), number("output_index"))
}

fn as_node_row(row: &Value) -> (String, u64, u64, u64, bool) {
    (
        row["tx_hash"].as_str().unwrap().to_owned(),
        row["output_index"].as_u64().unwrap(),
        row["amount"].as_str().unwrap().parse().unwrap(),
        row["block"].as_u64().unwrap(),
        row["is_coinbase"].as_bool().unwrap(),
    )
}

#[test]
fn tip_blocks_and_status_are_those_of_the_node() {
    let api = Api::over_the_chain();
    let hashes = RegtestA::default().active_chain();
    let tip = api.good("/api/v1/chain/tip");
    assert_eq!(tip["height"], 300);
    assert_eq!(tip["hash"], hashes[300].to_reversed_hex());
    assert_eq!(tip["point"]["hash"], tip["hash"]);
    assert_eq!(tip["utxo_count"], 30_690);
    for height in [0, 1, 12, 299, 300] {
        let by_height = api.good(&format!("/api/v1/chain/blocks/{height}"));
        let hash = hashes[height].to_reversed_hex();
        assert_eq!(by_height["hash"], hash);
        assert_eq!(by_height["point"], tip["point"]);
        assert_eq!(by_height, api.good(&format!("/api/v1/chain/blocks/{hash}")));
    }
    let status = api.good("/api/v1/status");
    assert_eq!((&status["chain"], &status["network"]), (&"bitcoin".into(), &"regtest".into()));
    assert_eq!(status["height"], 300);
    assert_eq!(status["best_hash"], tip["hash"]);
    assert_eq!(status["utxo_count"], 30_690);
    assert_eq!(
        status["total_amount"],
        RegtestA::default().truth_by_hash()[&hashes[300]].total_sat().to_string()
    );
    assert_eq!(status["rollback_floor"], 12);
    assert!(status["tables"].as_array().unwrap().iter().any(|t| t["name"] == "utxo_unspent"));
    assert_eq!(
        api.get("/health").text,
        r#"{"status":"ok","dependencies":[{"name":"chain_index","status":"ok","fault":null}]}"#
    );
    // Probes are answered whatever the server has, without a pruner too.
    assert_eq!(api.get("/health/live").text, r#"{"status":"ok"}"#);
    assert_eq!(
        api.get("/health/ready").text,
        r#"{"status":"ready","dependencies":[{"name":"chain_index","status":"ok","fault":null}]}"#
    );
}

#[test]
fn outputs_of_every_script_are_those_of_the_node() {
    let api = Api::over_the_chain();
    for (script, expected) in node_scripts() {
        let expected: BTreeSet<_> = expected
            .into_iter()
            .map(|(txid, index, amount, height, coinbase)| {
                (txid, u64::from(index), sat(&amount), u64::from(height), coinbase)
            })
            .collect();
        let rows = api.walk(&format!("/api/v1/addresses/{script}/utxos"), "asc", 1_000, true);
        let found: BTreeSet<_> = rows.iter().map(as_node_row).collect();
        assert_eq!(found.len(), rows.len(), "{script}: no row comes twice");
        assert_eq!(found, expected, "{script}");
        assert!(rows.iter().all(|row| row["script_pub_key"] == script.as_str()));

        let balance = api.good(&format!("/api/v1/addresses/{script}/balance"));
        let sum: u64 = expected.iter().map(|row| row.2).sum();
        assert_eq!(balance["amount"], sum.to_string());
        assert_eq!(balance["amounts"][0]["quantity"], balance["amount"]);
        assert_eq!(balance["utxo_count"], expected.len());
    }
}

#[test]
fn an_address_its_script_and_both_forms_of_its_hash_are_the_same() {
    let api = Api::over_the_chain();
    let mut with_address = 0;
    let scripts = node_scripts();
    for (script, _) in scripts.iter().filter(|(_, rows)| !rows.is_empty()).take(100) {
        let bytes = hex_decode(script).unwrap();
        let electrum = script_hash(&bytes);
        let mut reversed = hex_decode(&electrum).unwrap();
        reversed.reverse();
        let plain = hex_encode(&reversed);
        let by_script = api.good(&format!("/api/v1/addresses/{script}/utxos?page_size=5"));
        let balance = api.good(&format!("/api/v1/addresses/{script}/balance"));
        for hash in [&electrum, &plain] {
            assert_eq!(by_script, api.good(&format!("/api/v1/scripts/{hash}/utxos?page_size=5")));
            assert_eq!(balance, api.good(&format!("/api/v1/scripts/{hash}/balance")));
        }
        if let Some(address) = script_to_address(&bytes, RegtestA::NETWORK) {
            with_address += 1;
            assert_eq!(
                by_script,
                api.good(&format!("/api/v1/addresses/{address}/utxos?page_size=5"))
            );
            assert_eq!(by_script["items"][0]["owner_addr"], address);
        }
        assert_eq!(by_script["items"][0]["script_hash"], electrum);
    }
    assert!(with_address > 20, "{with_address}");
    let nobody = api.good(&format!("/api/v1/scripts/{}/balance", "ab".repeat(32)));
    assert_eq!((&nobody["amount"], &nobody["utxo_count"]), (&"0".into(), &0.into()));
}

#[test]
fn pages_and_cursors_give_the_same_list_in_both_orders() {
    let api = Api::over_the_chain();
    let path = format!("/api/v1/addresses/{BUSY}/utxos");
    let ascending = api.walk(&path, "asc", 997, true);
    assert!(ascending.len() > 20_000);
    assert!(ascending.is_sorted_by(|a, b| place(a) < place(b)), "chain order, strictly");
    assert_eq!(ascending, api.walk(&path, "asc", 1_000, false));
    let mut descending = api.walk(&path, "desc", 997, true);
    assert_eq!(descending, api.walk(&path, "desc", 1_000, false));
    descending.reverse();
    assert_eq!(ascending, descending);

    let beyond = api.good(&format!("{path}?page=900&page_size=1000"));
    assert_eq!(beyond["items"].as_array().unwrap().len(), 0);
    assert_eq!(beyond["next_cursor"], Value::Null);
    let default = api.good(&path);
    assert_eq!(default["items"].as_array().unwrap().len(), 100);
}

#[test]
fn spot_checks_of_the_node_hold_and_a_spent_output_names_its_spender() {
    let api = Api::over_the_chain();
    let spots: Vec<Value> = RegtestA::default().json("gettxout_spot.json.xz");
    let hashes: Vec<_> =
        RegtestA::default().active_chain().iter().map(BlockHash::to_reversed_hex).collect();
    let mut spent = 0;
    for spot in &spots {
        let path = format!("/api/v1/utxos/{}/{}", spot["txid"].as_str().unwrap(), spot["vout"]);
        if let Some(live) = spot["gettxout"].as_object() {
            let utxo = api.good(&path);
            assert_eq!(utxo["amount"], sat(live["value"].as_str().unwrap()).to_string());
            assert_eq!(utxo["script_pub_key"], live["spk"]);
            assert_eq!(utxo["is_coinbase"], live["coinbase"]);
            let height = 301 - live["confirmations"].as_u64().unwrap();
            assert_eq!(utxo["block"], height);
            assert_eq!(utxo["block_hash"], hashes[usize::try_from(height).unwrap()]);
            assert_eq!(utxo.get("spent_tx_hash"), None);
        } else if let Some(spender) = spot["spender"].as_str() {
            let reply = api.get(&path);
            let block = spot["spender_block"].as_str().unwrap();
            let height = hashes.iter().position(|hash| hash == block).unwrap();
            if height <= 12 {
                assert_eq!(reply.code(), "unknown_output", "below the window nothing is kept");
                continue;
            }
            let utxo = reply.json();
            assert_eq!(utxo["spent_tx_hash"], spender, "{path}");
            assert_eq!(utxo["spent_at_block_hash"], block);
            assert_eq!(utxo["spent_at_block"], height);
            assert_eq!(utxo["spent_at_slot"], height);
            assert!(utxo["spent_block_time"].as_u64() >= utxo["block_time"].as_u64());
            spent += 1;
            // One block earlier it was still there, unless that same block created it.
            if utxo["block"] != utxo["spent_at_block"] {
                let before = api.good(&format!("{path}?at={}", height - 1));
                assert_eq!(before.get("spent_tx_hash"), None);
                assert_eq!(before["amount"], utxo["amount"]);
            }
        }
    }
    assert!(spent > 50, "{spent}");
}

#[test]
fn answers_at_a_height_are_those_of_a_chain_rolled_back_to_it() {
    let now = Api::over_the_chain();
    let (rolled_back, mut writer) = Chain::import();
    let then = Api::new(Arc::new(rolled_back), &limits());
    let spots: Vec<Value> = RegtestA::default().json("gettxout_spot.json.xz");
    let scripts = node_scripts();
    for height in [300u32, 299, 250, 151, 13, 12] {
        writer.rollback(Height::new(height)).unwrap();
        let mut differs_from_tip = 0;
        for script in scripts.keys() {
            for (route, more) in
                [("utxos", "&page_size=1000"), ("utxos", "&order=desc"), ("balance", "")]
            {
                let path = format!("/api/v1/addresses/{script}/{route}?{}", more.trim_matches('&'));
                let expected = then.good(&path);
                let at = format!("/api/v1/addresses/{script}/{route}?at={height}{more}");
                assert_eq!(expected, now.good(&at), "{at}");
                differs_from_tip += usize::from(now.good(&path) != expected);
            }
        }
        assert_eq!(differs_from_tip > 0, height < 300);
        for spot in spots.iter().take(150) {
            let path = format!("/api/v1/utxos/{}/{}", spot["txid"].as_str().unwrap(), spot["vout"]);
            let expected = then.get(&path);
            let found = now.get(&format!("{path}?at={height}"));
            assert_eq!((found.status, found.json()), (expected.status, expected.json()), "{path}");
        }
    }
}

#[test]
fn a_list_is_made_of_one_block_however_the_chain_grows() {
    let (chain, mut writer) = Chain::import();
    let api = Api::new(Arc::new(chain), &limits());
    let path = format!("/api/v1/addresses/{BUSY}/utxos?page_size=700");
    writer.rollback(Height::new(250)).unwrap();
    let expected = api.walk(&format!("/api/v1/addresses/{BUSY}/utxos"), "asc", 1_000, true);
    assert!(expected.len() > 1_400, "{}", expected.len());
    let first = api.good(&path);
    let (mut rows, mut cursor) =
        (first["items"].as_array().unwrap().clone(), first["next_cursor"].clone());

    let files = RegtestA::default().block_files();
    drop(import_files(writer, &files, true, &mut |_| true).unwrap());
    assert_eq!(api.good(&path)["point"]["height"], 300, "who starts anew stands at the tip");
    while let Some(text) = cursor.as_str() {
        let page = api.good(&format!("{path}&cursor={text}"));
        assert_eq!(page["point"], first["point"], "every page names the block of the first");
        rows.extend(page["items"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(rows, expected);

    let cursor = first["next_cursor"].as_str().unwrap();
    let hash = first["point"]["hash"].as_str().unwrap();
    let agreeing = api.good(&format!("{path}&cursor={cursor}&at={hash}"));
    assert_eq!(agreeing, api.good(&format!("{path}&cursor={cursor}&at=250")));
    let error = api.bad(&format!("{path}&cursor={cursor}&at=249"), BAD, "bad_parameter");
    assert!(error["message"].as_str().unwrap().contains("made at height 250"), "{error}");
}

#[test]
fn a_cursor_of_another_question_is_refused() {
    let api = Api::over_the_chain();
    let list = |owner: &str| format!("/api/v1/addresses/{owner}/utxos?page_size=3");
    let rows = api.good(&list(BUSY));
    let script = rows["items"][0]["script_pub_key"].as_str().unwrap();
    let hash = rows["items"][0]["script_hash"].as_str().unwrap();
    let by_hash = format!("/api/v1/scripts/{hash}/utxos?page_size=3");
    let ascending = rows["next_cursor"].as_str().unwrap();
    let descending = api.good(&format!("{}&order=desc", list(BUSY)))["next_cursor"].clone();
    let descending = descending.as_str().unwrap();

    // The same question, in other words.
    let second = api.good(&format!("{}&cursor={ascending}", list(BUSY)));
    for again in [list(script), by_hash.clone(), format!("{}&order=asc", list(BUSY))] {
        assert_eq!(api.good(&format!("{again}&cursor={ascending}")), second, "{again}");
    }
    for other in [
        format!("{}&cursor={descending}", list(BUSY)),
        format!("{}&order=desc&cursor={ascending}", list(BUSY)),
        format!("{}&cursor={ascending}", list("52")),
        format!("{by_hash}&order=desc&cursor={ascending}"),
    ] {
        let error = api.bad(&other, BAD, "bad_cursor");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("another question"), "{other}: {message}");
        assert!(message.contains("start this list without it"), "{other}: {message}");
    }
}

#[test]
fn a_cursor_whose_block_is_gone_is_a_conflict() {
    let (chain, mut writer) = Chain::import();
    let api = Api::new(Arc::new(chain), &limits());
    let path = format!("/api/v1/addresses/{BUSY}/utxos?page_size=3");
    let cursor = api.good(&path)["next_cursor"].as_str().unwrap().to_owned();
    api.good(&format!("{path}&cursor={cursor}"));
    writer.rollback(Height::new(299)).unwrap();
    let gone = format!("{path}&cursor={cursor}");
    let error = api.bad(&gone, StatusCode::CONFLICT, "block_gone");
    assert!(error["message"].as_str().unwrap().contains("start the list again"), "{error}");
    assert!(error["message"].as_str().unwrap().contains("or the cursor is of another"), "{error}");
    let at = RegtestA::default().active_chain()[300].to_reversed_hex();
    api.bad(&format!("{path}&at={at}"), StatusCode::NOT_FOUND, "unknown_block");
}

#[test]
fn a_block_is_named_by_height_or_hash() {
    let api = Api::over_the_chain();
    let hash = RegtestA::default().active_chain()[200].to_reversed_hex();
    let output = node_scripts()[BUSY][0].clone();
    for path in [
        format!("/api/v1/addresses/{BUSY}/utxos"),
        format!("/api/v1/addresses/{BUSY}/balance"),
        format!("/api/v1/scripts/{}/balance", script_hash(&[0x51])),
        format!("/api/v1/utxos/{}/{}", output.0, output.1),
    ] {
        let by_height = api.get(&format!("{path}?at=200"));
        let by_hash = api.get(&format!("{path}?at={hash}"));
        assert_eq!(
            (by_hash.status, by_hash.json()),
            (by_height.status, by_height.json()),
            "{path}"
        );
        let unknown = format!("{path}?at={}", "ab".repeat(32));
        api.bad(&unknown, StatusCode::NOT_FOUND, "unknown_block");
        let error = api.bad(&format!("{path}?at=slot:200"), BAD, "bad_parameter");
        assert!(error["message"].as_str().unwrap().contains("has no slots"), "{error}");
    }
    let early = RegtestA::default().active_chain()[11].to_reversed_hex();
    let early = format!("/api/v1/addresses/{BUSY}/utxos?at={early}");
    assert_eq!(api.bad(&early, BAD, "outside_window")["floor"], 12);
}

#[test]
fn an_unchanged_answer_is_not_sent_again() {
    let api = Api::over_the_chain();
    let output = node_scripts()[BUSY][0].clone();
    let paths = [
        format!("/api/v1/utxos/{}/{}", output.0, output.1),
        format!("/api/v1/addresses/{BUSY}/utxos?page_size=3"),
        format!("/api/v1/addresses/{BUSY}/balance?at=200"),
        format!("/api/v1/scripts/{}/utxos", script_hash(&[0x51])),
        format!("/api/v1/scripts/{}/balance", script_hash(&[0x51])),
        "/api/v1/chain/tip".to_owned(),
        "/api/v1/chain/blocks/7".to_owned(),
        "/api/v1/status".to_owned(),
    ];
    let hashes = RegtestA::default().active_chain();
    for path in &paths {
        let first = api.get(path);
        assert_eq!(first.status, StatusCode::OK, "{path}");
        let height = if path.contains("at=200") { 200 } else { 300 };
        assert!(first.etag().contains(&hashes[height].to_reversed_hex()), "{path}");
        assert_eq!(first.headers[header::CACHE_CONTROL], "no-cache");
        let again = api.request("GET", path, Some(first.etag()));
        assert_eq!((again.status, again.text.as_str()), (StatusCode::NOT_MODIFIED, ""), "{path}");
        assert_eq!(again.etag(), first.etag());
        let other = api.request("GET", path, Some("\"00\", W/\"11\""));
        assert_eq!((other.status, other.text), (StatusCode::OK, first.text), "{path}");
    }
    let unknown = format!("/api/v1/utxos/{}/0", "00".repeat(32));
    assert_eq!(api.request("GET", &unknown, Some("*")).status, StatusCode::NOT_FOUND);
    let head = api.request("HEAD", "/api/v1/chain/tip", None);
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
}

#[test]
fn every_mistake_has_its_code_and_says_what_to_do() {
    let api = Api::over_the_chain();
    let list = format!("/api/v1/addresses/{BUSY}/utxos");
    let zeros = "00".repeat(32);
    let cases = [
        ("/api/v1/utxos/xyz/0".to_owned(), BAD, "bad_output"),
        (format!("/api/v1/utxos/{zeros}/-1"), BAD, "bad_output"),
        (format!("/api/v1/utxos/{zeros}/4294967296"), BAD, "bad_output"),
        (format!("/api/v1/utxos/{zeros}/0"), StatusCode::NOT_FOUND, "unknown_output"),
        (format!("/api/v1/utxos/{zeros}/0?at=x"), BAD, "bad_parameter"),
        (format!("/api/v1/utxos/{zeros}/0?when=3"), BAD, "bad_parameter"),
        ("/api/v1/addresses/hello/utxos".to_owned(), BAD, "bad_address"),
        ("/api/v1/addresses/%ff/utxos".to_owned(), BAD, "bad_parameter"),
        ("/api/v1/addresses/hello/balance".to_owned(), BAD, "bad_address"),
        ("/api/v1/scripts/abc/utxos".to_owned(), BAD, "bad_script_hash"),
        ("/api/v1/scripts/abc/balance".to_owned(), BAD, "bad_script_hash"),
        ("/api/v1/chain/blocks/tip".to_owned(), BAD, "bad_block"),
        ("/api/v1/chain/blocks/301".to_owned(), StatusCode::NOT_FOUND, "unknown_block"),
        (format!("/api/v1/chain/blocks/{zeros}"), StatusCode::NOT_FOUND, "unknown_block"),
        (format!("{list}?page_size=0"), BAD, "bad_parameter"),
        (format!("{list}?page_size=1001"), BAD, "bad_parameter"),
        (format!("{list}?page=0"), BAD, "bad_parameter"),
        (format!("{list}?order=sideways"), BAD, "bad_parameter"),
        (format!("{list}?cursor=AAAA"), BAD, "bad_cursor"),
        (format!("{list}?cursor="), BAD, "bad_cursor"),
        (format!("{list}?page=2&cursor=AQAAAAAAAAB4AAAAAAAAAAA"), BAD, "bad_parameter"),
        (format!("{list}?at=301"), BAD, "outside_window"),
        (format!("{list}?at=11"), BAD, "outside_window"),
        ("/".to_owned(), StatusCode::NOT_FOUND, "unknown_route"),
        ("/api/v1/utxos".to_owned(), StatusCode::NOT_FOUND, "unknown_route"),
        ("/api/v1/wallets".to_owned(), StatusCode::NOT_FOUND, "unknown_route"),
    ];
    for (path, status, code) in &cases {
        api.bad(path, *status, code);
    }
    let outside = api.bad(&format!("{list}?at=11"), BAD, "outside_window");
    assert_eq!((&outside["floor"], &outside["tip"]), (&12.into(), &300.into()));

    let deep = api.bad(&format!("{list}?page=1002&page_size=1000"), BAD, "bad_parameter");
    assert!(deep["message"].as_str().unwrap().contains("page by cursor"), "{deep}");

    let foreign = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
    let wrong = api.bad(&format!("/api/v1/addresses/{foreign}/balance"), BAD, "wrong_network");
    let message = wrong["message"].as_str().unwrap();
    assert!(
        message.contains("bitcoin/mainnet") && message.contains("bitcoin/regtest"),
        "{message}"
    );

    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let reply = api.request(method, "/api/v1/status", None);
        assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(reply.code(), "wrong_method");
        assert_eq!(reply.headers[header::ALLOW], "GET,HEAD");
    }
}

#[test]
fn a_database_without_blocks_or_without_the_index_says_so() {
    const NOT_NOW: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
    let settings = IndexSettings::new(RegtestA::NETWORK);
    let zeros = "00".repeat(32);
    let utxo = format!("/api/v1/utxos/{zeros}/0");
    let list = format!("/api/v1/addresses/{BUSY}/utxos");

    let empty = Api::new(Arc::new(Chain::empty(settings.clone())), &limits());
    for path in
        [&utxo, &list, &format!("{list}?at=0"), "/api/v1/chain/tip", "/api/v1/chain/blocks/0"]
    {
        empty.bad(path, NOT_NOW, "empty_database");
    }
    let status = empty.get("/api/v1/status");
    assert_eq!(status.status, StatusCode::OK);
    assert_eq!(status.json()["point"], Value::Null);
    assert_eq!(
        empty.get("/health").text,
        r#"{"status":"ok","dependencies":[{"name":"chain_index","status":"ok","fault":null}]}"#
    );

    let no_addresses = settings.clone().with(|settings| settings.address_index = false);
    let off = settings.with(|settings| settings.enabled = false);
    for (settings, utxo_code, list_code) in [
        (no_addresses, "unknown_output", "address_index_disabled"),
        (off, "index_disabled", "index_disabled"),
    ] {
        let chain = Chain::empty(settings);
        let writer = ChainWriter::new(chain.index.clone()).unwrap();
        // A follower gives an empty database the network's first block.
        utxokeep_index::Follower::new(writer).unwrap();
        let api = Api::new(Arc::new(chain), &limits());
        assert_eq!(api.get(&utxo).code(), utxo_code);
        // As long as this database exists: a client that tries again is served no better.
        api.bad(&list, StatusCode::NOT_IMPLEMENTED, list_code);
        api.bad(&list.replace("utxos", "balance"), StatusCode::NOT_IMPLEMENTED, list_code);
        assert_eq!(api.good("/api/v1/chain/tip")["height"], 0);
        api.good("/api/v1/status");
        assert_eq!(api.get("/metrics").status, StatusCode::OK);
    }
}

#[test]
fn requests_over_the_limit_are_told_to_come_back_while_health_answers() {
    let config = RestConfig { concurrent_requests_max: NonZeroU32::MIN, ..limits() };
    let api = Api::new(Chain::shared(), &config);
    let get = |path: &str| {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        api.runtime.spawn(Api::send(api.router.clone(), request))
    };
    let slow = format!("/api/v1/addresses/{BUSY}/balance");
    let tasks: Vec<_> = (0..10).map(|_| get(&slow)).chain([get("/health")]).collect();
    let mut replies: Vec<Reply> =
        tasks.into_iter().map(|task| api.runtime.block_on(task).unwrap()).collect();
    assert_eq!(replies.pop().unwrap().status, StatusCode::OK, "health has no limit");
    assert_eq!(replies[0].status, StatusCode::OK);
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status != StatusCode::OK).collect();
    assert!(!refused.is_empty());
    for reply in refused {
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(reply.code(), "overloaded");
        assert_eq!(reply.headers[header::RETRY_AFTER], "1");
    }
    api.good(&slow);
}

#[test]
fn a_request_that_takes_too_long_is_given_up() {
    let config = RestConfig { request_timeout_ms: NonZeroU32::MIN, ..limits() };
    let api = Api::new(Chain::shared(), &config);
    let slow = format!("/api/v1/addresses/{BUSY}/balance?at=200");
    let reply = (0..200).map(|_| api.get(&slow)).find(|reply| reply.status != StatusCode::OK);
    let reply = reply.expect("a scan of thousands of rows takes more than a millisecond");
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.code(), "timeout");
}

#[test]
fn gauges_are_right_from_the_start_and_after_a_rollback() {
    if !is_alone("rest::gauges_are_right_from_the_start_and_after_a_rollback") {
        return;
    }
    let (chain, mut writer) = Chain::import();
    let api = Api::new(Arc::new(chain), &limits());
    let value = |name: &str| {
        let text = api.get("/metrics").text;
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {text}"));
        line.split(' ').nth(1).unwrap().to_owned()
    };
    let check = |height: &str, txouts: &str| {
        assert_eq!(value("utxokeep_index_height"), height);
        assert_eq!(value("utxokeep_index_unspent"), txouts);
        assert_eq!(value("utxokeep_index_undo_base"), "12");
        assert_eq!(value("utxokeep_index_missing_inputs"), "0");
        assert_eq!(value("utxokeep_index_prune_due_blocks"), "0");
    };
    check("300", "30690");
    assert_eq!(value("utxokeep_index_rollbacks_refused_total"), "0");
    writer.rollback(Height::new(290)).unwrap();
    let status = api.good("/api/v1/status");
    check("290", &status["utxo_count"].to_string());
    assert!(writer.rollback(Height::new(3)).is_err());
    assert_eq!(value("utxokeep_index_rollbacks_refused_total"), "1");
    assert_eq!(value("utxokeep_index_height"), "290");
}

#[test]
fn metrics_name_routes_by_pattern_and_are_all_documented() {
    if !is_alone("rest::metrics_name_routes_by_pattern_and_are_all_documented") {
        return;
    }
    let api = Api::over_the_chain();
    api.get(&format!("/api/v1/addresses/{BUSY}/balance"));
    api.get("/api/v1/no-such-route");
    let reply = api.get("/metrics");
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.headers[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    let line =
        "utxokeep_rest_requests_total{route=\"/api/v1/addresses/{owner}/balance\",status=\"200\"}";
    assert!(reply.text.contains(line), "{}", reply.text);
    assert!(reply.text.contains("route=\"unmatched\",status=\"404\""), "{}", reply.text);
    assert!(!reply.text.contains("no-such-route"));
    assert!(reply.text.contains("utxokeep_rest_request_seconds_bucket{"), "{}", reply.text);
    assert!(reply.text.contains("utxokeep_index_rollback_floor 12"), "{}", reply.text);
    let documented: Vec<_> =
        METRICS.iter().chain(utxokeep_index::METRICS).map(|metric| metric.name).collect();
    for line in reply.text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(documented.contains(&name), "{name} is not documented");
        assert!(reply.text.contains(&format!("# HELP {name} ")), "{name} has no help");
    }
}

#[test]
fn the_description_is_complete_and_every_route_in_it_exists() {
    let api = Api::over_the_chain();
    let served = api.get("/openapi.json");
    assert_eq!(served.status, StatusCode::OK);
    let document = served.json();
    let whole = serde_json::to_value(openapi()).unwrap();
    assert_eq!(document["info"], whole["info"]);
    for part in ["/paths", "/components/schemas"] {
        for (name, said) in document.pointer(part).unwrap().as_object().unwrap() {
            assert_eq!(*said, whole.pointer(part).unwrap()[name], "{name}");
        }
    }
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));

    let output = node_scripts()[BUSY][0].clone();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 21);
    for (path, item) in paths {
        // A stream does not end, and names of consumers are written: tests of their own ask them.
        let is_stream = path.ends_with("/stream") || path.ends_with("/chain-events");
        if is_stream || path.contains("/consumers/") {
            continue;
        }
        let get = &item["get"];
        assert!(get["summary"].is_string() && get["tags"][0].is_string(), "{path}");
        let responses = get["responses"].as_object().unwrap();
        assert!(responses["200"]["content"].is_object(), "{path}");
        let filled = path
            .replace("{tx_hash}", &output.0)
            .replace("{index}", &output.1.to_string())
            .replace("{outpoint}", &format!("{}:{}", output.0, output.1))
            .replace("/addresses/{owner}", &format!("/addresses/{BUSY}"))
            .replace("/scripts/{owner}", &format!("/scripts/{}", script_hash(&[0x51])))
            .replace("/credentials/{owner}", "/credentials/key:00")
            .replace("{height_or_hash}", "5");
        assert!(!filled.contains('{'), "{path}");
        if path.ends_with("/digest") {
            api.bad(&filled, StatusCode::NOT_IMPLEMENTED, "reads_whole_set");
            continue;
        }
        if path.contains("/mmr/") {
            api.bad(&filled, StatusCode::NOT_IMPLEMENTED, "mmr_disabled");
            continue;
        }
        if path.contains("/credentials/") {
            api.bad(&filled, StatusCode::NOT_FOUND, "not_on_this_chain");
            continue;
        }
        assert_eq!(api.get(&filled).status, StatusCode::OK, "{filled}");
    }
    // References lead somewhere.
    let text = document.to_string();
    for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    // What an answer holds is what the description says.
    let utxo = api.good(&format!("/api/v1/utxos/{}/{}", output.0, output.1));
    let described = &document["components"]["schemas"]["Utxo"]["properties"];
    for name in utxo.as_object().unwrap().keys().filter(|name| *name != "point") {
        assert!(described[name]["description"].is_string(), "{name}");
    }
}

#[test]
fn the_page_for_browsers_needs_nothing_from_elsewhere() {
    let api = Api::over_the_chain();
    let redirect = api.get("/docs");
    assert!(redirect.status.is_redirection());
    assert_eq!(redirect.headers[header::LOCATION], "/docs/");
    let page = api.get("/docs/");
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("swagger-ui"), "{}", page.text);
    for attribute in ["src=\"", "href=\""] {
        for target in page.text.split(attribute).skip(1) {
            let target = target.split('"').next().unwrap();
            assert!(!target.contains("//"), "{target} is on another host");
            let file = target.trim_start_matches("./");
            assert_eq!(api.get(&format!("/docs/{file}")).status, StatusCode::OK, "{file}");
        }
    }
    let start = api.get("/docs/swagger-initializer.js").text;
    assert!(start.contains("/openapi.json"), "{start}");
    assert!(start.contains("\"validatorUrl\": \"none\""), "{start}");
}

#[test]
fn texts_of_any_kind_never_break_the_server() {
    let api = Api::over_the_chain();
    let texts = ["%00", "%2e%2e", "..", "a%2Fb", "%F0%9F%92%A9", "'", "-1", "1e3", "0x10", "%20"];
    let long = "5".repeat(30_000);
    for text in texts.into_iter().chain([long.as_str()]) {
        for path in [
            format!("/api/v1/utxos/{text}/{text}"),
            format!("/api/v1/addresses/{text}/utxos"),
            format!("/api/v1/addresses/{BUSY}/utxos?cursor={text}"),
            format!("/api/v1/addresses/{BUSY}/utxos?at={text}"),
            format!("/api/v1/scripts/{text}/balance"),
            format!("/api/v1/chain/blocks/{text}"),
            format!("/{text}"),
        ] {
            let status = api.get(&path).status;
            assert!(status.is_client_error() || status.is_success(), "{status} {path:.80}");
        }
    }
    assert!(parse_address_or_script(&long, RegtestA::NETWORK).is_ok(), "long, but a script");
}

#[test]
fn a_real_server_answers_and_stops_although_a_client_stays_connected() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let chain = Chain::shared();
    let state = RestState::new(chain.index.clone(), &limits());
    let defaults = RestConfig::default();
    let doors = Doors::new(defaults.connections_max, defaults.idle_secs_max);
    let server = runtime.spawn(serve(listener, state, RestAccess::default(), doors, async {
        stopped.await.unwrap();
    }));
    let silent = TcpStream::connect(address).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.write_all(b"GET /api/v1/chain/tip HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut buffer = vec![0; 4_096];
    let len = client.read(&mut buffer).unwrap();
    let text = String::from_utf8_lossy(&buffer[..len]).to_lowercase();
    assert!(text.starts_with("http/1.1 200 ok\r\n"), "{text}");
    assert!(text.contains("content-type: application/json"), "{text}");
    assert!(text.contains("etag: \""), "{text}");
    let started = Instant::now();
    stop.send(()).unwrap();
    runtime.block_on(server).unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(10));
    drop(silent);
}
