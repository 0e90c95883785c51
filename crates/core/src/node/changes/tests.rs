//! A change set that is written down and read again is the same.

#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::{collection::vec, option, prelude::*};

use super::*;
use crate::{
    hex_encode,
    node::{MinedBlock, NodeInput, NodeOutput, OutputState, SpendingData},
    types::Height,
};

fn record(outputs: u32, block: Option<u32>) -> TxRecord {
    let mined = |height| MinedBlock { id: height, height: Height::new(height), subtree: 0 };
    TxRecord {
        is_coinbase: false,
        is_conflicting: outputs.is_multiple_of(2),
        is_locked: false,
        is_creating: false,
        spendable_at: None,
        outputs,
        utxos: outputs,
        spent: 0,
        spent_at: None,
        blocks: block.map(mined).into_iter().collect(),
        unmined_since: None,
        created_at_ms: 0,
        delete_at: block.map(Height::new),
        preserve_until: None,
        kept_for_child_until: None,
        conflicting_children: Vec::new(),
        reassignments: Vec::new(),
        deleted_children: 0,
        blob: None,
        file_checksum: None,
    }
}

fn body(txid: Txid, satoshis: u64) -> NodeTx {
    let outpoint = OutPoint::new(Txid::from_bytes([9; 32]), 1);
    let input = NodeInput { outpoint, script: vec![1], sequence: 2, previous: None };
    NodeTx {
        txid,
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: vec![input],
        outputs: vec![NodeOutput { satoshis, script: vec![0x51] }],
    }
}

fn slot(spender: Option<Txid>) -> OutputRecord {
    let spent = |txid| OutputState::Spent(SpendingData { txid, vin: 3 });
    OutputRecord {
        state: spender.map_or(OutputState::Unspent, spent),
        ..OutputRecord::new([7; 32])
    }
}

/// Few ids, so that parts of one transaction meet.
fn txids() -> impl Strategy<Value = Txid> {
    (0u8..6).prop_map(|byte| Txid::from_bytes([byte; 32]))
}

/// Each key once and in order, as calls write them.
fn keyed<K: Ord + Clone, V>(mut items: Vec<(K, V)>) -> Vec<(K, V)> {
    items.sort_by(|a, b| a.0.cmp(&b.0));
    items.dedup_by(|a, b| a.0 == b.0);
    items
}

fn change_sets() -> impl Strategy<Value = ChangeSet> {
    let one = || option::of((0u32..5, option::of(1u32..9)).prop_map(|(n, at)| record(n, at)));
    let records = vec((txids(), (one(), one())), 0..5);
    let slots = option::of(option::of(txids()).prop_map(slot));
    let slots = vec(((txids(), 0u32..4), slots), 0..8);
    let bodies = vec((txids(), option::of(any::<u64>())), 0..4);
    let pairs = || vec(((txids(), txids()), Just(())), 0..4);
    let states = vec(("[a-z/]{0,9}", option::of(vec(any::<u8>(), 0..9))), 0..4);
    (records, slots, bodies, pairs(), pairs(), states, any::<bool>()).prop_map(
        |(records, slots, bodies, markers, unmarked, states, is_pruning)| ChangeSet {
            records: keyed(records).into_iter().map(|(id, (old, new))| (id, old, new)).collect(),
            slots: keyed(slots).into_iter().map(|((id, n), s)| (OutPoint::new(id, n), s)).collect(),
            bodies: keyed(bodies).into_iter().map(|(id, n)| (id, n.map(|n| body(id, n)))).collect(),
            markers: keyed(markers).into_iter().map(|(pair, ())| pair).collect(),
            unmarked: keyed(unmarked).into_iter().map(|(pair, ())| pair).collect(),
            states,
            is_pruning,
        },
    )
}

proptest! {
    #[test]
    fn a_change_set_is_read_back(changes in change_sets()) {
        prop_assert_eq!(ChangeSet::decode(&changes.encode()), Ok(changes));
    }

    #[test]
    fn bytes_that_are_cut_or_longer_are_refused(changes in change_sets()) {
        let mut bytes = changes.encode();
        for len in 0..bytes.len() {
            prop_assert!(ChangeSet::decode(&bytes[..len]).is_err(), "cut at {}", len);
        }
        bytes.push(0);
        prop_assert!(ChangeSet::decode(&bytes).is_err());
    }

    #[test]
    fn parts_of_transactions_and_states_are_all_of_it(changes in change_sets()) {
        let (parts, states) = changes.clone().split();
        prop_assert!(parts.is_sorted_by(|a, b| a.txid < b.txid), "each transaction once");
        prop_assert!(parts.iter().all(|part| *part != TxChanges::none(part.txid)));
        let is_pruning = changes.is_pruning;
        let mut joined = ChangeSet { states, is_pruning, ..ChangeSet::default() };
        for part in parts {
            joined.add(part);
        }
        prop_assert_eq!(joined, changes);
    }
}

fn one_of_each() -> ChangeSet {
    let [a, b] = [1, 2].map(|byte| Txid::from_bytes([byte; 32]));
    ChangeSet {
        records: vec![(a, None, Some(record(1, Some(7)))), (b, Some(record(2, None)), None)],
        slots: vec![(OutPoint::new(a, 0), Some(slot(Some(b)))), (OutPoint::new(b, 1), None)],
        bodies: vec![(a, Some(body(a, 5))), (b, None)],
        markers: vec![(a, b)],
        unmarked: vec![(b, a)],
        states: vec![("name".to_owned(), Some(vec![8])), ("gone".to_owned(), None)],
        is_pruning: true,
    }
}

#[test]
fn the_bytes_of_a_change_set_are_pinned() {
    assert_eq!(ChangeSet::default().encode(), [0xa0]);
    let changes = one_of_each();
    let [a, b, hash, spent] = ["01", "02", "07", "09"].map(|byte| byte.repeat(32));
    let expected = [
        // Records, as they are in rows: one that is new, and one that goes.
        format!("a7 00 82 83 5820{a} f6 53 a7 0000 0101 0201 0300 0400 0707 09 81 83070700"),
        format!("83 5820{b} 4b a5 0002 0102 0202 0300 0400 f6"),
        // Outputs.
        format!("01 82 82 5824{a}00000000 5849{hash}02{b}030000000ea2321e"),
        format!("82 5824{b}00000001 f6"),
        // Bodies.
        format!("02 82 82 5820{a} 5836 86 01 00 f4 81 84 5820{spent} 01 4101 02"),
        format!("81 82 05 4151 44bebf23b8 82 5820{b} f6"),
        // Markers, and those that are taken away.
        format!("03 81 82 5820{a} 5820{b} 04 81 82 5820{b} 5820{a}"),
        // States by their names, and that it prunes.
        "05 82 82 646e616d65 4108 82 64676f6e65 f6 06 f5".to_owned(),
    ];
    assert_eq!(hex_encode(&changes.encode()), expected.concat().replace(' ', ""));
    assert_eq!(ChangeSet::decode(&changes.encode()), Ok(changes));
}

#[test]
fn keys_that_are_unknown_or_come_twice_are_refused() {
    for bytes in [&[0xa1, 7, 0x81, 0x82, 0, 0][..], &[0xa2, 6, 0xf5, 6, 0xf5], &[0xa1, 0, 0x9f]] {
        assert!(ChangeSet::decode(bytes).is_err(), "{bytes:x?}");
    }
}
