//! The port every supplier of blocks stands behind: headers in order of arrival, bodies on demand.

use std::{io, path::PathBuf};

use utxokeep_core::{BlockHash, Header, Network};

/// A supplier of blocks.
pub trait BlockSource: Send + Sync {
    /// The next header in order of arrival; `None` when the source has no more (for now).
    fn next(&mut self) -> Result<Option<Header>, SourceError>;

    /// Raw bytes of a block whose header has arrived. Takes `&self`: decoding threads share the
    /// source.
    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError>;
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
        /// The directory.
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
        /// Its length.
        len: usize,
    },
    /// A file of another network.
    #[error("{} holds blocks of {found}: choose that network or other files", path.display())]
    WrongNetwork {
        /// The file.
        path: PathBuf,
        /// The network its first block is framed for.
        found: Network,
    },
    /// The source never announced the block, or no longer has it.
    #[error("block {hash} is unknown to the source")]
    UnknownBlock {
        /// The block asked for.
        hash: BlockHash,
    },
    /// A block too long to be framed in a file.
    #[error("block of {len} bytes is too long for a block file")]
    BlockTooLong {
        /// Length of the block.
        len: usize,
    },
}
