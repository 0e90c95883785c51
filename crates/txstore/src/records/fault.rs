//! Mistakes that tests plant, one for each rule of the commit protocol.

#[cfg(feature = "testing")]
use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "exported for tests only"))]
pub enum Fault {
    /// Whoever aborts a call takes stagings away without asking whose they are by now.
    UndoByFence,
    /// Stagings come before their status, and one without a status is rolled back without telling.
    AbsenceDecides,
    /// The status goes before its stagings are final.
    StatusGoesFirst,
    /// A cell that is only staged is seen by others.
    TentativeSeen,
    /// Stagings of others are overwritten without asking for their status.
    StagingIgnored,
    /// No barrier after staging.
    StagedWithoutBarrier,
    /// No barrier after the commit.
    CommittedWithoutBarrier,
    /// No barrier after an abort, before it is undone.
    AbortedWithoutBarrier,
    /// No barrier after rolling forward, before the status goes.
    FinalWithoutBarrier,
    /// What was only read is not read again.
    ReadsNotValidated,
    /// What is read decides, also where a failover may undo it.
    ReadsDecide,
    /// Versions are small numbers that come again.
    VersionsCount,
    /// A page is taken from an earlier attempt as it is.
    PagesTakenAsTheyAre,
    /// The master is cleared before its pages.
    MasterClearedFirst,
    /// A lock is released without comparing its fence.
    LockWithoutFence,
    /// Numbers are changed while stamps say that the old ones were compared.
    NumbersNotMarked,
    /// A transaction is finished though pages are missing.
    PagesNotCounted,
    /// An older call waits for a younger one, however long that takes.
    NobodyWounds,
    /// A younger call aborts an older one, as an older one would.
    EverybodyWounds,
    /// Servers take the status of a call however late it comes.
    LateStatusTaken,
    /// A call that others abort is not looked for any more.
    AbortedForgotten,
    /// A call whose answer was lost takes itself for committed without looking for its mark.
    MarkNotLookedFor,
    /// What belongs to one call is committed in parts, each with a status of its own.
    StatusForEachPart,
    /// Keys of a call that do not fit beside its status are not looked at when it is ended.
    FurtherKeysForgotten,
    /// The mark is taken off the pages before the call is committed.
    PagesClearedEarly,
    /// Rows of indexes change when a cell is staged.
    RowsAtStaging,
}

#[cfg(feature = "testing")]
#[derive(Debug, Default)]
struct Planted {
    faults: AtomicU32,
    /// Time of a creation lock in milliseconds; 0 for the time that its records give it.
    lock_ttl_ms: AtomicU64,
    /// Keys beside the status of a call; 0 for as many as there are otherwise.
    keys_max: AtomicUsize,
}

/// The rules that are left out: none, unless a test plants a mistake.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Default)]
pub struct RecordFaults(Arc<Planted>);

#[cfg(feature = "testing")]
impl RecordFaults {
    /// Leaves out a rule.
    pub fn plant(&self, fault: Fault) {
        self.0.faults.fetch_or(1 << fault as u8, Ordering::Relaxed);
    }

    /// Lets creation locks expire after so many milliseconds, whatever they are for: a test with real
    /// servers cannot wait for half a minute.
    pub fn expire_locks_after_ms(&self, ms: u64) {
        self.0.lock_ttl_ms.store(ms, Ordering::Relaxed);
    }

    /// Lets so many keys fit beside the status of a call, so that small calls have further ones.
    pub fn keep_keys_beside_status(&self, keys_max: usize) {
        self.0.keys_max.store(keys_max, Ordering::Relaxed);
    }

    /// How many keys fit beside the status of a call, where a test says so instead of `keys_max`.
    pub(super) fn keys_max(&self, keys_max: usize) -> usize {
        let planted = self.0.keys_max.load(Ordering::Relaxed);
        if planted > 0 { planted } else { keys_max }
    }

    /// The time that a creation lock has instead of `ms`, where a test says so.
    pub(super) fn lock_ttl_ms(&self, ms: u64) -> u64 {
        let planted = self.0.lock_ttl_ms.load(Ordering::Relaxed);
        if planted > 0 { planted } else { ms }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.0.faults.load(Ordering::Relaxed) & (1 << fault as u8) != 0
    }
}
