//! Which leaf an output has: a few bytes for each transaction, found by what its record says.
//!
//! A record names the height of its block, its transaction's place in it, and its own index. A row
//! says which leaves the outputs of up to 32 neighbouring transactions of a block took, so that a
//! block writes a few dozen small rows, and a spend reads one.

use std::ops::Range;

use crate::{Corrupt, Height, StoredKey};

/// Transactions that share a row.
const TXS_PER_ROW: u32 = 32;
/// In the first byte of a transaction: its outputs with leaves are not the first ones.
const HAS_GAPS: u8 = 0x80;

/// Names a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceKey {
    /// Height of the block.
    pub height: Height,
    /// Which transactions of it.
    pub group: u32,
}

impl PlaceKey {
    /// The row of the outputs of one transaction.
    #[must_use]
    pub const fn of(height: Height, tx_index: u32) -> Self {
        Self { height, group: tx_index / TXS_PER_ROW }
    }
}

impl StoredKey for PlaceKey {
    type Bytes<'k> = [u8; 8];
    type Read = Self;

    fn key_bytes(&self) -> [u8; 8] {
        let mut key = [0; 8];
        key[..4].copy_from_slice(&self.height.to_key());
        key[4..].copy_from_slice(&self.group.to_be_bytes());
        key
    }

    fn read_key(bytes: &[u8]) -> Option<Self> {
        let (height, group) = bytes.split_at_checked(4)?;
        let group = u32::from_be_bytes(group.try_into().ok()?);
        Some(Self { height: Height::from_key(height)?, group })
    }
}

/// The rows of a block, written output by output in the order of the block.
#[derive(Debug)]
pub struct PlaceRows {
    height: Height,
    next_leaf: u64,
    rows: Vec<(PlaceKey, Vec<u8>)>,
    /// The transaction whose outputs come, and the indexes of those that came.
    tx: Option<(u32, Vec<u32>)>,
}

impl PlaceRows {
    /// Rows of the block at `height`, whose first output with a leaf has the leaf `first_leaf`.
    #[must_use]
    pub const fn new(height: Height, first_leaf: u64) -> Self {
        Self { height, next_leaf: first_leaf, rows: Vec::new(), tx: None }
    }

    /// Gives the next leaf to an output.
    pub fn push(&mut self, tx_index: u32, output_index: u32) {
        if self.tx.as_ref().is_none_or(|(open, _)| *open != tx_index) {
            self.close_tx();
            self.tx = Some((tx_index, Vec::new()));
        }
        if let Some((_, indexes)) = &mut self.tx {
            indexes.push(output_index);
        }
    }

    fn close_tx(&mut self) {
        let Some((tx_index, indexes)) = self.tx.take() else { return };
        let key = PlaceKey::of(self.height, tx_index);
        if self.rows.last().is_none_or(|(last, _)| *last != key) {
            self.rows.push((key, self.next_leaf.to_be_bytes().to_vec()));
        }
        self.next_leaf += indexes.len() as u64;
        let Some((_, row)) = self.rows.last_mut() else { return };
        let has_gaps = (0..).zip(&indexes).any(|(at, index)| at != *index);
        let place = u8::try_from(tx_index % TXS_PER_ROW).expect("there are 32 to a row");
        row.push(if has_gaps { place | HAS_GAPS } else { place });
        put_varint(row, indexes.len() as u64);
        if has_gaps {
            let mut expected = 0;
            for index in indexes {
                put_varint(row, u64::from(index.wrapping_sub(expected)));
                expected = index.wrapping_add(1);
            }
        }
    }

    /// The rows, in order of their keys.
    #[must_use]
    pub fn finish(mut self) -> Vec<(PlaceKey, Vec<u8>)> {
        self.close_tx();
        self.rows
    }
}

/// The leaf of an output, from its row; `None` when the row does not list it.
pub fn find_leaf(row: &[u8], tx_index: u32, output_index: u32) -> Result<Option<u64>, Corrupt> {
    let wrong = || Corrupt::new("leaf numbers", "the row ends early");
    let (first, mut rest) = row.split_first_chunk::<8>().ok_or_else(wrong)?;
    let mut leaf = u64::from_be_bytes(*first);
    while let Some((&place, after)) = rest.split_first() {
        rest = after;
        let count = take_varint(&mut rest).ok_or_else(wrong)?;
        let is_asked = u32::from(place & !HAS_GAPS) == tx_index % TXS_PER_ROW;
        if place & HAS_GAPS == 0 {
            if is_asked {
                let index = u64::from(output_index);
                let found = leaf.checked_add(index).ok_or_else(wrong)?;
                return Ok((index < count).then_some(found));
            }
        } else {
            let mut expected = 0u32;
            for at in 0..count {
                let gap = take_varint(&mut rest).ok_or_else(wrong)?;
                let gap = u32::try_from(gap).map_err(|_| wrong())?;
                let index = expected.wrapping_add(gap);
                expected = index.wrapping_add(1);
                if is_asked && index == output_index {
                    return leaf.checked_add(at).map(Some).ok_or_else(wrong);
                }
            }
            if is_asked {
                return Ok(None);
            }
        }
        leaf = leaf.checked_add(count).ok_or_else(wrong)?;
    }
    Ok(None)
}

