//! What can go wrong below the rules.

use utxokeep_core::Corrupt;
use utxokeep_kv::KvError;

/// Reading or writing failed, or what is stored makes no sense. Nothing of the call was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The engine below failed.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// A row does not decode.
    #[error("{0}; run `utxokeep tx verify`")]
    Corrupt(#[from] Corrupt),
    /// More than a call may hold.
    #[error("the request has {found} items, the most is {max}; send fewer at a time")]
    TooManyItems {
        /// Items in the request.
        found: usize,
        /// The most there may be.
        max: usize,
    },
}

/// Why a store could not be opened. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store was written by a newer program.
    #[error("the node store has format {found}, this program knows {known}; use a newer utxokeep")]
    NewerFormat {
        /// Format of the store.
        found: u64,
        /// Newest format this program knows.
        known: u64,
    },
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<KvError> for OpenError {
    fn from(error: KvError) -> Self {
        Self::Store(error.into())
    }
}
