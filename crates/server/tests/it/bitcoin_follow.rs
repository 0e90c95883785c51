//! Following a real Bitcoin Core: through reorganisations, restarts and kill -9 of either side. After
//! each step count, amount and digest of the set are those of the node.

mod disk;
mod gone;
mod mempool;
mod program;
mod rounds;
mod stopping;

use serde_json::json;
use utxokeep_core::{BlockHash, OutPoint, Txid, hex_encode};
use utxokeep_index::ChainIndex;
use utxokeep_kv::Kv;
use utxokeep_testkit::{
    ANYONE, HandTx, NOBODY,
    bitcoind::{Bitcoind, NodeSet},
};

use crate::program::until;

/// Waits until an index ends where the node does, and compares the sets.
#[track_caller]
fn wait_for_node<K: Kv>(index: &ChainIndex<K>, node: &Bitcoind) {
    let expected = node.set();
    let tip = BlockHash::from_reversed_hex(&expected.best_hash).unwrap();
    let found = || index.view().unwrap().tip().map(|(_, entry)| entry.hash);
    until(&format!("the tip is {}", expected.best_hash), || found() == Some(tip));
    assert_eq!(set_of(index), expected);
}

/// The set of an index, read as a whole.
fn set_of<K: Kv>(index: &ChainIndex<K>) -> NodeSet {
    let digest = index.view().unwrap().digest(true).unwrap();
    NodeSet {
        height: digest.point.height.get().into(),
        best_hash: digest.point.hash.to_reversed_hex(),
        outputs: digest.totals.txouts,
        amount: digest.totals.total_amount,
        muhash: BlockHash::from_bytes(digest.muhash.unwrap()).to_reversed_hex(),
    }
}

/// Mines a block that spends the coinbase of the block at `height`, if nobody has; else an empty one.
fn mine_spend(node: &Bitcoind, height: u64, outputs: u64) {
    let block = node.rpc("getblock", &json!([node.hash_at(height), 2]));
    let coinbase = &block["tx"][0];
    let txid = Txid::from_reversed_hex(coinbase["txid"].as_str().unwrap()).unwrap();
    let coin = json!([coinbase["txid"], 0]);
    let found = node.rpc("gettxout", &coin);
    if found["confirmations"].as_u64().unwrap_or(0) < 100 {
        node.generate(1);
        return;
    }
    // Amounts of coinbases are whole satoshi, whatever the halving.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^53")]
    let amount = (found["value"].as_f64().unwrap() * 1e8).round() as u64;
    let mut tx = HandTx { inputs: vec![OutPoint::new(txid, 0)], outputs: Vec::new() };
    let share = amount / (outputs + 1);
    tx.outputs.extend((0..outputs).map(|_| (share, ANYONE.to_vec())));
    // Neither of these adds to the count in the same way: one is unspendable, one is worth nothing.
    tx.outputs.push((0, NOBODY.to_vec()));
    tx.outputs.push((0, Vec::new()));
    node.generate_block(&[hex_encode(&tx.raw())]);
}
