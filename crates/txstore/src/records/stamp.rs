//! Numbers that every program has in common, compared in each write without a round of its own.
//!
//! Each shard has a stamp: a cell that says with which numbers a program found the store to agree. A
//! write reads the stamp of one shard along with what it reads first. Where the stamp has its own
//! numbers, the write goes on. Otherwise it reads the numbers themselves, which then have to stay as
//! they are until it commits, and renews the stamps of all shards.
//!
//! Whoever changes the numbers
//!
//! 1. puts a mark in place of every stamp, so that from then on every write reads the numbers;
//! 2. changes them in a commit that rests on all of its marks;
//! 3. clears the stamps.
//!
//! # Invariants
//!
//! * Between the first mark and the last no stamp decides over a write that begins. A write that began
//!   before the marks may still end by the old numbers.
//! * A stamp is written on the version that was read before the numbers were, and a stamp that was ever
//!   written stays: whoever compared before the change cannot stamp after it.
//! * A mark whose deadline is over may be replaced: the commit that rests on it then fails, and its
//!   actor begins anew.

use std::sync::PoisonError;

use utxokeep_core::{Corrupt, node::NodeReads as _};
use utxokeep_records::{Barrier, Cell, Fields, Key, ReadCell, Version, WriteCell};

use super::{
    RecordBackend,
    cells::Cells,
    fault::Fault,
    layout::{Layout, VALUE},
    patch::{opened, sealed},
    view::CellView,
};
use crate::{
    agreed::{CHANGES_LISTED, compare},
    error::StoreError,
};

/// How long a change of numbers may take before others take it for given up, in milliseconds of the
/// servers' clocks.
const CHANGE_MS_MAX: u64 = 60_000;

/// How often a stamp is written anew because others write it too.
const ROUNDS_MAX: usize = 100;

/// A change of numbers.
pub(super) type ChangeId = u64;

/// What the stamp of a shard says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stamp {
    /// Nothing was compared since the numbers changed.
    Cleared,
    /// The store was found to have these.
    Agreed(Vec<u8>),
    /// They are being changed.
    Changing { id: ChangeId, deadline_ms: u64 },
}

impl Stamp {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        match self {
            Self::Cleared => bytes.push(0),
            Self::Agreed(numbers) => {
                bytes.push(1);
                bytes.extend(numbers);
            }
            Self::Changing { id, deadline_ms } => {
                bytes.push(2);
                bytes.extend(id.to_be_bytes());
                bytes.extend(deadline_ms.to_be_bytes());
            }
        }
        sealed(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        const WHAT: &str = "stamp of a shard";
        let damaged = || Corrupt::new(WHAT, "malformed");
        match opened(WHAT, bytes)?.split_first().ok_or_else(damaged)? {
            (0, []) => Ok(Self::Cleared),
            (1, numbers) => Ok(Self::Agreed(numbers.to_vec())),
            (2, rest) => {
                let (id, deadline) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
                let deadline = deadline.try_into().map_err(|_| damaged())?;
                let deadline_ms = u64::from_be_bytes(deadline);
                Ok(Self::Changing { id: u64::from_be_bytes(*id), deadline_ms })
            }
            _ => Err(damaged()),
        }
    }

    fn of(cell: Option<&Cell>) -> Result<Option<Self>, Corrupt> {
        cell.map(|cell| Self::decode(cell.get(VALUE).unwrap_or_default())).transpose()
    }
}

