//! Calls about conflicts, frozen outputs, and what is kept for how long.

use utxokeep_core::node::{CreateOptions, MinedBlock};
use utxokeep_server::grpc::proto;
use utxokeep_testkit::txstore::{seed, spending};

use crate::grpc::{
    calls::{at, create, id, named},
    requests::new_transaction,
    served::Served,
    take,
};

#[test]
fn a_conflict_is_resolved_under_an_intent() {
    let served = Served::memory();
    let parent = seed(1, &[5]);
    create(&served, &parent, &CreateOptions::default());
    let (loser, winner) = (spending(2, &[(&parent, 0)], &[4]), spending(3, &[(&parent, 0)], &[3]));
    let stored = proto::SpendAndCreateRequest {
        transaction: Some(new_transaction(&loser, &CreateOptions::default())),
        height: 2,
        ..proto::SpendAndCreateRequest::default()
    };
    served.ok(served.client().spend_and_create(stored));
    let process = || proto::ProcessConflictingRequest { winners: vec![id(&winner)], height: 3 };
    let answer = served.ok(served.client().process_conflicting(process()));
    let error = take!(process_conflicting_response, Error, answer);
    assert_eq!((error.code, error.txid), (30, id(&winner)));

    create(&served, &winner, &CreateOptions { is_conflicting: true, ..CreateOptions::default() });
    let intent = proto::ConflictIntent { txids: vec![id(&winner), id(&winner)], height: 3 };
    let begin = || proto::BeginConflictIntentRequest { intent: Some(intent.clone()) };
    let name = served.ok(served.client().begin_conflict_intent(begin())).id;
    assert_eq!(served.ok(served.client().begin_conflict_intent(begin())).id, name);
    let list = || {
        let request = proto::ListConflictIntentsRequest { limit: 10 };
        served.ok(served.client().list_conflict_intents(request)).intents
    };
    assert_eq!(list(), [proto::ConflictIntent { txids: vec![id(&winner)], height: 3 }]);

    let answer = served.ok(served.client().process_conflicting(process()));
    assert_eq!(take!(process_conflicting_response, Ok, answer).txids, [id(&loser)]);
    for _ in 0..2 {
        let request = proto::CompleteConflictIntentRequest { id: name.clone() };
        served.ok(served.client().complete_conflict_intent(request));
    }
    assert_eq!(list(), []);

    let mark = proto::SetConflictingRequest {
        txids: vec![id(&winner), vec![9; 32]],
        is_conflicting: true,
        height: 4,
    };
    let answer = served.ok(served.client().set_conflicting(mark));
    let relatives = take!(set_conflicting_result, Ok, answer.results[0]);
    assert_eq!(relatives.spends[0].output, Some(named(&parent, 0)));
    assert!(relatives.children.is_empty());
    assert_eq!(take!(set_conflicting_result, Error, answer.results[1]).code, 30);
}

#[test]
fn outputs_are_frozen_and_given_away() {
    let served = Served::memory();
    let tx = seed(1, &[5, 6]);
    create(&served, &tx, &CreateOptions::default());
    let freeze = || proto::FreezeRequest { outputs: vec![named(&tx, 0), named(&tx, 0)] };
    let answer = served.ok(served.client().freeze(freeze()));
    take!(item_result, Ok, answer.results[0]);
    let error = take!(item_result, Error, answer.results[1]);
    assert_eq!((error.code, error.outpoint), (1003, Some(at(&tx, 0))));
    let unfreeze = proto::UnfreezeRequest { outputs: vec![named(&tx, 0), named(&tx, 1)] };
    let answer = served.ok(served.client().unfreeze(unfreeze));
    take!(item_result, Ok, answer.results[0]);
    let error = take!(item_result, Error, answer.results[1]);
    assert_eq!((error.code, error.outpoint), (1004, Some(at(&tx, 1))));

    let reassign =
        || proto::ReassignRequest { output: Some(named(&tx, 0)), script: vec![0x52], height: 10 };
    let answer = served.ok(served.client().reassign(reassign()));
    assert_eq!(take!(reassign_response, Error, answer).code, 1004);
    served.ok(served.client().freeze(freeze()));
    let answer = served.ok(served.client().reassign(reassign()));
    let utxo_hash = take!(reassign_response, Ok, answer).utxo_hash;
    assert_eq!(utxo_hash.len(), 32);

    let decorate =
        proto::DecorateRequest { outputs: vec![at(&tx, 0), at(&tx, 2), at(&seed(9, &[1]), 0)] };
    let answer = served.ok(served.client().decorate(decorate));
    let output = take!(decorate_result, Ok, answer.results[0]);
    assert_eq!(output, proto::Output { satoshis: 5, script: vec![0x52] });
    assert_eq!(take!(decorate_result, Error, answer.results[1]).code, 73);
    assert_eq!(take!(decorate_result, Error, answer.results[2]).code, 30);

    let output = proto::OutputRef { outpoint: Some(at(&tx, 0)), utxo_hash };
    let spend = proto::Spend {
        spender: vec![8; 32],
        inputs: vec![proto::SpendInput { output: Some(output), vin: 0 }],
        height: 1_009,
        flags: None,
    };
    let answer = served.ok(served.client().spend(proto::SpendRequest { spends: vec![spend] }));
    let held = take!(spend_result, Error, answer.results[0]).inputs[0].error.clone().unwrap();
    assert_eq!((held.code, held.from_height), (72, Some(1_010)));
}

#[test]
fn what_may_go_is_kept_until_its_height() {
    let served = Served::memory();
    let tx = seed(1, &[0]);
    let mined = vec![MinedBlock { id: 1, height: utxokeep_core::Height::new(1), subtree: 0 }];
    create(&served, &tx, &CreateOptions { mined, ..CreateOptions::default() });
    let preserve = proto::PreserveRequest { txids: vec![id(&tx), vec![9; 32]], until_height: 20 };
    assert_eq!(served.ok(served.client().preserve(preserve)).preserved, 1);
    for (height, expired) in [(19, 0), (20, 1), (21, 0)] {
        let request = proto::ExpirePreservationsRequest { height, limit: 10 };
        assert_eq!(served.ok(served.client().expire_preservations(request)).expired, expired);
    }
}

#[test]
fn unmined_transactions_come_in_pages() {
    let served = Served::memory();
    for name in 1..=5 {
        create(&served, &seed(name, &[5]), &CreateOptions::default());
    }
    let pages = |request| {
        served.runtime.block_on(async {
            let mut stream = served.client().list_unmined(request).await.unwrap().into_inner();
            let mut pages = Vec::new();
            while let Some(page) = stream.message().await.unwrap() {
                pages.push(page.transactions);
            }
            pages
        })
    };
    let all =
        proto::ListUnminedRequest { cutoff_height: 1, ..proto::ListUnminedRequest::default() };
    let whole = pages(all.clone());
    assert_eq!(whole.iter().map(Vec::len).collect::<Vec<_>>(), [5]);
    let in_parts = pages(proto::ListUnminedRequest { page_entries: Some(2), ..all.clone() });
    assert_eq!(in_parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(in_parts.concat(), whole[0]);
    let limited = proto::ListUnminedRequest {
        page_entries: Some(2),
        limit: Some(3),
        after: Some(whole[0][0].clone()),
        ..all.clone()
    };
    assert_eq!(pages(limited).concat(), whole[0][1..4]);
    let none = proto::ListUnminedRequest { after: Some(whole[0][4].clone()), ..all };
    assert!(pages(none).is_empty());
}
