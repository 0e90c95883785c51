//! Why the ledger does not get further.

use utxokeep_core::{ErrorKind, Height};
use utxokeep_index::IndexError;
use utxokeep_wallet::{FollowError, LedgerError};

/// Why following stopped. What was applied before stays applied, and the next attempt goes on
/// there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalletFollowError {
    /// A body is in none of the places that were named.
    #[error(
        "the body of block {height} is not at hand, looked in {looked_in}: name the directory with \
         the node's blocks in [wallet] blocks or with --blocks; blocks before it stay applied"
    )]
    MissingBody {
        /// Height of the block.
        height: Height,
        /// The places.
        looked_in: String,
    },
    /// The chain database ends below the ledger.
    #[error(
        "the chain database ends at block {chain}, below block {ledger} of the ledger; nothing \
         was changed: wait until it has caught up, or take blocks of the ledger back (wallet \
         disconnect)"
    )]
    ChainBehind {
        /// Where the chain database ends.
        chain: Height,
        /// Where the ledger ends.
        ledger: Height,
    },
    /// The ledger has not followed this chain.
    #[error(
        "the ledger is not on the chain of the chain database; follow it first, then scan; nothing \
         was changed"
    )]
    NotFollowed,
    /// The wallet could not take a block.
    #[error(
        "the wallet could not take block {height}: {reason}; it is set aside at that block, and \
         what was found below stays: scan it from further below"
    )]
    ScanFailed {
        /// The block.
        height: Height,
        /// What the ledger said.
        reason: String,
    },
    /// The ledger or the chain refused.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// The ledger refused.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The chain database could not be read.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl WalletFollowError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::ChainBehind { .. } | Self::NotFollowed | Self::ScanFailed { .. } => {
                ErrorKind::Refused
            }
            Self::MissingBody { .. } => ErrorKind::Failed,
            Self::Follow(error) => error.kind(),
            Self::Ledger(error) => error.kind(),
            Self::Index(error) => error.kind(),
        }
    }

    /// A short name, for metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::MissingBody { .. } | Self::Follow(FollowError::MissingBody { .. }) => {
                "missing_body"
            }
            Self::ChainBehind { .. } => "chain_behind",
            Self::NotFollowed => "not_followed",
            Self::ScanFailed { .. } => "rescan",
            Self::Follow(FollowError::WrongBody { .. }) => "wrong_body",
            Self::Follow(FollowError::NoCommonBlock { .. }) => "no_common_block",
            Self::Follow(FollowError::Ledger(LedgerError::Sql(_)))
            | Self::Ledger(LedgerError::Sql(_)) => "database",
            Self::Follow(FollowError::Ledger(_)) | Self::Ledger(_) => "ledger",
            Self::Follow(_) | Self::Index(_) => "chain",
        }
    }
}
