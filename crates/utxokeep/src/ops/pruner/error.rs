//! Why a question to the pruner is not answered.

use utxokeep_core::{ErrorKind, Height, Txid};
use utxokeep_pruner::PrunerError;

/// Why a question to the pruner is not answered. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrunerReadError {
    /// No such transaction.
    #[error("transaction {txid} is not in the node store: it never was, or it was pruned")]
    Unknown {
        /// The transaction.
        txid: Txid,
    },
    /// A parameter is out of range.
    #[error("{0}")]
    BadParameter(String),
    /// No height is believed.
    #[error(
        "the node store knows no height that two witnesses agree on: let its node report blocks \
         (ChainEvents.Block, SetBlockState), or add `utxokeep pruner confirm HEIGHT` to one report; \
         nothing was changed"
    )]
    NoHeight,
    /// The height lies ahead of the chain.
    #[error(
        "height {asked} is above the newest that is safe, {newest}: a run there could delete what is \
         still needed; nothing was changed"
    )]
    Ahead {
        /// The height asked for.
        asked: Height,
        /// The newest that is safe.
        newest: Height,
    },
    /// The pruner refuses or fails.
    #[error(transparent)]
    Pruner(PrunerError),
    /// A pruner that runs elsewhere refuses or does not answer.
    #[error("{message}")]
    Elsewhere {
        /// What a caller can do about it.
        kind: ErrorKind,
        /// What it says.
        message: String,
    },
}

impl From<PrunerError> for PrunerReadError {
    fn from(error: PrunerError) -> Self {
        match error {
            PrunerError::NoHeight => Self::NoHeight,
            PrunerError::Ahead { asked, newest } => Self::Ahead { asked, newest },
            other => Self::Pruner(other),
        }
    }
}

impl PrunerReadError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::BadParameter(_) => ErrorKind::Invalid,
            Self::NoHeight | Self::Ahead { .. } => ErrorKind::Refused,
            Self::Pruner(error) => error.kind(),
            Self::Elsewhere { kind, .. } => *kind,
        }
    }

    /// A name for programs; it does not change.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_transaction",
            Self::BadParameter(_) => "bad_parameter",
            Self::NoHeight => "no_height",
            Self::Ahead { .. } => "ahead",
            Self::Pruner(PrunerError::Store(_)) => "node_store",
            Self::Pruner(_) | Self::Elsewhere { .. } => "pruner",
        }
    }
}
