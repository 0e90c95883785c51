//! Spending, unspending, and spending together with creating.

use std::thread;

use utxokeep_core::{
    OutPoint,
    node::{
        CreateOptions, NodeError, SpendAndCreate, SpendError, SpendFlags, SpendStatus,
        SpendingData, Stored,
    },
};

use super::stage::{RETENTION, Stage, at, coinbase, seed, spending};

pub(super) fn a_spend_names_its_spender_and_the_blocks_of_its_parent(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    let spend = spending(2, &[(&tx, 0)], &[4]);
    let spent = stage.spend(&spend, 2).unwrap();
    assert_eq!((spent.newly, &spent.parent_blocks[&tx.txid]), (1, &vec![1]));
    let view = stage.view(&tx, 0, 2);
    assert_eq!(view.status, SpendStatus::Spent);
    assert_eq!(view.by, Some(SpendingData { txid: spend.txid, vin: 0 }));
}

pub(super) fn a_double_spend_is_refused_and_names_the_first_spender(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let first = spending(2, &[(&tx, 0)], &[4]);
    stage.spend(&first, 2).unwrap();
    let error = stage.spend_error(Stage::request(&spending(3, &[(&tx, 0)], &[4]), 2));
    let by = SpendingData { txid: first.txid, vin: 0 };
    assert_eq!(error, SpendError::Spent { outpoint: OutPoint::new(tx.txid, 0), by });
}

pub(super) fn the_same_spend_again_counts_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let spend = spending(2, &[(&tx, 0)], &[4]);
    assert_eq!(stage.spend(&spend, 2).unwrap().newly, 1);
    assert_eq!(stage.spend(&spend, 3).unwrap().newly, 0);
    assert_eq!(stage.record(&tx).spent, 1);
}

pub(super) fn spending_an_unknown_transaction_is_not_found(stage: &Stage) {
    let error = stage.spend_error(Stage::request(&spending(2, &[(&seed(1, &[5]), 0)], &[4]), 2));
    assert!(matches!(error, SpendError::NotFound(_)));
}

pub(super) fn a_stored_spender_may_spend_again_when_its_parent_is_gone(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let spend = spending(2, &[(&tx, 0)], &[4]);
    stage.sac(&spend, 2).unwrap();
    stage.store.delete(&[tx.txid]).unwrap();
    assert_eq!(stage.spend(&spend, 3).unwrap().newly, 0, "its parent went after it was stored");
}

pub(super) fn a_spend_with_the_wrong_hash_is_refused(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let mut request = Stage::request(&spending(2, &[(&tx, 0)], &[4]), 2);
    request.inputs[0].hash[0] ^= 1;
    let error = stage.spend_error(request);
    assert_eq!(error, SpendError::Mismatch(OutPoint::new(tx.txid, 0)));
    assert_eq!(stage.status(&tx, 0), SpendStatus::Ok);
}

pub(super) fn spending_an_output_out_of_range_is_not_found(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    for vout in [1, u32::MAX] {
        let error = stage.spend_error(Stage::request(&spending(2, &[(&tx, vout)], &[4]), 2));
        assert_eq!(error, SpendError::NotFound(OutPoint::new(tx.txid, vout)));
    }
}

pub(super) fn outputs_of_a_conflicting_transaction_are_spent_only_with_the_flag(stage: &Stage) {
    let tx = seed(1, &[5]);
    let options = CreateOptions { is_conflicting: true, ..CreateOptions::default() };
    stage.create_with(&tx, 1, &options).unwrap();
    let mut request = Stage::request(&spending(2, &[(&tx, 0)], &[4]), 2);
    assert_eq!(stage.spend_error(request.clone()), SpendError::Conflicting(tx.txid));
    assert_eq!(stage.status(&tx, 0), SpendStatus::Conflicting);
    request.flags.ignore_conflicting = true;
    stage.spend_request(request).unwrap();
}

pub(super) fn outputs_of_a_locked_transaction_are_spent_only_with_the_flag(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    stage.lock(&tx, true, 1);
    let mut request = Stage::request(&spending(2, &[(&tx, 0)], &[4]), 2);
    assert_eq!(stage.spend_error(request.clone()), SpendError::Locked(tx.txid));
    assert_eq!(stage.status(&tx, 0), SpendStatus::Locked);
    request.flags.ignore_locked = true;
    stage.spend_request(request).unwrap();
}

