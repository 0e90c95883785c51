//! Cells of a store: reading many, and writing until it is known what became of it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use utxokeep_records::{
    Acknowledgement, Barrier, CALL_ITEMS_MAX, Cell, Key, ReadCell, RecordError, RecordStore,
    Version, Versions, WriteCell, Written,
};

#[cfg(feature = "testing")]
use super::fault::RecordFaults;
use super::{fault::Fault, layout::Layout, settings::RecordSettings, status::KEYS_MAX};
use crate::error::StoreError;

/// Cells in one call of the port.
const CALL_CELLS: usize = if CALL_ITEMS_MAX < 10_000 { CALL_ITEMS_MAX } else { 10_000 };

/// Longest pause between two attempts, in milliseconds.
const PAUSE_MS_MAX: u64 = 50;

/// Where everything that is not decided by the cells comes from: a simulation gives its own.
#[derive(Clone)]
pub struct RecordContext {
    /// New versions, ids of calls and fences.
    pub versions: Arc<Versions>,
    /// Host that creation locks name.
    pub hostname: String,
    /// Process that creation locks name.
    pub process_id: u32,
    /// Rules that tests leave out.
    #[cfg(feature = "testing")]
    pub faults: RecordFaults,
}

impl RecordContext {
    /// Whether a test leaves out a rule; never without the feature `testing`.
    #[cfg(feature = "testing")]
    pub(super) fn leaves_out(&self, rule: Fault) -> bool {
        self.faults.has(rule)
    }

    /// The time of a creation lock; another one where a test says so.
    #[cfg(feature = "testing")]
    pub(super) fn lock_ttl_ms(&self, ms: u64) -> u64 {
        self.faults.lock_ttl_ms(ms)
    }

    #[cfg(not(feature = "testing"))]
    #[allow(clippy::unused_self, reason = "tests ask the context")]
    pub(super) const fn lock_ttl_ms(&self, ms: u64) -> u64 {
        ms
    }

    /// How many keys fit beside the status of a call; another number where a test says so.
    #[cfg(feature = "testing")]
    pub(super) fn keys_max(&self) -> usize {
        self.faults.keys_max(KEYS_MAX)
    }

    #[cfg(not(feature = "testing"))]
    #[allow(clippy::unused_self, reason = "tests ask the context")]
    pub(super) const fn keys_max(&self) -> usize {
        KEYS_MAX
    }

    #[cfg(not(feature = "testing"))]
    #[allow(clippy::unused_self, reason = "tests ask the context")]
    pub(super) const fn leaves_out(&self, _: Fault) -> bool {
        false
    }
}

impl Default for RecordContext {
    fn default() -> Self {
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname");
        Self {
            versions: Arc::new(Versions::random()),
            hostname: hostname.map(|name| name.trim().to_owned()).unwrap_or_default(),
            process_id: std::process::id(),
            #[cfg(feature = "testing")]
            faults: RecordFaults::default(),
        }
    }
}

impl fmt::Debug for RecordContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordContext({}, {})", self.hostname, self.process_id)
    }
}

/// What became of a write, however often it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) written: Written,
    /// An answer was lost on the way. A mismatch may then be our own write, changed since.
    pub(super) was_in_doubt: bool,
}

impl Sent {
    pub(super) fn is_done(self) -> bool {
        self.written == Written::Done
    }
}

/// The cells of a store.
pub(super) struct Cells {
    pub(super) port: Arc<dyn RecordStore>,
    pub(super) layout: Layout,
    pub(super) settings: RecordSettings,
    pub(super) context: RecordContext,
    /// The servers' clock, and when it was read.
    clock: Mutex<Option<(Instant, u64)>>,
    /// Held by the thread that renews the stamps of all shards.
    pub(super) stamping: Mutex<()>,
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cells({}, {:?})", self.port.engine(), self.layout)
    }
}

impl Cells {
    pub(super) fn new(
        port: Arc<dyn RecordStore>,
        settings: RecordSettings,
        context: RecordContext,
    ) -> Self {
        let RecordSettings { shards, outputs_per_record, .. } = settings;
        let layout = Layout { shards, outputs_per_record };
        Self { port, layout, settings, context, clock: Mutex::new(None), stamping: Mutex::new(()) }
    }

    /// The version of a cell behind the one that was read. Random, because a number that counts
    /// begins again when a cell is made anew, and a stalled call would take one for the other.
    pub(super) fn version(&self, read: Option<Version>) -> Version {
        if self.context.leaves_out(Fault::VersionsCount) {
            return Version::new(read.map_or(1, |read| read.bits() + 1));
        }
        self.context.versions.next()
    }

    /// Whether what was written can be undone until a barrier is reached.
    pub(super) fn has_barriers(&self) -> bool {
        self.port.acknowledgement() > Acknowledgement::Primary
    }

