//! Compiles the gRPC contract. `protox` does it, so that no `protoc` is needed.

use std::error::Error;

/// Where the contract is, seen from this crate.
const PROTO_DIR: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO_DIR}");
    let contract = ["txstore", "pruner", "wallet"].map(|name| format!("utxokeep/v1/{name}.proto"));
    let files = protox::compile(contract, [PROTO_DIR])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
