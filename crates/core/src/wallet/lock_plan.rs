//! Which locks a transaction takes: its lock time, its version, and the sequence number of every
//! input; and which coins are open to it at all.
//!
//! # Invariants
//!
//! * A transaction has one lock time, so that its inputs agree on heights or on times. Relative
//!   locks are apart: each input has its own sequence number, by height or by time.
//! * A replacement keeps version and sequence numbers of what it replaces, unless an input needs
//!   more. Every sequence number says that the transaction may be replaced.

use super::locks::{CoinAge, LockTime, NextBlock, RelativeLock, SpendLocks, ValidFrom};

/// From this version on sequence numbers are relative locks (BIP-68).
const LOCKING_VERSION: u32 = 2;
/// Versions that nodes relay.
const RELAYED_VERSIONS: std::ops::RangeInclusive<u32> = 1..=3;
/// The highest sequence number that says that the transaction may be replaced (BIP-125).
const REPLACEABLE: u32 = 0xffff_fffd;
/// An input with this number has no lock. Where all have it, the lock time does not count either.
const FINAL: u32 = 0xffff_ffff;
/// A sequence number with this bit is no relative lock.
const DISABLED: u32 = 1 << 31;
/// A relative lock with this bit is one by time.
const BY_TIME: u32 = 1 << 22;

/// What lock times count in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Blocks of the chain.
    Height,
    /// Seconds since 1970.
    Time,
}

impl LockKind {
    /// What a transaction may count in that asks for this lock time.
    #[must_use]
    pub const fn possible(asked: LockTime) -> &'static [Self] {
        match asked {
            LockTime::Height(0) => &[Self::Height, Self::Time],
            LockTime::Height(_) => &[Self::Height],
            LockTime::Time(_) => &[Self::Time],
        }
    }

    fn fits(self, locks: &SpendLocks) -> bool {
        locks.absolute.is_none_or(|absolute| Self::possible(absolute).contains(&self))
    }
}

/// Which coins of a descriptor a transaction may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenCoins {
    /// All of them.
    All,
    /// Those in blocks up to a height, and those in blocks up to a time in seconds since 1970.
    InBlocks {
        /// The highest block whose coins are old enough; `None` for no block.
        height_max: Option<u32>,
        /// The latest block time, in seconds since 1970; `None` for no block.
        time_max: Option<u32>,
    },
}

impl OpenCoins {
    /// None of them.
    pub const NONE: Self = Self::InBlocks { height_max: None, time_max: None };

    /// The coins of a descriptor with these ways to spend that a transaction of this kind in the
    /// next block may hold; in any later block, when it may wait.
    #[must_use]
    pub fn of(ways: &[SpendLocks], kind: LockKind, next: NextBlock, may_wait: bool) -> Self {
        let mut open = Self::NONE;
        for way in ways.iter().filter(|way| kind.fits(way)) {
            let is_met = |lock: LockTime| lock.valid_from().is_met(next);
            let is_open = may_wait || way.absolute.is_none_or(is_met);
            if is_open {
                open = open.or(if may_wait { Self::All } else { Self::old_enough(*way, next) });
            }
        }
        open
    }

    /// The coins that are old enough for the relative lock of a way.
    fn old_enough(way: SpendLocks, next: NextBlock) -> Self {
        match way.relative {
            None | Some(RelativeLock::Blocks(0) | RelativeLock::Units(0)) => Self::All,
            Some(RelativeLock::Blocks(blocks)) => Self::InBlocks {
                height_max: next.height.checked_sub(blocks.into()),
                time_max: None,
            },
            Some(RelativeLock::Units(units)) => Self::InBlocks {
                height_max: None,
                time_max: next.median_time.checked_sub(RelativeLock::seconds(units)),
            },
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::InBlocks { height_max, time_max },
                Self::InBlocks { height_max: height, time_max: time },
            ) => {
                Self::InBlocks { height_max: height_max.max(height), time_max: time_max.max(time) }
            }
            _ => Self::All,
        }
    }
}

/// An input whose locks are planned.
#[derive(Debug, Clone, Copy)]
pub struct InputToLock<'w> {
    /// The locks of every way to spend it; `None` where no descriptor tells.
    pub ways: Option<&'w [SpendLocks]>,
    /// The block that holds the output, if there is one.
    pub age: Option<CoinAge>,
    /// Sequence number in the transaction that is replaced.
    pub kept_sequence: Option<u32>,
}

