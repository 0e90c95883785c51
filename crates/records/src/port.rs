//! What an engine has to be able to do, and the words for it.

use std::{fmt, ops::Bound};

use crate::{error::RecordError, version::Version};

/// Shards of a store at most: the number of hash slots of a Redis Cluster.
pub const SHARDS_MAX: u16 = 16_384;
/// Bytes in the name of a key.
pub const KEY_NAME_BYTES_MAX: usize = 512;
/// Bytes in the name of a field; it has at least one, and `@` does not come first.
pub const FIELD_NAME_BYTES_MAX: usize = 64;
/// Bytes in a member of an index; it has at least one.
pub const MEMBER_BYTES_MAX: usize = 512;
/// Greatest score of an index: Redis keeps scores as floating-point numbers, exact up to here.
pub const SCORE_MAX: u64 = (1 << 53) - 1;
/// Rows in one page of an index.
pub const SCAN_LIMIT_MAX: usize = 10_000;
/// Cells or pages in one call.
pub const CALL_ITEMS_MAX: usize = 100_000;

/// Name of a field. A few bytes: it is stored with every cell.
pub type Field = Vec<u8>;

/// Rows of an index: score and member, in order.
pub type IndexPage = Vec<(u64, Vec<u8>)>;

/// Where a cell is. The cells and indexes of one shard are on one server, and only they can change
/// together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Below the number of shards of the store, which is at most [`SHARDS_MAX`].
    pub shard: u16,
    /// Unique in its shard; 1 to [`KEY_NAME_BYTES_MAX`] bytes.
    pub name: Vec<u8>,
}

impl Key {
    /// A key of this shard and name.
    pub fn new(shard: u16, name: impl Into<Vec<u8>>) -> Self {
        Self { shard, name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shard, self.name.escape_ascii())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which fields of a cell are wanted. The version always comes along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fields {
    /// All of them.
    All,
    /// Those of these names that the cell has; none for the version alone.
    Named(Vec<Field>),
}

/// A cell to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCell {
    /// Which.
    pub key: Key,
    /// What of it.
    pub fields: Fields,
}

impl ReadCell {
    /// A cell with all its fields.
    pub fn all(key: Key) -> Self {
        Self { key, fields: Fields::All }
    }

    /// A cell with some of its fields.
    pub fn fields(key: Key, names: impl IntoIterator<Item = Field>) -> Self {
        Self { key, fields: Fields::Named(names.into_iter().collect()) }
    }

    /// The version of a cell.
    pub fn version(key: Key) -> Self {
        Self::fields(key, [])
    }
}

/// A cell as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Which write it is the result of.
    pub version: Version,
    /// The fields that were asked for and are there, in the order of their names, each once.
    pub fields: Vec<(Field, Vec<u8>)>,
}

impl Cell {
    /// Value of a field, where it was asked for and is there.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let place = self.fields.binary_search_by(|(field, _)| field.as_slice().cmp(name)).ok()?;
        Some(&self.fields[place].1)
    }
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No such cell; one that has expired is none.
    Absent,
    /// The cell in this version.
    Version(Version),
}

/// What becomes of a cell as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// It is made, or changed.
    #[default]
    Keep,
    /// It is deleted. Fields and expiry must not be given; rows of indexes that it has must be.
    Delete,
    /// The same for a cell that does no harm if an old copy of it comes back, such as a lock that
    /// expires anyway: an engine without durable deletes keeps no tombstone of it.
    Discard,
}

impl Action {
    /// Whether the cell goes.
    #[must_use]
    pub const fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::Discard)
    }
}

/// A row of an index of the cell's shard, changed in the same atomic step as the cell. A row belongs
/// to the cell whose write made it: no other cell changes it, and it goes with its cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexChange {
    /// Number of the index.
    pub index: u8,
    /// Unique in the index of a shard; 1 to [`MEMBER_BYTES_MAX`] bytes.
    pub member: Vec<u8>,
    /// New score, at most [`SCORE_MAX`]; `None` takes the row away.
    pub score: Option<u64>,
}

