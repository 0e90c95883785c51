//! The port every supplier of blocks stands behind: headers in order of arrival, bodies on demand.

use std::{io, path::PathBuf};

use utxokeep_core::{BlockHash, ChainHash, ErrorKind, Header, Network};

use crate::cardano::CardanoDecodeError;

/// A supplier of blocks.
pub trait BlockSource: Send + Sync {
    /// The next header in order of arrival; `None` when the source has no more (for now).
    fn next(&mut self) -> Result<Option<Header>, SourceError>;

    /// Raw bytes of a block whose header has arrived. Takes `&self`: decoding threads share the
    /// source.
    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError>;
}

/// A supplier that knows all its blocks beforehand.
pub trait BlockList: BlockSource {
    /// All headers in order of arrival, without repetitions.
    fn headers(&self) -> &[Header];
}

/// Why a compressed file was not unpacked to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// More than the settings allow.
    #[error("the files hold more than {} GiB, see [storage] unpacked_gib_max", bytes_max >> 30)]
    Limit {
        /// `[storage] unpacked_gib_max` in bytes.
        bytes_max: u64,
    },
    /// More than there is room for.
    #[error("less than {} GiB would be left on the disk, see [storage] unpack_free_gib_min", free_bytes_min >> 30)]
    Disk {
        /// What has to be left.
        free_bytes_min: u64,
    },
}

/// Why a source cannot supply blocks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A compressed file is damaged or cut off.
    #[error("cannot decompress {}: fetch the file again", path.display())]
    Decompress {
        /// The compressed file.
        path: PathBuf,
        /// The decompressor's answer.
        #[source]
        source: io::Error,
    },
    /// The temporary file for decompressed blocks could not be written.
    #[error("cannot write a temporary file in {}: check free space and permissions", dir.display())]
    Spool {
        /// Directory of the temporary file.
        dir: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Compressed files hold more than may be unpacked.
    #[error("{} was not unpacked to its end: {reason}; nothing was imported", path.display())]
    UnpacksTooLarge {
        /// The compressed file.
        path: PathBuf,
        /// Which limit it met.
        reason: TooLarge,
    },
    /// Somebody asked to stop.
    #[error("stopped before all files were read; nothing was imported")]
    Stopped,
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// What was written.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A directory without block files.
    #[error("{} holds no blk*.dat file: name the blocks directory or the files", path.display())]
    NoFiles {
        /// The directory that was named.
        path: PathBuf,
    },
    /// Files with bytes in them, none of which are blocks.
    #[error(
        "no block of {network} in {}: check the network, and the xor key if the files are \
         obfuscated",
        path.display()
    )]
    NoBlocks {
        /// The first file that was read.
        path: PathBuf,
        /// The network that was asked for.
        network: Network,
    },
    /// The key file beside obfuscated block files has a wrong length.
    #[error("{} has {len} bytes instead of 8", path.display())]
    BadXorKey {
        /// The key file.
        path: PathBuf,
        /// Bytes that the key file has.
        len: usize,
    },
    /// A file of another network.
    #[error("{} holds blocks of {found}: choose that network or other files", path.display())]
    WrongNetwork {
        /// The first file whose frames are of another network.
        path: PathBuf,
        /// The network its first block is framed for.
        found: Network,
    },
    /// A directory without chunks of a Cardano node.
    #[error(
        "{} holds no chunk of blocks: name the database directory of a node, or the immutable \
         directory in it",
        path.display()
    )]
    NoChunks {
        /// The directory that was named.
        path: PathBuf,
    },
    /// A file of an immutable database is missing among others.
    #[error("{} is missing: copy the whole immutable directory, without a gap", path.display())]
    MissingChunkFile {
        /// Chunk or index that its neighbours are there without.
        path: PathBuf,
    },
    /// The index of a chunk makes no sense.
    #[error(
        "entry {entry} of {} is cut off or contradicts the one before: copy the chunk and its \
         index again",
        path.display()
    )]
    BadChunkIndex {
        /// The `.secondary` file of the chunk.
        path: PathBuf,
        /// The first entry that makes no sense, counted from 0.
        entry: u64,
    },
    /// A chunk ends inside a block though others follow it.
    #[error("{} ends inside the block at byte {offset}: copy the file again", path.display())]
    TruncatedChunk {
        /// The `.chunk` file.
        path: PathBuf,
        /// Where the block starts.
        offset: u64,
    },
    /// A block of a chunk does not match its index.
    #[error(
        "the block at byte {offset} of {} has a wrong check sum: copy the chunk and its index \
         again",
        path.display()
    )]
    DamagedChunk {
        /// The `.chunk` file.
        path: PathBuf,
        /// Where the block starts.
        offset: u64,
    },
    /// A file of Cardano blocks holds something else.
    #[error("cannot read the block at byte {offset} of {}", path.display())]
    BadBlock {
        /// The file of blocks that was named.
        path: PathBuf,
        /// Where the block starts.
        offset: u64,
        /// What is wrong with it.
        #[source]
        source: Box<CardanoDecodeError>,
    },
    /// A text file of Cardano blocks is no hexadecimal text.
    #[error(
        "byte {offset} of {} is no hexadecimal digit, or a digit is missing before it",
        path.display()
    )]
    BadHex {
        /// The text file that was named.
        path: PathBuf,
        /// The first byte that does not fit.
        offset: u64,
    },
    /// The source never announced the block, or no longer has it.
    #[error("block {hash} is unknown to the source")]
    UnknownBlock {
        /// The block asked for.
        hash: ChainHash,
    },
    /// A persisted block could not be read.
    #[error("{reason}")]
    Persisted {
        /// Which file, where, and what is wrong.
        reason: String,
        /// What a caller can do about it.
        kind: ErrorKind,
    },
    /// A block too long to be framed in a file.
    #[error("block of {len} bytes is too long for a block file")]
    BlockTooLong {
        /// Length of the block.
        len: usize,
    },
}

impl SourceError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Stopped => ErrorKind::Cancelled,
            Self::Persisted { kind, .. } => *kind,
            // An error of the operating system has a number; any other is about the bytes.
            Self::Decompress { source, .. } if source.raw_os_error().is_none() => {
                ErrorKind::Corrupt
            }
            _ => ErrorKind::Failed,
        }
    }
}
