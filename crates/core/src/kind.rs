//! What an error means to a caller, whichever crate it comes from.

use std::fmt;

/// What a caller can do about an error. Every error that an operation of these crates answers with
/// has one (`error.kind()`), and programs map it to an exit code, an HTTP status or a gRPC status
/// in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The request or the configuration cannot be right in any state; repeating it is no use.
    Invalid,
    /// The request reaches beyond what is kept, or beyond what one answer may hold.
    OutOfRange,
    /// The request goes on from a place behind which something was forgotten; start from the place
    /// that the error names.
    Gone,
    /// The request names something that does not exist, or that is not kept here.
    NotFound,
    /// The request would create something that exists already.
    Exists,
    /// The present state does not allow the request; nothing was changed.
    Refused,
    /// Another process has the data open, or there is no block yet; the same request works later.
    NotReady,
    /// A setting of the database leaves out what the request needs, for as long as the database
    /// exists.
    Disabled,
    /// Too much is going on at the same time; the same request works a moment later.
    Overloaded,
    /// The database or a server is away, busy or out of space; the same request may work later.
    Unavailable,
    /// Stored data or a file is damaged; only a copy, or building it anew, helps.
    Corrupt,
    /// Anything else that failed: a file, a peer, an engine that refused what it should have taken.
    Failed,
    /// The caller asked to stop, or is gone.
    Cancelled,
}

impl ErrorKind {
    /// Every kind, in the order of the documents.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::OutOfRange,
        Self::Gone,
        Self::NotFound,
        Self::Exists,
        Self::Refused,
        Self::NotReady,
        Self::Disabled,
        Self::Overloaded,
        Self::Unavailable,
        Self::Corrupt,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name in documents and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::OutOfRange => "out_of_range",
            Self::Gone => "gone",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::Refused => "refused",
            Self::NotReady => "not_ready",
            Self::Disabled => "disabled",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether an operator should look at it: the request is not to blame.
    #[must_use]
    pub const fn is_fault_of_the_server(self) -> bool {
        matches!(self, Self::Unavailable | Self::Corrupt | Self::Failed)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
