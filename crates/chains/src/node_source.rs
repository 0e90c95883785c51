//! The nodes there are, and what each can be used as.

use std::sync::Arc;

use crate::{
    LiveSource, MempoolSource,
    bitcoind::{BitcoinMempool, BitcoinNode, BitcoindOptions},
    cardano::{CardanoNode, NodeOptions},
};

/// How to reach a node, of whichever chain. Nothing is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeSource {
    /// Bitcoin Core.
    Bitcoin(BitcoindOptions),
    /// A Cardano node.
    Cardano(NodeOptions),
}

impl NodeSource {
    /// The node as a source that can be followed.
    #[must_use]
    pub fn live(&self) -> Arc<dyn LiveSource> {
        match self.clone() {
            Self::Bitcoin(options) => Arc::new(BitcoinNode::new(options)),
            Self::Cardano(options) => Arc::new(CardanoNode::new(options)),
        }
    }

    /// The node's mempool; nothing where it cannot be listed.
    #[must_use]
    pub fn mempool(&self) -> Option<Box<dyn MempoolSource>> {
        match self {
            Self::Bitcoin(options) => Some(Box::new(BitcoinMempool::new(options.clone()))),
            Self::Cardano(_) => None,
        }
    }
}