/// A conditional write of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteCell {
    /// Which cell.
    pub key: Key,
    /// Otherwise nothing happens.
    pub expect: Expect,
    /// Version of the cell after the write, from [`crate::Versions`]. A cell that has it already
    /// makes the write a success that changes nothing: so a write whose answer was lost
    /// recognises itself when it is sent again. It must differ from the version that is expected.
    pub version: Version,
    /// Fields to set.
    pub set: Vec<(Field, Vec<u8>)>,
    /// Fields to take away, where they are; none of those that are set.
    pub unset: Vec<Field>,
    /// What becomes of the cell.
    pub action: Action,
    /// The server drops the cell so many milliseconds after this write, by its own clock; at
    /// least 1; it may be a few seconds late. `None`: it stays, also when an earlier write had set a
    /// time. A cell that expires has no rows of indexes.
    pub expire_ms: Option<u64>,
    /// A server whose clock shows a later time, in milliseconds of the Unix epoch, does nothing and
    /// answers [`Written::Mismatch`] with what it found. So a request that was held up on its way does
    /// not happen when everybody has forgotten it. Only where
    /// [`RecordStore::refuses_late_writes`] says so.
    pub not_after_ms: Option<u64>,
    /// Rows of indexes to change along with it; each member of an index once.
    pub index: Vec<IndexChange>,
}

impl WriteCell {
    /// A cell that must not exist yet.
    pub fn create(key: Key, version: Version) -> Self {
        Self::new(key, Expect::Absent, version, Action::Keep)
    }

    /// A change of a cell in the version that was read.
    pub fn update(key: Key, read: Version, version: Version) -> Self {
        Self::new(key, Expect::Version(read), version, Action::Keep)
    }

    /// Deletes a cell in the version that was read. When it is sent again after its answer was
    /// lost it finds no cell, [`Written::Mismatch`] of nothing, or one that was made since.
    pub fn delete(key: Key, read: Version) -> Self {
        Self::new(key, Expect::Version(read), Version::new(!read.bits()), Action::Delete)
    }

    /// The same for a cell that may come back; see [`Action::Discard`].
    pub fn discard(key: Key, read: Version) -> Self {
        Self { action: Action::Discard, ..Self::delete(key, read) }
    }

    fn new(key: Key, expect: Expect, version: Version, action: Action) -> Self {
        let (set, unset, index) = (Vec::new(), Vec::new(), Vec::new());
        let (expire_ms, not_after_ms) = (None, None);
        Self { key, expect, version, set, unset, action, expire_ms, not_after_ms, index }
    }

    /// Sets a field.
    #[must_use]
    pub fn set(mut self, name: impl Into<Field>, value: impl Into<Vec<u8>>) -> Self {
        self.set.push((name.into(), value.into()));
        self
    }

    /// Takes a field away.
    #[must_use]
    pub fn unset(mut self, name: impl Into<Field>) -> Self {
        self.unset.push(name.into());
        self
    }

    /// Lets the cell expire.
    #[must_use]
    pub fn expires_in_ms(mut self, ms: u64) -> Self {
        self.expire_ms = Some(ms);
        self
    }

    /// Lets servers refuse the write from some time on.
    #[must_use]
    pub fn not_after_ms(mut self, ms: u64) -> Self {
        self.not_after_ms = Some(ms);
        self
    }

    /// Changes a row of an index.
    #[must_use]
    pub fn index(mut self, index: u8, member: impl Into<Vec<u8>>, score: Option<u64>) -> Self {
        self.index.push(IndexChange { index, member: member.into(), score });
        self
    }
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// It is there: by this call, or by an earlier one of the same write.
    Done,
    /// The cell was another; nothing happened. Its version, or `None` where there is no cell.
    /// Where the same write was in doubt before, it may have happened then, and have been overtaken
    /// by others since; it will not happen any more.
    Mismatch(Option<Version>),
    /// Its answer was lost, or its barrier was not reached: it may have happened, may yet happen, or
    /// may be undone. Only the same write, sent again with a barrier, tells; a read does not. A
    /// write that creates may even happen after it was sent again and its cell deleted by others.
    InDoubt,
    /// Its shard could not be reached in all attempts; it certainly did not happen, and will not.
    Unavailable,
}

