//! Following beside the server: the ledger as a consumer of the chain log.

use std::{io, time::Duration};

use utxokeep_index::{ConsumerNeeds, Cursor};
use utxokeep_kv::Kv;

use super::{Step, WalletFollowError, WalletFollower, meter};
use crate::consumers::{ConsumerThread, FollowerState, LogConsumer, StepFailed, Stepped};

/// The follower of a ledger, and what it has said already.
#[derive(Debug)]
struct WalletConsumer<K> {
    follower: WalletFollower<K>,
    is_registered: bool,
    is_behind: bool,
    rescan_held_up: Option<String>,
    waits_on_branch: bool,
}

impl<K: Kv> WalletConsumer<K> {
    /// Name under which its cursor is kept.
    const NAME: &'static str = "wallets";

    fn new(follower: WalletFollower<K>) -> Self {
        meter::describe();
        Self {
            follower,
            is_registered: false,
            is_behind: true,
            rescan_held_up: None,
            waits_on_branch: false,
        }
    }

    /// Says in the chain database how far the ledger has come. The cursor that counts is that of the
    /// ledger, which is committed with every block.
    fn publish(&mut self) -> Result<(), StepFailed> {
        let cursor = Cursor::from(self.follower.ledger.tip(self.follower.network())?);
        let index = &self.follower.index;
        if self.is_registered {
            index.publish_cursor(Self::NAME, cursor)?;
        } else {
            index.register_consumer(Self::NAME, ConsumerNeeds::Blocks, cursor)?;
            self.is_registered = true;
        }
        Ok(())
    }

    /// Logs what has changed since the last step.
    fn tell(&mut self, step: &Step) {
        if step.rescan_held_up != self.rescan_held_up {
            if let Some(reason) = &step.rescan_held_up {
                tracing::warn!("a rescan does not get on, and is tried again: {reason}");
            }
            self.rescan_held_up.clone_from(&step.rescan_held_up);
        }
        if step.worse_branch.is_some() != self.waits_on_branch {
            self.waits_on_branch = step.worse_branch.is_some();
            if let Some(reason) = step.hindrance().filter(|_| self.waits_on_branch) {
                tracing::warn!("{reason}");
            } else {
                tracing::info!("the chain database is on the ledger's branch");
            }
        }
        if step.is_done
            && self.is_behind
            && !self.waits_on_branch
            && let Some(height) = step.ledger
        {
            tracing::info!(%height, "the wallet ledger is at the tip");
        }
        self.is_behind = !step.is_done;
    }
}

impl<K: Kv + 'static> WalletFollower<K> {
    /// Follows on a thread of its own, until that is dropped. A block wakes it; `look_after` is how
    /// long it sleeps at the most, for rescans that other programs ask for.
    pub fn in_background(
        self,
        look_after: Duration,
        state: FollowerState,
    ) -> io::Result<ConsumerThread> {
        let signal = self.index.tip_signal().clone();
        let mut consumer = WalletConsumer::new(self);
        // Known before anything that waits for named consumers starts.
        if let Err(StepFailed(reason)) = consumer.publish() {
            tracing::warn!("the wallet ledger could not register with the chain log yet: {reason}");
        }
        ConsumerThread::start(consumer, &signal, look_after, state)
    }
}

impl<K: Kv + 'static> LogConsumer for WalletConsumer<K> {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
        if !self.is_registered {
            self.publish()?;
        }
        let step = self.follower.step(is_stopped).inspect_err(|error: &WalletFollowError| {
            if !is_stopped() {
                meter::failed(error.reason());
            }
        })?;
        self.publish()?;
        self.tell(&step);
        Ok(Stepped { is_done: step.is_done, hindrance: step.hindrance() })
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_chains::BodyFinder;
    use utxokeep_core::{Height, Network};
    use utxokeep_index::{ChainIndex, IndexSettings, tables::TABLES};
    use utxokeep_kv::MemoryKv;
    use utxokeep_sql::{Database, Options};
    use utxokeep_wallet::{Ledger, Limits, Micros};

    use super::*;

    /// Whatever starts after the follower, such as the pruner, finds the ledger among those it has to
    /// wait for, however late its thread runs.
    #[test]
    fn a_ledger_is_a_named_consumer_once_its_follower_was_started() {
        let settings = IndexSettings::new(Network::BitcoinRegtest);
        let bodies = BodyFinder::new(settings.decoder.clone());
        let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger").display());
        let database = Database::open(&url, &Options::default()).unwrap();
        let ledger = Ledger::open(database, Limits::default(), Micros::new(1)).unwrap();
        let follower = WalletFollower::new(ledger, index.clone(), bodies, Height::GENESIS);
        let _following =
            follower.in_background(Duration::from_secs(3_600), FollowerState::default()).unwrap();
        let (name, reached) = index.slowest_consumer(&["pruner"]).unwrap().unwrap();
        assert_eq!((name.as_str(), reached), ("wallets", Height::GENESIS));
    }
}
