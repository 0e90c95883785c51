//! A node that says what real ones say seldom.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};
use utxokeep::{
    config::WalletConfig,
    wallets::{BroadcastTx, CreatePsbt, Units, Wallets, WalletsError},
};
use utxokeep_chains::{
    bitcoind::{Credentials, TxSender},
    finalize_psbt,
};
use utxokeep_core::{BlockHash, ErrorKind, Height, Network, OpenMode, OutPoint, Txid};
use utxokeep_testkit::Signer;
use utxokeep_wallet::{
    Amount, BlockRef, Credits, LinkedBlock, Micros, NewDescriptor, NewOutput, NewTx, SentCursor,
    WalletId,
};

const NETWORK: Network = Network::BitcoinRegtest;
const NOW: Micros = Micros::new(1_800_000_000_000_000);
const PAYEE: &str = "bcrt1qhmxwfllc0psvl3ger2y9s9nw3gdg49rgrqvzn6";

/// What the node does with a call.
enum Says {
    Result(Value),
    Error(i64, &'static str),
    HangUp,
}

type Answers = Arc<Mutex<Box<dyn FnMut(&str) -> Says + Send>>>;

/// A node that answers calls of RPC by a rule, until the test ends.
struct FakeNode {
    url: String,
    answers: Answers,
    calls: Arc<Mutex<Vec<String>>>,
}

impl FakeNode {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Answers = Arc::new(Mutex::new(Box::new(|_| Says::HangUp)));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (rule, log) = (Arc::clone(&answers), Arc::clone(&calls));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (rule, log) = (Arc::clone(&rule), Arc::clone(&log));
                thread::spawn(move || serve(client, &rule, &log));
            }
        });
        Self { url, answers, calls }
    }

    /// From now on: the tip is `tip`, and other calls are answered by `rule`.
    fn says(
        &self,
        chain: &'static str,
        tip: BlockHash,
        mut rule: impl FnMut(&str) -> Says + Send + 'static,
    ) {
        let info = json!({ "chain": chain, "blocks": 1, "bestblockhash": tip.to_reversed_hex() });
        *self.answers.lock().unwrap() = Box::new(move |method| match method {
            "getblockchaininfo" => Says::Result(info.clone()),
            other => rule(other),
        });
    }

    fn calls_of(&self, method: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| *call == method).count()
    }
}

fn serve(mut client: TcpStream, rule: &Answers, log: &Mutex<Vec<String>>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").and_then(|(head, body)| {
            let head = head.to_ascii_lowercase();
            let length =
                head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
            (body.len() >= length).then(|| body.to_owned())
        });
        let Some(body) = whole else {
            match client.read(&mut buffer) {
                Ok(count) if count > 0 => bytes.extend(&buffer[..count]),
                _ => return,
            }
            continue;
        };
        bytes.clear();
        let call: Value = serde_json::from_str(&body).unwrap();
        let method = call["method"].as_str().unwrap().to_owned();
        log.lock().unwrap().push(method.clone());
        let (status, reply) = match (rule.lock().unwrap())(&method) {
            Says::HangUp => return,
            Says::Result(result) => ("200 OK", json!({ "result": result, "error": null })),
            Says::Error(code, message) => (
                "500 Internal Server Error",
                json!({ "result": null, "error": { "code": code, "message": message } }),
            ),
        };
        let text = reply.to_string();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", text.len());
        if client.write_all(format!("{head}{text}").as_bytes()).is_err() {
            return;
        }
    }
}

fn takes(fee: &str) -> Says {
    let fee: Value = serde_json::from_str(fee).unwrap();
    Says::Result(json!([{ "allowed": true, "vsize": 141, "fees": { "base": fee } }]))
}

fn rejects(reason: &str) -> Says {
    Says::Result(json!([{ "allowed": false, "reject-reason": reason }]))
}

