//! Bytes of records, outputs and bodies.

use minicbor::{Decoder, Encoder};

use super::{
    blob::BlobKind,
    output::{OutputRecord, OutputState, SpendingData},
    record::{MinedBlock, Reassignment, TxRecord},
    tx::{NodeInput, NodeOutput, NodeTx, PreviousOutput},
};
use crate::{
    chain::record::{Corrupt, INFALLIBLE, array_len, end, map_len, txid},
    types::{Height, OutPoint},
};

/// Version of everything that a node store keeps: records, outputs, bodies, and its values as a
/// whole. It is raised with every field or value that the programs before would call damaged, so that
/// they refuse the store by name.
///
/// 2 added to records the height of the newest spend (13) and until when they are kept for a child
/// (14), and to what is known of the chain what was not said again since a start (9).
///
/// 3 added a checksum to bodies, and to records that of the file with their body (15). What was stored
/// before has none, and is read without. Of the chain it counts what the node said (10), also at the
/// last start (11), in place of 9.
pub const FORMAT: u64 = 3;

const RECORD: &str = "transaction record";
const SLOT: &str = "output slot";
const BODY: &str = "transaction body";

type Write = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

/// Bits of the flags of a record.
const COINBASE: u8 = 1;
const CONFLICTING: u8 = 2;
const LOCKED: u8 = 4;
const BLOB_TX: u8 = 8;
const BLOB_OUTPUTS: u8 = 16;

/// Canonical CBOR with integer keys; absent fields absent.
#[must_use]
pub fn encode_record(record: &TxRecord) -> Vec<u8> {
    let heights = [
        (5, record.spendable_at),
        (6, record.unmined_since),
        (7, record.delete_at),
        (8, record.preserve_until),
    ];
    let present = heights.iter().filter(|(_, height)| height.is_some()).count();
    let lists = usize::from(!record.blocks.is_empty())
        + usize::from(!record.conflicting_children.is_empty())
        + usize::from(!record.reassignments.is_empty())
        + usize::from(record.deleted_children > 0)
        + usize::from(record.spent_at.is_some())
        + usize::from(record.kept_for_child_until.is_some())
        + usize::from(record.file_checksum.is_some())
        + usize::from(record.is_creating);
    let mut flags = 0;
    for (bit, is_set) in [
        (COINBASE, record.is_coinbase),
        (CONFLICTING, record.is_conflicting),
        (LOCKED, record.is_locked),
        (BLOB_TX, record.blob == Some(BlobKind::Tx)),
        (BLOB_OUTPUTS, record.blob == Some(BlobKind::Outputs)),
    ] {
        flags |= if is_set { bit } else { 0 };
    }
    let mut out = Vec::with_capacity(64);
    let mut e = Encoder::new(&mut out);
    let mut write = || -> Write {
        e.map((5 + present + lists) as u64)?;
        e.u32(0)?.u8(flags)?;
        e.u32(1)?.u32(record.outputs)?;
        e.u32(2)?.u32(record.utxos)?;
        e.u32(3)?.u32(record.spent)?;
        e.u32(4)?.u64(record.created_at_ms)?;
        for (key, height) in heights {
            if let Some(height) = height {
                e.u32(key)?.u32(height.get())?;
            }
        }
        if !record.blocks.is_empty() {
            e.u32(9)?.array(record.blocks.len() as u64)?;
            for block in &record.blocks {
                e.array(3)?.u32(block.id)?.u32(block.height.get())?.u32(block.subtree)?;
            }
        }
        if !record.conflicting_children.is_empty() {
            e.u32(10)?.array(record.conflicting_children.len() as u64)?;
            for child in &record.conflicting_children {
                e.bytes(child.as_bytes())?;
            }
        }
        if !record.reassignments.is_empty() {
            e.u32(11)?.array(record.reassignments.len() as u64)?;
            for change in &record.reassignments {
                e.array(5)?.u32(change.vout)?.bytes(&change.old)?.bytes(&change.new)?;
                e.bytes(&change.script)?.u32(change.height.get())?;
            }
        }
        if record.deleted_children > 0 {
            e.u32(12)?.u32(record.deleted_children)?;
        }
        if let Some(height) = record.spent_at {
            e.u32(13)?.u32(height.get())?;
        }
        if let Some(height) = record.kept_for_child_until {
            e.u32(14)?.u32(height.get())?;
        }
        if let Some(checksum) = record.file_checksum {
            e.u32(15)?.u32(checksum)?;
        }
        if record.is_creating {
            e.u32(16)?.bool(true)?;
        }
        Ok(())
    };
    write().expect(INFALLIBLE);
    out
}

