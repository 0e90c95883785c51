//! What can go wrong below the rules.

use utxokeep_core::{Corrupt, ErrorKind, Txid};
use utxokeep_kv::KvError;
use utxokeep_records::RecordError;
use utxokeep_sql::SqlError;

use crate::agreed::Disagreement;

/// Reading or writing failed, or what is stored makes no sense. Nothing of the call was changed,
/// unless it is [`SqlError::CommitUnknown`] or [`StoreError::CommitUnknown`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The engine below failed.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// The database below failed.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The record store below failed.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// Other calls worked on the same records for as long as this one may wait. What they do is not
    /// decided yet, so that there is no other answer.
    #[error(
        "other calls work on the same transactions, and it is not decided what becomes of them; \
         nothing was changed, try again"
    )]
    InProgress,
    /// The answer of the servers was lost, and records were changed by others since.
    #[error(
        "the answer to the commit was lost ({why}): it may or may not have happened; read the \
         transactions, and repeat the call if it did not"
    )]
    CommitUnknown {
        /// What the engine said last.
        why: String,
    },
    /// A page of a large transaction is not there. Nothing was changed.
    #[error("record {page} of {txid} is missing; run `utxokeep tx verify`")]
    PageMissing {
        /// The transaction.
        txid: Txid,
        /// Number of the record, counted from 1 behind the first.
        page: u32,
    },
    /// A row does not decode.
    #[error("{0}; run `utxokeep tx verify`")]
    Corrupt(#[from] Corrupt),
    /// The blob store failed.
    #[error("{what} a file of the blob store failed: {reason}; nothing was changed")]
    Blob {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// The body is in a file that is not there.
    #[error("the file with the body of {0} is missing in the blob store; run `utxokeep tx verify`")]
    BlobMissing(Txid),
    /// The body is in a file, and no blob store was given.
    #[error("the body of {0} is in a blob store, and none is configured; set [txstore] blobs")]
    NoBlobStore(Txid),
    /// Somebody else works on the same transactions. The engine tries again by itself.
    #[error("somebody else works on the same transactions; nothing was changed, try again")]
    Contended,
    /// The numbers of the store were changed while this program runs with the old ones.
    #[error("{0}; nothing was changed, restart this program with the numbers of the store")]
    Disagreement(#[from] Disagreement),
    /// The store was moved to another place while this program runs.
    #[error(
        "the node store was moved to {to}; nothing was changed: set [txstore] url to that place and \
         restart this program"
    )]
    MovedAway {
        /// Where it is.
        to: String,
    },
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
pub enum StoreOpenError {
    /// The store was written by a newer program.
    #[error("the node store has format {found}, this program knows {known}; use a newer utxokeep")]
    NewerFormat {
        /// Format of the store.
        found: u64,
        /// Newest format this program knows.
        known: u64,
    },
    /// The database is there, holds nothing, and was not opened to create a store in it.
    #[error("there is no node store in the database; nothing was created")]
    Missing,
    /// The store was written by an older program, and was opened for reading.
    #[error(
        "the node store has format {found} and this program writes {known}; nothing was changed: \
         `utxokeep serve`, or any command that writes to it, brings it up to date"
    )]
    OlderFormat {
        /// Format of the store.
        found: u64,
        /// Format of this program.
        known: u64,
    },
    /// A store on records has other numbers than those it is opened with. They cannot be changed.
    #[error("the node store was created with {name} = {stored}, not {configured}; use that number")]
    OtherNumber {
        /// The setting.
        name: &'static str,
        /// The number of the store.
        stored: u32,
        /// The number that it was opened with.
        configured: u32,
    },
    /// A copy that is not complete.
    #[error(
        "the node store is a half-moved copy of {from}; repeat `utxokeep store move` until it is done, \
         or remove it"
    )]
    HalfMoved {
        /// Where it comes from.
        from: String,
    },
    /// It is elsewhere now.
    #[error("the node store was moved to {to}; set [txstore] url to that place")]
    MovedAway {
        /// Where it is.
        to: String,
    },
    /// Settings of a store on records that cannot be honoured.
    #[error("the settings of the record store cannot be used: {0}")]
    RecordSettings(String),
    /// It is used with other numbers than it was made with.
    #[error(transparent)]
    Disagreement(#[from] Disagreement),
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<RecordError> for StoreOpenError {
    fn from(error: RecordError) -> Self {
        Self::Store(error.into())
    }
}

impl From<KvError> for StoreOpenError {
    fn from(error: KvError) -> Self {
        Self::Store(error.into())
    }
}

impl StoreError {
    /// What a caller can do about it. The store's contract promises that a call whose engine failed
    /// may be repeated, so such a failure is [`ErrorKind::Unavailable`] here.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Corrupt(_)
            | Self::BlobMissing(_)
            | Self::PageMissing { .. }
            | Self::Records(RecordError::Corrupt { .. }) => ErrorKind::Corrupt,
            Self::InProgress => ErrorKind::Overloaded,
            Self::Kv(error) => may_be_repeated(error.kind()),
            Self::Sql(error) => may_be_repeated(error.kind()),
            Self::Disagreement(_)
            | Self::MovedAway { .. }
            | Self::Records(RecordError::Unsuitable { .. } | RecordError::OpenedToRead) => {
                ErrorKind::Refused
            }
            Self::TooManyItems { .. } | Self::Records(RecordError::Config { .. }) => {
                ErrorKind::Invalid
            }
            Self::Blob { .. }
            | Self::NoBlobStore(_)
            | Self::Contended
            | Self::CommitUnknown { .. }
            | Self::Records(_) => ErrorKind::Unavailable,
        }
    }
}

const fn may_be_repeated(kind: ErrorKind) -> ErrorKind {
    if matches!(kind, ErrorKind::Failed) { ErrorKind::Unavailable } else { kind }
}

impl StoreOpenError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::NewerFormat { .. }
            | Self::OlderFormat { .. }
            | Self::Missing
            | Self::OtherNumber { .. }
            | Self::HalfMoved { .. }
            | Self::MovedAway { .. }
            | Self::Disagreement(_) => ErrorKind::Refused,
            Self::RecordSettings(_) => ErrorKind::Invalid,
        }
    }
}
