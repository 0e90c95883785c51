//! A port that dies, or loses answers, at a step that is chosen.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use utxokeep_records::{
    Acknowledgement, Barrier, Cell, IndexPage, MemoryRecords, ReadCell, RecordError, RecordStore,
    ScanIndex, WriteCell, Written,
};

/// Lets so many writes of single cells happen.
pub(crate) struct Cut {
    records: Arc<dyn RecordStore>,
    /// Their clock, which goes on while somebody waits.
    clock: Option<Arc<MemoryRecords>>,
    left: AtomicUsize,
    /// What happens with the first write that is not left.
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The program dies before it.
    Dies,
    /// It happens, and its answer is lost.
    LosesAnswer,
    /// Its shard is not there, that time only.
    IsRefused,
}

impl Cut {
    pub(crate) fn new(records: &Arc<MemoryRecords>, writes: usize, how: How) -> Arc<Self> {
        let (records, clock) = (Arc::clone(records) as _, Some(Arc::clone(records)));
        Arc::new(Self { records, clock, left: AtomicUsize::new(writes), how })
    }

    /// The same on records that have a clock of their own.
    pub(crate) fn on(records: &Arc<dyn RecordStore>, writes: usize, how: How) -> Arc<Self> {
        let records = Arc::clone(records);
        Arc::new(Self { records, clock: None, left: AtomicUsize::new(writes), how })
    }

    /// Nothing happens to it; but waiting lets the clock of the records go on.
    pub(crate) fn never(records: &Arc<MemoryRecords>) -> Arc<Self> {
        Self::new(records, usize::MAX - 1, How::Dies)
    }

    /// Whether the step was reached.
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == usize::MAX
    }

    fn is_dead(&self) -> bool {
        self.how == How::Dies && self.is_over()
    }

    fn one(&self, write: &WriteCell, barrier: Barrier) -> Result<Written, RecordError> {
        let left = self.left.load(Ordering::Relaxed);
        if left != usize::MAX {
            self.left.store(left.wrapping_sub(1), Ordering::Relaxed);
        }
        let answer = |write: &WriteCell| self.records.write(std::slice::from_ref(write), barrier);
        match (left, self.how) {
            (0, How::Dies) => Err(RecordError::Closed),
            (0, How::LosesAnswer) => {
                let _ = answer(write)?;
                Ok(Written::InDoubt)
            }
            (0, How::IsRefused) => Ok(Written::Unavailable),
            _ => Ok(answer(write)?.remove(0)),
        }
    }
}

impl RecordStore for Cut {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        if self.is_dead() { Err(RecordError::Closed) } else { self.records.read(reads) }
    }

    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError> {
        if self.is_dead() {
            return Err(RecordError::Closed);
        }
        writes.iter().map(|write| self.one(write, barrier)).collect()
    }

    fn refuses_late_writes(&self) -> bool {
        self.records.refuses_late_writes()
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        if self.is_dead() { Err(RecordError::Closed) } else { self.records.scan(scans) }
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        if self.is_dead() { Err(RecordError::Closed) } else { self.records.now_ms(shard) }
    }

    fn pause_ms(&self, ms: u64) {
        match &self.clock {
            Some(clock) => clock.advance_ms(ms),
            None => self.records.pause_ms(ms),
        }
    }

    fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::Replica
    }

    fn engine(&self) -> &'static str {
        "cut"
    }
}

type Event = Box<dyn FnOnce() + Send>;

/// A port where something happens before the next status of a call is written.
pub(crate) struct AtStatus {
    records: Arc<dyn RecordStore>,
    /// Their clock, which goes on while somebody waits.
    clock: Option<Arc<MemoryRecords>>,
    event: Mutex<Option<Event>>,
}

impl AtStatus {
    pub(crate) fn new(records: &Arc<MemoryRecords>, event: impl FnOnce() + Send + 'static) -> Self {
        let (records, clock) = (Arc::clone(records) as _, Some(Arc::clone(records)));
        Self { records, clock, event: Mutex::new(Some(Box::new(event))) }
    }

    /// The same on records that have a clock of their own.
    pub(crate) fn on(
        records: &Arc<dyn RecordStore>,
        event: impl FnOnce() + Send + 'static,
    ) -> Self {
        let event: Event = Box::new(event);
        Self { records: Arc::clone(records), clock: None, event: Mutex::new(Some(event)) }
    }
}

impl RecordStore for AtStatus {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        self.records.read(reads)
    }

    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError> {
        if writes.iter().any(|write| write.key.name.starts_with(b"t"))
            && let Some(event) = self.event.lock().unwrap().take()
        {
            event();
        }
        self.records.write(writes, barrier)
    }

    fn refuses_late_writes(&self) -> bool {
        self.records.refuses_late_writes()
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        self.records.scan(scans)
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        self.records.now_ms(shard)
    }

    fn pause_ms(&self, ms: u64) {
        match &self.clock {
            Some(clock) => clock.advance_ms(ms),
            None => self.records.pause_ms(ms),
        }
    }

    fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::Replica
    }

    fn engine(&self) -> &'static str {
        "hooked"
    }
}
