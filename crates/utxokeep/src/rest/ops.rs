//! Routes for those who run the server: health and metrics. They answer under any load.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use utoipa::ToSchema;

use super::{error::ApiError, meter, state::RestState};

/// Whether the server can answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, or `unavailable` when the database cannot be read.
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the server can answer
#[utoipa::path(
    get,
    path = "/health",
    tag = "operations",
    responses(
        (status = 200, description = "The database can be read", body = Health),
        (status = 503, description = "The database cannot be read", body = Health),
    )
)]
pub(super) async fn health(State(state): State<RestState>) -> Response {
    match state.read_always(|index| Ok(index.view().map(drop)?)).await {
        Ok(()) => Json(Health { status: "ok" }).into_response(),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "health check failed");
            let body = Json(Health { status: "unavailable" });
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

/// The same where there is no chain index to be read.
pub(super) async fn health_alone() -> Response {
    Json(Health { status: "ok" }).into_response()
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
pub(super) async fn metrics(State(state): State<RestState>) -> Result<Response, ApiError> {
    state.read_always(|index| Ok(index.sample_metrics()?)).await?;
    Ok(as_text(state.meter()))
}

/// The same where there is no chain index to be sampled.
pub(super) async fn metrics_alone() -> Response {
    as_text(meter::recorder())
}

fn as_text(meter: &PrometheusHandle) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], meter.render()).into_response()
}
