//! `serve` with a wallet ledger and nothing else, as a user runs it.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use crate::client::exchange;

/// The program, killed when the test ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn serve_offers_wallets_without_a_chain_database() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("utxokeep.toml");
    let ledger = dir.path().join("ledger");
    let config = format!(
        "[wallet]\nurl = \"sqlite:{}\"\n[grpc]\nlisten = \"127.0.0.1:0\"\n",
        ledger.display()
    );
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_utxokeep"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    command.arg("--data").arg(dir.path().join("none")).env_remove("UTXOKEEP_CONFIG");
    let mut running = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut stderr = BufReader::new(running.0.stderr.take().unwrap());
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
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        exchange(address, request.as_bytes())
    };
    assert_eq!(get("/api/v1/wallets").good()["items"], serde_json::json!([]));
    assert_eq!(get("/health").json()["dependencies"][0]["name"], "wallet_ledger");
    assert!(get("/docs/").text.contains("swagger-ui"));
    assert!(get("/openapi.json").json()["paths"]["/api/v1/wallets"]["post"].is_object());
    assert!(get("/metrics").text.contains("utxokeep_rest_requests_total"));
    get("/api/v1/status").bad(404, "unknown_route");

    let id = running.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    assert!(running.0.wait().unwrap().success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("stopped"), "{rest}");
}
