//! A transaction from its bytes: as nodes send it, or extended with what its inputs spend (BIP-239).

use sha2::{Digest, Sha256};

use super::tx::{NodeInput, NodeOutput, NodeTx, PreviousOutput, varint};
use crate::types::{OutPoint, Txid};

/// Where an ordinary transaction has the number of its inputs, an extended one has this.
const EXTENDED: [u8; 6] = [0, 0, 0, 0, 0, 0xef];

/// Shortest input and output: no list is longer than the bytes that are left allow.
const INPUT_BYTES_MIN: usize = 41;
const OUTPUT_BYTES_MIN: usize = 9;

/// Why bytes are no transaction that the node store takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RawTxError {
    /// They end in the middle.
    #[error("the bytes end before the transaction does")]
    Truncated,
    /// There are more of them.
    #[error("{0} bytes follow the transaction")]
    Trailing(usize),
    /// It has witnesses, which would be lost.
    #[error("it has witnesses, which the node store does not keep; send it without them")]
    Witness,
    /// It has no inputs.
    #[error("it has no inputs")]
    NoInputs,
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn bytes(&mut self, len: usize) -> Result<&'b [u8], RawTxError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(RawTxError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RawTxError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(RawTxError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn u32(&mut self) -> Result<u32, RawTxError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, RawTxError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length; one that does not fit in memory is longer than what is left.
    fn len(&mut self) -> Result<usize, RawTxError> {
        let [first] = self.array()?;
        let len = match first {
            0xfd => u64::from(u16::from_le_bytes(self.array()?)),
            0xfe => u64::from(u32::from_le_bytes(self.array()?)),
            0xff => u64::from_le_bytes(self.array()?),
            short => u64::from(short),
        };
        usize::try_from(len).map_err(|_| RawTxError::Truncated)
    }

    fn script(&mut self) -> Result<Vec<u8>, RawTxError> {
        let len = self.len()?;
        Ok(self.bytes(len)?.to_vec())
    }

    /// What was read since `before`.
    fn since(&self, before: &'b [u8]) -> &'b [u8] {
        &before[..before.len() - self.rest.len()]
    }
}

impl NodeTx {
    /// A transaction from its bytes, extended or not. Its id is computed from those that it would
    /// have if it were not extended.
    pub fn from_raw(bytes: &[u8]) -> Result<Self, RawTxError> {
        let mut reader = Reader { rest: bytes };
        let mut hasher = Sha256::new();
        let version = reader.u32()?;
        hasher.update(version.to_le_bytes());
        let is_extended = reader.rest.starts_with(&EXTENDED);
        if is_extended {
            reader.bytes(EXTENDED.len())?;
        }
        let before = reader.rest;
        let count = reader.len()?;
        if count == 0 {
            let is_witness = !is_extended && reader.rest.first() == Some(&1);
            return Err(if is_witness { RawTxError::Witness } else { RawTxError::NoInputs });
        }
        hasher.update(reader.since(before));
        let mut inputs = Vec::with_capacity(count.min(reader.rest.len() / INPUT_BYTES_MIN));
        for _ in 0..count {
            let before = reader.rest;
            let outpoint = OutPoint::new(Txid::from_bytes(reader.array()?), reader.u32()?);
            let (script, sequence) = (reader.script()?, reader.u32()?);
            hasher.update(reader.since(before));
            let previous = if is_extended {
                let (satoshis, script) = (reader.u64()?, reader.script()?);
                Some(PreviousOutput { satoshis, script })
            } else {
                None
            };
            inputs.push(NodeInput { outpoint, script, sequence, previous });
        }
        let before = reader.rest;
        let count = reader.len()?;
        let mut outputs = Vec::with_capacity(count.min(reader.rest.len() / OUTPUT_BYTES_MIN));
        for _ in 0..count {
            let (satoshis, script) = (reader.u64()?, reader.script()?);
            outputs.push(NodeOutput { satoshis, script });
        }
        let lock_time = reader.u32()?;
        hasher.update(reader.since(before));
        if !reader.rest.is_empty() {
            return Err(RawTxError::Trailing(reader.rest.len()));
        }
        let nothing = OutPoint::new(Txid::from_bytes([0; 32]), u32::MAX);
        let is_coinbase = matches!(&inputs[..], [only] if only.outpoint == nothing);
        let txid = Txid::from_bytes(Sha256::digest(hasher.finalize()).into());
        Ok(Self { txid, version, lock_time, is_coinbase, inputs, outputs })
    }