pub(super) fn a_refused_spend_says_the_first_reason_in_a_fixed_order(stage: &Stage) {
    let tx = coinbase(1, &[5]);
    let options = CreateOptions {
        is_conflicting: true,
        is_locked: true,
        is_frozen: true,
        ..CreateOptions::default()
    };
    stage.create_with(&tx, 1, &options).unwrap();
    let mut request = Stage::request(&spending(2, &[(&tx, 0)], &[4]), 2);
    request.inputs[0].hash[0] ^= 1;
    assert!(matches!(stage.spend_error(request.clone()), SpendError::Conflicting(_)));
    request.flags.ignore_conflicting = true;
    assert!(matches!(stage.spend_error(request.clone()), SpendError::Locked(_)));
    request.flags.ignore_locked = true;
    assert!(matches!(stage.spend_error(request.clone()), SpendError::Immature { .. }));
    request.height = at(100);
    assert!(matches!(stage.spend_error(request.clone()), SpendError::Mismatch(_)));
    request.inputs[0].hash[0] ^= 1;
    assert!(matches!(stage.spend_error(request), SpendError::Frozen(_)));
}

pub(super) fn a_spender_without_a_record_spends_all_or_nothing(stage: &Stage) {
    let (free, locked) = (seed(1, &[5]), seed(2, &[5]));
    stage.create(&free, 1).unwrap();
    stage.create(&locked, 1).unwrap();
    stage.lock(&locked, true, 1);
    let spend = spending(3, &[(&free, 0), (&locked, 0)], &[9]);
    let Err(NodeError::Spend { errors, .. }) = stage.spend(&spend, 2) else {
        panic!("one parent is locked");
    };
    assert_eq!(errors, [(1, SpendError::Locked(locked.txid))]);
    assert_eq!(stage.status(&free, 0), SpendStatus::Ok, "nothing was spent");
}

pub(super) fn a_refused_spend_keeps_earlier_spends_of_a_stored_spender(stage: &Stage) {
    let (first, second) = (seed(1, &[5]), seed(2, &[5]));
    stage.create(&first, 1).unwrap();
    stage.create(&second, 1).unwrap();
    let spend = spending(3, &[(&first, 0), (&second, 0)], &[9]);
    stage.sac(&spend, 2).unwrap();
    stage.lock(&second, true, 2);
    assert!(stage.spend(&spend, 3).is_err());
    assert_eq!((stage.record(&first).spent, stage.record(&second).spent), (1, 1));
}

pub(super) fn a_spend_needs_a_height_and_inputs(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let spend = spending(2, &[(&tx, 0)], &[4]);
    assert_eq!(stage.spend(&spend, 0), Err(NodeError::HeightZero));
    let nothing = stage.spend(&seed(3, &[1]), 2);
    assert!(matches!(nothing, Err(NodeError::Invalid(_))), "{nothing:?}");
}

pub(super) fn concurrent_spends_of_one_spender_count_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let spend = spending(2, &[(&tx, 0)], &[4]);
    let newly: u32 = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..16).map(|_| scope.spawn(|| stage.spend(&spend, 2).unwrap().newly)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((newly, stage.record(&tx).spent), (1, 1));
}

