//! A Merkle mountain range over every output that a block left unspent, updated in place.
//!
//! Leaves are numbered in the order of the chain and never move. A spend replaces its leaf by a
//! constant, the tombstone, and every hash above changes with it, so that one root commits to the
//! set as it stands, and one path shows that an output is in it. `docs/mmr.md` defines every byte.
//!
//! The tree is stored in rows of sixteen neighbouring nodes, every fourth level of it; what lies
//! between is hashed again when it is needed. A row that holds tombstones alone is no row at all.
//!
//! # Invariants
//!
//! * What a tree looks like depends on its leaves alone, never on how they were grouped in calls.
//! * Each touched row is hashed once per call of [`update`], lowest level first.
//! * Checking a proof needs the hash function and nothing else of this crate.

mod check;
mod encode;
mod forest_check;
mod path;
mod place;
mod position;
mod row;
mod rule;
#[cfg(test)]
mod tests;
mod update;
mod utreexo;

pub use check::{
    MmrAnchor, MmrProof, MmrRefusal, ProvenState, check_mmr_proof, mmr_leaf_hash, mmr_node_hash,
    mmr_root, mmr_tombstone,
};
pub use encode::{MMR_PROOF_BYTES_MAX, MmrProofError};
pub use forest_check::check_utreexo_proof;
pub use path::{leaf_path, path_rows, peaks};
pub use place::{PlaceKey, PlaceRows, find_leaf, leaves_of_row};
pub use position::{
    is_valid_size, leaf_position, node_position, parent_and_sibling, peak_positions, size,
};
pub use row::{CHILDREN, Row, RowKey, RowReader, TIER_LEVELS};
pub use rule::{MmrRule, UnknownRule};
pub use update::{Updated, update, update_rows};
pub use utreexo::{UtreexoProof, utreexo_leaf_hash, utreexo_path, utreexo_preimage_hash};

/// A hash of 32 bytes: of a leaf, of a node or of the whole tree.
pub type NodeHash = [u8; 32];
