//! Why the log could not be read from a place, and what to do about it.

use utxokeep_core::{Corrupt, Height};
use utxokeep_kv::KvError;

use super::{CONSUMERS_MAX, Cursor};
use crate::error::{IndexError, catching_up};

/// Why the log could not be read. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The block of the cursor is neither on the chain nor among those that left it recently.
    #[error(
        "the log does not know the block of the cursor at height {height} any more; start again \
         from the set at height {start_from}, or from any block of the chain above it"
    )]
    UnknownCursor {
        /// Height of the cursor.
        height: Height,
        /// The lowest height from which changes can be read on.
        start_from: Height,
    },
    /// What the block changed is not kept any more.
    #[error(
        "what block {height} changed is not kept any more; start again from the set at height \
         {start_from}"
    )]
    PastWindow {
        /// The block asked for.
        height: Height,
        /// The lowest height from which changes can be read on.
        start_from: Height,
    },
    /// The database keeps the log only.
    #[error("the index is off: the log names blocks, and does not know what they changed")]
    Disabled,
    /// The index was off, and is on its way to the tip.
    #[error("{}", catching_up(at, *tip))]
    CatchingUp {
        /// The last block that its tables have.
        at: Cursor,
        /// Height of the tip.
        tip: Option<Height>,
    },
    /// A name that cannot be one.
    #[error(
        "{name:?} cannot be the name of a consumer: it takes 1 to 64 lower-case letters, digits \
         and dashes"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// Too many consumers.
    #[error(
        "there are {CONSUMERS_MAX} named consumers already; forget one that is not used any more"
    )]
    TooMany,
    /// No consumer has this name.
    #[error("no consumer of the log is called {name:?}; nothing was changed")]
    UnknownConsumer {
        /// The name.
        name: String,
    },
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

impl From<KvError> for LogError {
    fn from(error: KvError) -> Self {
        Self::Store(error.into())
    }
}

impl From<Corrupt> for LogError {
    fn from(error: Corrupt) -> Self {
        Self::Store(error.into())
    }
}

impl LogError {
    /// The height from which a consumer can read on, when it cannot from its own place.
    #[must_use]
    pub const fn start_from(&self) -> Option<Height> {
        match self {
            Self::UnknownCursor { start_from, .. } | Self::PastWindow { start_from, .. } => {
                Some(*start_from)
            }
            _ => None,
        }
    }
}
