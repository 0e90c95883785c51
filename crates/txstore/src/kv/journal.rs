//! The journal of settled transactions: which of them settled at a height, and which do not any
//! more, in the order in which that happened.
//!
//! Every commit that changes the settled height of a record says so in the same batch, in one row
//! for each height and direction. Replayed, the rows of a height give the transactions that are
//! settled at it. Any number of the oldest rows may be missing: that only makes fewer of them.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use utxokeep_core::{
    Corrupt, Encoded, Height, StoreAs, StoredKey as _, StoredValue, Txid,
    node::{ChangeSet, TxRecord},
};
use utxokeep_kv::{Batch, RowKey};

use crate::tables::SETTLED;

/// Height of a row, and how many transactions it says that settled there; `None` for others.
pub(super) fn joined_in(
    key: &RowKey<'_, (Height, u64)>,
    row: Encoded<'_, SettledRow>,
) -> Option<(Height, usize)> {
    let (height, _) = key.bytes().split_at_checked(4)?;
    let (kind, txids) = row.bytes().split_first()?;
    (*kind == JOINED).then_some((Height::from_key(height)?, txids.len() / TXID_LEN))
}

/// Transactions that settled at a height, or that are not settled there any more.
#[derive(Debug)]
pub struct SettledRow {
    kind: u8,
    txids: Vec<Txid>,
}

impl StoredValue for SettledRow {
    type Read<'v> = Self;

    fn read_value(bytes: &[u8]) -> Result<Self, Corrupt> {
        let damaged = || Corrupt::new("journal", "a row is damaged");
        let (kind, txids) = bytes.split_first().ok_or_else(damaged)?;
        if txids.len() % TXID_LEN != 0 || ![JOINED, LEFT].contains(kind) {
            return Err(damaged());
        }
        let txids = txids.chunks_exact(TXID_LEN).filter_map(Txid::from_slice).collect();
        Ok(Self { kind: *kind, txids })
    }
}

impl StoreAs<SettledRow> for (u8, &Vec<Txid>) {
    fn write_value(&self, out: &mut Vec<u8>) {
        out.push(self.0);
        for txid in self.1 {
            out.extend_from_slice(txid.as_bytes());
        }
    }
}

/// First byte of a row: its transactions settled at the height.
const JOINED: u8 = 1;
/// They were, and are not any more.
const LEFT: u8 = 2;

const TXID_LEN: usize = 32;

/// What a commit changes in what is settled, by height.
#[derive(Debug, Default)]
pub(super) struct Shift {
    joined: BTreeMap<Height, Vec<Txid>>,
    left: BTreeMap<Height, Vec<Txid>>,
}

impl Shift {
    pub(super) fn of(writes: &ChangeSet) -> Self {
        let mut shift = Self::default();
        let settled =
            |record: &Option<TxRecord>| record.as_ref().and_then(TxRecord::settled_height);
        for (txid, before, now) in &writes.records {
            let (old, new) = (settled(before), settled(now));
            if old == new {
                continue;
            }
            if let Some(old) = old {
                shift.left.entry(old).or_default().push(*txid);
            }
            if let Some(new) = new {
                shift.joined.entry(new).or_default().push(*txid);
            }
        }
        shift
    }

    /// Transactions that settle, by height.
    pub(super) const fn joined(&self) -> &BTreeMap<Height, Vec<Txid>> {
        &self.joined
    }

    /// Transactions that are not settled any more at the height they were.
    pub(super) const fn left(&self) -> &BTreeMap<Height, Vec<Txid>> {
        &self.left
    }

    /// Puts the rows for heights from `floor` on into a batch, with numbers from `number`.
    pub(super) fn put_rows(
        &self,
        batch: &mut Batch,
        floor: Height,
        writes_left: bool,
        mut number: impl FnMut() -> u64,
    ) {
        for (kind, rows) in [(LEFT, &self.left), (JOINED, &self.joined)] {
            for (height, txids) in rows.range(floor..).filter(|_| kind == JOINED || writes_left) {
                SETTLED.put(batch, &(*height, number()), &(kind, txids));
            }
        }
    }
}

/// The bytes of a key, where a range begins or ends.
pub(super) fn key(height: Height, number: u64) -> [u8; 12] {
    (height, number).key_bytes()
}

