//! `serve` with a wallet ledger and nothing else, as a user runs it.

use std::{fs, path::Path, process::Command};

use crate::program::{Serving, utxokeep};

/// The command that serves the ledger of a directory, with more settings.
pub(crate) fn serve(dir: &Path, settings: &str) -> Command {
    let file = dir.join("utxokeep.toml");
    let ledger = dir.join("ledger");
    let config = format!(
        "[wallet]\nurl = \"sqlite:{}\"\n[grpc]\nlisten = \"127.0.0.1:0\"\n{settings}",
        ledger.display()
    );
    fs::write(&file, config).unwrap();
    let mut command = utxokeep(&["serve", "--config"]);
    command.arg(&file).arg("--data").arg(dir.join("none"));
    command
}

/// Serves it, and says all there is to say.
pub(crate) fn start(dir: &Path, settings: &str) -> Serving {
    let mut command = serve(dir, settings);
    command.args(["-vvv", "--listen", "127.0.0.1:0"]);
    Serving::start(command)
}

#[test]
fn serve_offers_wallets_without_a_chain_database() {
    let dir = tempfile::tempdir().unwrap();
    let program = start(dir.path(), "");
    let get = |path: &str| program.send("GET", path, "", "");
    assert_eq!(program.ask("GET", "/api/v1/wallets", "").good()["items"], serde_json::json!([]));
    assert_eq!(get("/health").json()["dependencies"][0]["name"], "wallet_ledger");
    assert!(get("/docs/").text.contains("swagger-ui"));
    assert!(get("/openapi.json").json()["paths"]["/api/v1/wallets"]["post"].is_object());
    assert!(get("/metrics").text.contains("utxokeep_rest_requests_total"));
    get("/api/v1/status").bad(404, "unknown_route");
    let said = program.stop_by("INT");
    assert!(said.contains("stopped"), "{said}");
}
