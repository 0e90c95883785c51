//! Deliveries to a receiver that behaves, and to receivers that do not.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use utxokeep_core::{Network, OutPoint, Txid};
use utxokeep_sql::OpenMode;
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::{
    Amount, Credits, Micros, NewAddress, NewOutput, NewTx, RecordOptions, Seen, WalletId,
};

use super::*;
use crate::wallets::{
    AddWebhook, InWallet, OneWebhook, Wallets, WalletsError, WebhookAdded, WebhookInfo,
};

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);
const WALLET: &str = "hot";

fn wallet() -> InWallet {
    InWallet { wallet: WALLET.to_owned() }
}

fn webhook(id: i64) -> OneWebhook {
    OneWebhook { wallet: WALLET.to_owned(), id }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
struct Received {
    head: String,
    body: Vec<u8>,
}

impl Received {
    /// Numbers of its events.
    fn ids(&self) -> Vec<i64> {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        let events = body["events"].as_array().unwrap();
        events.iter().map(|event| event["id"].as_i64().unwrap()).collect()
    }

    fn signature(&self) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix("utxokeep-signature: "));
        line.unwrap_or_else(|| panic!("{}", self.head))
    }
}

/// What a receiver does with the request of a number, from 0 on.
type Behaviour = dyn Fn(usize, &mut TcpStream) + Send + Sync;

/// A receiver on a port of this machine.
struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    fn start(behaviour: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (received, is_stopped) =
            (Arc::<Mutex<Vec<Received>>>::default(), Arc::<AtomicBool>::default());
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        let (all, flag) = (Arc::clone(&received), Arc::clone(&is_stopped));
        let thread = thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                if flag.load(Ordering::Acquire) {
                    return;
                }
                let (all, behaviour) = (Arc::clone(&all), Arc::clone(&behaviour));
                thread::spawn(move || {
                    let Some(request) = read(&mut stream) else { return };
                    let number = {
                        let mut all = all.lock().unwrap();
                        all.push(request);
                        all.len() - 1
                    };
                    behaviour(number, &mut stream);
                });
            }
        });
        Self { port, received, is_stopped, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?a=b", self.port)
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).ok()?.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
            let length: usize = length.parse().ok()?;
            let body = bytes[end + 4..].to_vec();
            if body.len() >= length {
                return Some(Received { head, body });
            }
        }
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend(&part[..count]);
    }
}

fn answer(stream: &mut TcpStream, head: &str) {
    let text = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(text.as_bytes());
}

fn fine(_: usize, stream: &mut TcpStream) {
    answer(stream, "204 No Content");
}

fn config() -> WalletConfig {
    let mut config = WalletConfig { webhook_private_addresses: true, ..WalletConfig::default() };
    config.fsync = false;
    config.webhook_timeout_ms = 1_000.try_into().unwrap();
    config.webhook_retry_secs_max = 1.try_into().unwrap();
    config.webhook_poll_ms = 50;
    config.webhook_batch_events_max = 3.try_into().unwrap();
    config
}

/// A ledger with one wallet.
struct Setup {
    wallets: Wallets,
    id: WalletId,
    url: String,
}

fn open(url: &str, config: &WalletConfig) -> Setup {
    let wallets = Wallets::open(url, config, OpenMode::Create).unwrap();
    let ledger = wallets.ledger();
    let now = Micros::new(now_us());
    let network = Network::BitcoinRegtest;
    let id = match ledger.wallet_named(WALLET) {
        Ok(wallet) => wallet.id,
        Err(_) => ledger.create_wallet(WALLET, network, now).unwrap().id,
    };
    let watched = NewAddress { script: vec![0x51, 7], address: None, spend_weight: None };
    ledger.add_addresses(id, &[watched], now).unwrap();
    Setup { wallets, id, url: url.to_owned() }
}

impl Setup {
    fn receive(&self, name: u8) {
        let tx = NewTx {
            txid: Txid::from_bytes([name; 32]),
            inputs: vec![OutPoint::new(Txid::from_bytes([255 - name; 32]), 0)],
            outputs: vec![NewOutput { amount: Amount::new(1_000).unwrap(), script: vec![0x51, 7] }],
            coinbase: false,
            raw: None,
            credits: Credits::Watched,
        };
        let (options, now) = (RecordOptions::default(), Micros::new(now_us()));
        self.wallets.ledger().record(self.id, &tx, Seen::Mempool, &options, now).unwrap();
    }

