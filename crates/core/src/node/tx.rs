//! A transaction as the node store takes it.

use sha2::{Digest, Sha256};

use crate::types::{OutPoint, Txid};

/// What an input spends, as extended transactions carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousOutput {
    /// Its amount.
    pub satoshis: u64,
    /// Its locking script.
    pub script: Vec<u8>,
}

/// An input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInput {
    /// The output it spends.
    pub outpoint: OutPoint,
    /// Its unlocking script.
    pub script: Vec<u8>,
    /// Its sequence number.
    pub sequence: u32,
    /// What it spends, where the transaction is extended.
    pub previous: Option<PreviousOutput>,
}

/// An output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOutput {
    /// Its amount.
    pub satoshis: u64,
    /// Its locking script.
    pub script: Vec<u8>,
}

impl NodeOutput {
    /// Whether anybody could ever spend it: a data carrier without value cannot be.
    #[must_use]
    pub fn is_utxo(&self) -> bool {
        const OP_RETURN: u8 = 0x6a;
        let is_data = matches!(self.script.as_slice(), [OP_RETURN, ..] | [0, OP_RETURN, ..]);
        self.satoshis > 0 || !is_data
    }
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTx {
    /// Its id.
    pub txid: Txid,
    /// Its version.
    pub version: u32,
    /// Its lock time.
    pub lock_time: u32,
    /// Whether it creates new coins.
    pub is_coinbase: bool,
    /// Its inputs; a coinbase has one that spends nothing.
    pub inputs: Vec<NodeInput>,
    /// Its outputs.
    pub outputs: Vec<NodeOutput>,
}

impl NodeTx {
    /// Inputs that spend something.
    pub fn spends(&self) -> impl Iterator<Item = &NodeInput> {
        self.inputs.iter().filter(|_| !self.is_coinbase)
    }

    /// Inputs minus outputs, where every input says what it spends.
    #[must_use]
    pub fn fee(&self) -> Option<u64> {
        if self.is_coinbase || self.inputs.is_empty() {
            return Some(0);
        }
        let mut spent = 0u64;
        for input in &self.inputs {
            spent = spent.checked_add(input.previous.as_ref()?.satoshis)?;
        }
        let created = self.outputs.iter().try_fold(0u64, |sum, o| sum.checked_add(o.satoshis))?;
        Some(spent.saturating_sub(created))
    }

    /// Commitment to one output: SHA-256 over txid, index, script and amount.
    #[must_use]
    pub fn utxo_hash(&self, vout: u32) -> Option<[u8; 32]> {
        let output = self.outputs.get(vout as usize)?;
        Some(utxo_hash(&self.txid, vout, &output.script, output.satoshis))
    }
}

/// Commitment to an output: one SHA-256 over txid, index, script and amount; numbers in Bitcoin's
/// variable length.
#[must_use]
pub fn utxo_hash(txid: &Txid, vout: u32, script: &[u8], satoshis: u64) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(txid.as_bytes());
    hasher.update(varint(u64::from(vout)));
    hasher.update(script);
    hasher.update(varint(satoshis));
    hasher.finalize().into()
}

pub(super) fn varint(number: u64) -> Vec<u8> {
    let bytes = number.to_le_bytes();
    match number {
        0..=0xfc => vec![bytes[0]],
        0xfd..=0xffff => [&[0xfd], &bytes[..2]].concat(),
        0x1_0000..=0xffff_ffff => [&[0xfe], &bytes[..4]].concat(),
        _ => [&[0xff], bytes.as_slice()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_carriers_without_value_are_no_utxos() {
        let output = |satoshis, script: &[u8]| NodeOutput { satoshis, script: script.to_vec() };
        assert!(!output(0, &[0x6a, 1]).is_utxo() && !output(0, &[0, 0x6a]).is_utxo());
        assert!(output(1, &[0x6a]).is_utxo() && output(0, &[0x51]).is_utxo());
        assert!(output(0, &[]).is_utxo());
    }

    #[test]
    fn the_commitment_is_pinned() {
        let txid = Txid::from_bytes([1; 32]);
        let mut bytes = vec![1; 32];
        bytes.extend([0xfd, 0x2c, 0x01, 0x51, 0xfe, 0, 0, 1, 0]);
        let expected: [u8; 32] = Sha256::digest(&bytes).into();
        assert_eq!(utxo_hash(&txid, 300, &[0x51], 65_536), expected);
    }
}
