//! Calls of a program above the port, recorded, so that a bare client can make them again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    Acknowledgement, Action, Barrier, Cell, Expect, Field, Fields, IndexPage, Key, ReadCell,
    RecordError, RecordStore, ScanIndex, Trouble, Version, WriteCell, Written,
};

/// One call of the port.
#[derive(Debug, Clone)]
pub(super) enum PortCall {
    Read(Vec<ReadCell>),
    /// Writes, their barrier, and what each of them was answered.
    Write(Vec<WriteCell>, Barrier, Vec<Written>),
    Scan(Vec<ScanIndex>),
    Clock(u16),
    /// Writes that nobody waits for.
    Later(Vec<WriteCell>),
}

/// What was asked of the port, in order.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    calls: Vec<PortCall>,
}

/// How much a trace asks of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceSize {
    /// Calls one behind the other: what one client waits for.
    pub rounds: usize,
    /// Cells read.
    pub reads: usize,
    /// Conditional writes.
    pub writes: usize,
    /// Calls that waited for the acknowledgement level.
    pub barriers: usize,
}

impl Trace {
    /// How much it asks.
    #[must_use]
    pub fn size(&self) -> TraceSize {
        let is_awaited = |call: &&PortCall| !matches!(call, PortCall::Later(_));
        let rounds = self.calls.iter().filter(is_awaited).count();
        let mut size = TraceSize { rounds, ..TraceSize::default() };
        for call in &self.calls {
            match call {
                PortCall::Read(reads) => size.reads += reads.len(),
                PortCall::Write(writes, barrier, _) => {
                    size.writes += writes.len();
                    size.barriers += usize::from(*barrier == Barrier::Safe);
                }
                PortCall::Later(writes) => size.writes += writes.len(),
                PortCall::Scan(_) | PortCall::Clock(_) => {}
            }
        }
        size
    }

    fn writes(&self) -> impl Iterator<Item = &WriteCell> {
        self.calls.iter().flat_map(|call| match call {
            PortCall::Write(writes, ..) | PortCall::Later(writes) => writes.as_slice(),
            _ => &[],
        })
    }

    fn reads(&self) -> impl Iterator<Item = &ReadCell> {
        self.calls.iter().flat_map(|call| match call {
            PortCall::Read(reads) => reads.as_slice(),
            _ => &[],
        })
    }
}

/// A port that notes what is asked of it while somebody wants to know.
pub struct Recorder<P: ?Sized> {
    port: Arc<P>,
    /// `None` while nobody records.
    calls: Mutex<Option<Vec<PortCall>>>,
}

impl<P: RecordStore + ?Sized> fmt::Debug for Recorder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.port.engine())
    }
}

impl<P: RecordStore + ?Sized> Recorder<P> {
    /// A recorder in front of a port.
    #[must_use]
    pub const fn new(port: Arc<P>) -> Self {
        Self { port, calls: Mutex::new(None) }
    }

    /// Does something and answers what it asked of the port. For one thread at a time.
    pub fn record<T>(&self, work: impl FnOnce() -> T) -> (T, Trace) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
        let answer = work();
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).take();
        (answer, Trace { calls: calls.unwrap_or_default() })
    }

    fn note(&self, call: impl FnOnce() -> PortCall) {
        if let Some(calls) = &mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner) {
            calls.push(call());
        }
    }
}

impl<P: RecordStore + ?Sized> RecordStore for Recorder<P> {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        self.note(|| PortCall::Read(reads.to_vec()));
        self.port.read(reads)
    }

    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError> {
        let answers = self.port.write(writes, barrier)?;
        if !writes.is_empty() {
            self.note(|| PortCall::Write(writes.to_vec(), barrier, answers.clone()));
        }
        Ok(answers)
    }

    fn refuses_late_writes(&self) -> bool {
        self.port.refuses_late_writes()
    }

    fn write_later(&self, writes: Vec<WriteCell>) {
        self.note(|| PortCall::Later(writes.clone()));
        self.port.write_later(writes);
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        self.note(|| PortCall::Scan(scans.to_vec()));
        self.port.scan(scans)
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        self.note(|| PortCall::Clock(shard));
        self.port.now_ms(shard)
    }

    fn acknowledgement(&self) -> Acknowledgement {
        self.port.acknowledgement()
    }

    fn engine(&self) -> &'static str {
        self.port.engine()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.port.trouble()
    }
}

/// A call of the store as a bare client makes it: cells that are there before, and calls of the port.
#[derive(Debug, Clone)]
pub struct Sample {
    before: Vec<WriteCell>,
    calls: Vec<PortCall>,
    /// Keys that are written; all others are found under the name that they have.
    written: BTreeSet<Key>,
}

impl Sample {
    /// The calls of `work`, on what `before` left behind.
    #[must_use]
    pub fn new(before: &Trace, work: &Trace) -> Self {
        let touched: BTreeSet<&Key> = work
            .reads()
            .map(|read| &read.key)
            .chain(work.writes().map(|write| &write.key))
            .collect();
        let mut before = left_behind(before);
        before.retain(|cell| touched.contains(&cell.key));
        let keys = before.iter().map(|cell| &cell.key).chain(work.writes().map(|write| &write.key));
        let written = keys.cloned().collect();
        Self { before, calls: work.calls.clone(), written }
    }

