//! Safe deletion: may this record go, and what goes with it.
//!
//! The verdict is taken from what is stored at the moment of deletion, under the locks of the
//! records that change. It asks for positive proof: what is not known keeps.
//!
//! # Invariants
//!
//! * A record goes only if it is due, not preserved, still safe to drop by
//!   [`TxRecord::evaluate`], and every transaction that spends it is stable or left a marker.
//! * A child that was mined leaves a marker on each parent that survives it, in the same commit.
//! * [`Workspace::explain`] and the verdict are one list of questions, so they cannot disagree.

use rustc_hash::FxHashMap;

use super::{
    explain::KeepReason, output::OutputState, reads::NodeReads, record::TxRecord, undo::Undo,
    workspace::Workspace,
};
use crate::types::{Height, OutPoint, Txid};

/// One check of the verdict. Only tests that plant a mistake, and measurements, leave one out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The height has come.
    Due,
    /// Nobody asked for the record to be kept.
    Preserved,
    /// It is still safe to drop by the one function that says so.
    Eligible,
    /// Every output really is spent, whatever the counters say.
    Outputs,
    /// No child is off the longest chain.
    ChildUnmined,
    /// Every child lies deep enough.
    ChildStable,
    /// A child that is not there left a marker.
    ChildMissing,
    /// A mined child leaves a marker on surviving parents.
    Marker,
}

impl Check {
    /// Every check.
    pub const ALL: [Self; 8] = [
        Self::Due,
        Self::Preserved,
        Self::Eligible,
        Self::Outputs,
        Self::ChildUnmined,
        Self::ChildStable,
        Self::ChildMissing,
        Self::Marker,
    ];

    #[cfg(any(test, feature = "testing"))]
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// By what a verdict is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneRules {
    /// Height the verdict is for: the tip, or what a persister has reached.
    pub height: Height,
    /// Blocks that must lie between a child and that height.
    pub window_blocks: u32,
    /// Hand back what was deleted, so that it can be restored.
    pub keeps_undo: bool,
    #[cfg(any(test, feature = "testing"))]
    left_out: u8,
}

impl PruneRules {
    /// All checks, nothing handed back.
    #[must_use]
    pub const fn at(height: Height, window_blocks: u32) -> Self {
        Self {
            height,
            window_blocks,
            keeps_undo: false,
            #[cfg(any(test, feature = "testing"))]
            left_out: 0,
        }
    }

    /// The same, handing back what was deleted.
    #[must_use]
    pub const fn with_undo(self) -> Self {
        Self { keeps_undo: true, ..self }
    }

    /// Leaves out a check. Deletes what is still needed: for tests and measurements only.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub const fn unsafe_without(self, check: Check) -> Self {
        Self { left_out: self.left_out | check.bit(), ..self }
    }

    /// Whether a check is made.
    #[must_use]
    #[cfg(any(test, feature = "testing"))]
    pub const fn makes(&self, check: Check) -> bool {
        self.left_out & check.bit() == 0
    }

    /// Whether a check is made: every one is.
    #[must_use]
    #[cfg(not(any(test, feature = "testing")))]
    #[allow(clippy::unused_self, reason = "tests leave checks out")]
    pub const fn makes(&self, _check: Check) -> bool {
        true
    }

    /// The greatest height that lies deep enough below the verdict, if any does.
    #[must_use]
    pub fn settled_until(&self) -> Option<Height> {
        Height::new(self.window_blocks).depth_below(self.height).map(Height::new)
    }

    /// Whether a child of this height is deep enough.
    #[must_use]
    pub fn is_deep_enough(&self, mined: Height) -> bool {
        mined.depth_below(self.height).is_some_and(|depth| depth >= self.window_blocks)
    }

    /// Whether children are looked at at all.
    #[must_use]
    pub const fn reads_children(&self) -> bool {
        self.makes(Check::ChildUnmined)
            || self.makes(Check::ChildStable)
            || self.makes(Check::ChildMissing)
    }
}

/// Outputs that the records in question spend, from their spends, which never change. One that is
/// absent could not be read.
pub type Spends = FxHashMap<Txid, Vec<OutPoint>>;

/// Whether a record may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Every check passed.
    Delete,
    /// At least one did not; ask again at a later height.
    Keep(KeepReason),
}

