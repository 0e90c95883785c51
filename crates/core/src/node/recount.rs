//! What a record says against itself: every field that follows from the others is computed again.
//!
//! What follows from nothing (when a record was created, until when an operator keeps it) cannot be
//! checked, and heights that callers tell are checked only as far as other rows tell them too.

use std::fmt;

use super::record::TxRecord;
use crate::types::Height;

/// The retentions that a store has ever had. Heights that were set by an earlier one stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retentions {
    /// The shortest, in blocks; 0 keeps for ever.
    pub least_blocks: u32,
    /// The longest, in blocks.
    pub most_blocks: u32,
}

/// A field that contradicts the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// Something keeps it, and it may be deleted all the same.
    KeptAndDue {
        /// Until when it is kept.
        until: Height,
        /// From when it may be deleted.
        delete_at: Height,
    },
    /// It may be deleted, and is not over.
    DueTooSoon(Height),
    /// It is over, nothing keeps it, and it is never deleted.
    NeverDue,
    /// It may be deleted before the retention has passed.
    DueEarly {
        /// From when it may be deleted.
        delete_at: Height,
        /// The first height that its spends and blocks allow.
        least: Height,
    },
    /// Nothing of it is spent, and it has the height of a spend.
    SpentByNobody(Height),
    /// It creates coins and may be spent at once, or does not and has to wait.
    Maturity,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeptAndDue { until, delete_at } => {
                write!(f, "its delete-at height is {delete_at}, and it is kept until {until}")
            }
            Self::DueTooSoon(delete_at) => write!(
                f,
                "its delete-at height is {delete_at}, and it is locked, unspent or not on the \
                 longest chain"
            ),
            Self::NeverDue => {
                f.write_str("it has no delete-at height, and nothing speaks against one")
            }
            Self::DueEarly { delete_at, least } => write!(
                f,
                "its delete-at height is {delete_at}; by its spends and blocks it is {least} or later"
            ),
            Self::SpentByNobody(height) => {
                write!(f, "its newest spend is of height {height}, and no output is spent")
            }
            Self::Maturity => {
                f.write_str("it waits for maturity and creates no coins, or the other way round")
            }
        }
    }
}

impl TxRecord {
    /// What contradicts in the record itself: the height at which it may be deleted is computed
    /// again by the rules of [`TxRecord::evaluate`]. Events that were told late can only have raised
    /// it, so a later one is no fault.
    #[must_use]
    pub fn faults(&self, retentions: Retentions) -> Vec<RecordFault> {
        let nobody = self.spent_at.filter(|_| self.spent == 0).map(RecordFault::SpentByNobody);
        let maturity =
            (self.is_coinbase != self.spendable_at.is_some()).then_some(RecordFault::Maturity);
        nobody.into_iter().chain(maturity).chain(self.due_fault(retentions)).collect()
    }

    fn due_fault(&self, retentions: Retentions) -> Option<RecordFault> {
        let Retentions { least_blocks, most_blocks } = retentions;
        if let (Some(until), Some(delete_at)) = (self.kept_until(), self.delete_at) {
            return Some(RecordFault::KeptAndDue { until, delete_at });
        }
        // While a store keeps for ever nothing is set, nor cleared.
        if least_blocks == 0 {
            let is_wrong = most_blocks == 0;
            return self.delete_at.filter(|_| is_wrong).map(RecordFault::DueTooSoon);
        }
        let Some(delete_at) = self.delete_at else {
            let is_over = self.is_droppable() && self.kept_until().is_none();
            return is_over.then_some(RecordFault::NeverDue);
        };
        if !self.is_droppable() {
            // Programs of before gave a height to those that contradict themselves. They are kept.
            return (!self.contradicts_itself()).then_some(RecordFault::DueTooSoon(delete_at));
        }
        // The loser of a conflict goes by the height at which it lost, which nothing else remembers.
        let newest = if self.is_conflicting {
            Height::new(1)
        } else {
            self.settled_height().max(self.spent_at).unwrap_or_default()
        };
        let least = newest.plus(least_blocks);
        (delete_at < least).then_some(RecordFault::DueEarly { delete_at, least })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{MinedBlock, codec::decode_record};

    const KEPT_288: Retentions = Retentions { least_blocks: 288, most_blocks: 288 };

    /// Mined at 900, its two outputs spent at 1000, due at 1288.
    fn due() -> TxRecord {
        let empty = decode_record(&[0xa5, 0, 0, 1, 2, 2, 2, 3, 2, 4, 0]).expect("it decodes");
        let block = MinedBlock { id: 1, height: Height::new(900), subtree: 0 };
        let mut record =
            TxRecord { spent_at: Some(Height::new(1_000)), blocks: vec![block], ..empty };
        record.evaluate(Height::new(1_000), 288);
        record
    }

    fn faults(change: impl Fn(&mut TxRecord), retentions: Retentions) -> Vec<RecordFault> {
        let mut record = due();
        change(&mut record);
        record.faults(retentions)
    }

    #[test]
    fn a_delete_at_height_that_the_facts_do_not_allow_is_a_fault() {
        type Change = fn(&mut TxRecord);
        use RecordFault::{DueEarly, DueTooSoon, KeptAndDue, NeverDue, SpentByNobody};
        let at = Height::new;
        let cases: [(Change, Option<RecordFault>); 12] = [
            (|_| {}, None),
            (|r| r.delete_at = Some(Height::new(1_500)), None),
            (
                |r| r.delete_at = Some(Height::new(1_287)),
                Some(DueEarly { delete_at: at(1_287), least: at(1_288) }),
            ),
            (|r| r.delete_at = None, Some(NeverDue)),
            (|r| r.spent = 1, Some(DueTooSoon(at(1_288)))),
            (|r| r.is_locked = true, Some(DueTooSoon(at(1_288)))),
            (|r| r.unmined_since = Some(Height::new(5)), Some(DueTooSoon(at(1_288)))),
            (|r| r.blocks.clear(), Some(DueTooSoon(at(1_288)))),
            (
                |r| r.preserve_until = Some(Height::new(7)),
                Some(KeptAndDue { until: at(7), delete_at: at(1_288) }),
            ),
            (|r| (r.preserve_until, r.delete_at) = (Some(Height::new(7)), None), None),
            (|r| (r.spent, r.delete_at) = (0, None), Some(SpentByNobody(at(1_000)))),
            (
                |r| r.blocks[0].height = Height::new(1_200),
                Some(DueEarly { delete_at: at(1_288), least: at(1_488) }),
            ),
        ];
        for (number, (change, expected)) in cases.into_iter().enumerate() {
            assert_eq!(faults(change, KEPT_288), Vec::from_iter(expected), "case {number}");
        }
    }

    #[test]
    fn heights_of_an_earlier_retention_stay() {
        let wider = Retentions { least_blocks: 288, most_blocks: 1_000 };
        assert_eq!(faults(|_| {}, wider), []);
        let now_for_ever = Retentions { least_blocks: 0, most_blocks: 288 };
        assert_eq!(faults(|record| record.spent = 1, now_for_ever), []);
        assert_eq!(faults(|record| record.delete_at = None, now_for_ever), []);
        let for_ever = Retentions { least_blocks: 0, most_blocks: 0 };
        let found = faults(|_| {}, for_ever);
        assert_eq!(found, [RecordFault::DueTooSoon(Height::new(1_288))]);
    }
}
