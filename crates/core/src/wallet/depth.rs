//! Confirmations and maturity: arithmetic on heights, in one place.

use crate::types::Height;

/// Number of confirmations of a block at `height` when the chain ends at `tip`. A block above the
/// tip, or without a tip, has none.
#[must_use]
pub fn confirmations(height: Option<Height>, tip: Option<Height>) -> u32 {
    match (height, tip) {
        (Some(height), Some(tip)) => {
            height.depth_below(tip).map_or(0, |depth| depth.saturating_add(1))
        }
        _ => 0,
    }
}

/// When a coinbase output may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maturity {
    /// Number of blocks that must lie above the coinbase.
    blocks_above: u32,
}

impl Maturity {
    /// A hundred blocks above the coinbase, as wallets of Bitcoin wait: `tip - height >= 100`.
    pub const STANDARD: Self = Self { blocks_above: 100 };
    /// One block less: the earliest that the consensus of Bitcoin allows in the next block.
    pub const CONSENSUS: Self = Self { blocks_above: 99 };

    /// A rule with `blocks` above the coinbase, for chains with other numbers.
    #[must_use]
    pub const fn blocks_above(blocks: u32) -> Self {
        Self { blocks_above: blocks }
    }

    /// Whether a coinbase at `height` may be spent when the chain ends at `tip`.
    #[must_use]
    pub fn is_mature(self, height: Height, tip: Option<Height>) -> bool {
        self.highest_mature(tip).is_some_and(|highest| height <= highest)
    }

    /// The highest coinbase that may be spent; `None` when none may.
    #[must_use]
    pub fn highest_mature(self, tip: Option<Height>) -> Option<Height> {
        tip?.get().checked_sub(self.blocks_above).map(Height::new)
    }
}

impl Default for Maturity {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// Which numbers of confirmations are asked for, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConfirmationRange {
    /// At least this many.
    pub min: u32,
    /// At most this many, if there is a limit.
    pub max: Option<u32>,
}

impl ConfirmationRange {
    /// `min` or more.
    #[must_use]
    pub const fn at_least(min: u32) -> Self {
        Self { min, max: None }
    }

    /// Whether `count` lies in the range.
    #[must_use]
    pub fn contains(&self, count: u32) -> bool {
        count >= self.min && self.max.is_none_or(|max| count <= max)
    }

    /// Whether something without a confirmation is wanted.
    #[must_use]
    pub fn wants_unconfirmed(&self) -> bool {
        self.contains(0)
    }

    /// Lowest and highest block whose transactions are in the range, at `tip`; `None` when no
    /// block can be. What lies above the tip has no confirmation, so it never is.
    #[must_use]
    pub fn heights(&self, tip: Option<Height>) -> Option<(Height, Height)> {
        let tip = tip?;
        let highest = tip.get().checked_sub(self.min.max(1) - 1).map(Height::new)?;
        let lowest = match self.max {
            None => Height::GENESIS,
            Some(0) => return None,
            Some(max) => tip.minus(max - 1),
        };
        (lowest <= highest).then_some((lowest, highest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h(raw: u32) -> Height {
        Height::new(raw)
    }

    /// S105.
    #[test]
    fn confirmations_count_the_block_itself() {
        assert_eq!(confirmations(Some(h(10)), Some(h(15))), 6);
        assert_eq!(confirmations(Some(h(10)), Some(h(10))), 1);
        assert_eq!(confirmations(Some(h(11)), Some(h(10))), 0);
        assert_eq!(confirmations(None, Some(h(10))), 0);
        assert_eq!(confirmations(Some(h(10)), None), 0);
    }

    #[test]
    fn maturity_starts_at_the_hundredth_block_above() {
        let at = |rule: Maturity, tip| rule.is_mature(h(50), Some(h(tip)));
        assert!(!at(Maturity::STANDARD, 149));
        assert!(at(Maturity::STANDARD, 150));
        assert!(!at(Maturity::CONSENSUS, 148));
        assert!(at(Maturity::CONSENSUS, 149));
        assert!(!Maturity::STANDARD.is_mature(h(0), Some(h(99))));
        assert!(!Maturity::STANDARD.is_mature(h(0), None));
    }

    #[test]
    fn ranges_of_confirmations_are_ranges_of_heights() {
        for tip in 0..6 {
            for min in 0..5 {
                for max in [None, Some(0), Some(1), Some(3)] {
                    let range = ConfirmationRange { min, max };
                    for height in 0..8 {
                        let count = confirmations(Some(h(height)), Some(h(tip)));
                        let expected = count > 0 && range.contains(count);
                        let inside = range
                            .heights(Some(h(tip)))
                            .is_some_and(|(low, high)| (low..=high).contains(&h(height)));
                        assert_eq!(inside, expected, "tip {tip} height {height} {range:?}");
                    }
                }
            }
        }
        assert_eq!(ConfirmationRange::default().heights(None), None);
    }
}
