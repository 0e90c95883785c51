//! Why the change stream cannot be read, and what to do about it.

use utxokeep_core::{Corrupt, ErrorKind, Height};
use utxokeep_index::{IndexError, LogError};

use super::consumers::CONSUMER_PREFIX;
use crate::ops::chain::ChainReadError;

/// Why the change stream cannot be read, or a consumer not be registered. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// No cursor.
    #[error(
        "the cursor is none of this version of the program; send the id of an event back exactly as it \
         was given, or start at a height"
    )]
    BadCursor,
    /// A cursor inside a block, behind its last change.
    #[error(
        "the cursor names change {applied} of block {height}, which has {changes}: it is of another \
         database; start at a height"
    )]
    CursorBehindBlock {
        /// The block.
        height: Height,
        /// Where the cursor is.
        applied: u32,
        /// How many changes there are.
        changes: usize,
    },
    /// Parameters that are wrong or exclude each other.
    #[error("{0}")]
    BadParameter(String),
    /// A height that the chain has not reached.
    #[error("the chain ends at height {tip}; the stream cannot start behind {height}")]
    AboveTip {
        /// The height asked for.
        height: Height,
        /// Height of the tip.
        tip: Height,
    },
    /// An owner or an asset that is none.
    #[error(transparent)]
    Watched(#[from] ChainReadError),
    /// The filter of the database leaves an owner out.
    #[error("the database does not keep the outputs of {owner}: its filter leaves them out")]
    NotKept {
        /// The text of the owner.
        owner: String,
    },
    /// No more connections.
    #[error("{max} streams are open already ([stream] connections_max); come back later")]
    TooManyConnections {
        /// The most there may be.
        max: u32,
    },
    /// The server is about to end.
    #[error("the server stops")]
    Stopping,
    /// The name of a part of the program.
    #[error(
        "{name:?} cannot be the name of a consumer of the stream: it begins with {CONSUMER_PREFIX:?}, \
         and goes on with lower-case letters, digits and dashes"
    )]
    BadConsumerName {
        /// What was given.
        name: String,
    },
    /// No more consumers.
    #[error(
        "there are {max} consumers of the stream already ([stream] consumers_max); forget one that is \
         not used any more"
    )]
    TooManyConsumers {
        /// The most there may be.
        max: u32,
    },
    /// The log cannot be read from there.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A thread of the server broke down.
    #[error("reading the stream broke down; see the log of the server")]
    BrokeDown,
}

impl From<IndexError> for StreamError {
    fn from(error: IndexError) -> Self {
        Self::Log(error.into())
    }
}

impl From<Corrupt> for StreamError {
    fn from(error: Corrupt) -> Self {
        Self::Log(error.into())
    }
}

impl StreamError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadCursor
            | Self::CursorBehindBlock { .. }
            | Self::BadParameter(_)
            | Self::BadConsumerName { .. } => ErrorKind::Invalid,
            Self::AboveTip { .. } => ErrorKind::OutOfRange,
            Self::Watched(error) => error.kind(),
            Self::NotKept { .. } => ErrorKind::NotFound,
            Self::TooManyConnections { .. } => ErrorKind::Overloaded,
            Self::Stopping => ErrorKind::Unavailable,
            Self::TooManyConsumers { .. } => ErrorKind::Refused,
            Self::Log(error) => error.kind(),
            Self::BrokeDown => ErrorKind::Failed,
        }
    }

    /// A name for programs; it does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadCursor | Self::CursorBehindBlock { .. } => "bad_cursor",
            Self::BadParameter(_) => "bad_parameter",
            Self::AboveTip { .. } => "above_tip",
            Self::Watched(error) => error.code(),
            Self::NotKept { .. } => "not_kept",
            Self::TooManyConnections { .. } => "overloaded",
            Self::Stopping => "server_stops",
            Self::BadConsumerName { .. } | Self::Log(LogError::BadName { .. }) => "bad_name",
            Self::TooManyConsumers { .. } | Self::Log(LogError::TooMany) => "too_many_consumers",
            Self::Log(LogError::UnknownCursor { .. } | LogError::PastWindow { .. }) => {
                "past_window"
            }
            Self::Log(LogError::Disabled) => "index_disabled",
            Self::Log(LogError::CatchingUp { .. }) => "catching_up",
            Self::Log(LogError::UnknownConsumer { .. }) => "unknown_consumer",
            Self::Log(_) => "database",
            Self::BrokeDown => "internal",
        }
    }

    /// The lowest height at which the stream can start, when it cannot from where it was asked to.
    #[must_use]
    pub const fn start_from(&self) -> Option<Height> {
        match self {
            Self::Log(error) => error.start_from(),
            _ => None,
        }
    }
}
