//! The pruner as a part of the program: its settings, where heights come from, how it ends.
//!
//! # Invariants
//!
//! * An event of the chain is one commit of the store, so that the gate knows of it before a run does.
//! * Once it is stopped no further run starts, and the present one ends after its chunk.

mod clock;
mod events;
mod settings;

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use utxokeep_core::{
    Height,
    node::{Assembly, ChainReport, Sighting, Witness},
};
use utxokeep_index::{ChainIndex, TipSignal};
use utxokeep_kv::Kv;
use utxokeep_pruner::{ChainState as _, Pruner, PrunerError, Reported};
use utxokeep_txstore::PruneStore;

pub use clock::WallClock;
pub use settings::settings;

use crate::{
    config::PrunerConfig,
    consumers::{ConsumerThread, FollowerState, Others, PrunerConsumer},
    engine::EngineError,
};

/// How long the pruner waits for the log at the most, before it looks by itself.
const LOOK_AFTER: Duration = Duration::from_secs(60);

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
    log_thread: Mutex<Option<ConsumerThread>>,
    follower: FollowerState,
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
        let pruner = Pruner::start(store, Arc::new(WallClock::default()), settings(config))?;
        Ok(Self(Arc::new(Shared {
            pruner,
            log_thread: Mutex::new(None),
            follower: FollowerState::default(),
        })))
    }

    /// Starts to prune a store, and follows the chain of a database. The first run knows how far the
    /// other consumers of the log are.
    pub fn start_following<K: Kv + 'static>(
        store: Arc<dyn PruneStore>,
        config: &PrunerConfig,
        index: &ChainIndex<K>,
    ) -> Result<Self, EngineError> {
        // The store may have heard of a higher block than the log has: no more than that is persisted.
        let heard = store.heights()?.newest();
        let Others { slowest, persisted } = Others::of(&index.view()?, heard)?;
        // Without a height there is no run.
        let persisted = persisted.filter(|_| heard.is_some()).map(ChainReport::Persisted);
        let reports = [ChainReport::Consumers(slowest)].into_iter().chain(persisted);
        // Nobody heard from the node by this, so that the time does not matter.
        store.report(&reports.collect::<Vec<_>>(), 0)?;
        let pruning = Self::start(store, config)?;
        let failed = |source| EngineError::Thread { does: "tells the pruner of blocks", source };
        pruning.follow_log(index).map_err(failed)?;
        Ok(pruning)
    }

    /// Starts to prune a store, and follows the chain of another utxokeep by its chain events
    /// (`[pruner] events`). Nothing is pruned before the first of them has come.
    pub fn start_listening(
        store: Arc<dyn PruneStore>,
        config: &PrunerConfig,
    ) -> Result<Self, EngineError> {
        store.report(&[ChainReport::Consumers(events::holds_everything())], 0)?;
        let pruning = Self::start(Arc::clone(&store), config)?;
        let events = events::ChainEvents::new(pruning.clone(), store, config);
        // Nothing raises it: the connection is what wakes this consumer.
        let (signal, state) = (TipSignal::default(), pruning.0.follower.clone());
        let thread = ConsumerThread::start(events, &signal, LOOK_AFTER, state);
        let failed = |source| EngineError::Thread { does: "reads chain events", source };
        *lock(&pruning.0.log_thread) = Some(thread.map_err(failed)?);
        Ok(pruning)
    }

    /// One without threads, for tests that decide themselves when what happens.
    #[cfg(test)]
    pub(crate) fn without_threads(
        store: Arc<dyn PruneStore>,
        config: &PrunerConfig,
    ) -> Result<Self, PrunerError> {
        let pruner = Pruner::new(store, Arc::new(WallClock::default()), settings(config))?;
        Ok(Self(Arc::new(Shared {
            pruner,
            log_thread: Mutex::new(None),
            follower: FollowerState::default(),
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

    /// A chain log moved: blocks above `fork` left it, and `newest` joined. A log has the block below
    /// its newest as well: two witnesses. `others` is how far the other consumers of the log are.
    pub(crate) fn chain_moved(
        &self,
        others: Others,
        fork: Option<Height>,
        newest: Option<Height>,
    ) -> Result<Reported, PrunerError> {
        let seen = |height| ChainReport::Newest(Sighting { height, by: Witness::Log });
        let below = newest.and_then(Height::parent).filter(|below| *below > Height::GENESIS);
        let back = fork.map(ChainReport::Reorganised);
        let reports = [ChainReport::Consumers(others.slowest)].into_iter().chain(back);
        let reports = reports.chain(below.map(seen)).chain(newest.map(seen));
        let reports = reports.chain(others.persisted.map(ChainReport::Persisted));
        self.0.pruner.report(&reports.collect::<Vec<_>>())
    }

    /// How following a chain database gets on.
    pub fn follower(&self) -> &FollowerState {
        &self.0.follower
    }

    /// Tells the pruner what becomes of the chain of a database, until it is stopped.
    pub(crate) fn follow_log<K: Kv + 'static>(&self, index: &ChainIndex<K>) -> io::Result<()> {
        let consumer = PrunerConsumer::new(self.clone(), index.clone());
        let state = self.0.follower.clone();
        let thread = ConsumerThread::start(consumer, index.tip_signal(), LOOK_AFTER, state)?;
        *lock(&self.0.log_thread) = Some(thread);
        Ok(())
    }

    /// Ends the present run after its chunk; no other starts. The threads end with the last clone.
    pub fn stop(&self) {
        self.0.pruner.stop();
        drop(lock(&self.0.log_thread).take());
    }
}

#[cfg(test)]
mod tests;
