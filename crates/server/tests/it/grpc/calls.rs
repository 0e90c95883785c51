//! Every call once as it should be, and once refused, with the numbers and facts on the wire.

use utxokeep_core::{
    OutPoint,
    node::{CreateOptions, NodeTx, SpendFlags, SpendRequest},
};
use utxokeep_server::grpc::proto::{self, ErrorCode};
use utxokeep_testkit::txstore::{coinbase, seed, spending};

use crate::grpc::{
    requests::{new_transaction, outpoint, output_ref, spend},
    served::Served,
};

/// The id of a transaction, as it goes over the wire.
pub(crate) fn id(tx: &NodeTx) -> Vec<u8> {
    tx.txid.as_bytes().to_vec()
}

pub(crate) fn at(tx: &NodeTx, vout: u32) -> proto::OutPoint {
    outpoint(&OutPoint::new(tx.txid, vout))
}

pub(crate) fn named(tx: &NodeTx, vout: u32) -> proto::OutputRef {
    output_ref(&OutPoint::new(tx.txid, vout), &tx.utxo_hash(vout).unwrap())
}

pub(crate) fn create(served: &Served, tx: &NodeTx, options: &CreateOptions) -> proto::ItemResult {
    let transactions = vec![new_transaction(tx, options)];
    let request = proto::CreateRequest { transactions, height: 1 };
    let mut answer = served.ok(served.client().create(request));
    assert_eq!(answer.results.len(), 1);
    answer.results.remove(0)
}

fn spending_of(tx: &NodeTx, height: u32) -> proto::Spend {
    let height = utxokeep_core::Height::new(height);
    spend(&SpendRequest::of(tx, height, SpendFlags::default()).unwrap())
}

/// Takes `ok` or `error` out of a message.
macro_rules! take {
    ($oneof:ident, $arm:ident, $message:expr) => {
        match $message.result.clone().unwrap() {
            utxokeep_server::grpc::proto::$oneof::Result::$arm(value) => value,
            other => panic!("{other:?}"),
        }
    };
}
pub(crate) use take;

#[test]
fn create_get_and_delete() {
    let served = Served::memory();
    let tx = seed(1, &[5, 0, 7]);
    take!(item_result, Ok, create(&served, &tx, &CreateOptions::default()));
    let error = take!(item_result, Error, create(&served, &tx, &CreateOptions::default()));
    assert_eq!((error.code, error.txid), (33, id(&tx)));

    let ask = |fields| proto::GetRequest { txids: vec![id(&tx), vec![9; 32]], fields };
    let answer = served.ok(served.client().get(ask(None)));
    let found = take!(get_result, Ok, answer.results[0]);
    assert_eq!((found.body, found.slots), (None, None));
    let record = found.record.unwrap();
    assert_eq!((record.outputs, record.utxos, record.spent), (3, 2, 0));
    assert_eq!(record.unmined_since_height, Some(1));
    assert_eq!(record.body_place(), proto::BodyPlace::Inline);
    let error = take!(get_result, Error, answer.results[1]);
    assert_eq!((error.code, error.txid), (30, vec![9; 32]));

    let fields = proto::Fields { body: true, slots: true };
    let answer = served.ok(served.client().get(ask(Some(fields))));
    let found = take!(get_result, Ok, answer.results[0]);
    assert_eq!(found.body.unwrap().outputs[2].satoshis, 7);
    let slots = found.slots.unwrap().slots;
    assert_eq!(slots.iter().map(|slot| slot.vout).collect::<Vec<_>>(), [0, 2]);

    let delete = || proto::DeleteRequest { txids: vec![id(&tx), vec![9; 32]] };
    assert_eq!(served.ok(served.client().delete(delete())).deleted, 1);
    assert_eq!(served.ok(served.client().delete(delete())).deleted, 0);
}

