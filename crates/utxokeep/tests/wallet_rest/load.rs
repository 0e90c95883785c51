//! Many clients at the same time, slow clients, and work that takes longer than a request may.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    num::NonZeroU32,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use utxokeep::config::{RestConfig, WalletConfig};
use utxokeep_sql::{Database, Options, SqlError};

use crate::client::{Api, FIRST, Reply, payment, texts};

const CLIENTS: usize = 8;

fn count(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

#[test]
fn selections_at_the_same_time_never_share_a_coin() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    api.apply(FIRST, &[payment(1, &script, &[10_000; 40])]).good();
    let request = json!({ "value": 25_000, "fee_rate": 1, "lease": { "seconds": 600 } });
    let select = || api.post(&format!("{wallet}/selections"), &request).good();
    let chosen: Vec<Vec<String>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(select)).collect();
        clients.into_iter().map(|each| texts(&each.join().unwrap()["coins"], "outpoint")).collect()
    });
    let coins: usize = chosen.iter().map(Vec::len).sum();
    let distinct: BTreeSet<&String> = chosen.iter().flatten().collect();
    assert!(coins >= CLIENTS * 3, "{chosen:?}");
    assert_eq!(distinct.len(), coins, "{chosen:?}");
    let leased = api.get(&format!("{wallet}/leases")).good();
    assert_eq!(leased["items"].as_array().unwrap().len(), coins);
}

#[test]
fn a_slow_body_holds_its_place_only_for_a_while_and_others_are_told_to_come_back() {
    let rest = RestConfig {
        concurrent_requests_max: count(1),
        request_timeout_ms: count(5_000),
        ..RestConfig::default()
    };
    let api = Api::with(&rest, &WalletConfig::default());
    let mut slow = TcpStream::connect(api.address).unwrap();
    let head = "POST /api/v1/wallets HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"name\"";
    slow.write_all(head.as_bytes()).unwrap();
    // Time for it to be let in: there is one place, and asking takes it too.
    thread::sleep(Duration::from_millis(500));
    let refused = api.get("/api/v1/wallets");
    refused.bad(503, "overloaded");
    assert!(refused.headers.contains("retry-after: 1"), "{refused:?}");
    assert_eq!(api.get("/health").status, 200, "health answers under load");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    Reply::parse(&answer).bad(408, "slow_body");
    assert_eq!(api.get("/api/v1/wallets").good()["items"], json!([]));
}

#[test]
fn a_write_that_outlives_its_request_is_carried_out() {
    let rest = RestConfig { request_timeout_ms: count(300), ..RestConfig::default() };
    let api = Api::with(&rest, &WalletConfig::default());
    let database = Database::open(&api.ledger_url(), &Options::default()).unwrap();
    let (locked, is_locked) = mpsc::channel();
    let (free, is_free) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let hold = database.write(|tx| {
                // Any write takes the lock that all writers of the file need.
                tx.execute("DELETE FROM wallets WHERE id < 0", &[])?;
                locked.send(()).unwrap();
                is_free.recv().unwrap();
                Ok::<_, SqlError>(())
            });
            hold.unwrap();
        });
        is_locked.recv().unwrap();
        let late = api.post("/api/v1/wallets", &json!({ "name": "late", "network": "regtest" }));
        free.send(()).unwrap();
        let error = late.bad(503, "timeout");
        assert!(error["message"].as_str().unwrap().contains("still carried out"), "{error}");
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    while api.get("/api/v1/wallets/late").status != 200 {
        assert!(Instant::now() < deadline, "the wallet was never made");
        thread::sleep(Duration::from_millis(20));
    }
}
