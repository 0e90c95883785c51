//! How two children become their parent: the one thing in which our tree and Utreexo's differ.

use std::{fmt, str::FromStr, sync::LazyLock};

use blake2b_simd::{
    Params,
    many::{HashManyJob, hash_many},
};
use sha2::{Digest, Sha512_256};

use super::{
    CHILDREN, NodeHash, Row, TIER_LEVELS,
    check::{mmr_leaf_hash, mmr_node_hash, mmr_root, mmr_tombstone, node_bytes},
    utreexo::utreexo_leaf_hash,
};
use crate::{BlockHash, Corrupt, OutPoint, UtxoRecord, coin_bytes_into};

/// Rows hashed at a time: what is between their levels stays in the processor's cache.
const ROWS_AT_ONCE: usize = 256;

/// The combining rule of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MmrRule {
    /// Blake2b-256 with a tag for each kind of node; what is spent is a tombstone.
    #[default]
    Tombstone,
    /// SHA-512/256 without tags; what is spent is nothing, and a node beside nothing is its own
    /// parent. The same tree is then the forest of Utreexo.
    Utreexo,
}

/// The text is the name of no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected `tombstone` or `utreexo`")]
pub struct UnknownRule;

impl fmt::Display for MmrRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tombstone => "tombstone",
            Self::Utreexo => "utreexo",
        })
    }
}

impl FromStr for MmrRule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        match text {
            "tombstone" => Ok(Self::Tombstone),
            "utreexo" => Ok(Self::Utreexo),
            _ => Err(UnknownRule),
        }
    }
}

static TOMBSTONES: LazyLock<[NodeHash; 64]> = LazyLock::new(|| {
    let mut below = mmr_tombstone(0);
    std::array::from_fn(|_| {
        let this = below;
        below = mmr_node_hash(&this, &this);
        this
    })
});

impl MmrRule {
    /// Whether the leaf of an output is spent when another output of the same name takes its place.
    /// In Utreexo it stays for ever: its hash names its block, so that the two differ.
    #[must_use]
    pub const fn spends_replaced(self) -> bool {
        matches!(self, Self::Tombstone)
    }

    /// Hash of the leaf of an unspent output that the block `block` created. `room` is for the bytes
    /// that are hashed.
    pub fn leaf_hash(
        self,
        outpoint: OutPoint,
        record: &UtxoRecord<'_>,
        block: &BlockHash,
        room: &mut Vec<u8>,
    ) -> Result<NodeHash, Corrupt> {
        room.clear();
        Ok(match self {
            Self::Tombstone => {
                coin_bytes_into(outpoint, record, room)?;
                mmr_leaf_hash(outpoint.txid().as_bytes(), outpoint.index(), room)
            }
            Self::Utreexo => utreexo_leaf_hash(outpoint, record, block, room),
        })
    }

    /// Hash of the parent of two nodes of a level. A subtree in which everything is spent is `None`.
    #[must_use]
    pub fn combine(
        self,
        level: u32,
        left: Option<NodeHash>,
        right: Option<NodeHash>,
    ) -> Option<NodeHash> {
        if left.is_none() && right.is_none() {
            return None;
        }
        match self {
            Self::Tombstone => {
                Some(mmr_node_hash(&self.fill(level, left), &self.fill(level, right)))
            }
            Self::Utreexo => match (left, right) {
                (Some(left), Some(right)) => {
                    Some(Sha512_256::new().chain_update(left).chain_update(right).finalize().into())
                }
                (one, other) => one.or(other),
            },
        }
    }

    /// What stands for a node outside the tree: for a subtree in which everything is spent, the
    /// tombstone of its level, or 32 zero bytes in Utreexo.
    #[must_use]
    pub fn fill(self, level: u32, node: Option<NodeHash>) -> NodeHash {
        node.unwrap_or_else(|| match self {
            Self::Tombstone => TOMBSTONES[level as usize],
            Self::Utreexo => [0; 32],
        })
    }

    /// The peaks from the last to the first: each is the left child of what they are bagged with.
    /// `None` without peaks.
    #[must_use]
    pub fn bag(peaks: &[NodeHash]) -> Option<NodeHash> {
        peaks.iter().rev().copied().reduce(|right, left| mmr_node_hash(&left, &right))
    }

    /// One hash for the whole tree. Utreexo has none, only its list of peaks; what is given for it
    /// is for comparing two databases: SHA-512/256 of the number of leaves and the peaks.
    #[must_use]
    pub fn root(self, leaves: u64, peaks: &[NodeHash]) -> NodeHash {
        match self {
            Self::Tombstone => mmr_root(leaves, Self::bag(peaks).as_ref()),
            Self::Utreexo => {
                let mut hash = Sha512_256::new().chain_update(leaves.to_be_bytes());
                for peak in peaks {
                    hash.update(peak);
                }
                hash.finalize().into()
            }
        }
    }

    /// The node above each full row of nodes of a level, many rows hashed side by side.
    pub(super) fn row_roots(self, level: u32, rows: &[Row]) -> Vec<Option<NodeHash>> {
        let mut roots = Vec::with_capacity(rows.len());
        for rows in rows.chunks(ROWS_AT_ONCE) {
            match self {
                Self::Tombstone => tombstone_roots(level, rows, &mut roots),
                Self::Utreexo => {
                    roots.extend(rows.iter().map(|row| row.inner(self, level, TIER_LEVELS, 0)));
                }
            }
        }
        roots
    }
}

fn tombstone_roots(level: u32, rows: &[Row], roots: &mut Vec<Option<NodeHash>>) {
    let params = Params::new().hash_length(32).clone();
    let (mut present, mut nodes): (Vec<u16>, Vec<[NodeHash; CHILDREN]>) =
        rows.iter().map(Row::nodes).unzip();
    let mut inputs: Vec<[u8; 65]> = Vec::with_capacity(rows.len() * CHILDREN / 2);
    let mut places = Vec::with_capacity(inputs.capacity());
    for up in 0..TIER_LEVELS {
        let tombstone = &TOMBSTONES[(level + up) as usize];
        inputs.clear();
        places.clear();
        for (number, (bits, nodes)) in present.iter_mut().zip(&nodes).enumerate() {
            let mut above = 0;
            for pair in 0..CHILDREN >> (up + 1) {
                let own = *bits >> (2 * pair) & 3;
                if own != 0 {
                    let left = if own & 1 == 1 { &nodes[2 * pair] } else { tombstone };
                    let right = if own & 2 == 2 { &nodes[2 * pair + 1] } else { tombstone };
                    inputs.push(node_bytes(left, right));
                    places.push((number, pair));
                    above |= 1 << pair;
                }
            }
            *bits = above;
        }
        let mut jobs: Vec<_> =
            inputs.iter().map(|input| HashManyJob::new(&params, input)).collect();
        hash_many(&mut jobs);
        for (job, &(number, pair)) in jobs.iter().zip(&places) {
            let hash = job.to_hash();
            nodes[number][pair] = *hash.as_bytes().first_chunk().expect("32 bytes were asked for");
        }
    }
    roots.extend(present.iter().zip(&nodes).map(|(bits, nodes)| (*bits == 1).then(|| nodes[0])));
}
