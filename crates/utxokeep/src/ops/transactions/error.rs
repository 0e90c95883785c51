//! Why a question to the node store is not answered.

use utxokeep_core::{ErrorKind, Txid};
use utxokeep_txstore::StoreError;

/// Why a question to the node store is not answered. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionReadError {
    /// No transaction id.
    #[error("{text:?} is no transaction id: expected 64 hexadecimal digits, as nodes print it")]
    BadTxid {
        /// What was asked for.
        text: String,
    },
    /// No such transaction.
    #[error("transaction {txid} is not in the node store: it never was, or it was pruned")]
    Unknown {
        /// The transaction.
        txid: Txid,
    },
    /// Nothing says at which height.
    #[error("the node store was never told a height: name one (`height`, or --height HEIGHT)")]
    NoHeight,
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TransactionReadError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::BadTxid { .. } | Self::NoHeight => ErrorKind::Invalid,
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Store(error) => error.kind(),
        }
    }

    /// A name for programs; it does not change.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadTxid { .. } => "bad_transaction",
            Self::Unknown { .. } => "unknown_transaction",
            Self::NoHeight => "no_height",
            Self::Store(_) => "node_store",
        }
    }
}
