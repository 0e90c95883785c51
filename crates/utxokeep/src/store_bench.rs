//! Rates of a node store, and of a bare client of its engine in the same run.
//!
//! # Invariants
//!
//! * Nothing that exists is touched: each pair of batch size and clients is measured in a store of its
//!   own, under a random name beside the place that the URL names, and that store is removed afterwards.
//! * A figure names what its commits wait for.

mod place;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use utxokeep_core::ErrorKind;
use utxokeep_txstore::{
    StoreOpenError,
    bench::{BenchCase, BenchError, BenchRow, measure},
};

pub use utxokeep_txstore::bench::{BareRates, BenchOperation};

use self::place::Place;
use crate::{config::TxStoreConfig, node_store::NodeStoreOpenError};

/// What to measure.
#[derive(Debug, Clone)]
pub struct StoreBenchPlan {
    /// Operations in one call.
    pub batches: Vec<usize>,
    /// Threads that call at once.
    pub clients: Vec<usize>,
    /// How long each figure is measured.
    pub lasts: Duration,
    /// Every acknowledgement level that the servers can honour, and not only that of the URL.
    pub every_ack: bool,
}

impl Default for StoreBenchPlan {
    fn default() -> Self {
        Self {
            batches: vec![1, 128, 1_000],
            clients: vec![1, 8, 64],
            lasts: Duration::from_millis(500),
            every_ack: false,
        }
    }
}

/// Why there are no figures. Stores that exist were not touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreBenchError {
    /// No store could be made there.
    #[error("cannot make a store to measure")]
    Open(#[from] NodeStoreOpenError),
    /// The directory of the store could not be made.
    #[error("cannot make {place} for a store to measure: {reason}")]
    NotMade {
        /// Where it was to be.
        place: String,
        /// What the system says.
        reason: String,
    },
    /// An engine on which no store apart from others can be made yet.
    #[error("stores on {engine} cannot be measured yet; nothing was changed")]
    NotMeasured {
        /// What stands before the first colon of the URL.
        engine: String,
    },
    /// An engine whose commits wait for one thing only.
    #[error(
        "--every-ack: only a cluster has acknowledgement levels; [txstore] fsync says what commits of \
         this engine wait for"
    )]
    NoLevels,
    /// The store or its engine failed.
    #[error("the measurement of level {level} failed: {source}")]
    Failed {
        /// What commits waited for.
        level: String,
        /// What failed.
        #[source]
        source: BenchError,
    },
    /// What was made to be measured could not be removed.
    #[error("what was made to be measured could not be removed; remove {place} by hand: {reason}")]
    NotRemoved {
        /// Where it is.
        place: String,
        /// What the engine says.
        reason: String,
    },
}

impl StoreBenchError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open(error) => error.kind(),
            Self::NoLevels | Self::NotMeasured { .. } => ErrorKind::Invalid,
            Self::Failed { source: BenchError::Store(error), .. } => error.kind(),
            Self::Failed { .. } | Self::NotMade { .. } | Self::NotRemoved { .. } => {
                ErrorKind::Failed
            }
        }
    }
}

/// What was measured of one level.
#[derive(Debug)]
pub struct LevelRates {
    /// What commits wait for: a level of a cluster, or whether files are synced.
    pub level: String,
    /// Why the servers cannot honour it, if so; there are no rows then.
    pub refused: Option<String>,
    /// One for each operation, batch size and number of clients.
    pub rows: Vec<BenchRow>,
}

/// What was measured.
#[derive(Debug)]
pub struct StoreRates {
    /// Name of the engine.
    pub engine: String,
    /// One for each level.
    pub levels: Vec<LevelRates>,
    /// Whether somebody stopped it.
    pub is_stopped: bool,
    /// Why it ended early, if so. What was measured before that counts.
    pub failure: Option<StoreBenchError>,
}

/// Measures the engine that `url` names, and tells of each row as it comes.
pub fn run(
    url: &str,
    config: &TxStoreConfig,
    plan: &StoreBenchPlan,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&str, &BenchRow),
) -> Result<StoreRates, StoreBenchError> {
    let place = Place::of(url)?;
    let own_level = place.level(config)?;
    let levels = if plan.every_ack { place.levels()? } else { vec![own_level] };
    let engine = place.engine().to_owned();
    let mut found = StoreRates { engine, levels: Vec::new(), is_stopped: false, failure: None };
    for level in levels {
        let mut rows = Vec::new();
        let refused = match of_level(&place, config, plan, &level, stop, &mut |row| {
            each(&level, &row);
            rows.push(row);
        }) {
            Ok(()) => None,
            // The servers answer, and cannot do what this level needs.
            Err(StoreBenchError::Open(error)) if plan.every_ack && is_refused(&error) => {
                Some(format!("{:#}", anyhow::Error::from(error)))
            }
            Err(error) => {
                found.failure = Some(error);
                None
            }
        };
        found.levels.push(LevelRates { level, refused, rows });
        if found.failure.is_some() {
            break;
        }
    }
    found.is_stopped = stop.load(Ordering::Relaxed);
    Ok(found)
}

fn is_refused(error: &NodeStoreOpenError) -> bool {
    matches!(error, NodeStoreOpenError::Store { source: StoreOpenError::Store(_), .. })
        && error.kind() != ErrorKind::Unavailable
}

fn of_level(
    place: &Place,
    config: &TxStoreConfig,
    plan: &StoreBenchPlan,
    level: &str,
    stop: &AtomicBool,
    each: &mut dyn FnMut(BenchRow),
) -> Result<(), StoreBenchError> {
    for &batch in &plan.batches {
        for &clients in &plan.clients {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let made = place.make(config, level)?;
            let case = BenchCase { batch, clients, lasts: plan.lasts, stop };
            let outcome = measure(made.store(), made.bare(), &case, each);
            // Whatever became of it.
            let removed = made.remove();
            outcome
                .map_err(|source| StoreBenchError::Failed { level: level.to_owned(), source })?;
            removed?;
        }
    }
    Ok(())
}
