//! Wallet events and webhooks on every face, and after the program was killed.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::{Value, json};
use utxokeep::{
    config::{RestConfig, WalletConfig},
    wallets::{AddAddresses, Wallets},
};
use utxokeep_core::OpenMode;
use utxokeep_server::grpc::proto;
use utxokeep_testkit::postgres::TestDatabase;

use crate::{
    program::{Serving, told, until, utxokeep},
    wallet_grpc::served::Served,
    wallet_rest::client::{Api, FIRST, payment, texts, txid},
};

fn record(api: &Api, path: &str, script: &str, number: u32) {
    let body = json!({ "parts": payment(number, script, &[1_000]), "seen": "mempool" });
    api.post(&format!("{path}/transactions"), &body).good();
}

fn kinds(page: &Value) -> Vec<String> {
    texts(&page["items"], "kind")
}

fn events_over_rest(api: &Api) {
    let (path, script) = api.wallet("told");
    let events = format!("{path}/events");
    let empty = json!({ "items": [], "next_cursor": 0, "has_more": false });
    assert_eq!(api.get(&events).good(), empty);
    // A wait that nothing ends.
    assert_eq!(api.get(&format!("{events}?wait_ms=100")).good(), empty);
    record(api, &path, &script, 1);
    let page = api.get(&events).good();
    assert_eq!(kinds(&page), ["seen"]);
    assert_eq!(
        (&page["items"][0]["id"], &page["items"][0]["tx_hash"]),
        (&1.into(), &txid(1).into())
    );
    assert_eq!(page["items"][0]["status"], "published");
    for height in FIRST..FIRST + 3 {
        let txs = if height == FIRST { vec![payment(1, &script, &[1_000])] } else { Vec::new() };
        api.apply(height, &txs).good();
    }
    let page = api.get(&format!("{events}?cursor=1&page_size=1")).good();
    assert_eq!((kinds(&page), &page["next_cursor"]), (vec!["confirmed".to_owned()], &2.into()));
    assert_eq!((&page["has_more"], &page["items"][0]["confirmations"]), (&true.into(), &1.into()));
    let page = api.get(&format!("{events}?cursor=2")).good();
    assert_eq!(page["items"][0]["confirmations"], 3);
    assert_eq!((&page["next_cursor"], &page["has_more"]), (&3.into(), &false.into()));
    // A wait ends with the event.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| api.get(&format!("{events}?cursor=3&wait_ms=20000")).good());
        record(api, &path, &script, 2);
        let page = waiting.join().unwrap();
        assert_eq!((kinds(&page), &page["next_cursor"]), (vec!["seen".to_owned()], &4.into()));
    });
    api.get(&format!("{events}?wait_ms=20001")).bad(400, "bad_request");
    api.get(&format!("{events}?cursor=99")).bad(400, "bad_request");
    api.get(&format!("{events}?cursor=-1")).bad(410, "events_gone");
    api.get("/api/v1/wallets/nobody/events").bad(404, "unknown_wallet");
}

#[test]
fn events_are_read_and_waited_for_on_sqlite() {
    events_over_rest(&Api::new());
}

#[test]
fn events_are_read_and_waited_for_on_postgres() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    events_over_rest(&Api::over(database.url(), &RestConfig::default(), &WalletConfig::default()));
}

#[test]
fn webhooks_are_managed_over_rest() {
    let api = Api::new();
    let (path, _) = api.wallet("told");
    let hooks = format!("{path}/webhooks");
    let added = api.post(&hooks, &json!({ "url": "https://example.com/hook" })).good();
    assert!(added["secret"].as_str().unwrap().starts_with("whsec_"), "{added}");
    let listed = api.get(&hooks).good();
    assert_eq!(
        (&listed["items"][0]["state"], listed["items"][0].get("secret")),
        (&"active".into(), None)
    );
    assert_eq!(api.post_bare(&format!("{hooks}/1/pause")).good()["state"], "paused");
    assert_eq!(api.post_bare(&format!("{hooks}/1/resume")).good()["state"], "active");
    assert_eq!(api.delete(&format!("{hooks}/1")).good(), json!({ "removed": 1 }));
    api.delete(&format!("{hooks}/1")).bad(404, "unknown_webhook");
    for url in
        ["http://127.0.0.1/", "http://169.254.169.254/latest", "gopher://x", "https://a:b@c/"]
    {
        api.post(&hooks, &json!({ "url": url })).bad(400, "bad_webhook_url");
    }
}