    fn add(&self, url: &str) -> WebhookAdded {
        self.wallets
            .add_webhook(&AddWebhook {
                wallet: WALLET.to_owned(),
                url: url.to_owned(),
                cursor: Some(0),
            })
            .unwrap()
    }

    fn webhook(&self, id: i64) -> WebhookInfo {
        let all = self.wallets.list_webhooks(&wallet()).unwrap().items;
        all.into_iter().find(|webhook| webhook.id == id).unwrap()
    }

    fn until(&self, id: i64, is_so: impl Fn(&WebhookInfo) -> bool) -> WebhookInfo {
        let started = Instant::now();
        loop {
            let webhook = self.webhook(id);
            if is_so(&webhook) {
                return webhook;
            }
            assert!(started.elapsed() < PATIENCE, "{webhook:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn on_sqlite(config: &WalletConfig, test: impl FnOnce(&Setup)) {
    let dir = tempfile::tempdir().unwrap();
    test(&open(&format!("sqlite:{}", dir.path().join("ledger.db").display()), config));
}

fn on_both(config: &WalletConfig, test: impl Fn(&Setup)) {
    on_sqlite(config, &test);
    if let Some(database) = TestDatabase::create_or_skip() {
        test(&open(database.url(), config));
    }
}

#[test]
fn events_arrive_in_order_and_signed() {
    on_both(&config(), |setup| {
        let receiver = Receiver::start(fine);
        for name in 1..=4 {
            setup.receive(name);
        }
        let added = setup.add(&receiver.url());
        let delivery = WebhookDelivery::start(&setup.wallets).unwrap().unwrap();
        setup.until(added.webhook.id, |webhook| webhook.cursor == 4);
        setup.receive(5);
        setup.until(added.webhook.id, |webhook| webhook.cursor == 5);
        drop(delivery);
        let requests = receiver.received();
        let ids: Vec<Vec<i64>> = requests.iter().map(Received::ids).collect();
        assert_eq!(ids, [vec![1, 2, 3], vec![4], vec![5]]);
        for request in &requests {
            assert!(request.head.starts_with("post /hook?a=b http/1.1"), "{}", request.head);
            assert!(request.head.contains("content-type: application/json"));
            let signature = request.signature();
            let time = signature.strip_prefix("t=").unwrap().split(',').next().unwrap();
            let time: i64 = time.parse().unwrap();
            assert_eq!(signature, sign::signature(&added.secret, time, &request.body));
        }
        let body: serde_json::Value = serde_json::from_slice(&requests[2].body).unwrap();
        assert_eq!((&body["wallet"], &body["webhook"]), (&"hot".into(), &1.into()));
        assert_eq!(body["events"][0]["kind"], "seen");
        assert_eq!(body["events"][0]["tx_hash"], "05".repeat(32));
    });
}

/// The example of docs/webhooks.md, run on a delivery as it arrived.
#[test]
fn the_documented_program_checks_a_delivery() {
    const DOCUMENT: &str = include_str!("../../../../docs/webhooks.md");
    let code = DOCUMENT.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    on_sqlite(&config(), |setup| {
        let receiver = Receiver::start(fine);
        let added = setup.add(&receiver.url());
        let tested = setup.wallets.test_webhook(&webhook(added.webhook.id)).unwrap();
        assert!(tested.is_acknowledged, "{tested:?}");
        let request = receiver.received().remove(0);
        let body = String::from_utf8(request.body.clone()).unwrap();
        let check = format!(
            "{code}\nimport sys\nsecret, header, body = sys.argv[1], sys.argv[2], sys.argv[3].encode()\n\
             print(is_genuine(secret, header, body), is_genuine(secret, header, body + b' '),\n\
             is_genuine(secret + 'x', header, body), is_genuine(secret, 'garbage', body),\n\
             is_genuine(secret, header, body, now=1))"
        );
        let run = Command::new("python3")
            .args(["-c", &check, &added.secret, request.signature(), &body])
            .stdin(Stdio::null())
            .output();
        let output = match run {
            Ok(output) => output,
            Err(error) => {
                let is_required = std::env::var_os("UTXOKEEP_REQUIRE_PYTHON").is_some();
                assert!(!is_required, "python3 is required: {error}");
                eprintln!(
                    "skipped: there is no python3; UTXOKEEP_REQUIRE_PYTHON=1 makes this fail"
                );
                return;
            }
        };
        let said = String::from_utf8(output.stdout).unwrap();
        let failed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.trim(), "True False False False False", "{failed}");
    });
}

#[test]
fn a_receiver_that_misbehaves_gets_everything_again_and_in_order() {
    // Refuses, redirects, answers garbage, closes, hangs for longer than anybody waits, sends an
    // endless head, and then behaves.
    let receiver = Receiver::start(|number, stream| match number {
        0 => answer(stream, "500 Internal Server Error"),
        1 => answer(stream, "302 Found\r\nlocation: /elsewhere"),
        2 => drop(stream.write_all(b"\x00\xffthis is not HTTP\r\n\r\n")),
        3 => {}
        4 => thread::sleep(Duration::from_secs(3)),
        5 => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            let line = [b'x'; 1_000];
            for _ in 0..200 {
                if stream.write_all(b"a: ").and_then(|()| stream.write_all(&line)).is_err() {
                    return;
                }
            }
        }
        _ => answer(stream, "200 OK"),
    });
    on_sqlite(&config(), |setup| {
        setup.receive(1);
        let id = setup.add(&receiver.url()).webhook.id;
        let _delivery = WebhookDelivery::start(&setup.wallets).unwrap().unwrap();
        let failing = setup.until(id, |webhook| webhook.failures == 2);
        let error = failing.last_error.unwrap();
        assert!(error.contains("302") && error.contains("redirects are not followed"), "{error}");
        let failing = setup.until(id, |webhook| webhook.failures == 5);
        assert!(failing.last_error.unwrap().contains("took longer"));
        setup.receive(2);
        let done = setup.until(id, |webhook| webhook.cursor == 2);
        assert_eq!((done.failures, done.last_error, done.state), (0, None, "active"));
        let requests = receiver.received();
        assert!(requests.iter().all(|request| !request.head.contains("/elsewhere")));
        assert_eq!(requests[..6].iter().map(Received::ids).filter(|ids| ids[0] == 1).count(), 6);
    });
}

#[test]
fn a_receiver_that_hangs_holds_up_only_its_own_webhook() {
    let hangs = Receiver::start(|_, _| thread::sleep(Duration::from_secs(5)));
    let works = Receiver::start(fine);
    on_sqlite(&config(), |setup| {
        setup.receive(1);
        let stuck = setup.add(&hangs.url()).webhook.id;
        let quick = setup.add(&works.url()).webhook.id;
        let _delivery = WebhookDelivery::start(&setup.wallets).unwrap().unwrap();
        setup.until(quick, |webhook| webhook.cursor == 1);
        setup.receive(2);
        setup.until(quick, |webhook| webhook.cursor == 2);
        assert_eq!(setup.webhook(stuck).cursor, 0);
    });
}

#[test]
fn a_webhook_is_disabled_after_too_many_failures_and_resumed() {
    let is_well = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_well);
    let receiver = Receiver::start(move |_, stream| {
        answer(stream, if flag.load(Ordering::Acquire) { "200 OK" } else { "503 Not Now" });
    });
    let config = WalletConfig { webhook_attempts_max: 2.try_into().unwrap(), ..config() };
    on_sqlite(&config, |setup| {
        setup.receive(1);
        let id = setup.add(&receiver.url()).webhook.id;
        let _delivery = WebhookDelivery::start(&setup.wallets).unwrap().unwrap();
        let disabled = setup.until(id, |webhook| webhook.state == "disabled");
        assert_eq!((disabled.failures, disabled.waiting), (2, 1));
        assert!(disabled.last_error.unwrap().contains("503"));
        is_well.store(true, Ordering::Release);
        setup.wallets.resume_webhook(&webhook(id)).unwrap();
        setup.until(id, |webhook| webhook.cursor == 1);
    });
}