pub(super) fn of_concurrent_spenders_one_wins_and_the_others_are_told(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let answers: Vec<_> = thread::scope(|scope| {
        let spend = |name| stage.spend(&spending(name, &[(&tx, 0)], &[4]), 2);
        let threads: Vec<_> = (2..18).map(|name| scope.spawn(move || spend(name))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winner = stage.view(&tx, 0, 2).by.unwrap();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for answer in answers.into_iter().filter_map(Result::err) {
        let NodeError::Spend { errors, .. } = answer else { panic!("{answer:?}") };
        assert!(
            matches!(errors[0].1, SpendError::Spent { by, .. } if by == winner),
            "every loser is told who won: {errors:?}"
        );
    }
}

pub(super) fn concurrent_spends_of_every_output_make_the_record_due(stage: &Stage) {
    let tx = seed(1, &[1; 16]);
    stage.create_mined(&tx, 1);
    thread::scope(|scope| {
        for vout in 0..16u8 {
            let spend = spending(vout + 2, &[(&tx, u32::from(vout))], &[1]);
            scope.spawn(move || stage.spend(&spend, 5).unwrap());
        }
    });
    assert_eq!((stage.record(&tx).spent, stage.due(&tx)), (16, Some(5 + RETENTION)));
}

pub(super) fn a_spend_twice_in_a_batch_counts_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let request = Stage::request(&spending(2, &[(&tx, 0)], &[4]), 2);
    let other = Stage::request(&spending(3, &[(&tx, 0)], &[4]), 2);
    let answers = stage.store.spend(&[request.clone(), request, other]).unwrap();
    let newly: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(|s| s.newly).ok()).collect();
    assert_eq!(newly, [Some(1), Some(0), None]);
    assert_eq!(stage.record(&tx).spent, 1);
}

pub(super) fn a_transaction_that_spends_an_output_twice_is_refused(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let twice = spending(2, &[(&tx, 0), (&tx, 0)], &[9]);
    let error = stage.spend_error(Stage::request(&twice, 2));
    assert!(matches!(error, SpendError::Spent { .. }));
    assert_eq!(stage.record(&tx).spent, 0);
}

pub(super) fn a_spend_that_is_taken_back_is_uncounted_once(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create_mined(&tx, 1);
    let spend = spending(2, &[(&tx, 0)], &[4]);
    stage.spend(&spend, 2).unwrap();
    assert_eq!(stage.due(&tx), Some(2 + RETENTION));
    assert!(stage.unspend(&tx, 0, &spend, 3));
    assert_eq!((stage.record(&tx).spent, stage.due(&tx)), (0, None));
    assert!(!stage.unspend(&tx, 0, &spend, 3), "again is fine, and changes nothing");
    assert_eq!(stage.record(&tx).spent, 0);
}

pub(super) fn only_the_spender_takes_its_spend_back(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(2, &[(&tx, 0)], &[4]), 2).unwrap();
    assert!(!stage.unspend(&tx, 0, &spending(3, &[(&tx, 0)], &[4]), 3));
    assert_eq!(stage.status(&tx, 0), SpendStatus::Spent);
}

pub(super) fn an_unspend_of_an_unspent_output_is_fine_and_a_wrong_one_is_refused(stage: &Stage) {
    let (tx, absent) = (seed(1, &[5]), seed(9, &[5]));
    stage.create(&tx, 1).unwrap();
    let by = spending(2, &[(&tx, 0)], &[4]);
    assert!(!stage.unspend(&tx, 0, &by, 3), "nobody spent it");
    let answer = |request| stage.store.unspend(&[request]).unwrap().remove(0);
    let missing = Stage::unspend_request(&absent, 0, &by, 3);
    assert_eq!(answer(missing), Err(NodeError::NotFound(absent.txid)));
    let mut nobody = Stage::unspend_request(&tx, 0, &by, 3);
    nobody.expected = None;
    assert!(matches!(answer(nobody), Err(NodeError::Invalid(_))));
    let mut wrong = Stage::unspend_request(&tx, 0, &by, 3);
    wrong.hash[0] ^= 1;
    assert!(matches!(answer(wrong), Err(NodeError::Output(SpendError::Mismatch(_)))));
}

pub(super) fn an_unspend_sets_the_lock_only_when_told(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let by = spending(2, &[(&tx, 0)], &[4]);
    for (flag, expected) in [(None, false), (Some(true), true), (None, true), (Some(false), false)]
    {
        let mut request = Stage::unspend_request(&tx, 0, &by, 3);
        request.set_locked = flag;
        stage.store.unspend(&[request]).unwrap().remove(0).unwrap();
        assert_eq!(stage.record(&tx).is_locked, expected, "{flag:?}");
    }
}

pub(super) fn a_child_is_stored_and_its_inputs_spent_in_one_call(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let child = spending(2, &[(&tx, 0)], &[4]);
    let Ok(Stored::New(spent)) = stage.sac(&child, 2) else { panic!("it is new") };
    assert_eq!(spent.newly, 1);
    assert_eq!(stage.status(&tx, 0), SpendStatus::Spent);
    assert_eq!(stage.status(&child, 0), SpendStatus::Ok);
}

