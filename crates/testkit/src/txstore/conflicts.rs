//! Transactions that want the same outputs.

use utxokeep_core::node::{CreateOptions, NodeError, NodeTx, SpendError, SpendStatus};

use super::stage::{RETENTION, Stage, at, seed, spending};

fn conflicting(stage: &Stage, tx: &NodeTx, height: u32) {
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.create_with(tx, height, &options).unwrap();
}

pub(super) fn x_process(stage: &Stage) {
    let tx = seed(1, &[5, 6]);
    stage.create(&tx, 1).unwrap();
    let loser = spending(2, &[(&tx, 0), (&tx, 1)], &[9]);
    stage.sac(&loser, 2).unwrap();
    let winner = spending(3, &[(&tx, 0)], &[4]);
    conflicting(stage, &winner, 2);
    let losers = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap().unwrap();
    assert_eq!(losers, [loser.txid]);
    assert!(stage.record(&loser).is_conflicting && !stage.record(&winner).is_conflicting);
    assert_eq!(stage.view(&tx, 0, 3).by.unwrap().txid, winner.txid);
    assert_eq!(stage.status(&tx, 1), SpendStatus::Ok, "what only the loser wanted is free");
    assert_eq!(stage.record(&tx).spent, 1);
    assert!(!stage.record(&tx).is_locked);
    assert_eq!(stage.due(&loser), Some(3 + RETENTION));
    assert_eq!(stage.due(&winner), None);
}

pub(super) fn x_not_conflicting(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let winner = spending(2, &[(&tx, 0)], &[4]);
    stage.create(&winner, 2).unwrap();
    let answer = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap();
    assert!(matches!(answer, Err(NodeError::Invalid(_))));
    let absent = seed(9, &[1]).txid;
    let answer = stage.store.process_conflicting(&[absent], at(3)).unwrap();
    assert_eq!(answer, Err(NodeError::NotFound(absent)));
}

pub(super) fn x_frozen(stage: &Stage) {
    let tx = seed(1, &[5]);
    let options = CreateOptions { is_frozen: true, ..CreateOptions::default() };
    stage.create_with(&tx, 1, &options).unwrap();
    let winner = spending(2, &[(&tx, 0)], &[4]);
    conflicting(stage, &winner, 2);
    let answer = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap();
    assert!(matches!(answer, Err(NodeError::Output(SpendError::Frozen(_)))));
    assert!(stage.record(&winner).is_conflicting, "nothing changed");
}

pub(super) fn x_missing_parent(stage: &Stage) {
    let absent = seed(1, &[5]);
    let winner = spending(2, &[(&absent, 0)], &[4]);
    conflicting(stage, &winner, 2);
    let answer = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap();
    assert_eq!(answer, Err(NodeError::NotFound(absent.txid)), "unknown is never absent");
}

pub(super) fn x_descendants(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let mut chain = vec![spending(2, &[(&tx, 0)], &[4])];
    for name in 3..8 {
        let next = spending(name, &[(&chain[chain.len() - 1], 0)], &[4]);
        chain.push(next);
    }
    for tx in &chain {
        stage.sac(tx, 2).unwrap();
    }
    let winner = spending(20, &[(&tx, 0)], &[4]);
    conflicting(stage, &winner, 2);
    let losers = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap().unwrap();
    assert_eq!(losers.len(), chain.len());
    assert!(chain.iter().all(|tx| stage.record(tx).is_conflicting));
    assert_eq!(stage.record(&chain[0]).spent, 0, "and gave back what they held");
}

pub(super) fn x_ghost(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 2).unwrap();
    let winner = spending(3, &[(&tx, 0)], &[4]);
    conflicting(stage, &winner, 2);
    let losers = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap().unwrap();
    assert_eq!(losers, [], "the holder never got a record");
    assert_eq!(stage.view(&tx, 0, 3).by.unwrap().txid, winner.txid);
    assert_eq!(stage.record(&tx).spent, 1);
}

pub(super) fn d_conflict_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    let set = |value, height| {
        let answers = stage.store.set_conflicting(&[tx.txid], value, at(height)).unwrap();
        answers.into_iter().next().unwrap().unwrap();
    };
    set(true, 5);
    assert_eq!(stage.due(&tx), Some(5 + RETENTION));
    set(true, 9);
    assert_eq!(stage.due(&tx), Some(5 + RETENTION), "set once");
    set(false, 10);
    assert_eq!(stage.due(&tx), None, "it has a live output");
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 11).unwrap();
    assert_eq!(stage.due(&tx), Some(11 + RETENTION));
}
