//! What an operation touches: loaded once, changed in memory, written together.

use std::{collections::BTreeMap, slice};

use rustc_hash::FxHashMap;

use super::{
    changes::ChangeSet,
    error::NodeError,
    items::Notes,
    output::OutputRecord,
    reads::{BodyFiles, NodeReads, read_bodies},
    record::{Policy, TxRecord},
    tx::NodeTx,
};
use crate::types::{Height, OutPoint, Txid};

/// A value before and after an operation.
#[derive(Debug, Clone)]
struct Entry<T> {
    before: Option<T>,
    now: Option<T>,
}

/// A record before an operation, and after it once somebody has asked to change it: most of those
/// that are read are not changed, and a copy costs more than the question.
#[derive(Debug, Clone)]
#[allow(clippy::option_option, reason = "not changed is not the same as gone")]
struct RecordEntry {
    before: Option<TxRecord>,
    now: Option<Option<TxRecord>>,
}

impl RecordEntry {
    const fn read(before: Option<TxRecord>) -> Self {
        Self { before, now: None }
    }

    fn now(&self) -> Option<&TxRecord> {
        self.now.as_ref().unwrap_or(&self.before).as_ref()
    }

    fn change(&mut self) -> &mut Option<TxRecord> {
        let Self { before, now } = self;
        now.get_or_insert_with(|| before.clone())
    }
}

/// An output of a record whose outputs were loaded together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub(super) vout: u32,
    pub(super) slot: OutputRecord,
    /// Greatest recorded height of its spender, if that is known to be settled.
    pub(super) spender_settled: Option<Height>,
}

/// The result of one item: refused by a rule, or failed below.
pub(super) type Outcome<T, E> = Result<Result<T, NodeError>, E>;

/// Loaded records and outputs, as the operations so far leave them.
pub struct Workspace<'s, S: NodeReads + ?Sized> {
    reads: &'s S,
    files: &'s dyn BodyFiles<Error = S::Error>,
    pub(super) policy: Policy,
    // Looked up far more often than written; what is written is put in order at the end.
    records: FxHashMap<Txid, RecordEntry>,
    slots: FxHashMap<OutPoint, Entry<OutputRecord>>,
    /// Outputs of records that may be deleted whole; nothing changes a single one of them.
    outputs: FxHashMap<Txid, Vec<Output>>,
    /// Outputs that go with their records.
    gone: Vec<OutPoint>,
    bodies: BTreeMap<Txid, Option<NodeTx>>,
    /// Markers as they are to be: there, or gone.
    markers: BTreeMap<(Txid, Txid), bool>,
    /// Which items of a list touch what, where somebody asked for that.
    pub(super) notes: Option<Box<Notes>>,
    /// New transactions whose bodies no file could be written for, and why.
    pub(super) unwritten: Option<&'s BTreeMap<Txid, String>>,
}

impl<'s, S: NodeReads + ?Sized> Workspace<'s, S> {
    /// Starts with nothing loaded.
    pub fn new(reads: &'s S, files: &'s dyn BodyFiles<Error = S::Error>, policy: Policy) -> Self {
        Self {
            reads,
            files,
            policy,
            records: FxHashMap::default(),
            slots: FxHashMap::default(),
            outputs: FxHashMap::default(),
            gone: Vec::new(),
            bodies: BTreeMap::new(),
            markers: BTreeMap::new(),
            notes: None,
            unwritten: None,
        }
    }

    /// The same, where files for the bodies of these transactions could not be written: whoever
    /// creates one is refused with [`NodeError::Storage`].
    #[must_use]
    pub fn refusing(self, unwritten: &'s BTreeMap<Txid, String>) -> Self {
        Self { unwritten: Some(unwritten), ..self }
    }

    /// Loads what a batch is about to touch, in as few reads as the engine can. What is loaded
    /// already stays as it is.
    pub fn prefetch(&mut self, txids: &[Txid], outpoints: &[OutPoint]) -> Result<(), S::Error> {
        let absent = txids.iter().filter(|txid| !self.records.contains_key(txid));
        let txids: Vec<Txid> = absent.copied().collect();
        let absent = outpoints.iter().filter(|outpoint| !self.slots.contains_key(outpoint));
        let outpoints: Vec<OutPoint> = absent.copied().collect();
        if !txids.is_empty() {
            self.records.reserve(txids.len());
            for (txid, before) in txids.iter().zip(self.reads.records(&txids)?) {
                self.records.entry(*txid).or_insert(RecordEntry::read(before));
            }
        }
        if !outpoints.is_empty() {
            self.slots.reserve(outpoints.len());
            for (outpoint, before) in outpoints.iter().zip(self.reads.outputs_at(&outpoints)?) {
                self.slots.entry(*outpoint).or_insert(Entry { before, now: before });
            }
        }
        Ok(())
    }

