//! Bodies too large for a row, as files: `.tx` for a transaction, `.outputs` for one that spends
//! nothing and only brings outputs in.

use super::{
    output::OutputRecord,
    record::TxRecord,
    tx::{NodeInput, NodeOutput, NodeTx, PreviousOutput, varint},
};
use crate::{
    chain::record::Corrupt,
    types::{OutPoint, Txid},
};

const FILE: &str = "transaction file";

/// Stands where the number of inputs would be, in a transaction whose inputs say what they spend.
const EXTENDED: [u8; 6] = [0, 0, 0, 0, 0, 0xef];

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlobKind {
    /// A whole transaction.
    Tx,
    /// Outputs of a transaction without inputs.
    Outputs,
}

impl BlobKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Tx, Self::Outputs];

    /// Extension of the file's name.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Outputs => "outputs",
        }
    }

    /// How the file starts.
    #[must_use]
    pub const fn magic(self) -> [u8; 8] {
        match self {
            Self::Tx => *b"T-1.0   ",
            Self::Outputs => *b"O-1.0   ",
        }
    }
}

/// The file of a body. `None` if only some of its inputs say what they spend: no file holds that.
#[must_use]
pub fn encode_blob(tx: &NodeTx) -> Option<(BlobKind, Vec<u8>)> {
    let extended = tx.inputs.iter().filter(|input| input.previous.is_some()).count();
    if extended != 0 && extended != tx.inputs.len() {
        return None;
    }
    let kind = if tx.inputs.is_empty() { BlobKind::Outputs } else { BlobKind::Tx };
    let mut out = kind.magic().to_vec();
    match kind {
        BlobKind::Outputs => {
            out.extend(tx.txid.as_bytes());
            out.extend(tx.version.to_le_bytes());
            put_outputs(&mut out, tx);
        }
        BlobKind::Tx => {
            out.extend(tx.version.to_le_bytes());
            if extended > 0 {
                out.extend(EXTENDED);
            }
            out.extend(varint(tx.inputs.len() as u64));
            for input in &tx.inputs {
                put_input(&mut out, input);
            }
            put_outputs(&mut out, tx);
        }
    }
    out.extend(tx.lock_time.to_le_bytes());
    Some((kind, out))
}

fn put_input(out: &mut Vec<u8>, input: &NodeInput) {
    out.extend(input.outpoint.txid().as_bytes());
    out.extend(input.outpoint.index().to_le_bytes());
    put_script(out, &input.script);
    out.extend(input.sequence.to_le_bytes());
    if let Some(previous) = &input.previous {
        out.extend(previous.satoshis.to_le_bytes());
        put_script(out, &previous.script);
    }
}

fn put_outputs(out: &mut Vec<u8>, tx: &NodeTx) {
    out.extend(varint(tx.outputs.len() as u64));
    for output in &tx.outputs {
        out.extend(output.satoshis.to_le_bytes());
        put_script(out, &output.script);
    }
}

fn put_script(out: &mut Vec<u8>, script: &[u8]) {
    out.extend(varint(script.len() as u64));
    out.extend(script);
}

/// Inverse of [`encode_blob`]. Whether the transaction creates coins is not in the bytes: whoever
/// stored it may have said so against appearances.
pub fn decode_blob(
    txid: Txid,
    kind: BlobKind,
    is_coinbase: bool,
    bytes: &[u8],
) -> Result<NodeTx, Corrupt> {
    let mut rest = Rest(bytes);
    if rest.array::<8>()? != kind.magic() {
        return Err(Corrupt::new(FILE, "starts with other letters than its kind"));
    }
    if kind == BlobKind::Outputs && rest.array::<32>()? != *txid.as_bytes() {
        return Err(Corrupt::new(FILE, "belongs to another transaction"));
    }
    let version = rest.u32()?;
    let inputs = match kind {
        BlobKind::Outputs => Vec::new(),
        BlobKind::Tx => rest.inputs()?,
    };
    let mut outputs = Vec::new();
    for _ in 0..rest.varint()? {
        outputs.push(NodeOutput { satoshis: rest.u64()?, script: rest.script()? });
    }
    let lock_time = rest.u32()?;
    if !rest.0.is_empty() {
        return Err(Corrupt::new(FILE, "has bytes behind its end"));
    }
    Ok(NodeTx { txid, version, lock_time, is_coinbase, inputs, outputs })
}

