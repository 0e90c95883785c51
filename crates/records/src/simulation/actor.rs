//! The store as actors and tests see it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    mpsc::{Receiver, Sender},
};

use super::{Event, world::World};
use crate::{
    check,
    error::RecordError,
    port::{
        Acknowledgement, Barrier, Cell, IndexPage, Key, ReadCell, RecordStore, ScanIndex,
        WriteCell, Written,
    },
};

/// A call of the port.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Read(Vec<ReadCell>),
    Write(Vec<WriteCell>, Barrier),
    Scan(Vec<ScanIndex>),
    Now(u16),
    Pause(u64),
}

/// What it answers.
#[derive(Debug)]
pub(super) enum Answer {
    Read(Vec<Option<Cell>>),
    Write(Vec<Written>),
    Scan(Vec<IndexPage>),
    Now(u64),
    Paused,
    Failed(RecordError),
}

/// The store as one actor sees it: each call waits for the schedule. Once the actor has crashed,
/// every call answers [`RecordError::Closed`].
#[derive(Debug)]
pub struct SimulatedRecords {
    ends: Mutex<(Sender<Event>, Receiver<Answer>)>,
    refuses_late_writes: bool,
}

impl SimulatedRecords {
    pub(super) fn new(
        events: Sender<Event>,
        answers: Receiver<Answer>,
        refuses_late_writes: bool,
    ) -> Self {
        Self { ends: Mutex::new((events, answers)), refuses_late_writes }
    }

    fn call(&self, call: Call) -> Answer {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a scheduler there is nobody left to answer.
        if ends.0.send(Event::Calls(call)).is_err() {
            return Answer::Failed(RecordError::Closed);
        }
        ends.1.recv().unwrap_or(Answer::Failed(RecordError::Closed))
    }
}

/// Takes the answer of the kind that belongs to the call.
macro_rules! answered {
    ($answer:expr, $kind:ident) => {
        match $answer {
            Answer::$kind(answer) => Ok(answer),
            Answer::Failed(error) => Err(error),
            other => unreachable!("the scheduler answers in kind: {other:?}"),
        }
    };
}

impl RecordStore for SimulatedRecords {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        check::reads(reads)?;
        answered!(self.call(Call::Read(reads.to_vec())), Read)
    }

    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError> {
        check::writes(writes)?;
        answered!(self.call(Call::Write(writes.to_vec(), barrier)), Write)
    }

    fn refuses_late_writes(&self) -> bool {
        self.refuses_late_writes
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        check::scans(scans)?;
        answered!(self.call(Call::Scan(scans.to_vec())), Scan)
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        check::shard(shard)?;
        answered!(self.call(Call::Now(shard)), Now)
    }

    fn pause_ms(&self, ms: u64) {
        // A crashed actor does not wait.
        drop(self.call(Call::Pause(ms)));
    }

    fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::Replica
    }

    fn engine(&self) -> &'static str {
        "simulation"
    }
}

/// The store without faults, outside of the schedule. What it writes is safe at once.
#[derive(Debug, Clone)]
pub struct Observer {
    world: Arc<Mutex<World>>,
}

impl Observer {
    pub(super) fn new(world: Arc<Mutex<World>>) -> Self {
        Self { world }
    }

    /// Lets time pass.
    pub fn advance_ms(&self, ms: u64) {
        self.lock().advance_ms(ms);
    }

    /// Every cell that has not expired, in order.
    pub fn keys(&self) -> Vec<Key> {
        self.lock().keys()
    }

    /// Writes of a shard that a failover would lose.
    pub fn unacknowledged(&self, shard: u16) -> usize {
        self.lock().unacknowledged(shard)
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordStore for Observer {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        check::reads(reads)?;
        let world = self.lock();
        Ok(reads.iter().map(|read| world.read(read)).collect())
    }

    fn write(&self, writes: &[WriteCell], _: Barrier) -> Result<Vec<Written>, RecordError> {
        check::writes(writes)?;
        let mut world = self.lock();
        Ok(writes.iter().map(|write| world.write_safely(write)).collect())
    }

    fn refuses_late_writes(&self) -> bool {
        self.lock().settings.refuses_late_writes
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        check::scans(scans)?;
        let world = self.lock();
        Ok(scans.iter().map(|scan| world.scan(scan)).collect())
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        check::shard(shard)?;
        Ok(self.lock().now_ms())
    }

    fn pause_ms(&self, ms: u64) {
        self.advance_ms(ms);
    }

    fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::Replica
    }

    fn engine(&self) -> &'static str {
        "simulation"
    }
}
