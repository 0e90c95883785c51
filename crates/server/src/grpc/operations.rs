//! Every operation of the contract: check the request, ask the store, make the answer.

use std::collections::BTreeMap;

use prost::Message;
use utxokeep_core::{
    ErrorKind, Height,
    node::{ConflictIntent, CreateOptions, MinedInfo, NodeTx, SpendAndCreate},
};
use utxokeep_txstore::{Decorated, ParentOutput, TxStore};

use super::{
    calls::{CallError, check_waiting},
    fault::{Within, batch, required},
    from_proto as from, proto, refusal, to_proto as to,
};
use crate::memory;

/// The most that requests and answers may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Items of a request.
    pub(super) items: usize,
    /// Bytes of an answer to a read.
    pub(super) answer_bytes: usize,
    /// Entries of a page.
    pub(super) page_entries: usize,
    /// The store follows the chain by itself, so that clients do not tell it of blocks.
    pub(super) follows_chain: bool,
}

impl Limits {
    /// Refuses a call that tells a store of blocks which follows the chain by itself.
    fn check_tells_blocks(&self, call: &str) -> Answer<()> {
        if !self.follows_chain {
            return Ok(());
        }
        let text = format!(
            "the node store follows the chain by itself ([txstore] follow = \"all\"), so {call} is \
             refused; nothing was changed"
        );
        Err(CallError::Operation { kind: ErrorKind::Refused, code: FOLLOWS_CHAIN, text })
    }

    /// The same for transactions that a client creates with blocks.
    fn check_creates<'t>(
        &self,
        options: impl IntoIterator<Item = &'t CreateOptions>,
    ) -> Answer<()> {
        if options.into_iter().any(|options| !options.mined.is_empty()) {
            self.check_tells_blocks("creating a transaction with blocks")?;
        }
        Ok(())
    }
}

/// Word for programs: the store hears of blocks from the chain alone.
const FOLLOWS_CHAIN: &str = "store_follows_chain";

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

/// Ids of transactions, which a client that sends bytes may not know.
fn ids(txs: &[(NodeTx, CreateOptions)]) -> Vec<Vec<u8>> {
    txs.iter().map(|(tx, _)| tx.txid.as_bytes().to_vec()).collect()
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
    memory::take(bytes.saturating_mul(FORMS))?;
    Ok(answer)
}

/// Forms in which an answer is in memory at the same time: as it was read, and as it is sent.
const FORMS: usize = 2;

/// Transactions that are read at a time where an answer may be much larger than its question.
const READ_AT_ONCE: usize = 16;

/// Answers a list in which the same question may stand many times. Each is put to the store once,
/// those of `at_once` transactions at a time, and the rest is not read once the answer is too
/// large. `of` says which transaction a question is about.
fn answer_each<Q: Ord + Copy, K: PartialEq, A: Message + Clone>(
    questions: &[Q],
    of: impl Fn(&Q) -> K,
    at_once: usize,
    bytes_max: usize,
    mut read: impl FnMut(&[Q]) -> Answer<Vec<A>>,
) -> Answer<Vec<A>> {
    let mut times: BTreeMap<Q, usize> = BTreeMap::new();
    for question in questions {
        *times.entry(*question).or_default() += 1;
    }
    let different: Vec<Q> = times.keys().copied().collect();
    let (mut bytes, mut found) = (0_usize, BTreeMap::new());
    let mut rest = different.as_slice();
    while !rest.is_empty() {
        check_waiting()?;
        let same = rest.chunk_by(|one, next| of(one) == of(next));
        let (page, later) = rest.split_at(same.take(at_once.max(1)).map(<[Q]>::len).sum());
        rest = later;
        for (question, answer) in page.iter().zip(read(page)?) {
            let len = answer.encoded_len();
            // As an element of the list: a tag of one byte, and the length.
            let element = len.saturating_add(1 + prost::length_delimiter_len(len));
            bytes = bytes.saturating_add(element.saturating_mul(times[question]));
            if bytes > bytes_max {
                return Err(CallError::TooLarge { bytes, bytes_max });
            }
            let again = element.saturating_mul(times[question].saturating_mul(FORMS));
            memory::take(again.saturating_add(len))?;
            found.insert(*question, answer);
        }
    }
    Ok(questions.iter().filter_map(|question| found.get(question).cloned()).collect())
}

pub(super) fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

pub(super) fn create(
    store: &dyn TxStore,
    request: proto::CreateRequest,
    limits: &Limits,
) -> Answer<proto::CreateResponse> {
    let txs = batch("transactions", request.transactions, limits.items, from::new_transaction)?;
    limits.check_creates(txs.iter().map(|(_, options)| options))?;
    let results = store.create(&txs, Height::new(request.height))?;
    let results = outcomes!(ItemResult, item_result, results, done);
    Ok(proto::CreateResponse { results, txids: ids(&txs) })
}

