//! The pruner as a part of the program: its settings, where heights come from, how it ends.
//!
//! # Invariants
//!
//! * Events of the chain are taken one at a time, and the gate knows of one before the trigger does.
//! * A run by hand never has a height above the newest that is known.
//! * Once it is stopped no further run starts, and the present one ends after its chunk.

mod clock;
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

use utxokeep_core::Height;
use utxokeep_pruner::{Assembly, Gate as _, Pruner, PrunerError, PushedGate, TriggerMode};
use utxokeep_txstore::PruneStore;

pub(crate) use clock::WallClock;
pub use settings::settings;

use crate::{config::PrunerConfig, rest};

/// How often the tip of a chain is looked at.
const TIP_EVERY: Duration = Duration::from_millis(500);

/// Why a run was not asked for. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TriggerError {
    /// The height lies ahead of the chain.
    #[error(
        "height {asked} is above the newest that is safe, {newest}; a run there could delete what \
         is still needed"
    )]
    Ahead {
        /// The height asked for.
        asked: Height,
        /// The newest that is safe.
        newest: Height,
    },
    /// Runs wait for a persister, which has not said anything.
    #[error(
        "runs wait for the block persister, which has not reported yet; send BlockPersisted, or set \
         [pruner] trigger = \"block_mined\" if there is none"
    )]
    NothingPersisted,
    /// The pruner could not say.
    #[error(transparent)]
    Pruner(#[from] PrunerError),
}

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
    gate: Arc<PushedGate>,
    /// Held while an event is taken.
    event: Mutex<()>,
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
        let gate = Arc::new(PushedGate::default());
        let asked = Arc::clone(&gate);
        let pruner = Pruner::start(store, asked, Arc::new(WallClock::default()), settings(config))?;
        Ok(Self(Arc::new(Shared {
            pruner,
            gate,
            event: Mutex::new(()),
            is_stopped: AtomicBool::new(false),
            tip_thread: Mutex::new(None),
        })))
    }

    /// The pruner itself.
    #[must_use]
    pub fn pruner(&self) -> &Pruner {
        &self.0.pruner
    }

    /// A block joined the chain; answers the height that waits for a run.
    pub fn block(&self, event: BlockEvent) -> Option<Height> {
        let _one = lock(&self.0.event);
        if let Some(is_catching_up) = event.is_catching_up {
            self.0.gate.set_catching_up(is_catching_up);
        }
        if let Some(height) = event.mined_set {
            self.0.gate.set_mined_set(height);
        }
        self.0.pruner.block_mined(event.height);
        self.0.pruner.status().pending
    }

    /// A persister has written everything up to a block; answers the height that waits for a run.
    pub fn block_persisted(&self, height: Height) -> Option<Height> {
        let _one = lock(&self.0.event);
        self.0.pruner.block_persisted(height);
        self.0.pruner.status().pending
    }

    /// The chain went back to a block. What the node said about higher ones does not count any
    /// more.
    pub fn reorganised(&self, fork: Height) {
        let _one = lock(&self.0.event);
        let gate = &self.0.gate;
        if matches!(gate.is_mined_set(fork.plus(1)), Ok(Some(true))) {
            gate.set_mined_set(fork);
        }
        if let Ok(Some(assembly)) = gate.assembly()
            && assembly.height > fork
        {
            gate.set_assembly(Assembly { height: fork, ..assembly });
        }
        self.0.pruner.rolled_back(fork);
    }

    /// Block assembly changed its state.
    pub fn assembly_changed(&self, assembly: Assembly) {
        let _one = lock(&self.0.event);
        self.0.gate.set_assembly(assembly);
    }

    /// Asks for a run; answers the height it will have, or `None` if that is done or waits already.
    pub fn trigger(&self, asked: Option<Height>) -> Result<Option<Height>, TriggerError> {
        let pruner = &self.0.pruner;
        let needs_persister = pruner.settings().trigger == TriggerMode::BlockPersisted;
        if needs_persister && pruner.status().persisted.is_none() {
            return Err(TriggerError::NothingPersisted);
        }
        if let Some(asked) = asked {
            match pruner.height(None) {
                Ok(newest) if asked > newest => return Err(TriggerError::Ahead { asked, newest }),
                Ok(_) | Err(PrunerError::NoHeight) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pruner.trigger(asked)?)
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
                        if last.is_some_and(|last| height < last) {
                            pruning.reorganised(height);
                        }
                        let (mined_set, is_catching_up) = (None, None);
                        pruning.block(BlockEvent { height, mined_set, is_catching_up });
                        last = Some(height);
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
