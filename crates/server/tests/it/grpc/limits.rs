//! Requests that break the contract, and what is too large.

use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};
use utxokeep::config::GrpcConfig;
use utxokeep_core::node::{CreateOptions, Policy};
use utxokeep_kv::MemoryKv;
use utxokeep_server::grpc::proto;
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::TABLES;

use crate::{
    alone::is_alone,
    grpc::{
        calls::{create, id, named},
        requests::new_transaction,
        served::{ITEMS_MAX, Served, store_on},
        take,
    },
};

fn assert_invalid(status: &Status, expected: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().starts_with(expected), "{expected}: {status}");
    assert!(status.message().ends_with("; nothing was changed"), "{status}");
}

#[test]
fn wrong_lengths_and_missing_parts_are_named_by_their_place() {
    let served = Served::memory();
    let parent = seed(1, &[5]);
    let good = new_transaction(&spending(2, &[(&parent, 0)], &[4]), &CreateOptions::default());
    let with = |change: &dyn Fn(&mut proto::Transaction)| {
        let mut bad = good.clone();
        change(bad.transaction.as_mut().unwrap());
        proto::CreateRequest { transactions: vec![good.clone(), bad], height: 1 }
    };
    let cases: [(proto::CreateRequest, &str); 6] = [
        (with(&|tx| tx.txid = vec![1; 31]), "transactions[1].transaction.txid: 31 bytes, 32 are"),
        (with(&|tx| tx.txid.clear()), "transactions[1].transaction.txid: 0 bytes, 32 are"),
        (
            with(&|tx| tx.inputs[0].outpoint = None),
            "transactions[1].transaction.inputs[0].outpoint: is missing",
        ),
        (
            with(&|tx| tx.inputs[0].outpoint.as_mut().unwrap().txid.push(0)),
            "transactions[1].transaction.inputs[0].outpoint.txid: 33 bytes",
        ),
        (
            proto::CreateRequest {
                transactions: vec![proto::NewTransaction::default()],
                height: 1,
            },
            "transactions[0].transaction: is missing",
        ),
        (
            proto::CreateRequest {
                transactions: vec![proto::NewTransaction {
                    options: Some(proto::CreateOptions {
                        mined: vec![proto::MinedBlock::default()],
                        ..proto::CreateOptions::default()
                    }),
                    ..good.clone()
                }],
                height: 1,
            },
            "transactions[0].options.mined[0].height: is missing or 0",
        ),
    ];
    for (request, expected) in cases {
        assert_invalid(&served.status(served.client().create(request)), expected);
    }
    let all =
        proto::ListUnminedRequest { cutoff_height: 9, ..proto::ListUnminedRequest::default() };
    let stored = served.runtime.block_on(async {
        let mut pages = served.client().list_unmined(all).await.unwrap().into_inner();
        pages.message().await.unwrap()
    });
    assert_eq!(stored, None, "good items of a bad request are not stored either");
}

