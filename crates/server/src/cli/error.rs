//! Errors of the command line itself.

use std::{io, path::PathBuf};

use utxokeep_core::{ErrorKind, Height, Network};

/// What only the command line can complain about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    /// A new database needs a network.
    #[error(
        "there is no database yet, and nothing says which network it is for: add --network NAME"
    )]
    NoNetwork,
    /// Nothing says which node to follow.
    #[error(
        "nothing says which node to follow: add --bitcoind URL with --cookie-file FILE, --node HOST:PORT \
         or --socket PATH, or name a source in the configuration"
    )]
    NoSource,
    /// A pruner that asks for a token.
    #[error(
        "the pruner at {address} wants its token: name the same --data or [server] token_file as the server \
         has; nothing was done"
    )]
    PrunerWantsToken {
        /// Where it answers.
        address: String,
    },
    /// No stream.
    #[error("the stream of {address} cannot be read")]
    NoStream {
        /// Where it was looked for.
        address: String,
        /// What the connection says.
        #[source]
        source: io::Error,
    },
    /// A server that opens no stream.
    #[error("{address} opens no stream (HTTP {status}): {message}")]
    StreamRefused {
        /// Where it answers.
        address: String,
        /// Its status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// A server that ended a stream.
    #[error("the server ended the stream: {message}; go on with --from {cursor}")]
    StreamCut {
        /// What it says.
        message: String,
        /// Behind the last event.
        cursor: String,
    },
    /// Nothing says which node store.
    #[error("nothing says which node store: add --store URL, or set [txstore] url")]
    NoNodeStore,
    /// Nothing says what to measure.
    #[error("nothing says which engine to measure: give its URL, or set [txstore] url")]
    NoEngine,
    /// A store is always like itself.
    #[error(
        "{place} would be compared with itself, which proves nothing: name another with --against"
    )]
    SameStore {
        /// Where it is.
        place: String,
    },
    /// Nothing says where persisted blocks are.
    #[error("nothing says where persisted blocks are: set [persister] url")]
    NoPersistedPlace,
    /// No place for large bodies is configured.
    #[error("no place for large bodies is configured: set [txstore] blobs")]
    NoBlobStore,
    /// Only one engine has logs that this program reads.
    #[error(
        "only a store on RocksDB (rocksdb:DIR) has a log to recover; SQLite and PostgreSQL see to \
         theirs themselves"
    )]
    NoLogToRecover,
    /// No height is believed.
    #[error(
        "the node store knows no height that two witnesses agree on: let its node report blocks \
         (ChainEvents.Block, SetBlockState), or add `utxokeep pruner confirm HEIGHT` to one report; \
         nothing was changed"
    )]
    HeightUnknown,
    /// One witness is not enough.
    #[error(
        "height {held} lies far above what the node store knows, and yours is the only report of it: \
         it is believed when another witness agrees (a block, the block state, the log); nothing is \
         pruned there until then"
    )]
    HeightHeld {
        /// The height.
        held: u32,
    },
    /// A run above the newest block.
    #[error(
        "height {asked} is above the newest that is safe, {newest}: a run there could delete what is \
         still needed; nothing was changed"
    )]
    RunAhead {
        /// The height asked for.
        asked: Height,
        /// The newest that is safe.
        newest: Height,
    },
    /// A run that did not start.
    #[error("there was no run: {reason}; nothing was changed")]
    RunSkipped {
        /// Why.
        reason: String,
    },
    /// A run that failed.
    #[error("the run failed: {error}; what was deleted before stays deleted, the next run goes on")]
    RunFailed {
        /// Why.
        error: String,
    },
    /// Deleted transactions were not kept.
    #[error(
        "deleted transactions are not kept; set [pruner] undo_blocks, and those of later runs can be \
         restored"
    )]
    NoUndo,
    /// An archive that is the ledger.
    #[error(
        "{path} is a file of the ledger itself, to which nothing can be added; nothing was changed: \
         name another file", path = .path.display()
    )]
    ArchiveIsLedger {
        /// The file.
        path: PathBuf,
    },
    /// Nothing to keep.
    #[error("nothing is kept: none of the transactions is in the node store")]
    NotPreserved,
    /// Nothing to restore.
    #[error("nothing was restored: it is not remembered, or it is there")]
    NotRestored,
    /// Restoring would spend outputs twice.
    #[error(
        "{refused} of the transactions were not restored, because others spend their inputs by now; \
         take those spends back first"
    )]
    RestoreRefused {
        /// How many.
        refused: u64,
    },
    /// Nobody to ask.
    #[error(
        "this command asks a running pruner, and none answers at {tried}: start `serve` or `pruner \
         serve`, or name another with --connect http://HOST:PORT"
    )]
    NoPruner {
        /// Addresses that were tried.
        tried: String,
    },
    /// A server without a pruner.
    #[error("the server at {address} has no pruner; is [pruner] enabled = false?")]
    NoPrunerThere {
        /// The server.
        address: String,
    },
    /// The pruner refused.
    #[error("the pruner refused: {message}")]
    PrunerRefused {
        /// Why.
        message: String,
    },
    /// The pruner failed, or was lost.
    #[error("the pruner at {address} failed: {message}")]
    PrunerFailed {
        /// The server.
        address: String,
        /// What it says.
        message: String,
    },
    /// Not an address.
    #[error("{text:?} is not an address: use http://HOST:PORT")]
    BadAddress {
        /// The text.
        text: String,
    },
    /// The database, or the network asked for, is of another chain.
    #[error("{network} is not a network of {chain}; leave --chain out, or name a network of it")]
    WrongChain {
        /// The chain asked for.
        chain: String,
        /// The network.
        network: Network,
    },
    /// Something that blocks of the network cannot be imported with.
    #[error("{flag} has no meaning for {network}; leave it out")]
    WrongFlag {
        /// The flag.
        flag: &'static str,
        /// The network.
        network: Network,
    },
    /// Nothing says which wallet ledger.
    #[error(
        "nothing says which wallet ledger: add --ledger sqlite:FILE or --ledger \
         postgres://USER@HOST/DATABASE, or set [wallet] url"
    )]
    NoLedger,
    /// A source of an import that holds nothing.
    #[error(
        "{} has no block (it is empty, has only zeros, or ends inside its first block), so that none \
         of the blocks could be used; nothing was changed: leave it out, or fetch it again",
        path.display()
    )]
    NoBlocks {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read {}; nothing was changed", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is too long to be what it should be.
    #[error("{} has more than {bytes_max} bytes; nothing was changed", path.display())]
    FileTooLong {
        /// The file.
        path: PathBuf,
        /// The most bytes that are read.
        bytes_max: usize,
    },
    /// A file that is no transaction.
    #[error("{} does not have the parts of a transaction; nothing was changed", path.display())]
    BadParts {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}; an existing file is not replaced", path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that has something else.
    #[error(
        "{} exists and has other content, which is not replaced; nothing was changed: name another \
         file",
        path.display()
    )]
    OtherContent {
        /// The file.
        path: PathBuf,
    },
    /// What was removed could not be kept.
    #[error(
        "cannot write {}; what was removed waits in the ledger, and the next `wallet prune` with \
         --archive keeps it",
        path.display()
    )]
    NotArchived {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl CliError {
    /// What a caller can do about it.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotPreserved | Self::NotRestored => ErrorKind::NotFound,
            // One code for every file that exists already.
            Self::WriteFile { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                ErrorKind::Exists
            }
            Self::RunAhead { .. }
            | Self::HeightUnknown
            | Self::HeightHeld { .. }
            | Self::RunSkipped { .. }
            | Self::NoUndo
            | Self::RestoreRefused { .. }
            | Self::OtherContent { .. }
            | Self::NoBlocks { .. }
            | Self::PrunerRefused { .. }
            | Self::PrunerWantsToken { .. } => ErrorKind::Refused,
            Self::StreamRefused { status, .. } => kind_of_refused_stream(*status),
            Self::NoStream { .. }
            | Self::StreamCut { .. }
            | Self::NoPruner { .. }
            | Self::NoPrunerThere { .. } => ErrorKind::Unavailable,
            Self::RunFailed { .. }
            | Self::ReadFile { .. }
            | Self::WriteFile { .. }
            | Self::NotArchived { .. }
            | Self::PrunerFailed { .. } => ErrorKind::Failed,
            Self::NoNetwork
            | Self::NoSource
            | Self::NoNodeStore
            | Self::NoEngine
            | Self::SameStore { .. }
            | Self::NoBlobStore
            | Self::NoPersistedPlace
            | Self::NoLogToRecover
            | Self::ArchiveIsLedger { .. }
            | Self::BadAddress { .. }
            | Self::WrongChain { .. }
            | Self::WrongFlag { .. }
            | Self::NoLedger
            | Self::FileTooLong { .. }
            | Self::BadParts { .. } => ErrorKind::Invalid,
        }
    }
}

/// What a server meant that did not open a stream.
const fn kind_of_refused_stream(status: u16) -> ErrorKind {
    match status {
        400 => ErrorKind::Invalid,
        404 => ErrorKind::NotFound,
        410 => ErrorKind::OutOfRange,
        401 | 403 | 409 => ErrorKind::Refused,
        _ => ErrorKind::Unavailable,
    }
}