pub(super) fn get(
    store: &dyn TxStore,
    request: proto::GetRequest,
    limits: &Limits,
) -> Answer<proto::GetResponse> {
    use proto::get_result::Result::{Error, Ok as Found};
    let txids = batch("txids", request.txids, limits.items, from::txid)?;
    let fields = from::fields(request.fields);
    let at_once = if fields.body || fields.slots { READ_AT_ONCE } else { limits.items };
    let results = answer_each(
        &txids,
        |txid| *txid,
        at_once,
        limits.answer_bytes,
        |txids| {
            let results =
                txids.iter().zip(store.get(txids, fields)?).map(|(txid, found)| match found {
                    Some(tx) => Found(to::stored_transaction(tx)),
                    None => Error(refusal::not_found(*txid)),
                });
            Ok(results.map(|result| proto::GetResult { result: Some(result) }).collect())
        },
    )?;
    Ok(proto::GetResponse { results })
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
    limits: &Limits,
) -> Answer<proto::SpendAndCreateResponse> {
    let new = required("transaction", request.transaction)?;
    let (tx, options) = from::new_transaction(new).within("transaction")?;
    limits.check_creates([&options])?;
    let how = SpendAndCreate {
        spend_only: request.spend_only,
        create_only: request.create_only,
        flags: from::flags(request.flags),
    };
    let result = store.spend_and_create(&tx, Height::new(request.height), how, &options)?;
    let result = outcome!(StoredResult, stored_result, result, to::stored);
    let txid = tx.txid.as_bytes().to_vec();
    Ok(proto::SpendAndCreateResponse { result: Some(result), txid })
}

pub(super) fn spend_and_create_list(
    store: &dyn TxStore,
    request: proto::SpendAndCreateListRequest,
    limits: &Limits,
) -> Answer<proto::SpendAndCreateListResponse> {
    let txs = batch("transactions", request.transactions, limits.items, from::new_transaction)?;
    limits.check_creates(txs.iter().map(|(_, options)| options))?;
    let (height, flags) = (Height::new(request.height), from::flags(request.flags));
    let result = store.spend_and_create_list(&txs, height, flags)?;
    let list = |results: Vec<_>| proto::StoredResults {
        results: outcomes!(StoredResult, stored_result, results, to::stored),
        txids: ids(&txs),
    };
    Ok(outcome!(SpendAndCreateListResponse, spend_and_create_list_response, result, list))
}

pub(super) fn set_mined(
    store: &dyn TxStore,
    request: proto::SetMinedRequest,
    limits: &Limits,
) -> Answer<proto::SetMinedResponse> {
    limits.check_tells_blocks("SetMined")?;
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
    limits.check_tells_blocks("MarkOnLongestChain")?;
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
    let results = answer_each(
        &outputs,
        |at| *at.txid(),
        READ_AT_ONCE,
        limits.answer_bytes,
        |outputs| {
            let found = outputs.iter().zip(store.decorate(outputs)?);
            let results = found.map(|(outpoint, found)| match found {
                Decorated::Found(output) => {
                    Found(proto::Output { satoshis: output.satoshis, script: output.script })
                }
                Decorated::NoTransaction => Error(refusal::not_found(*outpoint.txid())),
                Decorated::NoOutput => Error(refusal::no_output(*outpoint)),
            });
            Ok(results.map(|result| proto::DecorateResult { result: Some(result) }).collect())
        },
    )?;
    Ok(proto::DecorateResponse { results })
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

pub(super) fn get_creation_lock(
    store: &dyn TxStore,
    request: proto::GetCreationLockRequest,
    _: &Limits,
) -> Answer<proto::GetCreationLockResponse> {
    let txid = from::txid(request.txid).within("txid")?;
    let lock = store.creation_lock(&txid)?.map(|lock| proto::CreationLock {
        expires_at: lock.expires_at(),
        created_at: lock.created_at,
        lock_type: lock.lock_type,
        process_id: lock.process_id,
        hostname: lock.hostname,
        expected_recs: lock.expected_recs,
    });
    Ok(proto::GetCreationLockResponse { lock })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of a thousand bytes; counts how often each question was read.
    fn ask(questions: &[u32], bytes_max: usize) -> (Answer<Vec<Vec<u8>>>, Vec<u32>) {
        let mut asked = Vec::new();
        let answer = answer_each(
            questions,
            |question| *question,
            2,
            bytes_max,
            |page| {
                asked.extend(page);
                Ok(page.iter().map(|_| vec![7_u8; 1_000]).collect())
            },
        );
        (answer, asked)
    }

    #[test]
    fn a_question_that_stands_many_times_is_read_once() {
        let (answer, asked) = ask(&[3, 1, 3, 3], 1 << 20);
        assert_eq!(answer.ok().map(|answer| answer.len()), Some(4));
        assert_eq!(asked, [1, 3]);
        let (answer, asked) = ask(&vec![5; 100_000], 1 << 20);
        assert!(matches!(answer, Err(CallError::TooLarge { .. })));
        assert_eq!(asked, [5]);
    }

    #[test]
    fn reading_stops_where_the_answer_is_too_large() {
        let questions: Vec<u32> = (0..1_000).collect();
        let (answer, asked) = ask(&questions, 5_000);
        assert!(matches!(answer, Err(CallError::TooLarge { .. })));
        assert_eq!(asked.len(), 6, "a page of two beyond what fits at most");
    }
}

#[cfg(test)]
mod followed;
