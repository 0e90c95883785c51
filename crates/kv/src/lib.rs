//! The storage boundary: ordered bytes in tables, changed by atomic batches.
//!
//! The port is deliberately small. Whatever an engine cannot do atomically is absent, so code
//! written against it cannot depend on it. Two engines implement it: `RocksKv` on disk (feature
//! `rocksdb`) and [`MemoryKv`] for tests and models. Schemas on top of it are
//! typed: [`Table`].
//!
//! # Invariants
//!
//! * A batch becomes visible and durable whole or not at all, also when the process dies.
//! * A snapshot never changes.
//! * After a failed write nothing more is written: only reopening can tell what is durable.

mod batch;
mod error;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocks;
mod table;
mod trouble;

pub use batch::{Batch, Row, TableRows};
#[doc(hidden)]
pub use error::KvError;
pub use memory::MemoryKv;
#[cfg(feature = "rocksdb")]
pub use rocks::{LogDamage, LogReport, LostRow, RocksKv, RocksOptions, Use};
pub use table::{RowKey, Stored, Table};
pub use trouble::Trouble;
pub use utxokeep_core::OpenMode;

/// How a table is read; decides filters and prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Single keys.
    Point,
    /// Single keys, with values that are random bytes: hashes take no less room when compressed.
    Hashes,
    /// Ranges that share a prefix of this many bytes.
    Prefix(usize),
    /// In key order, old rows deleted from the front.
    Sequential,
}

/// A table of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSpec {
    /// Name on disk.
    pub name: &'static str,
    /// How it is read.
    pub access: Access,
}

/// Position of a table in the list the database was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u8);

/// Whether a commit waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk (fsync) before the call returns.
    Synced,
    /// In the log of the operating system: survives the process, not the machine.
    Buffered,
}

/// A bounded range of rows to visit.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    /// First key, inclusive.
    pub from: &'a [u8],
    /// End, exclusive; `None` for the end of the table.
    pub until: Option<&'a [u8]>,
    /// Visit the highest key first.
    pub reverse: bool,
    /// The most rows to visit.
    pub limit: usize,
    /// All rows share the table's prefix, so that prefix filters may be used.
    pub within_prefix: bool,
}

impl Scan<'static> {
    /// Every row of a table, lowest key first.
    pub const ALL: Self =
        Self { from: &[], until: None, reverse: false, limit: usize::MAX, within_prefix: false };
}

/// Size of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSize {
    /// Name on disk.
    pub name: &'static str,
    /// Bytes on disk, without the write-ahead log.
    pub disk_bytes: u64,
    /// Estimated number of rows.
    pub rows_estimate: u64,
}

/// Called with each visited row; answers whether to go on.
pub type Visitor<'v> = dyn FnMut(&[u8], &[u8]) -> bool + 'v;

/// Reading rows.
pub trait Read: Sync {
    /// Reads one row.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError>;

    /// Reads many rows, whose keys must be in ascending order, and hands each value to `found`
    /// with the position of its key.
    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError>;

    /// Visits a range of rows in key order; answers how many were visited.
    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError>;
}

/// Takes rows in key order; a row without a value is deleted.
pub type RowSink<'s> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), KvError> + 's;

/// Rows of one table, to be had in ascending order of their keys, each key once.
pub trait SortedRows: Sync {
    /// The table they belong to.
    fn table(&self) -> TableId;

    /// Hands every row to `sink`. Called once, on a thread of its own: sorting belongs in here.
    fn visit(&self, sink: &mut RowSink<'_>) -> Result<(), KvError>;
}

/// An ordered key-value engine with one writer and many readers.
pub trait Kv: Read + Send + Sync {
    /// A view of all tables that never changes.
    type Snapshot<'a>: Read
    where
        Self: 'a;

    /// Takes a snapshot.
    fn snapshot(&self) -> Self::Snapshot<'_>;

    /// Applies a batch atomically.
    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), KvError>;

    /// Loads many rows past the write path, at most one source per table, then commits `finish`.
    /// Durable, and all or nothing across crashes; but readers may see some of the rows before
    /// `finish`, so it is for states in which nobody reads.
    fn load(&self, tables: &[&dyn SortedRows], finish: Batch) -> Result<(), KvError>;

    /// How it was opened. What is built on the tables keeps to it.
    fn mode(&self) -> OpenMode {
        OpenMode::Create
    }

    /// Why no writes are taken at present, if so. Asked often, so it costs little.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Sizes of all tables.
    fn table_sizes(&self) -> Result<Vec<TableSize>, KvError>;

    /// Merges and rewrites the tables so that deleted rows take no more space.
    fn compact(&self) -> Result<(), KvError>;
}
