//! What a caller may say of a transaction, and what a store says of it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use utxokeep_core::{
    OutPoint, Txid,
    node::{CreateOptions, SpendError, SpendStatus},
};
use utxokeep_txstore::{BlockState, Decorated, ParentOutput};

use super::stage::{RETENTION, Stage, at, block, coinbase, seed, spending};

pub(super) fn only_a_coinbase_waits_for_maturity(stage: &Stage) {
    let tx = coinbase(1, &[50, 0]);
    stage.create(&tx, 2).unwrap();
    let stored = stage.get(&tx).unwrap();
    assert!(stored.record.is_coinbase && stored.body.unwrap().is_coinbase);
    assert_eq!((stored.record.spendable_at, stored.record.utxos), (Some(at(7)), 1));
    let spend = spending(2, &[(&tx, 0)], &[49]);
    let error = stage.spend_error(Stage::request(&spend, 3));
    assert!(matches!(error, SpendError::Immature { .. }), "{error:?}");
    assert_eq!(stage.record(&tx).spent, 0);
    stage.spend(&spend, 5_000).unwrap();
    assert_eq!(stage.view(&tx, 0, 5_000).status, SpendStatus::Spent);
    assert_eq!(stage.record(&seed_of(stage)).spendable_at, None, "only coinbases wait");
}

fn seed_of(stage: &Stage) -> utxokeep_core::node::NodeTx {
    let tx = seed(9, &[5]);
    stage.create(&tx, 2).unwrap();
    tx
}

pub(super) fn id_and_kind_are_what_the_caller_says(stage: &Stage) {
    let parent = seed(1, &[5]);
    stage.create(&parent, 1).unwrap();
    // Id and kind are what the caller says, whatever the bytes look like.
    let mut tx = spending(2, &[(&parent, 0)], &[4]);
    tx.txid = Txid::from_bytes([0xab; 32]);
    tx.is_coinbase = true;
    stage.sac(&tx, 2).unwrap();
    let stored = stage.get(&tx).unwrap();
    assert_eq!(stored.body, Some(tx.clone()));
    assert_eq!((stored.record.is_coinbase, stored.record.spendable_at), (true, Some(at(7))));
    assert_eq!(stage.status(&parent, 0), SpendStatus::Ok, "a coinbase spends nothing");
}

pub(super) fn a_conflicting_record_is_due_however_it_became_conflicting(stage: &Stage) {
    let (at_create, later) = (seed(1, &[5]), seed(2, &[5]));
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.create_with(&at_create, 3, &options).unwrap();
    stage.create(&later, 3).unwrap();
    stage.store.set_conflicting(&[later.txid], true, at(3)).unwrap().remove(0).unwrap();
    assert_eq!(stage.due(&at_create), Some(3 + RETENTION), "unmined and unspent, and due");
    assert_eq!(stage.due(&later), stage.due(&at_create), "the way to it does not matter");
    let locked = CreateOptions { is_locked: true, ..options };
    let held = seed(3, &[0]);
    stage.create_with(&held, 3, &locked).unwrap();
    assert_eq!(stage.due(&held), None, "a lock holds");
}

pub(super) fn previous_outputs_are_known_whether_data_or_spent(stage: &Stage) {
    let parent = seed(1, &[5, 0, 7]);
    stage.create(&parent, 1).unwrap();
    let extended = spending(2, &[(&parent, 0), (&parent, 1), (&parent, 2)], &[9]);
    let mut bare = extended.clone();
    for input in &mut bare.inputs[1..] {
        input.previous = None;
    }
    let is_bare = |input: &&mut utxokeep_core::node::NodeInput| input.previous.is_none();
    // Only what is missing is asked for; what carries data is known too.
    let wanted: Vec<OutPoint> =
        bare.inputs.iter_mut().filter(is_bare).map(|input| input.outpoint).collect();
    assert_eq!(wanted.len(), 2);
    let found = stage.store.decorate(&wanted).unwrap();
    for (input, found) in bare.inputs.iter_mut().filter(is_bare).zip(found) {
        let Decorated::Found(previous) = found else { panic!("{found:?}") };
        input.previous = Some(previous);
    }
    assert_eq!(bare, extended);
    let wrong = [OutPoint::new(parent.txid, 3), OutPoint::new(parent.txid, u32::MAX)];
    assert_eq!(stage.store.decorate(&wrong).unwrap(), [Decorated::NoOutput, Decorated::NoOutput]);
    // Who spent it does not matter, and asking twice answers twice.
    stage.spend(&spending(3, &[(&parent, 0)], &[4]), 2).unwrap();
    let twice = [OutPoint::new(parent.txid, 0); 2];
    let found = stage.store.decorate(&twice).unwrap();
    assert!(matches!(&found[..], [Decorated::Found(a), Decorated::Found(b)] if a == b));
}

pub(super) fn a_parent_output_says_its_lowest_block_or_why_it_has_none(stage: &Stage) {
    let (mined, unmined) = (seed(1, &[5, 0]), seed(2, &[5]));
    let options =
        CreateOptions { mined: vec![block(1, 9), block(2, 4)], ..CreateOptions::default() };
    stage.create_with(&mined, 9, &options).unwrap();
    stage.create(&unmined, 9).unwrap();
    let outputs = [
        OutPoint::new(mined.txid, 0),
        OutPoint::new(mined.txid, 1),
        OutPoint::new(mined.txid, 2),
        OutPoint::new(unmined.txid, 0),
        OutPoint::new(seed(9, &[1]).txid, 0),
        OutPoint::new(mined.txid, 0),
    ];
    let lowest = ParentOutput::Mined(at(4));
    let expected = [
        lowest,
        lowest,
        ParentOutput::NoOutput,
        ParentOutput::NotMined,
        ParentOutput::NoTransaction,
        lowest,
    ];
    assert_eq!(stage.store.parent_outputs(&outputs).unwrap(), expected);
    assert_eq!(stage.store.parent_outputs(&[]).unwrap(), []);
}

/// The pair.
pub(super) fn height_and_time_of_the_chain_are_never_torn(stage: &Stage) {
    // Each writer keeps height and time in step; a reader must never see two halves.
    let state = |height: u32| BlockState { height: at(height), median_time: height * 7 };
    stage.store.set_block_state(state(1)).unwrap().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3u32)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 0..30 {
                        let height = 1 + writer + round * 3;
                        stage.store.set_block_state(state(height)).unwrap().unwrap();
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let found = stage.store.block_state().unwrap().unwrap();
                        assert_eq!(found.median_time, found.height.get() * 7);
                    }
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        let read: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        assert!(written.iter().chain(&read).all(Result::is_ok));
    });
}
