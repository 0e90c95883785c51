//! Creating, reading and deleting.

use utxokeep_core::{
    OutPoint,
    node::{CreateOptions, NodeError, SpendError, SpendStatus},
};
use utxokeep_txstore::{BlockState, Decorated, Fields};

use super::stage::{RETENTION, Stage, at, block, coinbase, seed, spending};

pub(super) fn a_created_transaction_is_read_back(stage: &Stage) {
    let tx = seed(1, &[5, 6]);
    stage.create(&tx, 1).unwrap();
    let stored = stage.get(&tx).unwrap();
    assert_eq!(stored.body, Some(tx.clone()));
    assert_eq!((stored.record.utxos, stored.record.spent), (2, 0));
    let bare = stage.store.get(&[tx.txid], Fields::default()).unwrap().remove(0).unwrap();
    assert_eq!((bare.body, bare.slots), (None, None), "only what was asked for");
}

pub(super) fn a_second_create_is_refused_and_the_rest_of_its_batch_is_not(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    assert_eq!(stage.create(&tx, 2), Err(NodeError::Exists(tx.txid)));
    let items = [(seed(2, &[1]), CreateOptions::default()), (tx, CreateOptions::default())];
    let answers = stage.store.create(&items, at(2)).unwrap();
    assert!(answers[0].is_ok() && answers[1].is_err(), "items stand for themselves");
}

pub(super) fn a_second_create_of_a_spent_transaction_says_that_it_exists(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 2).unwrap();
    assert_eq!(stage.create(&tx, 3), Err(NodeError::Exists(tx.txid)));
}

pub(super) fn a_coinbase_is_spendable_from_its_maturity_height_on(stage: &Stage) {
    let tx = coinbase(1, &[50]);
    stage.create(&tx, 2).unwrap();
    assert!(stage.record(&tx).is_coinbase);
    let spend = spending(2, &[(&tx, 0)], &[49]);
    let error = stage.spend_error(Stage::request(&spend, 6));
    assert_eq!(error, SpendError::Immature { txid: tx.txid, from: at(7), at: at(6) });
    assert_eq!(stage.view(&tx, 0, 6).status, SpendStatus::Immature);
    stage.spend(&spend, 7).unwrap();
}

pub(super) fn a_spendable_output_of_zero_satoshis_counts(stage: &Stage) {
    let mut tx = seed(1, &[1, 1]);
    tx.outputs[1].satoshis = 0;
    stage.create(&tx, 1).unwrap();
    assert_eq!(stage.record(&tx).utxos, 2, "nothing of value, but spendable");
}

pub(super) fn a_data_output_cannot_be_spent(stage: &Stage) {
    let tx = seed(1, &[5, 0]);
    stage.create(&tx, 1).unwrap();
    assert_eq!(stage.record(&tx).utxos, 1);
    assert_eq!(stage.get(&tx).unwrap().slots.unwrap()[1], None);
    let error = stage.spend_error(Stage::request(&spending(2, &[(&tx, 1)], &[1]), 2));
    assert_eq!(error, SpendError::NotFound(OutPoint::new(tx.txid, 1)));
}

pub(super) fn a_transaction_of_data_only_is_due_when_created_mined(stage: &Stage) {
    let (mined, unmined) = (seed(1, &[0]), seed(2, &[0, 0]));
    stage.create_mined(&mined, 7);
    assert_eq!(stage.due(&mined), Some(7 + RETENTION));
    stage.create(&unmined, 7).unwrap();
    assert_eq!(stage.due(&unmined), None);
}

pub(super) fn a_transaction_created_mined_has_each_block_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    let mined = vec![block(1, 3), block(2, 4), block(1, 3)];
    let options = CreateOptions { mined, ..CreateOptions::default() };
    stage.create_with(&tx, 5, &options).unwrap();
    let record = stage.record(&tx);
    assert_eq!(record.blocks, [block(1, 3), block(2, 4)]);
    assert_eq!(record.unmined_since, None);
}

pub(super) fn a_transaction_is_unmined_since_the_height_of_its_creation(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 200).unwrap();
    assert_eq!(stage.record(&tx).unmined_since, Some(at(200)));
}

pub(super) fn a_conflicting_child_is_listed_once_by_its_parent(stage: &Stage) {
    let parent = seed(1, &[5, 5]);
    stage.create(&parent, 1).unwrap();
    let child = spending(2, &[(&parent, 0), (&parent, 1)], &[9]);
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.create_with(&child, 2, &options).unwrap();
    let record = stage.record(&parent);
    assert_eq!((record.conflicting_children, record.is_conflicting), (vec![child.txid], false));
    let record = stage.record(&child);
    assert!(record.is_conflicting && record.conflicting_children.is_empty());
    assert_eq!(stage.due(&child), Some(2 + RETENTION));
}

