//! Gauges of the node store, taken when somebody asks for metrics.
//!
//! # Invariants
//!
//! * Asking often costs no more than asking once in [`PAUSE`], and nobody asks twice at the same time.
//! * A store that does not answer leaves the gauges as they were; the other metrics are answered.

use std::{
    sync::{Arc, Mutex, TryLockError},
    time::{Duration, Instant},
};

use metrics::gauge;
use tokio::{task::spawn_blocking, time::timeout};
use utxokeep_core::metric_list;
use utxokeep_txstore::{Sample, TxStore};

metric_list! {
    RECORDS = "utxokeep_txstore_records", Gauge, "",
        "Transactions in the node store; beyond 1,000 an estimate from their ids, which are hashes.";
    DUE = "utxokeep_txstore_due_records", Gauge, "",
        "Transactions past due at the newest height, counted up to 10,000.";
    FILES = "utxokeep_txstore_body_files", Gauge, "",
        "Bodies in files of the blob store, estimated in the same way as the records.";
    BYTES = "utxokeep_txstore_disk_bytes", Gauge, "",
        "What the tables of the node store take on disk, without files of bodies: on SQLite the whole \
         file with its log; absent where the server does not tell.";
}

/// The least time between two looks at the store.
const PAUSE: Duration = Duration::from_secs(10);

/// How long an answer about metrics waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// The gauges of one store.
pub(crate) struct StoreGauges {
    store: Arc<dyn TxStore>,
    taken: Mutex<Option<Instant>>,
}

impl StoreGauges {
    pub(crate) fn new(store: Arc<dyn TxStore>) -> Self {
        // Metrics are described to the recorder that is there.
        crate::meters::describe(METRICS);
        crate::meters::describe(utxokeep_txstore::METRICS);
        Self { store, taken: Mutex::default() }
    }

    /// Looks at the store, unless that was done a moment ago or somebody else is at it.
    fn look(&self) {
        let mut taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if taken.is_some_and(|taken| taken.elapsed() < PAUSE) {
            return;
        }
        match self.store.sample() {
            Ok(sample) => sample.iter().for_each(set),
            Err(error) => tracing::warn!(%error, "the gauges of the node store are not taken"),
        }
        *taken = Some(Instant::now());
    }

    /// The same from where nothing may block, and not for longer than [`PATIENCE`].
    pub(crate) async fn take(self: Arc<Self>) {
        // Who comes late finds what was taken before.
        let _ = timeout(PATIENCE, spawn_blocking(move || self.look())).await;
    }
}

#[allow(clippy::cast_precision_loss, reason = "metrics are floats")]
fn set(sample: &Sample) {
    gauge!(RECORDS).set(sample.records.count as f64);
    gauge!(DUE).set(sample.due.count as f64);
    gauge!(FILES).set(sample.files.count as f64);
    if let Some(bytes) = sample.bytes {
        gauge!(BYTES).set(bytes as f64);
    }
}
