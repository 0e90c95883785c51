//! A real Bitcoin Core on regtest for tests: started in a directory of its own, mined on by RPC,
//! stopped, killed and started again. [`NodeProxy`] stands between a node and a client, and cuts off
//! or changes what the node says.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod http;
mod proxy;

use std::{
    collections::BTreeSet,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use utxokeep_core::{Txid, hex_encode};

use crate::open_coins::{OpenCoin, OpenTx, open_script};

pub use proxy::NodeProxy;

/// Names the program; `scripts/cargo` sets it once `make bitcoind` has built one.
const PROGRAM: &str = "UTXOKEEP_BITCOIND";

/// Set to make a missing bitcoind a failure in place of a skip.
const REQUIRE: &str = "UTXOKEEP_REQUIRE_BITCOIND";

/// How long a node may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// The script of the mined coins: anyone can spend them.
const ANYONE_DESCRIPTOR: &str = "raw(51)#8lvh9jxk";

/// A node of its own, which ends with the value.
#[derive(Debug)]
pub struct Bitcoind {
    program: PathBuf,
    dir: TempDir,
    port: u16,
    arguments: Vec<String>,
    child: Option<Child>,
}

/// Count, amount and digest of a node's set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSet {
    /// Height of the tip.
    pub height: u64,
    /// Hash of the tip, as people write it.
    pub best_hash: String,
    /// Live outputs.
    pub outputs: u64,
    /// Their amounts together, in satoshi.
    pub amount: u64,
    /// `MuHash` of the set, as people write it.
    pub muhash: String,
}

impl Bitcoind {
    /// Starts a node with these arguments besides the usual. A test is skipped, with a message, where
    /// there is no bitcoind, unless `UTXOKEEP_REQUIRE_BITCOIND` is set.
    #[must_use]
    pub fn start_or_skip(arguments: &[&str]) -> Option<Self> {
        let Some(program) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
            let message = "there is no bitcoind: build one by 'make bitcoind'";
            crate::skipped("bitcoind", REQUIRE, message);
            return None;
        };
        let mut node = Self {
            program,
            dir: tempfile::tempdir().unwrap(),
            port: free_port(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            child: None,
        };
        node.start();
        Some(node)
    }

