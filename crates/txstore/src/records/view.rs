//! What a call knows of the cells, and of which version each of them was.
//!
//! Inside a write every staging that is met is resolved before the cell is used, and every version
//! is remembered: the commit asks whether they are still the same. A read changes nothing: it sees
//! what a staging will be once its call is committed, and what was before otherwise.

use std::{
    cell::{Cell as StdCell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use utxokeep_core::Txid;
use utxokeep_records::{Cell, Field, Fields, Key, ReadCell, Version};

use super::{
    cells::Cells,
    fault::Fault,
    layout::{STAGING, STATE},
    patch::Staging,
    resolve::Met,
    stamp::Compared,
    status::{CallId, CallStatus, State},
};
use crate::error::StoreError;

/// Cells that a read remembers at a time; one that walks over everything forgets the first ones.
const REMEMBERED_MAX: usize = 20_000;

/// What is known of a cell.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// `None` for a cell that is not there.
    pub(super) version: Option<Version>,
    fields: BTreeMap<Field, Vec<u8>>,
    /// Fields that are known to be there or not; all of them for `None`.
    asked: Option<BTreeSet<Field>>,
}

impl Known {
    pub(super) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(Vec::as_slice)
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    fn covers(&self, wanted: &Fields) -> bool {
        if self.version.is_none() {
            return true;
        }
        match (&self.asked, wanted) {
            (None, _) => true,
            (Some(_), Fields::All) => false,
            (Some(asked), Fields::Named(names)) => names.iter().all(|name| asked.contains(name)),
        }
    }
}

/// What a call knows of the cells.
pub(super) struct CellView<'c> {
    pub(super) cells: &'c Cells,
    /// The call, inside a write.
    pub(super) call: Option<CallId>,
    pub(super) known: RefCell<BTreeMap<Key, Known>>,
    /// A cell changed between two reads of it: whatever comes of the work must not count.
    pub(super) has_moved: StdCell<bool>,
    /// How long the call has waited for others.
    pub(super) waited_ms: StdCell<u64>,
    /// Transactions that are not there, and that others create at present.
    pub(super) locked_out: BTreeSet<Txid>,
    /// Numbers that a write is refused without, and the stamp that was read along.
    pub(super) numbers: RefCell<Compared>,
}

impl<'c> CellView<'c> {
    pub(super) fn new(cells: &'c Cells, call: Option<CallId>, waited_ms: u64) -> Self {
        Self {
            cells,
            call,
            known: RefCell::default(),
            has_moved: StdCell::new(false),
            waited_ms: StdCell::new(waited_ms),
            locked_out: BTreeSet::new(),
            numbers: RefCell::default(),
        }
    }

    /// Reads cells, as far as they are not known.
    pub(super) fn load(
        &self,
        wanted: impl IntoIterator<Item = (Key, Fields)>,
    ) -> Result<(), StoreError> {
        if self.call.is_none() && self.known.borrow().len() > REMEMBERED_MAX {
            self.known.borrow_mut().clear();
        }
        let mut missing: BTreeMap<Key, Fields> = BTreeMap::new();
        {
            let known = self.known.borrow();
            for (key, fields) in wanted {
                if known.get(&key).is_some_and(|known| known.covers(&fields)) {
                    continue;
                }
                let all = missing.entry(key).or_insert(Fields::Named(Vec::new()));
                *all = both(std::mem::replace(all, Fields::All), fields);
            }
        }
        let (mut without_status, mut attempt) = (BTreeMap::new(), 0);
        while !missing.is_empty() {
            let read = |(key, fields): (&Key, &Fields)| ReadCell {
                key: key.clone(),
                fields: both(fields.clone(), Fields::Named(vec![STAGING.to_vec()])),
            };
            let mut reads: Vec<_> = missing.iter().map(read).collect();
            let stamp = self.stamp_to_read(reads[0].key.shard);
            reads.extend(stamp.clone());
            let mut cells = self.cells.read(&reads)?;
            if stamp.is_some() {
                self.learn_stamp(cells.pop().flatten().as_ref())?;
            }
            let (mut met, mut again) = (Vec::new(), BTreeMap::new());
            let mut seen = Vec::new();
            for ((key, fields), cell) in missing.into_iter().zip(cells) {
                let staging = cell.as_ref().and_then(|cell| cell.get(STAGING));
                let staging = staging.map(Staging::decode).transpose()?;
                match (staging, cell) {
                    (Some(staging), Some(cell)) if !self.is_passed_over(&staging) => {
                        seen.push((key, fields, cell, staging));
                    }
                    (_, cell) => self.learn(key, fields, cell)?,
                }
            }
            if self.call.is_some() {
                for (key, fields, cell, staging) in seen {
                    met.push(Met { key: key.clone(), version: cell.version, staging });
                    again.insert(key, fields);
                }
                if !met.is_empty() && !self.cells.resolve(&met, self.call)? {
                    self.wait(attempt)?;
                    attempt += 1;
                }
            } else {
                self.look_through(seen, &mut without_status, &mut again)?;
            }
            missing = again;
        }
        Ok(())
    }

