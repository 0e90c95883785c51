//! JSON of the Merkle mountain range: its size and root, and what the tools of Utreexo read.
//!
//! A proof with the rule `tombstone` has its JSON in `utxokeep_core::mmr`, beside its verifier.

use serde::{Deserialize, Serialize};
use utxokeep_core::{ChainPoint, Network, OutPoint, hex_encode, mmr::MmrRule};
use utxokeep_index::{ForestProof, ForestRoots, MmrRoot, MmrStanding};

use super::Point;

/// Version of the document.
const VERSION: u32 = 1;

/// The Merkle mountain range at the tip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MmrStatus {
    /// How nodes are combined: `tombstone` or `utreexo`.
    #[cfg_attr(feature = "schema", schema(example = "tombstone"))]
    pub rule: String,
    /// Leaves, spent ones included.
    #[cfg_attr(feature = "schema", schema(example = 37_402))]
    pub leaves: u64,
    /// Leaves of unspent outputs.
    #[cfg_attr(feature = "schema", schema(example = 30_690))]
    pub live_leaves: u64,
    /// Hashes that are stored.
    #[cfg_attr(feature = "schema", schema(example = 33_001))]
    pub nodes: u64,
    /// The root after the newest block.
    #[cfg_attr(
        feature = "schema",
        schema(example = "ea4abb8f66a02bbd64bd4814468280a891c60e9fce14d018ffa6b5186678836d")
    )]
    pub root: String,
}

impl From<MmrStanding> for MmrStatus {
    fn from(standing: MmrStanding) -> Self {
        let MmrStanding { rule, leaves, live_leaves, nodes, root } = standing;
        Self { rule: rule.to_string(), leaves, live_leaves, nodes, root: hex_encode(&root) }
    }
}

/// The root after a block, and the block it is true of: what a proof is checked against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MmrRootAnswer {
    /// The block.
    pub point: Point,
    /// Chain and network.
    #[cfg_attr(feature = "schema", schema(example = "bitcoin/regtest"))]
    pub network: String,
    /// Height of the block.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub height: u32,
    /// Hash of the block.
    pub block_hash: String,
    /// How nodes are combined: `tombstone` or `utreexo`.
    #[cfg_attr(feature = "schema", schema(example = "tombstone"))]
    pub rule: String,
    /// Leaves, spent ones included.
    #[cfg_attr(feature = "schema", schema(example = 37_402))]
    pub leaves: u64,
    /// The root. A forest of Utreexo has several; then this is one hash over them, for comparing
    /// databases.
    #[cfg_attr(
        feature = "schema",
        schema(example = "ea4abb8f66a02bbd64bd4814468280a891c60e9fce14d018ffa6b5186678836d")
    )]
    pub root: String,
    /// With the rule `utreexo`: the roots, as utreexod answers `getutreexoroots`. Experimental.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub getutreexoroots: Option<UtreexoRoots>,
}

impl MmrRootAnswer {
    /// Describes the root of an index of `network`.
    #[must_use]
    pub fn new(root: &MmrRoot, forest: Option<&ForestRoots>, network: Network) -> Self {
        let point = ChainPoint { height: root.height, slot: root.slot, hash: root.hash };
        Self {
            point: Point::new(&point, network),
            network: network.to_string(),
            height: root.height.get(),
            block_hash: network.hash_text(root.hash.as_bytes()),
            rule: root.rule.to_string(),
            leaves: root.leaves,
            root: hex_encode(&root.root),
            getutreexoroots: forest.map(UtreexoRoots::new),
        }
    }
}

/// Roots of a Utreexo forest, as utreexod answers `getutreexoroots`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UtreexoRoots {
    /// One for each bit of the number of leaves, the highest first; zeros where all is spent.
    pub roots: Vec<String>,
    /// Leaves, spent ones included.
    #[cfg_attr(feature = "schema", schema(example = 37_402))]
    pub numleaves: u64,
}

impl UtreexoRoots {
    fn new(forest: &ForestRoots) -> Self {
        let roots = forest.roots.iter().map(|root| hex_encode(root)).collect();
        Self { roots, numleaves: forest.leaves }
    }
}

/// A proof, as utreexod answers `proveutxochaintipinclusion`: hashes are reversed, as block hashes
/// are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UtreexoInclusion {
    /// Hash of the block.
    pub provedathash: String,
    /// Hashes beside the way up, the lowest first.
    pub proofhashes: Vec<String>,
    /// Position of the leaf in a forest of 63 rows; may be above 2^53.
    pub prooftargets: Vec<u64>,
    /// Hash of the leaf.
    pub hashesproven: Vec<String>,
    /// All of it as `verifyutxochaintipinclusionproof` takes it.
    pub hex: String,
}

/// A proof, as utreexod answers `getutreexoproof`: hashes are in their own order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UtreexoBlockProof {
    /// Hashes beside the way up, the lowest first.
    pub proofhashes: Vec<String>,
    /// Hash of the leaf.
    pub targethashes: Vec<String>,
    /// What the leaf is the hash of, behind its tags.
    pub targetpreimages: Vec<String>,
    /// Position of the leaf in a forest of 63 rows; may be above 2^53.
    pub prooftargets: Vec<u64>,
}

