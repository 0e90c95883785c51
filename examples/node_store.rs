//! A transaction spent once, and refused the second time: `example-node-store URL`.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::{env, error::Error};

use utxokeep::{config::Config, engine::Engine};
use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, NodeInput, NodeOutput, NodeTx, PreviousOutput, SpendFlags, SpendRequest,
    },
};
use utxokeep_txstore::TxStore as _;

/// A transaction with one output, which spends the first output of another.
fn spending(parent: Txid, satoshis: u64, id: u8) -> NodeTx {
    let previous = Some(PreviousOutput { satoshis, script: vec![0x51] });
    let outpoint = OutPoint::new(parent, 0);
    NodeTx {
        txid: Txid::from_bytes([id; 32]),
        version: 2,
        lock_time: 0,
        is_coinbase: false,
        inputs: vec![NodeInput { outpoint, script: Vec::new(), sequence: u32::MAX, previous }],
        outputs: vec![NodeOutput { satoshis, script: vec![0x51] }],
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::default();
    config.txstore.url = env::args().nth(1).ok_or("URL is missing, such as rocksdb:DIR")?;
    config.pruner.enabled = false;
    let engine = Engine::open(&config)?;
    let store = engine.node_store().ok_or("the configuration names a store")?;

    let height = Height::new(101);
    let parent = spending(Txid::from_bytes([0xaa; 32]), 5_000, 1);
    let options = CreateOptions::default();
    for stored in store.create(&[(parent.clone(), options)], height)? {
        stored?;
    }
    for id in [2, 3] {
        let spend =
            SpendRequest::of(&spending(parent.txid, 5_000, id), height, SpendFlags::default())?;
        for spent in store.spend(&[spend])? {
            match spent {
                Ok(_) => println!("{id} spends the output"),
                Err(refused) => println!("{id} is refused: {refused}"),
            }
        }
    }
    Ok(())
}
