//! The port of every live source: a node that has chosen its chain and says how the chain changes.
//!
//! A source is obeyed, not weighed: it says which block comes next and to which block the chain went
//! back. Sources that only hand out headers stand behind [`BlockSource`](crate::BlockSource).
//!
//! # Rules
//!
//! Every implementation keeps them; `utxokeep_testkit::live` has a test of each.
//!
//! * The first event of a connection is [`LiveEvent::RolledBack`] to the intersection: the newest of
//!   the caller's points that is on the source's chain, or the origin if the caller has none.
//! * A block is the child of the block that the events before it end at.
//! * A rollback names the block that the chain goes on from: one that was handed over before, on this
//!   connection or an earlier one, or the intersection; or the origin.
//! * [`LiveEvent::AtTip`] comes as soon as everything that the source has was handed over, and again
//!   after each change of its chain; in between [`LiveConnection::next`] answers nothing.
//! * A connection that was cut off hands over what it has received, then fails, and never recovers.
//!   A new one that is offered the newest blocks goes on where the old one ended.

mod backoff;
mod feed;
mod mempool;

use std::{error::Error, fmt, time::Duration};

use utxokeep_core::{BlockHash, ChainPoint, ErrorKind};

pub use backoff::Backoff;
pub use feed::QueueLimits;
pub(crate) use feed::{Feed, Heard, Left, NotStarted, Outbox};
pub use mempool::{MempoolList, MempoolSource};

/// A source of blocks that can be followed.
pub trait LiveSource: fmt::Debug + Send + Sync {
    /// Where the source is, for people.
    fn address(&self) -> String;

    /// Connects, and finds the newest of `points` (newest first) that is on the source's chain.
    /// Without points the chain is followed from its first block. A source that is silent is not
    /// waited for once `is_stopped` says so: that is a failure like any other.
    fn connect(
        &self,
        points: &[ChainPoint],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Box<dyn LiveConnection>, LiveError>;
}

/// A connection to a source, which stands at a block of the source's chain. Dropping it ends it.
pub trait LiveConnection: fmt::Debug + Send {
    /// The next event; `None` when nothing came within `wait`.
    fn next(&mut self, wait: Duration) -> Result<Option<LiveEvent>, LiveError>;

    /// What is known of the source.
    fn contact(&self) -> Contact;
}

/// What happened on the chain of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEvent {
    /// The chain now ends at this block; `None` is the origin, before the first block.
    RolledBack(Option<BlockHash>),
    /// The next block, in the bytes that a [`BlockDecoder`](crate::BlockDecoder) takes.
    Block(Vec<u8>),
    /// Everything that the source has was handed over.
    AtTip,
}

/// Signs of life of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contact {
    /// How many messages the source has sent on this connection: while the number grows, the source
    /// is there.
    pub messages: u64,
    /// Height of the source's tip, as the source last said.
    pub tip_height: u64,
}

/// What a source itself says of a failure.
pub type LiveCause = Box<dyn Error + Send + Sync>;

/// Why a source cannot be followed any further on this connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The source is away, or the connection ended: connecting again later can help.
    #[error(transparent)]
    Away(LiveCause),
    /// The source has none of the points, and its chain ends below the newest of them: it may still
    /// be catching up.
    #[error(transparent)]
    Behind(LiveCause),
    /// Connecting again cannot help: another network, a chain that parted below the oldest point, a
    /// format that is not known. Somebody has to change something first.
    #[error(transparent)]
    Refused(LiveCause),
}

impl LiveError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Away(_) | Self::Behind(_) => ErrorKind::Unavailable,
            Self::Refused(_) => ErrorKind::Failed,
        }
    }

    /// Whether connecting again later can help.
    #[must_use]
    pub const fn is_worth_retrying(&self) -> bool {
        match self {
            Self::Away(_) | Self::Behind(_) => true,
            Self::Refused(_) => false,
        }
    }
}