pub(super) fn a_conflicting_child_needs_no_stored_parent(stage: &Stage) {
    let child = spending(2, &[(&seed(1, &[5]), 0)], &[4]);
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.create_with(&child, 2, &options).unwrap();
    assert!(stage.record(&child).is_conflicting);
}

pub(super) fn a_transaction_created_locked_is_spendable_once_unlocked(stage: &Stage) {
    let tx = seed(1, &[5]);
    let options = CreateOptions { is_locked: true, ..CreateOptions::default() };
    stage.create_with(&tx, 1, &options).unwrap();
    let spend = spending(2, &[(&tx, 0)], &[4]);
    assert_eq!(stage.spend_error(Stage::request(&spend, 2)), SpendError::Locked(tx.txid));
    stage.lock(&tx, false, 3);
    stage.spend(&spend, 3).unwrap();
}

pub(super) fn a_transaction_without_outputs_is_refused(stage: &Stage) {
    let tx = seed(1, &[]);
    assert!(matches!(stage.create(&tx, 1), Err(NodeError::Invalid(_))));
    assert_eq!(stage.get(&tx), None);
}

pub(super) fn inputs_without_their_previous_outputs_are_refused_unless_allowed(stage: &Stage) {
    let mut tx = spending(2, &[(&seed(1, &[5]), 0)], &[4]);
    tx.inputs[0].previous = None;
    assert!(matches!(stage.create(&tx, 1), Err(NodeError::Invalid(_))));
    let options = CreateOptions { may_lack_previous: true, ..CreateOptions::default() };
    stage.create_with(&tx, 1, &options).unwrap();
}

pub(super) fn a_transaction_of_many_outputs_is_spent_output_by_output(stage: &Stage) {
    let tx = seed(1, &vec![1; 20_000]);
    stage.create(&tx, 1).unwrap();
    assert_eq!(stage.record(&tx).utxos, 20_000);
    stage.spend(&spending(2, &[(&tx, 19_999), (&tx, 128), (&tx, 0)], &[1]), 2).unwrap();
    assert_eq!(stage.record(&tx).spent, 3);
    assert_eq!(stage.status(&tx, 127), SpendStatus::Ok);
}

pub(super) fn an_unknown_transaction_is_not_found_without_an_error(stage: &Stage) {
    let tx = seed(1, &[5]);
    assert_eq!(stage.get(&tx), None);
    assert_eq!(stage.status(&tx, 0), SpendStatus::NotFound);
}

pub(super) fn only_spent_outputs_name_a_spender(stage: &Stage) {
    let tx = seed(1, &[1; 5]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 1), (&tx, 3)], &[2]), 2).unwrap();
    let slots = stage.get(&tx).unwrap().slots.unwrap();
    let spent: Vec<_> = slots.iter().map(|slot| slot.unwrap().spent_by().is_some()).collect();
    assert_eq!(spent, [false, true, false, true, false]);
}

pub(super) fn each_outpoint_is_decorated_or_says_what_is_missing(stage: &Stage) {
    let tx = seed(1, &[5, 6]);
    stage.create(&tx, 1).unwrap();
    let outputs = [
        OutPoint::new(tx.txid, 1),
        OutPoint::new(tx.txid, 2),
        OutPoint::new(seed(9, &[1]).txid, 0),
    ];
    let found = stage.store.decorate(&outputs).unwrap();
    assert!(matches!(&found[0], Decorated::Found(output) if output.satoshis == 6));
    assert_eq!(found[1..], [Decorated::NoOutput, Decorated::NoTransaction]);
    assert_eq!(stage.store.decorate(&[]).unwrap(), []);
}

pub(super) fn height_zero_is_refused(stage: &Stage) {
    assert_eq!(stage.store.block_state().unwrap(), None);
    let zero = BlockState { height: at(0), median_time: 5 };
    assert_eq!(stage.store.set_block_state(zero).unwrap(), Err(NodeError::HeightZero));
    let state = BlockState { height: at(9), median_time: 5 };
    stage.store.set_block_state(state).unwrap().unwrap();
    assert_eq!(stage.store.block_state().unwrap(), Some(state));
    assert_eq!(stage.create(&seed(1, &[5]), 0), Err(NodeError::HeightZero));
}

pub(super) fn a_deleted_transaction_leaves_nothing_stale(stage: &Stage) {
    let tx = seed(1, &[5, 6]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 2).unwrap();
    assert_eq!(stage.store.delete(&[tx.txid, seed(9, &[1]).txid]).unwrap(), 1);
    assert_eq!((stage.get(&tx), stage.status(&tx, 0)), (None, SpendStatus::NotFound));
    assert_eq!(stage.store.unmined(at(1_000), None, 10).unwrap(), []);
    stage.create(&tx, 3).unwrap();
    assert_eq!(stage.record(&tx).spent, 0, "nothing stale");
    assert_eq!(stage.status(&tx, 0), SpendStatus::Ok);
}