/// Inverse of [`encode_record`].
pub fn decode_record(bytes: &[u8]) -> Result<TxRecord, Corrupt> {
    let corrupt = |error: minicbor::decode::Error| Corrupt::new(RECORD, error);
    let mut d = Decoder::new(bytes);
    let mut record = TxRecord {
        is_coinbase: false,
        is_conflicting: false,
        is_locked: false,
        spendable_at: None,
        outputs: 0,
        utxos: 0,
        spent: 0,
        spent_at: None,
        blocks: Vec::new(),
        unmined_since: None,
        created_at_ms: 0,
        delete_at: None,
        preserve_until: None,
        kept_for_child_until: None,
        conflicting_children: Vec::new(),
        reassignments: Vec::new(),
        deleted_children: 0,
        blob: None,
        file_checksum: None,
        is_creating: false,
    };
    let mut required = 0;
    for _ in 0..map_len(&mut d, RECORD)? {
        let key = d.u32().map_err(corrupt)?;
        required += u32::from(key < 5);
        match key {
            0 => {
                let flags = d.u8().map_err(corrupt)?;
                record.is_coinbase = flags & COINBASE != 0;
                record.is_conflicting = flags & CONFLICTING != 0;
                record.is_locked = flags & LOCKED != 0;
                record.blob = match flags & (BLOB_TX | BLOB_OUTPUTS) {
                    0 => None,
                    BLOB_TX => Some(BlobKind::Tx),
                    BLOB_OUTPUTS => Some(BlobKind::Outputs),
                    _ => return Err(Corrupt::new(RECORD, "two kinds of files")),
                };
            }
            1 => record.outputs = d.u32().map_err(corrupt)?,
            2 => record.utxos = d.u32().map_err(corrupt)?,
            3 => record.spent = d.u32().map_err(corrupt)?,
            4 => record.created_at_ms = d.u64().map_err(corrupt)?,
            5 => record.spendable_at = Some(Height::new(d.u32().map_err(corrupt)?)),
            6 => record.unmined_since = Some(Height::new(d.u32().map_err(corrupt)?)),
            7 => record.delete_at = Some(Height::new(d.u32().map_err(corrupt)?)),
            8 => record.preserve_until = Some(Height::new(d.u32().map_err(corrupt)?)),
            9 => {
                for _ in 0..array_len(&mut d, RECORD)? {
                    expect_array(&mut d, 3, RECORD)?;
                    let id = d.u32().map_err(corrupt)?;
                    let height = Height::new(d.u32().map_err(corrupt)?);
                    let subtree = d.u32().map_err(corrupt)?;
                    record.blocks.push(MinedBlock { id, height, subtree });
                }
            }
            10 => {
                for _ in 0..array_len(&mut d, RECORD)? {
                    record.conflicting_children.push(txid(&mut d, RECORD)?);
                }
            }
            11 => {
                for _ in 0..array_len(&mut d, RECORD)? {
                    expect_array(&mut d, 5, RECORD)?;
                    let vout = d.u32().map_err(corrupt)?;
                    let old = *txid(&mut d, RECORD)?.as_bytes();
                    let new = *txid(&mut d, RECORD)?.as_bytes();
                    let script = d.bytes().map_err(corrupt)?.to_vec();
                    let height = Height::new(d.u32().map_err(corrupt)?);
                    record.reassignments.push(Reassignment { vout, old, new, script, height });
                }
            }
            12 => record.deleted_children = d.u32().map_err(corrupt)?,
            13 => record.spent_at = Some(Height::new(d.u32().map_err(corrupt)?)),
            14 => record.kept_for_child_until = Some(Height::new(d.u32().map_err(corrupt)?)),
            15 => record.file_checksum = Some(d.u32().map_err(corrupt)?),
            16 => record.is_creating = d.bool().map_err(corrupt)?,
            other => return Err(Corrupt::unknown_field(RECORD, other)),
        }
    }
    end(&d, bytes, RECORD)?;
    if required == 5 { Ok(record) } else { Err(Corrupt::new(RECORD, "a field is missing")) }
}

fn expect_array(d: &mut Decoder<'_>, len: u64, what: &'static str) -> Result<(), Corrupt> {
    if array_len(d, what)? == len {
        return Ok(());
    }
    Err(Corrupt::new(what, format!("an array has not {len} items")))
}

/// Kinds of output records, and the bit that says that a hold follows.
const UNSPENT: u8 = 0;
const FROZEN: u8 = 1;
const SPENT: u8 = 2;
const HELD: u8 = 0x80;

