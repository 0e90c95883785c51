//! Records that were deleted and can be brought back.

use minicbor::{Decoder, Encoder};

use super::{
    codec::{decode_body, decode_output, decode_record, encode_body, encode_output, encode_record},
    error::{NodeError, SpendError},
    output::{OutputRecord, OutputState, SpendingData},
    reads::NodeReads,
    record::TxRecord,
    tx::{NodeInput, NodeTx, utxo_hash},
    workspace::{Outcome, Workspace},
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
    pub slots: Vec<(u32, OutputRecord)>,
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
                e.array(2)?.u32(*vout)?.bytes(&encode_output(slot))?;
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
            slots.push((vout, decode_output(d.bytes().map_err(corrupt)?)?));
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

impl Undo {
    /// Transactions that coming back may change or depends on: parents, those that spend it, and those
    /// that conflicted over an output of it.
    #[must_use]
    pub fn relatives(&self) -> Vec<Txid> {
        let inputs = self.body.iter().flat_map(NodeTx::spends);
        let parents = inputs.map(|input| *input.outpoint.txid());
        let spenders = self.slots.iter().filter_map(|(_, slot)| Some(slot.spent_by()?.txid));
        let rivals = self.record.conflicting_children.iter().copied();
        parents.chain(spenders).chain(rivals).chain(self.marked_on.iter().copied()).collect()
    }
}

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Brings a deleted record back and keeps it until a height. Answers `false` if the
    /// transaction is there, because somebody stored it again; refuses, and changes nothing, if an
    /// input of it belongs to another transaction by now. The caller holds its lock and those of
    /// [`Undo::relatives`].
    pub fn restore(&mut self, txid: &Txid, undo: &Undo, until: Height) -> Outcome<bool, S::Error> {
        if self.look(txid)?.is_some() {
            return Ok(Ok(false));
        }
        let errors = self.lost_inputs(txid, undo)?;
        if !errors.is_empty() {
            return Ok(Err(NodeError::Spend { spender: *txid, errors }));
        }
        self.take_inputs_back(txid, undo)?;
        // It was due once; without a preservation it would go again at the next height.
        let (delete_at, preserve_until, kept_for_child_until) = (None, Some(until), None);
        let is_conflicting = undo.record.is_conflicting;
        // Where the body goes and which markers there are shows below.
        let (blob, file_checksum, deleted_children) = (None, None, 0);
        let mut was = undo.record.clone();
        // A rival that went in the meantime would have taken itself off the list.
        let mut rivals = Vec::with_capacity(was.conflicting_children.len());
        for rival in std::mem::take(&mut was.conflicting_children) {
            if self.look(&rival)?.is_some() {
                rivals.push(rival);
            }
        }
        was.conflicting_children = rivals;
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
        Ok(Ok(true))
    }

    /// Inputs of a deleted record that it cannot have any more. The loser of a conflict has none;
    /// parents that are gone were spent by it.
    fn lost_inputs(
        &mut self,
        txid: &Txid,
        undo: &Undo,
    ) -> Result<Vec<(u32, SpendError)>, S::Error> {
        let mut lost = Vec::new();
        for (vin, input) in inputs_of(undo) {
            let outpoint = input.outpoint;
            if self.look(outpoint.txid())?.is_none() {
                continue;
            }
            let Some(slot) = self.slot(&outpoint)?.copied() else { continue };
            let given = input.previous.as_ref().map(|previous| {
                utxo_hash(outpoint.txid(), outpoint.index(), &previous.script, previous.satoshis)
            });
            match slot.state {
                OutputState::Spent(by) if by.txid == *txid => {}
                OutputState::Spent(by) => lost.push((vin, SpendError::Spent { outpoint, by })),
                OutputState::Frozen => lost.push((vin, SpendError::Frozen(outpoint))),
                OutputState::Unspent if given.is_some_and(|given| given != slot.hash) => {
                    lost.push((vin, SpendError::Mismatch(outpoint)));
                }
                OutputState::Unspent => {}
            }
        }
        Ok(lost)
    }

    /// The parents that are there know the record again: no marker calls it deleted, and what it
    /// spends is spent, also where that was taken back meanwhile.
    fn take_inputs_back(&mut self, txid: &Txid, undo: &Undo) -> Result<(), S::Error> {
        let retention = self.policy.retention_blocks;
        let mut parents = undo.marked_on.clone();
        let inputs = undo.body.iter().flat_map(NodeTx::spends);
        parents.extend(inputs.map(|input| *input.outpoint.txid()));
        parents.sort_unstable();
        parents.dedup();
        for parent in parents {
            if self.look(&parent)?.is_some() && self.has_marker(&parent, txid)? {
                self.mark(parent, *txid, false)?;
            }
        }
        let at = undo.record.blocks.iter().map(|block| block.height).max().unwrap_or_default();
        for (vin, input) in inputs_of(undo) {
            let parent = *input.outpoint.txid();
            if self.look(&parent)?.is_none() {
                continue;
            }
            let Some(slot) = self.slot(&input.outpoint)? else { continue };
            if slot.state != OutputState::Unspent {
                continue;
            }
            slot.state = OutputState::Spent(SpendingData { txid: *txid, vin });
            if let Some(parent) = self.record(&parent)? {
                parent.add_spends(1, at);
                parent.evaluate(at, retention);
            }
        }
        if undo.record.is_conflicting
            && let Some(body) = &undo.body
        {
            self.add_conflicting_child(body)?;
        }
        Ok(())
    }
}

/// What a deleted record spends, with positions. Nothing if it lost a conflict: then it holds
/// nothing.
fn inputs_of(undo: &Undo) -> impl Iterator<Item = (u32, &NodeInput)> {
    let body = undo.body.as_ref().filter(|body| !body.is_coinbase && !undo.record.is_loser());
    body.into_iter().flat_map(|body| (0u32..).zip(&body.inputs))
}
