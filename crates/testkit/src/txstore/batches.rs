//! Many items in one call, parts that fail, and counters that stay exact.

use utxokeep_core::{
    OutPoint, Txid,
    node::{
        CreateOptions, NodeError, NodeTx, OutputState, SpendError, SpendFlags, SpendRequest,
        SpendStatus,
    },
};

use super::stage::{RETENTION, Stage, at, seed, spending};

pub(super) fn a_spend_keeps_what_it_could_get_when_the_spender_has_a_record(stage: &Stage) {
    let tx = seed(1, &[5, 5, 5]);
    stage.create(&tx, 1).unwrap();
    let mut request = Stage::request(&spending(2, &[(&tx, 0), (&tx, 1), (&tx, 2)], &[9]), 2);
    request.inputs[1].hash[0] ^= 1;
    let errors = vec![(1, SpendError::Mismatch(OutPoint::new(tx.txid, 1)))];
    let refused = NodeError::Spend { spender: request.spender, errors };
    assert_eq!(stage.spend_request(request.clone()), Err(refused.clone()));
    assert_eq!(stage.record(&tx).spent, 0, "whoever has no record spends nothing in part");
    let spender = NodeTx { txid: request.spender, ..seed(2, &[9]) };
    stage.create(&spender, 2).unwrap();
    assert_eq!(stage.spend_request(request), Err(refused), "the same answer");
    let slots = stage.get(&tx).unwrap().slots.unwrap();
    let spent: Vec<bool> = slots.iter().map(|slot| slot.unwrap().spent_by().is_some()).collect();
    assert_eq!(spent, [true, false, true], "whoever has one keeps what it could get");
    assert_eq!(stage.record(&tx).spent, 2);
}

pub(super) fn an_output_named_often_in_a_batch_counts_once(stage: &Stage) {
    let tx = seed(1, &[1; 1_000]);
    stage.create_mined(&tx, 1);
    let request = |name: u8, vouts: std::ops::Range<u32>| {
        let inputs: Vec<_> = vouts.map(|vout| (&tx, vout)).collect();
        Stage::request(&spending(name, &inputs, &[1]), 5)
    };
    let low = request(2, 0..600);
    let high = request(3, 400..1_000);
    let batch = [low.clone(), low.clone(), high.clone(), low.clone(), high];
    let answers = stage.store.spend(&batch).unwrap();
    let newly: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().ok().map(|s| s.newly)).collect();
    assert_eq!(newly, [Some(600), Some(0), None, Some(0), None]);
    assert_eq!(stage.record(&tx).spent, 600, "an output that is named often counts once");
    assert_eq!(stage.due(&tx), None);
    stage.spend_request(request(4, 600..1_000)).unwrap();
    assert_eq!((stage.record(&tx).spent, stage.due(&tx)), (1_000, Some(5 + RETENTION)));
}

pub(super) fn the_same_spend_again_sets_a_missing_deletion_height(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    let spend = spending(2, &[(&tx, 0)], &[4]);
    stage.spend(&spend, 5).unwrap();
    stage.store.preserve(&[tx.txid], at(20)).unwrap();
    stage.spend(&spend, 6).unwrap();
    assert_eq!(stage.due(&tx), None, "a preserved record stays without");
    stage.store.expire_preservations(at(20), 10).unwrap();
    stage.spend(&spend, 30).unwrap();
    assert_eq!((stage.record(&tx).spent, stage.due(&tx)), (1, Some(30 + RETENTION)));
}

pub(super) fn a_frozen_output_has_no_spend_to_take_back(stage: &Stage) {
    let tx = seed(1, &[5]);
    let options = CreateOptions { is_frozen: true, ..CreateOptions::default() };
    stage.create_with(&tx, 1, &options).unwrap();
    assert!(!stage.unspend(&tx, 0, &spending(2, &[(&tx, 0)], &[4]), 2));
    assert_eq!(stage.status(&tx, 0), SpendStatus::Frozen, "nothing to take back");
}

pub(super) fn the_counter_of_spent_outputs_is_a_recount(stage: &Stage) {
    let tx = seed(1, &[1; 8]);
    stage.create_mined(&tx, 1);
    let spends: Vec<_> = (0..8u8).map(|v| spending(v + 2, &[(&tx, u32::from(v))], &[1])).collect();
    // Each spend twice, each odd one taken back twice, one of them by somebody else.
    for spend in spends.iter().chain(&spends) {
        stage.spend(spend, 5).unwrap();
    }
    assert_eq!(stage.record(&tx).spent, 8);
    for vout in [1, 3, 5, 7, 1, 3] {
        stage.unspend(&tx, vout, &spends[vout as usize], 6);
        stage.unspend(&tx, vout, &spends[0], 6);
    }
    let stored = stage.get(&tx).unwrap();
    let is_spent =
        |slot: &utxokeep_core::node::OutputRecord| matches!(slot.state, OutputState::Spent(_));
    let counted = stored.slots.unwrap().iter().flatten().filter(|slot| is_spent(slot)).count();
    assert_eq!((stored.record.spent, counted), (4, 4), "the counter is a recount");
    let requests: Vec<_> =
        (0..8).map(|v| Stage::unspend_request(&tx, v, &spends[v as usize], 7)).collect();
    let taken = stage.store.unspend(&[&requests[..], &requests[..]].concat()).unwrap();
    assert_eq!(taken.iter().filter(|answer| **answer == Ok(true)).count(), 4);
    assert_eq!(stage.record(&tx).spent, 0, "never below");
}

/// Sanity. A thousand transactions in, a thousand spent, in a few calls.
pub(super) fn a_thousand_transactions_are_created_and_spent_in_batches(stage: &Stage) {
    let id = |kind: u8, number: u32| {
        let mut bytes = [kind; 32];
        bytes[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
        Txid::from_bytes(bytes)
    };
    let parents: Vec<_> =
        (0..1_000).map(|n| NodeTx { txid: id(1, n), ..seed(1, &[5, 6]) }).collect();
    let items: Vec<_> = parents.iter().map(|tx| (tx.clone(), CreateOptions::default())).collect();
    for chunk in items.chunks(400) {
        assert!(stage.store.create(chunk, at(1)).unwrap().iter().all(Result::is_ok));
    }
    let spends: Vec<SpendRequest> = (0u32..)
        .zip(&parents)
        .map(|(n, parent)| {
            let tx = NodeTx { txid: id(2, n), ..spending(2, &[(parent, 1)], &[4]) };
            SpendRequest::of(&tx, at(2), SpendFlags::default()).unwrap()
        })
        .collect();
    for chunk in spends.chunks(400) {
        assert!(stage.store.spend(chunk).unwrap().iter().all(|a| a.as_ref().unwrap().newly == 1));
    }
    let ids: Vec<Txid> = parents.iter().map(|tx| tx.txid).collect();
    let stored = stage.store.get(&ids, utxokeep_txstore::Fields { body: true, slots: true });
    for (stored, (parent, n)) in stored.unwrap().into_iter().zip(parents.iter().zip(0u32..)) {
        let stored = stored.unwrap();
        let slots = stored.slots.unwrap();
        assert_eq!((stored.record.spent, stored.body.as_ref()), (1, Some(parent)));
        assert_eq!(slots[0].unwrap().state, OutputState::Unspent);
        assert_eq!(slots[1].unwrap().spent_by().unwrap().txid, id(2, n));
    }
}