    fn record_entry(&mut self, txid: &Txid) -> Result<&mut RecordEntry, S::Error> {
        if !self.records.contains_key(txid) {
            let before = first(self.reads.records(slice::from_ref(txid))?);
            self.records.insert(*txid, RecordEntry::read(before));
        }
        if let Some(notes) = &mut self.notes {
            notes.read(txid);
        }
        Ok(self.records.get_mut(txid).expect("it was inserted above"))
    }

    /// The same, for who is about to change it.
    fn record_to_change(&mut self, txid: &Txid) -> Result<&mut RecordEntry, S::Error> {
        self.record_entry(txid)?;
        let entry = self.records.get_mut(txid).expect("it was loaded above");
        if let Some(notes) = &mut self.notes {
            notes.may_change_record(txid, entry.now());
        }
        Ok(entry)
    }

    /// The record of a transaction as it stands, to be changed.
    pub fn record(&mut self, txid: &Txid) -> Result<Option<&mut TxRecord>, S::Error> {
        Ok(self.record_to_change(txid)?.change().as_mut())
    }

    /// A record that was loaded, as it stands.
    pub(super) fn record_now(&self, txid: &Txid) -> Option<&TxRecord> {
        self.records.get(txid)?.now()
    }

    /// The record of a transaction as it stands, to be looked at.
    pub fn look(&mut self, txid: &Txid) -> Result<Option<&TxRecord>, S::Error> {
        Ok(self.record_entry(txid)?.now())
    }

    pub(super) fn set_record(
        &mut self,
        txid: &Txid,
        record: Option<TxRecord>,
    ) -> Result<(), S::Error> {
        self.record_to_change(txid)?.now = Some(record);
        Ok(())
    }

    /// Loads all outputs of records, and what is known of their spenders, if that is asked for.
    pub(super) fn prefetch_outputs(
        &mut self,
        txids: &[Txid],
        settled_until: Option<Height>,
    ) -> Result<(), S::Error> {
        let mut of = Vec::with_capacity(txids.len());
        for txid in txids {
            self.note_read(txid);
        }
        for txid in txids.iter().filter(|txid| !self.outputs.contains_key(txid)) {
            of.extend(self.records.get(txid).and_then(|e| Some((*txid, e.now()?.outputs))));
        }
        let mut found: Vec<Vec<Output>> = Vec::with_capacity(of.len());
        for slots in self.reads.outputs(&of)? {
            let output = |(vout, slot)| Output { vout, slot, spender_settled: None };
            found.push(slots.into_iter().map(output).collect());
        }
        if let Some(until) = settled_until {
            let spent = found.iter().flatten().filter_map(|output| output.slot.spent_by());
            let spenders: Vec<Txid> = spent.map(|by| by.txid).collect();
            let mut settled = self.reads.settled(&spenders, until)?.into_iter();
            let spent = found.iter_mut().flatten().filter(|o| o.slot.spent_by().is_some());
            for output in spent {
                output.spender_settled = settled.next().flatten();
            }
        }
        self.outputs.reserve(of.len());
        self.outputs.extend(of.iter().map(|(txid, _)| *txid).zip(found));
        Ok(())
    }

    /// Outputs of a record, loaded by [`Workspace::prefetch_outputs`].
    pub(super) fn outputs(&self, txid: &Txid) -> &[Output] {
        self.outputs.get(txid).map_or(&[], Vec::as_slice)
    }

    /// The same, for those who only look.
    pub fn loaded_slots(&self, txid: &Txid) -> impl Iterator<Item = &OutputRecord> {
        self.outputs(txid).iter().map(|output| &output.slot)
    }

    /// Deletes a record whose outputs were loaded together, with everything that belongs to it;
    /// answers what it was.
    pub(super) fn delete_whole(
        &mut self,
        txid: &Txid,
    ) -> Result<Option<(TxRecord, Vec<Output>)>, S::Error> {
        let Some(record) = self.record_to_change(txid)?.change().take() else { return Ok(None) };
        let outputs = self.outputs.remove(txid).unwrap_or_default();
        self.gone.extend(outputs.iter().map(|output| OutPoint::new(*txid, output.vout)));
        self.set_body(*txid, None);
        Ok(Some((record, outputs)))
    }

