//! A server in this process, and a client that speaks HTTP to it.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};
use utxokeep::{
    config::{RestConfig, WalletConfig},
    wallets::Wallets,
};
use utxokeep_server::{
    access::RestAccess,
    doors::Doors,
    rest::{WalletState, router_of, serve_routes},
};

use crate::http::{Reply, exchange, request};

/// Keys that nobody holds secrets of.
pub(crate) const DESCRIPTOR: &str = "wpkh([0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ/<0;1>/*)";

/// Somebody else's script.
pub(crate) const ELSEWHERE: &str = "0014751e76e8199196d454941c45d1b3a323f1433bd6";

/// A server of a ledger, gone with the value.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    _runtime: Runtime,
    dir: Option<TempDir>,
}

impl Api {
    /// Serves a new ledger in a file.
    pub(crate) fn new() -> Self {
        Self::with(&RestConfig::default(), &WalletConfig::default())
    }

    /// Serves a new ledger to those who may use it.
    pub(crate) fn guarded(access: RestAccess) -> Self {
        let dir = TempDir::new().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger").display());
        let (rest, wallet) = (RestConfig::default(), WalletConfig::default());
        Self { dir: Some(dir), ..Self::start(&url, &rest, &wallet, access) }
    }

    pub(crate) fn with(rest: &RestConfig, wallet: &WalletConfig) -> Self {
        let dir = TempDir::new().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger").display());
        Self { dir: Some(dir), ..Self::over(&url, rest, wallet) }
    }

    /// Serves the ledger at a place.
    pub(crate) fn over(url: &str, rest: &RestConfig, wallet: &WalletConfig) -> Self {
        Self::start(url, rest, wallet, RestAccess::default())
    }

    fn start(url: &str, rest: &RestConfig, wallet: &WalletConfig, access: RestAccess) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let wallets = Wallets::open(url, wallet, utxokeep_core::OpenMode::Create).unwrap();
        let routes = router_of(None, Some(WalletState::new(wallets, rest)), None, Vec::new());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let doors = Doors::new(rest.connections_max, rest.idle_secs_max);
        runtime.spawn(serve_routes(listener, routes, access, doors, std::future::pending()));
        Self { address, _runtime: runtime, dir: None }
    }

    /// URL of the ledger in a file.
    pub(crate) fn ledger_url(&self) -> String {
        let dir = self.dir.as_ref().unwrap();
        format!("sqlite:{}", dir.path().join("ledger").display())
    }

    pub(crate) fn send(&self, method: &str, path: &str, kind: &str, body: &str) -> Reply {
        self.send_with(method, path, kind, body, "")
    }

    /// Posts JSON with more lines in the header.
    pub(crate) fn post_with(&self, path: &str, body: &Value, lines: &str) -> Reply {
        self.send_with("POST", path, "application/json", &body.to_string(), lines)
    }

    pub(crate) fn send_with(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &str,
        lines: &str,
    ) -> Reply {
        let kind =
            if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        exchange(self.address, request(method, path, &format!("{lines}{kind}"), body).as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", "")
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, "", "")
    }

    /// Posts without a body.
    pub(crate) fn post_bare(&self, path: &str) -> Reply {
        self.send("POST", path, "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, "application/json", &body.to_string())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, "application/json", &body.to_string())
    }

    /// Makes a wallet on regtest; answers where it is and the script of its first address.
    pub(crate) fn wallet(&self, name: &str) -> (String, String) {
        let made = self.post("/api/v1/wallets", &json!({ "name": name, "network": "regtest" }));
        assert_eq!(made.status, 201, "{made:?}");
        let path = format!("/api/v1/wallets/{name}");
        let add = json!({ "descriptor": DESCRIPTOR, "lookahead": 25 });
        let keychains = self.post(&format!("{path}/descriptors"), &add).good();
        let id = &keychains["items"][0]["id"];
        let next = self.post_bare(&format!("{path}/descriptors/{id}/next-address")).good();
        (path, next["script"].as_str().unwrap().to_owned())
    }

    /// Applies a block of regtest on top of the one below.
    pub(crate) fn apply(&self, height: u32, transactions: &[Value]) -> Reply {
        let mut body = json!({ "block": block(height), "transactions": transactions });
        if height > FIRST {
            body["parent"] = block_hash(height - 1).into();
        }
        self.post("/api/v1/ledger/bitcoin/regtest/blocks", &body)
    }
}

/// The first block that tests apply.
pub(crate) const FIRST: u32 = 101;

pub(crate) fn block_hash(height: u32) -> String {
    format!("b10c{height:060}")
}

pub(crate) fn block(height: u32) -> Value {
    json!({ "height": height, "hash": block_hash(height), "time": 1_700_000_000 + height })
}

pub(crate) fn txid(number: u32) -> String {
    format!("{:064x}", 0xA000_0000_u32 + number)
}

/// A transaction of somebody else that pays these amounts to a script.
pub(crate) fn payment(number: u32, script: &str, amounts: &[u64]) -> Value {
    let outputs: Vec<Value> = amounts
        .iter()
        .map(|amount| json!({ "address": script, "amount": amount.to_string() }))
        .collect();
    json!({ "tx_hash": txid(number), "inputs": [format!("{}:0", txid(number + 500))], "outputs": outputs })
}

/// Texts of a field, of each row of a list.
pub(crate) fn texts(list: &Value, field: &str) -> Vec<String> {
    let rows = list.as_array().unwrap();
    rows.iter().map(|row| row[field].as_str().unwrap().to_owned()).collect()
}
