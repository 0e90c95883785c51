//! What the bare store does in a second, to compare with what is built on it.
//!
//! [`measure`] has records of its own. [`Recorder`] and [`Replay`] make the calls again that a program
//! above made of the port.

mod replay;
mod trace;

pub use replay::Replay;
pub use trace::{Recorder, Sample, Trace, TraceSize};

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    Acknowledgement, Barrier, Key, ReadCell, RecordError, RecordStore, Versions, WriteCell, Written,
};

/// What to measure.
#[derive(Debug, Clone)]
pub struct BenchPlan {
    /// Records in one call.
    pub batches: Vec<usize>,
    /// Threads that call at once.
    pub clients: Vec<usize>,
    /// Shards over which the records spread.
    pub shards: u16,
    /// Fields of a record.
    pub fields: usize,
    /// Bytes in each field.
    pub field_bytes: usize,
    /// How long one row is measured.
    pub row_ms: u64,
}

impl Default for BenchPlan {
    fn default() -> Self {
        Self {
            batches: vec![1, 128, 1_000],
            clients: vec![1, 8, 64],
            shards: 1_024,
            fields: 3,
            field_bytes: 60,
            row_ms: 1_000,
        }
    }
}

/// What is done to each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchWork {
    /// It is made, with a row of an index.
    Create,
    /// It is read.
    Read,
    /// It is read and then written on condition: the floor of any change.
    ReadAndUpdate,
}

impl BenchWork {
    /// In the order in which they are measured: later ones use records of the first.
    pub const ALL: [Self; 3] = [Self::Create, Self::Read, Self::ReadAndUpdate];

    /// A word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::ReadAndUpdate => "read and update",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchRow {
    /// What was done.
    pub work: BenchWork,
    /// Records in one call.
    pub batch: usize,
    /// Threads that called at once.
    pub clients: usize,
    /// Records in a second, over all threads.
    pub per_second: f64,
    /// What was waited for.
    pub acknowledgement: Acknowledgement,
}

/// Measures every combination of the plan, and hands each row over as it comes. Records stay in the
/// store: give it a prefix of its own.
pub fn measure(
    store: &dyn RecordStore,
    plan: &BenchPlan,
    each: &mut dyn FnMut(&BenchRow),
) -> Result<(), RecordError> {
    let versions = Versions::random();
    for &batch in &plan.batches {
        for &clients in &plan.clients {
            let run = versions.next_u64();
            // Records that a thread may use, made by itself before.
            let mut made = vec![0; clients];
            for work in BenchWork::ALL {
                let row = Row { store, plan, run, work, batch };
                let (done, seconds) = row.measure(&mut made)?;
                #[expect(clippy::cast_precision_loss, reason = "a rate, of far fewer than 2^52")]
                let per_second = done as f64 / seconds;
                let acknowledgement = store.acknowledgement();
                each(&BenchRow { work, batch, clients, per_second, acknowledgement });
            }
        }
    }
    Ok(())
}

struct Row<'p> {
    store: &'p dyn RecordStore,
    plan: &'p BenchPlan,
    run: u64,
    work: BenchWork,
    batch: usize,
}

impl Row<'_> {
    /// Records done, and the seconds that they took.
    fn measure(&self, made: &mut [u64]) -> Result<(u64, f64), RecordError> {
        let (done, failed) = (AtomicU64::new(0), Mutex::new(None));
        let begin = Instant::now();
        let end = begin + Duration::from_millis(self.plan.row_ms);
        std::thread::scope(|scope| {
            for (client, made) in made.iter_mut().enumerate() {
                let (done, failed) = (&done, &failed);
                scope.spawn(move || {
                    let outcome = self.client(client, made, end);
                    match outcome {
                        Ok(count) => drop(done.fetch_add(count, Ordering::Relaxed)),
                        Err(error) => {
                            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                    }
                });
            }
        });
        let seconds = begin.elapsed().as_secs_f64();
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok((done.into_inner(), seconds)),
        }
    }

    fn client(&self, client: usize, made: &mut u64, end: Instant) -> Result<u64, RecordError> {
        let versions = Versions::random();
        let (mut done, mut next) = (0, 0);
        while Instant::now() < end || done == 0 {
            let numbers: Vec<u64> = (0..self.batch as u64)
                .map(|at| match self.work {
                    BenchWork::Create => *made + at,
                    _ => (next + at) % (*made).max(1),
                })
                .collect();
            next += self.batch as u64;
            let keys = numbers.iter().map(|&number| self.key(client, number));
            match self.work {
                BenchWork::Create => {
                    let writes = keys.map(|key| self.created(key, &versions)).collect::<Vec<_>>();
                    self.write(&writes)?;
                    *made += self.batch as u64;
                }
                BenchWork::Read => {
                    let reads: Vec<ReadCell> = keys.map(ReadCell::all).collect();
                    self.store.read(&reads)?;
                }
                BenchWork::ReadAndUpdate => {
                    // A batch that is longer than there are records names some twice.
                    let keys: std::collections::BTreeSet<Key> = keys.collect();
                    self.update(&keys.into_iter().collect::<Vec<_>>(), &versions)?;
                }
            }
            done += self.batch as u64;
        }
        Ok(done)
    }

    fn key(&self, client: usize, number: u64) -> Key {
        let shard = (number * 31 + client as u64) % u64::from(self.plan.shards.max(1));
        let name = [&self.run.to_be_bytes()[..], &client.to_be_bytes(), &number.to_be_bytes()];
        Key::new(u16::try_from(shard).unwrap_or_default(), name.concat())
    }

    fn created(&self, key: Key, versions: &Versions) -> WriteCell {
        let member = key.name.clone();
        let mut write = WriteCell::create(key, versions.next()).index(1, member, Some(1));
        for field in 0..self.plan.fields {
            write = write.set(format!("f{field}"), vec![7; self.plan.field_bytes]);
        }
        write
    }

    fn update(&self, keys: &[Key], versions: &Versions) -> Result<(), RecordError> {
        let reads: Vec<ReadCell> = keys.iter().cloned().map(ReadCell::all).collect();
        let cells = self.store.read(&reads)?;
        let write = |(key, cell): (&Key, &Option<crate::Cell>)| {
            let version = cell.as_ref()?.version;
            let write = WriteCell::update(key.clone(), version, versions.next());
            Some(write.set("f0", vec![8; self.plan.field_bytes]))
        };
        let writes: Vec<WriteCell> = keys.iter().zip(&cells).filter_map(write).collect();
        self.write(&writes)
    }

    /// A record that is not written is no figure.
    fn write(&self, writes: &[WriteCell]) -> Result<(), RecordError> {
        let answers = self.store.write(writes, Barrier::Safe)?;
        match answers.iter().find(|answer| **answer != Written::Done) {
            None => Ok(()),
            Some(answer) => {
                let trouble = self.store.trouble().map(|trouble| trouble.reason);
                let what = format!("a write ended as {answer:?}: {}", trouble.unwrap_or_default());
                Err(RecordError::Unavailable { what })
            }
        }
    }
}
