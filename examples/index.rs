//! Blocks into a chain index, and who owns what: `example-index BLOCKS DATA OWNER`.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::{env, error::Error, path::PathBuf};

use utxokeep::{
    config::Config,
    engine::Engine,
    ops::chain::{Address, OwnerUtxos, UtxosRequest},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut next = |name| args.next().ok_or(format!("{name} is missing: BLOCKS DATA OWNER"));
    let (blocks, data, owner) = (next("BLOCKS")?, next("DATA")?, next("OWNER")?);

    let mut config = Config::default();
    config.chain.network = "regtest".into();
    config.storage.data = PathBuf::from(data);

    // Opening makes the database the first time; a second import resumes behind its last block.
    let engine = Engine::open(&config)?;
    let report = engine.import(&[PathBuf::from(blocks)])?;
    println!("{} blocks, {} reorganisations", report.connected, report.reorganisations);

    for utxo in engine.ask::<OwnerUtxos<Address>>(UtxosRequest::of(&owner))?.items {
        println!("{}:{} {}", utxo.tx_hash, utxo.output_index, utxo.amount);
    }
    Ok(())
}
