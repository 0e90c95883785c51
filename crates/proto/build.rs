//! Compiles the gRPC contract into messages and clients. `protox` does it, so that no `protoc` is
//! needed. Servers are made where they are implemented, from the same files: a build script of a
//! dependent finds them in `DEP_UTXOKEEP_PROTO_DIR`.

use std::{env, error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let dir = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("proto");
    println!("cargo::metadata=dir={}", dir.display());
    let contract = ["txstore", "pruner", "wallet", "chain", "stream"];
    let contract = contract.map(|name| format!("utxokeep/v1/{name}.proto"));
    let files = protox::compile(contract, [dir])?;
    tonic_prost_build::configure().build_server(false).compile_fds(files)?;
    Ok(())
}
