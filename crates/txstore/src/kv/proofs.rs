//! Which transactions are known to be settled, without reading their records.
//!
//! Safe deletion asks of every child whether it is settled. Most children of what is due were mined
//! in a few blocks, so the journal of those heights is kept in memory, within a limit. What is not
//! in it is read.
//!
//! # Invariants
//!
//! * What is known is true: a transaction is forgotten before the commit that unsettles it.
//! * A commit that relied on what is known and one that makes a transaction leave exclude each
//!   other; the later of them sees that the state changed.

use std::{
    collections::{BTreeMap, btree_map},
    sync::{
        Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use rustc_hash::FxHashMap;
use utxokeep_core::{Corrupt, Height, Txid};
use utxokeep_kv::{Batch, Durability, Kv, Read, Scan, Stored};

use super::{
    everything,
    journal::{Replay, Shift, joined_in, key},
};
use crate::{
    error::StoreError,
    faults::{Planted, ProofFault},
    tables::{META, SETTLED},
};

/// How often the store was opened, so that rows of the journal are numbered upwards for ever.
const OPENED: &[u8] = b"settled_opened";
/// Rows of the journal below this height count for nothing.
const FLOOR: &[u8] = b"settled_floor";

/// Rows that one opening can number.
const NUMBERS_PER_OPENING: u64 = 1 << 40;

/// Memory that one entry takes at most: key, height and mark, in a map that has just grown, and once
/// more while it is loaded.
const ENTRY_BYTES_MAX: usize = 121;

/// Memory by default: for 1.1 million transactions.
pub(super) const BYTES_MAX: usize = 128 << 20;

/// Rows of the journal that are deleted at a time.
const TRIMMED_ROWS_MAX: usize = 1_000;

/// Settled transactions in memory.
#[derive(Debug, Default)]
struct Known {
    heights: FxHashMap<Txid, Height>,
    /// How many there are of each height.
    counts: BTreeMap<Height, usize>,
    /// Everything up to here was loaded, or did not fit.
    loaded_to: Option<Height>,
    /// Lower heights were forgotten to make room.
    forgotten_below: Height,
}

/// What is known of settled transactions.
#[derive(Debug)]
pub(super) struct Proofs {
    bytes_max: usize,
    /// Held by who makes somebody leave, alone, and by who relies on nobody having left.
    gate: RwLock<()>,
    /// Counts how often somebody left who may have been relied on.
    state: AtomicU64,
    known: RwLock<Known>,
    number: AtomicU64,
    /// Rows below it count for nothing, and none are written.
    floor: AtomicU32,
    /// Rows below it may be deleted.
    keep_from: AtomicU32,
    /// Blocks for which settled transactions are of no use yet; 0 where nothing is ever deleted.
    window_blocks: u32,
    /// How many transactions rows say that they settled, by height.
    on_disk: Mutex<BTreeMap<Height, usize>>,
    /// Held by who deletes rows.
    trimming: Mutex<()>,
    planted: Planted,
}

/// What a panic left half done is never more than too little known.
fn shared<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Deletes every row.
fn clear(kv: &impl Kv) -> Result<(), StoreError> {
    loop {
        let mut batch = Batch::new();
        let scan = Scan { limit: TRIMMED_ROWS_MAX, ..everything() };
        let found = SETTLED.scan(kv, &scan, |row, _| {
            SETTLED.delete_row(&mut batch, &row);
            true
        })?;
        if found == 0 {
            return Ok(());
        }
        kv.commit(batch, Durability::Buffered)?;
    }
}

fn number(bytes: Option<Stored<[u8]>>) -> Result<u64, StoreError> {
    let Some(bytes) = bytes else { return Ok(0) };
    let bytes =
        bytes.into_bytes().try_into().map_err(|_| Corrupt::new("journal", "not 8 bytes long"))?;
    Ok(u64::from_be_bytes(bytes))
}

impl Proofs {
    /// Nothing is known yet; notes that the store was opened once more, unless it is only read.
    /// `window_blocks` is how long
    /// records are kept: with 0 nothing is ever deleted, and there is no journal.
    pub(super) fn open(
        kv: &impl Kv,
        window_blocks: u32,
        bytes_max: usize,
        planted: Planted,
    ) -> Result<Self, StoreError> {
        let may_write = kv.mode().may_write();
        if window_blocks == 0 && may_write {
            // Rows from before would miss who leaves from now on.
            clear(kv)?;
        }
        let mut on_disk = BTreeMap::new();
        SETTLED.scan(kv, &everything(), |row, value| {
            if let Some((height, joined)) = joined_in(&row, value) {
                *on_disk.entry(height).or_default() += joined;
            }
            true
        })?;
        let opened = number(META.get(kv, OPENED)?)?.saturating_add(1);
        let floor = u32::try_from(number(META.get(kv, FLOOR)?)?).unwrap_or(u32::MAX);
        if may_write {
            let mut batch = Batch::new();
            META.put(&mut batch, OPENED, &opened.to_be_bytes());
            kv.commit(batch, Durability::Buffered)?;
        }
        Ok(Self {
            bytes_max,
            gate: RwLock::default(),
            state: AtomicU64::new(0),
            known: RwLock::default(),
            number: AtomicU64::new(opened.saturating_mul(NUMBERS_PER_OPENING)),
            floor: AtomicU32::new(floor),
            keep_from: AtomicU32::new(floor),
            window_blocks,
            on_disk: Mutex::new(on_disk),
            trimming: Mutex::default(),
            planted,
        })
    }

    /// Changes when somebody leaves who may have been relied on.
    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// Heights of those of the transactions that are known.
    pub(super) fn settled(&self, txids: &[Txid]) -> Vec<Option<Height>> {
        let known = shared(&self.known);
        txids.iter().map(|txid| known.heights.get(txid).copied()).collect()
    }

    /// Puts what changes into the batch that changes it.
    pub(super) fn journal(&self, shift: &Shift, batch: &mut Batch) {
        if self.window_blocks == 0 {
            return;
        }
        let floor = Height::new(self.floor.load(Ordering::Acquire));
        let writes_left = !self.planted.has(ProofFault::LeavingNotWritten);
        shift.put_rows(batch, floor, writes_left, || self.number.fetch_add(1, Ordering::Relaxed));
    }

    /// Runs the commit of a change, unless it relied on a state that has changed: then it answers
    /// `false`. Should the commit fail, less is known than could be, which does no harm.
    pub(super) fn commit(
        &self,
        shift: &Shift,
        is_pruning: bool,
        relied_on: Option<u64>,
        commit: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        if shift.left().is_empty() && relied_on.is_none() {
            return commit().map(|()| true);
        }
        let is_overtaken = || {
            relied_on.is_some_and(|state| state != self.state())
                && !self.planted.has(ProofFault::OvertakenIgnored)
        };
        // What the pruner deletes has left markers: others may have relied on it.
        if is_pruning || shift.left().is_empty() {
            let _together = shared(&self.gate);
            if is_overtaken() {
                return Ok(false);
            }
            self.forget(shift);
            return commit().map(|()| true);
        }
        let _alone = alone(&self.gate);
        if is_overtaken() {
            return Ok(false);
        }
        if self.forget(shift) {
            self.state.fetch_add(1, Ordering::AcqRel);
        }
        commit().map(|()| true)
    }

    /// Forgets who leaves; answers whether any of them may have been relied on.
    fn forget(&self, shift: &Shift) -> bool {
        let loaded_to = shared(&self.known).loaded_to;
        let of_interest = |height: &Height| loaded_to.is_some_and(|to| *height <= to);
        if self.planted.has(ProofFault::LeavingNotForgotten)
            || !shift.left().keys().any(of_interest)
        {
            return false;
        }
        let mut known = alone(&self.known);
        for txid in shift.left().values().flatten() {
            known.remove(txid);
        }
        true
    }

    /// Loads what settled up to a height and is not loaded yet, newest first, as far as there is
    /// memory.
    pub(super) fn load(&self, read: &dyn Read, until: Height) -> Result<(), StoreError> {
        let is_loaded = |known: &Known| known.loaded_to.is_some_and(|to| to >= until);
        if is_loaded(&shared(&self.known)) {
            return Ok(());
        }
        let _alone = alone(&self.gate);
        let mut known = alone(&self.known);
        if is_loaded(&known) {
            return Ok(());
        }
        let entries_max = self.bytes_max / ENTRY_BYTES_MAX;
        let floor = Height::new(self.floor.load(Ordering::Acquire));
        let first = known.loaded_to.map_or(floor, |to| to.plus(1)).max(floor);
        let end = until.get().checked_add(1).map(|next| key(Height::new(next), 0));
        let scan = Scan {
            from: &key(first, 0),
            until: end.as_ref().map(<[u8; 12]>::as_slice),
            reverse: true,
            ..everything()
        };
        let (mut replay, mut new, mut full_at) = (Replay::default(), Vec::new(), None);
        if entries_max == 0 {
            full_at = Some(until.plus(1));
        } else {
            SETTLED.scan(read, &scan, |row, value| {
                let height =
                    replay.take(row.read(), value.read(), |txid, height| new.push((txid, height)));
                full_at = height.filter(|_| new.len() >= entries_max);
                height.is_some() && full_at.is_none()
            })?;
        }
        known.make_room(new.len(), entries_max);
        known.add(&new);
        known.loaded_to = Some(until);
        // What is not in memory is not wanted on disk any more either.
        let keep_from = known.forgotten_below.max(full_at.unwrap_or_default());
        self.keep_from.fetch_max(keep_from.get(), Ordering::AcqRel);
        Ok(())
    }

    /// Counts what was written, and lets go of rows that memory could not hold even if they were
    /// loaded: nobody may ask for them for long, because nobody prunes.
    pub(super) fn written(&self, shift: &Shift) {
        if self.window_blocks == 0 || shift.joined().is_empty() {
            return;
        }
        let mut on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = on_disk.last_key_value().map(|(height, _)| *height);
        for (height, txids) in shift.joined() {
            *on_disk.entry(*height).or_default() += txids.len();
        }
        // Once for each block is enough.
        let Some((now, _)) = on_disk.last_key_value().filter(|(now, _)| newest < Some(**now))
        else {
            return;
        };
        let entries_max = self.bytes_max / ENTRY_BYTES_MAX;
        let (useful, mut count) = (now.minus(self.window_blocks), 0);
        let too_many = on_disk.range(..=useful).rev().find(|(_, joined)| {
            count += **joined;
            count > entries_max
        });
        if let Some((height, _)) = too_many {
            self.keep_from.fetch_max(height.plus(1).get(), Ordering::AcqRel);
        }
    }

    /// Whether there are rows to delete.
    pub(super) fn has_rows_to_trim(&self) -> bool {
        self.keep_from.load(Ordering::Acquire) > self.floor.load(Ordering::Acquire)
    }

    /// Deletes some of the rows that are not wanted any more, where there are. One caller at a time:
    /// a lower floor must not be written over a higher one.
    pub(super) fn trim(&self, kv: &impl Kv) -> Result<(), StoreError> {
        let Ok(_alone) = self.trimming.try_lock() else { return Ok(()) };
        let keep_from = self.keep_from.load(Ordering::Acquire);
        if keep_from <= self.floor.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut batch = Batch::new();
        META.put(&mut batch, FLOOR, &u64::from(keep_from).to_be_bytes());
        let end = key(Height::new(keep_from), 0);
        let scan = Scan { until: Some(&end), limit: TRIMMED_ROWS_MAX, ..everything() };
        let trimmed = SETTLED.scan(kv, &scan, |row, _| {
            SETTLED.delete_row(&mut batch, &row);
            true
        })?;
        kv.commit(batch, Durability::Buffered)?;
        // Only then nobody writes there any more. The rest of a long journal goes with the next.
        if trimmed < TRIMMED_ROWS_MAX {
            self.floor.fetch_max(keep_from, Ordering::AcqRel);
            let mut on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
            *on_disk = on_disk.split_off(&Height::new(keep_from));
        }
        Ok(())
    }
}

impl Known {
    fn add(&mut self, new: &[(Txid, Height)]) {
        self.heights.reserve(new.len());
        for of_height in new.chunk_by(|(_, a), (_, b)| a == b) {
            let before = self.heights.len();
            for (txid, height) in of_height {
                self.heights.entry(*txid).or_insert(*height);
            }
            let added = self.heights.len() - before;
            if added > 0 {
                *self.counts.entry(of_height[0].1).or_default() += added;
            }
        }
    }

    fn remove(&mut self, txid: &Txid) {
        if let Some(height) = self.heights.remove(txid)
            && let btree_map::Entry::Occupied(mut count) = self.counts.entry(height)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Forgets the lowest heights where so many more would not fit, and then so many that it does
    /// not have to be done again soon.
    fn make_room(&mut self, more: usize, entries_max: usize) {
        if self.heights.len() + more <= entries_max {
            return;
        }
        let wanted = entries_max.saturating_sub(more).min(entries_max / 2);
        let (mut left, mut from) = (self.heights.len(), Height::GENESIS);
        for (height, count) in &self.counts {
            if left <= wanted {
                break;
            }
            left -= count;
            from = height.plus(1);
        }
        self.heights.retain(|_, height| *height >= from);
        self.counts = self.counts.split_off(&from);
        self.forgotten_below = self.forgotten_below.max(from);
    }
}

#[cfg(test)]
mod tests;
