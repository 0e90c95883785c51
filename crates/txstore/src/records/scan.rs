//! Rows of an index over all shards, in one order and a page at a time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    ops::Bound,
};

use utxokeep_core::Txid;
use utxokeep_records::{IndexPage, SCAN_LIMIT_MAX, ScanIndex};

use super::{cells::Cells, layout::ALL};
use crate::error::StoreError;

/// Rows that are read of a shard at least.
const ROWS_MIN: usize = 16;

/// Shards that are asked at the same time in a walk, at most.
const SHARDS_AT_ONCE: u16 = 256;

/// Rows of one shard that were read and are not used yet.
struct Ahead {
    rows: VecDeque<(u64, Vec<u8>)>,
    /// The last row that was read, if there may be more.
    last: Option<(u64, Vec<u8>)>,
}

impl Ahead {
    fn new(page: IndexPage, limit: usize) -> Self {
        let last = page.last().filter(|_| page.len() == limit).cloned();
        Self { rows: page.into(), last }
    }
}

impl Cells {
    /// Rows of an index of all shards in the order of score and member, from `from` on, up to a
    /// score.
    pub(super) fn merged(
        &self,
        index: u8,
        from: &Bound<(u64, Vec<u8>)>,
        until: u64,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        let shards = self.layout.shards;
        let mut at_once = (limit / usize::from(shards) * 2).max(ROWS_MIN).min(limit);
        at_once = at_once.min(SCAN_LIMIT_MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let scan = |shard, from, limit| ScanIndex { shard, index, from, until, limit };
        let scans: Vec<_> = (0..shards).map(|shard| scan(shard, from.clone(), at_once)).collect();
        let pages = self.port.scan(&scans)?;
        let mut ahead: Vec<Ahead> =
            pages.into_iter().map(|page| Ahead::new(page, at_once)).collect();
        let mut first = BinaryHeap::with_capacity(ahead.len());
        for (shard, ahead) in (0u16..).zip(&mut ahead) {
            first.extend(ahead.rows.pop_front().map(|row| Reverse((row, shard))));
        }
        let mut found = Vec::with_capacity(limit.min(SCAN_LIMIT_MAX));
        while let Some(Reverse((row, shard))) = first.pop() {
            found.push(row);
            if found.len() == limit {
                break;
            }
            let next = &mut ahead[usize::from(shard)];
            if next.rows.is_empty()
                && let Some(last) = next.last.take()
            {
                at_once = (at_once * 2).min(SCAN_LIMIT_MAX);
                let page = self.port.scan(&[scan(shard, Bound::Excluded(last), at_once)])?;
                *next = Ahead::new(page.into_iter().next().unwrap_or_default(), at_once);
            }
            first.extend(next.rows.pop_front().map(|row| Reverse((row, shard))));
        }
        Ok(found)
    }

    /// Transactions in the order of their ids: shard after shard. More shards are asked at once the
    /// less is found in them.
    pub(super) fn walk(&self, after: Option<&Txid>, limit: usize) -> Result<Vec<Txid>, StoreError> {
        let mut found = Vec::new();
        let mut shard = after.map_or(0, |txid| self.layout.shard_of(txid));
        let mut from =
            after.map_or(Bound::Unbounded, |txid| Bound::Excluded((0, txid.as_bytes().to_vec())));
        let mut at_once = 1;
        while found.len() < limit && shard < self.layout.shards {
            let rows = (limit - found.len()).min(SCAN_LIMIT_MAX);
            let end = shard.saturating_add(at_once).min(self.layout.shards);
            let scans: Vec<_> = (shard..end)
                .map(|shard| ScanIndex {
                    shard,
                    index: ALL,
                    from: std::mem::replace(&mut from, Bound::Unbounded),
                    until: 0,
                    limit: rows,
                })
                .collect();
            for (asked, page) in (shard..end).zip(self.port.scan(&scans)?) {
                let is_full = page.len() == rows;
                shard = asked + 1;
                for (_, member) in page {
                    found.extend(Txid::from_slice(&member));
                    from = Bound::Excluded((0, member));
                }
                if is_full {
                    shard = asked;
                    break;
                }
                from = Bound::Unbounded;
            }
            at_once = at_once.saturating_mul(2).min(SHARDS_AT_ONCE);
        }
        found.truncate(limit);
        Ok(found)
    }
}