    /// The servers' clock, as far as it is remembered. It only suggests.
    pub(super) fn now_ms(&self) -> Result<u64, StoreError> {
        let refresh = Duration::from_millis(self.settings.clock_refresh_ms);
        if refresh.is_zero() {
            return Ok(self.port.now_ms(0)?);
        }
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, ms)) = *clock
            && at.elapsed() < refresh
        {
            return Ok(ms + u64::try_from(at.elapsed().as_millis()).unwrap_or(0));
        }
        let ms = self.port.now_ms(0)?;
        *clock = Some((Instant::now(), ms));
        Ok(ms)
    }

    /// Waits before the next of many attempts, longer each time, and not as long as others do.
    pub(super) fn pause(&self, attempt: u32) -> u64 {
        let longest = (1u64 << attempt.min(6)).min(PAUSE_MS_MAX);
        let ms = 1 + self.context.versions.next_u64() % longest;
        self.port.pause_ms(ms);
        ms
    }

    pub(super) fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, StoreError> {
        let mut found = Vec::with_capacity(reads.len());
        for some in reads.chunks(CALL_CELLS) {
            found.extend(self.port.read(some)?);
        }
        Ok(found)
    }

    pub(super) fn read_one(&self, read: ReadCell) -> Result<Option<Cell>, StoreError> {
        Ok(self.read(&[read])?.into_iter().next().flatten())
    }

    /// Versions of cells, as far as reading tells.
    pub(super) fn versions<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k Key>,
    ) -> Result<Vec<Option<Version>>, StoreError> {
        let reads: Vec<_> = keys.into_iter().cloned().map(ReadCell::version).collect();
        Ok(self.read(&reads)?.into_iter().map(|cell| cell.map(|cell| cell.version)).collect())
    }

    /// Versions of cells that a failover does not undo. A read alone does not tell: a primary that
    /// was paused while another took over answers reads too. A write that cannot succeed does.
    pub(super) fn safe_versions<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k Key> + Clone,
    ) -> Result<Vec<Option<Version>>, StoreError> {
        if !self.has_barriers() || self.context.leaves_out(Fault::ReadsDecide) {
            return self.versions(keys);
        }
        let probe = |key: &Key| {
            WriteCell::update(
                key.clone(),
                self.context.versions.next(),
                self.context.versions.next(),
            )
        };
        let probes: Vec<_> = keys.into_iter().map(probe).collect();
        let answer = |sent: Sent| match sent.written {
            Written::Mismatch(version) => Ok(version),
            Written::Done => Err(StoreError::Contended),
            Written::InDoubt | Written::Unavailable => Err(self.unavailable("a barrier")),
        };
        self.send(&probes, Barrier::Safe)?.into_iter().map(answer).collect()
    }

    /// Sends writes, and those whose answer was lost again, until it is known what became of them,
    /// there were enough attempts, or a call may not wait any longer. An error means that nothing
    /// happened.
    pub(super) fn send(
        &self,
        writes: &[WriteCell],
        barrier: Barrier,
    ) -> Result<Vec<Sent>, StoreError> {
        let mut sent: Vec<Sent> = Vec::with_capacity(writes.len());
        for some in writes.chunks(CALL_CELLS) {
            match self.port.write(some, barrier) {
                Ok(answers) => sent.extend(
                    answers
                        .into_iter()
                        .map(|written| Sent { written, was_in_doubt: written == Written::InDoubt }),
                ),
                // Of the first part nothing happened, and of the others something did.
                Err(error) if sent.is_empty() => return Err(error.into()),
                Err(RecordError::Closed) => return Err(RecordError::Closed.into()),
                Err(_) => sent.extend(
                    some.iter()
                        .map(|_| Sent { written: Written::Unavailable, was_in_doubt: false }),
                ),
            }
        }
        let (begin, longest) = (Instant::now(), Duration::from_millis(self.settings.wait_ms_max));
        for round in 0..self.settings.resends_max {
            if begin.elapsed() > longest {
                break;
            }
            let doubtful = (0..sent.len()).filter(|&at| sent[at].written == Written::InDoubt);
            let doubtful: Vec<usize> = doubtful.take(CALL_CELLS).collect();
            if doubtful.is_empty() {
                break;
            }
            self.pause(round);
            let again: Vec<_> = doubtful.iter().map(|&at| writes[at].clone()).collect();
            let answers = match self.port.write(&again, Barrier::Safe) {
                Ok(answers) => answers,
                Err(RecordError::Closed) => return Err(RecordError::Closed.into()),
                Err(_) => continue,
            };
            for (at, answer) in doubtful.into_iter().zip(answers) {
                // That it could not be sent again says nothing of the first time.
                if answer != Written::Unavailable {
                    sent[at].written = answer;
                }
            }
        }
        Ok(sent)
    }

    pub(super) fn send_one(&self, write: WriteCell, barrier: Barrier) -> Result<Sent, StoreError> {
        let mut sent = self.send(&[write], barrier)?;
        Ok(sent.pop().expect("each write has an answer"))
    }

    /// A write that did not reach its shard, and why.
    pub(super) fn unavailable(&self, what: &str) -> StoreError {
        let why = self.port.last_failure().map(|why| format!(": {why}")).unwrap_or_default();
        let what = format!("{what} was not answered{why}");
        StoreError::Records(RecordError::Unavailable { what })
    }

    /// Nobody can tell whether a commit happened, and why.
    pub(super) fn unknown(&self) -> StoreError {
        let why = self.port.last_failure().unwrap_or_else(|| "no server said why".to_owned());
        StoreError::CommitUnknown { why }
    }
}
