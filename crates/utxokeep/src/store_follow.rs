//! The node store follows the chain: every block of the chain log is put into it as a list of mined
//! transactions, and blocks that leave the chain are taken off them.
//!
//! # Invariants
//!
//! * Where the store stands is a row of the store. It names a block before the first call for that
//!   block, and says until the last one is done that the block is in hand. A block in hand is applied
//!   again, or undone, which for what was done before changes nothing.
//! * The cursor in the chain database is published after that: it is too low after a crash, never too
//!   high, so that the pruner deletes nothing of a block in hand.
//! * The chain wins: a transaction of the store that holds an input of a mined one becomes
//!   conflicting, with everything that builds on it.
//! * What cannot be brought together is refused by name and nothing is skipped: the store stands
//!   still, and health says why.

mod apply;
mod consumer;
mod error;
mod meter;
mod place;
mod undo;

use utxokeep_core::node::SpendFlags;
use utxokeep_index::IndexSettings;

pub use self::{consumer::StoreFollower, error::StoreFollowError, meter::METRICS};
use crate::config::TxStoreConfig;

/// The name of the node store among the consumers of the chain log.
pub const NAME: &str = "node-store";

/// Blocks of the chain outrank locks, and conflicts that are not processed yet.
const FLAGS: SpendFlags = SpendFlags { ignore_conflicting: true, ignore_locked: true };

/// What the node store follows with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFollowSettings {
    /// Transactions of one call.
    pub batch_txs_max: usize,
    /// Items that the store takes in one call.
    pub items_max: usize,
}

impl StoreFollowSettings {
    /// From the configuration.
    #[must_use]
    pub fn of(config: &TxStoreConfig) -> Self {
        let items_max = config.batch_items_max.get() as usize;
        let batch_txs_max = (config.follow_batch_txs_max.get() as usize).min(items_max);
        Self { batch_txs_max, items_max }
    }
}

/// Why a node store does not follow a database without an index.
pub(crate) const NEEDS_INDEX: &str = "[index] enabled = false keeps no outputs, and a block that \
                                      leaves the chain could not be taken back";

/// Why a node store with these numbers cannot follow a chain database, if it cannot.
#[must_use]
pub fn refusal(config: &TxStoreConfig, index: &IndexSettings) -> Option<&'static str> {
    let (retention, window) = (config.retention_blocks, index.window.rollback_window);
    let refusals = [
        (
            index.network().is_cardano(),
            "the database is of Cardano, and the node store takes transactions of Bitcoin",
        ),
        (!index.enabled, NEEDS_INDEX),
        (
            !index.filter.is_empty(),
            "[index] filter_addresses keeps only some outputs, and a block that leaves the chain could \
             not be taken back",
        ),
        (
            retention > 0 && retention < window,
            "[txstore] retention_blocks is below the rollback window of the database: transactions \
             would be pruned that a reorganisation needs",
        ),
    ];
    refusals.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why)
}

#[cfg(test)]
mod tests;
