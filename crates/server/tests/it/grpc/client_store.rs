//! The contract of the node store on top of the client, so that whatever is tried on a store can be
//! tried on one behind gRPC.

use tonic::{Response, Status, transport::Channel};
use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        ConflictIntent, CreateOptions, MinedInfo, NodeError, NodeTx, PreviousOutput,
        SpendAndCreate, SpendFlags, SpendInput, SpendRequest, SpendView, Spent, Stored,
        UnspendRequest,
    },
};
use utxokeep_kv::KvError;
use utxokeep_server::grpc::proto::{self, tx_store_client::TxStoreClient};
use utxokeep_txstore::{
    BlockState, Decorated, Fields, ParentOutput, PerItem, StoreError, StoredTx, TxStore,
};

use crate::grpc::{answers, requests, served::Served};

/// A node store behind a server.
pub(crate) struct GrpcTxStore {
    served: Served,
    client: TxStoreClient<Channel>,
}

impl GrpcTxStore {
    pub(crate) fn new(served: Served) -> Self {
        let client = served.client();
        Self { served, client }
    }

    /// Waits for the answer to a call.
    fn wait<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, StoreError> {
        let answer = self.served.runtime.block_on(call);
        answer.map(Response::into_inner).map_err(|status| {
            StoreError::Kv(KvError::Engine { op: "a call", source: Box::new(status) })
        })
    }

    fn client(&self) -> TxStoreClient<Channel> {
        self.client.clone()
    }
}

/// Reads `ok` or `error` of a message.
macro_rules! outcome {
    ($oneof:ident, $message:expr, $convert:expr) => {
        match $message.result.unwrap() {
            proto::$oneof::Result::Ok(value) => Ok($convert(value)),
            proto::$oneof::Result::Error(error) => Err(answers::node_error(&error)),
        }
    };
}

/// The same for each answer of a list.
macro_rules! outcomes {
    ($oneof:ident, $messages:expr, $convert:expr) => {
        Ok($messages.into_iter().map(|message| outcome!($oneof, message, $convert)).collect())
    };
}

fn items(results: Vec<proto::ItemResult>) -> Vec<Result<(), NodeError>> {
    results.into_iter().map(answers::item).collect()
}

fn refs(outputs: &[(OutPoint, [u8; 32])]) -> Vec<proto::OutputRef> {
    outputs.iter().map(|(at, hash)| requests::output_ref(at, hash)).collect()
}

fn count(count: u64) -> usize {
    usize::try_from(count).unwrap()
}

impl TxStore for GrpcTxStore {
    fn create(&self, txs: &[(NodeTx, CreateOptions)], height: Height) -> PerItem<()> {
        let transactions = requests::new_transactions(txs);
        let request = proto::CreateRequest { transactions, height: height.get() };
        Ok(items(self.wait(self.client().create(request))?.results))
    }

    fn get(&self, txids: &[Txid], fields: Fields) -> Result<Vec<Option<StoredTx>>, StoreError> {
        let fields = proto::Fields { body: fields.body, slots: fields.slots };
        let request = proto::GetRequest { txids: requests::txids(txids), fields: Some(fields) };
        let answer = self.wait(self.client().get(request))?;
        let results = answer.results.into_iter().zip(txids).map(|(result, txid)| {
            match outcome!(get_result, result, answers::stored_tx) {
                Ok(tx) => Some(tx),
                Err(error) => {
                    assert_eq!(error, NodeError::NotFound(*txid));
                    None
                }
            }
        });
        Ok(results.collect())
    }

    fn spend_views(
        &self,
        outputs: &[(OutPoint, Option<[u8; 32]>)],
        height: Height,
    ) -> PerItem<SpendView> {
        let outputs = outputs.iter().map(|(at, hash)| {
            requests::output_ref(at, hash.as_ref().map_or(&[], <[u8; 32]>::as_slice))
        });
        let request = proto::GetSpendRequest { outputs: outputs.collect(), height: height.get() };
        let answer = self.wait(self.client().get_spend(request))?;
        outcomes!(get_spend_result, answer.results, |view| answers::spend_view(&view))
    }

    fn spend(&self, requests: &[SpendRequest]) -> PerItem<Spent> {
        let spends = requests.iter().map(requests::spend).collect();
        let answer = self.wait(self.client().spend(proto::SpendRequest { spends }))?;
        outcomes!(spend_result, answer.results, |spent| answers::spent(&spent))
    }

    fn unspend(&self, requests: &[UnspendRequest]) -> PerItem<bool> {
        let unspends = requests.iter().map(requests::unspend).collect();
        let answer = self.wait(self.client().unspend(proto::UnspendRequest { unspends }))?;
        outcomes!(unspend_result, answer.results, |it: proto::Unspent| it.was_taken_back)
    }