    fn slot_entry(&mut self, outpoint: &OutPoint) -> Result<&mut Entry<OutputRecord>, S::Error> {
        if !self.slots.contains_key(outpoint) {
            let before = first(self.reads.outputs_at(slice::from_ref(outpoint))?);
            self.slots.insert(*outpoint, Entry { before, now: before });
        }
        let entry = self.slots.get_mut(outpoint).expect("it was inserted above");
        if let Some(notes) = &mut self.notes {
            notes.read(outpoint.txid());
            notes.may_change_slot(outpoint, entry.now);
        }
        Ok(entry)
    }

    /// An output that was loaded, as it stands.
    pub(super) fn slot_now(&self, outpoint: &OutPoint) -> Option<OutputRecord> {
        self.slots.get(outpoint)?.now
    }

    /// An output that can be spent, as it stands.
    pub fn slot(&mut self, outpoint: &OutPoint) -> Result<Option<&mut OutputRecord>, S::Error> {
        Ok(self.slot_entry(outpoint)?.now.as_mut())
    }

    /// Writes a new output, of which nothing has to be loaded.
    pub(super) fn new_slot(&mut self, outpoint: OutPoint, slot: OutputRecord) {
        self.note_change(outpoint.txid());
        self.slots.insert(outpoint, Entry { before: None, now: Some(slot) });
    }

    pub(super) fn delete_slot(&mut self, outpoint: &OutPoint) -> Result<(), S::Error> {
        self.slot_entry(outpoint)?.now = None;
        Ok(())
    }

    /// Notes that the item at work changes something of a transaction.
    fn note_change(&mut self, txid: &Txid) {
        if let Some(notes) = &mut self.notes {
            notes.changed(txid);
        }
    }

    /// Notes that the item at work depends on something of a transaction.
    fn note_read(&mut self, txid: &Txid) {
        if let Some(notes) = &mut self.notes {
            notes.read(txid);
        }
    }

    pub(super) fn set_body(&mut self, txid: Txid, body: Option<NodeTx>) {
        self.note_change(&txid);
        self.bodies.insert(txid, body);
    }

    /// The body of a transaction, as it stands.
    pub fn body(&mut self, txid: &Txid) -> Result<Option<NodeTx>, S::Error> {
        self.note_read(txid);
        match self.bodies.get(txid) {
            Some(body) => Ok(body.clone()),
            None => Ok(first(read_bodies(self.reads, self.files, slice::from_ref(txid))?)),
        }
    }

    /// Whether a parent bears the marker of a child, as it stands.
    pub(super) fn has_marker(&mut self, parent: &Txid, child: &Txid) -> Result<bool, S::Error> {
        self.note_read(parent);
        match self.markers.get(&(*parent, *child)) {
            Some(is_there) => Ok(*is_there),
            None => self.reads.is_deleted_child(parent, child),
        }
    }

    pub(super) fn set_marker(&mut self, parent: Txid, child: Txid, is_there: bool) {
        self.note_change(&parent);
        self.markers.insert((parent, child), is_there);
    }

    /// What has to be written.
    pub fn into_changes(self) -> ChangeSet {
        let (markers, unmarked): (Vec<_>, Vec<_>) =
            self.markers.into_iter().partition(|(_, is_there)| *is_there);
        let changed = |(txid, entry): (Txid, RecordEntry)| {
            let now = entry.now.filter(|now| *now != entry.before)?;
            Some((txid, entry.before, now))
        };
        let mut records: Vec<_> = self.records.into_iter().filter_map(changed).collect();
        records.sort_unstable_by_key(|(txid, ..)| *txid);
        let slots = self.slots.into_iter().filter(|(_, entry)| entry.before != entry.now);
        let mut slots: Vec<_> = slots.map(|(outpoint, entry)| (outpoint, entry.now)).collect();
        slots.extend(self.gone.into_iter().map(|outpoint| (outpoint, None)));
        slots.sort_unstable_by_key(|(outpoint, _)| *outpoint);
        ChangeSet {
            records,
            slots,
            bodies: self.bodies.into_iter().collect(),
            markers: markers.into_iter().map(|(pair, _)| pair).collect(),
            unmarked: unmarked.into_iter().map(|(pair, _)| pair).collect(),
            ..ChangeSet::default()
        }
    }
}

/// The answer to a question about one.
fn first<T>(answers: Vec<Option<T>>) -> Option<T> {
    answers.into_iter().next().flatten()
}
