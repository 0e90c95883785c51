//! The program, as a user runs it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use utxokeep::grpc::proto::{
    self, chain_events_client::ChainEventsClient, pruner_client::PrunerClient,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Somebody with a store and a configuration.
pub(crate) struct User {
    pub(crate) home: TempDir,
    pub(crate) url: String,
}

impl User {
    /// A store of an engine, with this in `[pruner]`.
    pub(crate) fn new(engine: &str, pruner: &str) -> Self {
        let home = TempDir::new().unwrap();
        let url = format!("{engine}:{}", home.path().join("store").display());
        let user = Self { home, url };
        user.configure(pruner);
        user
    }

    pub(crate) fn configure(&self, pruner: &str) {
        let text = format!("[txstore]\nurl = {:?}\nfsync = false\n[pruner]\n{pruner}\n", self.url);
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.home.path().join("utxokeep.toml")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_utxokeep"));
        command.args(args).arg("--config").arg(self.config());
        command.arg("--data").arg(self.home.path().join("chain"));
        command.current_dir(self.home.path()).env_remove("UTXOKEEP_LOG");
        command
    }

    /// Exit code, stdout and stderr of a command.
    pub(crate) fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// The answer of a command that must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let (code, out, told) = self.run(&[args, &["--json"]].concat());
        assert_eq!(code, Some(0), "{args:?}: {told}");
        serde_json::from_str(&out).unwrap()
    }

    pub(crate) fn serve(&self) -> Program {
        let args = ["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"];
        Program::start(self.command(&args))
    }
}

/// A server that runs.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) grpc: String,
    rest: String,
    pub(crate) runtime: Runtime,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address at the start of a text.
fn address(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect()
}

impl Program {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut seen, mut grpc, mut rest) = (String::new(), None, None);
        while grpc.is_none() || rest.is_none() {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "ended early: {seen}");
            grpc = grpc.or(line.split_once("gRPC on ").map(|(_, text)| address(text)));
            rest = rest.or(line.split_once("http://").map(|(_, text)| address(text)));
            seen.push_str(&line);
        }
        // Read on, so that the program never waits for us.
        std::thread::spawn(move || stderr.read_to_string(&mut String::new()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self { child, grpc: grpc.unwrap(), rest: rest.unwrap(), runtime }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.rest).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// What is answered, without its head.
    pub(crate) fn body(&self, path: &str) -> String {
        let answer = self.get(path);
        answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned())
    }

    pub(crate) fn grpc_url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.grpc_url()).unwrap();
        let _inside = self.runtime.enter();
        endpoint.connect_lazy()
    }

    pub(crate) fn status(&self) -> proto::PrunerStatusResponse {
        let mut client = PrunerClient::new(self.channel());
        let answer = self.runtime.block_on(client.status(proto::PrunerStatusRequest {}));
        answer.unwrap().into_inner()
    }

    /// The node reports a block, and where that jumps an operator agrees.
    pub(crate) fn block(&self, height: u32) {
        if self.one_block(height).held_height.is_some() {
            let mut client = PrunerClient::new(self.channel());
            let request = proto::PrunerConfirmHeightRequest { height };
            self.runtime.block_on(client.confirm_height(request)).unwrap();
        }
    }

    /// The node reports a block.
    pub(crate) fn one_block(&self, height: u32) -> proto::ChainEventsBlockResponse {
        let mut client = ChainEventsClient::new(self.channel());
        let request =
            proto::ChainEventsBlockRequest { height, mined_set_height: None, is_catching_up: None };
        self.runtime.block_on(client.block(request)).unwrap().into_inner()
    }

    pub(crate) fn persisted(&self, height: u32) {
        let mut client = ChainEventsClient::new(self.channel());
        let request = proto::ChainEventsBlockPersistedRequest { height };
        self.runtime.block_on(client.block_persisted(request)).unwrap();
    }

    pub(crate) fn assembly(&self, is_running: bool, height: u32) {
        let mut client = ChainEventsClient::new(self.channel());
        let request = proto::ChainEventsAssemblyStateRequest { is_running, height };
        self.runtime.block_on(client.assembly_state(request)).unwrap();
    }

    /// Waits until a height is complete.
    pub(crate) fn wait_for(&self, height: u32) {
        until("the run is complete", || self.status().completed_height >= Some(height));
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Ends the program as a supervisor would; answers how long it took.
    pub(crate) fn terminate(mut self) -> Duration {
        let began = Instant::now();
        self.signal("TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        began.elapsed()
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Mines a short chain into a directory.
pub(crate) fn mine(data: &Path, blocks: u32) {
    let output = Command::new(env!("CARGO_BIN_EXE_utxokeep"))
        .args(["demo", "--listen", "127.0.0.1:0", "--blocks-per-second", "100000"])
        .args(["--blocks", &blocks.to_string()])
        .arg("--data")
        .arg(data)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