    fn spend_and_create(
        &self,
        tx: &NodeTx,
        height: Height,
        how: SpendAndCreate,
        options: &CreateOptions,
    ) -> Result<Result<Stored, NodeError>, StoreError> {
        let request = proto::SpendAndCreateRequest {
            transaction: Some(requests::new_transaction(tx, options)),
            height: height.get(),
            flags: Some(requests::flags(how.flags)),
            spend_only: how.spend_only,
            create_only: how.create_only,
        };
        let answer = self.wait(self.client().spend_and_create(request))?;
        Ok(answers::stored(answer.result.unwrap()))
    }

    fn spend_and_create_list(
        &self,
        txs: &[(NodeTx, CreateOptions)],
        height: Height,
        flags: SpendFlags,
    ) -> Result<Result<Vec<Result<Stored, NodeError>>, NodeError>, StoreError> {
        let request = proto::SpendAndCreateListRequest {
            transactions: requests::new_transactions(txs),
            height: height.get(),
            flags: Some(requests::flags(flags)),
        };
        let answer = self.wait(self.client().spend_and_create_list(request))?;
        let list = |list: proto::StoredResults| {
            list.results.into_iter().map(answers::stored).collect::<Vec<_>>()
        };
        Ok(outcome!(spend_and_create_list_response, answer, list))
    }

    fn set_mined(&self, txids: &[Txid], info: &MinedInfo) -> PerItem<Vec<u32>> {
        let request = proto::SetMinedRequest {
            txids: requests::txids(txids),
            block: Some(requests::block(&info.block)),
            on_longest_chain: info.on_longest_chain,
            unset: info.unset,
            unmined_since_height: info.unmined_since.get(),
        };
        let answer = self.wait(self.client().set_mined(request))?;
        outcomes!(set_mined_result, answer.results, |ids: proto::BlockIds| ids.block_ids)
    }

    fn mark_on_longest_chain(
        &self,
        txids: &[Txid],
        on_longest_chain: bool,
        height: Height,
    ) -> PerItem<()> {
        let (txids, height) = (requests::txids(txids), height.get());
        let request = proto::MarkOnLongestChainRequest { txids, on_longest_chain, height };
        Ok(items(self.wait(self.client().mark_on_longest_chain(request))?.results))
    }

    fn set_locked(&self, txids: &[Txid], is_locked: bool, height: Height) -> PerItem<()> {
        let (txids, height) = (requests::txids(txids), height.get());
        let request = proto::SetLockedRequest { txids, is_locked, height };
        Ok(items(self.wait(self.client().set_locked(request))?.results))
    }

    fn set_conflicting(
        &self,
        txids: &[Txid],
        is_conflicting: bool,
        height: Height,
    ) -> PerItem<(Vec<SpendInput>, Vec<Txid>)> {
        let (txids, height) = (requests::txids(txids), height.get());
        let request = proto::SetConflictingRequest { txids, is_conflicting, height };
        let answer = self.wait(self.client().set_conflicting(request))?;
        outcomes!(set_conflicting_result, answer.results, |relatives: proto::Relatives| {
            let spends = relatives.spends.iter().map(answers::spend_input).collect();
            (spends, answers::txids(&relatives.children))
        })
    }

    fn process_conflicting(
        &self,
        winners: &[Txid],
        height: Height,
    ) -> Result<Result<Vec<Txid>, NodeError>, StoreError> {
        let (winners, height) = (requests::txids(winners), height.get());
        let request = proto::ProcessConflictingRequest { winners, height };
        let answer = self.wait(self.client().process_conflicting(request))?;
        let losers = |losers: proto::Losers| answers::txids(&losers.txids);
        Ok(outcome!(process_conflicting_response, answer, losers))
    }

    fn begin_conflict_intent(&self, intent: &ConflictIntent) -> Result<[u8; 32], StoreError> {
        let intent = proto::ConflictIntent {
            txids: requests::txids(intent.txids()),
            height: intent.height.get(),
        };
        let request = proto::BeginConflictIntentRequest { intent: Some(intent) };
        Ok(answers::hash(&self.wait(self.client().begin_conflict_intent(request))?.id))
    }

    fn complete_conflict_intent(&self, id: &[u8; 32]) -> Result<(), StoreError> {
        let request = proto::CompleteConflictIntentRequest { id: id.to_vec() };
        self.wait(self.client().complete_conflict_intent(request)).map(drop)
    }

    fn pending_conflict_intents(&self, limit: usize) -> Result<Vec<ConflictIntent>, StoreError> {
        let limit = u32::try_from(limit).unwrap();
        let request = proto::ListConflictIntentsRequest { limit };
        let answer = self.wait(self.client().list_conflict_intents(request))?;
        let intents = answer.intents.iter().map(|intent| {
            ConflictIntent::new(Height::new(intent.height), answers::txids(&intent.txids))
        });
        Ok(intents.collect())
    }

