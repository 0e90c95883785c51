//! A client that follows a Bitcoin Core node: binary REST for headers and blocks, RPC to be woken.
//!
//! # Invariants
//!
//! * Every header handed on has a valid proof of work and links to the one before; every block has
//!   the header that was announced. A node that sends anything else is cut off.
//! * Which block comes next is decided by the node's answer about our newest block: an answer without
//!   headers says that the block is no longer on the node's chain.
//! * The node is never needed to undo a block.
//! * Every answer has a limit in bytes and in time. No secret is part of a message or of a log.

mod access;
mod connection;
mod error;
mod fetch;
mod follower;
mod http;
mod live;
mod mempool;
mod probe;
mod reader;
mod rest;
mod rpc;
mod sender;
mod url;
mod watcher;

use std::path::PathBuf;

use utxokeep_core::Network;

use crate::live::QueueLimits;

pub use access::{Credentials, PasswordPlace};
pub use error::BitcoindError;
pub use live::BitcoinNode;
pub use mempool::BitcoinMempool;
pub(crate) use reader::NodeBlocks;
pub use sender::TxSender;
pub use url::{BitcoindUrl, BitcoindUrlError};

/// The oldest Bitcoin Core that can be followed, as the node numbers its versions: from 24.0 on
/// headers can be asked for by a count.
pub const VERSION_MIN: u64 = 240_000;

/// From here on a node can be asked to wait until its tip differs from one that the caller names.
/// Older nodes are polled.
const VERSION_WAITS: u64 = 300_000;

/// How to reach a node and how much to take from it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitcoindOptions {
    /// Where the node listens for RPC and REST.
    pub url: BitcoindUrl,
    /// What the node asks for before it answers RPC.
    pub credentials: Credentials,
    /// A node of another network is refused.
    pub network: Network,
    /// The node's block files, if this machine can read them: bodies come from there while many are
    /// missing.
    pub blocks_dir: Option<PathBuf>,
    /// How much may wait for the consumer.
    pub queue: QueueLimits,
    /// Connections over which blocks are fetched at the same time; at least one. Each holds one
    /// block in memory.
    pub fetch_connections_max: usize,
    /// Pause between questions to a node that does not offer to wake us.
    pub poll_interval_ms: u64,
    /// How long connecting and each answer may take.
    pub answer_timeout_ms: u64,
}
