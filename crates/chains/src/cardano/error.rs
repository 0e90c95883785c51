//! Why bytes are no block of Cardano, and why a genesis cannot be used.

use utxokeep_core::cardano::era;

/// Why bytes are not a block of Cardano. The block must not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardanoDecodeError {
    /// A private chain whose genesis files were not given.
    #[error(
        "blocks of a private Cardano chain need its genesis: give its Shelley genesis file, and \
         its Byron genesis file if it has one"
    )]
    NoGenesis,
    /// More bytes than any block may have.
    #[error("block of {len} bytes is over the limit of {}", super::MAX_BLOCK_BYTES)]
    TooLarge {
        /// Length of the bytes.
        len: usize,
    },
    /// The bytes do not start with an era and a block.
    #[error(
        "no block here: a block is a CBOR array of its era and its content, as nodes send and \
         store it"
    )]
    NoWrapper,
    /// An era this program does not know. Skipping its blocks would lose outputs.
    #[error(
        "block of era {tag}, but this version knows eras 0 to {} only: update utxokeep",
        era::LAST
    )]
    UnknownEra {
        /// The number in front of the block.
        tag: u64,
    },
    /// A block of Byron on a chain that has none, or whose genesis does not say how long it was.
    #[error(
        "block of Byron: preview has none, and the genesis files of a private chain do not say \
         when its Byron era ends; private chains that start with Byron are not supported"
    )]
    NoByron,
    /// The bytes end inside the block.
    #[error("block ends too early, after {len} bytes")]
    Truncated {
        /// How many bytes there are.
        len: usize,
    },
    /// The bytes are not what a block of this era is made of.
    #[error("malformed block of era {era}: {reason}")]
    Malformed {
        /// Era in front of the block.
        era: u8,
        /// What does not fit.
        reason: String,
    },
    /// Bytes are left after the block.
    #[error("{extra} bytes follow the block")]
    TrailingBytes {
        /// How many bytes are left.
        extra: usize,
    },
}

/// Why genesis files, or a stored genesis, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenesisError {
    /// A file is not JSON, or lacks what a genesis has.
    #[error("{file} genesis is not usable: {reason}; give the file the node runs with")]
    Json {
        /// Which file.
        file: &'static str,
        /// What the parser says.
        reason: String,
    },
    /// A field has a value that makes no sense.
    #[error("{file} genesis: field {field} has the unusable value {value:?}")]
    Field {
        /// Which file.
        file: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The bytes of a stored genesis are damaged or of a newer version.
    #[error("stored genesis does not decode: {reason}")]
    Stored {
        /// What the decoder says.
        reason: String,
    },
}
