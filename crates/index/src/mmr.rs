//! Roots and proofs of the Merkle mountain range, at the tip and at earlier blocks of the window.

mod forest;
mod refusals;

use utxokeep_core::{
    BlockEntry, BlockHash, Corrupt, Height, OutPoint, SpentRecord, UtxoRecord, coin_bytes_into,
    mmr::{
        MmrProof, MmrRefusal, MmrRule, NodeHash, ProvenState, UtreexoProof, check_mmr_proof,
        check_utreexo_proof, leaf_path, peaks, utreexo_path,
    },
};
use utxokeep_kv::Read;

pub use self::forest::{ForestProof, ForestRoots};
pub use crate::accumulator::mmr::{MmrBlocks, MmrBuildStanding, MmrBuilt, OnMmrBuild};
use crate::{
    IndexSettings, View,
    accumulator::mmr::{Rewound, State, leaf_of, mmr_of, rewind},
    error::{IndexError, MmrError},
    meta,
    query::block_entry,
    rollback::read_delta,
    tables::{SPENT, UNSPENT},
};

/// The root after a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmrRoot {
    /// How nodes are combined.
    pub rule: MmrRule,
    /// Height of the block.
    pub height: Height,
    /// Slot of the block; equals the height on chains without slots.
    pub slot: u64,
    /// Hash of the block.
    pub hash: BlockHash,
    /// Leaves, spent ones included.
    pub leaves: u64,
    /// The root.
    pub root: NodeHash,
}

/// How large the tree at the tip is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MmrStanding {
    /// How nodes are combined.
    pub rule: MmrRule,
    /// Leaves, spent ones included.
    pub leaves: u64,
    /// Leaves that are not spent: one for each unspent output. Utreexo has two more on Bitcoin's main
    /// network, see `docs/mmr.md`.
    pub live_leaves: u64,
    /// Hashes that are stored.
    pub nodes: u64,
    /// The root.
    pub root: NodeHash,
}

/// A proof for the tools of Utreexo, with what they need besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UtreexoAnswer {
    /// The block at the tip.
    pub hash: BlockHash,
    /// Its height.
    pub height: Height,
    /// Leaves of the forest.
    pub leaves: u64,
    /// Its roots, the highest first; 32 zero bytes for an emptied one.
    pub roots: Vec<NodeHash>,
    /// Hash of the leaf.
    pub leaf_hash: NodeHash,
    /// The way up.
    pub proof: UtreexoProof,
}

/// An output as it was after a block.
enum Output {
    Unspent(Vec<u8>),
    Spent(Vec<u8>),
}

