//! What a call writes, cell by cell.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Txid,
    node::{ChangeSet, HeightIndex, TxRecord, encode_body, encode_output, encode_record},
};
use utxokeep_records::{Fields, Key, Version};

use super::{
    large::Large,
    layout::{
        ALL, BODY, CREATOR, Layout, NAMES, PAGE_MEMBER_LEN, PAGES, RECORD, VALUE, height_index,
        marker_field, name_score, output_field, page_member,
    },
    patch::{Patch, sealed},
    status::CallId,
    view::CellView,
};
use crate::error::StoreError;

/// One cell that a call changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: Key,
    /// The version that was read; `None` for a cell that is not there.
    pub(super) read: Option<Version>,
    pub(super) patch: Patch,
}

/// A cell that was read, and its version; `None` for one that is not there.
pub(super) type Seen<'r> = (&'r Key, Option<Version>);

/// What a call writes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    /// Cells that the decision rests on and that stay as they are.
    pub(super) only_read: Vec<(Key, Option<Version>)>,
    /// Transactions with pages that are created.
    pub(super) large: Vec<Large>,
    /// Transactions, with so many outputs, that are complete by this call: their pages must be.
    pub(super) completed: Vec<(Txid, u32)>,
}

/// Changes by cell, before their versions are known.
struct Draft<'l> {
    layout: &'l Layout,
    mark: Vec<u8>,
    patches: BTreeMap<Key, Patch>,
    deleted: BTreeSet<Txid>,
    large: BTreeMap<Txid, Large>,
    completed: Vec<(Txid, u32)>,
}

impl Draft<'_> {
    fn patch(&mut self, key: Key) -> &mut Patch {
        self.patches.entry(key).or_default()
    }

    fn record(&mut self, txid: &Txid, before: Option<&TxRecord>, now: Option<&TxRecord>) {
        let (key, member) = (self.layout.master(txid), txid.as_bytes());
        let height = |of: Option<&TxRecord>, index: HeightIndex| of.and_then(|of| index.of(of));
        let mark = self.mark.clone();
        let pages = self.layout.pages(before.map_or(0, |before| before.outputs));
        let patch = self.patches.entry(key).or_default();
        for index in HeightIndex::ALL {
            let (old, new) = (height(before, index), height(now, index));
            if old != new {
                let score = new.map(|height| u64::from(height.get()));
                patch.row(height_index(index), member, score);
            }
        }
        if let Some(now) = now {
            let mut now = now.clone();
            if before.is_none() && self.layout.pages(now.outputs) > 0 {
                now.is_creating = true;
                let pages = (1..=self.layout.pages(now.outputs)).map(|n| (n, Patch::default()));
                let large = Large { txid: *txid, outputs: now.outputs, pages: pages.collect() };
                self.large.insert(*txid, large);
            } else if !now.is_creating && before.is_some_and(|before| before.is_creating) {
                self.completed.push((*txid, now.outputs));
            }
            patch.set(RECORD, sealed(encode_record(&now)));
            if before.is_none() {
                patch.set(CREATOR, mark);
                patch.row(ALL, member, Some(0));
            }
            return;
        }
        patch.delete();
        patch.row(ALL, member, None);
        for page in 1..=pages {
            let patch = self.patch(self.layout.page(txid, page));
            patch.delete();
            patch.row(PAGES, &page_member(txid, page), None);
        }
        self.deleted.insert(*txid);
    }

    fn values(&mut self, writes: &ChangeSet) {
        for (name, value) in &writes.states {
            let key = self.layout.value(name);
            let patch = self.patch(key);
            if let Some(value) = value {
                patch.set(VALUE, sealed(value.clone()));
            } else {
                patch.delete();
                patch.row(NAMES, name.as_bytes(), None);
            }
        }
    }

    /// `locked_out` are transactions that others create and that are not there yet: nothing of them is
    /// changed.
    fn all(&mut self, writes: &ChangeSet, locked_out: &BTreeSet<Txid>) {
        for (txid, before, now) in &writes.records {
            if (before.is_some() || now.is_some()) && !locked_out.contains(txid) {
                self.record(txid, before.as_ref(), now.as_ref());
            }
        }
        // Everything in a cell that goes, goes with it.
        for (outpoint, slot) in &writes.slots {
            if self.deleted.contains(outpoint.txid()) {
                continue;
            }
            let field = output_field(outpoint.index());
            let page = self.layout.page_number(outpoint);
            let new = self.large.get_mut(outpoint.txid()).and_then(|l| l.pages.get_mut(&page));
            let patch = match new {
                Some(patch) => patch,
                None => self.patches.entry(self.layout.output(outpoint)).or_default(),
            };
            match slot {
                Some(slot) => patch.set(&field, encode_output(slot)),
                None => patch.unset(&field),
            }
        }
        for (txid, body) in writes.bodies.iter().filter(|(txid, _)| !self.deleted.contains(txid)) {
            let patch = self.patches.entry(self.layout.master(txid)).or_default();
            match body {
                Some(body) => patch.set(BODY, encode_body(body)),
                None => patch.unset(BODY),
            }
        }
        let markers = writes.markers.iter().map(|pair| (pair, true));
        for ((parent, child), is_there) in
            markers.chain(writes.unmarked.iter().map(|pair| (pair, false)))
        {
            if self.deleted.contains(parent) {
                continue;
            }
            let patch = self.patches.entry(self.layout.master(parent)).or_default();
            if is_there {
                patch.set(&marker_field(child), Vec::new());
            } else {
                patch.unset(&marker_field(child));
            }
        }
        self.values(writes);
    }
}

