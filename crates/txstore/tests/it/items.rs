//! Lists on an engine that commits item by item: the answers are those of an engine with one commit.

use std::sync::atomic::Ordering;

use super::engines::{
    self,
    by_item::{How, Mistake, by_item},
};
use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeError, NodeTx, SpendFlags, SpendRequest,
        UnspendRequest,
    },
};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{Fields, NodeStore, StoreSettings, TxStore};

const SEEDS: std::ops::Range<u64> = 0..60;

fn at(height: u32) -> Height {
    Height::new(height)
}

/// Sixteen transactions, each twice, neighbours apart.
fn created_twice() -> Vec<(NodeTx, CreateOptions)> {
    let once = (0..16).map(|name| (seed(name, &[5, 6, 7]), CreateOptions::default()));
    once.clone().chain(once.rev()).collect()
}

/// Spends of these: some of one output by two, some of two parents at once.
fn spends() -> Vec<SpendRequest> {
    let parents: Vec<NodeTx> = (0..16).map(|name| seed(name, &[5, 6, 7])).collect();
    let of = |name: u8, inputs: &[(usize, u32)]| {
        let inputs: Vec<_> = inputs.iter().map(|(at, vout)| (&parents[*at], *vout)).collect();
        SpendRequest::of(&spending(name, &inputs, &[4]), at(3), SpendFlags::default()).unwrap()
    };
    let mut requests: Vec<_> = (0..8).map(|n| of(100 + n, &[(usize::from(n), 0)])).collect();
    requests.extend((0..4).map(|n| of(110 + n, &[(usize::from(n), 0), (usize::from(n), 1)])));
    requests.extend((0..4).map(|n| of(120 + n, &[(usize::from(n), 2), (usize::from(n) + 8, 2)])));
    requests.extend((0..8).map(|n| of(100 + n, &[(usize::from(n), 0)])));
    requests
}

/// Everything that lists can do, and what it leaves.
fn history(store: &NodeStore) -> String {
    let created = store.create(&created_twice(), at(2)).unwrap();
    let spent = store.spend(&spends()).unwrap();
    let back = |request: &SpendRequest| UnspendRequest {
        outpoint: request.inputs[0].outpoint,
        hash: request.inputs[0].hash,
        expected: Some(utxokeep_core::node::SpendingData { txid: request.spender, vin: 0 }),
        set_locked: None,
        height: at(4),
    };
    let back: Vec<_> = spends().iter().step_by(3).map(back).collect();
    let back = store.unspend(&back).unwrap();
    let ids: Vec<Txid> = (0..20).map(|name| seed(name, &[1]).txid).collect();
    let block = MinedBlock { id: 1, height: at(5), subtree: 0 };
    let info = MinedInfo { block, on_longest_chain: true, unset: false, unmined_since: at(1) };
    let mined = store.set_mined(&[&ids[4..], &ids[..8]].concat(), &info).unwrap();
    let locked = store.set_locked(&ids[..3], true, at(6)).unwrap();
    let output = |name: u8| {
        let tx = seed(name % 10, &[5, 6, 7]);
        (OutPoint::new(tx.txid, 1), tx.utxo_hash(1).unwrap())
    };
    let outputs: Vec<_> = (0..20).map(output).collect();
    let frozen = store.freeze(&outputs).unwrap();
    let kept = store.preserve(&ids, at(50)).unwrap();
    let lost = store.set_conflicting(&ids[10..12], true, at(7)).unwrap();
    let deleted = store.delete(&[&ids[12..], &ids[14..]].concat()).unwrap();
    let left = store.get(&ids, Fields { body: true, slots: true }).unwrap();
    let findings = store.verify().unwrap().findings;
    format!(
        "{created:?}\n{spent:?}\n{back:?}\n{mined:?}\n{locked:?}\n{frozen:?}\n{kept} {lost:?} \
         {deleted}\n{left:?}\n{findings:?}"
    )
}

