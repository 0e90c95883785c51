//! About how much a store holds, from a bounded part of it. For gauges, which are asked again and
//! again: the work is the same however large the store is.

use utxokeep_core::{
    Txid,
    node::{HeightIndex, Heights},
};

use crate::{check::read_each, engine::NodeStore, error::StoreError};

/// Records that are looked at. With so many an estimate is mostly within a tenth.
const RECORDS: usize = 1_000;

/// Due records that are counted; more are not told apart.
const DUE_MAX: usize = 10_000;

/// How many of something there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// The number.
    pub count: u64,
    /// It was counted. Otherwise it is an estimate, or the most that is counted.
    pub is_exact: bool,
}

/// About how much a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Records.
    pub records: Amount,
    /// Records that are past due at the newest height, up to 10,000 of them.
    pub due: Amount,
    /// Bodies in files of the blob store.
    pub files: Amount,
    /// What the tables take on disk, where the engine tells; without files of bodies.
    pub bytes: Option<u64>,
}

impl NodeStore {
    pub(crate) fn take_sample(&self) -> Result<Sample, StoreError> {
        let (records, due, files) = self.read(|facts| {
            let page = facts.view.txids_after(None, RECORDS)?;
            let records = extrapolate(&page);
            let found = read_each(&page, &|ids| facts.view.records(ids));
            let in_files = found.into_iter().filter(|record| {
                record
                    .as_ref()
                    .is_ok_and(|record| record.as_ref().is_some_and(|record| record.blob.is_some()))
            });
            let files = share(records, in_files.count(), page.len());
            let newest = Heights::read(facts.view)?.newest().unwrap_or_default();
            let due = facts.view.by_height(HeightIndex::Due, newest, None, DUE_MAX)?.len();
            let due = Amount { count: due as u64, is_exact: due < DUE_MAX };
            Ok((records, due, files))
        })?;
        Ok(Sample { records, due, files, bytes: self.backend.disk_bytes()? })
    }
}

/// How many there are, of the first of them in order. Ids are hashes, and so lie evenly: if the first
/// thousand take a hundredth of all possible ids, there are about a hundred thousand.
fn extrapolate(first: &[Txid]) -> Amount {
    let Some(last) = first.last().filter(|_| first.len() >= RECORDS) else {
        return Amount { count: first.len() as u64, is_exact: true };
    };
    let (start, _) = last.as_bytes().split_first_chunk::<8>().expect("an id has 32 bytes");
    let taken = u128::from(u64::from_be_bytes(*start)) + 1;
    let count = (first.len() as u128) << 64;
    let count = u64::try_from(count / taken).unwrap_or(u64::MAX);
    Amount { count, is_exact: false }
}

/// As many of all as there are among those that were looked at.
fn share(all: Amount, found: usize, looked_at: usize) -> Amount {
    let count = u128::from(all.count) * found as u128 / (looked_at as u128).max(1);
    Amount { count: u64::try_from(count).unwrap_or(u64::MAX), is_exact: all.is_exact }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::node::utxo_hash;

    use super::*;

    #[test]
    fn few_are_counted_and_many_estimated() {
        let zero = Txid::from_bytes([0; 32]);
        let hashed = |number: u32| Txid::from_bytes(utxo_hash(&zero, number, &[], 0));
        assert_eq!(extrapolate(&[]), Amount { count: 0, is_exact: true });
        for many in [999, 1_000, 5_000, 100_000] {
            let mut ids: Vec<Txid> = (0..many).map(hashed).collect();
            ids.sort_unstable();
            ids.truncate(RECORDS);
            let found = extrapolate(&ids);
            assert_eq!(found.is_exact, many < 1_000);
            let difference = found.count.abs_diff(u64::from(many));
            assert!(difference <= u64::from(many) / 10, "{many}: {found:?}");
        }
    }

    #[test]
    fn ids_that_nobody_hashed_never_overflow() {
        let lowest = vec![Txid::from_bytes([0; 32]); RECORDS];
        assert_eq!(extrapolate(&lowest), Amount { count: u64::MAX, is_exact: false });
        let all = Amount { count: u64::MAX, is_exact: false };
        assert_eq!(share(all, RECORDS, RECORDS).count, u64::MAX);
        assert_eq!(share(Amount::default(), 0, 0).count, 0);
    }
}
