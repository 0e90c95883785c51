//! `utxokeep serve` with a wallet ledger and nothing else, as a user runs it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use utxokeep::grpc::proto::{self, wallets_client::WalletsClient, wallets_server::SERVICE_NAME};

use crate::wallet_grpc::world::create;

const PATIENCE: Duration = Duration::from_secs(60);

struct Program {
    child: Child,
    /// What it said before it listened.
    said: String,
    grpc: String,
    rest: String,
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

impl Program {
    fn start(dir: &Path, config: &str) -> Self {
        let file = dir.join("config.toml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_utxokeep"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]);
        command.arg("--config").arg(&file).arg("--data").arg(dir.join("chain"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut said, mut grpc, mut rest) = (String::new(), None, None);
        while grpc.is_none() || rest.is_none() {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "ended early: {said}");
            grpc = grpc.or(line.split_once("gRPC on ").map(|(_, text)| address(text)));
            rest = rest.or(line.split_once("http://").map(|(_, text)| address(text)));
            said.push_str(&line);
        }
        // Read on, so that the program never waits for us.
        std::thread::spawn(move || stderr.read_to_string(&mut String::new()));
        Self { child, said, grpc: grpc.unwrap(), rest: rest.unwrap() }
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.rest).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        endpoint.connect().await.unwrap()
    }

    fn terminate(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "still running after SIGTERM");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn wallets_are_served_without_a_chain_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[wallet]\nurl = \"sqlite:{}\"\n", dir.path().join("w.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let program = Program::start(dir.path(), &config);
    assert!(program.said.contains("serving wallets over gRPC on"), "{}", program.said);
    runtime.block_on(async {
        let channel = program.channel().await;
        WalletsClient::new(channel.clone()).create_wallet(create("savings")).await.unwrap();
        let request = HealthCheckRequest { service: SERVICE_NAME.to_owned() };
        let health = HealthClient::new(channel).check(request).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving);
    });
    let metrics = program.metrics();
    let line = "utxokeep_grpc_calls_total{method=\"Wallets/CreateWallet\",code=\"OK\"} 1";
    assert!(metrics.contains(line), "{line} is missing in {metrics}");
    program.terminate();

    let program = Program::start(dir.path(), &config);
    let found = runtime.block_on(async {
        let mut client = WalletsClient::new(program.channel().await);
        let request = proto::GetWalletRequest { wallet: "savings".to_owned() };
        client.get_wallet(request).await.unwrap().into_inner()
    });
    assert_eq!(found.wallet.unwrap().name, "savings");
    assert_eq!(found.tip, None);
    program.terminate();
}