/// A ledger at a block, with a payment of a wallet that is signed.
struct Home {
    node: FakeNode,
    wallets: Wallets,
    wallet: WalletId,
    tip: BlockHash,
    txid: Txid,
    request: BroadcastTx,
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = FakeNode::start();
        let cookie = dir.path().join("cookie");
        std::fs::write(&cookie, "__cookie__:x").unwrap();
        let wallets = open(dir.path(), &node.url, cookie);
        let signer = Signer::default();
        let ledger = wallets.ledger().clone();
        let wallet = ledger.create_wallet("hot", NETWORK, NOW).unwrap().id;
        let descriptor = NewDescriptor::new(signer.descriptor());
        let added = ledger.add_descriptor(wallet, &descriptor, NOW).unwrap();
        let script = ledger.reveal_next_address(wallet, added.keychains[0].id, NOW).unwrap().script;
        let parent = NewTx {
            txid: Txid::from_bytes([5; 32]),
            inputs: vec![OutPoint::new(Txid::from_bytes([4; 32]), 0)],
            outputs: vec![NewOutput { amount: Amount::new(50_000_000).unwrap(), script }],
            coinbase: false,
            raw: None,
            credits: Credits::Watched,
        };
        let tip = BlockHash::from_bytes([9; 32]);
        let block = BlockRef { height: Height::new(7), hash: tip, time: NOW };
        let linked = LinkedBlock { block, parent: None };
        ledger.apply_block(NETWORK, &linked, &[parent], NOW).unwrap();
        let outputs = json!([{ "address": PAYEE, "amount": "1000000" }]);
        let payment = json!({ "outputs": outputs, "fee_rate": "5" });
        let create = json!({ "wallet": "hot", "payment": payment, "record": true });
        let create: CreatePsbt = serde_json::from_value(create).unwrap();
        let made = wallets.create_psbt(&create).unwrap();
        let psbt = signer.sign(&made.psbt);
        let txid = finalize_psbt(&psbt).unwrap().unsigned_txid;
        let (tx_hash, psbt) = (txid.to_reversed_hex(), Some(psbt));
        let request =
            BroadcastTx { wallet: "hot".to_owned(), tx_hash, psbt, ..BroadcastTx::default() };
        Self { node, wallets, wallet, tip, txid, request, dir }
    }

    /// The node answers the test and the sending like this.
    fn node_says(&self, test: fn() -> Says, send: fn() -> Says) {
        self.node.says("regtest", self.tip, move |method| match method {
            "testmempoolaccept" => test(),
            "sendrawtransaction" => send(),
            other => panic!("{other}"),
        });
    }

    fn broadcast(&self) -> Result<String, WalletsError> {
        self.wallets.broadcast_tx(&self.request).map(|sent| sent.node.into_owned())
    }

    /// Its status, whether signed bytes are kept, and whether it was marked as sent.
    fn stored(&self) -> (&'static str, bool, bool) {
        let ledger = self.wallets.ledger();
        let stored =
            ledger.view(self.wallet, NOW, |open| open.sendable(&self.txid)).unwrap().unwrap();
        let raw = stored.raw.unwrap();
        let signed = utxokeep_chains::decode_tx(&raw).unwrap().signed_inputs > 0;
        let long_ago = Micros::new(0);
        let sent = ledger.sent_txs(NETWORK, long_ago, SentCursor::default(), 10).unwrap();
        assert!(sent.iter().all(|sent| sent.txid == self.txid && sent.raw == raw));
        (stored.state.status().name(), signed, stored.sent_at.is_some())
    }
}

fn open(dir: &Path, url: &str, cookie: std::path::PathBuf) -> Wallets {
    let config = WalletConfig { fsync: false, ..WalletConfig::default() };
    let place = format!("sqlite:{}", dir.join("ledger").display());
    let wallets = Wallets::open(&place, &config, OpenMode::Create).unwrap();
    let sender = TxSender::new(url.parse().unwrap(), Credentials::CookieFile(cookie), 2_000);
    wallets.with_sender(sender)
}

#[test]
fn what_a_node_does_not_take_now_stays_a_payment_with_its_signatures() {
    let home = Home::new();
    for reason in ["mempool full", "mempool min fee not met"] {
        let answer = if reason == "mempool full" {
            || rejects("mempool full")
        } else {
            || rejects("mempool min fee not met")
        };
        home.node_says(answer, || panic!("nothing is sent"));
        let error = home.broadcast().unwrap_err();
        assert_eq!((error.code(), error.kind()), ("not_taken_now", ErrorKind::NotReady));
        assert!(error.to_string().contains(reason), "{error}");
        assert!(error.to_string().contains("nothing else was changed: ask again later"), "{error}");
        assert_eq!(home.stored(), ("pending", true, false));
    }
    // Full between the question and the sending.
    home.node_says(|| takes("0.00000705"), || Says::Error(-26, "mempool full"));
    assert_eq!(home.broadcast().unwrap_err().code(), "not_taken_now");
    assert_eq!(home.stored(), ("pending", true, false));
    // The bytes that were kept are enough.
    home.node_says(|| takes("0.00000705"), || Says::Result(json!("ab")));
    let kept = BroadcastTx { psbt: None, ..home.request.clone() };
    assert_eq!(home.wallets.broadcast_tx(&kept).unwrap().node, "taken");
    assert_eq!(home.stored(), ("published", true, true));
}

