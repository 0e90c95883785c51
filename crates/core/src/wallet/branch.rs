//! Which of two branches a ledger keeps, when several programs follow chains into it.
//!
//! # Invariants
//!
//! * A branch replaces another only if it is better. So the ledger never goes to and fro between
//!   two followers: each change makes its chain better, whoever brings it.

use crate::types::ChainWork;

/// What a branch has above the last block that it shares with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BranchAbove {
    /// How many blocks.
    pub blocks: u32,
    /// Their work; `None` where that of any of them is not known.
    pub work: Option<ChainWork>,
}

impl BranchAbove {
    /// The branch with one more block on top.
    #[must_use]
    pub fn plus(self, block: Option<ChainWork>) -> Self {
        let work = self.work.zip(block).map(|(work, block)| work.plus(&block));
        Self { blocks: self.blocks.saturating_add(1), work }
    }

    /// A branch without blocks.
    #[must_use]
    pub fn empty() -> Self {
        Self { blocks: 0, work: Some(ChainWork::default()) }
    }

    /// Whether this branch takes the place of `kept`: it has more work, or, where the work of one of
    /// them is not known, more blocks. Of equal ones the first seen is kept.
    #[must_use]
    pub fn is_better_than(&self, kept: &Self) -> bool {
        match (self.work, kept.work) {
            (Some(work), Some(kept)) => work > kept,
            _ => self.blocks > kept.blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(units: u8) -> ChainWork {
        let mut bytes = [0; 32];
        bytes[31] = units;
        ChainWork::from_be_bytes(bytes)
    }

    fn of(blocks: u32, units: Option<u8>) -> BranchAbove {
        BranchAbove { blocks, work: units.map(work) }
    }

    #[test]
    fn work_decides_and_height_where_work_is_unknown() {
        assert!(of(2, Some(9)).is_better_than(&of(5, Some(8))), "more work in fewer blocks");
        assert!(!of(5, Some(8)).is_better_than(&of(2, Some(9))));
        for (new, kept) in [(None, Some(9)), (Some(9), None), (None, None)] {
            assert!(of(5, new).is_better_than(&of(4, kept)));
            assert!(!of(4, new).is_better_than(&of(5, kept)));
        }
    }

    #[test]
    fn the_first_of_equal_branches_is_kept() {
        for units in [None, Some(7)] {
            assert!(!of(5, units).is_better_than(&of(5, units)));
        }
        assert!(!of(9, Some(7)).is_better_than(&of(5, Some(7))));
    }

    #[test]
    fn one_block_of_unknown_work_makes_the_sum_unknown() {
        let known = BranchAbove::empty().plus(Some(work(2))).plus(Some(work(3)));
        assert_eq!(known, of(2, Some(5)));
        assert_eq!(known.plus(None).plus(Some(work(1))), of(4, None));
    }
}