#[test]
#[allow(clippy::too_many_lines, reason = "one list of every call")]
fn every_call_checks_its_request() {
    let served = Served::memory();
    let client = || served.client();
    let short = || vec![vec![7; 32], vec![7; 5]];
    let bad_output = || vec![proto::OutputRef { utxo_hash: vec![1], ..named(&seed(1, &[5]), 0) }];
    let spend = proto::Spend { spender: vec![1], ..proto::Spend::default() };
    let unspend = proto::Unspend::default();
    let at = "txids[1]: 5 bytes";
    let statuses = [
        (served.status(client().get(proto::GetRequest { txids: short(), fields: None })), at),
        (
            served.status(
                client().get_spend(proto::GetSpendRequest { outputs: bad_output(), height: 1 }),
            ),
            "outputs[0].utxo_hash: 1 bytes",
        ),
        (
            served
                .status(client().get_spend(proto::GetSpendRequest { outputs: vec![], height: 0 })),
            "height: is missing or 0",
        ),
        (
            served.status(client().spend(proto::SpendRequest { spends: vec![spend] })),
            "spends[0].spender: 1 bytes",
        ),
        (
            served.status(client().unspend(proto::UnspendRequest { unspends: vec![unspend] })),
            "unspends[0].output: is missing",
        ),
        (
            served.status(client().spend_and_create(proto::SpendAndCreateRequest::default())),
            "transaction: is missing",
        ),
        (
            served.status(client().spend_and_create_list(proto::SpendAndCreateListRequest {
                transactions: vec![proto::NewTransaction::default()],
                ..proto::SpendAndCreateListRequest::default()
            })),
            "transactions[0].transaction: is missing",
        ),
        (served.status(client().set_mined(proto::SetMinedRequest::default())), "block: is missing"),
        (
            served.status(client().mark_on_longest_chain(proto::MarkOnLongestChainRequest {
                txids: short(),
                ..proto::MarkOnLongestChainRequest::default()
            })),
            at,
        ),
        (
            served.status(client().set_locked(proto::SetLockedRequest {
                txids: short(),
                ..proto::SetLockedRequest::default()
            })),
            at,
        ),
        (
            served.status(client().set_conflicting(proto::SetConflictingRequest {
                txids: short(),
                ..proto::SetConflictingRequest::default()
            })),
            at,
        ),
        (
            served.status(client().process_conflicting(proto::ProcessConflictingRequest {
                winners: short(),
                height: 1,
            })),
            "winners[1]: 5 bytes",
        ),
        (
            served.status(client().begin_conflict_intent(proto::BeginConflictIntentRequest {
                intent: Some(proto::ConflictIntent { txids: short(), height: 1 }),
            })),
            "intent.txids[1]: 5 bytes",
        ),
        (
            served.status(
                client()
                    .complete_conflict_intent(proto::CompleteConflictIntentRequest { id: vec![] }),
            ),
            "id: 0 bytes",
        ),
        (
            served.status(
                client().list_conflict_intents(proto::ListConflictIntentsRequest { limit: 0 }),
            ),
            "limit: is 0, from 1 to",
        ),
        (
            served.status(client().freeze(proto::FreezeRequest { outputs: bad_output() })),
            "outputs[0].utxo_hash: 1 bytes",
        ),
        (
            served.status(client().unfreeze(proto::UnfreezeRequest {
                outputs: vec![proto::OutputRef { outpoint: None, utxo_hash: vec![1; 32] }],
            })),
            "outputs[0].outpoint: is missing",
        ),
        (served.status(client().reassign(proto::ReassignRequest::default())), "output: is missing"),
        (
            served.status(
                client().preserve(proto::PreserveRequest { txids: vec![], until_height: 0 }),
            ),
            "until_height: is missing or 0",
        ),
        (
            served.status(client().expire_preservations(proto::ExpirePreservationsRequest {
                height: 1,
                limit: u32::MAX,
            })),
            "limit: is 4294967295, from 1 to 1000",
        ),
        (
            served.status(client().list_unmined(proto::ListUnminedRequest::default())),
            "cutoff_height: is missing or 0",
        ),
        (
            served
                .status(client().decorate(proto::DecorateRequest {
                    outputs: vec![proto::OutPoint::default()],
                })),
            "outputs[0].txid: 0 bytes",
        ),
        (
            served.status(client().get_parent_outputs(proto::GetParentOutputsRequest {
                outputs: vec![proto::OutPoint::default()],
            })),
            "outputs[0].txid: 0 bytes",
        ),
        (served.status(client().delete(proto::DeleteRequest { txids: short() })), at),
        (
            served.status(client().set_block_state(proto::SetBlockStateRequest { state: None })),
            "state: is missing",
        ),
    ];
    for (status, expected) in statuses {
        assert_invalid(&status, expected);
    }
}

#[test]
fn too_many_items_are_refused_and_none_are_fine() {
    let served = Served::memory();
    let ask = |items| proto::GetRequest { txids: vec![vec![1; 32]; items], fields: None };
    assert_eq!(served.ok(served.client().get(ask(ITEMS_MAX))).results.len(), ITEMS_MAX);
    assert!(served.ok(served.client().get(ask(0))).results.is_empty());
    let status = served.status(served.client().get(ask(ITEMS_MAX + 1)));
    assert_invalid(&status, "txids: 1001 items, the most is 1000");
}

