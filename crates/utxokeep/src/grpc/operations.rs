//! Every operation of the contract: check the request, ask the store, make the answer.

use prost::Message;
use utxokeep_core::{
    Height,
    node::{ConflictIntent, MinedInfo, SpendAndCreate},
};
use utxokeep_txstore::{Decorated, ParentOutput, TxStore};

use super::{
    calls::CallError,
    fault::{Within, batch, required},
    from_proto as from, proto, refusal, to_proto as to,
};

/// The most that requests and answers may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Items of a request.
    pub(super) items: usize,
    /// Bytes of an answer to a read.
    pub(super) answer_bytes: usize,
    /// Entries of a page.
    pub(super) page_entries: usize,
}

/// An answer, or why there is none.
type Answer<T> = Result<T, CallError>;

/// Fills `ok` or `error` of a message.
macro_rules! outcome {
    ($message:ident, $oneof:ident, $result:expr, $convert:expr) => {
        proto::$message {
            result: Some(match $result {
                Ok(value) => proto::$oneof::Result::Ok($convert(value)),
                Err(error) => proto::$oneof::Result::Error(refusal::of(&error)),
            }),
        }
    };
}

/// The same for each answer of a list.
macro_rules! outcomes {
    ($message:ident, $oneof:ident, $results:expr, $convert:expr) => {
        $results
            .into_iter()
            .map(|result| outcome!($message, $oneof, result, $convert))
            .collect::<Vec<_>>()
    };
}

fn done((): ()) -> proto::Done {
    proto::Done {}
}