/// The locks of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockPlan {
    /// Version of the transaction; at least 2 where an input has a relative lock.
    pub version: u32,
    /// Its lock time.
    pub lock_time: LockTime,
    /// Sequence numbers, one for each input.
    pub sequences: Vec<u32>,
    /// The first block that may hold it.
    pub valid_from: ValidFrom,
}

/// Why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLockPlan {
    /// No way to spend this input is known.
    Unspendable {
        /// Position of the input, counted from 0.
        input: usize,
    },
    /// Some of it asks for a lock time that is a height, and some for one that is a time.
    Mixed,
}

/// Plans a transaction that the next block may hold, or else the one that waits the shortest time.
/// `kept_version` is that of the transaction it replaces, if there is one.
pub fn plan_locks(
    inputs: &[InputToLock<'_>],
    asked: LockTime,
    kept_version: Option<u32>,
    next: NextBlock,
) -> Result<LockPlan, NoLockPlan> {
    let has_no_way = |input: &InputToLock<'_>| input.ways.is_some_and(<[_]>::is_empty);
    if let Some(input) = inputs.iter().position(has_no_way) {
        return Err(NoLockPlan::Unspendable { input });
    }
    let mut kept = inputs.iter().filter_map(|input| input.kept_sequence).peekable();
    let was_off = kept.peek().is_some() && kept.all(|sequence| sequence == FINAL);
    // A lock time that did not count must not begin to.
    let asked = if was_off { LockTime::Height(0) } else { asked };
    LockKind::possible(asked)
        .iter()
        .filter_map(|kind| plan_in(*kind, inputs, asked, kept_version, next))
        .min_by_key(|plan| wait(plan.valid_from, next))
        .ok_or(NoLockPlan::Mixed)
}

fn plan_in(
    kind: LockKind,
    inputs: &[InputToLock<'_>],
    asked: LockTime,
    kept_version: Option<u32>,
    next: NextBlock,
) -> Option<LockPlan> {
    let was_locking = kept_version.is_none_or(|version| version >= LOCKING_VERSION);
    let keeps = |input: &InputToLock<'_>, way: &SpendLocks| {
        let kept = input.kept_sequence.filter(|sequence| *sequence <= REPLACEABLE);
        kept.filter(|sequence| match (way.relative, relative_lock(*sequence)) {
            (None, _) => true,
            (Some(needed), Some(kept)) => was_locking && kept.implies(needed),
            (Some(_), None) => false,
        })
    };
    let mut chosen = Vec::with_capacity(inputs.len());
    let mut lock_time = asked;
    for input in inputs {
        let way = match input.ways {
            None => SpendLocks::default(),
            Some(ways) => *ways.iter().filter(|way| kind.fits(way)).min_by_key(|way| {
                let from = way.valid_from(input.age, next);
                (!from.is_met(next), keeps(input, way).is_none(), wait(from, next))
            })?,
        };
        lock_time = way.absolute.map_or(Some(lock_time), |absolute| lock_time.and(absolute))?;
        chosen.push(way);
    }
    let needs_lock = chosen.iter().any(|way| way.relative.is_some());
    let version = kept_version.filter(|kept| RELAYED_VERSIONS.contains(kept));
    let version =
        version.unwrap_or(LOCKING_VERSION).max(if needs_lock { LOCKING_VERSION } else { 0 });
    let is_locking = version >= LOCKING_VERSION;
    let mut valid_from = lock_time.valid_from();
    let mut sequences = Vec::with_capacity(inputs.len());
    for (input, way) in inputs.iter().zip(&chosen) {
        // A number that was no lock must not become one.
        let is_same = |kept: &u32| was_locking == is_locking || relative_lock(*kept).is_none();
        let kept = keeps(input, way).filter(is_same);
        let sequence = kept.unwrap_or_else(|| way.relative.map_or(REPLACEABLE, sequence_of));
        if is_locking {
            let locks = SpendLocks { relative: relative_lock(sequence), absolute: None };
            valid_from = valid_from.and(locks.valid_from(input.age, next));
        }
        sequences.push(sequence);
    }
    Some(LockPlan { version, lock_time, sequences, valid_from })
}

/// Orders by when a block may hold a transaction. A block comes every ten minutes.
fn wait(from: ValidFrom, next: NextBlock) -> (bool, u64, ValidFrom) {
    let blocks = from.height.map_or(0, |height| height.saturating_sub(next.height));
    let seconds = from.median_time.map_or(0, |time| time.saturating_sub(next.median_time));
    (!from.is_met(next), (u64::from(blocks) * 600).max(seconds.into()), from)
}

/// The sequence number that stands for a lock.
fn sequence_of(lock: RelativeLock) -> u32 {
    match lock {
        RelativeLock::Blocks(blocks) => blocks.into(),
        RelativeLock::Units(units) => BY_TIME | u32::from(units),
    }
}

/// The lock that a sequence number stands for.
fn relative_lock(sequence: u32) -> Option<RelativeLock> {
    let [_, _, high, low] = sequence.to_be_bytes();
    let number = u16::from_be_bytes([high, low]);
    match sequence {
        _ if sequence & DISABLED != 0 || number == 0 => None,
        _ if sequence & BY_TIME != 0 => Some(RelativeLock::Units(number)),
        _ => Some(RelativeLock::Blocks(number)),
    }
}

impl RelativeLock {
    /// Whether who keeps this lock keeps the other one too: they count in the same.
    fn implies(self, other: Self) -> bool {
        match (self, other) {
            (Self::Blocks(kept), Self::Blocks(needed))
            | (Self::Units(kept), Self::Units(needed)) => kept >= needed,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: NextBlock = NextBlock { height: 1_000, median_time: 1_700_000_000 };
    const AGE: Option<CoinAge> = Some(CoinAge { height: 900, time: Some(1_699_000_000) });
    const UNLOCKED: SpendLocks = SpendLocks { relative: None, absolute: None };

    fn older(lock: RelativeLock) -> SpendLocks {
        SpendLocks { relative: Some(lock), absolute: None }
    }

    fn after(number: u32) -> SpendLocks {
        SpendLocks { relative: None, absolute: Some(LockTime::from_number(number)) }
    }

    fn input(ways: &[SpendLocks]) -> InputToLock<'_> {
        InputToLock { ways: Some(ways), age: AGE, kept_sequence: None }
    }

    fn plan(inputs: &[InputToLock<'_>], asked: u32) -> Result<LockPlan, NoLockPlan> {
        plan_locks(inputs, LockTime::from_number(asked), None, NEXT)
    }

    #[test]
    fn heights_and_times_are_kept_apart_in_one_lock_time() {
        let (height, time) = ([after(700)], [after(1_600_000_000)]);
        let either = [after(1_600_000_000), after(990)];
        let mixed = plan(&[input(&height), input(&time)], 0);
        assert_eq!(mixed, Err(NoLockPlan::Mixed));
        assert_eq!(plan(&[input(&time)], 5), Err(NoLockPlan::Mixed), "a height was asked for");
        // Alone it would be spent by time.
        let by_height = plan(&[input(&height), input(&either)], 0).unwrap();
        assert_eq!(by_height.lock_time, LockTime::Height(990));
        let by_time = plan(&[input(&either), input(&time)], 0).unwrap();
        assert_eq!(by_time.lock_time, LockTime::Time(1_600_000_000));
        assert_eq!(plan(&[input(&[])], 0), Err(NoLockPlan::Unspendable { input: 0 }));
    }

    #[test]
    fn relative_locks_go_by_type_for_each_input() {
        let (blocks, units) = ([older(RelativeLock::Blocks(10))], [older(RelativeLock::Units(10))]);
        let planned = plan(&[input(&blocks), input(&units), input(&[UNLOCKED])], 0).unwrap();
        assert_eq!(planned.sequences, [10, sequence_of(RelativeLock::Units(10)), REPLACEABLE]);
        let from = ValidFrom { height: Some(910), median_time: Some(1_699_005_120) };
        assert_eq!((planned.version, planned.valid_from), (2, from));
    }

    /// A year by time is longer than a day by height.
    #[test]
    fn the_way_that_opens_first_is_taken_whatever_it_counts_in() {
        for ways in [
            [after(1_731_000_000), after(1_144)],
            [older(RelativeLock::Units(60_000)), older(RelativeLock::Blocks(244))],
        ] {
            let planned = plan(&[input(&ways)], 0).unwrap();
            assert_eq!(planned.valid_from.median_time, None, "{ways:?}");
            assert!(planned.valid_from.height.is_some_and(|height| height > 1_100));
        }
    }

    fn replaced(
        ways: &[SpendLocks],
        kept_sequence: u32,
        version: u32,
        lock_time: u32,
    ) -> (u32, u32, u32) {
        let old = InputToLock { kept_sequence: Some(kept_sequence), ..input(ways) };
        let lock_time = LockTime::from_number(lock_time);
        let plan = plan_locks(&[old], lock_time, Some(version), NEXT).unwrap();
        (plan.version, plan.sequences[0], plan.lock_time.number())
    }

    #[test]
    fn a_replacement_keeps_version_lock_time_and_sequences() {
        let ten = [older(RelativeLock::Blocks(10))];
        for (ways, sequence, version, lock_time) in [
            (&[UNLOCKED][..], 20, 2, 0),
            (&[UNLOCKED], sequence_of(RelativeLock::Units(7)), 2, 800),
            (&[UNLOCKED], 20, 1, 0),
            (&[UNLOCKED], REPLACEABLE, 3, 950),
            (&[UNLOCKED], 0, 2, 0),
            (&ten, 12, 3, 0),
        ] {
            let kept = replaced(ways, sequence, version, lock_time);
            assert_eq!(kept, (version, sequence, lock_time), "{ways:?}");
        }
        // What an input needs comes first.
        assert_eq!(replaced(&ten, 9, 2, 0), (2, 10, 0));
        assert_eq!(replaced(&ten, sequence_of(RelativeLock::Units(99)), 2, 0), (2, 10, 0));
        assert_eq!(replaced(&ten, 12, 1, 0), (2, 10, 0));
        // It may be replaced again, and no lock begins to count.
        assert_eq!(replaced(&[UNLOCKED], FINAL - 1, 2, 700), (2, REPLACEABLE, 700));
        assert_eq!(replaced(&[UNLOCKED], FINAL, 2, 5_000), (2, REPLACEABLE, 0));
        let was_no_lock = InputToLock { kept_sequence: Some(20), ..input(&[UNLOCKED]) };
        let plan = plan_locks(&[was_no_lock, input(&ten)], LockTime::Height(0), Some(1), NEXT);
        let plan = plan.unwrap();
        assert_eq!((plan.version, plan.sequences), (2, vec![REPLACEABLE, 10]));
    }

    #[test]
    fn a_kept_lock_counts_for_when_the_transaction_is_valid() {
        let old = InputToLock { kept_sequence: Some(200), ..input(&[UNLOCKED]) };
        let from = |version| {
            plan_locks(&[old], LockTime::Height(0), Some(version), NEXT).unwrap().valid_from
        };
        assert_eq!((from(2).height, from(1).height), (Some(1_100), None));
        let unknown = InputToLock { ways: None, ..old };
        let plan = plan_locks(&[unknown], LockTime::Height(0), Some(2), NEXT).unwrap();
        assert_eq!(plan.sequences, [200]);
    }

    #[test]
    fn coins_are_open_when_one_of_their_ways_is() {
        let open = |ways: &[SpendLocks], kind| OpenCoins::of(ways, kind, NEXT, false);
        let in_blocks = |height_max, time_max| OpenCoins::InBlocks { height_max, time_max };
        let (blocks, units) = (older(RelativeLock::Blocks(10)), older(RelativeLock::Units(2)));
        for kind in [LockKind::Height, LockKind::Time] {
            assert_eq!(open(&[UNLOCKED], kind), OpenCoins::All);
            assert_eq!(open(&[blocks], kind), in_blocks(Some(990), None));
            let both = in_blocks(Some(990), Some(1_699_998_976));
            assert_eq!(open(&[blocks, units], kind), both);
            assert_eq!(open(&[older(RelativeLock::Blocks(1_001))], kind), OpenCoins::NONE);
            assert_eq!(open(&[], kind), OpenCoins::NONE);
            assert_eq!(OpenCoins::of(&[], kind, NEXT, true), OpenCoins::NONE);
            assert_eq!(OpenCoins::of(&[blocks], kind, NEXT, true), OpenCoins::All);
        }
        assert_eq!(open(&[after(999)], LockKind::Height), OpenCoins::All);
        assert_eq!(open(&[after(1_000)], LockKind::Height), OpenCoins::NONE);
        assert_eq!(open(&[after(999)], LockKind::Time), OpenCoins::NONE, "not in one lock time");
        assert_eq!(open(&[after(1_699_999_999)], LockKind::Time), OpenCoins::All);
        assert_eq!(OpenCoins::of(&[after(5)], LockKind::Time, NEXT, true), OpenCoins::NONE);
    }
}