#[test]
fn messages_are_limited_both_ways() {
    let config = GrpcConfig { message_mib_max: 1.try_into().unwrap(), ..GrpcConfig::default() };
    let served = Served::start(store_on(MemoryKv::new(TABLES), Policy::default()), &config);
    let mut tx = seed(1, &[5]);
    tx.outputs[0].script = vec![1; 1 << 20];
    let request = proto::CreateRequest {
        transactions: vec![new_transaction(&tx, &CreateOptions::default())],
        height: 1,
    };
    let status = served.status(served.client().create(request));
    assert_eq!(status.code(), Code::OutOfRange, "{status}");

    tx.outputs[0].script.truncate(700_000);
    take!(item_result, Ok, create(&served, &tx, &CreateOptions::default()));
    let fields = Some(proto::Fields { body: true, slots: false });
    let ask = |items| proto::GetRequest { txids: vec![id(&tx); items], fields };
    take!(get_result, Ok, served.ok(served.client().get(ask(1))).results[0]);
    let status = served.status(served.client().get(ask(2)));
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("ask for less"), "{status}");
}

/// Sends bytes as they are.
#[derive(Clone, Copy)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        use prost::bytes::Buf as _;
        buffer.advance(buffer.remaining());
        Ok(Some(()))
    }
}

/// Sends bytes to a method of the node store.
fn send(served: &Served, method: &str, bytes: Vec<u8>) -> Result<(), Status> {
    served.runtime.block_on(send_raw(served.channel(), method, bytes))
}

pub(crate) async fn send_raw(channel: Channel, method: &str, bytes: Vec<u8>) -> Result<(), Status> {
    let path = PathAndQuery::try_from(format!("/utxokeep.v1.TxStore/{method}")).unwrap();
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(usize::MAX);
    client.ready().await.unwrap();
    client.unary(tonic::Request::new(bytes), path, RawCodec).await.map(|_| ())
}

fn peak_kib() -> usize {
    peak_kib_of("self")
}

/// Most memory that a process ever had, in KiB.
pub(crate) fn peak_kib_of(process: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn empty_items_are_refused_before_they_take_memory() {
    if !is_alone("grpc::limits::empty_items_are_refused_before_they_take_memory") {
        return;
    }
    let served = Served::memory();
    let before = peak_kib();
    // Two bytes each: transactions of a call, ids of a call, outputs of one transaction.
    let empty = [0x0a, 0x00].repeat(12 << 20);
    let mut outputs = [0x32, 0x00].repeat(12 << 20);
    for _ in ["a transaction", "an item of the call"] {
        let mut message = vec![0x0a];
        prost::encoding::encode_varint(outputs.len() as u64, &mut message);
        message.append(&mut outputs);
        outputs = message;
    }
    for (method, bytes) in [("Create", empty.clone()), ("Get", empty), ("Create", outputs)] {
        let status = send(&served, method, bytes).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{method}: {status}");
        assert!(status.message().contains("send fewer at a time"), "{status}");
    }
    // The messages themselves are in memory a few times, in client and server; what they would
    // have become is more than two GiB.
    let used_mib = (peak_kib() - before) >> 10;
    assert!(used_mib < 700, "{used_mib} MiB");
    take!(item_result, Ok, create(&served, &seed(1, &[5]), &CreateOptions::default()));
}

#[test]
fn bytes_that_are_no_message_are_refused_and_the_server_goes_on() {
    let served = Served::memory();
    let call = |method: &str, bytes: Vec<u8>| send(&served, method, bytes);
    // A list that claims to be far longer than the message; half a number; a wrong wire type.
    for bytes in [vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x07], vec![0x10, 0x80], vec![0x0f]] {
        let status = call("Create", bytes.clone()).unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{bytes:?}: {status}");
    }
    let status = call("Nothing", Vec::new()).unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status}");
    take!(item_result, Ok, create(&served, &seed(1, &[5]), &CreateOptions::default()));
}