impl<S: Read> View<'_, S> {
    fn rule(&self) -> Result<MmrRule, MmrError> {
        settings_rule(self.settings).ok_or(MmrError::Off)
    }

    /// Size and root of the tree at the tip; `None` where none is kept.
    pub fn mmr_standing(&self) -> Result<Option<MmrStanding>, IndexError> {
        let (Some(rule), Some(_)) = (settings_rule(self.settings), self.tip()) else {
            return Ok(None);
        };
        let State { leaves, live, nodes, root, .. } = State::read(&self.read)?;
        Ok(Some(MmrStanding { rule, leaves, live_leaves: live, nodes, root }))
    }

    /// The root after the block at `at`, or at the tip.
    pub fn mmr_root(&self, at: Option<Height>) -> Result<MmrRoot, MmrError> {
        let rule = self.rule()?;
        let (tip, height, entry) = self.mmr_place(at)?;
        let (leaves, root) = if height == tip {
            let state = State::read(&self.read)?;
            (state.leaves, state.root)
        } else {
            let above = read_delta(&self.read, height.plus(1))?;
            let mmr = mmr_of(&above).map_err(IndexError::from)?;
            (mmr.leaves_before, rule.root(mmr.leaves_before, &mmr.peaks_before))
        };
        let slot = entry.point(height).slot;
        Ok(MmrRoot { rule, height, slot, hash: entry.hash, leaves, root })
    }

    /// Proves that an output was unspent, or that its leaf was spent, after the block at `at` or at the tip. An
    /// earlier block costs as many changes as lie above it: more than `changes_max` are refused.
    pub fn mmr_proof(
        &self,
        outpoint: OutPoint,
        at: Option<Height>,
        changes_max: Option<u64>,
    ) -> Result<MmrProof, MmrError> {
        if self.rule()? != MmrRule::Tombstone {
            return Err(MmrError::OtherRule);
        }
        let (tip, height, entry) = self.mmr_place(at)?;
        let output = self.output_after(outpoint, height)?;
        self.check_work(tip, height, changes_max)?;
        let (is_live, bytes) = match output {
            Output::Unspent(bytes) => (true, bytes),
            Output::Spent(bytes) => (false, bytes),
        };
        let record = UtxoRecord::decode(&bytes).map_err(IndexError::from)?;
        let leaf = leaf_of(&self.read, outpoint, &record)?;
        let tree = rewind(&self.read, MmrRule::Tombstone, (tip, height), leaf)?;
        let state = if is_live {
            let mut content = Vec::new();
            coin_bytes_into(outpoint, &record, &mut content).map_err(IndexError::from)?;
            let (txid, index) = (*outpoint.txid().as_bytes(), outpoint.index());
            ProvenState::Unspent { txid, index, content }
        } else {
            ProvenState::Spent
        };
        let Rewound { leaves, root, .. } = tree;
        check_leaf(leaf, leaves)?;
        let path = leaf_path(MmrRule::Tombstone, &tree.rows(&self.read), leaves, leaf)?;
        let proof = MmrProof {
            network: self.settings.network().to_string(),
            height: height.get(),
            block_hash: *entry.hash.as_bytes(),
            leaves,
            root,
            leaf,
            state,
            path,
        };
        check_mmr_proof(&proof, None).map_err(unsound)?;
        Ok(proof)
    }

    /// Proves that an output is unspent at the tip, for the tools of Utreexo.
    pub fn utreexo_proof(&self, outpoint: OutPoint) -> Result<UtreexoAnswer, MmrError> {
        if self.rule()? != MmrRule::Utreexo {
            return Err(MmrError::OtherRule);
        }
        let (tip, _, entry) = self.mmr_place(None)?;
        let Output::Unspent(bytes) = self.output_after(outpoint, tip)? else {
            return Err(MmrError::SpentInUtreexo);
        };
        let record = UtxoRecord::decode(&bytes).map_err(IndexError::from)?;
        let leaf = leaf_of(&self.read, outpoint, &record)?;
        let created = block_entry(&self.read, record.height)?
            .ok_or_else(|| IndexError::missing("chain_blocks", record.height))?;
        let state = State::read(&self.read)?;
        let rows = crate::accumulator::mmr::StoredRows(&self.read);
        let leaf_hash = MmrRule::Utreexo
            .leaf_hash(outpoint, &record, &created.hash, &mut Vec::new())
            .map_err(IndexError::from)?;
        check_leaf(leaf, state.leaves)?;
        let roots = peaks(MmrRule::Utreexo, &rows, state.leaves)?;
        let proof = utreexo_path(&rows, state.leaves, leaf)?;
        check_utreexo_proof(state.leaves, &roots, leaf_hash, &proof).map_err(unsound)?;
        let (hash, leaves) = (entry.hash, state.leaves);
        Ok(UtreexoAnswer { hash, height: tip, leaves, roots, leaf_hash, proof })
    }

    /// The tip, and the block that is asked about.
    fn mmr_place(&self, at: Option<Height>) -> Result<(Height, Height, BlockEntry), MmrError> {
        let (tip, entry) = self.tip().ok_or(MmrError::Empty)?;
        let Some(height) = at.filter(|height| *height != tip) else { return Ok((tip, tip, entry)) };
        let oldest = meta::undo_base(&self.read)?;
        if height > tip || height < oldest {
            return Err(MmrError::OutsideWindow { height, oldest, tip });
        }
        let entry = block_entry(&self.read, height)?
            .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
        Ok((tip, height, entry))
    }

    /// The output as it was after a block of the window.
    fn output_after(&self, outpoint: OutPoint, height: Height) -> Result<Output, MmrError> {
        if let Some(record) = UNSPENT.get(&self.read, &outpoint)? {
            let created = record.read().map_err(IndexError::from)?.height;
            if created > height {
                return self.replaced(outpoint, created, height);
            }
            return Ok(Output::Unspent(record.into_bytes()));
        }
        let Some(row) = SPENT.get(&self.read, &outpoint)? else { return Err(self.no_record()?) };
        let row = row.into_bytes();
        let spent = SpentRecord::decode(&row).map_err(IndexError::from)?;
        let created = spent.utxo().map_err(IndexError::from)?.height;
        if created > height {
            return self.replaced(outpoint, created, height);
        }
        if created == spent.spent_height {
            return Err(MmrError::Passed { height: created });
        }
        let body = spent.record.to_vec();
        Ok(if spent.spent_height > height { Output::Unspent(body) } else { Output::Spent(body) })
    }

    /// An output that the block at `by` created again, as it was after the earlier block at `height`:
    /// the two repeated coinbases of Bitcoin were there before.
    fn replaced(&self, outpoint: OutPoint, by: Height, height: Height) -> Result<Output, MmrError> {
        let not_yet = MmrError::NotYet { created: by };
        if !self.settings.network().may_overwrite(by) {
            return Err(not_yet);
        }
        let delta = read_delta(&self.read, by)?;
        let older = delta.replaced.into_iter().find(|(replaced, _)| *replaced == outpoint);
        let Some((_, body)) = older else { return Err(not_yet) };
        let created = UtxoRecord::decode(&body).map_err(IndexError::from)?.height;
        if created > height { Err(MmrError::NotYet { created }) } else { Ok(Output::Unspent(body)) }
    }

    /// Refuses to go back through more changes than is allowed.
    fn check_work(
        &self,
        tip: Height,
        height: Height,
        changes_max: Option<u64>,
    ) -> Result<(), MmrError> {
        let Some(max) = changes_max else { return Ok(()) };
        let mut changes = 0;
        for raw in (height.get() + 1..=tip.get()).rev() {
            let entry = block_entry(&self.read, Height::new(raw))?;
            changes += entry.map_or(0, |entry| u64::from(entry.created) + u64::from(entry.spent));
            // Even an empty block has a delta to be read.
            changes += 1;
            if changes > max {
                return Err(MmrError::TooMuchWork { height, max });
            }
        }
        Ok(())
    }
}

/// Refuses a leaf number that the tree does not have.
fn check_leaf(leaf: u64, leaves: u64) -> Result<(), IndexError> {
    if leaf < leaves { Ok(()) } else { Err(unsound(MmrRefusal::NoSuchLeaf { leaf, leaves })) }
}

/// A proof that does not hold is never handed out: the tables that it came from are damaged.
#[allow(clippy::needless_pass_by_value)] // errors are moved in and printed
fn unsound(refusal: MmrRefusal) -> IndexError {
    Corrupt::new("mmr", format!("its own proof is refused: {refusal}")).into()
}

fn settings_rule(settings: &IndexSettings) -> Option<MmrRule> {
    settings.mmr.filter(|_| settings.enabled)
}
