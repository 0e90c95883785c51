//! Transactions that want the same outputs.

use utxokeep_core::{
    OutPoint,
    node::{ConflictIntent, CreateOptions, NodeError, NodeTx, SpendError, SpendInput, SpendStatus},
};

use super::stage::{RETENTION, Stage, at, seed, spending};

fn conflicting(stage: &Stage, tx: &NodeTx, height: u32) {
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.create_with(tx, height, &options).unwrap();
}

pub(super) fn a_winner_takes_its_inputs_and_the_loser_gives_all_back(stage: &Stage) {
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

/// Not conflicting.
pub(super) fn only_a_stored_conflicting_transaction_can_win(stage: &Stage) {
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

/// Frozen.
pub(super) fn nobody_wins_a_frozen_output(stage: &Stage) {
    let tx = seed(1, &[5]);
    let options = CreateOptions { is_frozen: true, ..CreateOptions::default() };
    stage.create_with(&tx, 1, &options).unwrap();
    let winner = spending(2, &[(&tx, 0)], &[4]);
    conflicting(stage, &winner, 2);
    let answer = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap();
    assert!(matches!(answer, Err(NodeError::Output(SpendError::Frozen(_)))));
    assert!(stage.record(&winner).is_conflicting, "nothing changed");
}

/// Missing parent.
pub(super) fn nobody_wins_an_output_of_an_unknown_parent(stage: &Stage) {
    let absent = seed(1, &[5]);
    let winner = spending(2, &[(&absent, 0)], &[4]);
    conflicting(stage, &winner, 2);
    let answer = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap();
    assert_eq!(answer, Err(NodeError::NotFound(absent.txid)), "unknown is never absent");
}

pub(super) fn descendants_of_a_loser_lose_too(stage: &Stage) {
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

/// Ghost spender.
pub(super) fn a_spender_without_a_record_loses_without_being_named(stage: &Stage) {
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

/// Out-of-range index.
pub(super) fn nobody_wins_an_output_that_does_not_exist(stage: &Stage) {
    let tx = seed(1, &[5, 0]);
    stage.create(&tx, 1).unwrap();
    for (name, vout) in [(2, 1), (3, 2), (4, u32::MAX)] {
        let winner = spending(name, &[(&tx, vout)], &[4]);
        conflicting(stage, &winner, 2);
        let answer = stage.store.process_conflicting(&[winner.txid], at(3)).unwrap();
        let outpoint = OutPoint::new(tx.txid, vout);
        assert_eq!(answer, Err(NodeError::Output(SpendError::NotFound(outpoint))));
        assert!(stage.record(&winner).is_conflicting, "nothing changed");
    }
}

pub(super) fn marking_a_conflict_answers_what_it_spends_and_who_spends_it(stage: &Stage) {
    let tx = seed(1, &[5, 5]);
    stage.create(&tx, 1).unwrap();
    let middle = spending(2, &[(&tx, 1), (&seed(9, &[5]), 0)], &[4, 4, 0]);
    stage.create(&middle, 2).unwrap();
    let child = spending(3, &[(&middle, 0), (&middle, 1)], &[3]);
    stage.sac(&child, 3).unwrap();
    for on in [true, true, false] {
        let answers = stage.store.set_conflicting(&[middle.txid], on, at(4)).unwrap();
        let (spends, children) = answers.into_iter().next().unwrap().unwrap();
        let (outpoint, hash) = (OutPoint::new(tx.txid, 1), tx.utxo_hash(1).unwrap());
        assert_eq!(spends, [SpendInput { outpoint, hash, vin: 0 }], "the other parent is unknown");
        assert_eq!(children, [child.txid], "each once");
        assert_eq!(stage.record(&middle).is_conflicting, on);
        assert_eq!(stage.record(&tx).conflicting_children, [middle.txid], "each once, for good");
    }
    let absent = seed(9, &[5]).txid;
    let answers = stage.store.set_conflicting(&[absent, middle.txid], true, at(5)).unwrap();
    assert_eq!(answers[0], Err(NodeError::NotFound(absent)));
    assert!(answers[1].is_ok(), "items stand for themselves");
    assert!(stage.store.set_conflicting(&[], true, at(5)).unwrap().is_empty());
}

pub(super) fn a_conflict_intent_is_pending_once_until_it_is_complete(stage: &Stage) {
    let [a, b] = [1, 2].map(|name| seed(name, &[5]).txid);
    assert_eq!(stage.store.pending_conflict_intents(10).unwrap(), []);
    let first = ConflictIntent::new(at(7), vec![b, a]);
    let second = ConflictIntent::new(at(8), vec![a]);
    let id = stage.store.begin_conflict_intent(&first).unwrap();
    let again = ConflictIntent::new(at(7), vec![a, b, a]);
    assert_eq!(stage.store.begin_conflict_intent(&again).unwrap(), id, "one entry");
    assert_eq!(stage.store.pending_conflict_intents(10).unwrap(), std::slice::from_ref(&first));
    stage.store.begin_conflict_intent(&second).unwrap();
    assert_eq!(stage.store.pending_conflict_intents(10).unwrap().len(), 2);
    assert_eq!(stage.store.pending_conflict_intents(1).unwrap().len(), 1, "at most as many");
    stage.store.complete_conflict_intent(&id).unwrap();
    stage.store.complete_conflict_intent(&id).unwrap();
    assert_eq!(stage.store.pending_conflict_intents(10).unwrap(), std::slice::from_ref(&second));
    assert_eq!(stage.store.block_state().unwrap(), None, "intents are nothing else's business");
}

pub(super) fn a_conflict_sets_the_deletion_height_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
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
    stage.mine(&tx, 1, 10).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 11).unwrap();
    assert_eq!(stage.due(&tx), Some(11 + RETENTION));
}
