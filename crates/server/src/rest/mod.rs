//! The REST server: questions to the chain index, and work with the wallet ledger, over HTTP.
//!
//! # Invariants
//!
//! * An answer about the chain comes from one snapshot, names the block it is true of, and carries
//!   that block's hash as its entity tag.
//! * Nothing here writes to the chain index, but for the names and places of consumers.
//! * Nothing is read or carried out before [`guard`] has let a request in.
//! * Every error, unknown routes included, has one JSON shape; no input makes a handler panic.
//! * Work runs on threads of their own and are bounded in number, rows and time.

mod admission;
mod answer;
mod body;
mod described;
mod error;
mod guard;
mod memory;
mod merged;
mod meter;
mod mmr;
mod node;
mod ops;
mod params;
mod request;
mod server;
mod state;
mod stream;
mod table;
mod wallets;

use axum::{Router, http::Uri};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};
use utoipa_swagger_ui::{Config as UiConfig, SwaggerUi};

use self::{
    node::{pruner_routes, transaction_routes},
    ops::Operations,
    table::Routes,
    wallets::wallet_routes,
};
use crate::watched::Watched;

pub use meter::METRICS;
pub(crate) use meter::install_recorder;
pub use node::NodeState;
pub use server::{serve, serve_routes};
pub use state::RestState;
pub use wallets::WalletState;

/// Where the description of the API is served.
const OPENAPI_PATH: &str = "/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "utxokeep",
        description = "The exact UTXO set of a chain, at its tip and at every height inside the \
                   rollback window, and the wallets of a ledger.\n\nEvery answer about the chain \
                   names the block it is true of (`point`) and carries that block's hash as \
                   `ETag`; send it back in `If-None-Match` to be told `304` while nothing \
                   changed. Amounts are decimal strings.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(error::ErrorBody))
)]
struct Description;

#[derive(OpenApi)]
#[openapi(tags(
    (name = "outputs", description = "Outputs and balances"),
    (name = "chain", description = "The followed chain"),
    (name = "mmr", description = "One root over the whole UTXO set, and proofs under it"),
    (name = "stream", description = "What every block changed, as it happens"),
    (name = "consumers", description = "Programs that read the stream, by name")
))]
struct ChainDescription;

#[derive(OpenApi)]
#[openapi(tags((name = "operations", description = "Health and metrics")))]
struct OperationsDescription;

/// Routes about the chain and their description, from the table of operations.
fn chain_routes() -> OpenApiRouter<RestState> {
    let mut routes = Routes { router: OpenApiRouter::with_openapi(ChainDescription::openapi()) };
    utxokeep::ops::chain::operations(&mut routes);
    let routes = routes.router.routes(routes!(mmr::root)).routes(routes!(mmr::proof));
    routes.merge(stream::routes())
}

/// Routes that are always there.
fn operations_routes() -> OpenApiRouter<Operations> {
    OpenApiRouter::with_openapi(OperationsDescription::openapi())
        .routes(routes!(ops::health))
        .routes(routes!(ops::live))
        .routes(routes!(ops::ready))
        .routes(routes!(ops::metrics))
}

/// The description of the whole API. A server describes under `/openapi.json` what it has.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let routes = Description::openapi()
        .merge_from(chain_routes().into_openapi())
        .merge_from(wallet_routes().into_openapi())
        .merge_from(transaction_routes().into_openapi())
        .merge_from(pruner_routes().into_openapi())
        .merge_from(operations_routes().into_openapi());
    described::finished(routes)
}

/// The routes of a chain index, ready to be served.
pub fn router(state: RestState) -> Router {
    let watched = Watched::chain_index(state.index());
    router_of(Some(state), None, None, vec![watched])
}

/// The routes of what there is, ready to be served. Health, metrics and the description are always
/// among them; health asks what is watched whether it takes writes.
pub fn router_of(
    chain: Option<RestState>,
    wallets: Option<WalletState>,
    node: Option<NodeState>,
    watched: Vec<Watched>,
) -> Router {
    let NodeState { transactions, pruner, pruning } = node.unwrap_or_default();
    let operations = Operations::new(chain.clone(), wallets.clone(), pruning, watched);
    let mut routes = OpenApiRouter::with_openapi(Description::openapi());
    if let Some(chain) = chain {
        routes = routes.merge(chain_routes().with_state(chain));
    }
    let has_wallets = wallets.is_some();
    if let Some(wallets) = wallets {
        routes = routes.merge(wallet_routes().with_state(wallets));
    }
    if let Some(transactions) = transactions {
        routes = routes.merge(transaction_routes().with_state(transactions));
    }
    if let Some(pruner) = pruner {
        routes = routes.merge(pruner_routes().with_state(pruner));
    }
    let (routes, description) =
        routes.merge(operations_routes().with_state(operations)).split_for_parts();
    // Without "none" the page would send the description's address to a validator on the internet.
    let ui = SwaggerUi::new("/docs")
        .url(OPENAPI_PATH, described::finished(description))
        .config(UiConfig::from(OPENAPI_PATH).validator_url("none"));
    routes
        .merge(ui)
        .fallback(move |uri: Uri| async move { error::unknown_route(&uri, has_wallets) })
        .method_not_allowed_fallback(error::wrong_method)
        .layer(axum::middleware::from_fn(meter::measure))
}
