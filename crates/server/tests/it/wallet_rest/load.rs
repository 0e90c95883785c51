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

use crate::{
    http::Reply,
    program::until,
    wallet_rest::client::{Api, FIRST, payment, texts},
};

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
fn slow_bodies_keep_nobody_out_and_end_after_a_while() {
    let rest = RestConfig {
        concurrent_requests_max: count(1),
        request_timeout_ms: count(3_000),
        ..RestConfig::default()
    };
    let api = Api::with(&rest, &WalletConfig::default());
    let head = "POST /api/v1/wallets HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: 50\r\n\
                Expect: 100-continue\r\n\r\n{\"name\"";
    let mut slow: Vec<TcpStream> = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(api.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // The server says this when it begins to read the body.
        let mut said = [0; 25];
        stream.read_exact(&mut said).unwrap();
        assert!(said.starts_with(b"HTTP/1.1 100 Continue"), "{said:?}");
        slow.push(stream);
    }
    assert_eq!(api.get("/api/v1/wallets").good()["items"], json!([]));
    let made = api.post("/api/v1/wallets", &json!({ "name": "w", "network": "regtest" }));
    assert_eq!(made.status, 201, "{made:?}");
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        Reply::parse(&answer).bad(408, "slow_body");
    }
}

#[test]
fn a_body_that_says_it_is_too_large_is_refused_before_it_comes() {
    let api = Api::with(&RestConfig::default(), &WalletConfig::default());
    let mut stream = TcpStream::connect(api.address).unwrap();
    let head = format!(
        "POST /api/v1/wallets HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 99999999999999\r\nConnection: close\r\n\r\n{{",
        api.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Reply::parse(&answer).bad(413, "body_too_large");
}

#[test]
fn requests_beyond_those_that_are_worked_on_are_told_to_come_back() {
    let rest = RestConfig { concurrent_requests_max: count(1), ..RestConfig::default() };
    let api = Api::with(&rest, &WalletConfig::default());
    let database = Database::open(&api.ledger_url(), &Options::default()).unwrap();
    let (locked, is_locked) = mpsc::channel();
    let (free, is_free) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let hold = database.write(|tx| {
                tx.execute("DELETE FROM wallets WHERE id < 0", &[])?;
                locked.send(()).unwrap();
                is_free.recv().unwrap();
                Ok::<_, SqlError>(())
            });
            hold.unwrap();
        });
        // Ends the hold when this thread panics, too.
        let free = free;
        is_locked.recv().unwrap();
        // The one place may be taken by a question below: then the write is sent again.
        let make = || loop {
            let reply = api.post("/api/v1/wallets", &json!({ "name": "w", "network": "regtest" }));
            if reply.status != 503 {
                break reply;
            }
        };
        let waiting = scope.spawn(make);
        let deadline = Instant::now() + Duration::from_secs(20);
        let refused = loop {
            let reply = api.get("/api/v1/wallets");
            if reply.status != 200 {
                break reply;
            }
            assert!(Instant::now() < deadline, "the write never took its place");
        };
        assert_eq!(api.get("/health").status, 200, "health answers under load");
        free.send(()).unwrap();
        refused.bad(503, "overloaded");
        assert!(refused.headers.contains("retry-after: 1"), "{refused:?}");
        assert_eq!(waiting.join().unwrap().status, 201);
    });
}

/// Makes every read of a wallet endless: there is no end to the chains that it may be on.
const ENDLESS: &str = "ALTER TABLE chains RENAME TO chains_kept;
    CREATE VIEW chains AS
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT chains_kept.* FROM n CROSS JOIN chains_kept WHERE n.i < 0";

#[test]
fn a_read_whose_client_hangs_up_ends_and_leaves_its_place_to_others() {
    let rest = RestConfig {
        concurrent_requests_max: count(1),
        request_timeout_ms: count(600_000),
        ..RestConfig::default()
    };
    let api = Api::with(&rest, &WalletConfig::default());
    api.wallet("w");
    let database = Database::open(&api.ledger_url(), &Options::default()).unwrap();
    database.write(|tx| tx.execute_batch(ENDLESS)).unwrap();
    // Needs a place like any other request, and no row.
    let is_place_free = || match api.get("/api/v1/wallets?cursor=x") {
        Reply { status: 400, .. } => true,
        refused => {
            refused.bad(503, "overloaded");
            false
        }
    };
    let ask = || {
        let mut client = TcpStream::connect(api.address).unwrap();
        client.write_all(b"GET /api/v1/wallets HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        client
    };
    let mut client = ask();
    let deadline = Instant::now() + Duration::from_secs(60);
    while is_place_free() {
        assert!(Instant::now() < deadline, "the read never took its place");
        thread::sleep(Duration::from_millis(20));
        // The question may have had the one place when the read came: then that was refused.
        client = ask();
    }
    drop(client);
    until("the place of a client that is gone is free", is_place_free);
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
