//! The port on a cluster. Calls block; answers are carried by threads of the store's own.

use std::sync::{Arc, mpsc::sync_channel};

use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
};

use super::{
    client::{Command, Connector, Reply},
    cluster::Cluster,
    encode::{self, Encoder, tag_of},
    fred::FredConnector,
    health,
    options::RedisOptions,
    probe::{self, Purpose},
    send::{Item, Kind, Outcome, answer},
    slots::slot_of,
};
use crate::{
    check,
    error::RecordError,
    port::{
        Acknowledgement, Barrier, Cell, IndexPage, ReadCell, RecordStore, ScanIndex, Trouble,
        WriteCell, Written,
    },
};

/// Calls under way at once that nobody waits for.
const LATER_MAX: usize = 64;

/// A store on Redis or Valkey Cluster.
pub struct RedisRecords {
    cluster: Arc<Cluster>,
    encoder: Encoder,
    /// One permit for each call that nobody waits for.
    later: Arc<Semaphore>,
    /// Taken when the store is dropped.
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for RedisRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisRecords")
            .field("options", &self.cluster.options)
            .finish_non_exhaustive()
    }
}

impl RedisRecords {
    /// Connects, looks whether the servers can do what is needed, and loads the functions.
    pub fn open(options: RedisOptions) -> Result<Self, RecordError> {
        Self::open_for(options, Purpose::Write)
    }

    /// Connects to servers that hold a store already, to read it. Servers that are away, or unfit to
    /// be written to, keep nobody from that.
    pub fn open_to_read(options: RedisOptions) -> Result<Self, RecordError> {
        Self::open_for(options, Purpose::Read)
    }

    fn open_for(options: RedisOptions, purpose: Purpose) -> Result<Self, RecordError> {
        options.check()?;
        let connector = Arc::new(FredConnector::new(&options)?);
        Self::with(options, purpose, connector)
    }

    /// Servers without a log, `host:port` each, whose records a restart loses. Only at level
    /// `primary`: at the others the store is not opened.
    #[must_use]
    pub fn servers_without_log(&self) -> Vec<String> {
        self.cluster.without_log().iter().map(ToString::to_string).collect()
    }

    fn with(
        options: RedisOptions,
        purpose: Purpose,
        connector: Arc<dyn Connector>,
    ) -> Result<Self, RecordError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads)
            .thread_name("records")
            .enable_all()
            .build()
            .map_err(|error| RecordError::Config { what: format!("no threads: {error}") })?;
        let encoder = Encoder { prefix: options.prefix.clone() };
        let cluster = Arc::new(Cluster::new(options, purpose, connector));
        let later = Arc::new(Semaphore::new(LATER_MAX));
        let store = Self { cluster: Arc::clone(&cluster), encoder, later, runtime: Some(runtime) };
        store.wait(async move { probe::cluster(&cluster).await })??;
        Ok(store)
    }

    /// Deletes every key of the store's prefix; answers how many there were. For stores that were made
    /// under a prefix of their own to be measured.
    #[cfg(feature = "bench")]
    pub fn clear(&self) -> Result<u64, RecordError> {
        let cluster = Arc::clone(&self.cluster);
        self.wait(async move { super::clear::everything(cluster).await })?
    }

    /// Runs something on the store's threads. The caller's thread sleeps, whatever it belongs to.
    fn wait<T, F>(&self, work: F) -> Result<T, RecordError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let runtime = self.runtime.as_ref().ok_or(RecordError::Closed)?;
        let (answer, answered) = sync_channel(1);
        runtime.spawn(async move {
            // Nobody listens only when the caller's thread is gone.
            let _ = answer.send(work.await);
        });
        answered.recv().map_err(|_| RecordError::Closed)
    }

    fn send(&self, items: Vec<Item>, kind: Kind) -> Result<Vec<Outcome>, RecordError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let cluster = Arc::clone(&self.cluster);
        self.wait(async move { cluster.send(items, kind).await })
    }
}

impl Drop for RedisRecords {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads is not allowed everywhere, and nothing is under way.
            runtime.shutdown_background();
        }
    }
}

fn item(shard: u16, command: Command) -> Item {
    Item { slot: slot_of(tag_of(shard).as_bytes()), command }
}

