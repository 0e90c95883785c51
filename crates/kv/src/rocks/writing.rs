//! What is remembered of writes that failed.
//!
//! A write that met a full disk left a torn record at the end of the log. RocksDB looks for room
//! every few seconds, saves what it has in memory and begins a new log: writing goes on by itself.
//! After any other failure nobody knows how much of a write is in the log, so that the next one
//! waits until the database was opened again.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::{KvError, Trouble};

const FULL: &str = "IO error: No space left on device: ";

/// Whether writes go through.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// Open for reading; nothing is ever written.
    is_read_only: bool,
    /// Looked at before each write, so that the lock is for bad days.
    is_stopped: AtomicBool,
    is_waiting: AtomicBool,
    reason: Mutex<String>,
}

impl Writing {
    /// Of a database that is open for reading.
    pub(super) fn never() -> Self {
        Self { is_read_only: true, ..Self::default() }
    }

    /// Whether a write may be tried.
    pub(super) fn check(&self) -> Result<(), KvError> {
        if self.is_read_only {
            return Err(KvError::ReadOnly);
        }
        if self.is_stopped.load(Ordering::Acquire) { Err(KvError::Poisoned) } else { Ok(()) }
    }

    /// Whether the last write met a full disk.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    /// A write went through.
    pub(super) fn went_through(&self) {
        if self.is_waiting() {
            self.is_waiting.store(false, Ordering::Release);
        }
    }

    /// A write failed.
    pub(super) fn failed(&self, op: &'static str, error: rocksdb::Error) -> KvError {
        if is_full_disk(error.as_ref()) {
            self.is_waiting.store(true, Ordering::Release);
            return KvError::DiskFull { op, source: error.into() };
        }
        self.stop(error.as_ref());
        KvError::rocks(op, error)
    }

    /// Takes no further write.
    pub(super) fn stop(&self, reason: &str) {
        let mut first = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_empty() {
            reason.clone_into(&mut first);
        }
        self.is_stopped.store(true, Ordering::Release);
    }

    /// What is wrong with writes.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        if self.is_stopped.load(Ordering::Acquire) {
            let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
            let reason =
                format!("a write failed ({reason}), and no other is taken until a restart");
            return Some(Trouble { reason, passes: false });
        }
        self.is_waiting()
            .then(|| Trouble { reason: "the disk is full: make room".to_owned(), passes: true })
    }
}

/// Whether there was no room, and it is certain that the write is not in the log: one whose bytes
/// were handed over and could not be synced may be.
fn is_full_disk(text: &str) -> bool {
    let Some(what) = text.strip_prefix(FULL) else { return false };
    !what.split(':').next().unwrap_or_default().contains("sync")
}

/// Whether something failed because there was no room.
pub(super) fn met_a_full_disk(error: &rocksdb::Error) -> bool {
    error.as_ref().starts_with(FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_that_left_a_torn_record_is_tried_again() {
        let text = |what: &str| format!("{FULL}{what}: /sync/000951.log: No space left on device");
        assert!(is_full_disk(&text("While appending to file")));
        assert!(!is_full_disk(&text("While fdatasync")));
        assert!(!is_full_disk("IO error: While appending to file: /No space left on device: EIO"));
    }
}
