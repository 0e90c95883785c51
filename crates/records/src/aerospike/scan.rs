//! Pages of indexes from a secondary index, which answers ranges in no order.
//!
//! Windows of scores are read from the lowest on, each sixteen times as wide as the one before, until
//! every page that was asked for is full. Of what comes in, a page keeps the first rows only, so that
//! memory is bounded by the pages; rows of one score and shard are always read as a whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, RangeInclusive},
    time::{Duration, Instant},
};

use ::aerospike::{
    Bins, CollectionIndexType, PartitionFilter, QueryPolicy, Record, Statement, Value,
    query::Filter,
};
use futures_util::StreamExt;

use super::{
    client::Cluster,
    encode::{ROWS, SCORES, entries},
    rows::{Row, STEP_MAX, places, step_of},
};
use crate::{
    error::RecordError,
    port::{IndexPage, SHARDS_MAX, ScanIndex},
};

/// Steps in the first window.
const FIRST_WINDOW: u64 = 16;
/// How much wider the next window is.
const GROWTH: u64 = 16;
/// Wait before a query that failed is sent again.
const RETRY_MS: u64 = 50;

/// Rows of one page so far: the first ones, up to its limit.
struct Page<'s> {
    scan: &'s ScanIndex,
    rows: BTreeSet<(u64, Vec<u8>)>,
}

impl Page<'_> {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.scan.limit
    }

    fn offer(&mut self, row: &Row) {
        let place = (row.score, row.member.clone());
        let is_behind = match &self.scan.from {
            Bound::Unbounded => true,
            Bound::Included(from) => place >= *from,
            Bound::Excluded(from) => place > *from,
        };
        if is_behind && row.score <= self.scan.until {
            self.rows.insert(place);
            if self.rows.len() > self.scan.limit {
                self.rows.pop_last();
            }
        }
    }
}

/// Pages of one index over the same scores.
struct Group<'s> {
    index: u8,
    steps: RangeInclusive<u64>,
    pages: BTreeMap<u16, Vec<(usize, Page<'s>)>>,
}

impl Group<'_> {
    fn shards(&self) -> RangeInclusive<u16> {
        let first = self.pages.first_key_value().map_or(0, |(shard, _)| *shard);
        first..=self.pages.last_key_value().map_or(0, |(shard, _)| *shard)
    }

    fn is_full(&self) -> bool {
        self.pages.values().flatten().all(|(_, page)| page.is_full())
    }

    fn offer(&mut self, row: &Row) {
        if row.index != self.index {
            return;
        }
        for (_, page) in self.pages.get_mut(&row.shard).into_iter().flatten() {
            page.offer(row);
        }
    }
}

/// Scans that one series of windows answers.
fn groups(scans: &[ScanIndex]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(u8, u64, u64, u16), Group<'_>> = BTreeMap::new();
    let mut last = None;
    let mut run = 0;
    for (number, scan) in scans.iter().enumerate() {
        let from = match &scan.from {
            Bound::Unbounded => 0,
            Bound::Included((score, _)) | Bound::Excluded((score, _)) => *score,
        };
        let (low, high) = (step_of(from), step_of(scan.until).min(STEP_MAX));
        // Of one score only neighbours are read together.
        let is_next = last.is_some_and(|last: u16| scan.shard == last || scan.shard == last + 1);
        if !is_next {
            run += 1;
        }
        last = Some(scan.shard);
        let key = (scan.index, low, high, if low == high { run } else { 0 });
        let group = groups.entry(key).or_insert_with(|| Group {
            index: scan.index,
            steps: low..=high,
            pages: BTreeMap::new(),
        });
        let page = Page { scan, rows: BTreeSet::new() };
        group.pages.entry(scan.shard).or_default().push((number, page));
    }
    groups.into_values().collect()
}

/// Answers all scans.
pub(super) async fn pages(
    cluster: &Cluster,
    scans: &[ScanIndex],
) -> Result<Vec<IndexPage>, RecordError> {
    let mut pages: Vec<IndexPage> = vec![Vec::new(); scans.len()];
    for mut group in groups(scans) {
        let (mut low, high) = (*group.steps.start(), *group.steps.end());
        let mut width = FIRST_WINDOW;
        while low <= high && !group.is_full() {
            let end = high.min(low.saturating_add(width - 1));
            let shards = if low == end { group.shards() } else { 0..=SHARDS_MAX - 1 };
            query(cluster, &places(group.index, &(low..=end), &shards), &mut group).await?;
            low = end + 1;
            width = width.saturating_mul(GROWTH);
        }
        for (number, page) in group.pages.into_values().flatten() {
            pages[number] = page.rows.into_iter().collect();
        }
    }
    Ok(pages)
}

