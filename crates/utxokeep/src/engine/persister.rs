//! The block persister as a part of an engine.

use std::{path::PathBuf, time::Duration};

use utxokeep_chains::{BodyFinder, NodeSource, RecentBlocks};
use utxokeep_core::OpenMode;

use super::{
    EngineError, Health, Part,
    chain::{ChainPart, Index, block_places},
};
use crate::{
    config::{Config, ConfigError},
    consumers::{ConsumerThread, FollowerState},
    persister::{PersistedPlace, Persister, PersisterSettings},
};

/// Writes the blocks of the chain index to a blob store.
#[derive(Debug)]
pub(super) struct PersisterPart {
    config: Config,
    index: Index,
    place: PersistedPlace,
    /// The node that is followed, and what has just arrived from it.
    live: Option<(NodeSource, RecentBlocks)>,
    thread: Option<ConsumerThread>,
    pub(super) state: FollowerState,
}

impl PersisterPart {
    pub(super) fn new(
        config: &Config,
        chain: &ChainPart,
        mode: OpenMode,
    ) -> Result<Self, EngineError> {
        check_retention(config, &chain.index)?;
        Ok(Self {
            config: config.clone(),
            index: chain.index.clone(),
            place: place(config, &chain.index, mode)?,
            live: chain.live(),
            thread: None,
            state: FollowerState::default(),
        })
    }
}

/// Files are kept at least for as long as a rollback may undo their blocks. What that is without a
/// setting depends on the network of the database.
fn check_retention(config: &Config, index: &Index) -> Result<(), ConfigError> {
    let (retention, settings) = (config.persister.retention_blocks, index.settings());
    let (network, window) = (settings.network(), settings.window.rollback_window);
    if retention > 0 && retention < window {
        return Err(ConfigError::SmallRetention { network, retention, window });
    }
    Ok(())
}

/// The place that a configuration names.
fn place(config: &Config, index: &Index, mode: OpenMode) -> Result<PersistedPlace, EngineError> {
    let persister = &config.persister;
    let (network, timeout) = (index.settings().network(), persister.timeout_ms.get().into());
    let retry = PersisterSettings::of(persister).retry;
    Ok(PersistedPlace::open(&persister.url, network, timeout, mode, retry)?)
}

impl Part for PersisterPart {
    fn start(&mut self) -> Result<(), EngineError> {
        let config = &self.config;
        let own = &config.persister.blocks;
        let paths =
            if own.is_empty() { block_places(&config.wallet) } else { vec![PathBuf::from(own)] };
        let mut bodies = BodyFinder::new(self.index.settings().decoder.clone()).with_files(
            &paths,
            None,
            &config.storage.data,
        );
        if let Some((node, recent)) = self.live.clone() {
            bodies = bodies.with_recent(recent).with_node(node);
        }
        let settings = PersisterSettings::of(&config.persister);
        let persister = Persister::new(self.index.clone(), self.place.clone(), bodies, settings);
        let failed = |source| EngineError::Thread { does: "persists blocks", source };
        self.thread = Some(persister.in_background(self.state.clone()).map_err(failed)?);
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
        let stalled = Duration::from_secs(self.config.persister.stalled_secs.into());
        vec![Health { part: "persister", fault: self.state.fault(stalled) }]
    }
}
