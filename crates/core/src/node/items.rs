//! Which items of a list depend on each other.
//!
//! Items of a list are decided one after the other on one workspace. An engine that commits a record at
//! a time has to know which of them belong together: those that touch a transaction in common which
//! any of them changed. All others can be committed in any order, or not at all, and the rest is
//! still what it would be in a list of its own.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::{
    changes::ChangeSet, output::OutputRecord, reads::NodeReads, record::TxRecord,
    workspace::Workspace,
};
use crate::types::{OutPoint, Txid};

/// Items of a list that are committed together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemGroup {
    /// Numbers of the items, ascending.
    pub items: Vec<usize>,
    /// Every transaction that the decisions about the items rest on, those that change included.
    /// Its record was asked for, or its outputs, its body or a marker on it.
    pub reads: Vec<Txid>,
    /// What the items change together; nothing if all of them were refused.
    pub changes: ChangeSet,
}

/// What one item touched.
#[derive(Debug, Default)]
struct Touches {
    number: usize,
    reads: BTreeSet<Txid>,
    changes: BTreeSet<Txid>,
}

/// What the items so far touched.
#[derive(Debug, Default)]
pub(super) struct Notes {
    items: Vec<Touches>,
    /// Records and outputs as the item at work found them, where it asked to change them.
    records: FxHashMap<Txid, Option<TxRecord>>,
    slots: FxHashMap<OutPoint, Option<OutputRecord>>,
}

impl Notes {
    fn now(&mut self) -> Option<&mut Touches> {
        self.items.last_mut()
    }

    pub(super) fn read(&mut self, txid: &Txid) {
        if let Some(item) = self.now() {
            item.reads.insert(*txid);
        }
    }

    pub(super) fn changed(&mut self, txid: &Txid) {
        if let Some(item) = self.now() {
            item.changes.insert(*txid);
        }
    }

    /// Remembers a record that may be changed now.
    pub(super) fn may_change_record(&mut self, txid: &Txid, now: Option<&TxRecord>) {
        self.records.entry(*txid).or_insert_with(|| now.cloned());
    }

    /// The same for an output.
    pub(super) fn may_change_slot(&mut self, outpoint: &OutPoint, now: Option<OutputRecord>) {
        self.slots.entry(*outpoint).or_insert(now);
    }
}

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// The same, noting which items of a list touch what. Costs a copy of each record that is changed.
    #[must_use]
    pub fn noting_items(mut self) -> Self {
        self.notes = Some(Box::default());
        self
    }

    /// Does the work of an item of a list. Numbers ascend.
    pub fn item<T>(&mut self, number: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(notes) = &mut self.notes {
            notes.items.push(Touches { number, ..Touches::default() });
        }
        let answer = work(self);
        let Some(mut notes) = self.notes.take() else { return answer };
        for (txid, before) in std::mem::take(&mut notes.records) {
            if self.record_now(&txid) != before.as_ref() {
                notes.changed(&txid);
            }
        }
        for (outpoint, before) in std::mem::take(&mut notes.slots) {
            if self.slot_now(&outpoint) != before {
                notes.changed(outpoint.txid());
            }
        }
        self.notes = Some(notes);
        answer
    }

    /// What has to be written, by groups of items that depend on each other. Every item is in one
    /// group; groups are in the order of their first items.
    ///
    /// # Panics
    ///
    /// If items were not noted.
    #[must_use]
    pub fn into_groups(mut self) -> Vec<ItemGroup> {
        let notes = self.notes.take().expect("the workspace notes items");
        group(notes.items, self.into_changes())
    }
}

/// Which group an item is in, by its first item: each names an item of the same group that comes no
/// later, and the first one itself.
struct Leaders(Vec<usize>);

impl Leaders {
    fn of(&mut self, mut item: usize) -> usize {
        while self.0[item] != item {
            self.0[item] = self.0[self.0[item]];
            item = self.0[item];
        }
        item
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b);
    }
}

fn group(items: Vec<Touches>, changes: ChangeSet) -> Vec<ItemGroup> {
    let written: BTreeSet<Txid> = items.iter().flat_map(|item| &item.changes).copied().collect();
    let mut leaders = Leaders((0..items.len()).collect());
    // An item that touched each of the changed transactions.
    let mut toucher: BTreeMap<Txid, usize> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        for txid in item.reads.union(&item.changes).filter(|txid| written.contains(txid)) {
            let other = *toucher.entry(*txid).or_insert(at);
            leaders.join(other, at);
        }
    }
    let mut groups: BTreeMap<usize, ItemGroup> = BTreeMap::new();
    let mut reads: BTreeMap<usize, BTreeSet<Txid>> = BTreeMap::new();
    for (at, item) in items.into_iter().enumerate() {
        let leader = leaders.of(at);
        let of = groups.entry(leader).or_insert_with(|| ItemGroup {
            items: Vec::new(),
            reads: Vec::new(),
            changes: ChangeSet::default(),
        });
        of.items.push(item.number);
        let reads = reads.entry(leader).or_default();
        reads.extend(item.reads);
        reads.extend(item.changes);
    }
    for (leader, reads) in reads {
        if let Some(group) = groups.get_mut(&leader) {
            group.reads = reads.into_iter().collect();
        }
    }
    let (parts, _) = changes.split();
    for part in parts {
        let leader = toucher.get(&part.txid).map(|item| leaders.of(*item));
        let group = leader.and_then(|leader| groups.get_mut(&leader));
        group.expect("every change was noted when an item made it").changes.add(part);
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests;
