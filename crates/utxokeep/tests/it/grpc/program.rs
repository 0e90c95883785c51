//! `utxokeep serve` with a node store, as a user runs it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tonic::transport::Endpoint;
use utxokeep::grpc::proto::{self, tx_store_client::TxStoreClient};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) grpc: String,
    pub(crate) rest: String,
    /// What it says on the way, to its end.
    said: Option<JoinHandle<String>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// The address at the start of a text.
fn address(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect()
}

pub(crate) fn serve(dir: &Path, config: &str) -> Command {
    let file = dir.join("config.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_utxokeep"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]);
    command.arg("--config").arg(&file).arg("--data").arg(dir.join("chain"));
    command
}

impl Program {
    fn start(dir: &Path, config: &str) -> Self {
        Self::start_with(serve(dir, config))
    }

    pub(crate) fn start_with(mut command: Command) -> Self {
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
        let said = thread::spawn(move || {
            stderr.read_to_string(&mut seen).unwrap();
            seen
        });
        Self { child, grpc: grpc.unwrap(), rest: rest.unwrap(), said: Some(said) }
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

    /// Sets the block state, if one is given, and reads it.
    pub(crate) fn block_state(&self, set: Option<proto::BlockState>) -> Option<proto::BlockState> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
            let mut client = TxStoreClient::new(endpoint.connect().await.unwrap());
            if let Some(state) = set {
                let request = proto::SetBlockStateRequest { state: Some(state) };
                client.set_block_state(request).await.unwrap();
            }
            let request = proto::GetBlockStateRequest {};
            client.get_block_state(request).await.unwrap().into_inner().state
        })
    }

    /// Waits until it ends by itself; answers its code and what it said.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "still running");
            thread::sleep(Duration::from_millis(20));
        }
        let said = self.said.take().unwrap().join().unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    pub(crate) fn terminate(self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        assert_eq!(self.ended().0, Some(0));
    }
}

#[test]
fn a_node_store_is_served_without_a_chain_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("node");
    let config = format!("[txstore]\nurl = \"rocksdb:{}\"\n", place.display());
    let program = Program::start(dir.path(), &config);
    assert_eq!(program.block_state(None), None);
    let state = proto::BlockState { height: 7, median_time: 8 };
    assert_eq!(program.block_state(Some(state)), Some(state));
    assert!(program.get("/health").contains(" 200 OK"));
    let metrics = program.get("/metrics");
    for line in [
        "utxokeep_grpc_calls_total{method=\"GetBlockState\",code=\"OK\"} 2",
        "utxokeep_grpc_call_seconds_count{method=\"SetBlockState\"} 1",
        "utxokeep_grpc_calls_in_flight{method=\"SetBlockState\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    assert!(program.get("/api/v1/chain/tip").contains(" 404 "), "there is no chain");

    let second = serve(dir.path(), &config).output().unwrap();
    assert_eq!(second.status.code(), Some(4), "{second:?}");
    assert!(stderr(&second).contains("in use"), "{second:?}");

    program.terminate();
    let program = Program::start(dir.path(), &config);
    assert_eq!(program.block_state(None), Some(state), "what was answered is on disk");
    program.terminate();
}

#[test]
fn mistakes_in_the_url_end_the_program_with_what_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        serve(dir.path(), "[txstore]\nurl = \"oracle://me:secret@host\"").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("rocksdb:DIR"), "{output:?}");
    assert!(!stderr(&output).contains("secret"), "{output:?}");
    let output = serve(dir.path(), "").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "neither store nor chain: {output:?}");
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