/// Commitment, kind, spender and hold where there are, and a checksum over all of it: a record that
/// was torn must never read as unspent.
#[must_use]
pub fn encode_output(slot: &OutputRecord) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + 1 + SpendingData::LEN + 4 + 4);
    out.extend_from_slice(&slot.hash);
    let kind = match slot.state {
        OutputState::Unspent => UNSPENT,
        OutputState::Frozen => FROZEN,
        OutputState::Spent(_) => SPENT,
    };
    out.push(kind | if slot.spendable_at.is_some() { HELD } else { 0 });
    if let OutputState::Spent(by) = slot.state {
        out.extend_from_slice(&by.to_bytes());
    }
    if let Some(height) = slot.spendable_at {
        out.extend_from_slice(&height.to_be_bytes());
    }
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_be_bytes());
    out
}

/// Inverse of [`encode_output`].
pub fn decode_output(bytes: &[u8]) -> Result<OutputRecord, Corrupt> {
    let torn = || Corrupt::new(SLOT, "it is torn");
    let (content, checksum) = bytes.split_last_chunk::<4>().ok_or_else(torn)?;
    if crc32fast::hash(content) != u32::from_be_bytes(*checksum) {
        return Err(Corrupt::new(SLOT, "its checksum is wrong"));
    }
    let (hash, rest) = content.split_first_chunk::<32>().ok_or_else(torn)?;
    let (kind, mut rest) = rest.split_first().ok_or_else(torn)?;
    let state = match kind & !HELD {
        UNSPENT => OutputState::Unspent,
        FROZEN => OutputState::Frozen,
        SPENT => {
            let (by, behind) = rest.split_at_checked(SpendingData::LEN).ok_or_else(torn)?;
            rest = behind;
            OutputState::Spent(SpendingData::from_bytes(by).ok_or_else(torn)?)
        }
        _ => return Err(Corrupt::new(SLOT, "its kind is unknown")),
    };
    let spendable_at = if kind & HELD == 0 {
        None
    } else {
        let (height, behind) = rest.split_first_chunk::<4>().ok_or_else(torn)?;
        rest = behind;
        Some(u32::from_be_bytes(*height))
    };
    if rest.is_empty() {
        Ok(OutputRecord { hash: *hash, state, spendable_at })
    } else {
        Err(torn())
    }
}

/// Items of a body, and of one from before bodies had a checksum.
const BODY_ITEMS: u64 = 6;
const BODY_ITEMS_UNCHECKED: u64 = 5;

/// Bytes that a checksum takes at the end of a body: a head and four.
const CHECKSUM_LEN: usize = 5;
const CHECKSUM_HEAD: u8 = 0x44;

/// A body as CBOR: `[version, lock time, coinbase, inputs, outputs, checksum]`. The checksum is over
/// all bytes before it: a flipped bit must never be another transaction.
#[must_use]
pub fn encode_body(tx: &NodeTx) -> Vec<u8> {
    let mut out = body_content(tx);
    let checksum = crc32fast::hash(&out);
    Encoder::new(&mut out).bytes(&checksum.to_be_bytes()).expect(INFALLIBLE);
    out
}

/// The checksum of a body, wherever its parts are stored.
#[must_use]
pub fn body_checksum(tx: &NodeTx) -> u32 {
    crc32fast::hash(&body_content(tx))
}

/// The checksum of a file with a body.
#[must_use]
pub fn file_checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// A body that was stored with another checksum.
#[must_use]
pub fn wrong_checksum() -> Corrupt {
    Corrupt::new(BODY, "its checksum is wrong")
}

/// Begins to read a body, if its checksum is right. Answers how many items it has.
fn check_content(d: &mut Decoder<'_>, bytes: &[u8]) -> Result<u64, Corrupt> {
    let items = array_len(d, BODY)?;
    if items == BODY_ITEMS {
        let torn = || Corrupt::new(BODY, "it is torn");
        let (content, tail) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or_else(torn)?;
        let [a, b, c, d] = crc32fast::hash(content).to_be_bytes();
        if *tail != [CHECKSUM_HEAD, a, b, c, d] {
            return Err(wrong_checksum());
        }
    } else if items != BODY_ITEMS_UNCHECKED {
        return Err(Corrupt::new(BODY, format!("an array has not {BODY_ITEMS} items")));
    }
    Ok(items)
}