/// Numbers as a stamp has them, and whether changes are listed for a move.
fn stamped(numbers: &[(&'static str, u32)], is_listed: bool) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|(_, number)| number.to_be_bytes());
    // A stamp from before there were lists has no such byte.
    numbers.chain(is_listed.then_some(1)).collect()
}

/// Stamp of a shard, and its version, as they were read.
type ReadStamp = (u16, Option<Version>, Option<Stamp>);

/// What a write is compared with.
#[derive(Debug, Default)]
pub(super) struct Compared {
    numbers: Vec<(&'static str, u32)>,
    /// Whether the stamp of one shard was read.
    is_read: bool,
    /// That stamp, where the shard has one.
    found: Option<Stamp>,
    /// Once they were compared: whether changes are listed for a move.
    is_listed: Option<bool>,
}

impl CellView<'_> {
    /// The write is refused where the store has other numbers than these.
    pub(super) fn compare_with(&self, numbers: &[(&'static str, u32)]) {
        self.numbers.borrow_mut().numbers = numbers.to_vec();
    }

    /// The stamp to read along with other cells, if it is not known yet.
    pub(super) fn stamp_to_read(&self, shard: u16) -> Option<ReadCell> {
        let compared = self.numbers.borrow();
        let is_wanted = !compared.numbers.is_empty() && !compared.is_read;
        is_wanted.then(|| ReadCell::fields(Layout::stamp(shard), [VALUE.to_vec()]))
    }

    pub(super) fn learn_stamp(&self, cell: Option<&Cell>) -> Result<(), StoreError> {
        let mut compared = self.numbers.borrow_mut();
        (compared.is_read, compared.found) = (true, Stamp::of(cell)?);
        Ok(())
    }

    /// Refuses the write where the store has other numbers. Unless a stamp vouches for them they are
    /// read, and the commit rests on them. Answers whether changes are listed for a move; `None` where
    /// the write was compared with nothing.
    pub(super) fn confirm_numbers(&self) -> Result<Option<bool>, StoreError> {
        let Compared { numbers, is_read, found, is_listed } = self.numbers.take();
        let is_listed = if numbers.is_empty() {
            is_listed
        } else {
            Some(self.confirm(&numbers, is_read, found.as_ref())?)
        };
        self.numbers.borrow_mut().is_listed = is_listed;
        Ok(is_listed)
    }

    fn confirm(
        &self,
        numbers: &[(&'static str, u32)],
        is_read: bool,
        found: Option<&Stamp>,
    ) -> Result<bool, StoreError> {
        let own = |is_listed| Stamp::Agreed(stamped(numbers, is_listed));
        for is_listed in [false, true] {
            if found == Some(&own(is_listed)) {
                return Ok(is_listed);
            }
        }
        // One thread renews the stamps of all shards; the others compare for themselves.
        let renews = self.cells.stamping.try_lock();
        let before = match &renews {
            Ok(_) if is_read => self.cells.read_stamps()?,
            _ => Vec::new(),
        };
        compare(self, numbers)?;
        let is_listed = self.state_kept(CHANGES_LISTED)?.is_some();
        self.cells.renew_stamps(before, &own(is_listed))?;
        Ok(is_listed)
    }

    /// The commit rests on the marks of a change, in every shard.
    pub(super) fn rest_on_marks(&self, id: ChangeId) -> Result<(), StoreError> {
        if self.cells.context.leaves_out(Fault::NumbersNotMarked) {
            return Ok(());
        }
        let keys: Vec<Key> = (0..self.cells.layout.shards).map(Layout::stamp).collect();
        self.load(keys.iter().map(|key| (key.clone(), Fields::Named(vec![VALUE.to_vec()]))))?;
        for key in &keys {
            let value = self.with(key, |known| known.get(VALUE).map(Stamp::decode).transpose())?;
            if !matches!(value, Some(Stamp::Changing { id: found, .. }) if found == id) {
                return Err(StoreError::Contended);
            }
        }
        Ok(())
    }
}

impl Cells {
    /// The stamps of all shards.
    fn read_stamps(&self) -> Result<Vec<ReadStamp>, StoreError> {
        let read = |shard| ReadCell::fields(Layout::stamp(shard), [VALUE.to_vec()]);
        let reads: Vec<ReadCell> = (0..self.layout.shards).map(read).collect();
        let stamp = |(shard, cell): (u16, Option<Cell>)| {
            let stamp = Stamp::of(cell.as_ref())?;
            Ok((shard, cell.map(|cell| cell.version), stamp))
        };
        (0..).zip(self.read(&reads)?).map(stamp).collect()
    }

    /// Writes a stamp over others that were read before the numbers were compared. Where another was
    /// faster its stamp decides.
    fn renew_stamps(&self, read: Vec<ReadStamp>, own: &Stamp) -> Result<(), StoreError> {
        let is_changing = |stamp: &Option<Stamp>| matches!(stamp, Some(Stamp::Changing { .. }));
        let is_marked = read.iter().any(|(.., stamp)| is_changing(stamp));
        let now_ms = if is_marked { self.port.now_ms(0)? } else { 0 };
        let is_renewed = |stamp: &Option<Stamp>| match stamp {
            Some(Stamp::Changing { deadline_ms, .. }) => *deadline_ms <= now_ms,
            stamp => stamp.as_ref() != Some(own),
        };
        let renewed = read.into_iter().filter(|(.., stamp)| is_renewed(stamp));
        let write =
            |(shard, version, _): ReadStamp| self.stamp_write(Layout::stamp(shard), version, own);
        let writes: Vec<WriteCell> = renewed.map(write).collect();
        let _ = self.send(&writes, Barrier::Safe)?;
        Ok(())
    }

    fn stamp_write(&self, key: Key, read: Option<Version>, stamp: &Stamp) -> WriteCell {
        let version = self.version(read);
        let write = match read {
            Some(read) => WriteCell::update(key, read, version),
            None => WriteCell::create(key, version),
        };
        write.set(VALUE, stamp.encode())
    }

    /// Writes the stamps of all shards whose present one `is_replaced` says so of.
    fn write_stamps(
        &self,
        stamp: &Stamp,
        is_replaced: impl Fn(Option<&Stamp>) -> bool,
    ) -> Result<(), StoreError> {
        let mut left: Vec<u16> = (0..self.layout.shards).collect();
        for _ in 0..ROUNDS_MAX {
            let read = |shard: &u16| ReadCell::fields(Layout::stamp(*shard), [VALUE.to_vec()]);
            let reads: Vec<ReadCell> = left.iter().map(read).collect();
            let (mut writes, mut written) = (Vec::new(), Vec::new());
            for (shard, cell) in left.iter().zip(self.read(&reads)?) {
                if is_replaced(Stamp::of(cell.as_ref())?.as_ref()) {
                    let version = cell.map(|cell| cell.version);
                    writes.push(self.stamp_write(Layout::stamp(*shard), version, stamp));
                    written.push(*shard);
                }
            }
            let sent = self.send(&writes, Barrier::Safe)?;
            let undone = written.into_iter().zip(&sent).filter(|(_, sent)| !sent.is_done());
            left = undone.map(|(shard, _)| shard).collect();
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(self.unavailable("a stamp"))
    }
}

impl RecordBackend {
    pub(super) fn change_under_way(&self) -> Option<ChangeId> {
        *self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts marks in place of all stamps.
    pub(super) fn begin_change(&self) -> Result<(), StoreError> {
        let id = self.cells.context.versions.next_u64();
        let deadline_ms = self.cells.port.now_ms(0)? + CHANGE_MS_MAX;
        *self.changing.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
        if self.cells.context.leaves_out(Fault::NumbersNotMarked) {
            return Ok(());
        }
        let mark = Stamp::Changing { id, deadline_ms };
        self.cells.write_stamps(&mark, |found| found != Some(&mark))
    }

    /// Clears the stamps, whatever they say: one that a program wrote late may have the old numbers.
    pub(super) fn end_change(&self) -> Result<(), StoreError> {
        let id = self.changing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if id.is_none() || self.cells.context.leaves_out(Fault::NumbersNotMarked) {
            return Ok(());
        }
        self.cells.write_stamps(&Stamp::Cleared, |found| found != Some(&Stamp::Cleared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_pinned_and_damage_is_refused() {
        let numbers = |is_listed| stamped(&[("a", 288), ("b", 1)], is_listed);
        for (stamp, bytes) in [
            (Stamp::Cleared, vec![0]),
            (Stamp::Agreed(numbers(false)), vec![1, 0, 0, 1, 32, 0, 0, 0, 1]),
            (Stamp::Agreed(numbers(true)), vec![1, 0, 0, 1, 32, 0, 0, 0, 1, 1]),
            (
                Stamp::Changing { id: 3, deadline_ms: 256 },
                vec![2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0],
            ),
        ] {
            let encoded = stamp.encode();
            assert_eq!(encoded, sealed(bytes));
            assert_eq!(Stamp::decode(&encoded).unwrap(), stamp);
            for at in 0..encoded.len() {
                let mut damaged = encoded.clone();
                damaged[at] ^= 1;
                assert!(Stamp::decode(&damaged).is_err(), "byte {at}");
            }
        }
        assert!(Stamp::decode(&sealed(vec![0, 0])).is_err());
        assert!(Stamp::decode(&sealed(vec![9])).is_err());
    }
}
