//! Why files could not be reached.

use utxokeep_core::ErrorKind;

/// Why a blob store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobUrlError {
    /// No kind of blob store that we know.
    #[error("{0:?} is no blob store; write file:DIR, s3://BUCKET/PREFIX or memory:")]
    Unknown(String),
    /// It is there, but refused.
    #[error("the blob store {url} cannot be opened: {reason}")]
    Refused {
        /// As it was given.
        url: String,
        /// What it said.
        reason: String,
    },
    /// No threads for it.
    #[error("the blob store's threads could not be started: {0}")]
    Threads(#[from] std::io::Error),
}

impl BlobUrlError {
    /// What a caller can do about it: name a place that can be opened.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Why a file could not be written, read, listed or deleted. It may be there all the same: a cut
/// connection tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name}: {reason}")]
pub struct BlobError {
    /// What was done: `writing`, `reading`, `listing` or `deleting`.
    pub what: &'static str,
    /// Name of the file, or of the place where all were asked for.
    pub name: String,
    /// What the store said.
    pub reason: String,
}

impl BlobError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }
}
