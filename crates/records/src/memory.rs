//! Cells in memory: the simplest engine, without faults, for tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    check,
    error::RecordError,
    port::{
        Acknowledgement, Barrier, Cell, IndexPage, Key, ReadCell, RecordStore, ScanIndex,
        WriteCell, Written,
    },
    shelf::Shelf,
};

/// A store in memory. Its clock stands still until it is set.
#[derive(Debug, Default)]
pub struct MemoryRecords {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    shelf: Shelf,
    now_ms: u64,
}

impl MemoryRecords {
    /// An empty store; its clock shows 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clock.
    pub fn set_now_ms(&self, now_ms: u64) {
        self.lock().now_ms = now_ms;
    }

    /// Lets time pass.
    pub fn advance_ms(&self, ms: u64) {
        let mut inner = self.lock();
        inner.now_ms = inner.now_ms.saturating_add(ms);
    }

    /// Every cell that has not expired, in order.
    pub fn keys(&self) -> Vec<Key> {
        let inner = self.lock();
        inner.shelf.keys(inner.now_ms)
    }

    /// A write is whole or not begun when a thread panics, so that the others may go on.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordStore for MemoryRecords {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        check::reads(reads)?;
        let inner = self.lock();
        Ok(reads.iter().map(|read| inner.shelf.read(read, inner.now_ms)).collect())
    }

    fn write(&self, writes: &[WriteCell], _: Barrier) -> Result<Vec<Written>, RecordError> {
        check::writes(writes)?;
        let mut inner = self.lock();
        let now_ms = inner.now_ms;
        Ok(writes.iter().map(|write| inner.shelf.write(write, now_ms).0).collect())
    }

    fn refuses_late_writes(&self) -> bool {
        true
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        check::scans(scans)?;
        let inner = self.lock();
        Ok(scans.iter().map(|scan| inner.shelf.scan(scan)).collect())
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        check::shard(shard)?;
        Ok(self.lock().now_ms)
    }

    fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::Primary
    }

    fn engine(&self) -> &'static str {
        "memory"
    }

    fn stored_bytes(&self) -> Result<Option<u64>, RecordError> {
        Ok(Some(self.lock().shelf.stored_bytes()))
    }
}
