//! The pruner as a part of the program: its settings, where heights come from, how it ends.
//!
//! # Invariants
//!
//! * An event of the chain is one commit of the store, so that the gate knows of it before a run does.
//! * Once it is stopped no further run starts, and the present one ends after its chunk.

mod clock;
pub(crate) mod runs;
mod settings;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use utxokeep_core::{
    Height,
    node::{Assembly, ChainReport, Sighting, Witness},
};
use utxokeep_pruner::{Pruner, PrunerError, Reported};
use utxokeep_txstore::PruneStore;

pub(crate) use clock::WallClock;
pub use settings::settings;

use crate::{config::PrunerConfig, rest};

/// How often the tip of a chain is looked at.
const TIP_EVERY: Duration = Duration::from_millis(500);

/// A block that joined the chain, and what the node says beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    /// Its height.
    pub height: Height,
    /// Transactions of all blocks up to here are marked as mined.
    pub mined_set: Option<Height>,
    /// The node is catching up.
    pub is_catching_up: Option<bool>,
}

struct Shared {
    pruner: Pruner,
    is_stopped: AtomicBool,
    tip_thread: Mutex<Option<JoinHandle<()>>>,
}

/// A pruner that runs; clones share it.
#[derive(Clone)]
pub struct Pruning(Arc<Shared>);

impl fmt::Debug for Pruning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pruning").field(&self.0.pruner).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pruning {
    /// Starts to prune a store. Should the store know a height, the first run starts at once.
    pub fn start(store: Arc<dyn PruneStore>, config: &PrunerConfig) -> Result<Self, PrunerError> {
        // Metrics are described when the pruner is made.
        rest::install_recorder();
        let pruner = Pruner::start(store, Arc::new(WallClock::default()), settings(config))?;
        Ok(Self(Arc::new(Shared {
            pruner,
            is_stopped: AtomicBool::new(false),
            tip_thread: Mutex::new(None),
        })))
    }

    /// The pruner itself.
    #[must_use]
    pub fn pruner(&self) -> &Pruner {
        &self.0.pruner
    }

    /// A block joined the chain.
    pub fn block(&self, event: BlockEvent) -> Result<Reported, PrunerError> {
        let newest = Sighting { height: event.height, by: Witness::Block };
        let reports: Vec<ChainReport> = [
            event.is_catching_up.map(ChainReport::CatchingUp),
            event.mined_set.map(ChainReport::MinedSet),
            Some(ChainReport::Newest(newest)),
        ]
        .into_iter()
        .flatten()
        .collect();
        self.0.pruner.report(&reports)
    }

    /// A persister has written everything up to a block.
    pub fn block_persisted(&self, height: Height) -> Result<Reported, PrunerError> {
        self.0.pruner.block_persisted(height)
    }

    /// The chain went back to a block. What the node said about higher ones does not count any
    /// more.
    pub fn reorganised(&self, fork: Height) -> Result<(), PrunerError> {
        self.0.pruner.report(&[ChainReport::Reorganised(fork)]).map(|_| ())
    }

    /// Block assembly changed its state.
    pub fn assembly_changed(&self, assembly: Assembly) -> Result<(), PrunerError> {
        self.0.pruner.report(&[ChainReport::Assembly(assembly)]).map(|_| ())
    }

    /// The tip of a log changed. A log has the block below its tip as well: two witnesses.
    fn tip_changed(&self, tip: Height, went_back: bool) -> Result<Reported, PrunerError> {
        let seen = |height| ChainReport::Newest(Sighting { height, by: Witness::Log });
        let below = tip.parent().filter(|below| *below > Height::GENESIS);
        let back = went_back.then_some(ChainReport::Reorganised(tip));
        let reports = back.into_iter().chain(below.map(seen)).chain([seen(tip)]);
        self.0.pruner.report(&reports.collect::<Vec<_>>())
    }

    /// Takes every change of a tip as an event, until the pruner is stopped.
    pub(crate) fn follow_tip(
        &self,
        tip: impl Fn() -> anyhow::Result<Option<Height>> + Send + 'static,
    ) -> anyhow::Result<()> {
        let pruning = self.clone();
        let thread = thread::Builder::new().name("pruner-tip".to_owned()).spawn(move || {
            let mut last = None;
            while !pruning.0.is_stopped.load(Ordering::Acquire) {
                match tip() {
                    Ok(Some(height)) if last != Some(height) => {
                        let went_back = last.is_some_and(|last| height < last);
                        match pruning.tip_changed(height, went_back) {
                            Ok(_) => last = Some(height),
                            Err(error) => tracing::error!(%error, "the pruner did not take a tip"),
                        }
                    }
                    Ok(_) => {}
                    Err(error) => tracing::error!("the tip of the chain cannot be read: {error:#}"),
                }
                thread::park_timeout(TIP_EVERY);
            }
        })?;
        *lock(&self.0.tip_thread) = Some(thread);
        Ok(())
    }

    /// Ends the present run after its chunk; no other starts. The threads end with the last clone.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.0.pruner.stop();
        if let Some(thread) = lock(&self.0.tip_thread).take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the thread that follows the chain for the pruner broke down");
            }
        }
    }
}

#[cfg(test)]
mod tests;