/// The leaves of a row, once all of it makes sense: its transactions ascend, and each has outputs.
pub fn leaves_of_row(row: &[u8]) -> Result<Range<u64>, Corrupt> {
    let wrong = |detail| Corrupt::new("leaf numbers", detail);
    let (first, mut rest) =
        row.split_first_chunk::<8>().ok_or_else(|| wrong("the row ends early"))?;
    let first = u64::from_be_bytes(*first);
    let (mut end, mut next_place) = (first, 0);
    while let Some((&head, after)) = rest.split_first() {
        rest = after;
        let place = u32::from(head & !HAS_GAPS);
        if place < next_place || place >= TXS_PER_ROW {
            return Err(wrong("its transactions are out of order"));
        }
        next_place = place + 1;
        let count = take_varint(&mut rest).ok_or_else(|| wrong("the row ends early"))?;
        if head & HAS_GAPS != 0 {
            for _ in 0..count {
                let gap = take_varint(&mut rest).ok_or_else(|| wrong("the row ends early"))?;
                u32::try_from(gap).map_err(|_| wrong("an output index has more than 32 bits"))?;
            }
        }
        end = end.checked_add(count).filter(|_| count > 0).ok_or_else(|| wrong("no such count"))?;
    }
    if end == first { Err(wrong("the row has no leaf")) } else { Ok(first..end) }
}

/// Seven bits to a byte, the lowest first; the highest bit says that more follow.
fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_be_bytes()[7] | 0x80);
        value >>= 7;
    }
    out.push(value.to_be_bytes()[7]);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_finds_the_leaf_it_was_given_and_no_other_does() {
        let given = [
            (0, vec![0]),
            (1, vec![0, 1, 2]),
            (5, vec![1, 2, 300]),
            (31, vec![7]),
            (32, vec![0, 1]),
            (40, (0..200).collect()),
            (200, vec![u32::MAX]),
        ];
        let height = Height::new(9);
        let mut rows = PlaceRows::new(height, 1_000);
        let mut expected = Vec::new();
        for (tx, indexes) in &given {
            for index in indexes {
                rows.push(*tx, *index);
                expected.push((*tx, *index));
            }
        }
        let rows = rows.finish();
        assert_eq!(rows.len(), 3);
        let find = |tx, index| {
            let row = rows.iter().find(|(key, _)| *key == PlaceKey::of(height, tx));
            row.and_then(|(_, row)| find_leaf(row, tx, index).unwrap())
        };
        for (leaf, (tx, index)) in (1_000..).zip(&expected) {
            assert_eq!(find(*tx, *index), Some(leaf));
        }
        for (tx, index) in [(0, 1), (1, 3), (2, 0), (5, 0), (5, 3), (40, 200), (64, 0), (200, 0)] {
            assert_eq!(find(tx, index), None, "{tx} {index}");
        }
    }

    #[test]
    fn rows_are_pinned_and_a_cut_one_is_an_error_or_lacks_the_output() {
        let mut rows = PlaceRows::new(Height::new(1), 5);
        for (tx, index) in [(0, 0), (0, 1), (3, 2), (3, 200)] {
            rows.push(tx, index);
        }
        let rows = rows.finish();
        let row = &rows[0].1;
        assert_eq!(crate::hex_encode(row), "0000000000000005000283".to_owned() + "0202c501");
        assert_eq!(crate::hex_encode(&rows[0].0.key_bytes()), "0000000100000000");
        for cut in 0..row.len() {
            assert!(!matches!(find_leaf(&row[..cut], 3, 200), Ok(Some(_))), "{cut}");
        }
    }

    #[test]
    fn the_leaves_of_a_row_are_those_it_gives_and_a_damaged_row_is_an_error() {
        let mut rows = PlaceRows::new(Height::new(1), 5);
        for (tx, index) in [(0, 0), (0, 1), (3, 2), (3, 200)] {
            rows.push(tx, index);
        }
        let row = rows.finish().remove(0).1;
        assert_eq!(leaves_of_row(&row), Ok(5..9));
        for cut in (0..row.len()).filter(|cut| *cut != 10) {
            assert!(leaves_of_row(&row[..cut]).is_err(), "{cut}");
        }
        // Behind the first transaction another row could end; what follows it tells.
        assert_eq!(leaves_of_row(&row[..10]), Ok(5..7));
        for (at, byte) in [(8, 4), (9, 0), (9, 0xff), (10, 0x80), (10, 0x3f), (11, 0), (11, 3)] {
            let mut other = row.clone();
            other[at] = byte;
            assert_ne!(leaves_of_row(&other), Ok(5..9), "byte {at}");
        }
        let mut last = row.clone();
        last[..8].fill(0xff);
        assert!(leaves_of_row(&last).is_err());
        assert!(find_leaf(&last, 0, 1).is_err() && find_leaf(&last, 3, 200).is_err());
    }
}
