//! What is known in memory, within its limit, and who waits for whom.

#![allow(clippy::unwrap_used, reason = "tests")]

use utxokeep_core::node::{ChangeSet, MinedBlock, TxRecord, decode_record};
use utxokeep_kv::MemoryKv;

use super::*;
use crate::TABLES;

fn id(name: u32) -> Txid {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&name.to_be_bytes());
    Txid::from_bytes(bytes)
}

/// A record of no interest, in the block of a height.
fn settled(height: u32) -> TxRecord {
    let empty = [0xa5, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0];
    let block = MinedBlock { id: height, height: Height::new(height), subtree: 0 };
    TxRecord { blocks: vec![block], ..decode_record(&empty).unwrap() }
}

/// A commit in which records go from one settled height to another.
fn shift(changes: &[(u32, Option<u32>, Option<u32>)]) -> Shift {
    let record = |&(name, old, new): &(u32, Option<u32>, Option<u32>)| {
        (id(name), old.map(settled), new.map(settled))
    };
    let records = changes.iter().map(record).collect();
    Shift::of(&ChangeSet { records, ..ChangeSet::default() })
}

fn open(kv: &MemoryKv, window_blocks: u32) -> Proofs {
    Proofs::open(kv, window_blocks, BYTES_MAX, Planted::default()).unwrap()
}

struct ProofCase {
    kv: MemoryKv,
    proofs: Proofs,
}

impl ProofCase {
    fn new() -> Self {
        let kv = MemoryKv::new(TABLES);
        let proofs = open(&kv, 12);
        Self { kv, proofs }
    }

    fn reopen(&mut self) {
        self.proofs = open(&self.kv, 12);
    }

    fn commit(&self, changes: &[(u32, Option<u32>, Option<u32>)], relied_on: Option<u64>) -> bool {
        let (shift, mut batch) = (shift(changes), Batch::new());
        self.proofs.journal(&shift, &mut batch);
        let commit = || Ok(self.kv.commit(batch, Durability::Buffered)?);
        let is_done = self.proofs.commit(&shift, false, relied_on, commit).unwrap();
        if is_done {
            self.proofs.written(&shift);
        }
        is_done
    }

    fn known(&self, until: u32, names: &[u32]) -> Vec<Option<u32>> {
        self.proofs.load(&self.kv, Height::new(until)).unwrap();
        let txids: Vec<Txid> = names.iter().map(|name| id(*name)).collect();
        self.proofs.settled(&txids).iter().map(|h| h.map(Height::get)).collect()
    }

    fn rows(&self) -> usize {
        SETTLED.scan(&self.kv, &everything(), |_, _| true).unwrap()
    }
}

#[test]
fn what_is_known_is_what_the_journal_says_also_after_reopening() {
    let mut place = ProofCase::new();
    place.commit(&[(1, None, Some(10)), (2, None, Some(10)), (3, None, Some(11))], None);
    place.commit(&[(1, Some(10), None)], None);
    assert_eq!(place.known(10, &[1, 2, 3]), [None, Some(10), None], "11 is not asked about");
    assert_eq!(place.known(11, &[1, 2, 3]), [None, Some(10), Some(11)]);
    place.reopen();
    place.commit(&[(2, Some(10), Some(12)), (1, None, Some(10))], None);
    for _ in 0..2 {
        assert_eq!(place.known(12, &[1, 2, 3]), [Some(10), Some(12), Some(11)]);
        place.reopen();
    }
}

#[test]
fn who_relied_on_somebody_that_left_is_told() {
    let place = ProofCase::new();
    place.commit(&[(1, None, Some(10)), (2, None, Some(50))], None);
    assert_eq!(place.known(20, &[1]), [Some(10)]);
    let state = place.proofs.state();
    assert!(place.commit(&[(2, Some(50), None)], None));
    assert!(place.commit(&[(9, None, Some(20))], Some(state)), "nobody relied on 50");
    assert!(place.commit(&[(1, Some(10), None)], None));
    assert_eq!(place.known(20, &[1]), [None]);
    let rows = place.rows();
    assert!(!place.commit(&[(9, Some(20), Some(21))], Some(state)), "1 has left");
    assert_eq!(place.rows(), rows, "nothing was written");
    assert!(place.commit(&[(9, Some(20), Some(21))], Some(place.proofs.state())));
}

#[test]
fn memory_is_bounded_the_oldest_go_first_and_their_rows_with_them() {
    let mut place = ProofCase::new();
    place.proofs.bytes_max = 10 * ENTRY_BYTES_MAX;
    for height in 1..=40 {
        place.commit(&[(height, None, Some(height)), (100 + height, None, Some(height))], None);
        assert_eq!(place.known(height, &[height]), [Some(height)]);
        assert!(shared(&place.proofs.known).heights.len() <= 10);
        place.proofs.trim(&place.kv).unwrap();
        assert!(place.rows() <= 6, "{} rows at {height}", place.rows());
    }
    assert_eq!(place.known(40, &[1, 40]), [None, Some(40)]);
    // Below the floor nothing is written, so that nothing there can be wrong later.
    let rows = place.rows();
    place.commit(&[(1, Some(1), None)], None);
    assert_eq!(place.rows(), rows);
    place.reopen();
    place.proofs.bytes_max = 0;
    assert_eq!(place.known(40, &[40]), [None], "without memory nothing is known");
}

/// Nobody prunes, so nobody asks; what memory could not hold anyway goes, over restarts too.
#[test]
fn the_journal_is_bounded_though_nobody_prunes() {
    let mut place = ProofCase::new();
    for height in 1..=400 {
        place.proofs.bytes_max = 10 * ENTRY_BYTES_MAX;
        place.commit(&[(height, None, Some(height)), (1_000 + height, None, Some(height))], None);
        if place.proofs.has_rows_to_trim() {
            place.proofs.trim(&place.kv).unwrap();
        }
        assert!(place.rows() <= 12 + 5 + 1, "{} rows at {height}", place.rows());
        if height % 7 == 0 {
            place.reopen();
        }
    }
    // Enough is left for memory: the newest that lie deep enough.
    assert_eq!(place.known(388, &[388, 385, 300]), [Some(388), Some(385), None]);
}

#[test]
fn without_deletions_there_is_no_journal_and_rows_from_before_go() {
    let mut place = ProofCase::new();
    place.commit(&[(1, None, Some(10))], None);
    assert_eq!(place.rows(), 1);
    place.proofs = open(&place.kv, 0);
    assert_eq!(place.rows(), 0);
    place.commit(&[(2, None, Some(11)), (1, Some(10), None)], None);
    assert_eq!(place.rows(), 0);
    place.reopen();
    assert_eq!(place.known(11, &[1, 2]), [None, None]);
}
