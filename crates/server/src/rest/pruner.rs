//! The pruner over REST: whether everything it needs is there, and the last runs.

use std::time::Duration;

use axum::{Json, extract::State};
use serde::Deserialize;
use tokio::{task::spawn_blocking, time::timeout};
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    error::{ApiError, ErrorBody},
    ops::Dependency,
    params::Params,
    state::run_within,
};
use crate::{
    grpc::{proto, pruner_to_proto as to},
    pruner_runs::{Jobs, Waits},
    pruning::Pruning,
};

/// How long the things that the pruner needs may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs that are answered unless the request says otherwise.
const JOBS: u32 = 20;

/// The most runs that one answer has.
const JOBS_MAX: u32 = 1_000;

/// How many runs.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobsParams {
    /// The most runs to answer, up to 1,000; without it 20.
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

#[derive(OpenApi)]
#[openapi(tags((name = "pruner", description = "Last runs of the pruner")))]
struct PrunerDescription;

/// Routes about the pruner and their description, made from the same list.
pub(super) fn pruner_routes() -> OpenApiRouter<Pruning> {
    OpenApiRouter::with_openapi(PrunerDescription::openapi()).routes(routes!(jobs))
}

/// The last runs of the pruner, newest first
///
/// Also those from before a restart, and of other programs over the same store.
#[utoipa::path(
    get,
    path = "/pruner/jobs",
    tag = "pruner",
    params(JobsParams),
    responses(
        (status = 200, description = "The last runs", body = Jobs),
        (status = 400, description = "The limit is none", body = ErrorBody),
        (status = 503, description = "The store does not answer", body = ErrorBody),
    )
)]
pub(super) async fn jobs(
    State(pruning): State<Pruning>,
    Params(params): Params<JobsParams>,
) -> Result<Json<Jobs>, ApiError> {
    let limit = params.limit.unwrap_or(JOBS);
    if !(1..=JOBS_MAX).contains(&limit) {
        return Err(ApiError::BadParameter(format!("limit is a number from 1 to {JOBS_MAX}")));
    }
    let found = run_within(PATIENCE, ApiError::Timeout, move || {
        let jobs = pruning.pruner().jobs(limit as usize);
        jobs.map_err(|error| ApiError::NodeStore(error.to_string()))
    });
    let jobs = found.await?.iter().map(to::job).collect();
    Ok(Json(Jobs::from(proto::PrunerJobsResponse { jobs })))
}

/// What the pruner needs, whether it is there, and what the next run waits for.
pub(super) async fn health(pruning: Pruning) -> (Vec<Dependency>, Vec<Waits>) {
    let asked = spawn_blocking(move || pruning.pruner().health());
    let unknown = |fault| (vec![Dependency::new("store", Some(fault))], Vec::new());
    match timeout(PATIENCE, asked).await {
        Ok(Ok(health)) => {
            let waits_for = to::health(&health).waits_for.into_iter().map(Waits::from).collect();
            let needs = health.dependencies.into_iter();
            (needs.map(|one| Dependency::new(one.name, one.fault)).collect(), waits_for)
        }
        Ok(Err(_)) => unknown("asking it broke down".to_owned()),
        Err(_) => unknown(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
