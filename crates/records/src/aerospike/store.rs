//! The port on a cluster. Calls block; answers are carried by threads of the store's own.

use std::sync::{Arc, mpsc::sync_channel};

use tokio::runtime::{Builder, Runtime};

use super::{
    client::Cluster,
    encode::{self, Encoder, bytes_of},
    health,
    options::AerospikeOptions,
    outcome::Outcome,
    probe,
    rows::checked,
    scan,
};
use crate::{
    check,
    error::RecordError,
    opened::Purpose,
    port::{
        Acknowledgement, Action, Barrier, Cell, Expect, IndexPage, ReadCell, RecordStore,
        ScanIndex, Trouble, WriteCell, Written,
    },
    version::Version,
};

/// A write whose condition holds again whenever one looks is given up after so many rounds.
const ROUNDS_MAX: usize = 16;

/// Bytes that a read is counted with, to fill a batch.
const READ_BYTES: usize = 200;

/// A store on Aerospike.
pub struct AerospikeRecords {
    cluster: Arc<Cluster>,
    encoder: Arc<Encoder>,
    /// Taken when the store is dropped.
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for AerospikeRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AerospikeRecords")
            .field("options", &self.cluster.options)
            .finish_non_exhaustive()
    }
}

impl AerospikeRecords {
    /// Connects, looks whether the namespace can do what is needed, and waits for the secondary
    /// index.
    pub fn open(options: AerospikeOptions) -> Result<Self, RecordError> {
        Self::open_for(options, Purpose::Write)
    }

    /// Connects to servers that hold a store already, to read it. Nothing is made on them, no secondary
    /// index and no record that tells the time; settings that only writes rest on are not looked at.
    pub fn open_to_read(options: AerospikeOptions) -> Result<Self, RecordError> {
        Self::open_for(options, Purpose::Read)
    }

    fn open_for(options: AerospikeOptions, purpose: Purpose) -> Result<Self, RecordError> {
        options.check()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads)
            .thread_name("records")
            .enable_all()
            .build()
            .map_err(|error| RecordError::Config { what: format!("no threads: {error}") })?;
        let encoder = Arc::new(Encoder::new(&options));
        let cluster = wait(&runtime, async move {
            let cluster = Cluster::connect(options, purpose).await?;
            probe::cluster(&cluster).await?;
            Ok::<_, RecordError>(Arc::new(cluster))
        })??;
        Ok(Self { cluster, encoder, runtime: Some(runtime) })
    }

    /// Removes every record of the set, and its secondary index, for a store that was only made to
    /// measure it.
    pub fn clear(&self) -> Result<(), RecordError> {
        let cluster = Arc::clone(&self.cluster);
        self.wait(async move { probe::clear(&cluster).await })?
    }

    fn wait<T, F>(&self, work: F) -> Result<T, RecordError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        wait(self.runtime.as_ref().ok_or(RecordError::Closed)?, work)
    }
}

/// Runs something on the store's threads. The caller's thread sleeps, whatever it belongs to.
fn wait<T, F>(runtime: &Runtime, work: F) -> Result<T, RecordError>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (answer, answered) = sync_channel(1);
    runtime.spawn(async move {
        // Nobody listens only when the caller's thread is gone.
        let _ = answer.send(work.await);
    });
    answered.recv().map_err(|_| RecordError::Closed)
}

impl Drop for AerospikeRecords {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads is not allowed everywhere, and nothing is under way.
            runtime.shutdown_background();
        }
    }
}

/// Why a read has no answer.
fn unanswered(outcome: Outcome) -> RecordError {
    let what = match outcome {
        Outcome::Again(reason) | Outcome::Refused(reason) | Outcome::InDoubt(reason) => reason,
        Outcome::Answered(_) | Outcome::NotFound | Outcome::Filtered | Outcome::Late => {
            "an answer that was not expected".to_owned()
        }
    };
    RecordError::Unavailable { what }
}

/// What a write expects to find, as a version.
const fn expected(write: &WriteCell) -> Option<Version> {
    match write.expect {
        Expect::Absent => None,
        Expect::Version(version) => Some(version),
    }
}

/// What the found version makes of a write whose condition did not hold; `None` where it holds now.
fn judged(write: &WriteCell, found: Option<Version>) -> Option<Written> {
    if write.action == Action::Keep && found == Some(write.version) {
        return Some(Written::Done);
    }
    (found != expected(write)).then_some(Written::Mismatch(found))
}