/// An answer of reads, which may be much larger than their requests.
pub(super) fn fitting<T: Message>(answer: T, bytes_max: usize) -> Answer<T> {
    let bytes = answer.encoded_len();
    if bytes > bytes_max {
        return Err(CallError::TooLarge { bytes, bytes_max });
    }
    Ok(answer)
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

pub(super) fn create(
    store: &dyn TxStore,
    request: proto::CreateRequest,
    limits: &Limits,
) -> Answer<proto::CreateResponse> {
    let txs = batch("transactions", request.transactions, limits.items, from::new_transaction)?;
    let results = store.create(&txs, Height::new(request.height))?;
    Ok(proto::CreateResponse { results: outcomes!(ItemResult, item_result, results, done) })
}

pub(super) fn get(
    store: &dyn TxStore,
    request: proto::GetRequest,
    limits: &Limits,
) -> Answer<proto::GetResponse> {
    use proto::get_result::Result::{Error, Ok as Found};
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    let found = store.get(&txids, from::fields(request.fields))?;
    let results = txids.iter().zip(found).map(|(txid, found)| match found {
        Some(tx) => Found(to::stored_transaction(tx)),
        None => Error(refusal::not_found(*txid)),
    });
    let results = results.map(|result| proto::GetResult { result: Some(result) });
    fitting(proto::GetResponse { results: results.collect() }, limits.answer_bytes)
}

pub(super) fn get_spend(
    store: &dyn TxStore,
    request: proto::GetSpendRequest,
    limits: &Limits,
) -> Answer<proto::GetSpendResponse> {
    let outputs = batch("outputs", request.outputs, limits.items, from::output_maybe_ref)?;
    let results = store.spend_views(&outputs, from::height("height", request.height)?)?;
    let view = |view| to::spend_view(&view);
    let results = outcomes!(GetSpendResult, get_spend_result, results, view);
    Ok(proto::GetSpendResponse { results })
}

pub(super) fn spend(
    store: &dyn TxStore,
    request: proto::SpendRequest,
    limits: &Limits,
) -> Answer<proto::SpendResponse> {
    let requests = batch("spends", request.spends, limits.items, from::spend)?;
    let results = store.spend(&requests)?;
    Ok(proto::SpendResponse { results: outcomes!(SpendResult, spend_result, results, to::spent) })
}

pub(super) fn unspend(
    store: &dyn TxStore,
    request: proto::UnspendRequest,
    limits: &Limits,
) -> Answer<proto::UnspendResponse> {
    let requests = batch("unspends", request.unspends, limits.items, from::unspend)?;
    let results = store.unspend(&requests)?;
    let unspent = |was_taken_back| proto::Unspent { was_taken_back };
    let results = outcomes!(UnspendResult, unspend_result, results, unspent);
    Ok(proto::UnspendResponse { results })
}

pub(super) fn spend_and_create(
    store: &dyn TxStore,
    request: proto::SpendAndCreateRequest,
    _: &Limits,
) -> Answer<proto::SpendAndCreateResponse> {
    let new = required("transaction", request.transaction)?;
    let (tx, options) = from::new_transaction(new).within("transaction")?;
    let how = SpendAndCreate {
        spend_only: request.spend_only,
        create_only: request.create_only,
        flags: from::flags(request.flags),
    };
    let result = store.spend_and_create(&tx, Height::new(request.height), how, &options)?;
    let result = outcome!(StoredResult, stored_result, result, to::stored);
    Ok(proto::SpendAndCreateResponse { result: Some(result) })
}

pub(super) fn spend_and_create_list(
    store: &dyn TxStore,
    request: proto::SpendAndCreateListRequest,
    limits: &Limits,
) -> Answer<proto::SpendAndCreateListResponse> {
    let txs = batch("transactions", request.transactions, limits.items, from::new_transaction)?;
    let (height, flags) = (Height::new(request.height), from::flags(request.flags));
    let result = store.spend_and_create_list(&txs, height, flags)?;
    let list = |results: Vec<_>| proto::StoredResults {
        results: outcomes!(StoredResult, stored_result, results, to::stored),
    };
    Ok(outcome!(SpendAndCreateListResponse, spend_and_create_list_response, result, list))
}

pub(super) fn set_mined(
    store: &dyn TxStore,
    request: proto::SetMinedRequest,
    limits: &Limits,
) -> Answer<proto::SetMinedResponse> {
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    let info = MinedInfo {
        block: from::mined_block(required("block", request.block)?),
        on_longest_chain: request.on_longest_chain,
        unset: request.unset,
        unmined_since: Height::new(request.unmined_since_height),
    };
    let results = store.set_mined(&txids, &info)?;
    let blocks = |block_ids| proto::BlockIds { block_ids };
    let results = outcomes!(SetMinedResult, set_mined_result, results, blocks);
    Ok(proto::SetMinedResponse { results })
}

pub(super) fn mark_on_longest_chain(
    store: &dyn TxStore,
    request: proto::MarkOnLongestChainRequest,
    limits: &Limits,
) -> Answer<proto::MarkOnLongestChainResponse> {
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    let height = Height::new(request.height);
    let results = store.mark_on_longest_chain(&txids, request.on_longest_chain, height)?;
    let results = outcomes!(ItemResult, item_result, results, done);
    Ok(proto::MarkOnLongestChainResponse { results })
}

pub(super) fn set_locked(
    store: &dyn TxStore,
    request: proto::SetLockedRequest,
    limits: &Limits,
) -> Answer<proto::SetLockedResponse> {
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    let results = store.set_locked(&txids, request.is_locked, Height::new(request.height))?;
    Ok(proto::SetLockedResponse { results: outcomes!(ItemResult, item_result, results, done) })
}

pub(super) fn set_conflicting(
    store: &dyn TxStore,
    request: proto::SetConflictingRequest,
    limits: &Limits,
) -> Answer<proto::SetConflictingResponse> {
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    let height = Height::new(request.height);
    let results = store.set_conflicting(&txids, request.is_conflicting, height)?;
    let results = outcomes!(SetConflictingResult, set_conflicting_result, results, to::relatives);
    Ok(proto::SetConflictingResponse { results })
}

pub(super) fn process_conflicting(
    store: &dyn TxStore,
    request: proto::ProcessConflictingRequest,
    limits: &Limits,
) -> Answer<proto::ProcessConflictingResponse> {
    let winners = batch("winners", request.winners, limits.items, from::txid)?;
    let result = store.process_conflicting(&winners, Height::new(request.height))?;
    let losers = |losers: Vec<_>| proto::Losers { txids: to::txids(&losers) };
    Ok(outcome!(ProcessConflictingResponse, process_conflicting_response, result, losers))
}

pub(super) fn begin_conflict_intent(
    store: &dyn TxStore,
    request: proto::BeginConflictIntentRequest,
    limits: &Limits,
) -> Answer<proto::BeginConflictIntentResponse> {
    let intent = required("intent", request.intent)?;
    let txids = batch("txids", intent.txids, limits.items, from::txid).within("intent")?;
    let height = from::height("height", intent.height).within("intent")?;
    let id = store.begin_conflict_intent(&ConflictIntent::new(height, txids))?;
    Ok(proto::BeginConflictIntentResponse { id: id.to_vec() })
}

#[allow(clippy::needless_pass_by_value, reason = "operations take their requests")]
pub(super) fn complete_conflict_intent(
    store: &dyn TxStore,
    request: proto::CompleteConflictIntentRequest,
    _: &Limits,
) -> Answer<proto::CompleteConflictIntentResponse> {
    store.complete_conflict_intent(&from::hash(&request.id).within("id")?)?;
    Ok(proto::CompleteConflictIntentResponse {})
}

pub(super) fn list_conflict_intents(
    store: &dyn TxStore,
    request: proto::ListConflictIntentsRequest,
    limits: &Limits,
) -> Answer<proto::ListConflictIntentsResponse> {
    let limit = from::limit("limit", request.limit, limits.items)?;
    let intents = store.pending_conflict_intents(limit)?;
    let intents = intents.iter().map(to::conflict_intent).collect();
    fitting(proto::ListConflictIntentsResponse { intents }, limits.answer_bytes)
}

pub(super) fn freeze(
    store: &dyn TxStore,
    request: proto::FreezeRequest,
    limits: &Limits,
) -> Answer<proto::FreezeResponse> {
    let outputs = batch("outputs", request.outputs, limits.items, from::output_ref)?;
    let results = store.freeze(&outputs)?;
    Ok(proto::FreezeResponse { results: outcomes!(ItemResult, item_result, results, done) })
}

pub(super) fn unfreeze(
    store: &dyn TxStore,
    request: proto::UnfreezeRequest,
    limits: &Limits,
) -> Answer<proto::UnfreezeResponse> {
    let outputs = batch("outputs", request.outputs, limits.items, from::output_ref)?;
    let results = store.unfreeze(&outputs)?;
    Ok(proto::UnfreezeResponse { results: outcomes!(ItemResult, item_result, results, done) })
}

pub(super) fn reassign(
    store: &dyn TxStore,
    request: proto::ReassignRequest,
    _: &Limits,
) -> Answer<proto::ReassignResponse> {
    let output = required("output", request.output)?;
    let (outpoint, hash) = from::output_ref(output).within("output")?;
    let height = Height::new(request.height);
    let result = store.reassign(outpoint, hash, &request.script, height)?;
    let reassigned = |hash: [u8; 32]| proto::Reassigned { utxo_hash: hash.to_vec() };
    Ok(outcome!(ReassignResponse, reassign_response, result, reassigned))
}

pub(super) fn preserve(
    store: &dyn TxStore,
    request: proto::PreserveRequest,
    limits: &Limits,
) -> Answer<proto::PreserveResponse> {
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    let until = from::height("until_height", request.until_height)?;
    Ok(proto::PreserveResponse { preserved: count(store.preserve(&txids, until)?) })
}

pub(super) fn expire_preservations(
    store: &dyn TxStore,
    request: proto::ExpirePreservationsRequest,
    limits: &Limits,
) -> Answer<proto::ExpirePreservationsResponse> {
    let height = from::height("height", request.height)?;
    let limit = from::limit("limit", request.limit, limits.items)?;
    let expired = count(store.expire_preservations(height, limit)?);
    Ok(proto::ExpirePreservationsResponse { expired })
}

pub(super) fn decorate(
    store: &dyn TxStore,
    request: proto::DecorateRequest,
    limits: &Limits,
) -> Answer<proto::DecorateResponse> {
    use proto::decorate_result::Result::{Error, Ok as Found};
    let outputs = batch("outputs", request.outputs, limits.items, from::outpoint)?;
    let found = store.decorate(&outputs)?;
    let results = outputs.iter().zip(found).map(|(outpoint, found)| match found {
        Decorated::Found(output) => {
            Found(proto::Output { satoshis: output.satoshis, script: output.script })
        }
        Decorated::NoTransaction => Error(refusal::not_found(*outpoint.txid())),
        Decorated::NoOutput => Error(refusal::no_output(*outpoint)),
    });
    let results = results.map(|result| proto::DecorateResult { result: Some(result) });
    fitting(proto::DecorateResponse { results: results.collect() }, limits.answer_bytes)
}

pub(super) fn get_parent_outputs(
    store: &dyn TxStore,
    request: proto::GetParentOutputsRequest,
    limits: &Limits,
) -> Answer<proto::GetParentOutputsResponse> {
    use proto::parent_output_result::Result::{Error, Ok as Found};
    let outputs = batch("outputs", request.outputs, limits.items, from::outpoint)?;
    let found = store.parent_outputs(&outputs)?;
    let results = outputs.iter().zip(found).map(|(outpoint, found)| match found {
        ParentOutput::Mined(height) => {
            Found(proto::ParentOutput { mined_height: Some(height.get()) })
        }
        ParentOutput::NotMined => Found(proto::ParentOutput { mined_height: None }),
        ParentOutput::NoTransaction => Error(refusal::not_found(*outpoint.txid())),
        ParentOutput::NoOutput => Error(refusal::no_output(*outpoint)),
    });
    let results = results.map(|result| proto::ParentOutputResult { result: Some(result) });
    Ok(proto::GetParentOutputsResponse { results: results.collect() })
}

pub(super) fn delete(
    store: &dyn TxStore,
    request: proto::DeleteRequest,
    limits: &Limits,
) -> Answer<proto::DeleteResponse> {
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    Ok(proto::DeleteResponse { deleted: count(store.delete(&txids)?) })
}

pub(super) fn get_block_state(
    store: &dyn TxStore,
    _: proto::GetBlockStateRequest,
    _: &Limits,
) -> Answer<proto::GetBlockStateResponse> {
    let state = store.block_state()?.map(to::block_state);
    Ok(proto::GetBlockStateResponse { state })
}

pub(super) fn set_block_state(
    store: &dyn TxStore,
    request: proto::SetBlockStateRequest,
    _: &Limits,
) -> Answer<proto::SetBlockStateResponse> {
    let state = required("state", request.state)?;
    let result = store.set_block_state(from::block_state(state))?;
    let result = outcome!(ItemResult, item_result, result, done);
    Ok(proto::SetBlockStateResponse { result: Some(result) })
}
