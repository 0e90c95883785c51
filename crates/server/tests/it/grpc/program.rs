//! `utxokeep serve` with a node store, as a user runs it.

use std::{path::Path, process::Command};

use utxokeep_server::grpc::proto::{self, tx_store_client::TxStoreClient};

use crate::program::{Serving, told, utxokeep};

/// The command that serves with this configuration, and a chain database that need not exist.
pub(crate) fn serve(dir: &Path, config: &str) -> Command {
    let file = dir.join("config.toml");
    std::fs::write(&file, config).unwrap();
    let words = ["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"];
    let mut command = utxokeep(&words);
    command.arg("--config").arg(&file).arg("--data").arg(dir.join("chain"));
    command
}

/// Sets the block state, if one is given, and reads it.
fn block_state(program: &Serving, set: Option<proto::BlockState>) -> Option<proto::BlockState> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = TxStoreClient::new(program.channel().await);
        if let Some(state) = set {
            let request = proto::SetBlockStateRequest { state: Some(state) };
            client.set_block_state(request).await.unwrap();
        }
        let request = proto::GetBlockStateRequest {};
        client.get_block_state(request).await.unwrap().into_inner().state
    })
}

#[test]
fn a_node_store_is_served_without_a_chain_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("node");
    let config = format!("[txstore]\nurl = \"rocksdb:{}\"\n", place.display());
    let program = Serving::start(serve(dir.path(), &config));
    assert_eq!(block_state(&program, None), None);
    let state = proto::BlockState { height: 7, median_time: 8 };
    assert_eq!(block_state(&program, Some(state)), Some(state));
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
    assert!(told(&second).contains("in use"), "{second:?}");

    program.stop();
    let program = Serving::start(serve(dir.path(), &config));
    assert_eq!(block_state(&program, None), Some(state), "what was answered is on disk");
    program.stop();
}

#[test]
fn mistakes_in_the_url_end_the_program_with_what_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        serve(dir.path(), "[txstore]\nurl = \"oracle://me:secret@host\"").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(told(&output).contains("rocksdb:DIR"), "{output:?}");
    assert!(!told(&output).contains("secret"), "{output:?}");
    let output = serve(dir.path(), "").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "neither store nor chain: {output:?}");
}
