//! What one block changed: the list that apply writes and undo walks.
//!
//! A delta is *compact* (outpoints only; bodies are found in the tables) or *self-contained*
//! (bodies inside). Both decode to the same type, so a database may hold either kind per block.

use minicbor::{Decoder, Encoder};

use super::record::{Corrupt, INFALLIBLE, UtxoRecord, array_len, end, map_len, txid};
use crate::{
    accumulator::mmr::NodeHash,
    types::{BlockHash, Height, OutPoint, Txid},
};

const WHAT: &str = "block delta";

/// An output created by the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Which output.
    pub outpoint: OutPoint,
    /// Bytes of its record, in self-contained deltas.
    pub record: Option<Vec<u8>>,
}

/// An output spent by the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// Which output.
    pub outpoint: OutPoint,
    /// Bytes of its record before the spend, in self-contained deltas.
    pub record: Option<Vec<u8>>,
    /// The spending transaction, in self-contained deltas.
    pub spent_by: Option<Txid>,
}

/// A transaction of the block that failed its scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidTx {
    /// Which transaction.
    pub txid: Txid,
    /// Whether something of its collateral was given back as a new output.
    pub had_collateral_return: bool,
}

/// What the block did to the Merkle mountain range over the set, where one is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmrDelta {
    /// Leaves before the block: the number of the first leaf that it appended.
    pub leaves_before: u64,
    /// Leaves that it appended: one for each output that it created and did not spend.
    pub inserts: u64,
    /// Leaves that it made tombstones: those of the replaced outputs, then those of the spent ones
    /// that an earlier block had created, in the order of the two lists.
    pub deletes: Vec<u64>,
    /// The peaks from before the block, the highest first: what undoing it must give back.
    pub peaks_before: Vec<NodeHash>,
    /// The root after the block.
    pub root: NodeHash,
}

/// The reversible change set of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDelta {
    /// Number of the block.
    pub height: Height,
    /// Slot of the block.
    pub slot: u64,
    /// Hash of the block.
    pub hash: BlockHash,
    /// Hash of its parent.
    pub prev: BlockHash,
    /// Outputs created, in block order. An output that the same block spends is in both lists.
    pub created: Vec<Created>,
    /// Outputs spent, in block order.
    pub spent: Vec<Spent>,
    /// Live outputs that a repeated transaction replaced, with their bytes. Two mainnet blocks
    /// have one; no later block can.
    pub replaced: Vec<(OutPoint, Vec<u8>)>,
    /// Transactions that failed their scripts, in block order.
    pub invalid_txs: Vec<InvalidTx>,
    /// Leaves appended and deleted, in a database that keeps a Merkle mountain range.
    pub mmr: Option<MmrDelta>,
}

const HEIGHT: u32 = 0;
const SLOT: u32 = 1;
const HASH: u32 = 2;
const CREATED: u32 = 3;
const SPENT: u32 = 4;
const FLAGS: u32 = 5;
const TX_FLAGS: u32 = 6;
const MMR: u32 = 7;
const PREV: u32 = 8;
const REPLACED: u32 = 9;

