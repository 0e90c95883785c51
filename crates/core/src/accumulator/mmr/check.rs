//! Checking a proof. This file needs Blake2b and nothing else of the program.

use blake2b_simd::Params;

use super::NodeHash;

const LEAF_TAG: u8 = 0;
const NODE_TAG: u8 = 1;
const ROOT_TAG: u8 = 2;
const TOMBSTONE_TAG: u8 = 3;

/// What a proof says of its leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvenState {
    /// It is that of an output of the set.
    Unspent {
        /// Transaction of the output, in hash order.
        txid: [u8; 32],
        /// Index of the output in its transaction.
        index: u32,
        /// What the leaf commits to besides the name of the output.
        content: Vec<u8>,
    },
    /// It is a tombstone. A tombstone names no output, and so this proof names none: whose leaf it
    /// was is what a proof of the same leaf from before the spend shows.
    Spent,
}

/// The way from one leaf to the root after one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmrProof {
    /// Name of the network, for example `bitcoin/mainnet`.
    pub network: String,
    /// Height of the block after which the root stands.
    pub height: u32,
    /// Hash of that block, in hash order.
    pub block_hash: [u8; 32],
    /// Leaves of the tree after that block, spent ones included.
    pub leaves: u64,
    /// The root after that block.
    pub root: NodeHash,
    /// Number of the leaf, from zero.
    pub leaf: u64,
    /// What is proven.
    pub state: ProvenState,
    /// Hashes beside the way, from the leaf up; then the bag of the peaks right of its own, if
    /// there are any; then the peaks left of it, the nearest first.
    pub path: Vec<NodeHash>,
}

/// What a checker trusts, from its own node or from somebody it believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmrAnchor {
    /// Name of the network.
    pub network: String,
    /// Height of the block.
    pub height: u32,
    /// Hash of the block, in hash order.
    pub block_hash: [u8; 32],
    /// Leaves after the block.
    pub leaves: u64,
    /// Root after the block.
    pub root: NodeHash,
}

/// Why a proof is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MmrRefusal {
    /// There is no such leaf in a tree of that many.
    #[error("the proof names leaf {leaf} of a tree of {leaves} leaves")]
    NoSuchLeaf {
        /// The leaf that the proof names.
        leaf: u64,
        /// Leaves of the tree it names.
        leaves: u64,
    },
    /// A path of that leaf has another length.
    #[error("the path has {found} hashes where a leaf of such a tree has {expected}")]
    PathLength {
        /// Hashes that belong there.
        expected: usize,
        /// Hashes that are there.
        found: usize,
    },
    /// The path leads elsewhere: something in the proof was changed, or it is of another tree.
    #[error("the path does not lead to the root that the proof names")]
    WrongRoot,
    /// The proof is of another block, or of another chain, than the one that is trusted.
    #[error("the proof is of another {what} than the one it is checked against")]
    OtherAnchor {
        /// What differs.
        what: &'static str,
    },
}

impl MmrProof {
    /// The block and the root that the proof claims to be of.
    #[must_use]
    pub fn anchor(&self) -> MmrAnchor {
        MmrAnchor {
            network: self.network.clone(),
            height: self.height,
            block_hash: self.block_hash,
            leaves: self.leaves,
            root: self.root,
        }
    }
}