pub(super) fn spend_only_and_create_only_exclude_each_other(stage: &Stage) {
    let tx = seed(1, &[5, 5]);
    stage.create(&tx, 1).unwrap();
    let (spend, create) = (spending(2, &[(&tx, 0)], &[4]), spending(3, &[(&tx, 1)], &[4]));
    let options = CreateOptions::default();
    let run = |tx, spend_only, create_only| {
        let how = SpendAndCreate { spend_only, create_only, flags: SpendFlags::default() };
        stage.store.spend_and_create(tx, at(2), how, &options).unwrap()
    };
    run(&spend, true, false).unwrap();
    assert_eq!((stage.get(&spend), stage.status(&tx, 0)), (None, SpendStatus::Spent));
    run(&create, false, true).unwrap();
    assert!(stage.get(&create).is_some());
    assert_eq!(stage.status(&tx, 1), SpendStatus::Ok);
    assert!(matches!(run(&create, true, true), Err(NodeError::Invalid(_))));
}

pub(super) fn spend_and_create_of_a_stored_transaction_keeps_its_spends(stage: &Stage) {
    let tx = seed(1, &[5]);
    stage.create(&tx, 1).unwrap();
    let child = spending(2, &[(&tx, 0)], &[4]);
    stage.create(&child, 1).unwrap();
    assert!(matches!(stage.sac(&child, 2), Ok(Stored::Existed(_))));
    assert_eq!(stage.status(&tx, 0), SpendStatus::Spent);
}

pub(super) fn a_failed_spend_and_create_spends_and_stores_nothing(stage: &Stage) {
    let (tx, other) = (seed(1, &[5]), seed(2, &[5]));
    stage.create(&tx, 1).unwrap();
    stage.create(&other, 1).unwrap();
    stage.spend(&spending(3, &[(&other, 0)], &[4]), 2).unwrap();
    let child = spending(4, &[(&tx, 0), (&other, 0)], &[9]);
    assert!(stage.sac(&child, 2).is_err());
    assert_eq!((stage.get(&child), stage.status(&tx, 0)), (None, SpendStatus::Ok));
    let barren = spending(5, &[(&tx, 0)], &[]);
    assert!(matches!(stage.sac(&barren, 2), Err(NodeError::Invalid(_))));
    assert_eq!(stage.status(&tx, 0), SpendStatus::Ok, "no parent names what has no record");
}

pub(super) fn a_failed_parent_fails_its_children_and_a_wrong_list_writes_nothing(stage: &Stage) {
    let tx = seed(1, &[5, 5, 5]);
    stage.create(&tx, 1).unwrap();
    stage.spend(&spending(9, &[(&tx, 1)], &[4]), 2).unwrap();
    let good = spending(2, &[(&tx, 0)], &[4]);
    let child = spending(3, &[(&good, 0)], &[3]);
    let bad = spending(4, &[(&tx, 1)], &[4]);
    let orphan = spending(5, &[(&bad, 0), (&tx, 2)], &[3]);
    let run = |txs: &[&utxokeep_core::node::NodeTx]| {
        let items: Vec<_> =
            txs.iter().map(|tx| ((*tx).clone(), CreateOptions::default())).collect();
        stage.store.spend_and_create_list(&items, at(3), SpendFlags::default()).unwrap()
    };
    let answers = run(&[&good, &child, &bad, &orphan]).unwrap();
    assert!(answers[0].is_ok() && answers[1].is_ok() && answers[2].is_err());
    assert_eq!(answers[3], Err(NodeError::ParentFailed(bad.txid)));
    assert_eq!(stage.status(&tx, 2), SpendStatus::Ok, "what failed spent nothing");
    assert_eq!(stage.status(&good, 0), SpendStatus::Spent);
    assert!(matches!(run(&[&good]).unwrap()[0], Ok(Stored::Existed(_))));

    let a = spending(6, &[(&tx, 2)], &[4]);
    let b = spending(7, &[(&a, 0)], &[3]);
    let twice = spending(8, &[(&tx, 2)], &[3]);
    let beyond = spending(10, &[(&a, 5)], &[3]);
    for list in [vec![&b, &a], vec![&a, &twice], vec![&a, &beyond], vec![&a, &a]] {
        assert!(matches!(run(&list), Err(NodeError::Invalid(_))), "{list:?}");
    }
    let coin = coinbase(11, &[5]);
    assert!(matches!(run(&[&a, &coin]), Err(NodeError::Invalid(_))));
    assert_eq!(stage.get(&a), None, "a list that is refused writes nothing");
}
