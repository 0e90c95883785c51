//! What an operation touches: loaded once, changed in memory, written together.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{
    error::NodeError,
    record::{Policy, TxRecord},
    slot::Slot,
    tx::NodeTx,
};
use crate::types::{OutPoint, Txid};

/// Where records come from. The engine holds whatever locks make the answers stay true until the
/// changes are written.
pub trait Source {
    /// Why the source failed.
    type Error;

    /// The mutable part of a transaction.
    fn record(&self, txid: &Txid) -> Result<Option<TxRecord>, Self::Error>;

    /// An output that can be spent; `None` for every other.
    fn slot(&self, outpoint: &OutPoint) -> Result<Option<Slot>, Self::Error>;

    /// Records of many transactions; an engine that reads them together overrides it.
    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, Self::Error> {
        txids.iter().map(|txid| self.record(txid)).collect()
    }

    /// Many outputs, likewise.
    fn slots(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Slot>>, Self::Error> {
        outpoints.iter().map(|outpoint| self.slot(outpoint)).collect()
    }

    /// The body of a transaction.
    fn body(&self, txid: &Txid) -> Result<Option<NodeTx>, Self::Error>;

    /// Whether `child` spent `parent`, was mined, and was deleted since.
    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, Self::Error>;
}

/// A value before and after an operation.
#[derive(Debug, Clone)]
struct Entry<T> {
    before: Option<T>,
    now: Option<T>,
}

/// What an operation changes, as one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Transactions whose record changed: before and after.
    pub records: Vec<(Txid, Option<TxRecord>, Option<TxRecord>)>,
    /// Outputs that changed; `None` deletes.
    pub slots: Vec<(OutPoint, Option<Slot>)>,
    /// Bodies to write; `None` deletes.
    pub bodies: Vec<(Txid, Option<NodeTx>)>,
    /// Markers to write, parent and child: the child was mined, and goes with this commit.
    pub markers: Vec<(Txid, Txid)>,
    /// Markers to take away again, because the child comes back.
    pub unmarked: Vec<(Txid, Txid)>,
}

impl Changes {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.slots.is_empty()
            && self.bodies.is_empty()
            && self.markers.is_empty()
            && self.unmarked.is_empty()
    }
}

/// The result of one item: refused by a rule, or failed below.
pub(super) type Outcome<T, E> = Result<Result<T, NodeError>, E>;

/// Loaded records and outputs, as the operations so far leave them.
#[derive(Debug)]
pub struct Workspace<'s, S> {
    pub(super) source: &'s S,
    pub(super) policy: Policy,
    // Looked up far more often than written; what is written is put in order at the end.
    records: FxHashMap<Txid, Entry<TxRecord>>,
    slots: FxHashMap<OutPoint, Entry<Slot>>,
    bodies: BTreeMap<Txid, Option<NodeTx>>,
    /// Markers as they are to be: there, or gone.
    markers: BTreeMap<(Txid, Txid), bool>,
}

impl<'s, S: Source> Workspace<'s, S> {
    /// Starts with nothing loaded.
    pub fn new(source: &'s S, policy: Policy) -> Self {
        let (records, slots, bodies) =
            (FxHashMap::default(), FxHashMap::default(), BTreeMap::new());
        Self { source, policy, records, slots, bodies, markers: BTreeMap::new() }
    }

    /// Loads what a batch is about to touch, in as few reads as the source can. What is loaded
    /// already stays as it is.
    pub fn prefetch(&mut self, txids: &[Txid], outpoints: &[OutPoint]) -> Result<(), S::Error> {
        let absent = txids.iter().filter(|txid| !self.records.contains_key(txid));
        let txids: Vec<Txid> = absent.copied().collect();
        let absent = outpoints.iter().filter(|outpoint| !self.slots.contains_key(outpoint));
        let outpoints: Vec<OutPoint> = absent.copied().collect();
        if !txids.is_empty() {
            self.records.reserve(txids.len());
            for (txid, before) in txids.iter().zip(self.source.records(&txids)?) {
                let now = before.clone();
                self.records.entry(*txid).or_insert(Entry { before, now });
            }
        }
        if !outpoints.is_empty() {
            self.slots.reserve(outpoints.len());
            for (outpoint, before) in outpoints.iter().zip(self.source.slots(&outpoints)?) {
                self.slots.entry(*outpoint).or_insert(Entry { before, now: before });
            }
        }
        Ok(())
    }

