//! The node store's follower as a part of an engine.

use std::{path::PathBuf, sync::Arc, time::Duration};

use utxokeep_chains::{BodyFinder, NodeSource, RecentBlocks};
use utxokeep_txstore::NodeStore;

use super::{
    EngineError, Health, Part,
    chain::{ChainPart, Index, block_places},
};
use crate::{
    config::Config,
    consumers::{ConsumerThread, FollowerState},
    store_follow::{StoreFollowSettings, StoreFollower, refusal},
};

/// How long the node store may fail to follow before health says so.
pub const STORE_FOLLOWER_STALLED: Duration = Duration::from_secs(60);

/// Puts the blocks of the chain index into the node store.
#[derive(Debug)]
pub(super) struct StoreFollowPart {
    config: Config,
    index: Index,
    store: Arc<NodeStore>,
    /// The node that is followed, and what has just arrived from it.
    live: Option<(NodeSource, RecentBlocks)>,
    thread: Option<ConsumerThread>,
    pub(super) state: FollowerState,
}

impl StoreFollowPart {
    pub(super) fn new(
        config: &Config,
        chain: &ChainPart,
        store: Arc<NodeStore>,
    ) -> Result<Self, EngineError> {
        if let Some(why) = refusal(&config.txstore, chain.index.settings()) {
            return Err(EngineError::StoreCannotFollow { why });
        }
        Ok(Self {
            config: config.clone(),
            index: chain.index.clone(),
            store,
            live: chain.live(),
            thread: None,
            state: FollowerState::default(),
        })
    }
}

impl Part for StoreFollowPart {
    fn start(&mut self) -> Result<(), EngineError> {
        let config = &self.config;
        let own = &config.txstore.follow_blocks;
        let paths =
            if own.is_empty() { block_places(&config.wallet) } else { vec![PathBuf::from(own)] };
        let decoder = self.index.settings().decoder.clone();
        let mut bodies = BodyFinder::new(decoder).with_files(&paths, None, &config.storage.data);
        if let Some((node, recent)) = self.live.clone() {
            bodies = bodies.with_recent(recent).with_node(node);
        }
        let settings = StoreFollowSettings::of(&config.txstore);
        let store = Arc::clone(&self.store);
        let follower = StoreFollower::new(self.index.clone(), store, bodies, settings);
        let failed = |source| EngineError::Thread { does: "feeds the node store", source };
        self.thread = Some(follower.in_background(self.state.clone()).map_err(failed)?);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), EngineError> {
        self.thread = None;
        Ok(())
    }

    fn health(&self) -> Vec<Health> {
        if self.thread.is_none() {
            return Vec::new();
        }
        vec![Health {
            part: "node_store_follower",
            fault: self.state.fault(STORE_FOLLOWER_STALLED),
        }]
    }
}