#[test]
fn the_loser_of_an_output_is_told_the_true_spender() {
    let served = Served::memory();
    let parent = seed(1, &[5, 6]);
    create(&served, &parent, &CreateOptions::default());
    let winner = spending(2, &[(&parent, 1), (&parent, 0)], &[9]);
    let loser = spending(3, &[(&parent, 0)], &[4]);
    let absent = spending(4, &[(&seed(9, &[1]), 0)], &[1]);
    let nothing = proto::Spend { spender: vec![5; 32], height: 2, ..proto::Spend::default() };
    let spends = [&winner, &loser, &winner, &absent].map(|tx| spending_of(tx, 2));
    let spends = spends.into_iter().chain([nothing, spending_of(&winner, 0)]).collect();
    let answer = served.ok(served.client().spend(proto::SpendRequest { spends }));

    let done = take!(spend_result, Ok, answer.results[0]);
    assert_eq!((done.newly_spent, done.parents[0].txid.clone()), (2, id(&parent)));
    let again = take!(spend_result, Ok, answer.results[2]);
    assert_eq!(again.newly_spent, 0, "a repeated spend counts nothing");

    let lost = take!(spend_result, Error, answer.results[1]);
    assert_eq!((lost.code, lost.txid, lost.inputs.len()), (79, id(&loser), 1));
    let input = lost.inputs[0].error.clone().unwrap();
    assert_eq!((lost.inputs[0].vin, input.code), (0, 70));
    assert_eq!(input.outpoint, Some(at(&parent, 0)));
    assert_eq!(input.spent_by, Some(proto::Spender { txid: id(&winner), vin: 1 }));

    let missing = take!(spend_result, Error, answer.results[3]);
    assert_eq!(missing.inputs[0].error.clone().unwrap().code(), ErrorCode::UtxoNotFound);
    let empty = take!(spend_result, Error, answer.results[4]);
    assert_eq!(empty.code(), ErrorCode::InvalidRequest);
    let unplaced = take!(spend_result, Error, answer.results[5]);
    assert_eq!(unplaced.code(), ErrorCode::HeightZero);
}

#[test]
fn a_young_coinbase_says_when_it_is_ripe() {
    let served = Served::memory();
    let tx = coinbase(1, &[50]);
    create(&served, &tx, &CreateOptions::default());
    let outputs = vec![
        named(&tx, 0),
        proto::OutputRef { utxo_hash: Vec::new(), ..named(&tx, 0) },
        proto::OutputRef { utxo_hash: vec![1; 32], ..named(&tx, 0) },
        output_ref(&OutPoint::new(tx.txid, 1), &[]),
    ];
    let ask = |height| proto::GetSpendRequest { outputs: outputs.clone(), height };
    let answer = served.ok(served.client().get_spend(ask(100)));
    for result in &answer.results[..2] {
        let view = take!(get_spend_result, Ok, result);
        assert_eq!((view.status(), view.spent_by), (proto::SpendStatus::Immature, None));
    }
    assert_eq!(take!(get_spend_result, Error, answer.results[2]).code, 74);
    assert_eq!(take!(get_spend_result, Ok, answer.results[3]).status, 3);

    let spend = spending(2, &[(&tx, 0)], &[49]);
    let ask = |height| proto::SpendRequest { spends: vec![spending_of(&spend, height)] };
    let answer = served.ok(served.client().spend(ask(100)));
    let young = take!(spend_result, Error, answer.results[0]).inputs[0].error.clone().unwrap();
    assert_eq!((young.code, young.txid), (38, id(&tx)));
    assert_eq!((young.from_height, young.at_height), (Some(101), Some(100)));
    let answer = served.ok(served.client().spend(ask(101)));
    assert_eq!(take!(spend_result, Ok, answer.results[0]).newly_spent, 1);

    let unspend = |vin| proto::Unspend {
        output: Some(named(&tx, 0)),
        expected: Some(proto::Spender { txid: id(&spend), vin }),
        set_locked: Some(true),
        height: 102,
    };
    let unowned = proto::Unspend { expected: None, ..unspend(0) };
    let unspends = vec![unspend(1), unspend(0), unspend(0), unowned];
    let answer = served.ok(served.client().unspend(proto::UnspendRequest { unspends }));
    let taken = answer.results[..3].iter();
    let taken = taken.map(|result| take!(unspend_result, Ok, result).was_taken_back);
    assert_eq!(taken.collect::<Vec<_>>(), [false, true, false]);
    let error = take!(unspend_result, Error, answer.results[3]);
    assert_eq!(error.code(), ErrorCode::InvalidRequest);
    let answer = served.ok(served.client().spend(ask(103)));
    let locked = take!(spend_result, Error, answer.results[0]).inputs[0].error.clone().unwrap();
    assert_eq!((locked.code, locked.txid), (37, id(&tx)));
}

