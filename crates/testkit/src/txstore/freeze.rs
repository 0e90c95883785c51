//! Outputs that are frozen and given away.

use utxokeep_core::{
    OutPoint, Txid,
    node::{NodeError, REASSIGN_HOLD_BLOCKS, SpendError, SpendStatus},
};

use super::stage::{Stage, at, seed, spending};

fn freeze(stage: &Stage, tx: &utxokeep_core::node::NodeTx, vout: u32) -> Result<(), NodeError> {
    let output = (OutPoint::new(tx.txid, vout), tx.utxo_hash(vout).unwrap());
    stage.store.freeze(&[output]).unwrap().remove(0)
}

fn unfreeze(stage: &Stage, tx: &utxokeep_core::node::NodeTx, vout: u32) -> Result<(), NodeError> {
    let output = (OutPoint::new(tx.txid, vout), tx.utxo_hash(vout).unwrap());
    stage.store.unfreeze(&[output]).unwrap().remove(0)
}

pub(super) fn a_frozen_output_is_spendable_only_once_unfrozen(stage: &Stage) {
    let tx = seed(1, &[5, 6]);
    stage.create(&tx, 1).unwrap();
    freeze(stage, &tx, 1).unwrap();
    let view = stage.view(&tx, 1, 2);
    assert_eq!(view.status, SpendStatus::Frozen);
    let by = view.by.unwrap();
    assert_eq!((by.txid, by.vin), (Txid::from_bytes([0xff; 32]), 1));
    let spend = spending(2, &[(&tx, 1)], &[4]);
    let error = stage.spend_error(Stage::request(&spend, 2));
    assert_eq!(error, SpendError::Frozen(OutPoint::new(tx.txid, 1)));
    unfreeze(stage, &tx, 1).unwrap();
    stage.spend(&spend, 2).unwrap();
}

pub(super) fn only_unspent_outputs_are_frozen_and_only_frozen_ones_unfrozen(stage: &Stage) {
    let (tx, absent) = (seed(1, &[5, 6, 0]), seed(9, &[5]));
    stage.create(&tx, 1).unwrap();
    freeze(stage, &tx, 0).unwrap();
    let outpoint = |vout| OutPoint::new(tx.txid, vout);
    assert_eq!(freeze(stage, &tx, 0), Err(NodeError::AlreadyFrozen(outpoint(0))));
    assert_eq!(unfreeze(stage, &tx, 1), Err(NodeError::NotFrozen(outpoint(1))));
    stage.spend(&spending(2, &[(&tx, 1)], &[4]), 2).unwrap();
    let spent = freeze(stage, &tx, 1);
    assert!(matches!(spent, Err(NodeError::Output(SpendError::Spent { .. }))), "{spent:?}");
    assert_eq!(unfreeze(stage, &tx, 1), Err(NodeError::NotFrozen(outpoint(1))));
    let data = freeze(stage, &tx, 2);
    assert!(matches!(data, Err(NodeError::Output(SpendError::NotFound(_)))), "{data:?}");
    assert_eq!(freeze(stage, &absent, 0), Err(NodeError::NotFound(absent.txid)));
    let wrong = stage.store.freeze(&[(outpoint(0), [0; 32])]).unwrap().remove(0);
    assert!(matches!(wrong, Err(NodeError::Output(SpendError::Mismatch(_)))), "{wrong:?}");
}

pub(super) fn a_reassigned_output_is_the_new_owners_after_the_hold(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let outpoint = OutPoint::new(tx.txid, 0);
    let old = tx.utxo_hash(0).unwrap();
    let reassign = || stage.store.reassign(outpoint, old, &[0x52], at(10)).unwrap();
    assert_eq!(reassign(), Err(NodeError::NotFrozen(outpoint)));
    freeze(stage, &tx, 0).unwrap();
    let new = reassign().unwrap();
    let from = 10 + REASSIGN_HOLD_BLOCKS;
    assert_eq!(stage.view(&tx, 0, from - 1).status, SpendStatus::Immature);
    let mut given = tx.clone();
    given.outputs[0].script = vec![0x52];
    assert_eq!(given.utxo_hash(0), Some(new));
    let by_old = stage.spend_error(Stage::request(&spending(2, &[(&tx, 0)], &[4]), from));
    assert_eq!(by_old, SpendError::Mismatch(outpoint), "the old owner has nothing left");
    let spend = spending(2, &[(&given, 0)], &[4]);
    let early = stage.spend_error(Stage::request(&spend, from - 1));
    assert_eq!(early, SpendError::FrozenUntil { outpoint, from });
    let decorated = stage.store.decorate(&[outpoint]).unwrap().remove(0);
    assert!(
        matches!(&decorated, utxokeep_txstore::Decorated::Found(o) if o.script == [0x52]),
        "the new owner's script is known: {decorated:?}"
    );
    stage.spend(&spend, from).unwrap();
    assert_eq!(stage.record(&tx).reassignments.len(), 1);
}

pub(super) fn the_hold_of_a_reassigned_output_survives_freezing(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    freeze(stage, &tx, 0).unwrap();
    let outpoint = OutPoint::new(tx.txid, 0);
    let old = tx.utxo_hash(0).unwrap();
    let new = stage.store.reassign(outpoint, old, &[0x52], at(10)).unwrap().unwrap();
    stage.store.freeze(&[(outpoint, new)]).unwrap().remove(0).unwrap();
    stage.store.unfreeze(&[(outpoint, new)]).unwrap().remove(0).unwrap();
    assert_eq!(stage.view(&tx, 0, 11).status, SpendStatus::Immature);
}

pub(super) fn a_frozen_output_keeps_its_record_from_being_due(stage: &Stage) {
    let tx = seed(1, &[5, 6]);
    stage.create_mined(&tx, 1);
    freeze(stage, &tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 5).unwrap();
    assert_eq!(stage.due(&tx), None);
}

pub(super) fn a_record_with_a_reassigned_output_is_never_due(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    freeze(stage, &tx, 0).unwrap();
    let outpoint = OutPoint::new(tx.txid, 0);
    let old = tx.utxo_hash(0).unwrap();
    stage.store.reassign(outpoint, old, &[0x52], at(10)).unwrap().unwrap();
    let mut given = tx.clone();
    given.outputs[0].script = vec![0x52];
    stage.spend(&spending(2, &[(&given, 0)], &[4]), 5_000).unwrap();
    assert_eq!((stage.record(&tx).spent, stage.due(&tx)), (1, None));
}
