//! Mining, the longest chain, deletion heights and preservation.

use utxokeep_core::node::{CreateOptions, MinedInfo, NodeError};

use super::stage::{RETENTION, Stage, at, block, seed, spending};

pub(super) fn each_block_of_a_transaction_is_kept_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    assert_eq!(stage.mine(&tx, 123, 2), Ok(vec![123]));
    assert_eq!(stage.mine(&tx, 124, 3), Ok(vec![123, 124]));
    assert_eq!(stage.mine(&tx, 123, 2), Ok(vec![123, 124]));
}

pub(super) fn a_block_has_one_height(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    stage.mine(&tx, 7, 10).unwrap();
    let (id, known, given) = (7, at(10), at(11));
    assert_eq!(stage.mine(&tx, 7, 11), Err(NodeError::BlockHeight { id, known, given }));
    assert_eq!(stage.record(&tx).blocks, [block(7, 10)], "nothing was changed");
    stage.set_mined(&tx, 7, 10, true, true).unwrap();
    assert_eq!(stage.mine(&tx, 7, 11), Ok(vec![7]), "it was taken off first");
}

pub(super) fn heights_that_are_missing_are_named(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let mined = |height, unset| {
        let (block, unmined_since) = (block(7, height), at(0));
        let info = MinedInfo { block, on_longest_chain: true, unset, unmined_since };
        stage.store.set_mined(&[tx.txid], &info).unwrap().remove(0)
    };
    assert_eq!(mined(0, false), Err(NodeError::HeightMissing { field: "block.height" }));
    assert_eq!(mined(5, false), Ok(vec![7]), "setting needs no height to be unmined since");
    let field = "unmined_since_height";
    assert_eq!(mined(5, true), Err(NodeError::HeightMissing { field }));
}

pub(super) fn losing_one_of_several_blocks_keeps_the_others(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    for id in 1..=3 {
        stage.mine(&tx, id, id + 10).unwrap();
    }
    assert_eq!(stage.set_mined(&tx, 2, 12, true, true), Ok(vec![1, 3]));
    let record = stage.record(&tx);
    assert_eq!((record.blocks, record.unmined_since), (vec![block(1, 11), block(3, 13)], None));
}

pub(super) fn losing_the_last_block_unmines_and_clears_the_deletion_height(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 5);
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 6).unwrap();
    assert!(stage.due(&tx).is_some());
    assert_eq!(stage.set_mined(&tx, 1, 5, true, true), Ok(vec![]));
    assert_eq!((stage.record(&tx).unmined_since, stage.due(&tx)), (Some(at(6)), None));
}

pub(super) fn only_a_block_of_the_longest_chain_ends_being_unmined(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 3).unwrap();
    stage.set_mined(&tx, 1, 5, false, false).unwrap();
    assert_eq!(stage.record(&tx).unmined_since, Some(at(3)));
    stage.mine(&tx, 2, 5).unwrap();
    assert_eq!(stage.record(&tx).unmined_since, None);
}

pub(super) fn only_being_mined_unlocks(stage: &Stage) {
    let tx = seed(1, &[5]);
    let options = CreateOptions { is_locked: true, ..CreateOptions::default() };
    stage.create_with(&tx, 1, &options).unwrap();
    stage.mine(&tx, 1, 2).unwrap();
    assert!(!stage.record(&tx).is_locked);
    stage.lock(&tx, true, 3);
    stage.set_mined(&tx, 9, 2, true, true).unwrap();
    assert!(stage.record(&tx).is_locked, "a block that it was never in");
    stage.set_mined(&tx, 1, 2, true, true).unwrap();
    assert!(stage.record(&tx).is_locked, "losing a block lifts no lock");
    stage.mine(&tx, 2, 4).unwrap();
    assert!(!stage.record(&tx).is_locked);
}

/// A node tells a block again after a restart; what an operator locked since stays locked.
pub(super) fn a_block_that_is_told_again_lifts_no_lock(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    stage.mine(&tx, 1, 2).unwrap();
    stage.lock(&tx, true, 3);
    assert_eq!(stage.mine(&tx, 1, 2), Ok(vec![1]));
    assert!(stage.record(&tx).is_locked, "the operator came after the block");
    stage.mark(&tx, false, 4);
    stage.mine(&tx, 1, 2).unwrap();
    let record = stage.record(&tx);
    assert!(
        record.is_locked && record.unmined_since.is_none(),
        "the same block, on the chain again"
    );
    stage.mine(&tx, 2, 4).unwrap();
    assert!(!stage.record(&tx).is_locked, "another block unlocks");
}

