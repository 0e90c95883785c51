//! Decoded blocks as the ledger takes them.

use utxokeep_core::{
    Block, Tx, Txid,
    wallet::{Amount, AmountTooLarge},
};

use super::BlockBody;
use crate::{Credits, LedgerError, NewOutput, NewTx};

/// The transactions of a block, in order.
pub fn block_txs(body: &BlockBody) -> Result<Vec<NewTx>, LedgerError> {
    let mut txs = Vec::with_capacity(body.block.txs.len());
    for (at, tx) in body.block.txs.iter().enumerate() {
        let raw = body.tx_places.get(at).and_then(|place| body.block.bytes.get(place.clone()));
        txs.push(new_tx(&body.block, tx, raw)?);
    }
    Ok(txs)
}

fn new_tx(block: &Block, tx: &Tx, raw: Option<&[u8]>) -> Result<NewTx, LedgerError> {
    let inputs = block.inputs_of(tx).to_vec();
    Ok(NewTx {
        txid: id_of(block, tx),
        coinbase: inputs.is_empty(),
        inputs,
        outputs: outputs_of(block, tx)?,
        raw: raw.map(<[u8]>::to_vec),
        credits: Credits::Watched,
    })
}

/// Outputs that an era change removes are spent by no transaction; the block stands in for it, so
/// that two such removals differ.
fn id_of(block: &Block, tx: &Tx) -> Txid {
    if tx.is_ledger_rule && tx.txid == Txid::default() {
        Txid::from_bytes(*block.header.hash.as_bytes())
    } else {
        tx.txid
    }
}

/// All outputs in their places. Decoding leaves unspendable ones out; an empty script, which
/// nobody watches, stands for each, and the first holds their amounts, so that fees come out right.
fn outputs_of(block: &Block, tx: &Tx) -> Result<Vec<NewOutput>, AmountTooLarge> {
    let known = block.outputs_of(tx);
    let mut lost = known.iter().fold(tx.output_total, |rest, out| rest.saturating_sub(out.value));
    let mut outputs: Vec<NewOutput> = Vec::with_capacity(known.len() + 1);
    for output in known {
        while outputs.len() < usize::try_from(output.index).unwrap_or(usize::MAX) {
            outputs.push(unspendable(std::mem::take(&mut lost))?);
        }
        let script = block.address_of(output).to_vec();
        outputs.push(NewOutput { amount: Amount::new(output.value)?, script });
    }
    if lost > 0 {
        outputs.push(unspendable(lost)?);
    }
    Ok(outputs)
}

fn unspendable(amount: u64) -> Result<NewOutput, AmountTooLarge> {
    Ok(NewOutput { amount: Amount::new(amount)?, script: Vec::new() })
}