impl BlockDelta {
    /// Canonical CBOR. Outputs with consecutive indexes of one transaction share an entry
    /// `{0: [txid, first index, count]}`, which makes a compact delta a third of its plain size.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.created.len() * 16 + self.spent.len() * 40);
        let mut e = Encoder::new(&mut out);
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            let has_invalid = !self.invalid_txs.is_empty();
            let optional = [has_invalid, !self.replaced.is_empty(), self.mmr.is_some()];
            e.map(7 + optional.map(u64::from).iter().sum::<u64>())?;
            e.u32(HEIGHT)?.u32(self.height.get())?;
            e.u32(SLOT)?.u64(self.slot)?;
            e.u32(HASH)?.bytes(self.hash.as_bytes())?;
            e.u32(CREATED)?;
            let runs = self.created_runs();
            e.array(runs.len() as u64)?;
            for run in runs {
                let with_bodies = run.iter().all(|created| created.record.is_some());
                e.map(1 + u64::from(with_bodies))?;
                let first = run[0].outpoint;
                e.u32(0)?.array(3)?.bytes(first.txid().as_bytes())?;
                e.u32(first.index())?.u64(run.len() as u64)?;
                if with_bodies {
                    e.u32(1)?.array(run.len() as u64)?;
                    for record in run.iter().filter_map(|created| created.record.as_deref()) {
                        e.bytes(record)?;
                    }
                }
            }
            e.u32(SPENT)?.array(self.spent.len() as u64)?;
            for spent in &self.spent {
                let fields =
                    u64::from(spent.record.is_some()) + u64::from(spent.spent_by.is_some());
                e.map(1 + fields)?.u32(0)?;
                e.array(2)?.bytes(spent.outpoint.txid().as_bytes())?.u32(spent.outpoint.index())?;
                if let Some(record) = &spent.record {
                    e.u32(1)?.bytes(record)?;
                }
                if let Some(spent_by) = &spent.spent_by {
                    e.u32(2)?.bytes(spent_by.as_bytes())?;
                }
            }
            e.u32(FLAGS)?.map(1)?.u32(0)?.bool(has_invalid)?;
            if has_invalid {
                e.u32(TX_FLAGS)?.array(self.invalid_txs.len() as u64)?;
                for tx in &self.invalid_txs {
                    e.map(3)?.u32(0)?.bytes(tx.txid.as_bytes())?;
                    e.u32(1)?.bool(true)?.u32(2)?.bool(tx.had_collateral_return)?;
                }
            }
            if let Some(mmr) = &self.mmr {
                e.u32(MMR)?;
                encode_mmr(&mut e, mmr)?;
            }
            e.u32(PREV)?.bytes(self.prev.as_bytes())?;
            if !self.replaced.is_empty() {
                e.u32(REPLACED)?.array(self.replaced.len() as u64)?;
                for (outpoint, record) in &self.replaced {
                    e.array(3)?.bytes(outpoint.txid().as_bytes())?.u32(outpoint.index())?;
                    e.bytes(record)?;
                }
            }
            Ok(())
        };
        write().expect(INFALLIBLE);
        out
    }

    fn created_runs(&self) -> Vec<&[Created]> {
        self.created
            .chunk_by(|a, b| {
                a.outpoint.txid() == b.outpoint.txid()
                    && a.outpoint.index().checked_add(1) == Some(b.outpoint.index())
                    && a.record.is_some() == b.record.is_some()
            })
            .collect()
    }

    /// Inverse of [`BlockDelta::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut d = Decoder::new(bytes);
        let (mut height, mut slot, mut hash, mut prev) = (None, None, None, None);
        let (mut created, mut spent, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
        let (mut invalid_txs, mut mmr) = (Vec::new(), None);
        for _ in 0..map_len(&mut d, WHAT)? {
            match d.u32().map_err(corrupt)? {
                HEIGHT => height = Some(Height::new(d.u32().map_err(corrupt)?)),
                SLOT => slot = Some(d.u64().map_err(corrupt)?),
                HASH => hash = Some(block_hash(&mut d)?),
                CREATED => created = decode_created(&mut d)?,
                SPENT => spent = decode_spent(&mut d)?,
                FLAGS => d.skip().map_err(corrupt)?,
                TX_FLAGS => invalid_txs = decode_tx_flags(&mut d)?,
                MMR => mmr = Some(decode_mmr(&mut d)?),
                PREV => prev = Some(block_hash(&mut d)?),
                REPLACED => replaced = decode_replaced(&mut d)?,
                other => return Err(Corrupt::new(WHAT, format!("unknown field {other}"))),
            }
        }
        end(&d, bytes, WHAT)?;
        let missing = |field| Corrupt::new(WHAT, format!("field {field} is missing"));
        Ok(Self {
            height: height.ok_or_else(|| missing(HEIGHT))?,
            slot: slot.ok_or_else(|| missing(SLOT))?,
            hash: hash.ok_or_else(|| missing(HASH))?,
            prev: prev.ok_or_else(|| missing(PREV))?,
            created,
            spent,
            replaced,
            invalid_txs,
            mmr,
        })
    }
}

/// `{0: [leaves before, inserts], 1: deletes, 2: peaks before, 3: root}`.
fn encode_mmr(
    e: &mut Encoder<&mut Vec<u8>>,
    mmr: &MmrDelta,
) -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
    e.map(4)?.u32(0)?.array(2)?.u64(mmr.leaves_before)?.u64(mmr.inserts)?;
    e.u32(1)?.array(mmr.deletes.len() as u64)?;
    for leaf in &mmr.deletes {
        e.u64(*leaf)?;
    }
    e.u32(2)?.array(mmr.peaks_before.len() as u64)?;
    for peak in &mmr.peaks_before {
        e.bytes(peak)?;
    }
    e.u32(3)?.bytes(&mmr.root)?;
    Ok(())
}