pub(super) fn mining_a_missing_transaction_is_refused_and_unmining_it_is_not(stage: &Stage) {
    let tx = seed(1, &[5]);
    assert_eq!(stage.mine(&tx, 1, 2), Err(NodeError::NotFound(tx.txid)));
    assert_eq!(stage.set_mined(&tx, 1, 2, true, true), Ok(vec![]), "gone is fine");
    let info = MinedInfo {
        block: block(1, 2),
        on_longest_chain: true,
        unset: false,
        unmined_since: at(3),
    };
    assert!(stage.store.set_mined(&[], &info).unwrap().is_empty());
}

pub(super) fn a_deletion_height_counts_from_the_block_that_mined(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 100).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 100).unwrap();
    stage.mine(&tx, 1, 900_000).unwrap();
    assert_eq!(stage.due(&tx), Some(900_000 + RETENTION), "of the block, not of a cached tip");
}

pub(super) fn leaving_and_joining_the_longest_chain_toggles_unmined_since(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 5);
    for (on, since) in [(true, None), (false, Some(at(96))), (true, None)] {
        stage.mark(&tx, on, 100);
        assert_eq!(stage.record(&tx).unmined_since, since);
    }
    assert!(stage.store.mark_on_longest_chain(&[], true, at(1)).unwrap().is_empty());
}

pub(super) fn an_unmined_record_keeps_its_earliest_height(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 100).unwrap();
    stage.mark(&tx, false, 300);
    assert_eq!(stage.record(&tx).unmined_since, Some(at(100)));
}

pub(super) fn a_record_that_leaves_the_chain_is_backdated_by_the_unmined_retention(stage: &Stage) {
    let (tx, young) = (seed(1, &[5]), seed(2, &[5]));
    stage.create_mined(&tx, 5);
    stage.create_mined(&young, 1);
    stage.mark(&tx, false, 50);
    stage.mark(&young, false, 3);
    assert_eq!(stage.record(&tx).unmined_since, Some(at(46)));
    assert_eq!(stage.record(&young).unmined_since, Some(at(1)));
}

pub(super) fn leaving_the_longest_chain_clears_the_deletion_height_and_joining_sets_it(
    stage: &Stage,
) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 5);
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 6).unwrap();
    assert_eq!(stage.due(&tx), Some(6 + RETENTION));
    stage.mark(&tx, false, 7);
    assert_eq!(stage.due(&tx), None);
    stage.mark(&tx, true, 8);
    assert_eq!(stage.due(&tx), Some(8 + RETENTION));
}

pub(super) fn a_spent_record_is_due_once_it_is_mined(stage: &Stage) {
    let tx = seed(1, &[5, 5]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 2).unwrap();
    assert_eq!(stage.due(&tx), None);
    stage.spend(&spending(3, &[(&tx, 1)], &[4]), 2).unwrap();
    assert_eq!(stage.due(&tx), None, "unmined");
    stage.mine(&tx, 1, 4).unwrap();
    assert_eq!(stage.due(&tx), Some(4 + RETENTION));
}

pub(super) fn a_mined_record_is_due_once_its_last_output_is_spent(stage: &Stage) {
    let tx = seed(1, &[5, 5]);
    stage.create_mined(&tx, 1);
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 5).unwrap();
    assert_eq!(stage.due(&tx), None);
    stage.spend(&spending(3, &[(&tx, 1)], &[4]), 6).unwrap();
    assert_eq!(stage.due(&tx), Some(6 + RETENTION));
}

pub(super) fn a_deletion_height_only_moves_forward(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    let spend = spending(2, &[(&tx, 0)], &[4]);
    stage.spend(&spend, 50).unwrap();
    stage.spend(&spend, 20).unwrap();
    assert_eq!(stage.due(&tx), Some(50 + RETENTION));
    stage.mine(&tx, 2, 80).unwrap();
    assert_eq!(stage.due(&tx), Some(80 + RETENTION));
}

pub(super) fn taking_a_spend_back_clears_the_deletion_height(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    let spend = spending(2, &[(&tx, 0)], &[4]);
    stage.spend(&spend, 5).unwrap();
    stage.unspend(&tx, 0, &spend, 6);
    assert_eq!(stage.due(&tx), None);
}

pub(super) fn a_preserved_record_gets_no_deletion_height(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    let spend = spending(2, &[(&tx, 0)], &[4]);
    stage.spend(&spend, 5).unwrap();
    assert_eq!(stage.store.preserve(&[tx.txid], at(100)).unwrap(), 1);
    stage.spend(&spend, 6).unwrap();
    stage.mine(&tx, 2, 7).unwrap();
    stage.lock(&tx, true, 8);
    stage.lock(&tx, false, 9);
    assert_eq!(stage.due(&tx), None);
    assert_eq!(stage.record(&tx).preserve_until, Some(at(100)));
}