/// Each event is delivered once, although two programs look for work.
#[test]
fn two_programs_share_the_work() {
    on_both(&config(), |setup| {
        let receiver = Receiver::start(fine);
        let id = setup.add(&receiver.url()).webhook.id;
        let other = open(&setup.url, &config());
        let deliveries = [&setup.wallets, &other.wallets]
            .map(|wallets| WebhookDelivery::start(wallets).unwrap().unwrap());
        for name in 1..=30 {
            setup.receive(name);
        }
        setup.until(id, |webhook| webhook.cursor == 30);
        drop(deliveries);
        let ids: Vec<i64> = receiver.received().iter().flat_map(Received::ids).collect();
        assert_eq!(ids, (1..=30).collect::<Vec<_>>());
    });
}

/// A program that is stopped lets go of what it holds: the next one need not wait.
#[test]
fn a_delivery_that_was_broken_off_is_taken_up_at_once() {
    let receiver = Receiver::start(|number, stream| match number {
        0 => thread::sleep(Duration::from_secs(10)),
        _ => answer(stream, "200 OK"),
    });
    let config = WalletConfig { webhook_timeout_ms: 3_600_000.try_into().unwrap(), ..config() };
    on_sqlite(&config, |setup| {
        setup.receive(1);
        let id = setup.add(&receiver.url()).webhook.id;
        let first = WebhookDelivery::start(&setup.wallets).unwrap().unwrap();
        let started = Instant::now();
        while receiver.received().is_empty() {
            assert!(started.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(10));
        }
        drop(first);
        let _second = WebhookDelivery::start(&setup.wallets).unwrap().unwrap();
        setup.until(id, |webhook| webhook.cursor == 1);
        let ids: Vec<Vec<i64>> = receiver.received().iter().map(Received::ids).collect();
        assert_eq!(ids, [[1], [1]]);
    });
}