fn decode_mmr(d: &mut Decoder<'_>) -> Result<MmrDelta, Corrupt> {
    let malformed = || Corrupt::new(WHAT, "malformed leaves");
    let field = |d: &mut Decoder<'_>, number| match d.u32() {
        Ok(found) if found == number => Ok(()),
        _ => Err(malformed()),
    };
    let hash = |d: &mut Decoder<'_>| {
        let bytes = d.bytes().map_err(corrupt)?;
        NodeHash::try_from(bytes).map_err(|_| malformed())
    };
    if map_len(d, WHAT)? != 4 {
        return Err(malformed());
    }
    field(d, 0)?;
    if array_len(d, WHAT)? != 2 {
        return Err(malformed());
    }
    let leaves_before = d.u64().map_err(corrupt)?;
    let inserts = d.u64().map_err(corrupt)?;
    leaves_before.checked_add(inserts).ok_or_else(malformed)?;
    field(d, 1)?;
    let mut deletes = Vec::new();
    for _ in 0..array_len(d, WHAT)? {
        deletes.push(d.u64().map_err(corrupt)?);
    }
    field(d, 2)?;
    let mut peaks_before = Vec::new();
    for _ in 0..array_len(d, WHAT)? {
        peaks_before.push(hash(d)?);
    }
    field(d, 3)?;
    Ok(MmrDelta { leaves_before, inserts, deletes, peaks_before, root: hash(d)? })
}

fn corrupt(error: minicbor::decode::Error) -> Corrupt {
    Corrupt::new(WHAT, error)
}

fn block_hash(d: &mut Decoder<'_>) -> Result<BlockHash, Corrupt> {
    txid(d, WHAT).map(|hash| BlockHash::from_bytes(*hash.as_bytes()))
}

fn record(d: &mut Decoder<'_>) -> Result<Vec<u8>, Corrupt> {
    let bytes = d.bytes().map_err(corrupt)?;
    UtxoRecord::decode(bytes)?;
    Ok(bytes.to_vec())
}

fn decode_created(d: &mut Decoder<'_>) -> Result<Vec<Created>, Corrupt> {
    let mut created = Vec::new();
    for _ in 0..array_len(d, WHAT)? {
        let fields = map_len(d, WHAT)?;
        if d.u32().map_err(corrupt)? != 0 || array_len(d, WHAT)? != 3 || !(1..=2).contains(&fields)
        {
            return Err(Corrupt::new(WHAT, "malformed created entry"));
        }
        let txid = txid(d, WHAT)?;
        let first = d.u32().map_err(corrupt)?;
        let count = d.u32().map_err(corrupt)?;
        let last = first.checked_add(count).ok_or_else(|| Corrupt::new(WHAT, "run too long"))?;
        let with_bodies = fields == 2;
        if with_bodies
            && (d.u32().map_err(corrupt)? != 1 || array_len(d, WHAT)? != u64::from(count))
        {
            return Err(Corrupt::new(WHAT, "malformed created bodies"));
        }
        for index in first..last {
            // A run without bodies costs no bytes per output: bound it by what a block can hold.
            if created.len() > MAX_CHANGES {
                return Err(Corrupt::new(WHAT, "more outputs than a block can hold"));
            }
            let record = if with_bodies { Some(record(d)?) } else { None };
            created.push(Created { outpoint: OutPoint::new(txid, index), record });
        }
    }
    Ok(created)
}

/// More outputs than any block of any chain can create; a longer run means damage.
const MAX_CHANGES: usize = 4_000_000;

fn decode_spent(d: &mut Decoder<'_>) -> Result<Vec<Spent>, Corrupt> {
    let mut spent = Vec::new();
    for _ in 0..array_len(d, WHAT)? {
        let (mut outpoint, mut body, mut spent_by) = (None, None, None);
        for _ in 0..map_len(d, WHAT)? {
            match d.u32().map_err(corrupt)? {
                0 if array_len(d, WHAT)? == 2 => {
                    outpoint = Some(OutPoint::new(txid(d, WHAT)?, d.u32().map_err(corrupt)?));
                }
                1 => body = Some(record(d)?),
                2 => spent_by = Some(txid(d, WHAT)?),
                _ => return Err(Corrupt::new(WHAT, "malformed spent entry")),
            }
        }
        let outpoint =
            outpoint.ok_or_else(|| Corrupt::new(WHAT, "spent entry without outpoint"))?;
        spent.push(Spent { outpoint, record: body, spent_by });
    }
    Ok(spent)
}

fn decode_tx_flags(d: &mut Decoder<'_>) -> Result<Vec<InvalidTx>, Corrupt> {
    let mut txs = Vec::new();
    for _ in 0..array_len(d, WHAT)? {
        let field = |d: &mut Decoder<'_>, number| match d.u32() {
            Ok(found) if found == number => Ok(()),
            _ => Err(Corrupt::new(WHAT, "malformed transaction flags")),
        };
        if map_len(d, WHAT)? != 3 {
            return Err(Corrupt::new(WHAT, "malformed transaction flags"));
        }
        field(d, 0)?;
        let txid = txid(d, WHAT)?;
        field(d, 1)?;
        d.bool().map_err(corrupt)?;
        field(d, 2)?;
        txs.push(InvalidTx { txid, had_collateral_return: d.bool().map_err(corrupt)? });
    }
    Ok(txs)
}