    /// The id that its bytes have, which is that of [`NodeTx::from_raw`]. Whoever stores a transaction
    /// may name it otherwise.
    #[must_use]
    pub fn hashed_txid(&self) -> Txid {
        let mut hasher = Sha256::new();
        let put_script = |hasher: &mut Sha256, script: &[u8]| {
            hasher.update(varint(script.len() as u64));
            hasher.update(script);
        };
        hasher.update(self.version.to_le_bytes());
        hasher.update(varint(self.inputs.len() as u64));
        for input in &self.inputs {
            hasher.update(input.outpoint.txid().as_bytes());
            hasher.update(input.outpoint.index().to_le_bytes());
            put_script(&mut hasher, &input.script);
            hasher.update(input.sequence.to_le_bytes());
        }
        hasher.update(varint(self.outputs.len() as u64));
        for output in &self.outputs {
            hasher.update(output.satoshis.to_le_bytes());
            put_script(&mut hasher, &output.script);
        }
        hasher.update(self.lock_time.to_le_bytes());
        Txid::from_bytes(Sha256::digest(hasher.finalize()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex_decode;

    #[test]
    fn the_id_is_hashed_from_the_parts_as_from_the_bytes() {
        for raw in [bytes(GENESIS), spending(false), spending(true)] {
            let mut tx = NodeTx::from_raw(&raw).unwrap();
            assert_eq!(tx.hashed_txid(), tx.txid);
            tx.inputs[0].script.push(1);
            assert_ne!(tx.hashed_txid(), tx.txid);
        }
    }

    /// The first transaction of Bitcoin.
    const GENESIS: &str = "01000000010000000000000000000000000000000000000000000000000000000000000000\
        ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63656c6c6f7220\
        6f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a01\
        000000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4\
        f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000";

    fn bytes(hex: &str) -> Vec<u8> {
        hex_decode(hex).unwrap()
    }

    /// Version, what marks it as extended, one input, what that spends, two outputs, lock time.
    fn spending(is_extended: bool) -> Vec<u8> {
        let extra = |hex: &str| if is_extended { bytes(hex) } else { Vec::new() };
        [
            bytes("02000000"),
            extra("0000000000ef"),
            bytes(&format!("01{}050000000151feffffff", "11".repeat(32))),
            extra("0a00000000000000026a51"),
            bytes("0207000000000000000151000000000000000002006a09000000"),
        ]
        .concat()
    }

    #[test]
    fn the_id_is_that_of_the_chain() {
        let tx = NodeTx::from_raw(&bytes(GENESIS)).unwrap();
        let id = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b";
        assert_eq!(tx.txid.to_reversed_hex(), id);
        assert!(tx.is_coinbase && tx.outputs[0].satoshis == 5_000_000_000);
    }

    #[test]
    fn an_extended_transaction_has_the_same_id_and_says_what_it_spends() {
        let (plain, extended) = (spending(false), spending(true));
        let (plain, extended) =
            (NodeTx::from_raw(&plain).unwrap(), NodeTx::from_raw(&extended).unwrap());
        assert_eq!(plain.txid, extended.txid);
        assert_eq!((plain.fee(), extended.fee()), (None, Some(3)));
        let previous = PreviousOutput { satoshis: 10, script: vec![0x6a, 0x51] };
        assert_eq!(extended.inputs[0].previous, Some(previous));
        assert_eq!((extended.version, extended.lock_time, extended.is_coinbase), (2, 9, false));
        assert_eq!(extended.inputs[0].outpoint, OutPoint::new(Txid::from_bytes([0x11; 32]), 5));
        let outputs: Vec<u64> = extended.outputs.iter().map(|output| output.satoshis).collect();
        assert_eq!(outputs, [7, 0]);
    }

    #[test]
    fn what_is_no_transaction_is_refused_with_a_reason() {
        for raw in [spending(false), spending(true), bytes(GENESIS)] {
            for cut in 0..raw.len() {
                assert!(NodeTx::from_raw(&raw[..cut]).is_err());
            }
            let longer = [&raw[..], &[0]].concat();
            assert_eq!(NodeTx::from_raw(&longer), Err(RawTxError::Trailing(1)));
        }
        let refused = |hex: &str| NodeTx::from_raw(&bytes(hex)).unwrap_err();
        assert_eq!(refused("0100000000010102"), RawTxError::Witness);
        assert_eq!(refused("010000000000000000"), RawTxError::NoInputs);
        assert_eq!(refused("01000000ffffffffffffffffff"), RawTxError::Truncated, "many inputs");
    }
}