/// Sends all writes, and looks at the cells of those whose condition does not hold.
async fn write_all(
    cluster: &Arc<Cluster>,
    encoder: &Arc<Encoder>,
    writes: &[WriteCell],
    has_barrier: bool,
) -> Result<Vec<Written>, RecordError> {
    know_time(cluster, encoder).await?;
    let within_ms = cluster.options.write_deadline_ms;
    let deadline = || cluster.clock.deadline(within_ms).ok_or_else(no_time);
    // Until a later round says otherwise: their conditions did not hold.
    let mut written = vec![Written::Unavailable; writes.len()];
    let mut open: Vec<usize> = (0..writes.len()).collect();
    for _ in 0..ROUNDS_MAX {
        let make = |i: usize| encoder.write(&writes[open[i]], deadline()?);
        let outcomes = cluster.send(open.len(), &make, &|i| bytes_of(&writes[open[i]])).await?;
        let mut filtered = Vec::new();
        for (&item, outcome) in open.iter().zip(outcomes) {
            written[item] = match outcome {
                Outcome::Answered(_) => Written::Done,
                Outcome::NotFound => Written::Mismatch(None),
                Outcome::InDoubt(_) => Written::InDoubt,
                Outcome::Again(_) | Outcome::Refused(_) => Written::Unavailable,
                Outcome::Filtered | Outcome::Late => {
                    filtered.push(item);
                    Written::Unavailable
                }
            };
        }
        if filtered.is_empty() {
            return Ok(written);
        }
        let looks = look_at(cluster, encoder, writes, &filtered, has_barrier).await?;
        open = Vec::new();
        for (&item, looked) in filtered.iter().zip(looks) {
            let found = match looked {
                Outcome::Answered(record) => encode::version(&record),
                Outcome::NotFound => None,
                // What is there may be undone, or may be this write.
                _ => {
                    written[item] = Written::InDoubt;
                    continue;
                }
            };
            match judged(&writes[item], found) {
                Some(judged) => written[item] = judged,
                None => open.push(item),
            }
        }
        if open.is_empty() {
            return Ok(written);
        }
    }
    cluster.set_trouble(Some(format!(
        "a write was not carried out within {within_ms} ms in {ROUNDS_MAX} attempts, or others change \
         its cell all the time: a node is overloaded, or the clocks of nodes differ"
    )));
    Ok(written)
}

/// Looks at the cells of some writes, in their order. Behind a barrier what was just written is first
/// made safe.
async fn look_at(
    cluster: &Cluster,
    encoder: &Encoder,
    writes: &[WriteCell],
    items: &[usize],
    has_barrier: bool,
) -> Result<Vec<Outcome>, RecordError> {
    let look = |i: usize| encoder.look(&writes[items[i]].key);
    if !has_barrier {
        return cluster.send(items.len(), &look, &|_| READ_BYTES).await;
    }
    let fresh_ms = cluster.options.write_deadline_ms;
    let secure = |i: usize| {
        let deadline = cluster.clock.deadline(fresh_ms).ok_or_else(no_time)?;
        encoder.secure(&writes[items[i]], fresh_ms, deadline)
    };
    let mut found = cluster.send(items.len(), &secure, &|_| READ_BYTES).await?;
    let is_older = |outcome: &Outcome| matches!(outcome, Outcome::Filtered | Outcome::Late);
    let older: Vec<usize> = (0..found.len()).filter(|i| is_older(&found[*i])).collect();
    let look = |i: usize| encoder.look(&writes[items[older[i]]].key);
    let looked = cluster.send(older.len(), &look, &|_| READ_BYTES).await?;
    for (&place, outcome) in older.iter().zip(looked) {
        found[place] = outcome;
    }
    Ok(found)
}

fn no_time() -> RecordError {
    RecordError::Unavailable { what: "no server tells its time".to_owned() }
}

/// Asks the servers for their time where it is not known, and now and then anew, beside the writes.
async fn know_time(cluster: &Arc<Cluster>, encoder: &Arc<Encoder>) -> Result<(), RecordError> {
    if cluster.clock.now_ms().is_none() {
        let said_ms = server_ms(cluster, encoder).await?;
        cluster.clock.heard(said_ms);
        return Ok(());
    }
    if cluster.clock.is_due() {
        let (cluster, encoder) = (Arc::clone(cluster), Arc::clone(encoder));
        tokio::spawn(async move {
            match server_ms(&cluster, &encoder).await {
                Ok(said_ms) => cluster.clock.heard(said_ms),
                Err(_) => cluster.clock.gave_up(),
            }
        });
    }
    Ok(())
}

