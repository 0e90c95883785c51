//! From when on a block may hold a transaction: lock times and relative locks.
//!
//! # Invariants
//!
//! * A lock that a coin or a caller asks for is kept or the transaction is refused; one lock time
//!   cannot be a height and a time at once.

/// Lock times below this are heights, others are seconds since 1970.
const FIRST_TIME: u32 = 500_000_000;
/// Seconds of one unit of a relative lock by time.
const UNIT_SECS: u32 = 512;

/// How old an output must be before it is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelativeLock {
    /// Blocks, counted from the one that holds the output.
    Blocks(u16),
    /// Units of 512 seconds, counted from the time of the chain below that block.
    Units(u16),
}

impl RelativeLock {
    pub(super) fn seconds(units: u16) -> u32 {
        u32::from(units) * UNIT_SECS
    }
}

/// The lock time of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockTime {
    /// Only blocks above this height may hold it.
    Height(u32),
    /// Only blocks may hold it below which the time of the chain is later, in seconds since 1970.
    Time(u32),
}

impl LockTime {
    /// Reads the number in a transaction.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        if number < FIRST_TIME { Self::Height(number) } else { Self::Time(number) }
    }

    /// The number in a transaction.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Height(number) | Self::Time(number) => number,
        }
    }
}

/// What one way to spend an output asks of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SpendLocks {
    /// How old the output must be.
    pub relative: Option<RelativeLock>,
    /// What the lock time must be, at least.
    pub absolute: Option<LockTime>,
}

/// The block that holds an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinAge {
    /// Height of the block that holds the coin.
    pub height: u32,
    /// Its time, in seconds since 1970; not earlier than the time of the chain below it.
    pub time: Option<u32>,
}

/// The block that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextBlock {
    /// One more than that of the tip.
    pub height: u32,
    /// The time of the chain below it (the median of eleven blocks), in seconds since 1970; an
    /// earlier one when it is not known.
    pub median_time: u32,
}

/// The first block that may hold a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ValidFrom {
    /// Its height, when a lock asks for one.
    pub height: Option<u32>,
    /// The time of the chain below it, in seconds since 1970, when a lock asks for one.
    pub median_time: Option<u32>,
}

impl ValidFrom {
    /// When both are kept.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            height: self.height.max(other.height),
            median_time: self.median_time.max(other.median_time),
        }
    }

    /// Whether the next block may hold it.
    #[must_use]
    pub fn is_met(self, next: NextBlock) -> bool {
        self.height.is_none_or(|height| height <= next.height)
            && self.median_time.is_none_or(|time| time <= next.median_time)
    }
}

impl LockTime {
    /// The first block that may hold a transaction with this lock time.
    #[must_use]
    pub fn valid_from(self) -> ValidFrom {
        match self {
            Self::Height(0) => ValidFrom::default(),
            Self::Height(height) => {
                ValidFrom { height: Some(height.saturating_add(1)), median_time: None }
            }
            Self::Time(time) => {
                ValidFrom { height: None, median_time: Some(time.saturating_add(1)) }
            }
        }
    }

    /// The later of two lock times; `None` when one is a height and the other a time.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Height(0), any) | (any, Self::Height(0)) => Some(any),
            (Self::Height(one), Self::Height(two)) => Some(Self::Height(one.max(two))),
            (Self::Time(one), Self::Time(two)) => Some(Self::Time(one.max(two))),
            _ => None,
        }
    }
}

impl SpendLocks {
    /// The first block that may spend an output this way. An output in no block is taken to be in
    /// the next one.
    #[must_use]
    pub fn valid_from(self, age: Option<CoinAge>, next: NextBlock) -> ValidFrom {
        let unknown = CoinAge { height: next.height, time: None };
        let age = age.unwrap_or(unknown);
        let relative = match self.relative {
            None => ValidFrom::default(),
            Some(RelativeLock::Blocks(blocks)) => {
                let height = age.height.saturating_add(u32::from(blocks));
                ValidFrom { height: Some(height), median_time: None }
            }
            Some(RelativeLock::Units(units)) => {
                let begin = age.time.unwrap_or(next.median_time);
                let time = begin.saturating_add(RelativeLock::seconds(units));
                ValidFrom { height: None, median_time: Some(time) }
            }
        };
        relative.and(self.absolute.map(LockTime::valid_from).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: NextBlock = NextBlock { height: 200, median_time: 1_700_000_000 };

    fn locks(relative: Option<RelativeLock>, absolute: Option<LockTime>) -> SpendLocks {
        SpendLocks { relative, absolute }
    }

    #[test]
    fn a_lock_time_is_met_one_block_later() {
        assert_eq!(LockTime::Height(0).valid_from(), ValidFrom::default());
        let from = LockTime::Height(199).valid_from();
        assert_eq!(from.height, Some(200));
        assert!(from.is_met(NEXT) && !LockTime::Height(200).valid_from().is_met(NEXT));
        let from = LockTime::from_number(1_700_000_000).valid_from();
        assert_eq!(from.median_time, Some(1_700_000_001));
        assert!(!from.is_met(NEXT));
    }

    #[test]
    fn a_relative_lock_counts_from_the_block_of_the_coin() {
        let ten = locks(Some(RelativeLock::Blocks(10)), None);
        let at = |height| Some(CoinAge { height, time: Some(1_699_999_000) });
        assert_eq!(ten.valid_from(at(190), NEXT).height, Some(200));
        assert!(ten.valid_from(at(190), NEXT).is_met(NEXT));
        assert!(!ten.valid_from(at(191), NEXT).is_met(NEXT));
        assert_eq!(ten.valid_from(None, NEXT).height, Some(210), "in the next block at best");
        let units = |units| locks(Some(RelativeLock::Units(units)), None);
        assert_eq!(units(1).valid_from(at(5), NEXT).median_time, Some(1_699_999_512));
        assert!(units(1).valid_from(at(5), NEXT).is_met(NEXT));
        assert!(!units(2).valid_from(at(5), NEXT).is_met(NEXT));
        assert!(!units(1).valid_from(None, NEXT).is_met(NEXT));
    }

    #[test]
    fn the_latest_of_all_locks_counts() {
        let both = locks(Some(RelativeLock::Blocks(10)), Some(LockTime::Height(500)));
        let age = Some(CoinAge { height: 100, time: None });
        assert_eq!(both.valid_from(age, NEXT).height, Some(501));
        assert_eq!(LockTime::Height(7).and(LockTime::Height(9)), Some(LockTime::Height(9)));
        assert_eq!(
            LockTime::Height(0).and(LockTime::Time(FIRST_TIME)),
            Some(LockTime::Time(FIRST_TIME))
        );
        assert_eq!(LockTime::Height(1).and(LockTime::Time(FIRST_TIME)), None);
    }

    #[test]
    fn numbers_read_back() {
        for number in [0, 1, FIRST_TIME - 1, FIRST_TIME, u32::MAX] {
            assert_eq!(LockTime::from_number(number).number(), number);
        }
    }
}
