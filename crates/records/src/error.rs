//! What can go wrong with a call as a whole, in terms a caller can act on.

use crate::port::Key;

/// Errors of the record layer. A write that ended with one has changed nothing: what is not known
/// about single writes is in [`crate::Written`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A URL or an option that cannot be used.
    #[error("the record store settings cannot be used: {what}")]
    Config {
        /// What is wrong and what is expected.
        what: String,
    },
    /// The servers answer, but cannot do what is needed.
    #[error("the record servers cannot be used: {what}")]
    Unsuitable {
        /// What they lack, and what to set.
        what: String,
    },
    /// No server answered in time, in all attempts; nothing was changed.
    #[error("the record store cannot be reached, nothing was changed: {what}")]
    Unavailable {
        /// What was tried, and what happened last.
        what: String,
    },
    /// The store was opened to read.
    #[error("the record store was opened to read, and takes no writes; nothing was changed")]
    OpenedToRead,
    /// A call that can never work, such as a field without a name.
    #[error("wrong use of the record store: {what}")]
    Usage {
        /// What is wrong.
        what: String,
    },
    /// A stored cell is not what this crate writes.
    #[error("a stored cell is damaged: {key}: {what}")]
    Corrupt {
        /// Which one.
        key: Key,
        /// What was found.
        what: String,
    },
    /// The store was closed, or its actor crashed in a simulation: no call works any more.
    #[error("the record store is closed, nothing was changed")]
    Closed,
}

impl RecordError {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage { what: what.into() }
    }
}
