//! Accumulators: each commits to the whole set in a few bytes, and follows it block by block.
//!
//! The writer holds the accumulators that are switched on as one list. The rest of the index speaks
//! to the list and names no kind. Another kind is a variant of [`Kind`] and [`Accumulator`], a line
//! among the switches of `meta.rs`, and a file beside `muhash.rs`.
//!
//! # Invariants
//!
//! * An accumulator is told of every output that a block creates or spends while the block is
//!   staged, in the order of the block, in every mode. Where a batch is cut changes nothing: an
//!   output that never reaches a table is told all the same.
//! * The rows of an accumulator are in the batch of the block they belong to.
//! * Undoing a block gives back the exact state from before it.
//! * With nothing switched on the list is empty: nothing is computed, read or written.

pub(crate) mod mmr;
mod muhash;
#[cfg(test)]
mod tests;

use utxokeep_core::{BlockDelta, BlockHash, Corrupt, Height, OutPoint, UtxoRecord, mmr::NodeHash};
use utxokeep_kv::{Batch, Read};

use crate::{
    IndexSettings, Mode, error::IndexError, meta::Switch, rollback::Bodies, verify::Check,
};

/// The kinds of accumulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A digest that does not depend on the order of the outputs.
    MuHash,
    /// A tree of the outputs in the order of the chain, with a proof for each.
    Mmr,
}

/// What a block does to an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Creates it and leaves it unspent.
    Created,
    /// Creates and spends it: no set between two blocks has it. Told in the place of its creation.
    Passed,
    /// Spends it; an earlier block created it.
    Spent,
    /// Creates another output of its name, before which it leaves the set. Told before everything
    /// else of the block.
    Replaced,
}

impl Kind {
    const ALL: [Self; 2] = [Self::MuHash, Self::Mmr];

    /// The setting that switches it on.
    pub(crate) const fn switch(self) -> Switch {
        match self {
            Self::MuHash => muhash::SWITCH,
            Self::Mmr => mmr::SWITCH,
        }
    }

    /// The kinds that an index keeps.
    pub(crate) fn kept(settings: &IndexSettings) -> impl Iterator<Item = Self> {
        let is_kept = move |kind: &Self| settings.enabled && (kind.switch().is_on)(settings);
        Self::ALL.into_iter().filter(is_kept)
    }

    /// What findings call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MuHash => muhash::NAME,
            Self::Mmr => mmr::NAME,
        }
    }

    /// Recomputes it from the set and compares every row.
    pub(crate) fn verify<S: Read>(self, check: &mut Check<'_, '_, S>) -> Result<(), IndexError> {
        match self {
            Self::MuHash => muhash::verify(check),
            Self::Mmr => mmr::verify(check),
        }
    }
}

/// The digest of the set after a block of the window, where an accumulator that gives one is kept.
pub(crate) fn set_digest(
    read: &dyn Read,
    settings: &IndexSettings,
    height: Height,
) -> Result<Option<[u8; 32]>, IndexError> {
    let is_kept = Kind::kept(settings).any(|kind| kind == Kind::MuHash);
    is_kept.then(|| muhash::digest_at(read, height)).transpose()
}

/// The accumulators of a writer, as of its last staged block.
#[derive(Debug, Default)]
pub(crate) struct Accumulators(Vec<Accumulator>);

#[derive(Debug)]
enum Accumulator {
    MuHash(Box<muhash::Kept>),
    Mmr(Box<mmr::Kept>),
    #[cfg(test)]
    Recorder(tests::Recorder),
}

impl Accumulators {
    /// Reads the state after the block at `tip`; without one, that of the empty set.
    pub(crate) fn load(
        read: &dyn Read,
        settings: &IndexSettings,
        tip: Option<Height>,
    ) -> Result<Self, IndexError> {
        let load = |kind| match kind {
            Kind::MuHash => {
                muhash::Kept::load(read, tip).map(|kept| Accumulator::MuHash(kept.into()))
            }
            Kind::Mmr => {
                let rule = settings.mmr.unwrap_or_default();
                mmr::Kept::load(read, rule, tip).map(|kept| Accumulator::Mmr(kept.into()))
            }
        };
        Kind::kept(settings).map(load).collect::<Result<_, _>>().map(Self)
    }

