//! Health of the pruner: whether the program lives, and whether everything it needs is there.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::{task::spawn_blocking, time::timeout};

use super::{meter, ops::Dependency};
use crate::pruning::Pruning;

/// How long the things that the pruner needs may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
struct Live {
    status: &'static str,
}

#[derive(Debug, Serialize)]
struct Ready {
    status: &'static str,
    dependencies: Vec<Dependency>,
}

/// Routes to be served beside others.
pub(crate) fn pruner_routes(pruning: Pruning) -> Router {
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .layer(axum::middleware::from_fn(meter::measure))
        .with_state(pruning)
}

/// Who answers lives.
async fn live() -> Response {
    Json(Live { status: "ok" }).into_response()
}

async fn ready(State(pruning): State<Pruning>) -> Response {
    let asked = spawn_blocking(move || pruning.pruner().health());
    let dependencies = match timeout(PATIENCE, asked).await {
        Ok(Ok(health)) => health
            .dependencies
            .into_iter()
            .map(|dependency| Dependency::new(dependency.name, dependency.fault))
            .collect(),
        Ok(Err(_)) => vec![Dependency::new("store", Some("asking it broke down".to_owned()))],
        Err(_) => {
            let fault = format!("no answer within {} s", PATIENCE.as_secs());
            vec![Dependency::new("store", Some(fault))]
        }
    };
    let is_ready = dependencies.iter().all(Dependency::is_there);
    let (code, status) = if is_ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, Json(Ready { status, dependencies })).into_response()
}