    fn freeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()> {
        let request = proto::FreezeRequest { outputs: refs(outputs) };
        Ok(items(self.wait(self.client().freeze(request))?.results))
    }

    fn unfreeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()> {
        let request = proto::UnfreezeRequest { outputs: refs(outputs) };
        Ok(items(self.wait(self.client().unfreeze(request))?.results))
    }

    fn reassign(
        &self,
        outpoint: OutPoint,
        hash: [u8; 32],
        script: &[u8],
        height: Height,
    ) -> Result<Result<[u8; 32], NodeError>, StoreError> {
        let request = proto::ReassignRequest {
            output: Some(requests::output_ref(&outpoint, &hash)),
            script: script.to_vec(),
            height: height.get(),
        };
        let answer = self.wait(self.client().reassign(request))?;
        let new = |new: proto::Reassigned| answers::hash(&new.utxo_hash);
        Ok(outcome!(reassign_response, answer, new))
    }

    fn preserve(&self, txids: &[Txid], until: Height) -> Result<usize, StoreError> {
        let (txids, until_height) = (requests::txids(txids), until.get());
        let request = proto::PreserveRequest { txids, until_height };
        Ok(count(self.wait(self.client().preserve(request))?.preserved))
    }

    fn expire_preservations(&self, height: Height, limit: usize) -> Result<usize, StoreError> {
        let limit = u32::try_from(limit).unwrap();
        let request = proto::ExpirePreservationsRequest { height: height.get(), limit };
        Ok(count(self.wait(self.client().expire_preservations(request))?.expired))
    }

    fn unmined(
        &self,
        cutoff: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        let after = after.map(|(since, txid)| proto::UnminedTransaction {
            since_height: since.get(),
            txid: txid.as_bytes().to_vec(),
        });
        let request = proto::ListUnminedRequest {
            cutoff_height: cutoff.get(),
            after,
            limit: Some(u64::try_from(limit).unwrap()),
            // Small pages, so that they are walked over.
            page_entries: Some(2),
        };
        self.wait(async {
            let mut pages = self.client().list_unmined(request).await?.into_inner();
            let mut found = Vec::new();
            while let Some(page) = pages.message().await? {
                assert!((1..=2).contains(&page.transactions.len()), "{page:?}");
                let entries = page.transactions.iter();
                found
                    .extend(entries.map(|entry| {
                        (Height::new(entry.since_height), answers::txid(&entry.txid))
                    }));
            }
            Ok(Response::new(found))
        })
    }

    fn decorate(&self, outputs: &[OutPoint]) -> Result<Vec<Decorated>, StoreError> {
        let wanted = outputs.iter().map(requests::outpoint).collect();
        let answer =
            self.wait(self.client().decorate(proto::DecorateRequest { outputs: wanted }))?;
        let results = answer.results.into_iter().map(|result| {
            let output =
                |it: proto::Output| PreviousOutput { satoshis: it.satoshis, script: it.script };
            match outcome!(decorate_result, result, output) {
                Ok(output) => Decorated::Found(output),
                Err(NodeError::NotFound(_)) => Decorated::NoTransaction,
                Err(_) => Decorated::NoOutput,
            }
        });
        Ok(results.collect())
    }

    fn parent_outputs(&self, outputs: &[OutPoint]) -> Result<Vec<ParentOutput>, StoreError> {
        let wanted = outputs.iter().map(requests::outpoint).collect();
        let request = proto::GetParentOutputsRequest { outputs: wanted };
        let answer = self.wait(self.client().get_parent_outputs(request))?;
        let results = answer.results.into_iter().map(|result| {
            let height = |parent: proto::ParentOutput| parent.mined_height;
            match outcome!(parent_output_result, result, height) {
                Ok(Some(height)) => ParentOutput::Mined(Height::new(height)),
                Ok(None) => ParentOutput::NotMined,
                Err(NodeError::NotFound(_)) => ParentOutput::NoTransaction,
                Err(_) => ParentOutput::NoOutput,
            }
        });
        Ok(results.collect())
    }

    fn delete(&self, txids: &[Txid]) -> Result<usize, StoreError> {
        let request = proto::DeleteRequest { txids: requests::txids(txids) };
        Ok(count(self.wait(self.client().delete(request))?.deleted))
    }

    fn block_state(&self) -> Result<Option<BlockState>, StoreError> {
        let answer = self.wait(self.client().get_block_state(proto::GetBlockStateRequest {}))?;
        Ok(answer.state.map(|state| BlockState {
            height: Height::new(state.height),
            median_time: state.median_time,
        }))
    }

    fn set_block_state(&self, state: BlockState) -> Result<Result<(), NodeError>, StoreError> {
        let state =
            proto::BlockState { height: state.height.get(), median_time: state.median_time };
        let request = proto::SetBlockStateRequest { state: Some(state) };
        let answer = self.wait(self.client().set_block_state(request))?;
        Ok(answers::item(answer.result.unwrap()))
    }
}