/// One range of places, again where it failed. Rows that came in before count once.
async fn query(
    cluster: &Cluster,
    range: &RangeInclusive<i64>,
    group: &mut Group<'_>,
) -> Result<(), RecordError> {
    let until = Instant::now() + Duration::from_millis(cluster.options.retry_for_ms);
    loop {
        match query_once(cluster, range, group).await {
            Ok(()) => {
                cluster.set_trouble(None);
                return Ok(());
            }
            Err(error) => {
                let RecordError::Unavailable { what } = &error else { return Err(error) };
                cluster.set_trouble(Some(what.clone()));
                if Instant::now() >= until {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
            }
        }
    }
}

async fn query_once(
    cluster: &Cluster,
    range: &RangeInclusive<i64>,
    group: &mut Group<'_>,
) -> Result<(), RecordError> {
    let options = &cluster.options;
    let failed = |error: aerospike::Error| RecordError::Unavailable {
        what: format!("an index cannot be read: {error}"),
    };
    let bins = Bins::Some(vec![ROWS.to_owned(), SCORES.to_owned()]);
    let mut statement = Statement::new(options.namespace.as_str(), options.set.as_str(), bins);
    let in_values = CollectionIndexType::MapValues;
    statement.set_filter(Filter::contains_range(ROWS, *range.start(), *range.end(), in_values));
    let mut policy = QueryPolicy::default();
    policy.base_policy.socket_timeout =
        u32::try_from(options.command_timeout_ms).unwrap_or(u32::MAX);
    let found = cluster.client().query(&policy, PartitionFilter::all(), statement).await;
    let mut records = found.map_err(failed)?.into_stream();
    while let Some(record) = records.next().await {
        offer_all(record.map_err(failed)?, group)?;
    }
    Ok(())
}

/// Gives every row of a record to the pages that want it.
fn offer_all(mut record: Record, group: &mut Group<'_>) -> Result<(), RecordError> {
    let unreadable =
        || RecordError::Unavailable { what: "a row of an index is unreadable".to_owned() };
    let mut map = |bin: &str| {
        let value = record.bins.shift_remove(bin).unwrap_or(Value::Nil);
        entries(value).ok_or_else(unreadable)
    };
    let (rows, scores) = (map(ROWS)?, map(SCORES)?);
    for (key, place) in &rows {
        group.offer(&Row::of(key, place, &scores).ok_or_else(unreadable)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(shard: u16, from: Bound<(u64, Vec<u8>)>, until: u64, limit: usize) -> ScanIndex {
        ScanIndex { shard, index: 4, from, until, limit }
    }

    fn row(shard: u16, score: u64, member: &[u8]) -> Row {
        Row { index: 4, shard, score, member: member.to_vec() }
    }

    #[test]
    fn a_page_keeps_the_first_rows_in_whatever_order_they_come() {
        let scans = [scan(1, Bound::Excluded((5, b"b".to_vec())), 7, 2)];
        let mut group = groups(&scans).remove(0);
        for (score, member) in [(7, b"z"), (5, b"b"), (8, b"a"), (5, b"c"), (6, b"a"), (4, b"z")] {
            group.offer(&row(1, score, member));
            group.offer(&row(2, score, member));
        }
        let (_, page) = &group.pages[&1][0];
        assert!(group.is_full());
        let expected = [(5, b"c".to_vec()), (6, b"a".to_vec())];
        assert_eq!(page.rows.iter().cloned().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn shards_are_asked_together_where_they_are_one_range() {
        let all = |until| (0..8).map(move |shard| scan(shard, Bound::Unbounded, until, 1));
        let several: Vec<ScanIndex> = all(9).collect();
        assert_eq!(groups(&several).len(), 1);
        let one_score: Vec<ScanIndex> = all(0).filter(|scan| scan.shard != 4).collect();
        let found = groups(&one_score);
        let shards: Vec<_> = found.iter().map(Group::shards).collect();
        assert_eq!(shards, [0..=3, 5..=7]);
    }
}
