//! Records that were deleted and can be brought back.

use minicbor::{Decoder, Encoder};

use super::{
    codec::{decode_body, decode_record, decode_slot, encode_body, encode_record, encode_slot},
    reads::NodeReads,
    record::TxRecord,
    slot::Slot,
    tx::NodeTx,
    workspace::Workspace,
};
use crate::{
    chain::record::{Corrupt, INFALLIBLE, array_len, end, txid as read_txid},
    types::{Height, OutPoint, Txid},
};

const UNDO: &str = "deleted record";

/// A record that was deleted, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// The record as it was.
    pub record: TxRecord,
    /// Its outputs.
    pub slots: Vec<(u32, Slot)>,
    /// Its body, where there was one.
    pub body: Option<NodeTx>,
    /// Parents it left a marker on.
    pub marked_on: Vec<Txid>,
}

impl Undo {
    /// CBOR: `[record, [[index, output]...], [body] or [], [parent...]]`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let mut e = Encoder::new(&mut out);
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            e.array(4)?.bytes(&encode_record(&self.record))?;
            e.array(self.slots.len() as u64)?;
            for (vout, slot) in &self.slots {
                e.array(2)?.u32(*vout)?.bytes(&encode_slot(slot))?;
            }
            e.array(u64::from(self.body.is_some()))?;
            if let Some(body) = &self.body {
                e.bytes(&encode_body(body))?;
            }
            e.array(self.marked_on.len() as u64)?;
            for parent in &self.marked_on {
                e.bytes(parent.as_bytes())?;
            }
            Ok(())
        };
        write().expect(INFALLIBLE);
        out
    }

    /// Inverse of [`Undo::encode`], for the transaction of this id.
    pub fn decode(txid: Txid, bytes: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(UNDO, error);
        let malformed = || Corrupt::new(UNDO, "malformed");
        let mut d = Decoder::new(bytes);
        if array_len(&mut d, UNDO)? != 4 {
            return Err(malformed());
        }
        let record = decode_record(d.bytes().map_err(corrupt)?)?;
        let mut slots = Vec::new();
        for _ in 0..array_len(&mut d, UNDO)? {
            if array_len(&mut d, UNDO)? != 2 {
                return Err(malformed());
            }
            let vout = d.u32().map_err(corrupt)?;
            slots.push((vout, decode_slot(d.bytes().map_err(corrupt)?)?));
        }
        let body = match array_len(&mut d, UNDO)? {
            0 => None,
            1 => Some(decode_body(txid, d.bytes().map_err(corrupt)?)?),
            _ => return Err(malformed()),
        };
        let mut marked_on = Vec::new();
        for _ in 0..array_len(&mut d, UNDO)? {
            marked_on.push(read_txid(&mut d, UNDO)?);
        }
        end(&d, bytes, UNDO)?;
        Ok(Self { record, slots, body, marked_on })
    }
}

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Brings a deleted record back and keeps it until a height. Answers `false` if the
    /// transaction is there, because somebody stored it again. The caller holds its lock and those
    /// of [`Undo::marked_on`].
    pub fn restore(&mut self, txid: &Txid, undo: &Undo, until: Height) -> Result<bool, S::Error> {
        if self.look(txid)?.is_some() {
            return Ok(false);
        }
        for parent in &undo.marked_on {
            if self.look(parent)?.is_some() && self.has_marker(parent, txid)? {
                self.mark(*parent, *txid, false)?;
            }
        }
        // It was due once; without a preservation it would go again at the next height.
        let (delete_at, preserve_until, kept_for_child_until) = (None, Some(until), None);
        let is_conflicting = undo.record.is_conflicting;
        // Where the body goes and which markers there are shows below.
        let (blob, file_checksum, deleted_children) = (None, None, 0);
        let was = undo.record.clone();
        let record = TxRecord {
            delete_at,
            preserve_until,
            kept_for_child_until,
            deleted_children,
            blob,
            file_checksum,
            ..was
        };
        self.set_record(txid, Some(record))?;
        for (vout, slot) in &undo.slots {
            self.new_slot(OutPoint::new(*txid, *vout), *slot);
        }
        if let Some(body) = &undo.body {
            self.set_body(*txid, Some(body.clone()));
        }
        let mut spenders: Vec<Txid> =
            undo.slots.iter().filter_map(|(_, slot)| Some(slot.spent_by()?.txid)).collect();
        spenders.sort_unstable();
        spenders.dedup();
        // Every spender was stable or marked when the record went. One that is gone by now was
        // pruned, and must not come back either.
        for spender in spenders {
            if !is_conflicting && self.look(&spender)?.is_none() {
                self.mark(*txid, spender, true)?;
            }
        }
        Ok(true)
    }
}
