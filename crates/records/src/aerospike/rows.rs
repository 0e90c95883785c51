//! Rows of indexes as numbers that a secondary index can keep.
//!
//! A row is an entry of the map in the bin [`super::encode::ROWS`]: its key is the number of the index
//! and the member, its value a *place*, and the values are what the secondary index orders. A place
//! has the number of the index, the score and the shard, in this order: all shards of one range of
//! scores are one range of places, and so are some shards of one score.
//!
//! Scores from 2³³ on are only in steps there; a second map has them exactly.

use std::ops::RangeInclusive;

use ::aerospike::Value;

use crate::{error::RecordError, port::SCORE_MAX};

/// Indexes that fit a place.
pub(super) const INDEXES: u8 = 16;
/// Scores below are kept exactly in a place.
const EXACT: u64 = 1 << 33;
/// Greater ones lose so many bits.
const STEP_BITS: u32 = 20;
const SCORE_BITS: u32 = 34;
const SHARD_BITS: u32 = 14;

/// The score as it is in a place: greater scores have no smaller step.
pub(super) const fn step_of(score: u64) -> u64 {
    if score < EXACT { score } else { EXACT + (score >> STEP_BITS) }
}

/// The greatest step.
pub(super) const STEP_MAX: u64 = step_of(SCORE_MAX);

/// Whether a place has all of a score.
pub(super) const fn is_exact(score: u64) -> bool {
    score < EXACT
}

/// The place of a row.
pub(super) fn place(index: u8, step: u64, shard: u16) -> i64 {
    let place = (u64::from(index) << SCORE_BITS | step) << SHARD_BITS | u64::from(shard);
    i64::try_from(place).expect("it has 52 bits")
}

/// Steps and shards of one index as a range of places, and the rows in it that are not asked for
/// besides. Several steps have all their shards.
pub(super) fn places(
    index: u8,
    steps: &RangeInclusive<u64>,
    shards: &RangeInclusive<u16>,
) -> RangeInclusive<i64> {
    place(index, *steps.start(), *shards.start())..=place(index, *steps.end(), *shards.end())
}

/// Index, step and shard of a place.
pub(super) fn parts(place: i64) -> Option<(u8, u64, u16)> {
    let place = u64::try_from(place).ok()?;
    let shard = u16::try_from(place & ((1 << SHARD_BITS) - 1)).ok()?;
    let step = (place >> SHARD_BITS) & ((1 << SCORE_BITS) - 1);
    Some((u8::try_from(place >> (SHARD_BITS + SCORE_BITS)).ok()?, step, shard))
}

/// Key of a row in the maps of its record.
pub(super) fn row_key(index: u8, member: &[u8]) -> Value {
    Value::Blob([&[index], member].concat())
}

/// The number of an index, if it fits.
pub(super) fn checked(index: u8) -> Result<u8, RecordError> {
    if index < INDEXES {
        return Ok(index);
    }
    Err(RecordError::usage(format!("index {index}: on Aerospike there are {INDEXES}")))
}

/// A row as a record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) index: u8,
    pub(super) shard: u16,
    pub(super) score: u64,
    pub(super) member: Vec<u8>,
}

impl Row {
    /// An entry of the map of rows; `exact` has the scores that do not fit it.
    pub(super) fn of(key: &Value, place: &Value, exact: &[(Value, Value)]) -> Option<Self> {
        let (Value::Blob(name), Value::Int(place)) = (key, place) else { return None };
        let (index, step, shard) = parts(*place)?;
        let (of, member) = name.split_first()?;
        let score = if step < EXACT {
            step
        } else {
            let (_, score) = exact.iter().find(|(found, _)| found == key)?;
            let Value::Int(score) = score else { return None };
            u64::try_from(*score).ok()?
        };
        let row = Self { index, shard, score, member: member.to_vec() };
        (*of == index && step_of(score) == step).then_some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_pinned_and_ordered_by_index_score_and_shard() {
        assert_eq!(place(0, 0, 0), 0);
        assert_eq!(place(1, 2, 3), (1 << 48) | (2 << 14) | 3);
        let ordered = [
            place(0, step_of(0), 16_383),
            place(0, step_of(1), 0),
            place(0, step_of(EXACT - 1), 7),
            place(0, step_of(EXACT), 7),
            place(0, step_of(1_800_000_000_000), 0),
            place(0, step_of(SCORE_MAX), 16_383),
            place(1, step_of(0), 0),
            place(15, step_of(SCORE_MAX), 16_383),
        ];
        assert!(ordered.is_sorted_by(|a, b| a < b), "{ordered:?}");
        assert_eq!(parts(place(5, 840_000, 1_023)), Some((5, 840_000, 1_023)));
        assert_eq!(parts(-1), None);
    }

    #[test]
    fn a_row_is_read_back_with_its_score_or_not_at_all() {
        let key = row_key(6, b"call");
        for score in [0, 840_000, EXACT - 1, EXACT, 1_800_000_000_123, SCORE_MAX] {
            let at = Value::Int(place(6, step_of(score), 9));
            let exact = [(key.clone(), Value::Int(i64::try_from(score).unwrap()))];
            let row = Row::of(&key, &at, if is_exact(score) { &[] } else { &exact }).unwrap();
            assert_eq!(
                (row.index, row.shard, row.score, &row.member[..]),
                (6, 9, score, &b"call"[..])
            );
        }
        let at = Value::Int(place(6, step_of(EXACT), 9));
        assert_eq!(Row::of(&key, &at, &[]), None, "its score is missing");
        let other = Value::Int(place(7, 1, 9));
        assert_eq!(Row::of(&key, &other, &[]), None, "another index");
    }
}
