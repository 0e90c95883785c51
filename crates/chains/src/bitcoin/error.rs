//! Why bytes are not a block.

use utxokeep_core::{BlockHash, Txid};

/// Why bytes are not a valid block. The block must not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a field, or a count promises more than there are.
    #[error("block ends too early: the field at byte {offset} needs more bytes")]
    Truncated {
        /// Where the field starts.
        offset: usize,
    },
    /// More bytes than any block may have.
    #[error("block of {len} bytes is over the limit of {}", super::MAX_BLOCK_BYTES)]
    TooLarge {
        /// Length of the bytes.
        len: usize,
    },
    /// Bytes are left after the last transaction.
    #[error("{extra} bytes follow the last transaction")]
    TrailingBytes {
        /// How many bytes are left.
        extra: usize,
    },
    /// A size is not written in its shortest form.
    #[error("size at byte {offset} is not in its shortest form")]
    LongSize {
        /// Where the size starts.
        offset: usize,
    },
    /// The target is negative, zero, too large for 256 bits, or easier than the network allows.
    #[error("target bits {bits:#010x} are invalid on this network")]
    BadTarget {
        /// The compact target of the header.
        bits: u32,
    },
    /// The hash does not meet the target of its own header.
    #[error("block {hash}: proof of work does not meet its target")]
    BadProofOfWork {
        /// Hash of the header.
        hash: BlockHash,
    },
    /// The transactions are not those the header commits to.
    #[error("block {hash}: transactions do not match the merkle root")]
    BadMerkleRoot {
        /// Hash of the header.
        hash: BlockHash,
    },
    /// Transactions are repeated so that the merkle root stays the same. Another copy of the same
    /// block may still be valid.
    #[error("block {hash}: repeated transactions hide behind an unchanged merkle root")]
    MutatedMerkleTree {
        /// Hash of the header.
        hash: BlockHash,
    },
    /// The coinbase is missing, not at the start, or not alone.
    #[error("transaction {position} breaks the rule of one coinbase at the start of a block")]
    BadCoinbase {
        /// Place of the transaction in the block.
        position: usize,
    },
    /// A transaction without inputs or outputs.
    #[error("transaction at byte {offset} has no inputs or no outputs")]
    EmptyTx {
        /// Where the transaction starts.
        offset: usize,
    },
    /// An unknown extension flag, or a witness section that holds no witness.
    #[error("transaction at byte {offset} has an invalid witness section")]
    BadWitness {
        /// Where the transaction starts.
        offset: usize,
    },
    /// An output, or the sum of all outputs, is over the supply limit.
    #[error("transaction {txid}: output values exceed the supply limit")]
    ValueOutOfRange {
        /// The transaction.
        txid: Txid,
    },
    /// Bytes that are no block of Cardano.
    #[error(transparent)]
    Cardano(#[from] crate::cardano::CardanoDecodeError),
}
