//! What only Utreexo has: its leaf hash, and positions that move when neighbours are deleted.

use sha2::{Digest, Sha512_256};

use super::{MmrRule, NodeHash, RowReader, path};
use crate::{BlockHash, OutPoint, UtxoRecord};

/// SHA-512 of `UtreexoV1`, hashed twice in front of every leaf.
const TAG: [u8; 64] = [
    0x5b, 0x83, 0x2d, 0xb8, 0xca, 0x26, 0xc2, 0x5b, 0xe1, 0xc5, 0x42, 0xd6, 0xcc, 0xed, 0xdd, 0xa8,
    0xc1, 0x45, 0x61, 0x5c, 0xff, 0x5c, 0x35, 0x72, 0x7f, 0xb3, 0x46, 0x26, 0x10, 0x80, 0x7e, 0x20,
    0xae, 0x53, 0x4d, 0xc3, 0xf6, 0x42, 0x99, 0x19, 0x99, 0x31, 0x77, 0x2e, 0x03, 0x78, 0x7d, 0x18,
    0x15, 0x6e, 0xb3, 0x15, 0x1e, 0x0e, 0xd1, 0xb3, 0x09, 0x8b, 0xdc, 0x84, 0x45, 0x86, 0x18, 0x85,
];

/// A proof of one leaf as the tools of Utreexo take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UtreexoProof {
    /// Position of the leaf, as if the forest had 63 rows above the lowest.
    pub target: u64,
    /// Hashes beside the way up, the lowest position first.
    pub hashes: Vec<NodeHash>,
}

/// Hash of the leaf of an output of Bitcoin that the block `block` created.
#[must_use]
pub fn utreexo_leaf_hash(
    outpoint: OutPoint,
    record: &UtxoRecord<'_>,
    block: &BlockHash,
    room: &mut Vec<u8>,
) -> NodeHash {
    room.clear();
    crate::chain::coin::bitcoin_bytes_into(outpoint, record, room);
    tagged(&[block.as_bytes(), room])
}

/// Hash of a leaf from what its preimage holds behind the tags: hash of the creating block,
/// outpoint, height and coinbase flag, amount, script.
#[must_use]
pub fn utreexo_preimage_hash(preimage: &[u8]) -> NodeHash {
    tagged(&[preimage])
}

fn tagged(parts: &[&[u8]]) -> NodeHash {
    let mut hash = Sha512_256::new();
    hash.update(TAG);
    hash.update(TAG);
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// The proof of an unspent leaf, which must be below `leaves`.
pub fn utreexo_path<R: RowReader>(
    read: &R,
    leaves: u64,
    leaf: u64,
) -> Result<UtreexoProof, R::Error> {
    let beside = path::siblings(MmrRule::Utreexo, read, leaves, leaf)?;
    // Walk down from the peak. Where there is nothing beside, the leaf's side stands in for its
    // parent, and the way goes no row down.
    let mut row = u32::try_from(beside.len()).expect("a path is short");
    let mut number = leaf >> row;
    for (level, _) in beside.iter().enumerate().rev().filter(|(_, node)| node.is_some()) {
        row -= 1;
        number = number << 1 | (leaf >> level & 1);
    }
    let first_of_row = if row == 0 { 0 } else { u64::MAX << (u64::BITS - row) };
    Ok(UtreexoProof {
        target: first_of_row + number,
        hashes: beside.into_iter().flatten().collect(),
    })
}