    /// Starts again after [`Bitcoind::stop`] or [`Bitcoind::kill`].
    pub fn start(&mut self) {
        let started = Instant::now();
        loop {
            self.spawn();
            loop {
                if self.try_rpc("getblockchaininfo", &json!([])).is_ok() {
                    return;
                }
                assert!(started.elapsed() < PATIENCE, "bitcoind did not start: {}", self.log());
                let ended = self.child.as_mut().unwrap().try_wait().unwrap();
                if ended.is_some() {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
            // Another process may have taken the port.
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Starts again with other arguments.
    pub fn start_with(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.start();
    }

    fn spawn(&mut self) {
        // When the thread of the test dies, so does the node.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&self.program)
            .arg(format!("-datadir={}", self.dir.path().display()))
            .arg(format!("-rpcport={}", self.port))
            .args(["-regtest", "-server", "-listen=0", "-dnsseed=0", "-fixedseeds=0"])
            .args(["-dbcache=4", "-par=1", "-printtoconsole=0", "-persistmempool=0"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("bitcoind starts"));
    }

    /// Stops as an operator would, and waits for the end.
    pub fn stop(&mut self) {
        self.rpc("stop", &json!([]));
        let mut child = self.child.take().unwrap();
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < PATIENCE, "bitcoind did not stop");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the process: what it had not written is lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Port of RPC and REST.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// URL of RPC and REST.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The cookie.
    #[must_use]
    pub fn cookie_file(&self) -> PathBuf {
        self.network_dir().join(".cookie")
    }

    /// Directory of the block files.
    #[must_use]
    pub fn blocks_dir(&self) -> PathBuf {
        self.network_dir().join("blocks")
    }

    /// The data directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn network_dir(&self) -> PathBuf {
        self.dir.path().join("regtest")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.network_dir().join("debug.log")).unwrap_or_default()
    }

    /// Calls a method, which must succeed.
    pub fn rpc(&self, method: &str, params: &Value) -> Value {
        let answer = self.try_rpc(method, params);
        answer.unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// Calls a method.
    pub fn try_rpc(&self, method: &str, params: &Value) -> Result<Value, String> {
        let cookie = std::fs::read_to_string(self.cookie_file()).map_err(|e| e.to_string())?;
        let body = json!({ "id": 1, "method": method, "params": params }).to_string();
        let answer = http::post(self.port, cookie.trim(), &body).map_err(|e| e.to_string())?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|e| e.to_string())?;
        match answer.get("error") {
            None | Some(Value::Null) => Ok(answer["result"].clone()),
            Some(error) => Err(error.to_string()),
        }
    }

    /// Mines by a method. A block in the same second as one that was invalidated would be that block,
    /// which the node refuses: then its clock goes on a little.
    fn mine(&self, method: &str, params: &Value) -> Value {
        for seconds in 1..100 {
            match self.try_rpc(method, params) {
                Err(refused) if refused.contains("block not accepted") => {
                    let tip = self.rpc("getblockheader", &json!([self.best_hash()]));
                    let time = tip["time"].as_u64().unwrap() + 5 * seconds;
                    self.rpc("setmocktime", &json!([time]));
                }
                mined => return mined.unwrap_or_else(|error| panic!("{method}: {error}")),
            }
        }
        panic!("the node refuses every block that it mines")
    }

    /// Mines blocks whose coins anyone can spend; answers their hashes.
    pub fn generate(&self, blocks: usize) -> Vec<String> {
        let mined = self.mine("generatetodescriptor", &json!([blocks, ANYONE_DESCRIPTOR]));
        serde_json::from_value(mined).unwrap()
    }

    /// Mines coins that anyone can spend by the script of this number and that may be relayed, and
    /// enough blocks above them to make them mature.
    #[must_use]
    pub fn mine_open_coins(&self, number: u8, coins: usize) -> Vec<OpenCoin> {
        let script = hex_encode(&open_script(number));
        let described = self.rpc("getdescriptorinfo", &json!([format!("raw({script})")]));
        let descriptor = described["descriptor"].as_str().unwrap();
        let mined = self.mine("generatetodescriptor", &json!([coins, descriptor]));
        let mined: Vec<String> = serde_json::from_value(mined).unwrap();
        self.generate(100);
        let coin = |hash: &String| {
            let coinbase = &self.rpc("getblock", &json!([hash, 2]))["tx"][0];
            let txid = Txid::from_reversed_hex(coinbase["txid"].as_str().unwrap()).unwrap();
            OpenCoin::new(txid, 0, sat_of(&coinbase["vout"][0]["value"]), number)
        };
        mined.iter().map(coin).collect()
    }

    /// Sends a transaction to the node's mempool.
    pub fn send(&self, tx: &OpenTx) -> Txid {
        self.rpc("sendrawtransaction", &json!([hex_encode(&tx.raw())]));
        tx.txid()
    }

    /// What the mempool holds.
    #[must_use]
    pub fn mempool(&self) -> BTreeSet<Txid> {
        let listed = self.rpc("getrawmempool", &json!([]));
        let texts: Vec<String> = serde_json::from_value(listed).unwrap();
        texts.iter().map(|text| Txid::from_reversed_hex(text).unwrap()).collect()
    }

    /// Mines a block of these transactions, in hexadecimal; answers its hash.
    pub fn generate_block(&self, transactions: &[String]) -> String {
        let mined = self.mine("generateblock", &json!([ANYONE_DESCRIPTOR, transactions]));
        mined["hash"].as_str().unwrap().to_owned()
    }

    /// Makes a block of these transactions, in hexadecimal, and does not take it; answers its hash and
    /// its bytes, both in hexadecimal.
    #[must_use]
    pub fn make_block(&self, transactions: &[String]) -> (String, String) {
        let made = self.mine("generateblock", &json!([ANYONE_DESCRIPTOR, transactions, false]));
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("hash"), text("hex"))
    }

    /// Gives the node a block, which must become its tip.
    pub fn submit(&self, block: &str) {
        let answer = self.rpc("submitblock", &json!([block]));
        assert!(answer.is_null(), "the node refused a block: {answer}");
    }

    /// The block at a height, in hexadecimal.
    #[must_use]
    pub fn block_at(&self, height: u64) -> String {
        let block = self.rpc("getblock", &json!([self.hash_at(height), 0]));
        block.as_str().unwrap().to_owned()
    }

    /// The first transaction of the block at a height, in hexadecimal.
    #[must_use]
    pub fn coinbase_at(&self, height: u64) -> String {
        let block = self.rpc("getblock", &json!([self.hash_at(height)]));
        block["tx"][0].as_str().unwrap().to_owned()
    }

    /// Hash of the block at a height.
    #[must_use]
    pub fn hash_at(&self, height: u64) -> String {
        self.rpc("getblockhash", &json!([height])).as_str().unwrap().to_owned()
    }

    /// Height of the tip.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.rpc("getblockcount", &json!([])).as_u64().unwrap()
    }

    /// Hash of the tip.
    #[must_use]
    pub fn best_hash(&self) -> String {
        self.rpc("getbestblockhash", &json!([])).as_str().unwrap().to_owned()
    }

    /// Takes the block at a height and all above it off the chain.
    pub fn invalidate_from(&self, height: u64) -> String {
        let hash = self.hash_at(height);
        self.rpc("invalidateblock", &json!([hash]));
        hash
    }

    /// `gettxoutsetinfo` at the tip.
    #[must_use]
    pub fn set(&self) -> NodeSet {
        let info = self.rpc("gettxoutsetinfo", &json!(["muhash"]));
        NodeSet {
            height: info["height"].as_u64().unwrap(),
            best_hash: info["bestblock"].as_str().unwrap().to_owned(),
            outputs: info["txouts"].as_u64().unwrap(),
            amount: sat_of(&info["total_amount"]),
            muhash: info["muhash"].as_str().unwrap().to_owned(),
        }
    }
}

impl Drop for Bitcoind {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Satoshi of an amount in BTC. All there ever are fit in the digits of a floating-point number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "below 2^53 and positive"
)]
fn sat_of(amount: &Value) -> u64 {
    (amount.as_f64().unwrap() * 1e8).round() as u64
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
