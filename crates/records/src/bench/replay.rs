//! A bare client: the same calls of the port, without anything above it.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::trace::{PortCall, Renamed, Sample};
use crate::{Barrier, RecordError, RecordStore, WriteCell, Written};

/// Cells that are put in place in one call.
const BEFORE_CELLS: usize = 2_000;

/// How samples are repeated.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'r> {
    /// Threads that call at once.
    pub clients: usize,
    /// Operations in one sample.
    pub operations: usize,
    /// Samples that a client repeats at most: what they need is put in place before.
    pub calls_max: u64,
    /// How long it is measured at most.
    pub lasts: Duration,
    /// Shards over which the records spread.
    pub shards: u16,
    /// Number of the first repetition: each has keys of its own. [`Replay::next`] is that of the next
    /// measurement.
    pub first: u64,
    /// Ends it early.
    pub stop: &'r AtomicBool,
}

impl Replay<'_> {
    /// The first number that this measurement does not use.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.first + self.clients as u64 * self.calls_max
    }

    /// Operations in a second, over all clients.
    pub fn measure(&self, port: &dyn RecordStore, samples: &[Sample]) -> Result<f64, RecordError> {
        self.put_in_place(port, samples)?;
        let (done, failed) = (AtomicU64::new(0), Mutex::new(None));
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for client in 0..self.clients as u64 {
                let (done, failed) = (&done, &failed);
                scope.spawn(move || match self.client(port, samples, client, begin) {
                    Ok(count) => drop(done.fetch_add(count, Ordering::Relaxed)),
                    Err(error) => {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                });
            }
        });
        let seconds = begin.elapsed().as_secs_f64();
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Err(error)
        } else {
            #[expect(clippy::cast_precision_loss, reason = "a rate, of far fewer than 2^52")]
            let rate = done.into_inner() as f64 / seconds;
            Ok(rate)
        }
    }

    fn sample<'s>(&self, samples: &'s [Sample], number: u64) -> (&'s Sample, Renamed) {
        let at = usize::try_from(number % samples.len() as u64).unwrap_or_default();
        (&samples[at], Renamed { number, shards: self.shards })
    }

    fn put_in_place(&self, port: &dyn RecordStore, samples: &[Sample]) -> Result<(), RecordError> {
        let mut cells: Vec<WriteCell> = Vec::new();
        for number in self.first..self.next() {
            let (sample, renamed) = self.sample(samples, number);
            cells.extend(sample.before(&renamed));
            if cells.len() >= BEFORE_CELLS {
                expect(port, &cells, Barrier::None, None)?;
                cells.clear();
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        expect(port, &cells, Barrier::None, None)
    }

    fn client(
        &self,
        port: &dyn RecordStore,
        samples: &[Sample],
        client: u64,
        begin: Instant,
    ) -> Result<u64, RecordError> {
        let mut done = 0;
        for call in 0..self.calls_max {
            let is_over = begin.elapsed() >= self.lasts && done > 0;
            if is_over || self.stop.load(Ordering::Relaxed) {
                break;
            }
            let (sample, renamed) =
                self.sample(samples, self.first + client * self.calls_max + call);
            for call in sample.calls(&renamed) {
                make(port, &call)?;
            }
            done += self.operations as u64;
        }
        Ok(done)
    }
}

fn make(port: &dyn RecordStore, call: &PortCall) -> Result<(), RecordError> {
    match call {
        PortCall::Read(reads) => port.read(reads).map(drop),
        PortCall::Write(writes, barrier, answers) => expect(port, writes, *barrier, Some(answers)),
        PortCall::Later(writes) => {
            port.write_later(writes.clone());
            Ok(())
        }
        PortCall::Scan(scans) => port.scan(scans).map(drop),
        PortCall::Clock(shard) => port.now_ms(*shard).map(drop),
    }
}

/// A write that ends otherwise than the one it repeats is no figure. Without answers all are done.
fn expect(
    port: &dyn RecordStore,
    writes: &[WriteCell],
    barrier: Barrier,
    answers: Option<&[Written]>,
) -> Result<(), RecordError> {
    if writes.is_empty() {
        return Ok(());
    }
    let found = port.write(writes, barrier)?;
    let kind = |written: &Written| std::mem::discriminant(written);
    for (at, found) in found.iter().enumerate() {
        let wanted = answers.map_or(Written::Done, |answers| answers[at]);
        if kind(found) != kind(&wanted) {
            let trouble = port.trouble().map(|trouble| trouble.reason).unwrap_or_default();
            let what = format!("a write ended as {found:?}, not as {wanted:?}: {trouble}");
            return Err(RecordError::Unavailable { what });
        }
    }
    Ok(())
}