    /// Starts a block: what is told from now on is of it.
    pub(crate) fn begin(&mut self, hash: BlockHash) {
        for accumulator in &mut self.0 {
            match accumulator {
                Accumulator::Mmr(kept) => kept.begin(hash),
                Accumulator::MuHash(_) => {}
                #[cfg(test)]
                Accumulator::Recorder(_) => {}
            }
        }
    }

    /// Tells of one output of the block that is being staged.
    pub(crate) fn tell(
        &mut self,
        change: Change,
        outpoint: OutPoint,
        record: &UtxoRecord<'_>,
    ) -> Result<(), Corrupt> {
        for accumulator in &mut self.0 {
            match accumulator {
                Accumulator::MuHash(kept) => kept.tell(change, outpoint, record)?,
                Accumulator::Mmr(kept) => kept.tell(change, outpoint, record)?,
                #[cfg(test)]
                Accumulator::Recorder(recorder) => recorder.tell(change, outpoint, record),
            }
        }
        Ok(())
    }

    /// Ends a staged block: what the block leaves behind goes into its batch, and what undoing it
    /// needs into its delta, if it has one.
    pub(crate) fn stage(
        &mut self,
        read: &dyn Read,
        (height, mode): (Height, Mode),
        mut delta: Option<&mut BlockDelta>,
        batch: &mut Batch,
    ) -> Result<(), IndexError> {
        for accumulator in &mut self.0 {
            match accumulator {
                Accumulator::MuHash(kept) => kept.stage(height, mode, batch),
                Accumulator::Mmr(kept) => kept.stage(read, mode, delta.as_deref_mut(), batch)?,
                #[cfg(test)]
                Accumulator::Recorder(recorder) => recorder.stage(height),
            }
        }
        Ok(())
    }

    /// Ends a batch of one or more blocks.
    pub(crate) fn cut(&mut self, read: &dyn Read, batch: &mut Batch) -> Result<(), IndexError> {
        for accumulator in &mut self.0 {
            match accumulator {
                Accumulator::Mmr(kept) => kept.cut(read, batch)?,
                Accumulator::MuHash(_) => {}
                #[cfg(test)]
                Accumulator::Recorder(_) => {}
            }
        }
        Ok(())
    }

    /// Root of the Merkle mountain range after the newest block that was staged one by one.
    pub(crate) fn mmr_root(&self) -> Option<NodeHash> {
        self.0.iter().find_map(|accumulator| {
            if let Accumulator::Mmr(kept) = accumulator { Some(kept.root()) } else { None }
        })
    }

    /// Memory that waits for the batch.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |accumulator: &Accumulator| match accumulator {
            Accumulator::Mmr(kept) => kept.memory_bytes(),
            Accumulator::MuHash(_) => 0,
            #[cfg(test)]
            Accumulator::Recorder(_) => 0,
        };
        self.0.iter().map(bytes).sum()
    }

    /// Ends a batch of bulk load, whose newest block is at `tip`.
    pub(crate) fn cut_bulk(&mut self, tip: Height, batch: &mut Batch) {
        for accumulator in &mut self.0 {
            match accumulator {
                Accumulator::MuHash(kept) => kept.cut_bulk(tip, batch),
                Accumulator::Mmr(_) => {}
                #[cfg(test)]
                Accumulator::Recorder(_) => {}
            }
        }
    }

    /// Goes back to the state before the block of `delta`, the newest one. On an error, or when the
    /// batch is not committed, the state must be loaded again.
    pub(crate) fn undo(
        &mut self,
        read: &dyn Read,
        delta: &BlockDelta,
        bodies: &Bodies,
        batch: &mut Batch,
    ) -> Result<(), IndexError> {
        for accumulator in &mut self.0 {
            match accumulator {
                Accumulator::MuHash(kept) => kept.undo(read, delta, batch)?,
                Accumulator::Mmr(kept) => kept.undo(read, delta, bodies, batch)?,
                #[cfg(test)]
                Accumulator::Recorder(recorder) => recorder.undo(delta),
            }
        }
        Ok(())
    }

    /// Drops the rows that only undoing the block at `height` would need.
    pub(crate) fn prune(&self, height: Height, batch: &mut Batch) {
        for accumulator in &self.0 {
            match accumulator {
                Accumulator::MuHash(_) => muhash::Kept::prune(height, batch),
                // What is spent takes no room in the tree, and its delta goes by itself.
                Accumulator::Mmr(_) => {}
                #[cfg(test)]
                Accumulator::Recorder(_) => {}
            }
        }
    }
}