/// Whether a body that was read from a file is the one that was stored, as far as its record and its
/// outputs can tell: each output that can be spent has to be what its record commits to.
pub fn check_body(
    tx: &NodeTx,
    record: &TxRecord,
    slots: &[(u32, OutputRecord)],
) -> Result<(), Corrupt> {
    if tx.outputs.len() != record.outputs as usize {
        return Err(Corrupt::new(FILE, "has another number of outputs than the record"));
    }
    for (vout, slot) in slots {
        let given = record.reassignments.iter().find(|given| given.vout == *vout);
        let expected = given.map_or(slot.hash, |given| given.old);
        if tx.utxo_hash(*vout) != Some(expected) {
            return Err(Corrupt::new(
                FILE,
                format!("output {vout} has another amount or script than was stored"),
            ));
        }
    }
    Ok(())
}

/// What is left to read. Every read ends at the end of the bytes.
struct Rest<'b>(&'b [u8]);

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(*head)
    }

    fn short() -> Corrupt {
        Corrupt::new(FILE, "ends too early")
    }

    fn u32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn varint(&mut self) -> Result<u64, Corrupt> {
        Ok(match self.array::<1>()?[0] {
            0xfd => u64::from(u16::from_le_bytes(self.array()?)),
            0xfe => u64::from(self.u32()?),
            0xff => self.u64()?,
            small => u64::from(small),
        })
    }

    fn script(&mut self) -> Result<Vec<u8>, Corrupt> {
        let len = usize::try_from(self.varint()?).map_err(|_| Self::short())?;
        let (script, rest) = self.0.split_at_checked(len).ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(script.to_vec())
    }

    fn inputs(&mut self) -> Result<Vec<NodeInput>, Corrupt> {
        let is_extended = self.0.starts_with(&EXTENDED);
        if is_extended {
            self.array::<{ EXTENDED.len() }>()?;
        }
        let mut inputs = Vec::new();
        for _ in 0..self.varint()? {
            let outpoint = OutPoint::new(Txid::from_bytes(self.array()?), self.u32()?);
            let (script, sequence) = (self.script()?, self.u32()?);
            let previous = if is_extended {
                Some(PreviousOutput { satoshis: self.u64()?, script: self.script()? })
            } else {
                None
            };
            inputs.push(NodeInput { outpoint, script, sequence, previous });
        }
        Ok(inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(inputs: usize, is_extended: bool) -> NodeTx {
        let input = |number: usize| NodeInput {
            outpoint: OutPoint::new(Txid::from_bytes([9; 32]), u32::try_from(number).unwrap()),
            script: vec![1, 2],
            sequence: 7,
            previous: is_extended
                .then(|| PreviousOutput { satoshis: 5, script: vec![0x51; number % 300] }),
        };
        let output = |satoshis| NodeOutput { satoshis, script: vec![0x51; 3] };
        NodeTx {
            txid: Txid::from_bytes([4; 32]),
            version: 2,
            lock_time: 11,
            is_coinbase: false,
            inputs: (0..inputs).map(input).collect(),
            outputs: (0..300).map(output).collect(),
        }
    }

    #[test]
    fn files_are_read_back() {
        for tx in [tx(0, false), tx(3, false), tx(400, true)] {
            let (kind, bytes) = encode_blob(&tx).unwrap();
            assert_eq!(decode_blob(tx.txid, kind, false, &bytes).unwrap(), tx);
        }
    }

    #[test]
    fn inputs_of_which_only_some_are_extended_have_no_file() {
        let mut mixed = tx(2, true);
        mixed.inputs[0].previous = None;
        assert_eq!(encode_blob(&mixed), None);
    }

    #[test]
    fn the_bytes_are_pinned() {
        let mut small = tx(1, true);
        small.outputs.truncate(1);
        let (kind, bytes) = encode_blob(&small).unwrap();
        assert_eq!((kind.extension(), &bytes[..8]), ("tx", b"T-1.0   ".as_slice()));
        assert_eq!(bytes[8..18], [2, 0, 0, 0, 0, 0, 0, 0, 0, 0xef]);
        assert_eq!(bytes[18], 1, "one input");
        assert_eq!(bytes[bytes.len() - 4..], [11, 0, 0, 0]);
        assert_eq!(bytes.len(), 18 + 1 + 36 + 3 + 4 + 8 + 1 + 1 + 8 + 4 + 4);
    }

    #[test]
    fn a_cut_or_foreign_file_is_refused() {
        let whole = tx(2, true);
        let (kind, bytes) = encode_blob(&whole).unwrap();
        for len in 0..bytes.len() {
            assert!(decode_blob(whole.txid, kind, false, &bytes[..len]).is_err(), "cut at {len}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(decode_blob(whole.txid, kind, false, &longer).is_err());
        let (outputs, bytes) = encode_blob(&tx(0, false)).unwrap();
        assert!(decode_blob(Txid::from_bytes([5; 32]), outputs, false, &bytes).is_err());
        assert!(decode_blob(whole.txid, kind, false, &bytes).is_err(), "another kind");
    }
}