/// A proof with the rule `utreexo` (experimental): what it is about, then the same proof in the
/// shapes of utreexod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UtreexoDocument {
    /// Version of the document.
    #[cfg_attr(feature = "schema", schema(example = 1))]
    pub version: u32,
    /// `utreexo`.
    #[cfg_attr(feature = "schema", schema(example = "utreexo"))]
    pub rule: String,
    /// The BIPs of Utreexo are drafts, and this may change with them.
    pub experimental: bool,
    /// Chain and network.
    #[cfg_attr(feature = "schema", schema(example = "bitcoin/regtest"))]
    pub network: String,
    /// Height of the block.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub height: u32,
    /// Hash of the block.
    pub block_hash: String,
    /// Leaves after the block, spent ones included.
    pub leaves: u64,
    /// One hash over the roots, for comparing databases.
    pub root: String,
    /// `unspent`: a forest has proofs of nothing else.
    #[cfg_attr(feature = "schema", schema(example = "unspent"))]
    pub state: String,
    /// Transaction of the output.
    pub tx_hash: String,
    /// Index of the output in its transaction.
    pub output_index: u32,
    /// The roots that the proof leads to.
    pub getutreexoroots: UtreexoRoots,
    /// The proof.
    pub proveutxochaintipinclusion: UtreexoInclusion,
    /// The same proof, with the bytes of the leaf.
    pub getutreexoproof: UtreexoBlockProof,
}

impl UtreexoDocument {
    /// Describes a proof of an output of `network`.
    #[must_use]
    pub fn new(outpoint: OutPoint, proof: &ForestProof, network: Network) -> Self {
        let ForestProof { roots: forest, leaf_hash, preimage, proof: way } = proof;
        let plain: Vec<_> = way.hashes.iter().map(|hash| hex_encode(hash)).collect();
        let reversed = |hash: &[u8; 32]| network.hash_text(hash);
        let block_hash = network.hash_text(forest.hash.as_bytes());
        Self {
            version: VERSION,
            rule: MmrRule::Utreexo.to_string(),
            experimental: true,
            network: network.to_string(),
            height: forest.height.get(),
            leaves: forest.leaves,
            root: hex_encode(&MmrRule::Utreexo.root(forest.leaves, &forest.roots)),
            state: "unspent".to_owned(),
            tx_hash: network.hash_text(outpoint.txid().as_bytes()),
            output_index: outpoint.index(),
            getutreexoroots: UtreexoRoots::new(forest),
            proveutxochaintipinclusion: UtreexoInclusion {
                provedathash: block_hash.clone(),
                proofhashes: way.hashes.iter().map(reversed).collect(),
                prooftargets: vec![way.target],
                hashesproven: vec![reversed(leaf_hash)],
                hex: hex_encode(&inclusion_bytes(proof)),
            },
            getutreexoproof: UtreexoBlockProof {
                proofhashes: plain,
                targethashes: vec![hex_encode(leaf_hash)],
                targetpreimages: vec![hex_encode(preimage)],
                prooftargets: vec![way.target],
            },
            block_hash,
        }
    }
}

/// Block hash, targets, hashes beside the way, and the proven hashes behind a count of four bytes.
fn inclusion_bytes(proof: &ForestProof) -> Vec<u8> {
    let mut out = proof.roots.hash.as_bytes().to_vec();
    compact_size(1, &mut out);
    compact_size(proof.proof.target, &mut out);
    compact_size(proof.proof.hashes.len() as u64, &mut out);
    for hash in &proof.proof.hashes {
        out.extend_from_slice(hash);
    }
    out.extend_from_slice(&[1, 0, 0, 0]);
    out.extend_from_slice(&proof.leaf_hash);
    out
}

/// A number as Bitcoin writes lengths: lowest byte first, behind a byte that says how many.
fn compact_size(number: u64, out: &mut Vec<u8>) {
    let mut bytes = number.to_be_bytes();
    bytes.reverse();
    match number {
        0..=0xfc => out.push(bytes[0]),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xfe);
            out.extend_from_slice(&bytes[..4]);
        }
        _ => {
            out.push(0xff);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{BlockHash, Height, Txid, mmr::UtreexoProof};

    use super::*;

    /// The layout of a proof that utreexod wrote: block, one target, hashes, one proven hash.
    #[test]
    fn the_bytes_of_a_proof_are_those_of_utreexod() {
        let roots = ForestRoots {
            height: Height::new(9),
            hash: BlockHash::from_bytes([1; 32]),
            leaves: 2,
            roots: vec![[2; 32]],
        };
        let way = UtreexoProof { target: 1, hashes: vec![[3; 32]] };
        let mut proof = ForestProof { roots, leaf_hash: [4; 32], preimage: vec![5], proof: way };
        let expected = format!(
            "{}0101{}{}{}{}",
            "01".repeat(32),
            "01",
            "03".repeat(32),
            "01000000",
            "04".repeat(32)
        );
        let outpoint = OutPoint::new(Txid::from_bytes([6; 32]), 0);
        let document = UtreexoDocument::new(outpoint, &proof, Network::BitcoinRegtest);
        assert_eq!(document.proveutxochaintipinclusion.hex, expected);
        proof.proof.target = 1 << 63;
        let document = UtreexoDocument::new(outpoint, &proof, Network::BitcoinRegtest);
        let hex = document.proveutxochaintipinclusion.hex;
        assert_eq!(hex[64..], format!("01ff{}{}", "0000000000000080", &expected[68..]));
    }
}