/// A spend above the pruner's height that came while the record was kept.
pub(super) fn a_record_spent_while_preserved_is_due_after_the_spend(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 27);
    stage.store.preserve(&[tx.txid], at(31)).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 32).unwrap();
    assert_eq!(stage.store.expire_preservations(at(31), 10).unwrap(), 1);
    assert_eq!(stage.due(&tx), Some(32 + RETENTION), "of the spend, not of the run");
}

/// A reorganisation takes the block off, and the next one is lower than the spend.
pub(super) fn a_record_mined_again_below_its_spend_is_due_after_the_spend(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 5);
    let child = spending(2, &[(&tx, 0)], &[4]);
    stage.spend(&child, 20).unwrap();
    stage.set_mined(&tx, 1, 5, true, true).unwrap();
    assert_eq!(stage.due(&tx), None);
    stage.mine(&tx, 2, 6).unwrap();
    assert_eq!(stage.due(&tx), Some(20 + RETENTION), "of the spend, not of the block");
    stage.unspend(&tx, 0, &child, 21);
    stage.spend(&spending(3, &[(&tx, 0)], &[4]), 9).unwrap();
    assert_eq!(stage.due(&tx), Some(9 + RETENTION), "what was taken back counts no more");
}

/// A node that tells of a block late, after outputs were spent above it.
pub(super) fn a_block_that_is_reported_late_does_not_hasten_the_deletion(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 30).unwrap();
    stage.mine(&tx, 1, 4).unwrap();
    assert_eq!(stage.due(&tx), Some(30 + RETENTION));
}

pub(super) fn a_lock_clears_the_deletion_height_and_unlocking_sets_it(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 5).unwrap();
    stage.lock(&tx, true, 6);
    assert_eq!(stage.due(&tx), None);
    stage.lock(&tx, false, 7);
    assert_eq!(stage.due(&tx), Some(7 + RETENTION));
}

pub(super) fn preserving_clears_the_deletion_height_and_is_never_shortened(stage: &Stage) {
    let (due, live) = (seed(1, &[5]), seed(2, &[5]));
    stage.create_mined(&due, 1);
    stage.create_mined(&live, 1);
    stage.spend(&spending(3, &[(&due, 0)], &[4]), 5).unwrap();
    let ids = [due.txid, live.txid, seed(9, &[1]).txid];
    assert_eq!(stage.store.preserve(&ids, at(100)).unwrap(), 2, "also what is not due yet");
    assert_eq!(stage.due(&due), None);
    assert_eq!(stage.record(&live).preserve_until, Some(at(100)));
    stage.spend(&spending(4, &[(&live, 0)], &[4]), 6).unwrap();
    assert_eq!(stage.due(&live), None, "spent later, and kept all the same");
    assert_eq!(stage.store.preserve(&ids, at(50)).unwrap(), 2);
    assert_eq!(stage.record(&due).preserve_until, Some(at(100)), "never shortened");
    stage.store.preserve(&ids, at(150)).unwrap();
    assert_eq!(stage.record(&due).preserve_until, Some(at(150)));
}

pub(super) fn an_expired_preservation_makes_only_spent_records_due(stage: &Stage) {
    let (due, revived) = (seed(1, &[5]), seed(2, &[5]));
    for tx in [&due, &revived] {
        stage.create_mined(tx, 1);
    }
    let spend = spending(4, &[(&revived, 0)], &[4]);
    stage.spend(&spending(3, &[(&due, 0)], &[4]), 5).unwrap();
    stage.spend(&spend, 5).unwrap();
    stage.store.preserve(&[due.txid, revived.txid], at(20)).unwrap();
    stage.unspend(&revived, 0, &spend, 6);
    assert_eq!(stage.store.expire_preservations(at(19), 10).unwrap(), 0);
    assert_eq!(stage.store.expire_preservations(at(20), 10).unwrap(), 2);
    assert_eq!(stage.due(&due), Some(20 + RETENTION));
    assert_eq!(stage.due(&revived), None, "it has a live output");
    assert_eq!(stage.record(&revived).preserve_until, None);
    assert_eq!(stage.store.expire_preservations(at(99), 10).unwrap(), 0);
}

pub(super) fn unmined_records_are_listed_in_pages_up_to_the_cutoff(stage: &Stage) {
    let txs: Vec<_> = (1..=5).map(|name| seed(name, &[5])).collect();
    for (tx, height) in txs.iter().zip([30, 10, 20, 40, 10]) {
        stage.create(tx, height).unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = stage.store.unmined(at(30), after, 2).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(*last);
        seen.extend(page.iter().map(|(height, _)| height.get()));
    }
    assert_eq!(seen, [10, 10, 20, 30], "the cutoff is part of it, later ones are not");
    stage.mine(&txs[0], 1, 50).unwrap();
    assert_eq!(stage.store.unmined(at(30), None, 10).unwrap().len(), 3);
}
