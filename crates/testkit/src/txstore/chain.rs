//! Many transactions and the longest chain; preservations that end.

use std::thread;

use utxokeep_core::{
    Txid,
    node::{CreateOptions, MinedInfo, NodeError, NodeTx},
};

use super::stage::{RETENTION, Stage, at, block, seed, spending};

fn info(id: u32, height: u32, unset: bool) -> MinedInfo {
    MinedInfo {
        block: block(id, height),
        on_longest_chain: true,
        unset,
        unmined_since: at(height + 1),
    }
}

fn ids(txs: &[NodeTx]) -> Vec<Txid> {
    txs.iter().map(|tx| tx.txid).collect()
}

pub(super) fn mining_answers_each_transaction_with_all_its_blocks(stage: &Stage) {
    let txs: Vec<_> = (1..=5).map(|name| seed(name, &[5])).collect();
    for tx in &txs {
        stage.create(tx, 1).unwrap();
    }
    stage.mine(&txs[2], 9, 2).unwrap();
    let mut asked = ids(&txs);
    asked.push(txs[0].txid);
    let answers = stage.store.set_mined(&asked, &info(7, 3, false)).unwrap();
    assert_eq!(answers.len(), asked.len(), "one answer each, also for one that is named twice");
    for answer in &answers {
        assert!(answer.as_ref().unwrap().contains(&7), "{answer:?}");
    }
    assert_eq!(answers[2], Ok(vec![9, 7]));
    assert_eq!(answers[5], Ok(vec![7]));
    let absent = seed(20, &[5]).txid;
    let answers = stage.store.set_mined(&[txs[0].txid, absent], &info(8, 4, false)).unwrap();
    assert_eq!(answers, [Ok(vec![7, 8]), Err(NodeError::NotFound(absent))]);
    let answers = stage.store.set_mined(&[absent, txs[0].txid], &info(8, 4, true)).unwrap();
    assert_eq!(answers, [Ok(vec![]), Ok(vec![7])]);
}

pub(super) fn mining_nothing_is_fine_and_a_block_needs_a_height(stage: &Stage) {
    for unset in [false, true] {
        assert!(stage.store.set_mined(&[], &info(1, 2, unset)).unwrap().is_empty());
    }
    let mut zero = info(1, 2, false);
    zero.block.height = at(0);
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let answers = stage.store.set_mined(&[tx.txid], &zero).unwrap();
    assert_eq!(answers, [Err(NodeError::HeightMissing { field: "block.height" })]);
    assert!(stage.record(&tx).blocks.is_empty());
}

/// Block A at 10 loses against B and C at 10 and 11: two transactions are in both
/// branches, one only in A, one only in C.
pub(super) fn a_reorganisation_moves_transactions_to_the_blocks_of_the_other_branch(stage: &Stage) {
    let both: Vec<_> = (1..=2).map(|name| seed(name, &[5])).collect();
    let (only_a, only_c) = (seed(3, &[5]), seed(4, &[5]));
    for tx in both.iter().chain([&only_a, &only_c]) {
        stage.create(tx, 9).unwrap();
        stage.spend(&spending(tx.txid.as_bytes()[0], &[(tx, 0)], &[4]), 9).unwrap();
    }
    let in_a = [both.clone(), vec![only_a.clone()]].concat();
    stage.store.set_mined(&ids(&in_a), &info(1, 10, false)).unwrap();
    for tx in &in_a {
        assert_eq!(stage.due(tx), Some(10 + RETENTION));
    }
    assert_eq!(stage.due(&only_c), None);
    // A leaves the chain: its transactions lose the block.
    stage.store.set_mined(&ids(&in_a), &info(1, 10, true)).unwrap();
    for tx in &in_a {
        let record = stage.record(tx);
        assert_eq!((record.unmined_since, record.delete_at), (Some(at(11)), None));
    }
    stage.store.set_mined(&ids(&both), &info(2, 10, false)).unwrap();
    stage.store.set_mined(&[only_c.txid], &info(3, 11, false)).unwrap();
    for tx in &both {
        assert_eq!(stage.record(tx).blocks, [block(2, 10)]);
        assert_eq!((stage.record(tx).unmined_since, stage.due(tx)), (None, Some(10 + RETENTION)));
    }
    assert_eq!(stage.due(&only_c), Some(11 + RETENTION));
    assert_eq!(stage.store.unmined(at(100), None, 10).unwrap(), [(at(11), only_a.txid)]);
    // Where the blocks are kept on the record, the mark says the same.
    let marked = [ids(&both), vec![only_c.txid]].concat();
    stage.store.mark_on_longest_chain(&marked, false, at(12)).unwrap();
    assert_eq!(stage.store.unmined(at(100), None, 10).unwrap().len(), 4);
    assert!(both.iter().all(|tx| stage.due(tx).is_none()));
    stage.store.mark_on_longest_chain(&marked, true, at(13)).unwrap();
    assert!(both.iter().all(|tx| stage.due(tx) == Some(13 + RETENTION)));
}

/// Conflicting.
pub(super) fn an_expired_preservation_makes_a_conflicting_record_due(stage: &Stage) {
    let (lost, live) = (seed(1, &[5]), seed(2, &[5]));
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    for tx in [&lost, &live] {
        stage.create_with(tx, 1, &options).unwrap();
    }
    assert_eq!(stage.store.preserve(&[lost.txid, live.txid], at(20)).unwrap(), 2);
    stage.store.set_conflicting(&[live.txid], false, at(5)).unwrap().remove(0).unwrap();
    assert_eq!(stage.due(&lost), None, "preserved");
    assert_eq!(stage.store.expire_preservations(at(20), 1).unwrap(), 1, "at most as many");
    assert_eq!(stage.store.expire_preservations(at(20), 10).unwrap(), 1);
    assert_eq!(stage.due(&lost), Some(20 + RETENTION));
    assert_eq!(stage.due(&live), None, "it won, and its output is live");
}

pub(super) fn an_expiring_preservation_revives_no_deleted_record(stage: &Stage) {
    let txs: Vec<_> = (1..=40).map(|name| seed(name, &[0])).collect();
    for tx in &txs {
        stage.create_mined(tx, 1);
    }
    assert_eq!(stage.store.preserve(&ids(&txs), at(20)).unwrap(), txs.len());
    thread::scope(|scope| {
        let expire =
            scope.spawn(|| while stage.store.expire_preservations(at(20), 3).unwrap() > 0 {});
        let delete = scope.spawn(|| {
            for tx in &txs {
                assert_eq!(stage.store.delete(&[tx.txid]).unwrap(), 1);
            }
        });
        expire.join().unwrap();
        delete.join().unwrap();
    });
    let found = stage.store.get(&ids(&txs), utxokeep_txstore::Fields::default()).unwrap();
    assert!(found.iter().all(Option::is_none), "what was deleted stays deleted");
    assert_eq!(stage.store.expire_preservations(at(1_000), 100).unwrap(), 0);
}