/// What became of a record that was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pruned {
    /// It went.
    Deleted {
        /// Outputs that went with it.
        outputs: u32,
        /// Parents that got a marker.
        parents_marked: u32,
        /// All of it, if that was asked for.
        undo: Option<Box<Undo>>,
    },
    /// It stays.
    Kept {
        /// Why.
        reason: KeepReason,
        /// The child that it is about, where it is about one.
        child: Option<Txid>,
    },
}

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Loads what verdicts over these records need, in a few reads for all of them. A child that
    /// the engine knows to be settled is not read.
    pub fn prefetch_prune(&mut self, txids: &[Txid], rules: &PruneRules) -> Result<(), S::Error> {
        self.prefetch(txids, &[])?;
        if !rules.reads_children() {
            return self.prefetch_outputs(txids, None);
        }
        self.prefetch_outputs(txids, rules.settled_until())?;
        let mut children = Vec::new();
        for txid in txids {
            let unknown = self.outputs(txid).iter().filter(|output| {
                !output.spender_settled.is_some_and(|height| rules.is_deep_enough(height))
            });
            children.extend(unknown.filter_map(|output| output.slot.spent_by()).map(|by| by.txid));
            let record = self.look(txid)?;
            children.extend(record.into_iter().flat_map(|record| &record.conflicting_children));
        }
        children.sort_unstable();
        children.dedup();
        self.prefetch(&children, &[])
    }

    /// Whether a record may go, as it stands.
    pub fn prune_verdict(
        &mut self,
        txid: &Txid,
        spends: &Spends,
        rules: &PruneRules,
    ) -> Result<Verdict, S::Error> {
        let blocking = self.blocking(txid, spends, rules, true)?;
        Ok(blocking.first().map_or(Verdict::Delete, |first| Verdict::Keep(first.reason)))
    }

    /// Deletes those of the records that may go. The caller holds their locks and those of their
    /// parents, which get markers.
    ///
    /// Verdicts are taken over all records before the first one goes, so the order in which they
    /// are named does not matter.
    pub fn prune(
        &mut self,
        txids: &[Txid],
        spends: &Spends,
        rules: &PruneRules,
    ) -> Result<Vec<Pruned>, S::Error> {
        self.prefetch_prune(txids, rules)?;
        let mut verdicts = Vec::with_capacity(txids.len());
        for txid in txids {
            verdicts.push(self.blocking(txid, spends, rules, true)?.into_iter().next());
        }
        let (mut answers, mut gone) = (Vec::with_capacity(txids.len()), Vec::new());
        for (at, (txid, first)) in txids.iter().zip(verdicts).enumerate() {
            // One that is named twice is gone the second time.
            let (reason, child) =
                first.map_or((KeepReason::Missing, None), |first| (first.reason, first.child));
            answers.push(Pruned::Kept { reason, child });
            if first.is_some() {
                continue;
            }
            let body = if rules.keeps_undo { self.body(txid)? } else { None };
            if let Some((record, outputs)) = self.delete_whole(txid)? {
                let slots = || outputs.iter().map(|output| (output.vout, output.slot)).collect();
                let undo = rules.keeps_undo.then(|| Undo {
                    record: record.clone(),
                    slots: slots(),
                    body,
                    marked_on: Vec::new(),
                });
                gone.push((at, *txid, record, undo));
            }
        }
        self.prefetch_parents(gone.iter().map(|(_, txid, ..)| txid), spends)?;
        for (at, txid, record, undo) in gone {
            let marked_on = self.leave(&txid, &record, spends, rules)?;
            let parents_marked = u32::try_from(marked_on.len()).unwrap_or(u32::MAX);
            let undo = undo.map(|undo| Box::new(Undo { marked_on, ..undo }));
            answers[at] = Pruned::Deleted { outputs: record.outputs, parents_marked, undo };
        }
        Ok(answers)
    }

    /// Loads parents, and the outputs of theirs that are spent here.
    fn prefetch_parents<'t>(
        &mut self,
        gone: impl Iterator<Item = &'t Txid>,
        spends: &Spends,
    ) -> Result<(), S::Error> {
        let all = gone.filter_map(|txid| spends.get(txid));
        let spends: Vec<OutPoint> = all.flatten().copied().collect();
        let mut parents: Vec<Txid> = spends.iter().map(|spend| *spend.txid()).collect();
        parents.sort_unstable();
        parents.dedup();
        self.prefetch(&parents, &[])?;
        let mut of_survivors = Vec::new();
        for spend in spends {
            if self.look(spend.txid())?.is_some() {
                of_survivors.push(spend);
            }
        }
        self.prefetch(&[], &of_survivors)
    }

    /// Tells the surviving parents of a deleted record; answers those that got a marker.
    fn leave(
        &mut self,
        txid: &Txid,
        record: &TxRecord,
        spends: &Spends,
        rules: &PruneRules,
    ) -> Result<Vec<Txid>, S::Error> {
        let leaves_marker =
            record.is_mined() && !record.is_conflicting && rules.makes(Check::Marker);
        // A loser that goes gives back what it spends of other losers: nobody can spend that, and
        // they must not wait for it for ever.
        let gives_back = record.is_loser();
        let mut marked = Vec::new();
        for spend in spends.get(txid).into_iter().flatten() {
            let parent = *spend.txid();
            let Some(survivor) = self.look(&parent)? else { continue };
            if survivor.conflicting_children.contains(txid)
                && let Some(survivor) = self.record(&parent)?
            {
                survivor.conflicting_children.retain(|child| child != txid);
            }
            let is_loser = self.look(&parent)?.is_some_and(TxRecord::is_loser);
            let by = self.slot(spend)?.and_then(|slot| slot.spent_by());
            if gives_back
                && is_loser
                && by.is_some_and(|by| by.txid == *txid)
                && let Some(slot) = self.slot(spend)?
            {
                slot.state = OutputState::Unspent;
                if let Some(survivor) = self.record(&parent)? {
                    survivor.take_spends_back(1);
                }
            }
            if leaves_marker
                && by.is_some_and(|by| by.txid == *txid)
                && !self.has_marker(&parent, txid)?
            {
                self.mark(parent, *txid, true)?;
                marked.push(parent);
            }
        }
        Ok(marked)
    }

    /// Writes a marker, or takes it away, and keeps the parent's count of them.
    pub(super) fn mark(
        &mut self,
        parent: Txid,
        child: Txid,
        is_there: bool,
    ) -> Result<(), S::Error> {
        self.set_marker(parent, child, is_there);
        if let Some(record) = self.record(&parent)? {
            let count = record.deleted_children;
            record.deleted_children =
                if is_there { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