/// A cell that is new is found by its name, or by its number.
fn add_row(key: &Key, patch: &mut Patch) {
    match key.name.split_first() {
        Some((b'n', name)) => patch.row(NAMES, name, Some(name_score(name, 0))),
        Some((b'u', page)) if page.len() == PAGE_MEMBER_LEN => patch.row(PAGES, page, Some(0)),
        _ => {}
    }
}

impl Plan {
    /// Works out what has to be done to which cell. Versions that the work did not need are read
    /// now.
    pub(super) fn of(
        writes: &ChangeSet,
        view: &CellView<'_>,
        call: CallId,
        is_guarded: bool,
    ) -> Result<Self, StoreError> {
        let layout = &view.cells.layout;
        let mut draft = Draft {
            layout,
            mark: call.mark(),
            patches: BTreeMap::new(),
            deleted: BTreeSet::new(),
            large: BTreeMap::new(),
            completed: Vec::new(),
        };
        let is_absent = |txid: &&Txid| view.with(&layout.master(txid), |it| it.version.is_none());
        let absent: BTreeSet<Txid> = view.locked_out.iter().filter(is_absent).copied().collect();
        if writes.slots.iter().any(|(outpoint, _)| absent.contains(outpoint.txid())) {
            // A child in the same call spends from it, and that needs its outputs.
            view.has_moved.set(true);
            return Err(StoreError::Contended);
        }
        draft.all(writes, &absent);
        if is_guarded && !draft.patches.is_empty() {
            let mark = draft.mark.clone();
            draft.patch(layout.guard()).set(VALUE, mark);
        }
        let Draft { patches, large, completed, .. } = draft;
        view.load(patches.keys().map(|key| (key.clone(), Fields::Named(Vec::new()))))?;
        let large = large.into_values().collect();
        let mut plan = Self { large, completed, ..Self::default() };
        for (key, mut patch) in patches {
            let read = view.with(&key, |known| known.version);
            if read.is_none() && patch.set.is_empty() {
                continue;
            }
            if read.is_none() {
                add_row(&key, &mut patch);
            }
            plan.changes.push(Change { key, read, patch });
        }
        Ok(plan)
    }

    /// The plan in two, for the mistake of committing it so.
    pub(super) fn parts(&self) -> (Self, Self) {
        let (first, second) = self.changes.split_at(self.changes.len() / 2);
        let part = |changes: &[Change]| Self { changes: changes.to_vec(), ..Self::default() };
        let only_read = self.only_read.clone();
        (part(first), Self { only_read, large: self.large.clone(), ..part(second) })
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.only_read.is_empty() && self.large.is_empty()
    }

    /// Whether the plan changes a cell.
    pub(super) fn changes(&self, key: &Key) -> bool {
        self.changes.binary_search_by(|change| change.key.cmp(key)).is_ok()
    }

    /// The decision rests on these cells.
    ///
    /// Pages of a transaction that the plan creates are not among them, also where a child in the same
    /// plan looked there: the call writes them itself, once it has staged their master, and would take
    /// its own pages for somebody else's change.
    pub(super) fn rest_on<'r>(&mut self, layout: Layout, cells: impl Iterator<Item = Seen<'r>>) {
        let pages_of = |large: &Large| -> Vec<Key> {
            large.pages.keys().map(|page| layout.page(&large.txid, *page)).collect()
        };
        let own: BTreeSet<Key> = self.large.iter().flat_map(pages_of).collect();
        let only_read = cells.filter(|(key, _)| !self.changes(key) && !own.contains(*key));
        self.only_read = only_read.map(|(key, version)| (key.clone(), version)).collect();
    }
}