fn body_content(tx: &NodeTx) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut e = Encoder::new(&mut out);
    let mut write = || -> Write {
        e.array(BODY_ITEMS)?.u32(tx.version)?.u32(tx.lock_time)?.bool(tx.is_coinbase)?;
        e.array(tx.inputs.len() as u64)?;
        for input in &tx.inputs {
            e.array(if input.previous.is_some() { 6 } else { 4 })?;
            e.bytes(input.outpoint.txid().as_bytes())?.u32(input.outpoint.index())?;
            e.bytes(&input.script)?.u32(input.sequence)?;
            if let Some(previous) = &input.previous {
                e.u64(previous.satoshis)?.bytes(&previous.script)?;
            }
        }
        e.array(tx.outputs.len() as u64)?;
        for output in &tx.outputs {
            e.array(2)?.u64(output.satoshis)?.bytes(&output.script)?;
        }
        Ok(())
    };
    write().expect(INFALLIBLE);
    out
}

/// Inverse of [`encode_body`].
pub fn decode_body(id: crate::Txid, bytes: &[u8]) -> Result<NodeTx, Corrupt> {
    let corrupt = |error: minicbor::decode::Error| Corrupt::new(BODY, error);
    let mut d = Decoder::new(bytes);
    let items = check_content(&mut d, bytes)?;
    let version = d.u32().map_err(corrupt)?;
    let lock_time = d.u32().map_err(corrupt)?;
    let is_coinbase = d.bool().map_err(corrupt)?;
    let mut inputs = Vec::new();
    for _ in 0..array_len(&mut d, BODY)? {
        let fields = array_len(&mut d, BODY)?;
        let outpoint = OutPoint::new(txid(&mut d, BODY)?, d.u32().map_err(corrupt)?);
        let script = d.bytes().map_err(corrupt)?.to_vec();
        let sequence = d.u32().map_err(corrupt)?;
        let previous = match fields {
            4 => None,
            6 => Some(PreviousOutput {
                satoshis: d.u64().map_err(corrupt)?,
                script: d.bytes().map_err(corrupt)?.to_vec(),
            }),
            _ => return Err(Corrupt::new(BODY, "malformed input")),
        };
        inputs.push(NodeInput { outpoint, script, sequence, previous });
    }
    let mut outputs = Vec::new();
    for _ in 0..array_len(&mut d, BODY)? {
        expect_array(&mut d, 2, BODY)?;
        let satoshis = d.u64().map_err(corrupt)?;
        let script = d.bytes().map_err(corrupt)?.to_vec();
        outputs.push(NodeOutput { satoshis, script });
    }
    if items == BODY_ITEMS {
        d.skip().map_err(corrupt)?;
    }
    end(&d, bytes, BODY)?;
    Ok(NodeTx { txid: id, version, lock_time, is_coinbase, inputs, outputs })
}

