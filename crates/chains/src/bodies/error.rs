//! Why a body could not be fetched.

use utxokeep_core::ErrorKind;

use crate::{DecodeError, SourceError, bitcoind::BitcoindError, cardano::NodeError};

/// Why a body could not be fetched. Nothing was changed; the same question may be asked again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Files could not be read.
    #[error(transparent)]
    Files(#[from] SourceError),
    /// The Cardano node could not be asked.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The Bitcoin node could not be asked.
    #[error(transparent)]
    Bitcoind(#[from] BitcoindError),
    /// The bytes of the block are damaged.
    #[error(transparent)]
    Undecodable(#[from] DecodeError),
    /// The caller asked to stop.
    #[error("stopped while a block was looked for")]
    Stopped,
}

impl BodyError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Files(error) => error.kind(),
            Self::Node(_) | Self::Bitcoind(_) => ErrorKind::Unavailable,
            Self::Undecodable(_) => ErrorKind::Failed,
            Self::Stopped => ErrorKind::Cancelled,
        }
    }
}