impl RecordStore for RedisRecords {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        check::reads(reads)?;
        let items = reads.iter().map(|read| item(read.key.shard, self.encoder.read(read)));
        let outcomes = self.send(items.collect(), Kind::Read)?;
        let cell = |(read, outcome): (&ReadCell, Outcome)| {
            let damaged = |what| RecordError::Corrupt { key: read.key.clone(), what };
            if let Outcome::Answered(Reply::Error(error)) = &outcome
                && (error.starts_with("WRONGTYPE") || error.contains("WRONGTYPE"))
            {
                return Err(damaged("it is no hash".to_owned()));
            }
            encode::cell(read, answer(outcome)?).map_err(damaged)
        };
        reads.iter().zip(outcomes).map(cell).collect()
    }

    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError> {
        check::writes(writes)?;
        if self.cluster.purpose == Purpose::Read {
            return Err(RecordError::OpenedToRead);
        }
        let is_awaited = self.cluster.options.acknowledgement != Acknowledgement::Primary;
        let has_barrier = barrier == Barrier::Safe && is_awaited;
        let command = |write: &WriteCell| self.encoder.write(write, has_barrier);
        let items = writes.iter().map(|write| item(write.key.shard, command(write)));
        let outcomes = self.send(items.collect(), Kind::Write { has_barrier })?;
        let written = |outcome| match outcome {
            Outcome::Answered(reply) => encode::written(&reply).unwrap_or(Written::InDoubt),
            Outcome::InDoubt(_) => Written::InDoubt,
            Outcome::Unavailable(_) => Written::Unavailable,
        };
        Ok(outcomes.into_iter().map(written).collect())
    }

    fn refuses_late_writes(&self) -> bool {
        true
    }

    fn write_later(&self, writes: Vec<WriteCell>) {
        let permit = Arc::clone(&self.later).try_acquire_owned();
        let (Ok(permit), Some(runtime), Purpose::Write) =
            (permit, &self.runtime, self.cluster.purpose)
        else {
            // Whoever writes more than can be carried waits for its own.
            let _ = self.write(&writes, Barrier::None);
            return;
        };
        if check::writes(&writes).is_err() {
            return;
        }
        let (cluster, encoder) = (Arc::clone(&self.cluster), self.encoder.clone());
        runtime.spawn(async move {
            let command = |write: &WriteCell| encoder.write(write, false);
            let items = writes.iter().map(|write| item(write.key.shard, command(write)));
            let _ = cluster.send(items.collect(), Kind::Write { has_barrier: false }).await;
            drop(permit);
        });
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        check::scans(scans)?;
        let items = scans.iter().map(|scan| item(scan.shard, self.encoder.scan(scan)));
        let outcomes = self.send(items.collect(), Kind::Read)?;
        let page = |outcome| {
            let what = || RecordError::Unavailable { what: "an index is unreadable".to_owned() };
            encode::page(answer(outcome)?).ok_or_else(what)
        };
        outcomes.into_iter().map(page).collect()
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        check::shard(shard)?;
        let mut outcomes = self.send(vec![item(shard, Command::new("TIME"))], Kind::Read)?;
        let none =
            || RecordError::Unavailable { what: "a server does not tell its time".to_owned() };
        encode::time_ms(answer(outcomes.pop().ok_or_else(none)?)?).ok_or_else(none)
    }

    fn acknowledgement(&self) -> Acknowledgement {
        self.cluster.options.acknowledgement
    }

    fn engine(&self) -> &'static str {
        "redis"
    }

    fn trouble(&self) -> Option<Trouble> {
        self.cluster.trouble().map(|reason| Trouble { reason, passes: true })
    }

    fn probe(&self, shards: u16) -> Option<Trouble> {
        let (cluster, encoder) = (Arc::clone(&self.cluster), self.encoder.clone());
        let looked = self.wait(async move { health::look(&cluster, &encoder, shards).await });
        let reason = looked.unwrap_or_else(|error| Some(error.to_string()))?;
        Some(Trouble { reason, passes: true })
    }

    fn last_failure(&self) -> Option<String> {
        self.cluster.last_failure()
    }

    fn stored_bytes(&self) -> Result<Option<u64>, RecordError> {
        let cluster = Arc::clone(&self.cluster);
        self.wait(async move { probe::memory_bytes(&cluster).await })?.map(Some)
    }
}