/// Only what a body spends, without copying the rest; nothing for a coinbase.
pub fn decode_spends(bytes: &[u8]) -> Result<Vec<OutPoint>, Corrupt> {
    let corrupt = |error: minicbor::decode::Error| Corrupt::new(BODY, error);
    let mut d = Decoder::new(bytes);
    check_content(&mut d, bytes)?;
    d.u32().map_err(corrupt)?;
    d.u32().map_err(corrupt)?;
    if d.bool().map_err(corrupt)? {
        return Ok(Vec::new());
    }
    let mut spends = Vec::new();
    for _ in 0..array_len(&mut d, BODY)? {
        let fields = array_len(&mut d, BODY)?;
        spends.push(OutPoint::new(txid(&mut d, BODY)?, d.u32().map_err(corrupt)?));
        for _ in 2..fields {
            d.skip().map_err(corrupt)?;
        }
    }
    Ok(spends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Txid, hex_decode, hex_encode};

    #[test]
    fn slot_bytes_are_pinned_and_torn_ones_are_refused() {
        let mut slot = OutputRecord::new([1; 32]);
        let bytes = encode_output(&slot);
        assert_eq!(bytes.len(), 37);
        assert_eq!((&bytes[..32], bytes[32]), ([1; 32].as_slice(), 0));
        assert_eq!(decode_output(&bytes), Ok(slot));
        slot.state = OutputState::Spent(SpendingData { txid: Txid::from_bytes([2; 32]), vin: 3 });
        slot.spendable_at = Some(7);
        let bytes = encode_output(&slot);
        let expected = format!("{}82{}0300000000000007", "01".repeat(32), "02".repeat(32));
        assert_eq!(hex_encode(&bytes[..73]), expected);
        assert_eq!(decode_output(&bytes), Ok(slot));
        for cut in 0..bytes.len() {
            assert!(decode_output(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(decode_output(&flipped).is_err(), "byte {at}");
        }
    }

    /// Who adds a field raises the version, and this test with it.
    #[test]
    fn the_fields_of_the_format_are_pinned() {
        let known = |key: u8| {
            let record = [0xa6, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, key, 0];
            decode_record(&record).is_ok()
        };
        let heights = |key: u8| {
            let value = if key < 10 { [0].as_slice() } else { &[0x83, 0, 0, 0] };
            crate::node::Heights::decode(&[[0xa1, key].as_slice(), value].concat()).is_ok()
        };
        assert_eq!((FORMAT, known(15), known(16)), (3, true, false));
        assert_eq!((FORMAT, heights(9), heights(11), heights(12)), (3, true, true, false));
        let error = decode_record(&[0xa1, 17, 0]).unwrap_err().to_string();
        assert!(error.contains("a newer one wrote it"), "{error}");
    }

    #[test]
    fn record_and_body_bytes_are_pinned_and_round_trip() {
        let record = TxRecord {
            is_coinbase: true,
            is_conflicting: false,
            is_locked: true,
            is_creating: false,
            spendable_at: Some(Height::new(110)),
            outputs: 3,
            utxos: 2,
            spent: 1,
            spent_at: Some(Height::new(12)),
            blocks: vec![MinedBlock { id: 1, height: Height::new(10), subtree: 2 }],
            unmined_since: None,
            created_at_ms: 5,
            delete_at: Some(Height::new(300)),
            preserve_until: None,
            kept_for_child_until: Some(Height::new(13)),
            conflicting_children: vec![Txid::from_bytes([9; 32])],
            reassignments: vec![Reassignment {
                vout: 1,
                old: [3; 32],
                new: [4; 32],
                script: vec![0x51],
                height: Height::new(20),
            }],
            deleted_children: 6,
            blob: None,
            file_checksum: Some(14),
        };
        let bytes = encode_record(&record);
        let expected = format!(
            "ae0005010302020301040505186e0719012c09818301 0a020a815820{}0b8185015820{}5820{}415114\
             0c060d0c0e0d0f0e",
            "09".repeat(32),
            "03".repeat(32),
            "04".repeat(32)
        );
        assert_eq!(hex_encode(&bytes), expected.replace(' ', ""));
        assert_eq!(decode_record(&bytes), Ok(record));
        let tx = NodeTx {
            txid: Txid::from_bytes([7; 32]),
            version: 1,
            lock_time: 2,
            is_coinbase: false,
            inputs: vec![NodeInput {
                outpoint: OutPoint::new(Txid::from_bytes([8; 32]), 1),
                script: vec![1],
                sequence: 9,
                previous: Some(PreviousOutput { satoshis: 10, script: vec![0x51] }),
            }],
            outputs: vec![NodeOutput { satoshis: 4, script: vec![0x52] }],
        };
        let body = encode_body(&tx);
        let items = format!("0102f481865820{}01410109 0a4151 8182044152", "08".repeat(32));
        let items = items.replace(' ', "");
        let (content, checksum) = body.split_at(body.len() - CHECKSUM_LEN);
        assert_eq!(hex_encode(content), format!("86{items}"));
        assert_eq!(
            checksum,
            [[CHECKSUM_HEAD].as_slice(), &body_checksum(&tx).to_be_bytes()].concat()
        );
        for at in 0..body.len() {
            for bit in 0..8 {
                let mut flipped = body.clone();
                flipped[at] ^= 1 << bit;
                assert!(decode_body(tx.txid, &flipped).is_err(), "byte {at}");
                assert!(decode_spends(&flipped).is_err(), "byte {at}");
            }
        }
        let of_before = hex_decode(&format!("85{items}")).unwrap();
        assert_eq!(decode_body(tx.txid, &of_before), Ok(tx.clone()), "it has no checksum");
        assert_eq!(decode_spends(&of_before), Ok(vec![tx.inputs[0].outpoint]));
        assert_eq!(decode_body(tx.txid, &body), Ok(tx.clone()));
        assert_eq!(decode_spends(&body), Ok(vec![tx.inputs[0].outpoint]));
        let coinbase = encode_body(&NodeTx { is_coinbase: true, ..tx.clone() });
        assert_eq!(decode_spends(&coinbase), Ok(vec![]));
        for cut in 0..bytes.len() {
            assert!(decode_record(&bytes[..cut]).is_err());
        }
        for cut in 0..body.len() {
            assert!(decode_body(tx.txid, &body[..cut]).is_err());
        }
    }
}
