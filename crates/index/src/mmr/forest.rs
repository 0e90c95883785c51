//! What the tools of Utreexo ask for: the roots of the forest, and a proof with the bytes that its
//! leaf is the hash of.

use utxokeep_core::{
    BlockHash, Height, OutPoint, UtxoRecord, coin_bytes_into,
    mmr::{MmrRule, NodeHash, UtreexoProof, check_utreexo_proof, peaks, utreexo_path},
};
use utxokeep_kv::Read;

use super::{Output, check_leaf, unsound};
use crate::{
    View,
    accumulator::mmr::{State, StoredRows, leaf_of, mmr_of, rewind},
    error::{IndexError, MmrError},
    query::block_entry,
    rollback::read_delta,
};

/// Roots of a forest of Utreexo after a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestRoots {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: BlockHash,
    /// Leaves, spent ones included.
    pub leaves: u64,
    /// One root for each bit of the number of leaves, the highest first; 32 zero bytes where
    /// everything below is spent.
    pub roots: Vec<NodeHash>,
}

/// A proof for the tools of Utreexo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestProof {
    /// The roots that the proof leads to.
    pub roots: ForestRoots,
    /// Hash of the leaf.
    pub leaf_hash: NodeHash,
    /// What the leaf is the hash of, behind its tags: hash of the creating block, outpoint, height
    /// and coinbase flag, amount, script.
    pub preimage: Vec<u8>,
    /// The way up.
    pub proof: UtreexoProof,
}

impl<S: Read> View<'_, S> {
    /// Roots of the forest after the block at `at`, or at the tip; only with the rule of Utreexo.
    pub fn forest_roots(&self, at: Option<Height>) -> Result<ForestRoots, MmrError> {
        if self.rule()? != MmrRule::Utreexo {
            return Err(MmrError::OtherRule);
        }
        let (tip, height, entry) = self.mmr_place(at)?;
        let (leaves, roots) = if height == tip {
            let leaves = State::read(&self.read)?.leaves;
            (leaves, peaks(MmrRule::Utreexo, &StoredRows(&self.read), leaves)?)
        } else {
            let above = read_delta(&self.read, height.plus(1))?;
            let mmr = mmr_of(&above).map_err(IndexError::from)?;
            (mmr.leaves_before, mmr.peaks_before.clone())
        };
        Ok(ForestRoots { height, hash: entry.hash, leaves, roots })
    }

    /// Proves for the tools of Utreexo that an output was unspent after the block at `at`, or at the
    /// tip. An earlier block costs as many changes as lie above it: more than `changes_max` are
    /// refused.
    pub fn forest_proof(
        &self,
        outpoint: OutPoint,
        at: Option<Height>,
        changes_max: Option<u64>,
    ) -> Result<ForestProof, MmrError> {
        let roots = self.forest_roots(at)?;
        let (tip, height, _) = self.mmr_place(at)?;
        let Output::Unspent(bytes) = self.output_after(outpoint, height)? else {
            return Err(MmrError::SpentInUtreexo);
        };
        self.check_work(tip, height, changes_max)?;
        let record = UtxoRecord::decode(&bytes).map_err(IndexError::from)?;
        let leaf = leaf_of(&self.read, outpoint, &record)?;
        let created = block_entry(&self.read, record.height)?
            .ok_or_else(|| IndexError::missing("chain_blocks", record.height))?;
        let leaf_hash = MmrRule::Utreexo
            .leaf_hash(outpoint, &record, &created.hash, &mut Vec::new())
            .map_err(IndexError::from)?;
        let mut preimage = created.hash.as_bytes().to_vec();
        coin_bytes_into(outpoint, &record, &mut preimage).map_err(IndexError::from)?;
        let tree = rewind(&self.read, MmrRule::Utreexo, (tip, height), leaf)?;
        check_leaf(leaf, tree.leaves)?;
        let proof = utreexo_path(&tree.rows(&self.read), tree.leaves, leaf)?;
        check_utreexo_proof(roots.leaves, &roots.roots, leaf_hash, &proof).map_err(unsound)?;
        Ok(ForestProof { roots, leaf_hash, preimage, proof })
    }
}
