//! The mempool of the followed node as a part of an engine.

use std::time::Duration;

use utxokeep_chains::NodeSource;

use super::{
    EngineError, Health, Part, WalletPart,
    chain::{ChainPart, Index},
};
use crate::{
    config::MempoolConfig,
    consumers::{ConsumerThread, FollowerState},
    mempool::{MempoolConsumer, MempoolFollower, MempoolSettings},
    wallets::Wallets,
};

/// Tells the wallet ledger what the mempool of the followed node holds.
#[derive(Debug)]
pub(super) struct MempoolPart {
    config: MempoolConfig,
    index: Index,
    wallets: Wallets,
    node: NodeSource,
    thread: Option<ConsumerThread>,
    pub(super) state: FollowerState,
}

impl MempoolPart {
    /// Nothing without a node that lists its mempool, or without a ledger that follows the chain.
    pub(super) fn new(
        config: &crate::config::Config,
        chain: Option<&ChainPart>,
        wallets: Option<&WalletPart>,
    ) -> Option<Self> {
        let (chain, ledger) = chain.zip(wallets)?;
        let (node, _) = chain.live()?;
        let has_mempool = node.mempool().is_some();
        let is_wanted = config.mempool.enabled && config.wallet.follow_chain && has_mempool;
        is_wanted.then(|| Self {
            config: config.mempool.clone(),
            index: chain.index.clone(),
            wallets: ledger.wallets.clone(),
            node,
            thread: None,
            state: FollowerState::default(),
        })
    }
}

impl Part for MempoolPart {
    fn start(&mut self) -> Result<(), EngineError> {
        let Some(source) = self.node.mempool() else { return Ok(()) };
        let (ledger, network) = (self.wallets.ledger().clone(), self.index.settings().network());
        let settings = MempoolSettings::of(&self.config);
        let follower = MempoolFollower::new(source, ledger, network, settings);
        let (signal, state) = (self.index.tip_signal().clone(), self.state.clone());
        let failed = |source| EngineError::Thread { does: "reads the mempool", source };
        self.thread = Some(MempoolConsumer::start(follower, &signal, state).map_err(failed)?);
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
        let stalled = Duration::from_secs(self.config.stalled_secs.into());
        vec![Health { part: "mempool", fault: self.state.fault(stalled) }]
    }
}