fn decode_replaced(d: &mut Decoder<'_>) -> Result<Vec<(OutPoint, Vec<u8>)>, Corrupt> {
    let mut replaced = Vec::new();
    for _ in 0..array_len(d, WHAT)? {
        if array_len(d, WHAT)? != 3 {
            return Err(Corrupt::new(WHAT, "malformed replaced entry"));
        }
        let outpoint = OutPoint::new(txid(d, WHAT)?, d.u32().map_err(corrupt)?);
        replaced.push((outpoint, record(d)?));
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: u64) -> Vec<u8> {
        UtxoRecord {
            address: &[0x51],
            value,
            details: crate::Details::default(),
            height: Height::new(7),
            place: None,
            tx_index: 0,
            is_coinbase: false,
        }
        .encode()
    }

    fn delta(self_contained: bool) -> BlockDelta {
        let a = Txid::from_bytes([0xaa; 32]);
        let b = Txid::from_bytes([0xbb; 32]);
        let created = [OutPoint::new(a, 0), OutPoint::new(a, 1), OutPoint::new(a, 3)]
            .map(|outpoint| Created { outpoint, record: self_contained.then(|| body(1)) });
        let spent = Spent {
            outpoint: OutPoint::new(b, 300),
            record: self_contained.then(|| body(2)),
            spent_by: self_contained.then_some(a),
        };
        BlockDelta {
            height: Height::new(1000),
            slot: 1000,
            hash: BlockHash::from_bytes([1; 32]),
            prev: BlockHash::from_bytes([2; 32]),
            created: created.to_vec(),
            spent: vec![spent],
            replaced: Vec::new(),
            invalid_txs: Vec::new(),
            mmr: None,
        }
    }

    #[test]
    fn leaves_are_pinned() {
        let mut delta = delta(false);
        let plain = crate::hex_encode(&delta.encode());
        delta.mmr = Some(MmrDelta {
            leaves_before: 5,
            inserts: 3,
            deletes: vec![4, 300],
            peaks_before: vec![[0xdd; 32], [0xee; 32]],
            root: [0xff; 32],
        });
        let (d, e, f) = ("dd".repeat(32), "ee".repeat(32), "ff".repeat(32));
        let leaves = format!("07a40082050301820419012c02825820{d}5820{e}035820{f}0858");
        let expected =
            plain.replacen("a7", "a8", 1).replace("a100f40858", &format!("a100f4{leaves}"));
        assert_eq!(crate::hex_encode(&delta.encode()), expected);
        let bytes = delta.encode();
        assert_eq!(BlockDelta::decode(&bytes), Ok(delta));
        for cut in 0..bytes.len() {
            assert!(BlockDelta::decode(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn flags_of_failed_transactions_are_pinned() {
        let mut delta = delta(false);
        let plain = crate::hex_encode(&delta.encode());
        let txid = Txid::from_bytes([0xcc; 32]);
        delta.invalid_txs.push(InvalidTx { txid, had_collateral_return: true });
        let flagged = crate::hex_encode(&delta.encode());
        let flags = format!("05a100f50681a3005820{}01f502f5", "cc".repeat(32));
        assert_eq!(flagged, plain.replace("05a100f4", &flags).replacen("a7", "a8", 1));
        assert_eq!(BlockDelta::decode(&delta.encode()), Ok(delta));
    }

    #[test]
    fn compact_delta_bytes_are_pinned() {
        let bytes = delta(false).encode();
        let hex = crate::hex_encode(&bytes);
        let (h1, h2) = ("01".repeat(32), "02".repeat(32));
        let (a, b) = ("aa".repeat(32), "bb".repeat(32));
        let expected = format!(
            "a7001903e8011903e8025820{h1}0382a100835820{a}0002a100835820{a}0301\
             0481a100825820{b}19012c05a100f4085820{h2}"
        );
        assert_eq!(hex, expected);
    }

    #[test]
    fn both_kinds_round_trip() {
        for self_contained in [false, true] {
            let mut delta = delta(self_contained);
            assert_eq!(BlockDelta::decode(&delta.encode()), Ok(delta.clone()));
            delta.replaced.push((OutPoint::new(Txid::default(), 0), body(9)));
            assert_eq!(BlockDelta::decode(&delta.encode()), Ok(delta));
        }
    }

    #[test]
    fn damaged_deltas_are_errors_not_panics() {
        let bytes = delta(true).encode();
        for cut in 0..bytes.len() {
            assert!(BlockDelta::decode(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                let _ = BlockDelta::decode(&bytes);
            }
        }
    }
}