#[test]
fn private_addresses_are_refused_unless_they_are_allowed() {
    let strict = WalletConfig { webhook_private_addresses: false, ..config() };
    let receiver = Receiver::start(fine);
    on_sqlite(&strict, |setup| {
        for url in [receiver.url(), "https://[::1]/".to_owned(), "ftp://example.com".to_owned()] {
            let refused = setup.wallets.add_webhook(&AddWebhook {
                wallet: WALLET.to_owned(),
                url,
                cursor: None,
            });
            assert!(matches!(refused, Err(WalletsError::Target(_))), "{refused:?}");
        }
        // A name is looked up when something is delivered.
        let url = format!("http://localhost:{}/", receiver.port);
        let id = setup.add(&url).webhook.id;
        let tested = setup.wallets.test_webhook(&webhook(id)).unwrap();
        assert!(
            !tested.is_acknowledged && tested.answer.contains("no public address"),
            "{tested:?}"
        );
        assert!(receiver.received().is_empty());
    });
}

/// TLS is spoken, and a receiver whose certificate nobody signed is not told anything.
#[test]
fn a_receiver_that_cannot_prove_who_it_is_gets_nothing() {
    let receiver = Receiver::start(fine);
    on_sqlite(&config(), |setup| {
        let id = setup.add(&format!("https://127.0.0.1:{}/", receiver.port)).webhook.id;
        let tested = setup.wallets.test_webhook(&webhook(id)).unwrap();
        assert!(!tested.is_acknowledged, "{tested:?}");
        assert!(receiver.received().is_empty());
    });
}

#[test]
fn secrets_differ_and_are_shown_once() {
    on_sqlite(&config(), |setup| {
        let (one, two) = (setup.add("https://example.com/1"), setup.add("https://example.com/2"));
        assert!(one.secret.starts_with("whsec_") && one.secret.len() == 70);
        assert_ne!(one.secret, two.secret);
        let listed =
            serde_json::to_string(&setup.wallets.list_webhooks(&wallet()).unwrap()).unwrap();
        assert!(!listed.contains("whsec_"), "{listed}");
    });
}
