//! The service of the contract: every method leads to its operation.

use tonic::{Request, Response, Status};
use utxokeep_txstore::TxStore;

use super::{
    calls::{CallError, Calls},
    operations::{self, Limits},
    proto,
    services::tx_store_server,
    unmined::{self, Pages},
};

/// The node store as a service.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) calls: Calls,
    pub(super) limits: Limits,
}

/// A response, or the status of a call that failed.
type Answer<T> = Result<Response<T>, Status>;

impl Service {
    async fn answer<A: Send + 'static, B: Send + 'static>(
        &self,
        request: Request<A>,
        operation: fn(&dyn TxStore, A, &Limits) -> Result<B, CallError>,
    ) -> Answer<B> {
        let (request, limits) = (request.into_inner(), self.limits);
        let answer = self.calls.run(move |store| operation(store, request, &limits)).await?;
        Ok(Response::new(answer))
    }
}

#[tonic::async_trait]
impl tx_store_server::TxStore for Service {
    type ListUnminedStream = Pages;

    async fn list_unmined(&self, request: Request<proto::ListUnminedRequest>) -> Answer<Pages> {
        let calls = self.calls.clone();
        let pages = unmined::pages(calls, request.into_inner(), &self.limits).await?;
        Ok(Response::new(pages))
    }

    async fn create(
        &self,
        request: Request<proto::CreateRequest>,
    ) -> Answer<proto::CreateResponse> {
        self.answer(request, operations::create).await
    }

    async fn get(&self, request: Request<proto::GetRequest>) -> Answer<proto::GetResponse> {
        self.answer(request, operations::get).await
    }

    async fn get_spend(
        &self,
        request: Request<proto::GetSpendRequest>,
    ) -> Answer<proto::GetSpendResponse> {
        self.answer(request, operations::get_spend).await
    }

    async fn spend(&self, request: Request<proto::SpendRequest>) -> Answer<proto::SpendResponse> {
        self.answer(request, operations::spend).await
    }

    async fn unspend(
        &self,
        request: Request<proto::UnspendRequest>,
    ) -> Answer<proto::UnspendResponse> {
        self.answer(request, operations::unspend).await
    }

    async fn spend_and_create(
        &self,
        request: Request<proto::SpendAndCreateRequest>,
    ) -> Answer<proto::SpendAndCreateResponse> {
        self.answer(request, operations::spend_and_create).await
    }

    async fn spend_and_create_list(
        &self,
        request: Request<proto::SpendAndCreateListRequest>,
    ) -> Answer<proto::SpendAndCreateListResponse> {
        self.answer(request, operations::spend_and_create_list).await
    }

    async fn set_mined(
        &self,
        request: Request<proto::SetMinedRequest>,
    ) -> Answer<proto::SetMinedResponse> {
        self.answer(request, operations::set_mined).await
    }

    async fn mark_on_longest_chain(
        &self,
        request: Request<proto::MarkOnLongestChainRequest>,
    ) -> Answer<proto::MarkOnLongestChainResponse> {
        self.answer(request, operations::mark_on_longest_chain).await
    }

    async fn set_locked(
        &self,
        request: Request<proto::SetLockedRequest>,
    ) -> Answer<proto::SetLockedResponse> {
        self.answer(request, operations::set_locked).await
    }

    async fn set_conflicting(
        &self,
        request: Request<proto::SetConflictingRequest>,
    ) -> Answer<proto::SetConflictingResponse> {
        self.answer(request, operations::set_conflicting).await
    }

    async fn process_conflicting(
        &self,
        request: Request<proto::ProcessConflictingRequest>,
    ) -> Answer<proto::ProcessConflictingResponse> {
        self.answer(request, operations::process_conflicting).await
    }

    async fn begin_conflict_intent(
        &self,
        request: Request<proto::BeginConflictIntentRequest>,
    ) -> Answer<proto::BeginConflictIntentResponse> {
        self.answer(request, operations::begin_conflict_intent).await
    }

    async fn complete_conflict_intent(
        &self,
        request: Request<proto::CompleteConflictIntentRequest>,
    ) -> Answer<proto::CompleteConflictIntentResponse> {
        self.answer(request, operations::complete_conflict_intent).await
    }

    async fn list_conflict_intents(
        &self,
        request: Request<proto::ListConflictIntentsRequest>,
    ) -> Answer<proto::ListConflictIntentsResponse> {
        self.answer(request, operations::list_conflict_intents).await
    }

    async fn freeze(
        &self,
        request: Request<proto::FreezeRequest>,
    ) -> Answer<proto::FreezeResponse> {
        self.answer(request, operations::freeze).await
    }

    async fn unfreeze(
        &self,
        request: Request<proto::UnfreezeRequest>,
    ) -> Answer<proto::UnfreezeResponse> {
        self.answer(request, operations::unfreeze).await
    }

    async fn reassign(
        &self,
        request: Request<proto::ReassignRequest>,
    ) -> Answer<proto::ReassignResponse> {
        self.answer(request, operations::reassign).await
    }

    async fn preserve(
        &self,
        request: Request<proto::PreserveRequest>,
    ) -> Answer<proto::PreserveResponse> {
        self.answer(request, operations::preserve).await
    }

    async fn expire_preservations(
        &self,
        request: Request<proto::ExpirePreservationsRequest>,
    ) -> Answer<proto::ExpirePreservationsResponse> {
        self.answer(request, operations::expire_preservations).await
    }

    async fn decorate(
        &self,
        request: Request<proto::DecorateRequest>,
    ) -> Answer<proto::DecorateResponse> {
        self.answer(request, operations::decorate).await
    }

    async fn get_parent_outputs(
        &self,
        request: Request<proto::GetParentOutputsRequest>,
    ) -> Answer<proto::GetParentOutputsResponse> {
        self.answer(request, operations::get_parent_outputs).await
    }

    async fn delete(
        &self,
        request: Request<proto::DeleteRequest>,
    ) -> Answer<proto::DeleteResponse> {
        self.answer(request, operations::delete).await
    }

    async fn get_block_state(
        &self,
        request: Request<proto::GetBlockStateRequest>,
    ) -> Answer<proto::GetBlockStateResponse> {
        self.answer(request, operations::get_block_state).await
    }

    async fn set_block_state(
        &self,
        request: Request<proto::SetBlockStateRequest>,
    ) -> Answer<proto::SetBlockStateResponse> {
        self.answer(request, operations::set_block_state).await
    }

    async fn get_creation_lock(
        &self,
        request: Request<proto::GetCreationLockRequest>,
    ) -> Answer<proto::GetCreationLockResponse> {
        self.answer(request, operations::get_creation_lock).await
    }
}
