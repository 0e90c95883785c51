//! Routes for those who run the server: health and metrics. They answer under any load.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use utxokeep::ops::pruner::PrunerWaiting;

use super::{error::ApiError, meter, node, state::RestState, wallets::WalletState};
use crate::{clock::now_s, pruning::Pruning, wallets::Lagging, watched::Watched};

/// How long the pruner may fail to follow the chain database before health says so.
const PRUNER_STALLED: Duration = Duration::from_secs(60);

/// What the server answers from.
#[derive(Debug, Clone)]
pub(super) struct Operations {
    chain: Option<RestState>,
    wallets: Option<WalletState>,
    pruning: Option<Pruning>,
    watched: Vec<Watched>,
}

impl Operations {
    /// Installs the recorder of metrics, if that has not happened yet.
    pub(super) fn new(
        chain: Option<RestState>,
        wallets: Option<WalletState>,
        pruning: Option<Pruning>,
        watched: Vec<Watched>,
    ) -> Self {
        meter::install_recorder();
        Self { chain, wallets, pruning, watched }
    }

    /// What the server needs, and whether it is there.
    async fn dependencies(&self) -> Vec<Dependency> {
        let mut dependencies = Vec::new();
        if let Some(chain) = &self.chain {
            let answer = chain.read_always(|index| Ok(index.view().map(drop)?)).await;
            dependencies.push(Dependency::asked("chain_index", answer));
            if let Some((source, silent_secs_max)) = chain.source() {
                dependencies.push(match source.trouble(now_s(), *silent_secs_max) {
                    Some(fault) => Dependency::degraded("chain_source", fault),
                    None => Dependency::new("chain_source", None),
                });
            }
            if let Some((persister, stalled)) = chain.persister() {
                dependencies.push(match persister.fault(*stalled) {
                    Some(fault) => Dependency::degraded("persister", fault),
                    None => Dependency::new("persister", None),
                });
            }
            if let Some((follower, stalled)) = chain.store_follower() {
                dependencies.push(match follower.fault(*stalled) {
                    Some(fault) => Dependency::degraded("node_store_follower", fault),
                    None => Dependency::new("node_store_follower", None),
                });
            }
            if let Some((mempool, stalled)) = chain.mempool() {
                dependencies.push(match mempool.fault(*stalled) {
                    Some(fault) => Dependency::degraded("mempool", fault),
                    None => Dependency::new("mempool", None),
                });
            }
        }
        if let Some(wallets) = &self.wallets {
            dependencies.push(match wallets.lagging().await {
                Ok(lagging) if lagging.set_aside > 0 => Dependency::with_set_aside(&lagging),
                answer => Dependency::asked("wallet_ledger", answer.map(drop)),
            });
            if wallets.is_following() {
                dependencies.push(match wallets.follower_fault() {
                    Some(fault) => Dependency::degraded("wallet_follower", fault),
                    None => Dependency::new("wallet_follower", None),
                });
            }
        }
        if let Some(follower) = self.pruning.as_ref().map(Pruning::follower)
            && follower.runs()
        {
            dependencies.push(match follower.fault(PRUNER_STALLED) {
                Some(fault) => Dependency::degraded("pruner_follower", fault),
                None => Dependency::new("pruner_follower", None),
            });
        }
        // What stopped writing outranks what could still be read.
        for watched in &self.watched {
            let trouble = watched.trouble().await.map(|trouble| trouble.reason);
            match dependencies.iter_mut().find(|known| known.name == watched.name) {
                Some(known) if trouble.is_some() => *known = Dependency::new(watched.name, trouble),
                Some(_) => {}
                None => dependencies.push(Dependency::new(watched.name, trouble)),
            }
        }
        dependencies
    }
}

/// Something the server needs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Dependency {
    /// What it is.
    #[schema(example = "wallet_ledger")]
    name: &'static str,
    /// `ok`, `degraded` when a part of it does not go on, or `fault`.
    #[schema(example = "ok")]
    status: &'static str,
    /// What is wrong with it.
    fault: Option<String>,
}