/// Checks that a proof leads to the root it names, and that this root is the trusted one. Without
/// an anchor only the first is known: whoever forges a root can prove anything under it.
pub fn check_mmr_proof(proof: &MmrProof, trusted: Option<&MmrAnchor>) -> Result<(), MmrRefusal> {
    if let Some(trusted) = trusted {
        let is_same = [
            ("network", trusted.network == proof.network),
            ("height", trusted.height == proof.height),
            ("block", trusted.block_hash == proof.block_hash),
            ("number of leaves", trusted.leaves == proof.leaves),
            ("root", trusted.root == proof.root),
        ];
        if let Some(&(what, _)) = is_same.iter().find(|(_, is_same)| !is_same) {
            return Err(MmrRefusal::OtherAnchor { what });
        }
    }
    let leaf = match &proof.state {
        ProvenState::Unspent { txid, index, content } => mmr_leaf_hash(txid, *index, content),
        ProvenState::Spent => mmr_tombstone(0),
    };
    let bag = climb(leaf, proof.leaf, proof.leaves, &proof.path)?;
    if mmr_root(proof.leaves, Some(&bag)) == proof.root {
        Ok(())
    } else {
        Err(MmrRefusal::WrongRoot)
    }
}

/// From a leaf to the bag of all peaks.
fn climb(
    mut hash: NodeHash,
    leaf: u64,
    leaves: u64,
    path: &[NodeHash],
) -> Result<NodeHash, MmrRefusal> {
    if leaf >= leaves {
        return Err(MmrRefusal::NoSuchLeaf { leaf, leaves });
    }
    // The mountain of a leaf is as high as the highest bit in which its number and the number of
    // leaves differ; the bits below are the way up, those above are the peaks left of it.
    let height = (leaf ^ leaves).ilog2();
    let has_right = leaves & ((1 << height) - 1) != 0;
    let left = if height == 63 { 0 } else { (leaves >> (height + 1)).count_ones() };
    let expected = height as usize + usize::from(has_right) + left as usize;
    if path.len() != expected {
        return Err(MmrRefusal::PathLength { expected, found: path.len() });
    }
    for (level, other) in path.iter().enumerate() {
        let is_right_child = match level.checked_sub(height as usize) {
            None => leaf >> level & 1 == 1,
            // The bag of the right peaks is the right child of what bags it with ours.
            Some(0) if has_right => false,
            Some(_) => true,
        };
        hash =
            if is_right_child { mmr_node_hash(other, &hash) } else { mmr_node_hash(&hash, other) };
    }
    Ok(hash)
}

fn hash(parts: &[&[u8]]) -> NodeHash {
    let mut state = Params::new().hash_length(32).to_state();
    for part in parts {
        state.update(part);
    }
    *state.finalize().as_bytes().first_chunk().expect("32 bytes were asked for")
}

/// Hash of the leaf of an unspent output.
#[must_use]
pub fn mmr_leaf_hash(txid: &[u8; 32], index: u32, content: &[u8]) -> NodeHash {
    leaf_hash(&[txid, &index.to_be_bytes()], content)
}

pub(super) fn leaf_hash(name: &[&[u8]; 2], content: &[u8]) -> NodeHash {
    hash(&[&[LEAF_TAG], name[0], name[1], &hash(&[content])])
}

/// Hash of a node, from those of its children.
#[must_use]
pub fn mmr_node_hash(left: &NodeHash, right: &NodeHash) -> NodeHash {
    hash(&[&[NODE_TAG], left, right])
}

/// What a node is hashed from.
pub(super) fn node_bytes(left: &NodeHash, right: &NodeHash) -> [u8; 65] {
    let mut bytes = [NODE_TAG; 65];
    bytes[1..33].copy_from_slice(left);
    bytes[33..].copy_from_slice(right);
    bytes
}

/// Hash of a subtree of `2^level` spent leaves.
#[must_use]
pub fn mmr_tombstone(level: u32) -> NodeHash {
    let leaf = hash(&[&[TOMBSTONE_TAG]]);
    (0..level).fold(leaf, |below, _| mmr_node_hash(&below, &below))
}

/// The root of a tree: the number of its leaves bound to the bag of its peaks, which a tree without
/// leaves does not have.
#[must_use]
pub fn mmr_root(leaves: u64, bag: Option<&NodeHash>) -> NodeHash {
    hash(&[&[ROOT_TAG], &leaves.to_be_bytes(), bag.map_or(&[], NodeHash::as_slice)])
}