/// Asks the server for its time, by the age of a record.
async fn server_ms(cluster: &Cluster, encoder: &Encoder) -> Result<u64, RecordError> {
    let none = || RecordError::Unavailable { what: "no server tells its time".to_owned() };
    for _ in 0..2 {
        let mut answer = cluster.send(1, &|_| encoder.time(), &|_| READ_BYTES).await?;
        match answer.pop().ok_or_else(none)? {
            Outcome::Answered(record) => return encode::now_ms(&record).ok_or_else(none),
            // Whoever writes makes it first.
            Outcome::NotFound if cluster.purpose == Purpose::Read => return Err(none()),
            Outcome::NotFound => {
                // Whether or not it happened is seen with the next question.
                let _ = cluster.send(1, &|_| encoder.start_clock(), &|_| READ_BYTES).await?;
            }
            other => return Err(unanswered(other)),
        }
    }
    Err(none())
}

impl RecordStore for AerospikeRecords {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        check::reads(reads)?;
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let (cluster, encoder) = (Arc::clone(&self.cluster), Arc::clone(&self.encoder));
        let asked: Arc<[ReadCell]> = reads.into();
        let outcomes = self.wait(async move {
            cluster.send(asked.len(), &|i| encoder.read(&asked[i]), &|_| READ_BYTES).await
        })??;
        let cell = |(read, outcome): (&ReadCell, Outcome)| match outcome {
            Outcome::NotFound => Ok(None),
            Outcome::Answered(record) => encode::cell(*record)
                .map_err(|what| RecordError::Corrupt { key: read.key.clone(), what }),
            other => Err(unanswered(other)),
        };
        reads.iter().zip(outcomes).map(cell).collect()
    }

    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError> {
        check::writes(writes)?;
        if self.cluster.purpose == Purpose::Read {
            return Err(RecordError::OpenedToRead);
        }
        for change in writes.iter().flat_map(|write| &write.index) {
            checked(change.index)?;
        }
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let is_awaited = self.cluster.options.acknowledgement != Acknowledgement::Primary;
        let has_barrier = barrier == Barrier::Safe && is_awaited;
        let (cluster, encoder) = (Arc::clone(&self.cluster), Arc::clone(&self.encoder));
        let writes: Arc<[WriteCell]> = writes.into();
        self.wait(async move { write_all(&cluster, &encoder, &writes, has_barrier).await })?
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        check::scans(scans)?;
        let (cluster, scans) = (Arc::clone(&self.cluster), scans.to_vec());
        self.wait(async move { scan::pages(&cluster, &scans).await })?
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        check::shard(shard)?;
        let (cluster, encoder) = (Arc::clone(&self.cluster), Arc::clone(&self.encoder));
        self.wait(async move {
            know_time(&cluster, &encoder).await?;
            let none = || RecordError::Unavailable { what: "no server tells its time".to_owned() };
            cluster.clock.now_ms().ok_or_else(none)
        })?
    }

    fn acknowledgement(&self) -> Acknowledgement {
        self.cluster.options.acknowledgement
    }

    fn engine(&self) -> &'static str {
        "aerospike"
    }

    fn trouble(&self) -> Option<Trouble> {
        self.cluster.trouble().map(|reason| Trouble { reason, passes: true })
    }

    fn probe(&self, _shards: u16) -> Option<Trouble> {
        if self.cluster.purpose == Purpose::Read {
            // Trying would write.
            return self.trouble();
        }
        let (cluster, encoder) = (Arc::clone(&self.cluster), Arc::clone(&self.encoder));
        let looked = self.wait(async move {
            // Without the time nothing can be written; why not, the writes say.
            let _ = know_time(&cluster, &encoder).await;
            health::look(&cluster, &encoder).await
        });
        let reason = looked.unwrap_or_else(|error| Some(error.to_string()))?;
        Some(Trouble { reason, passes: true })
    }

    fn stored_bytes(&self) -> Result<Option<u64>, RecordError> {
        let cluster = Arc::clone(&self.cluster);
        self.wait(async move { probe::stored_bytes(&cluster).await })?.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Key;

    #[test]
    fn a_condition_that_did_not_hold_is_judged_by_what_is_found() {
        let [one, two, three] = [1, 2, 3].map(Version::new);
        let key = || Key::new(1, "k");
        let create = WriteCell::create(key(), two);
        assert_eq!(judged(&create, Some(two)), Some(Written::Done), "it was sent before");
        assert_eq!(judged(&create, Some(one)), Some(Written::Mismatch(Some(one))));
        assert_eq!(judged(&create, None), None, "the cell has gone since: once more");
        let update = WriteCell::update(key(), one, two);
        assert_eq!(judged(&update, Some(two)), Some(Written::Done));
        assert_eq!(judged(&update, Some(three)), Some(Written::Mismatch(Some(three))));
        assert_eq!(judged(&update, None), Some(Written::Mismatch(None)));
        assert_eq!(judged(&update, Some(one)), None);
        let delete = WriteCell::delete(key(), one);
        assert_eq!(
            judged(&delete, Some(delete.version)),
            Some(Written::Mismatch(Some(delete.version)))
        );
    }
}
