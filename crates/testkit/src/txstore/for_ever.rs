//! A store that keeps everything for ever: no deletion height is ever set.

use utxokeep_core::node::CreateOptions;

use super::stage::{Stage, at, seed, spending};

pub(super) fn without_retention_no_deletion_height_is_set(stage: &Stage) {
    let (tx, data, lost) = (seed(1, &[5]), seed(2, &[0]), seed(3, &[5]));
    stage.create_mined(&tx, 1);
    stage.create_mined(&data, 1);
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.create_with(&lost, 1, &options).unwrap();
    let spend = spending(4, &[(&tx, 0)], &[4]);
    stage.spend(&spend, 5).unwrap();
    stage.mine(&tx, 2, 6).unwrap();
    stage.lock(&tx, true, 7);
    stage.lock(&tx, false, 8);
    stage.mark(&tx, false, 9);
    stage.mark(&tx, true, 10);
    stage.store.set_conflicting(&[tx.txid], true, at(11)).unwrap().remove(0).unwrap();
    for tx in [&tx, &data, &lost] {
        assert_eq!(stage.due(tx), None);
    }
}

/// R0.
pub(super) fn without_retention_an_expired_preservation_is_only_cleared(stage: &Stage) {
    let tx = seed(1, &[0]);
    stage.create_mined(&tx, 1);
    assert_eq!(stage.store.preserve(&[tx.txid], at(20)).unwrap(), 1);
    assert_eq!(stage.store.expire_preservations(at(99), 10).unwrap(), 1);
    assert_eq!((stage.due(&tx), stage.record(&tx).preserve_until), (None, None));
}
