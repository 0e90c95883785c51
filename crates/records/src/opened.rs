//! What a store is opened for.

use std::sync::Arc;

use crate::{
    error::RecordError,
    port::{
        Acknowledgement, Barrier, Cell, IndexPage, ReadCell, RecordStore, ScanIndex, Trouble,
        WriteCell, Written,
    },
};

/// What the servers of a store are connected to for.
#[cfg(any(feature = "aerospike", feature = "redis"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    /// Nothing is written, and nothing made on the servers either: a server that is away, or unfit to
    /// be written to, keeps nobody from reading the others.
    Read,
}

/// A store that takes no writes, whatever engine it is on: what only reads is opened over it.
pub struct ReadOnlyRecords(Arc<dyn RecordStore>);

impl ReadOnlyRecords {
    /// Lets everything through but writes.
    #[must_use]
    pub fn new(store: Arc<dyn RecordStore>) -> Self {
        Self(store)
    }
}

impl std::fmt::Debug for ReadOnlyRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadOnlyRecords({})", self.0.engine())
    }
}

impl RecordStore for ReadOnlyRecords {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        self.0.read(reads)
    }

    fn write(&self, _: &[WriteCell], _: Barrier) -> Result<Vec<Written>, RecordError> {
        Err(RecordError::OpenedToRead)
    }

    fn refuses_late_writes(&self) -> bool {
        self.0.refuses_late_writes()
    }

    fn write_later(&self, _: Vec<WriteCell>) {}

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        self.0.scan(scans)
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        self.0.now_ms(shard)
    }

    fn pause_ms(&self, ms: u64) {
        self.0.pause_ms(ms);
    }

    fn acknowledgement(&self) -> Acknowledgement {
        self.0.acknowledgement()
    }

    fn engine(&self) -> &'static str {
        self.0.engine()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.0.trouble()
    }

    /// Trying would write.
    fn probe(&self, _: u16) -> Option<Trouble> {
        self.0.trouble()
    }

    fn last_failure(&self) -> Option<String> {
        self.0.last_failure()
    }

    fn stored_bytes(&self) -> Result<Option<u64>, RecordError> {
        self.0.stored_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{memory::MemoryRecords, port::Key, version::Version};

    #[test]
    fn a_store_that_was_opened_to_read_takes_no_writes_and_is_read() {
        let store = Arc::new(MemoryRecords::new());
        let write = |name: &str| {
            WriteCell::create(Key::new(1, name), Version::new(7)).index(2, name, Some(5))
        };
        assert_eq!(store.write(&[write("old")], Barrier::Safe), Ok(vec![Written::Done]));
        let reading = ReadOnlyRecords::new(Arc::<MemoryRecords>::clone(&store));
        let refused = reading.write(&[write("new")], Barrier::None);
        assert_eq!(refused, Err(RecordError::OpenedToRead));
        reading.write_later(vec![write("new")]);
        assert_eq!(store.keys(), [Key::new(1, "old")]);
        let read = [ReadCell::version(Key::new(1, "old"))];
        assert_eq!(reading.read(&read), store.read(&read));
        let from = std::ops::Bound::Unbounded;
        let scan = [ScanIndex { shard: 1, index: 2, from, until: 9, limit: 10 }];
        assert_eq!(reading.scan(&scan).unwrap()[0].len(), 1);
    }
}
