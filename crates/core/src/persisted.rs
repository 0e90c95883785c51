//! The files of a persisted block: what is in them, byte by byte, and how a block is put together
//! from them again.
//!
//! A block has one `.block` file, a pair of `.subtree` and `.subtree_data` for each 2^k of its
//! transactions, one `.utxo-additions` and one `.utxo-deletions`. Names begin with the hash of the
//! block. The `.block` file lists the others with their lengths and checksums and is written last, so
//! that where it is, the block is complete.
//!
//! # Invariants
//!
//! * A file is a mark, its kind, a format version, a body of canonical CBOR, and a checksum over all
//!   of these. Bytes that are cut, changed or of another kind are an error.
//! * The bytes of a block, as they are on chain, are all in `.block` and `.subtree_data`:
//!   [`PersistedBlock::assemble`] gives them back exactly.
//! * Nothing is reserved for a count that the bytes only promise.

mod envelope;
mod files;
mod manifest;
mod names;
mod outputs;
mod subtree;
mod watermark;

pub use self::{
    envelope::{FORMAT_VERSION, FileKind, FileSum},
    files::{BlockPlace, PersistedFiles, encode_files},
    manifest::{LayoutPiece, PersistedBlock, SubtreeEntry},
    names::{FileName, folder_of, folder_range},
    outputs::{Addition, Additions, Deletions},
    subtree::{Subtree, SubtreeData, subtree_roots},
    watermark::{WATERMARK_NAME, Watermark},
};

use std::ops::Range;

/// Where a piece of a raw block belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutPiece {
    /// To the block: its header, counts, whatever is between transactions.
    Frame(Range<usize>),
    /// To a transaction, by its number among those of the block. A transaction may have several
    /// pieces, such as a body and witnesses.
    Tx(u32, Range<usize>),
}

/// The smallest and largest size of a subtree, as powers of two.
pub const SUBTREE_TXS_LOG2: std::ops::RangeInclusive<u8> = 0..=20;

#[cfg(test)]
mod tests;