#[test]
fn answers_are_those_of_one_commit_whatever_is_committed_first_or_left() {
    let expected = history(&engines::memory(StoreSettings::default()).store);
    let in_files = history(&engines::blobs(StoreSettings::default()).store);
    for seed in SEEDS {
        let (store, _) = by_item(
            engines::memory(StoreSettings::default()).store,
            How { seed, ..How::default() },
        );
        assert_eq!(history(&store), expected, "seed {seed}");
        let (store, _) =
            by_item(engines::blobs(StoreSettings::default()).store, How { seed, ..How::default() });
        assert_eq!(history(&store), in_files, "seed {seed}, every body in a file");
    }
}

/// Answers of a list of creates on an engine with a mistake.
fn created(seed: u64, mistake: Option<Mistake>) -> Vec<Result<(), NodeError>> {
    let how = How { seed, mistake, ..How::default() };
    let (store, _) = by_item(engines::memory(StoreSettings::default()).store, how);
    store.create(&created_twice()[..16], at(2)).unwrap()
}

#[test]
fn what_was_committed_is_never_decided_again() {
    for seed in SEEDS {
        assert_eq!(created(seed, None), vec![Ok(()); 16], "seed {seed}");
    }
}

/// The twin: an engine that has committed groups decided again makes creates exist already.
#[test]
fn an_engine_that_has_committed_items_decided_again_is_found() {
    let exists = |answer: &Result<(), NodeError>| matches!(answer, Err(NodeError::Exists(_)));
    let found = SEEDS
        .filter(|seed| created(*seed, Some(Mistake::CommittedAgain)).iter().any(exists))
        .count();
    assert!(found > 50, "{found} of 60 seeds");
}

/// The twin of groups: whoever commits a part of one leaves spends without their spender, or counters
/// that are wrong.
#[test]
fn an_engine_that_tears_groups_is_found() {
    let expected = history(&engines::memory(StoreSettings::default()).store);
    for seed in 0..10 {
        let how = How { seed, mistake: Some(Mistake::TornGroups), ..How::default() };
        let (store, _) = by_item(engines::memory(StoreSettings::default()).store, how);
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| history(&store)));
        assert!(found.is_err() || found.is_ok_and(|said| said != expected), "seed {seed}");
    }
}

#[test]
fn an_item_that_another_call_holds_up_is_refused_and_changes_nothing() {
    for (name, opened) in [
        ("memory", engines::memory(StoreSettings::default())),
        ("files", engines::blobs(StoreSettings::default())),
    ] {
        let how = How { stuck: Some(3), ..How::default() };
        let (store, _) = by_item(opened.store, how);
        let answers = store.create(&created_twice()[..16], at(2)).unwrap();
        for (number, answer) in answers.iter().enumerate() {
            let expected = if number == 3 { Err(NodeError::InProgress) } else { Ok(()) };
            assert_eq!(*answer, expected, "{name}, item {number}");
        }
        let stuck = seed(3, &[1]).txid;
        assert_eq!(store.get(&[stuck], Fields::default()).unwrap(), [None], "{name}");
    }
}

#[test]
fn a_list_of_spends_with_creates_is_one_commit_on_every_engine() {
    let (store, counts) = by_item(engines::memory(StoreSettings::default()).store, How::default());
    let parent = seed(1, &[5, 6]);
    store.create(&[(parent.clone(), CreateOptions::default())], at(1)).unwrap()[0].clone().unwrap();
    let (lists, commits) =
        (counts.lists.load(Ordering::Relaxed), counts.commits.load(Ordering::Relaxed));
    let child = spending(2, &[(&parent, 0)], &[4]);
    let grandchild = spending(3, &[(&child, 0), (&parent, 1)], &[3]);
    let list = [child, grandchild].map(|tx| (tx, CreateOptions::default()));
    let stored = store.spend_and_create_list(&list, at(2), SpendFlags::default()).unwrap().unwrap();
    assert!(stored.iter().all(Result::is_ok), "{stored:?}");
    assert_eq!(counts.lists.load(Ordering::Relaxed), lists);
    assert_eq!(counts.commits.load(Ordering::Relaxed), commits + 1);
}