#[test]
fn a_node_that_goes_away_while_it_gets_a_payment_may_have_it() {
    let home = Home::new();
    home.node_says(|| Says::HangUp, || panic!("nothing is sent"));
    let error = home.broadcast().unwrap_err();
    assert_eq!((error.code(), error.kind()), ("node_away", ErrorKind::Unavailable));
    assert_eq!(home.stored(), ("pending", true, false));

    home.node_says(|| takes("0.00000705"), || Says::HangUp);
    let error = home.broadcast().unwrap_err();
    assert_eq!((error.code(), error.kind()), ("send_unknown", ErrorKind::Unavailable));
    assert!(error.to_string().contains("not known whether the node got"), "{error}");
    assert_eq!(home.stored(), ("pending", true, true), "it will be given again");

    home.node_says(|| rejects("txn-already-in-mempool"), || panic!("the node has it"));
    assert_eq!(home.broadcast().unwrap(), "in_mempool");
    assert_eq!(home.stored(), ("published", true, true));
    // In a block that the ledger has not seen.
    home.node_says(|| rejects("txn-already-known"), || panic!("the node has it"));
    assert_eq!(home.broadcast().unwrap(), "in_block");
    assert_eq!(home.stored(), ("published", true, true));
}

#[test]
fn an_input_that_a_block_spent_ends_the_payment_where_the_ledger_is_at_that_block() {
    let home = Home::new();
    let elsewhere = BlockHash::from_bytes([8; 32]);
    let rule = |_: &str| rejects("missing-inputs");
    home.node.says("regtest", elsewhere, rule);
    let error = home.broadcast().unwrap_err();
    assert_eq!(error.code(), "not_taken_now", "{error}");
    assert_eq!(home.stored(), ("pending", true, false));
    home.node.says("regtest", home.tip, rule);
    let error = home.broadcast().unwrap_err();
    assert_eq!((error.code(), error.kind()), ("inputs_spent", ErrorKind::Refused));
    assert!(error.to_string().contains("the payment has failed"), "{error}");
    assert_eq!(home.stored().0, "failed");
    assert_eq!(home.broadcast().unwrap_err().code(), "wrong_state", "and stays so");
}

#[test]
fn a_fee_above_the_guards_is_not_paid_unless_that_is_allowed() {
    let home = Home::new();
    home.node_says(|| takes("0.2"), || panic!("nothing is sent"));
    let error = home.broadcast().unwrap_err();
    assert_eq!(error.code(), "guarded", "{error}");
    assert_eq!(home.stored(), ("pending", false, false));
    home.node_says(|| takes("0.2"), || Says::Result(json!("ab")));
    let allow = vec!["fee_max".to_owned(), "fee_rate_max".to_owned()];
    let allowed = BroadcastTx { allow, ..home.request.clone() };
    assert_eq!(home.wallets.broadcast_tx(&allowed).unwrap().fee, Some(Units(20_000_000)));
}

#[test]
fn a_request_with_a_key_is_answered_without_the_node_the_second_time() {
    let home = Home::new();
    home.node_says(|| takes("0.00000705"), || Says::Result(json!("ab")));
    let idempotency_key = Some("order-7".to_owned());
    let keyed = BroadcastTx { idempotency_key, ..home.request.clone() };
    let first = home.wallets.broadcast_tx(&keyed).unwrap();
    let asked = home.node.calls_of("testmempoolaccept");
    assert_eq!(home.wallets.broadcast_tx(&keyed).unwrap(), first);
    assert_eq!(home.node.calls_of("testmempoolaccept"), asked);
    let other = BroadcastTx { replaces: true, ..keyed };
    assert_eq!(home.wallets.broadcast_tx(&other).unwrap_err().code(), "idempotency_key_reused");
}

#[test]
fn nothing_goes_to_a_node_of_another_network_or_without_a_node() {
    let home = Home::new();
    home.node.says("main", home.tip, |_| panic!("only the chain is asked for"));
    let error = home.broadcast().unwrap_err();
    assert_eq!((error.code(), error.kind()), ("node_away", ErrorKind::Failed));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("the network it calls main"), "{source}");
    assert_eq!(home.stored(), ("pending", true, false));

    let config = WalletConfig { fsync: false, ..WalletConfig::default() };
    let place = format!("sqlite:{}", home.dir.path().join("ledger").display());
    let alone = Wallets::open(&place, &config, OpenMode::Existing).unwrap();
    let error = alone.broadcast_tx(&home.request).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("no_node", ErrorKind::Refused));
    assert!(error.to_string().contains("set [chain] source"), "{error}");
}
