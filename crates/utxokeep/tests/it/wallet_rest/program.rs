//! `serve` with a wallet ledger and nothing else, as a user runs it.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
};

use crate::wallet_rest::client::{Reply, exchange};

/// The command that serves the ledger of a directory, with more settings.
pub(crate) fn serve(dir: &Path, settings: &str) -> Command {
    let file = dir.join("utxokeep.toml");
    let ledger = dir.join("ledger");
    let config = format!(
        "[wallet]\nurl = \"sqlite:{}\"\n[grpc]\nlisten = \"127.0.0.1:0\"\n{settings}",
        ledger.display()
    );
    fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_utxokeep"));
    command.args(["serve", "--config"]).arg(&file);
    command.arg("--data").arg(dir.join("none")).env_remove("UTXOKEEP_CONFIG");
    command.stderr(Stdio::piped());
    command
}

/// The program, killed when the test ends early.
pub(crate) struct Program {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// What it said before it answered.
    seen: String,
    pub(crate) address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    pub(crate) fn start(dir: &Path, settings: &str) -> Self {
        let mut child =
            serve(dir, settings).args(["-vvv", "--listen", "127.0.0.1:0"]).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "ended early: {seen}");
            seen.push_str(&line);
            if let Some((_, rest)) = line.split_once("wallets on http://") {
                let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c))).unwrap();
                break rest[..end].parse().unwrap();
            }
        };
        Self { child, stderr, seen, address }
    }

    /// The file that it says has the token.
    pub(crate) fn token_file(&self) -> PathBuf {
        let named = self.seen.lines().find_map(|line| line.split_once("access token in "));
        named.unwrap_or_else(|| panic!("{}", self.seen)).1.into()
    }

    pub(crate) fn token(&self) -> String {
        fs::read_to_string(self.token_file()).unwrap().trim_end().to_owned()
    }

    /// Sends a request with these lines in its header.
    pub(crate) fn send(&self, method: &str, path: &str, lines: &str, body: &str) -> Reply {
        let host = if lines.contains("Host: ") { "" } else { "Host: localhost\r\n" };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{lines}Content-Length: \
             {length}\r\n\r\n{body}"
        );
        exchange(self.address, request.as_bytes())
    }

    /// Sends a request with the token.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let lines = format!("Authorization: Bearer {}\r\n{kind}", self.token());
        self.send(method, path, &lines, body)
    }

    /// Stops it; answers all that it said.
    pub(crate) fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
        let mut said = std::mem::take(&mut self.seen);
        self.stderr.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

#[test]
fn serve_offers_wallets_without_a_chain_database() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::start(dir.path(), "");
    let get = |path: &str| program.send("GET", path, "", "");
    assert_eq!(program.ask("GET", "/api/v1/wallets", "").good()["items"], serde_json::json!([]));
    assert_eq!(get("/health").json()["dependencies"][0]["name"], "wallet_ledger");
    assert!(get("/docs/").text.contains("swagger-ui"));
    assert!(get("/openapi.json").json()["paths"]["/api/v1/wallets"]["post"].is_object());
    assert!(get("/metrics").text.contains("utxokeep_rest_requests_total"));
    get("/api/v1/status").bad(404, "unknown_route");
    let said = program.stop();
    assert!(said.contains("stopped"), "{said}");
}