impl Dependency {
    pub(super) fn new(name: &'static str, fault: Option<String>) -> Self {
        let status = if fault.is_none() { "ok" } else { "fault" };
        Self { name, status, fault }
    }

    fn is_there(&self) -> bool {
        self.status != "fault"
    }

    /// It answers, and a part of it does not go on.
    fn degraded(name: &'static str, fault: String) -> Self {
        Self { name, status: "degraded", fault: Some(fault) }
    }

    /// The ledger answers, and these wallets of it do not go on.
    fn with_set_aside(lagging: &Lagging) -> Self {
        let more = lagging.set_aside - lagging.named.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let fault = format!(
            "{} wallets are set aside and want a rescan: {}{more}",
            lagging.set_aside,
            lagging.named.join("; ")
        );
        Self::degraded("wallet_ledger", fault)
    }

    /// What asking it came to.
    fn asked(name: &'static str, answer: Result<(), ApiError>) -> Self {
        let fault = answer.err().map(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, name, "health check failed");
            error.to_string()
        });
        Self::new(name, fault)
    }
}

/// Whether the server can answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, `degraded` when the source is silent, or single wallets or the follower of the ledger
    /// do not go on, or
    /// `unavailable` when a database cannot be read, or takes no writes.
    #[schema(example = "ok")]
    status: &'static str,
    /// What the server needs.
    dependencies: Vec<Dependency>,
}

/// Whether the server can answer
#[utoipa::path(
    get,
    path = "/health",
    tag = "operations",
    responses(
        (status = 200, description = "What the server needs is there", body = Health),
        (status = 503, description = "A database cannot be read, or takes no writes", body = Health),
    )
)]
pub(super) async fn health(State(operations): State<Operations>) -> Response {
    let dependencies = operations.dependencies().await;
    let (code, status) = if !dependencies.iter().all(Dependency::is_there) {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    } else if dependencies.iter().all(|dependency| dependency.fault.is_none()) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::OK, "degraded")
    };
    (code, Json(Health { status, dependencies })).into_response()
}

/// The program lives.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Live {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the server, and its pruner if it has one, can work.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ready {
    /// `ready` or `not ready`.
    #[schema(example = "ready")]
    status: &'static str,
    /// What it needs.
    dependencies: Vec<Dependency>,
    /// What keeps the next run of the pruner from starting, where there is one. Waiting alone is no
    /// fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pruner_waits_for: Option<Vec<PrunerWaiting>>,
}

/// Whether the program lives
#[utoipa::path(
    get,
    path = "/health/live",
    tag = "operations",
    responses((status = 200, description = "It answers", body = Live))
)]
pub(super) async fn live() -> Response {
    Json(Live { status: "ok" }).into_response()
}

/// Whether everything that the server needs is there
///
/// What `/health` looks at, and what the pruner needs where the server has one.
#[utoipa::path(
    get,
    path = "/health/ready",
    tag = "operations",
    responses(
        (status = 200, description = "It is", body = Ready),
        (status = 503, description = "Something is missing, and is named", body = Ready),
    )
)]
pub(super) async fn ready(State(operations): State<Operations>) -> Response {
    let mut dependencies = operations.dependencies().await;
    let mut pruner_waits_for = None;
    if let Some(pruning) = operations.pruning {
        let (needs, waits_for) = node::health(pruning).await;
        dependencies.extend(needs);
        pruner_waits_for = Some(waits_for);
    }
    let (code, status) = if dependencies.iter().all(Dependency::is_there) {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, Json(Ready { status, dependencies, pruner_waits_for })).into_response()
}

/// Metrics in the text format of Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses(
        (status = 200, description = "All metrics", body = String, content_type = "text/plain"),
    )
)]
pub(super) async fn metrics(State(operations): State<Operations>) -> Result<Response, ApiError> {
    if let Some(chain) = &operations.chain {
        chain.read_always(|index| Ok(index.sample_metrics()?)).await?;
        if let Some((source, _)) = chain.source() {
            source.sample(now_s());
        }
    }
    for watched in &operations.watched {
        watched.take_gauges().await;
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], meter::recorder().render()).into_response())
}