#[test]
fn spend_and_create_alone_and_as_a_list() {
    let served = Served::memory();
    let parent = seed(1, &[5, 6]);
    create(&served, &parent, &CreateOptions::default());
    let child = spending(2, &[(&parent, 0)], &[4]);
    let new = |tx: &NodeTx| new_transaction(tx, &CreateOptions::default());
    let one = |spend_only, create_only| proto::SpendAndCreateRequest {
        transaction: Some(new(&child)),
        height: 2,
        flags: None,
        spend_only,
        create_only,
    };
    for existed in [false, true] {
        let answer = served.ok(served.client().spend_and_create(one(false, false)));
        let stored = take!(stored_result, Ok, answer.result.unwrap());
        assert_eq!(
            (stored.existed, stored.spent.unwrap().newly_spent),
            (existed, u32::from(!existed))
        );
    }
    let answer = served.ok(served.client().spend_and_create(one(true, true)));
    assert_eq!(take!(stored_result, Error, answer.result.unwrap()).code, 1000);

    let grandchild = spending(3, &[(&child, 0)], &[3]);
    let thief = spending(4, &[(&parent, 0)], &[5]);
    let heir = spending(5, &[(&thief, 0)], &[4]);
    let list = |txs: &[&NodeTx]| proto::SpendAndCreateListRequest {
        transactions: txs.iter().map(|tx| new(tx)).collect(),
        height: 3,
        flags: None,
    };
    let call = list(&[&grandchild, &thief, &heir]);
    let answer = served.ok(served.client().spend_and_create_list(call));
    let results = take!(spend_and_create_list_response, Ok, answer).results;
    assert!(!take!(stored_result, Ok, results[0]).existed);
    let beaten = take!(stored_result, Error, results[1]).inputs[0].error.clone().unwrap();
    assert_eq!(beaten.spent_by, Some(proto::Spender { txid: id(&child), vin: 0 }));
    let orphan = take!(stored_result, Error, results[2]);
    assert_eq!((orphan.code, orphan.txid), (1002, id(&thief)));

    let call = list(&[&heir, &thief]);
    let answer = served.ok(served.client().spend_and_create_list(call));
    assert_eq!(take!(spend_and_create_list_response, Error, answer).code, 1000);
}

#[test]
fn blocks_come_and_go() {
    let served = Served::memory();
    let (tx, absent) = (seed(1, &[5]), vec![9; 32]);
    create(&served, &tx, &CreateOptions::default());
    let mined = |block, unset| proto::SetMinedRequest {
        txids: vec![id(&tx), absent.clone()],
        block: Some(block),
        on_longest_chain: true,
        unset,
        unmined_since_height: 8,
    };
    let block = proto::MinedBlock { id: 77, height: 7, subtree: 3 };
    let answer = served.ok(served.client().set_mined(mined(block, false)));
    assert_eq!(take!(set_mined_result, Ok, answer.results[0]).block_ids, [77]);
    assert_eq!(take!(set_mined_result, Error, answer.results[1]).code, 30);
    let parents = || proto::GetParentOutputsRequest {
        outputs: vec![at(&tx, 0), at(&tx, 1), at(&seed(9, &[1]), 0)],
    };
    let answer = served.ok(served.client().get_parent_outputs(parents()));
    let parent = take!(parent_output_result, Ok, answer.results[0]);
    assert_eq!(parent.mined_height, Some(7));
    assert_eq!(take!(parent_output_result, Error, answer.results[1]).code, 73);
    assert_eq!(take!(parent_output_result, Error, answer.results[2]).code, 30);

    let answer = served.ok(served.client().set_mined(mined(block, true)));
    assert!(take!(set_mined_result, Ok, answer.results[0]).block_ids.is_empty());
    take!(set_mined_result, Ok, answer.results[1]);
    let answer = served.ok(served.client().get_parent_outputs(parents()));
    assert_eq!(take!(parent_output_result, Ok, answer.results[0]).mined_height, None);
    let zero = proto::MinedBlock { height: 0, ..block };
    let answer = served.ok(served.client().set_mined(mined(zero, false)));
    assert_eq!(take!(set_mined_result, Error, answer.results[0]).code, 1001);

    let mark = |height| proto::MarkOnLongestChainRequest {
        txids: vec![id(&tx), absent.clone()],
        on_longest_chain: true,
        height,
    };
    let answer = served.ok(served.client().mark_on_longest_chain(mark(9)));
    take!(item_result, Ok, answer.results[0]);
    assert_eq!(take!(item_result, Error, answer.results[1]).code, 30);
    let answer = served.ok(served.client().mark_on_longest_chain(mark(0)));
    assert_eq!(take!(item_result, Error, answer.results[0]).code, 1001);
    let lock = proto::SetLockedRequest { txids: vec![id(&tx), absent], is_locked: true, height: 9 };
    let answer = served.ok(served.client().set_locked(lock));
    take!(item_result, Ok, answer.results[0]);
    assert_eq!(take!(item_result, Error, answer.results[1]).code, 30);
}