/// A receiver that notes what it gets, and answers only while it is well.
struct Receiver {
    address: SocketAddr,
    is_well: Arc<AtomicBool>,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_well = Arc::new(AtomicBool::new(false));
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let (flag, all) = (Arc::clone(&is_well), Arc::clone(&bodies));
        // It ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (flag, all) = (Arc::clone(&flag), Arc::clone(&all));
                thread::spawn(move || receive(stream, &flag, &all));
            }
        });
        Self { address, is_well, bodies }
    }

    fn ids(&self) -> Vec<Vec<i64>> {
        let ids = |body: &Value| {
            let events = body["events"].as_array().unwrap();
            events.iter().map(|event| event["id"].as_i64().unwrap()).collect()
        };
        self.bodies.lock().unwrap().iter().map(ids).collect()
    }
}

fn receive(mut stream: TcpStream, is_well: &AtomicBool, bodies: &Mutex<Vec<Value>>) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    let body = loop {
        let Some(count) = stream.read(&mut part).ok().filter(|count| *count > 0) else { return };
        bytes.extend(&part[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if let Ok(body) = serde_json::from_str(body) {
            break body;
        }
    };
    bodies.lock().unwrap().push(body);
    if is_well.load(Ordering::Acquire) {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    } else {
        // It hangs, until the other side has enough.
        let _ = stream.read(&mut part);
    }
}

fn post(program: &Serving, path: &str, body: &Value) -> Value {
    program.ask("POST", path, &body.to_string()).good()
}

/// Serves the ledger of a directory, with more settings of `[wallet]`.
fn serve(dir: &Path, settings: &str) -> Serving {
    let (file, ledger) = (dir.join("utxokeep.toml"), dir.join("ledger"));
    let wallet = format!("[wallet]\nurl = \"sqlite:{}\"\n{settings}", ledger.display());
    fs::write(&file, wallet + "[grpc]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let mut command = utxokeep(&["serve", "--config"]);
    command.arg(&file).arg("--data").arg(dir.join("none"));
    command.args(["--listen", "127.0.0.1:0"]);
    Serving::start(command)
}

const SCRIPT: &str = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
const ALLOW: &str = "webhook_private_addresses = true\nwebhook_timeout_ms = 2000\n";

fn pay(program: &Serving, number: u32) {
    let body = json!({ "parts": payment(number, SCRIPT, &[1_000]), "seen": "mempool" });
    post(program, "/api/v1/wallets/hot/transactions", &body);
}

/// The program is killed while the receiver has the events and has not acknowledged them.
#[test]
fn a_program_killed_between_effect_and_acknowledgement_delivers_again() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let ledger = format!("sqlite:{}", dir.path().join("ledger").display());
    let cli = |words: &[&str]| -> Value {
        let words = [&["wallet", "--ledger", &ledger, "--json"], words].concat();
        let output = utxokeep(&words).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    cli(&["create", "hot", "--network", "regtest"]);
    cli(&["address", "add", "hot", SCRIPT]);
    let hook = json!({ "url": format!("http://{}/hook", receiver.address) });
    let program = serve(dir.path(), ALLOW);
    post(&program, "/api/v1/wallets/hot/webhooks", &hook);
    pay(&program, 1);
    until("the receiver has the event", || !receiver.ids().is_empty());
    // SIGKILL.
    drop(program);
    let listed = cli(&["webhook", "list", "hot"]);
    let webhook = &listed["items"][0];
    assert_eq!((&webhook["cursor"], &webhook["waiting"]), (&0.into(), &1.into()));
    assert_eq!(kinds(&cli(&["events", "hot", "--from", "0"])), ["seen"]);

    receiver.is_well.store(true, Ordering::Release);
    let program = serve(dir.path(), ALLOW);
    pay(&program, 2);
    until("everything is acknowledged", || {
        let listed = program.ask("GET", "/api/v1/wallets/hot/webhooks", "").good();
        listed["items"][0]["cursor"] == 2
    });
    let ids = receiver.ids();
    assert_eq!(ids[0], [1]);
    let again: Vec<i64> = ids[1..].iter().flatten().copied().collect();
    assert_eq!(again, [1, 2], "{ids:?}");
    assert_eq!(program.metric("utxokeep_webhook_events_total"), Some(2.0));
    drop(program.stop_by("TERM"));
}

#[test]
fn events_are_followed_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = format!("sqlite:{}", dir.path().join("ledger").display());
    let program = serve(dir.path(), "");
    let create = json!({ "name": "hot", "network": "regtest" }).to_string();
    assert_eq!(program.ask("POST", "/api/v1/wallets", &create).status, 201);
    let add = json!({ "addresses": [{ "address": SCRIPT }] });
    post(&program, "/api/v1/wallets/hot/addresses", &add);
    pay(&program, 1);
    let mut command = utxokeep(&["wallet", "--ledger", &ledger, "--json", "events", "hot"]);
    let mut child = command.arg("--follow").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for number in 1..=3 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!((&line["id"], &line["kind"]), (&number.into(), &"seen".into()));
        // The next comes while the reader waits, from another program.
        pay(&program, number + 1);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn events_are_listed_and_streamed_over_grpc() {
    let served = Served::sqlite();
    let mut client = served.client();
    let create = proto::CreateWalletRequest {
        name: "hot".to_owned(),
        network: "regtest".to_owned(),
        ..Default::default()
    };
    served.ok(client.create_wallet(create));
    let settings = WalletConfig { fsync: false, ..WalletConfig::default() };
    let other = Wallets::open(&served.url, &settings, OpenMode::Existing).unwrap();
    let request: AddAddresses =
        serde_json::from_value(json!({ "wallet": "hot", "addresses": [{ "address": SCRIPT }] }))
            .unwrap();
    other.add_addresses(&request).unwrap();
    let pay = |number| {
        let parts = payment(number, SCRIPT, &[1_000]);
        let body = json!({ "wallet": "hot", "parts": parts, "seen": "mempool" });
        let record = serde_json::from_value(body).unwrap();
        other.record_tx(&record).unwrap();
    };
    pay(1);
    pay(2);
    let list = |cursor, page_entries| proto::ListWalletEventsRequest {
        wallet: "hot".to_owned(),
        cursor,
        page_entries,
    };
    let page = served.ok(client.list_wallet_events(list(None, Some(1))));
    assert_eq!((page.next_cursor, page.has_more, page.events.len()), (1, true, 1));
    assert_eq!(page.events[0].kind(), proto::WalletEventKind::Seen);
    assert_eq!(page.events[0].status(), proto::WalletTxStatus::Published);
    let gone = served.runtime.block_on(client.list_wallet_events(list(Some(-1), None)));
    assert_eq!(gone.unwrap_err().code(), tonic::Code::OutOfRange);
    let watch = proto::WatchWalletEventsRequest { wallet: "hot".to_owned(), cursor: Some(1) };
    let mut stream = served.ok(client.watch_wallet_events(watch));
    for number in 2..=4 {
        let part = served.runtime.block_on(stream.message()).unwrap().unwrap();
        let ids: Vec<i64> = part.events.iter().map(|event| event.id).collect();
        assert_eq!(ids, [number]);
        pay(u32::try_from(number).unwrap() + 1);
    }
    let add = proto::AddWebhookRequest {
        wallet: "hot".to_owned(),
        url: "https://example.com/".to_owned(),
        cursor: None,
    };
    let added = served.ok(client.add_webhook(add));
    assert!(added.secret.starts_with("whsec_"));
    let one = (String::from("hot"), added.webhook.unwrap().id);
    let pause = proto::PauseWebhookRequest { wallet: one.0.clone(), id: one.1 };
    let paused = served.ok(client.pause_webhook(pause)).webhook.unwrap();
    assert_eq!(paused.state(), proto::WebhookState::Paused);
    let resume = proto::ResumeWebhookRequest { wallet: one.0.clone(), id: one.1 };
    let resumed = served.ok(client.resume_webhook(resume)).webhook.unwrap();
    assert_eq!(resumed.state(), proto::WebhookState::Active);
    let listed = proto::ListWebhooksRequest { wallet: one.0.clone() };
    assert_eq!(served.ok(client.list_webhooks(listed)).webhooks, [resumed]);
    let remove = proto::RemoveWebhookRequest { wallet: one.0, id: one.1 };
    served.ok(client.remove_webhook(remove.clone()));
    let gone = served.runtime.block_on(client.remove_webhook(remove)).unwrap_err();
    assert_eq!(gone.code(), tonic::Code::NotFound);
}
