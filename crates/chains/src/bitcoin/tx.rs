//! Single transactions: reading one from its bytes, and finding those of a block.

use std::ops::Range;

use ::bitcoin::{Transaction, TxIn, consensus::encode};
use utxokeep_core::{OutPoint, Txid, wallet::DecodedTx};

use super::{DecodeError, HEADER_LEN, reader::Reader};

/// Bytes of one transaction; as large as a block of standard rules gets.
pub const MAX_TX_BYTES: usize = 4_000_000;

/// Why bytes are no transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxDecodeError {
    /// More bytes than a block has room for.
    #[error("the transaction has {len} bytes, at most {MAX_TX_BYTES} are allowed")]
    TooLong {
        /// How many there are.
        len: usize,
    },
    /// The bytes end early, go on too long, or make no sense.
    #[error("the bytes are no transaction")]
    Malformed(#[source] encode::Error),
}

/// Reads a transaction, signed or not.
pub fn decode_tx(raw: &[u8]) -> Result<DecodedTx, TxDecodeError> {
    let tx = read_tx(raw)?;
    let is_coinbase = tx.is_coinbase();
    let inputs = if is_coinbase {
        Vec::new()
    } else {
        tx.input.iter().map(|input| outpoint_of(&input.previous_output)).collect()
    };
    let sequences = tx.input.iter().filter(|_| !is_coinbase);
    let sequences = sequences.map(|input| input.sequence.to_consensus_u32()).collect();
    let outputs = tx
        .output
        .iter()
        .map(|output| (output.value.to_sat(), output.script_pubkey.to_bytes()))
        .collect();
    let is_signed = |input: &&TxIn| !input.script_sig.is_empty() || !input.witness.is_empty();
    let signed_inputs = tx.input.iter().filter(is_signed).count();
    let parts = |input: &TxIn| input.witness.iter().filter(|part| !part.is_empty()).count();
    let witness_parts = tx.input.iter().map(parts).sum();
    let txid = txid_of(&tx.compute_txid());
    Ok(DecodedTx {
        txid,
        inputs,
        outputs,
        is_coinbase,
        signed_inputs,
        witness_parts,
        sequences,
        lock_time: tx.lock_time.to_consensus_u32(),
        version: tx.version.0.cast_unsigned(),
    })
}

/// Where the transactions of a raw block lie in its bytes, in order.
pub fn tx_places(block: &[u8]) -> Result<Vec<Range<usize>>, DecodeError> {
    let mut reader = Reader::new(block, HEADER_LEN);
    let count = reader.count(1)?;
    let mut places = Vec::new();
    for _ in 0..count {
        let start = reader.offset();
        skip_tx(&mut reader)?;
        places.push(start..reader.offset());
    }
    Ok(places)
}

/// Passes one transaction of a block that was decoded before, so only lengths matter.
fn skip_tx(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let start = reader.offset();
    reader.skip(4)?;
    let mut inputs = reader.count(1)?;
    let has_witness = inputs == 0;
    if has_witness {
        if reader.u8()? != 1 {
            return Err(DecodeError::BadWitness { offset: start });
        }
        inputs = reader.count(1)?;
    }
    for _ in 0..inputs {
        reader.skip(36)?;
        reader.string()?;
        reader.skip(4)?;
    }
    for _ in 0..reader.count(1)? {
        reader.skip(8)?;
        reader.string()?;
    }
    for _ in 0..if has_witness { inputs } else { 0 } {
        for _ in 0..reader.count(1)? {
            reader.string()?;
        }
    }
    reader.skip(4)
}

pub(super) fn read_tx(raw: &[u8]) -> Result<Transaction, TxDecodeError> {
    if raw.len() > MAX_TX_BYTES {
        return Err(TxDecodeError::TooLong { len: raw.len() });
    }
    encode::deserialize(raw).map_err(TxDecodeError::Malformed)
}

pub(super) fn txid_of(txid: &::bitcoin::Txid) -> Txid {
    use ::bitcoin::hashes::Hash as _;
    Txid::from_bytes(txid.to_byte_array())
}

pub(super) fn outpoint_of(outpoint: &::bitcoin::OutPoint) -> OutPoint {
    OutPoint::new(txid_of(&outpoint.txid), outpoint.vout)
}

#[cfg(test)]
mod tests {
    use utxokeep_core::Network;

    use super::*;
    use crate::bitcoin::{decode_block, genesis_block};

    #[test]
    fn transactions_of_a_block_are_found_and_read() {
        let raw = genesis_block(Network::BitcoinRegtest);
        let places = tx_places(&raw).unwrap();
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].end, raw.len());
        let decoded = decode_tx(&raw[places[0].clone()]).unwrap();
        let block = decode_block(raw, Network::BitcoinRegtest).unwrap();
        assert_eq!(decoded.txid, block.txs[0].txid);
        assert!(decoded.is_coinbase && decoded.inputs.is_empty());
        assert_eq!(decoded.outputs[0].0, 5_000_000_000);
    }

    #[test]
    fn bytes_that_are_cut_off_or_too_many_are_refused() {
        let raw = genesis_block(Network::BitcoinRegtest);
        let place = tx_places(&raw).unwrap()[0].clone();
        for end in 0..raw.len() {
            assert!(tx_places(&raw[..end]).is_err(), "{end}");
        }
        assert!(decode_tx(&raw[place.start..place.end - 1]).is_err());
        assert!(decode_tx(&[&raw[place], &[0][..]].concat()).is_err());
        assert!(decode_tx(&vec![0; MAX_TX_BYTES + 1]).is_err());
    }
}