/// Whether a call waits until what it wrote is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// It answers as soon as the shard's primary did. Until a later barrier on the same shard, a
    /// failover may undo it.
    None,
    /// [`Written::Done`] and [`Written::Mismatch`] are answered once the cell as it was found or
    /// made, and everything that was written to its shard before, are as safe as the
    /// [`Acknowledgement`] level of the store says.
    Safe,
}

/// What a barrier waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Acknowledgement {
    /// The primary has it in memory. A failover can undo it.
    Primary,
    /// Every replica of the shard has it in memory too. It outlives the loss of a server, but not
    /// that of all servers of a shard at once, and not a kill of the target while a slot moves.
    #[default]
    Replica,
    /// Primary and replicas have it on disk. It outlives a power cut of all of them.
    Disk,
}

impl fmt::Display for Acknowledgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Disk => "disk",
        })
    }
}

/// A page of an index of one shard. Rows are in the order of (score, member), members byte by
/// byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanIndex {
    /// Which shard.
    pub shard: u16,
    /// Number of the index.
    pub index: u8,
    /// Where to begin; the row need not be there. A member may be empty here, to begin at a score.
    pub from: Bound<(u64, Vec<u8>)>,
    /// Greatest score to answer.
    pub until: u64,
    /// Rows at most; at most [`SCAN_LIMIT_MAX`].
    pub limit: usize,
}

/// Why a store cannot do its work at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong, and what to do.
    pub reason: String,
    /// Whether it ends by itself once its cause is gone. Otherwise the store has to be opened
    /// again.
    pub passes: bool,
}

/// A store of cells. Every call may wait, up to the limits of the engine.
///
/// A call has at most [`CALL_ITEMS_MAX`] items. Items of one call run in any order and beside each
/// other, also those of one shard: none may rest on another, and none of a write may name the same
/// cell or the same row of an index as another.
pub trait RecordStore: Send + Sync {
    /// Version and fields of cells, in the order they were asked for. Each cell is read
    /// atomically; the list is no snapshot. What is read may be undone by a failover, see
    /// [`Barrier`].
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError>;

    /// Conditional writes, each atomic alone; answers in the order of the writes. An error means
    /// that none of them happened, and none will.
    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError>;

    /// Whether servers go by [`WriteCell::not_after_ms`]. Others ignore it.
    fn refuses_late_writes(&self) -> bool {
        false
    }

    /// Conditional writes that nobody waits for: they may happen later, or never.
    fn write_later(&self, writes: Vec<WriteCell>) {
        // What became of them is of no interest.
        let _ = self.write(&writes, Barrier::None);
    }

    /// Pages of indexes, in the order they were asked for. A row that nobody changes meanwhile is in
    /// its page; one that moves may be missed, or be found where it was.
    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError>;

    /// Clock of the server that holds a shard, in milliseconds of the Unix epoch. Clocks of
    /// servers differ: times only suggest, conditional writes decide.
    fn now_ms(&self, shard: u16) -> Result<u64, RecordError>;

    /// Waits before something is tried again. A simulation lets its clock pass instead.
    fn pause_ms(&self, ms: u64) {
        std::thread::sleep(std::time::Duration::from_millis(ms));
    }

    /// What a barrier waits for.
    fn acknowledgement(&self) -> Acknowledgement;

    /// Name of the engine.
    fn engine(&self) -> &'static str;

    /// Why no calls are answered at present, if so. Costs little: it tells what the last calls met.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Looks whether writes are taken, where the engine can: each server that holds one of the first
    /// `shards` shards is written to, with a barrier, and its settings are looked at again. Changes no
    /// cell. Takes a few seconds where servers do not answer.
    fn probe(&self, _shards: u16) -> Option<Trouble> {
        self.trouble()
    }

    /// Why the last call failed that did, whatever succeeded since.
    fn last_failure(&self) -> Option<String> {
        self.trouble().map(|trouble| trouble.reason)
    }

    /// What the cells take in memory or on disk, replicas not counted, where the engine tells.
    fn stored_bytes(&self) -> Result<Option<u64>, RecordError> {
        Ok(None)
    }
}
