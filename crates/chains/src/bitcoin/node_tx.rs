//! Transactions of a block as the node store takes them: without witnesses.

use ::bitcoin::Transaction;
use utxokeep_core::{
    Txid,
    node::{NodeInput, NodeOutput, NodeTx},
};

use super::{
    DecodeError,
    tx::{TxDecodeError, outpoint_of, read_tx, tx_places, txid_of},
};

/// Why the transactions of a block could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeTxsError {
    /// The block is damaged.
    #[error("the block is damaged")]
    Block(#[from] DecodeError),
    /// A transaction of it is damaged.
    #[error("transaction {at} of the block is damaged")]
    Tx {
        /// Its position.
        at: usize,
        /// What is wrong with it.
        source: TxDecodeError,
    },
}

/// The transactions of a raw block, in order. The node store keeps no witnesses, so they are left
/// out; ids do not depend on them. What inputs spend is not in a block: `previous` is empty.
pub fn node_txs(block: &[u8]) -> Result<Vec<NodeTx>, NodeTxsError> {
    let places = tx_places(block)?;
    let read = |(at, place): (usize, std::ops::Range<usize>)| {
        let raw = block.get(place).unwrap_or_default();
        read_tx(raw).map(|tx| node_tx(&tx)).map_err(|source| NodeTxsError::Tx { at, source })
    };
    places.into_iter().enumerate().map(read).collect()
}

/// The id of the first transaction of a raw block.
pub fn coinbase_id(block: &[u8]) -> Result<Txid, NodeTxsError> {
    let first = tx_places(block)?.into_iter().next().unwrap_or_default();
    let raw = block.get(first).unwrap_or_default();
    let tx = read_tx(raw).map_err(|source| NodeTxsError::Tx { at: 0, source })?;
    Ok(txid_of(&tx.compute_txid()))
}

fn node_tx(tx: &Transaction) -> NodeTx {
    let inputs = tx.input.iter().map(|input| NodeInput {
        outpoint: outpoint_of(&input.previous_output),
        script: input.script_sig.to_bytes(),
        sequence: input.sequence.to_consensus_u32(),
        previous: None,
    });
    let outputs = tx.output.iter().map(|output| NodeOutput {
        satoshis: output.value.to_sat(),
        script: output.script_pubkey.to_bytes(),
    });
    NodeTx {
        txid: txid_of(&tx.compute_txid()),
        version: tx.version.0.cast_unsigned(),
        lock_time: tx.lock_time.to_consensus_u32(),
        is_coinbase: tx.is_coinbase(),
        inputs: inputs.collect(),
        outputs: outputs.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Simulator, SimulatorConfig, bitcoin::decode_block};

    #[test]
    fn transactions_of_a_block_keep_their_ids_without_their_witnesses() {
        let mut simulator = Simulator::new(SimulatorConfig::default());
        let mut spends = 0;
        for _ in 0..130 {
            let (_, raw) = simulator.mine_next();
            let block = decode_block(raw.clone(), Simulator::NETWORK).unwrap();
            let txs = node_txs(&raw).unwrap();
            assert_eq!(txs.len(), block.txs.len());
            assert_eq!(coinbase_id(&raw).unwrap(), txs[0].txid);
            for (tx, decoded) in txs.iter().zip(&block.txs) {
                assert_eq!((tx.txid, tx.hashed_txid()), (decoded.txid, decoded.txid));
                spends += tx.spends().count();
            }
            assert!(txs[0].is_coinbase && txs[1..].iter().all(|tx| !tx.is_coinbase));
        }
        assert!(spends > 100, "{spends} inputs");
    }

    #[test]
    fn a_block_that_is_cut_off_is_refused() {
        let (_, raw) = Simulator::new(SimulatorConfig::default()).mine_next();
        for end in 0..raw.len() {
            assert!(node_txs(&raw[..end]).is_err() && coinbase_id(&raw[..end]).is_err(), "{end}");
        }
    }
}