/// Goes through rows from the newest to the oldest of each height, highest height first, and tells
/// which transactions are settled. It may stop anywhere: what it told is so.
#[derive(Debug, Default)]
pub(super) struct Replay {
    height: Option<Height>,
    /// Left the present height in a newer row.
    left: FxHashSet<Txid>,
}

impl Replay {
    /// Takes a row; answers its height, or `None` if it is damaged. Rows below a damaged one cannot
    /// be used: it may have said that somebody left.
    pub(super) fn take(
        &mut self,
        key: Option<(Height, u64)>,
        row: Result<SettledRow, Corrupt>,
        mut settled: impl FnMut(Txid, Height),
    ) -> Option<Height> {
        let ((height, _), SettledRow { kind, txids }) = (key?, row.ok()?);
        if self.height != Some(height) {
            self.height = Some(height);
            self.left.clear();
        }
        for txid in txids {
            if kind == LEFT {
                self.left.insert(txid);
            } else if self.left.is_empty() || !self.left.contains(&txid) {
                settled(txid, height);
            }
        }
        Some(height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: u8) -> Txid {
        Txid::from_bytes([name; 32])
    }

    fn row(kind: u8, names: &[u8]) -> Vec<u8> {
        let mut value = vec![kind];
        value.extend(names.iter().flat_map(|name| [*name; 32]));
        value
    }

    /// Newest row first, as they are read.
    fn replayed(rows: &[(u32, u64, Vec<u8>)]) -> (Vec<(u8, u32)>, bool) {
        let (mut replay, mut found) = (Replay::default(), BTreeMap::new());
        let is_whole = rows.iter().all(|(height, number, value)| {
            let key = Some((Height::new(*height), *number));
            let row = replay.take(key, SettledRow::read_value(value), |txid, height| {
                found.entry(txid.as_bytes()[0]).or_insert(height.get());
            });
            row.is_some()
        });
        (found.into_iter().collect(), is_whole)
    }

    #[test]
    fn rows_are_pinned() {
        assert_eq!(key(Height::new(258), 3), [0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        let mut shift = Shift::default();
        shift.left.insert(Height::new(7), vec![id(9)]);
        shift.joined.insert(Height::new(8), vec![id(9), id(10)]);
        let (mut batch, mut number) = (Batch::new(), 40);
        shift.put_rows(&mut batch, Height::new(7), true, || {
            number += 1;
            number
        });
        let rows: Vec<_> = batch.rows().map(|row| (row.key.to_vec(), row.value)).collect();
        let (left, joined) = (row(LEFT, &[9]), row(JOINED, &[9, 10]));
        assert_eq!(
            rows,
            [
                (key(Height::new(7), 41).to_vec(), Some(left.as_slice())),
                (key(Height::new(8), 42).to_vec(), Some(joined.as_slice())),
            ]
        );
        let mut above = Batch::new();
        shift.put_rows(&mut above, Height::new(8), true, || 1);
        assert_eq!(above.len(), 1, "nobody reads below the floor");
    }

    #[test]
    fn who_left_is_not_settled_unless_it_came_back() {
        let rows = |kinds: &[(u32, u8)]| -> Vec<_> {
            let numbered = (0..).zip(kinds);
            let mut rows: Vec<_> = numbered
                .map(|(number, (height, kind))| (*height, number, row(*kind, &[5])))
                .collect();
            rows.sort_by_key(|(height, number, _)| std::cmp::Reverse((*height, *number)));
            rows
        };
        assert_eq!(replayed(&rows(&[(10, JOINED)])).0, [(5, 10)]);
        assert_eq!(replayed(&rows(&[(10, JOINED), (10, LEFT)])).0, []);
        assert_eq!(replayed(&rows(&[(10, JOINED), (10, LEFT), (10, JOINED)])).0, [(5, 10)]);
        assert_eq!(replayed(&rows(&[(10, JOINED), (10, LEFT), (12, JOINED)])).0, [(5, 12)]);
        assert_eq!(replayed(&rows(&[(10, LEFT), (12, JOINED)])).0, [(5, 12)], "oldest row trimmed");
    }

    #[test]
    fn a_damaged_row_ends_what_can_be_told() {
        for damaged in [vec![], row(9, &[6]), row(LEFT, &[6])[..32].to_vec()] {
            let rows = [(10, 3, row(JOINED, &[5])), (10, 2, damaged), (10, 1, row(JOINED, &[6]))];
            assert_eq!(replayed(&rows), (vec![(5, 10)], false));
        }
    }
}