    /// A planted mistake: stagings are not there.
    fn is_passed_over(&self, staging: &Staging) -> bool {
        let context = &self.cells.context;
        context.leaves_out(Fault::StagingIgnored)
            || (staging.is_new && context.leaves_out(Fault::TentativeSeen))
    }

    /// Waits for a call that holds a cell, or gives up.
    pub(super) fn wait(&self, attempt: u32) -> Result<(), StoreError> {
        if self.waited_ms.get() > self.cells.settings.wait_ms_max {
            return Err(StoreError::InProgress);
        }
        self.waited_ms.set(self.waited_ms.get() + self.cells.pause(attempt));
        Ok(())
    }

    /// Cells with stagings as a read sees them. One whose status is missing is read again: its call
    /// may have ended meanwhile. If it is still the same, its call did not commit and never will.
    fn look_through(
        &self,
        seen: Vec<(Key, Fields, Cell, Staging)>,
        without_status: &mut BTreeMap<Key, Version>,
        again: &mut BTreeMap<Key, Fields>,
    ) -> Result<(), StoreError> {
        let status =
            |call: &CallId| ReadCell::fields(self.cells.layout.status(call), [STATE.to_vec()]);
        let reads: Vec<_> = seen.iter().map(|(.., staging)| status(&staging.call)).collect();
        for ((key, fields, cell, staging), status) in seen.into_iter().zip(self.cells.read(&reads)?)
        {
            let Some(status) = status else {
                if without_status.insert(key.clone(), cell.version) == Some(cell.version) {
                    self.learn(key, fields, Self::before(cell, &staging))?;
                } else {
                    again.insert(key, fields);
                }
                continue;
            };
            let (status, _) = CallStatus::of(&status)?;
            let is_committed = status.state == State::Committed;
            let cell = if is_committed {
                Self::behind(cell, staging)
            } else {
                Self::before(cell, &staging)
            };
            self.learn(key, fields, cell)?;
        }
        Ok(())
    }

    fn before(cell: Cell, staging: &Staging) -> Option<Cell> {
        (!staging.is_new).then_some(cell)
    }

    /// A cell as its staging makes it.
    fn behind(cell: Cell, staging: Staging) -> Option<Cell> {
        if staging.patch.deletes {
            return None;
        }
        let mut fields: BTreeMap<Field, Vec<u8>> = cell.fields.into_iter().collect();
        fields.retain(|name, _| !staging.patch.unset.contains(name));
        fields.extend(staging.patch.set);
        Some(Cell { version: cell.version, fields: fields.into_iter().collect() })
    }

    /// Remembers a cell. Inside a write one that changed since it was read first ends the attempt.
    fn learn(&self, key: Key, asked: Fields, cell: Option<Cell>) -> Result<(), StoreError> {
        let version = cell.as_ref().map(|cell| cell.version);
        let mut all = self.known.borrow_mut();
        if let Some(known) = all.get(&key)
            && known.version != version
        {
            self.has_moved.set(true);
            if self.call.is_some() {
                return Err(StoreError::Contended);
            }
            all.remove(&key);
        }
        let known = all.entry(key).or_insert_with(|| Known {
            version,
            fields: BTreeMap::new(),
            asked: Some(BTreeSet::new()),
        });
        match (asked, &mut known.asked) {
            (Fields::All, asked) => *asked = None,
            (Fields::Named(names), Some(asked)) => asked.extend(names),
            (Fields::Named(_), None) => {}
        }
        let fields = cell.map(|cell| cell.fields).unwrap_or_default();
        known.fields.extend(fields.into_iter().filter(|(name, _)| name != STAGING));
        Ok(())
    }

    /// What is known of a cell that was loaded.
    pub(super) fn with<T>(&self, key: &Key, look: impl FnOnce(&Known) -> T) -> T {
        match self.known.borrow().get(key) {
            Some(known) => look(known),
            None => look(&Known::default()),
        }
    }

    /// Whether every cell is still of the version that was read, as far as reading tells. One cell
    /// alone was read at one moment, and needs no second look.
    pub(super) fn is_current(&self) -> Result<bool, StoreError> {
        if self.has_moved.get() {
            return Ok(false);
        }
        let known = self.known.borrow();
        if known.len() < 2 {
            return Ok(true);
        }
        let now = self.cells.versions(known.keys())?;
        Ok(known.values().map(|known| known.version).eq(now))
    }
}

/// The fields of two wishes.
fn both(one: Fields, other: Fields) -> Fields {
    match (one, other) {
        (Fields::Named(mut names), Fields::Named(more)) => {
            names.extend(more);
            names.sort_unstable();
            names.dedup();
            Fields::Named(names)
        }
        _ => Fields::All,
    }
}