#[test]
fn block_state_is_set_and_read_together() {
    let served = Served::memory();
    let read = || served.ok(served.client().get_block_state(proto::GetBlockStateRequest {})).state;
    assert_eq!(read(), None);
    let state = proto::BlockState { height: 7, median_time: 1_700_000_000 };
    let set = |state| {
        let request = proto::SetBlockStateRequest { state: Some(state) };
        served.ok(served.client().set_block_state(request)).result.unwrap()
    };
    take!(item_result, Ok, set(state));
    let zero = proto::BlockState { height: 0, median_time: 1 };
    assert_eq!(take!(item_result, Error, set(zero)).code, 1001);
    assert_eq!(read(), Some(state));
}

/// Bytes are enough: the id is computed and answered, also for an extended transaction.
#[test]
fn a_raw_transaction_is_stored_under_its_computed_id() {
    let served = Served::memory();
    let outpoint = format!("{}05000000", "11".repeat(32));
    let outputs = ["01", "0700000000000000", "0151", "00000000"].concat();
    let plain = format!("02000000 01{outpoint}0151feffffff {outputs}").replace(' ', "");
    let spent = "0a00000000000000026a51";
    let extended =
        format!("02000000 0000000000ef 01{outpoint}0151feffffff{spent} {outputs}").replace(' ', "");
    let raw = utxokeep_core::hex_decode(&extended).unwrap();
    let request = |transaction| {
        let new = proto::NewTransaction { transaction: Some(transaction), options: None };
        proto::CreateRequest { transactions: vec![new], height: 1 }
    };
    let bytes = |raw: Vec<u8>| proto::Transaction { raw, ..proto::Transaction::default() };
    let mut answer = served.ok(served.client().create(request(bytes(raw.clone()))));
    take!(item_result, Ok, answer.results.remove(0));
    let txid = answer.txids.remove(0);
    let parsed = NodeTx::from_raw(&utxokeep_core::hex_decode(&plain).unwrap()).unwrap();
    assert_eq!(txid, id(&parsed));
    let fields = Some(proto::Fields { body: true, slots: false });
    let asked = proto::GetRequest { txids: vec![txid.clone()], fields };
    let answer = served.ok(served.client().get(asked));
    let body = take!(get_result, Ok, answer.results[0]).body.unwrap();
    assert_eq!((body.txid, body.version, body.raw), (txid.clone(), 2, Vec::new()));
    assert_eq!(body.inputs[0].previous.as_ref().unwrap().satoshis, 10);
    // Sent again with its id it is there already; with another one it is refused.
    let again = proto::Transaction { txid: txid.clone(), ..bytes(raw.clone()) };
    let error =
        take!(item_result, Error, served.ok(served.client().create(request(again))).results[0]);
    assert_eq!((error.code, error.txid), (33, txid));
    for (wrong, named) in [
        (proto::Transaction { txid: vec![7; 32], ..bytes(raw.clone()) }, "txid"),
        (proto::Transaction { version: 1, ..bytes(raw.clone()) }, "raw"),
        (bytes(raw[1..].to_vec()), "raw"),
    ] {
        let status = served.status(served.client().create(request(wrong)));
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains(&format!("transaction.{named}")), "{status:?}");
    }
}
