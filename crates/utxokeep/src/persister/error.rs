//! Why blocks are not persisted, or not read back.

use utxokeep_blobs::{BlobError, BlobUrlError};
use utxokeep_chains::{BodyError, DecodeError};
use utxokeep_core::{Corrupt, ErrorKind, Height, Network};
use utxokeep_index::{IndexError, LogError};

/// Why the persister does not get on. What is written stays, and the next attempt goes on there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersisterError {
    /// The blob store does not open.
    #[error(transparent)]
    Url(#[from] BlobUrlError),
    /// The blob store fails.
    #[error("the blob store of the persister at {place} fails: {source}")]
    Store {
        /// Where it is.
        place: String,
        /// What failed.
        source: BlobError,
    },
    /// A file is damaged.
    #[error("{file} at {place} is damaged: {source}")]
    Damaged {
        /// Where it is.
        place: String,
        /// The file.
        file: String,
        /// What is wrong with it.
        source: Corrupt,
    },
    /// A file is not there.
    #[error("{file} is not at {place}, although the watermark says so")]
    Missing {
        /// Where it should be.
        place: String,
        /// The file.
        file: String,
    },
    /// The place belongs to another chain.
    #[error(
        "{place} has persisted blocks of {found}, and this database follows {network}: give each chain \
         a place of its own; nothing was written"
    )]
    OtherChain {
        /// The place.
        place: String,
        /// Whose it is.
        found: Network,
        /// The chain of the database.
        network: Network,
    },
    /// Nothing was ever persisted there.
    #[error("{place} has no persisted blocks: its file persister.watermark is not there")]
    Empty {
        /// The place.
        place: String,
    },
    /// What was persisted is not there any more.
    #[error(
        "blocks up to {height} were persisted, and {place} has none: it is not mounted, was moved, or \
         is lost; nothing was written. Put it back, or `utxokeep chain consumers forget persister` to \
         begin anew"
    )]
    Lost {
        /// The place.
        place: String,
        /// How far the persister had come.
        height: Height,
    },
    /// The files and the chain share no block.
    #[error(
        "no persisted block at {place} is on the chain of the database, as far as the files go back \
         from height {height}; nothing was written. Use another place, or `utxokeep chain consumers \
         forget persister` and an empty one"
    )]
    NoCommonBlock {
        /// The place.
        place: String,
        /// Where the search began.
        height: Height,
    },
    /// A body is in none of the places that were named.
    #[error(
        "the body of block {height} is not at hand, looked in {looked_in}: name the directory with the \
         node's blocks in [persister] blocks; blocks before it stay persisted"
    )]
    MissingBody {
        /// Height of the block.
        height: Height,
        /// The places.
        looked_in: String,
    },
    /// A body cannot be fetched.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The bytes of a block are damaged.
    #[error("the bytes of block {height} cannot be taken apart")]
    Undecodable {
        /// Height of the block.
        height: Height,
        /// What is wrong with them.
        #[source]
        source: DecodeError,
    },
    /// The pieces of a block do not fit.
    #[error(transparent)]
    Pieces(#[from] Corrupt),
    /// The chain log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The chain database fails.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The caller asked to stop.
    #[error("stopped before all files were read; nothing was changed")]
    Stopped,
}

impl PersisterError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Url(error) => error.kind(),
            Self::Store { source, .. } => source.kind(),
            Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::Lost { .. }
            | Self::Undecodable { .. }
            | Self::Pieces(_) => ErrorKind::Corrupt,
            Self::OtherChain { .. } | Self::NoCommonBlock { .. } => ErrorKind::Refused,
            Self::Empty { .. } => ErrorKind::NotFound,
            Self::MissingBody { .. } => ErrorKind::Failed,
            Self::Body(error) => error.kind(),
            Self::Log(error) => error.kind(),
            Self::Index(error) => error.kind(),
            Self::Stopped => ErrorKind::Cancelled,
        }
    }
}
