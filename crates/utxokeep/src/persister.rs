//! The block persister: writes the files of each block of the chain log to a blob store, so that a
//! database can be built from them, and what is in them may go elsewhere.
//!
//! # Invariants
//!
//! * All files of a block are durable before the watermark in the blob store names it, and that is
//!   durable before the cursor in the chain database does. A crash at any moment leaves a cursor that is
//!   too low, never one that is too high.
//! * When blocks leave the chain, the watermark goes back before any file of the new branch is written.
//!   A cursor that still stands on the old branch counts as far as the two branches share it.
//! * Files are named by the hash of their block, so that those of a block that left the chain, and
//!   comes back, are right. Writing them again is safe.
//! * A place that belongs to another chain, or that lost what was written to it, is refused.

mod consumer;
mod error;
mod list;
mod meter;
mod place;
mod verify;

use std::time::Duration;

use utxokeep_blobs::Retry;

pub use self::{
    consumer::Persister,
    error::PersisterError,
    list::{PersistedList, ReadProgress},
    meter::METRICS,
    place::{PersistedPlace, PersistedRaw},
    verify::{PersistedFault, PersistedReport, verify},
};
use crate::config::PersisterConfig;

/// The name of the persister among the consumers of the chain log.
pub const NAME: &str = "persister";

/// What the persister is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PersisterSettings {
    /// Transactions of a full subtree, as a power of two.
    pub subtree_txs_log2: u8,
    /// Blocks below the watermark whose files are kept; `None` for all.
    pub retention_blocks: Option<u32>,
    /// Blocks whose files are written before the watermark moves.
    pub batch_blocks_max: usize,
    /// Bytes of such blocks, as they are on chain.
    pub batch_bytes_max: usize,
    /// Files that are written at the same time.
    pub parallel_files: usize,
    /// How often a file is tried.
    pub retry: Retry,
}

impl PersisterSettings {
    /// From the configuration.
    #[must_use]
    pub fn of(config: &PersisterConfig) -> Self {
        Self {
            subtree_txs_log2: config.subtree_txs_log2,
            retention_blocks: Some(config.retention_blocks).filter(|blocks| *blocks > 0),
            batch_blocks_max: config.batch_blocks_max.get() as usize,
            batch_bytes_max: (config.batch_mib_max.get() as usize).saturating_mul(1 << 20),
            parallel_files: config.parallel_files.get() as usize,
            retry: Retry {
                retries_max: config.retry_max,
                wait_first: Duration::from_millis(config.retry_wait_ms.into()),
                wait_max: Duration::from_millis(config.retry_wait_ms_max.into()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
