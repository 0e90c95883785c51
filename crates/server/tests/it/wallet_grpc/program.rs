//! `utxokeep serve` with a wallet ledger and nothing else, as a user runs it.

use std::path::Path;

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use utxokeep_server::grpc::{
    proto::{self, wallets_client::WalletsClient},
    services::wallets_server::SERVICE_NAME,
};

use crate::{grpc::program::serve, program::Serving, wallet_grpc::world::create};

fn start(dir: &Path, config: &str) -> Serving {
    Serving::start(serve(dir, config))
}

#[test]
fn wallets_are_served_without_a_chain_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[wallet]\nurl = \"sqlite:{}\"\n", dir.path().join("w.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let program = start(dir.path(), &config);
    assert!(program.log().contains("serving wallets over gRPC on"), "{}", program.log());
    runtime.block_on(async {
        let channel = program.channel().await;
        WalletsClient::new(channel.clone()).create_wallet(create("savings")).await.unwrap();
        let request = HealthCheckRequest { service: SERVICE_NAME.to_owned() };
        let health = HealthClient::new(channel).check(request).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving);
    });
    let metrics = program.get("/metrics");
    let line = "utxokeep_grpc_calls_total{method=\"Wallets/CreateWallet\",code=\"OK\"} 1";
    assert!(metrics.contains(line), "{line} is missing in {metrics}");
    program.stop();

    let program = start(dir.path(), &config);
    let found = runtime.block_on(async {
        let mut client = WalletsClient::new(program.channel().await);
        let request = proto::GetWalletRequest { wallet: "savings".to_owned() };
        client.get_wallet(request).await.unwrap().into_inner()
    });
    assert_eq!(found.wallet.unwrap().name, "savings");
    assert_eq!(found.tip, None);
    program.stop();
}
