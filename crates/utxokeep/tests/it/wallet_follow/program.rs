//! The program and its ledger, from outside.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use utxokeep::{config::WalletConfig, wallets::Wallets};
use utxokeep_core::{BlockHash, Height, Network, OpenMode};
use utxokeep_wallet::{
    CoinQuery, ConfirmationRange, HistoryQuery, HistoryScope, Ledger, Micros, WalletId,
};

pub(crate) const NOW: Micros = Micros::new(1_800_000_000_000_000);

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Directories and configuration of one test.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    pub(crate) url: String,
}

impl Place {
    /// A ledger in a file of its own.
    pub(crate) fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("wallet.db").display());
        Self { dir, url }
    }

    pub(crate) fn with_ledger(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::sqlite() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the configuration: where bodies are, and other sections.
    pub(crate) fn configure(&self, blocks: Option<&Path>, more: &str) {
        let blocks =
            blocks.map_or(String::new(), |path| format!("blocks = \"{}\"\n", path.display()));
        let wallet = format!("url = {:?}\nfsync = false\nfollow_poll_ms = 20\n", self.url);
        let text = format!("[wallet]\n{wallet}{blocks}{more}");
        fs::write(self.path("utxokeep.toml"), text).unwrap();
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_utxokeep"));
        command.args(words).arg("--data").arg(self.path("data"));
        command.arg("--config").arg(self.path("utxokeep.toml")).env_remove("UTXOKEEP_LOG");
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        output
    }

    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let config = WalletConfig { fsync: false, ..WalletConfig::default() };
        Wallets::open(&self.url, &config, OpenMode::Create).unwrap().ledger().clone()
    }

    pub(crate) fn serve(&self) -> Serving {
        Serving::start(self.command(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--grpc-listen",
            "127.0.0.1:0",
        ]))
    }
}

/// Confirmed unspent outputs.
pub(crate) fn coins(ledger: &Ledger, wallet: WalletId) -> BTreeSet<String> {
    let range = ConfirmationRange::at_least(1);
    let mut query = CoinQuery { range, ..CoinQuery::default() };
    let mut found = BTreeSet::new();
    loop {
        let page = ledger.coins(wallet, &query, NOW).unwrap();
        let Some(last) = page.last() else { return found };
        query.after = Some((last.amount, last.outpoint));
        found.extend(page.iter().map(|coin| {
            format!("{} {} {:?} {}", coin.outpoint, coin.amount, coin.height, coin.coinbase)
        }));
    }
}

/// Outputs in blocks that no block has spent. Transactions that have left the chain are left out:
/// they wait for another block, and hold what they spend.
pub(crate) fn chain_coins(ledger: &Ledger, wallet: WalletId) -> BTreeSet<String> {
    let mut confirmed = BTreeSet::new();
    let scope = HistoryScope::Heights(Height::GENESIS, Height::new(u32::MAX));
    let mut query = HistoryQuery { scope, ..HistoryQuery::default() };
    loop {
        let page = ledger.history(wallet, &query).unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(last.cursor);
        confirmed.extend(page.iter().map(|tx| tx.txid));
    }
    let (mut found, mut after) = (BTreeSet::new(), 0);
    loop {
        let page = ledger.outputs_to_watch(wallet, after, 1_000).unwrap();
        let Some(last) = page.last() else { return found };
        after = last.id;
        let page = page.iter().filter(|output| confirmed.contains(output.outpoint.txid()));
        found.extend(page.map(|output| format!("{} {}", output.outpoint, output.amount)));
    }
}

/// Waits until a ledger has this tip.
pub(crate) fn wait_for_tip(ledger: &Ledger, network: Network, tip: (u32, BlockHash)) {
    let tip = Some((Height::new(tip.0), tip.1));
    let started = Instant::now();
    while ledger.tip(network).unwrap() != tip {
        let found = ledger.tip(network).unwrap();
        assert!(started.elapsed() < PATIENCE, "the ledger is at {found:?}, not at {tip:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A running `serve`, killed when the test ends early.
pub(crate) struct Serving {
    child: Child,
    address: String,
    /// What requests send as `Authorization`.
    token: String,
    log: Arc<Mutex<String>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        let address = loop {
            let before = seen.len();
            assert!(stderr.read_line(&mut seen).unwrap() > 0, "ended early: {seen}");
            if let Some((_, rest)) = seen[before..].split_once("http://") {
                let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
                break rest[..end.unwrap_or(rest.len())].to_owned();
            }
        };
        let file = seen.lines().find_map(|line| line.split_once("access token in ")).unwrap().1;
        let token = fs::read_to_string(file).unwrap().trim_end().to_owned();
        let log = Arc::new(Mutex::new(seen));
        let grows = Arc::clone(&log);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                grows.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, address, token, log }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = self.head("GET", path);
        write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn head(&self, method: &str, path: &str) -> String {
        let token = &self.token;
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n")
    }

    pub(crate) fn post(&self, path: &str, json: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = self.head("POST", path) + "Content-Type: application/json\r\n";
        let length = json.len();
        write!(stream, "{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{json}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The value of a metric; labels are part of the name.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let page = self.get("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.trim().parse().unwrap())
    }

    pub(crate) fn wait_for_metric(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        let started = Instant::now();
        while !self.metric(name).is_some_and(&wanted) {
            assert!(started.elapsed() < PATIENCE, "{name}: {:?}", self.metric(name));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until health says so.
    pub(crate) fn wait_for_health(&self, status: &str) {
        let wanted = format!("{{\"status\":\"{status}\"");
        let started = Instant::now();
        while !self.get("/health").contains(&wanted) {
            assert!(started.elapsed() < PATIENCE, "{}", self.get("/health"));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks it to stop, and answers how long that took.
    pub(crate) fn stop(mut self) -> Duration {
        let id = self.child.id().to_string();
        let started = Instant::now();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.log());
        started.elapsed()
    }

    /// SIGKILL, which leaves no time for anything.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