    /// The least that the same changes take: each record that `is_record` names is read once and
    /// written once, all of them in two calls.
    #[must_use]
    pub fn floor(&self, is_record: impl Fn(&Key) -> bool, staging: &[u8]) -> Self {
        let trace = Trace { calls: self.calls.clone() };
        let mut asked: BTreeMap<&Key, &Fields> = BTreeMap::new();
        for read in trace.reads() {
            asked.entry(&read.key).or_insert(&read.fields);
        }
        let mut written: BTreeMap<&Key, WriteCell> = BTreeMap::new();
        for write in trace.writes().filter(|write| is_record(&write.key)) {
            let once = written.entry(&write.key).or_insert_with(|| {
                let mut once = write.clone();
                (once.set, once.unset, once.index) = (Vec::new(), Vec::new(), Vec::new());
                once
            });
            for (name, value) in write.set.iter().filter(|(name, _)| name != staging) {
                once.set.retain(|(other, _)| other != name);
                once.set.push((name.clone(), value.clone()));
            }
            once.index.extend(write.index.iter().cloned());
        }
        let fields = |key: &Key| asked.get(key).map_or(Fields::Named(Vec::new()), |f| (*f).clone());
        let reads = written
            .keys()
            .map(|key| ReadCell { key: (*key).clone(), fields: fields(key) })
            .collect();
        let answers = vec![Written::Done; written.len()];
        let writes = written.into_values().collect();
        let calls = vec![PortCall::Read(reads), PortCall::Write(writes, Barrier::Safe, answers)];
        Self { calls, ..self.clone() }
    }

    /// How much it asks of the port.
    #[must_use]
    pub fn size(&self) -> TraceSize {
        Trace { calls: self.calls.clone() }.size()
    }

    /// Cells that have to be there before it is made for this number.
    pub(super) fn before(&self, as_number: &Renamed) -> Vec<WriteCell> {
        self.before.iter().map(|write| as_number.write(write, &self.written)).collect()
    }

    /// Its calls for this number.
    pub(super) fn calls(&self, as_number: &Renamed) -> Vec<PortCall> {
        let call = |call: &PortCall| match call {
            PortCall::Read(reads) => {
                let read = |read: &ReadCell| {
                    let key = as_number.key(&read.key, &self.written);
                    ReadCell { key, fields: read.fields.clone() }
                };
                PortCall::Read(reads.iter().map(read).collect())
            }
            PortCall::Write(writes, barrier, answers) => {
                let writes =
                    writes.iter().map(|write| as_number.write(write, &self.written)).collect();
                PortCall::Write(writes, *barrier, answers.clone())
            }
            PortCall::Later(writes) => {
                let write = |write| as_number.write(write, &self.written);
                PortCall::Later(writes.iter().map(write).collect())
            }
            PortCall::Scan(scans) => PortCall::Scan(scans.clone()),
            PortCall::Clock(shard) => PortCall::Clock(*shard),
        };
        self.calls.iter().map(call).collect()
    }
}

/// Cells as writes that create them, without rows of indexes.
fn left_behind(trace: &Trace) -> Vec<WriteCell> {
    let mut cells: BTreeMap<&Key, (Version, BTreeMap<Field, Vec<u8>>)> = BTreeMap::new();
    for write in trace.writes() {
        if write.action == Action::Delete {
            cells.remove(&write.key);
            continue;
        }
        let (version, fields) =
            cells.entry(&write.key).or_insert_with(|| (write.version, BTreeMap::new()));
        *version = write.version;
        fields.extend(write.set.iter().cloned());
        fields.retain(|name, _| !write.unset.contains(name));
    }
    let create = |(key, (version, fields)): (&Key, (Version, BTreeMap<Field, Vec<u8>>))| {
        let mut write = WriteCell::create(key.clone(), version);
        write.set = fields.into_iter().collect();
        write
    };
    cells.into_iter().map(create).collect()
}

/// Keys of one repetition: names with a number behind them, in other shards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renamed {
    pub(super) number: u64,
    pub(super) shards: u16,
}

impl Renamed {
    fn shard(self, shard: u16) -> u16 {
        // An odd step visits every shard of a power of two.
        let moved =
            (u64::from(shard) + self.number.wrapping_mul(389)) % u64::from(self.shards.max(1));
        u16::try_from(moved).unwrap_or_default()
    }

    fn key(self, key: &Key, written: &BTreeSet<Key>) -> Key {
        let mut name = key.name.clone();
        if written.contains(key) {
            name.extend(self.number.to_be_bytes());
        }
        Key { shard: self.shard(key.shard), name }
    }

    fn write(self, write: &WriteCell, written: &BTreeSet<Key>) -> WriteCell {
        let mut write = WriteCell { key: self.key(&write.key, written), ..write.clone() };
        for row in &mut write.index {
            row.member.extend(self.number.to_be_bytes());
        }
        debug_assert!(
            !matches!(write.expect, Expect::Version(version) if version == write.version)
        );
        write
    }
}
