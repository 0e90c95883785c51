//! The services of the pruner: every method leads to its operation.

use std::time::Duration;

use tokio::{
    task::spawn_blocking,
    time::{self, MissedTickBehavior},
};
use tonic::{Request, Response, Status};
use tonic_health::{ServingStatus, server::HealthReporter};

use super::{
    calls::{CallError, Calls},
    proto, pruner_operations as operations,
    services::{chain_events_server, pruner_server},
};
use crate::pruning::Pruning;

/// How often the health service is told whether the pruner can work.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// The pruner as two services.
#[derive(Clone)]
pub(super) struct PrunerService {
    pub(super) calls: Calls<Pruning>,
    pub(super) items_max: usize,
}

/// A response, or the status of a call that failed.
type Answer<T> = Result<Response<T>, Status>;

impl PrunerService {
    async fn answer<A: Send + 'static, B: Send + 'static>(
        &self,
        request: Request<A>,
        operation: fn(&Pruning, A, usize) -> Result<B, CallError>,
    ) -> Answer<B> {
        let (request, items_max) = (request.into_inner(), self.items_max);
        let answer = self.calls.run(move |pruning| operation(pruning, request, items_max)).await?;
        Ok(Response::new(answer))
    }
}

/// Keeps the health service up to date, for ever.
pub(super) async fn watch_health(pruning: Pruning, health: HealthReporter) {
    let mut ticks = time::interval(HEALTH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = pruning.clone();
        let is_ready = spawn_blocking(move || asked.pruner().health().is_ready()).await;
        let status = match is_ready {
            Ok(true) => ServingStatus::Serving,
            Ok(false) | Err(_) => ServingStatus::NotServing,
        };
        health.set_service_status(pruner_server::SERVICE_NAME, status).await;
    }
}

#[tonic::async_trait]
impl pruner_server::Pruner for PrunerService {
    async fn health(
        &self,
        request: Request<proto::PrunerHealthRequest>,
    ) -> Answer<proto::PrunerHealthResponse> {
        self.answer(request, operations::health).await
    }

    async fn trigger(
        &self,
        request: Request<proto::PrunerTriggerRequest>,
    ) -> Answer<proto::PrunerTriggerResponse> {
        self.answer(request, operations::trigger).await
    }

    async fn status(
        &self,
        request: Request<proto::PrunerStatusRequest>,
    ) -> Answer<proto::PrunerStatusResponse> {
        self.answer(request, operations::status).await
    }

    async fn jobs(
        &self,
        request: Request<proto::PrunerJobsRequest>,
    ) -> Answer<proto::PrunerJobsResponse> {
        self.answer(request, operations::jobs).await
    }

    async fn pause(
        &self,
        request: Request<proto::PrunerPauseRequest>,
    ) -> Answer<proto::PrunerPauseResponse> {
        self.answer(request, operations::pause).await
    }

    async fn resume(
        &self,
        request: Request<proto::PrunerResumeRequest>,
    ) -> Answer<proto::PrunerResumeResponse> {
        self.answer(request, operations::resume).await
    }

    async fn preserve(
        &self,
        request: Request<proto::PrunerPreserveRequest>,
    ) -> Answer<proto::PrunerPreserveResponse> {
        self.answer(request, operations::preserve).await
    }

    async fn dry_run(
        &self,
        request: Request<proto::PrunerDryRunRequest>,
    ) -> Answer<proto::PrunerDryRunResponse> {
        self.answer(request, operations::dry_run).await
    }

    async fn explain(
        &self,
        request: Request<proto::PrunerExplainRequest>,
    ) -> Answer<proto::PrunerExplainResponse> {
        self.answer(request, operations::explain).await
    }

    async fn backlog(
        &self,
        request: Request<proto::PrunerBacklogRequest>,
    ) -> Answer<proto::PrunerBacklogResponse> {
        self.answer(request, operations::backlog).await
    }

    async fn restore(
        &self,
        request: Request<proto::PrunerRestoreRequest>,
    ) -> Answer<proto::PrunerRestoreResponse> {
        self.answer(request, operations::restore).await
    }

    async fn confirm_height(
        &self,
        request: Request<proto::PrunerConfirmHeightRequest>,
    ) -> Answer<proto::PrunerConfirmHeightResponse> {
        self.answer(request, operations::confirm_height).await
    }

    async fn forget_persister(
        &self,
        request: Request<proto::PrunerForgetPersisterRequest>,
    ) -> Answer<proto::PrunerForgetPersisterResponse> {
        self.answer(request, operations::forget_persister).await
    }

    async fn forget_node_state(
        &self,
        request: Request<proto::PrunerForgetNodeStateRequest>,
    ) -> Answer<proto::PrunerForgetNodeStateResponse> {
        self.answer(request, operations::forget_node_state).await
    }
}

#[tonic::async_trait]
impl chain_events_server::ChainEvents for PrunerService {
    async fn block(
        &self,
        request: Request<proto::ChainEventsBlockRequest>,
    ) -> Answer<proto::ChainEventsBlockResponse> {
        self.answer(request, operations::block).await
    }

    async fn block_persisted(
        &self,
        request: Request<proto::ChainEventsBlockPersistedRequest>,
    ) -> Answer<proto::ChainEventsBlockPersistedResponse> {
        self.answer(request, operations::block_persisted).await
    }

    async fn reorganisation(
        &self,
        request: Request<proto::ChainEventsReorganisationRequest>,
    ) -> Answer<proto::ChainEventsReorganisationResponse> {
        self.answer(request, operations::reorganisation).await
    }

    async fn assembly_state(
        &self,
        request: Request<proto::ChainEventsAssemblyStateRequest>,
    ) -> Answer<proto::ChainEventsAssemblyStateResponse> {
        self.answer(request, operations::assembly_state).await
    }
}