    fn record_entry(&mut self, txid: &Txid) -> Result<&mut Entry<TxRecord>, S::Error> {
        if !self.records.contains_key(txid) {
            let before = self.source.record(txid)?;
            let now = before.clone();
            self.records.insert(*txid, Entry { before, now });
        }
        Ok(self.records.get_mut(txid).expect("it was inserted above"))
    }

    /// The record of a transaction, as it stands.
    pub fn record(&mut self, txid: &Txid) -> Result<Option<&mut TxRecord>, S::Error> {
        Ok(self.record_entry(txid)?.now.as_mut())
    }

    pub(super) fn set_record(
        &mut self,
        txid: &Txid,
        record: Option<TxRecord>,
    ) -> Result<(), S::Error> {
        self.record_entry(txid)?.now = record;
        Ok(())
    }

    fn slot_entry(&mut self, outpoint: &OutPoint) -> Result<&mut Entry<Slot>, S::Error> {
        if !self.slots.contains_key(outpoint) {
            let before = self.source.slot(outpoint)?;
            self.slots.insert(*outpoint, Entry { before, now: before });
        }
        Ok(self.slots.get_mut(outpoint).expect("it was inserted above"))
    }

    /// An output that can be spent, as it stands.
    pub fn slot(&mut self, outpoint: &OutPoint) -> Result<Option<&mut Slot>, S::Error> {
        Ok(self.slot_entry(outpoint)?.now.as_mut())
    }

    /// Writes a new output, of which nothing has to be loaded.
    pub(super) fn new_slot(&mut self, outpoint: OutPoint, slot: Slot) {
        self.slots.insert(outpoint, Entry { before: None, now: Some(slot) });
    }

    pub(super) fn delete_slot(&mut self, outpoint: &OutPoint) -> Result<(), S::Error> {
        self.slot_entry(outpoint)?.now = None;
        Ok(())
    }

    pub(super) fn set_body(&mut self, txid: Txid, body: Option<NodeTx>) {
        self.bodies.insert(txid, body);
    }

    /// The body of a transaction, as it stands.
    pub fn body(&self, txid: &Txid) -> Result<Option<NodeTx>, S::Error> {
        match self.bodies.get(txid) {
            Some(body) => Ok(body.clone()),
            None => self.source.body(txid),
        }
    }

    /// Whether a parent bears the marker of a child, as it stands.
    pub(super) fn has_marker(&self, parent: &Txid, child: &Txid) -> Result<bool, S::Error> {
        match self.markers.get(&(*parent, *child)) {
            Some(is_there) => Ok(*is_there),
            None => self.source.is_deleted_child(parent, child),
        }
    }

    pub(super) fn set_marker(&mut self, parent: Txid, child: Txid, is_there: bool) {
        self.markers.insert((parent, child), is_there);
    }

    /// What has to be written.
    pub fn into_changes(self) -> Changes {
        let (markers, unmarked): (Vec<_>, Vec<_>) =
            self.markers.into_iter().partition(|(_, is_there)| *is_there);
        let records = self.records.into_iter().filter(|(_, entry)| entry.before != entry.now);
        let mut records: Vec<_> =
            records.map(|(txid, entry)| (txid, entry.before, entry.now)).collect();
        records.sort_unstable_by_key(|(txid, ..)| *txid);
        let slots = self.slots.into_iter().filter(|(_, entry)| entry.before != entry.now);
        let mut slots: Vec<_> = slots.map(|(outpoint, entry)| (outpoint, entry.now)).collect();
        slots.sort_unstable_by_key(|(outpoint, _)| *outpoint);
        Changes {
            records,
            slots,
            bodies: self.bodies.into_iter().collect(),
            markers: markers.into_iter().map(|(pair, _)| pair).collect(),
            unmarked: unmarked.into_iter().map(|(pair, _)| pair).collect(),
        }
    }
}
