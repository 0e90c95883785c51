//! Why a record is still there: every fact that blocks its deletion, and until when.

use std::fmt;

use super::{
    prune::{Check, PruneRules, Spends},
    reads::NodeReads,
    record::TxRecord,
    workspace::Workspace,
};
use crate::types::{Height, Txid};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)+) => {
        /// Why a record was kept. Names are stable: metrics and clients go by them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum KeepReason {
            $($(#[$doc])* $variant,)+
        }

        impl KeepReason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in metrics, answers and on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// There is no such record any more.
    Missing = "missing";
    /// Records are kept for ever: the retention is 0.
    RetentionOff = "retention_off";
    /// Somebody asked for it to be kept.
    Preserved = "preserved";
    /// It is locked.
    Locked = "locked";
    /// It is not on the longest chain itself.
    Unmined = "unmined";
    /// An output that can be spent is not, or is frozen.
    OutputUnspent = "output_unspent";
    /// It lost a conflict and is mined on the longest chain: one of both is wrong.
    Contradiction = "conflicting_mined";
    /// Its height has not come.
    NotDue = "not_due";
    /// Its body cannot be read, so its parents are not known and could get no marker.
    BodyMissing = "body_missing";
    /// A child is off the longest chain.
    ChildUnmined = "child_unmined";
    /// A child is mined, but not deep enough.
    ChildYoung = "child_young";
    /// A child is not there and left no marker.
    ChildMissing = "child_missing";
    /// What is stored of a child contradicts itself.
    ChildUnknown = "child_unknown";
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One fact that blocks a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocking {
    /// What it is.
    pub reason: KeepReason,
    /// The child it is about.
    pub child: Option<Txid>,
    /// Height from which it does not block any more, where that can be known today.
    pub until: Option<Height>,
}

/// What the questions about children need of the record.
struct Parent {
    txid: Txid,
    is_conflicting: bool,
    has_markers: bool,
    /// Transactions that conflicted over an output of it.
    rivals: Vec<Txid>,
}

/// What is known of one transaction that spends from the record.
enum Child {
    /// Deep enough, or proven to have been.
    Settled,
    /// It blocks.
    Blocks(KeepReason, Option<Height>),
}

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Every fact that blocks the deletion of a record at a height; none if it may go.
    pub fn explain(
        &mut self,
        txid: &Txid,
        spends: &Spends,
        rules: &PruneRules,
    ) -> Result<Vec<Blocking>, S::Error> {
        self.prefetch_prune(std::slice::from_ref(txid), rules)?;
        self.blocking(txid, spends, rules, false)
    }

    /// The questions of the verdict, in order: all answers that block, or only the first.
    pub(super) fn blocking(
        &mut self,
        txid: &Txid,
        spends: &Spends,
        rules: &PruneRules,
        stops_at_first: bool,
    ) -> Result<Vec<Blocking>, S::Error> {
        let retention = self.policy.retention_blocks;
        let Some(record) = self.look(txid)? else {
            return Ok(vec![Blocking { reason: KeepReason::Missing, child: None, until: None }]);
        };
        let mut found = Vec::new();
        own_facts(record, retention, rules, &mut found);
        let parent = Parent {
            txid: *txid,
            is_conflicting: record.is_conflicting,
            has_markers: record.deleted_children > 0,
            rivals: record.conflicting_children.clone(),
        };
        let needs_body = !record.is_coinbase && !record.is_conflicting;
        if stops_at_first && !found.is_empty() {
            return Ok(found);
        }
        let (is_all_spent, children) = self.outputs_of(&parent, rules)?;
        let is_known = found.iter().any(|known| known.reason == KeepReason::OutputUnspent);
        let must_be_spent = !parent.is_conflicting && rules.makes(Check::Outputs);
        if must_be_spent && !is_all_spent && !is_known {
            found.push(Blocking { reason: KeepReason::OutputUnspent, child: None, until: None });
        }
        if needs_body && !spends.contains_key(txid) {
            found.push(Blocking { reason: KeepReason::BodyMissing, child: None, until: None });
        }
        for child in children {
            if stops_at_first && !found.is_empty() {
                return Ok(found);
            }
            if let Child::Blocks(reason, until) = self.child(&parent, &child, rules)? {
                found.push(Blocking { reason, child: Some(child), until });
            }
        }
        Ok(found)
    }

    /// Whether every output that can be spent is, and which transactions have to be looked at, each
    /// once: spenders that are not known to be settled, and those that conflicted over an output
    /// and may be alive again.
    fn outputs_of(
        &mut self,
        parent: &Parent,
        rules: &PruneRules,
    ) -> Result<(bool, Vec<Txid>), S::Error> {
        let (mut is_all_spent, mut children) = (true, Vec::new());
        for output in self.outputs(&parent.txid) {
            match output.slot.spent_by() {
                Some(_) if output.spender_settled.is_some_and(|h| rules.is_deep_enough(h)) => {}
                Some(by) => children.push(by.txid),
                None => is_all_spent = false,
            }
        }
        for child in &parent.rivals {
            if self.look(child)?.is_some_and(|rival| !rival.is_loser()) {
                children.push(*child);
            }
        }
        children.sort_unstable();
        children.dedup();
        Ok((is_all_spent, children))
    }

    /// Whether a child is stable: not off the longest chain, and its greatest recorded height
    /// `window_blocks` below the height of the verdict.
    fn child(
        &mut self,
        parent: &Parent,
        child: &Txid,
        rules: &PruneRules,
    ) -> Result<Child, S::Error> {
        if !rules.reads_children() {
            return Ok(Child::Settled);
        }
        let Some(spender) = self.look(child)? else {
            let is_proven = parent.has_markers && self.has_marker(&parent.txid, child)?;
            return Ok(if is_proven || !rules.makes(Check::ChildMissing) {
                Child::Settled
            } else {
                Child::Blocks(KeepReason::ChildMissing, None)
            });
        };
        // One that is mined all the same contradicts itself, and may need its parent yet.
        if parent.is_conflicting && spender.is_loser() {
            return Ok(Child::Settled);
        }
        if spender.unmined_since.is_some() {
            return Ok(if rules.makes(Check::ChildUnmined) {
                Child::Blocks(KeepReason::ChildUnmined, None)
            } else {
                Child::Settled
            });
        }
        if !rules.makes(Check::ChildStable) {
            return Ok(Child::Settled);
        }
        Ok(match spender.settled_height() {
            Some(mined) if rules.is_deep_enough(mined) => Child::Settled,
            Some(mined) => {
                Child::Blocks(KeepReason::ChildYoung, Some(mined.plus(rules.window_blocks)))
            }
            None => Child::Blocks(KeepReason::ChildUnknown, None),
        })
    }
}

/// What a record says of itself.
fn own_facts(
    record: &TxRecord,
    retention_blocks: u32,
    rules: &PruneRules,
    found: &mut Vec<Blocking>,
) {
    let mut add = |reason, until| found.push(Blocking { reason, child: None, until });
    if let Some(until) = record.kept_until()
        && rules.makes(Check::Preserved)
    {
        // When it ends the retention starts anew.
        add(KeepReason::Preserved, Some(until.plus(retention_blocks)));
    }
    if rules.makes(Check::Eligible) {
        // As the one function that sets the height would ask now.
        let is_droppable = record.is_droppable();
        if retention_blocks == 0 {
            add(KeepReason::RetentionOff, None);
        } else if record.is_locked {
            add(KeepReason::Locked, None);
        } else if record.contradicts_itself() {
            add(KeepReason::Contradiction, None);
        } else if !is_droppable {
            if !record.is_mined() {
                add(KeepReason::Unmined, None);
            }
            if !record.is_all_spent() {
                add(KeepReason::OutputUnspent, None);
            }
        } else if record.delete_at.is_none() && record.kept_until().is_none() {
            add(KeepReason::NotDue, None);
        }
    }
    if let Some(due) = record.delete_at.filter(|due| *due > rules.height)
        && rules.makes(Check::Due)
    {
        add(KeepReason::NotDue, Some(due));
    }
}
