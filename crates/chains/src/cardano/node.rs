//! A client that follows a live Cardano node: blocks in order, rollbacks exactly as announced.
//!
//! The caller is a plain thread. The network runs on a thread of its own behind a bounded queue;
//! a caller that falls behind slows the node's answers down instead of filling the memory.
//!
//! # Invariants
//!
//! - Every block handed over is the successor of the point the events before it end at.
//! - A rollback is handed over before anything that follows it, and only if it concerns blocks
//!   that were handed over.
//! - Events that were received before a failure are handed over before the failure.

use std::{fmt, path::PathBuf};

mod announced;
mod connection;
mod error;
mod headers;
mod live;
mod local;
mod peer;
mod pending;
mod wire;

use utxokeep_core::{BlockHash, ChainPoint};

use crate::live::QueueLimits;

pub use connection::NodeConnection;
pub use error::NodeError;
pub use live::CardanoNode;

/// A place on the chain: slot and block hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePoint {
    /// Slot of the block.
    pub slot: u64,
    /// Hash of the block's header.
    pub hash: [u8; 32],
}

impl fmt::Display for NodePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}, block ", self.slot)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl NodePoint {
    /// The hash as every chain has it.
    #[must_use]
    pub const fn block_hash(&self) -> BlockHash {
        BlockHash::from_bytes(self.hash)
    }
}

impl From<&ChainPoint> for NodePoint {
    fn from(point: &ChainPoint) -> Self {
        Self { slot: point.slot, hash: *point.hash.as_bytes() }
    }
}

/// Where the node listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAddress {
    /// Node-to-node over the network, `HOST:PORT`.
    Tcp(String),
    /// Node-to-client over a local socket.
    Socket(PathBuf),
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// How to reach a node and how much to take from it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    /// Where the node listens.
    pub address: NodeAddress,
    /// Number of the network; a node of another network refuses the connection.
    pub network_magic: u64,
    /// How much may wait for the consumer.
    pub queue: QueueLimits,
    /// Blocks asked for in one range (node-to-node); at least one. A range is held in memory.
    pub fetch_range_blocks_max: usize,
    /// How long connecting and each answer may take. Waiting for a new block at the tip is not
    /// limited.
    pub answer_timeout_ms: u64,
}
