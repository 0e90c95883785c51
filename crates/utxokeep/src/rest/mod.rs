//! The REST server: questions to the chain index over HTTP.
//!
//! # Invariants
//!
//! * An answer comes from one snapshot, names the block it is true of, and carries that block's
//!   hash as its entity tag.
//! * Nothing here writes to the database.
//! * Every error, unknown routes included, has one JSON shape; no input makes a handler panic.
//! * Reads run on threads of their own and are bounded in number, rows and time.

mod answer;
mod chain;
mod error;
mod meter;
mod ops;
mod outputs;
mod owners;
mod params;
mod pruner;
mod server;
mod state;

use axum::{Router, routing::get};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};
use utoipa_swagger_ui::{Config as UiConfig, SwaggerUi};

pub use meter::METRICS;
pub(crate) use meter::install_recorder;
pub(crate) use pruner::pruner_routes;
pub use server::{serve, serve_routes};
pub use state::RestState;

/// Where the description of the API is served.
const OPENAPI_PATH: &str = "/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "utxokeep",
        description = "The exact UTXO set of a chain, at its tip and at every height inside the \
                       rollback window.\n\nEvery answer names the block it is true of (`point`) \
                       and carries that block's hash as `ETag`; send it back in `If-None-Match` \
                       to be told `304` while nothing changed. Amounts are decimal strings.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "outputs", description = "Outputs and balances"),
        (name = "chain", description = "The followed chain"),
        (name = "operations", description = "Health and metrics")
    )
)]
struct Description;

/// Routes and their description, made from the same list.
fn parts() -> (Router<RestState>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(outputs::utxo))
        .routes(routes!(owners::address_utxos))
        .routes(routes!(owners::address_balance))
        .routes(routes!(owners::credential_utxos))
        .routes(routes!(owners::credential_balance))
        .routes(routes!(owners::script_utxos))
        .routes(routes!(owners::script_balance))
        .routes(routes!(chain::tip))
        .routes(routes!(chain::block))
        .routes(routes!(chain::status))
        .routes(routes!(ops::health))
        .routes(routes!(ops::metrics))
        .split_for_parts()
}

/// The description of the API, as served under `/openapi.json`.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    parts().1
}

/// Health and metrics only, for a program that has no chain index.
pub fn operations_router() -> Router {
    Router::new()
        .route("/health", get(ops::health_alone))
        .route("/metrics", get(ops::metrics_alone))
        .fallback(error::unknown_route)
        .method_not_allowed_fallback(error::wrong_method)
        .layer(axum::middleware::from_fn(meter::measure))
}

/// Every route, ready to be served.
pub fn router(state: RestState) -> Router {
    let (routes, description) = parts();
    // Without "none" the page would send the description's address to a validator on the internet.
    let ui = SwaggerUi::new("/docs")
        .url(OPENAPI_PATH, description)
        .config(UiConfig::from(OPENAPI_PATH).validator_url("none"));
    routes
        .merge(ui)
        .fallback(error::unknown_route)
        .method_not_allowed_fallback(error::wrong_method)
        .layer(axum::middleware::from_fn(meter::measure))
        .with_state(state)
}
