//! Routes of the wallet ledger. They read and write; the chain index is not touched.
//!
//! # Invariants
//!
//! * What a request means is said in [`crate::wallets`]; here is only its way over HTTP.
//! * A request counts while it is worked on, also when nobody waits any more, and not while its body
//!   arrives.
//! * Nothing of a wallet is to be kept by caches on the way.

mod admission;
mod archive;
mod body;
mod directory;
mod events;
mod faults;
mod history;
mod idempotency;
mod labels;
mod ledger;
mod payments;
mod places;
mod prune;
mod records;

use axum::{
    Json,
    http::{HeaderValue, header},
    middleware::{from_fn, map_response},
    response::Response,
};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{error::ApiError, guard::trusted_only};

pub use admission::WalletState;

/// An answer in JSON, or why there is none.
type Answer<T> = Result<Json<T>, ApiError>;

#[derive(OpenApi)]
#[openapi(
    tags((
        name = "wallets",
        description = "The wallet ledger, when `[wallet] url` is set. These routes need the token of \
                       the server's token file (`access-token` in its data directory), sent as \
                       `Authorization: Bearer TOKEN`. A write that takes longer than a request may \
                       is still carried out; look what became of it before you send it again."
    ))
)]
struct Description;

/// Routes and their description, made from the same list.
pub(super) fn wallet_routes() -> OpenApiRouter<WalletState> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(routes_without_key().route_layer(from_fn(idempotency::refuse_key)))
        .merge(routes_with_key())
        .route_layer(from_fn(trusted_only))
        .route_layer(map_response(keep_nowhere))
}

/// Routes that an idempotency key makes safe to repeat.
fn routes_with_key() -> OpenApiRouter<WalletState> {
    OpenApiRouter::new()
        .routes(routes!(directory::next_address))
        .routes(routes!(records::record_transaction))
        .routes(routes!(payments::bump_fee))
        .routes(routes!(payments::acquire_leases))
        .routes(routes!(payments::renew_leases))
        .routes(routes!(payments::select_coins))
        .routes(routes!(payments::create_psbt))
}

fn routes_without_key() -> OpenApiRouter<WalletState> {
    OpenApiRouter::new()
        .routes(routes!(directory::list_wallets, directory::create_wallet))
        .routes(routes!(directory::show_wallet))
        .routes(routes!(directory::rescan_wallet))
        .routes(routes!(directory::list_addresses, directory::add_addresses))
        .routes(routes!(directory::list_descriptors, directory::add_descriptor))
        .routes(routes!(archive::archive_wallet))
        .routes(routes!(archive::restore_wallet))
        .routes(routes!(archive::archive_descriptor))
        .routes(routes!(archive::restore_descriptor))
        .routes(routes!(history::wallet_balance))
        .routes(routes!(history::list_wallet_utxos))
        .routes(routes!(history::show_wallet_utxo))
        .routes(routes!(history::list_transactions))
        .routes(routes!(history::show_transaction, records::remove_transaction))
        .routes(routes!(history::list_replacements))
        .routes(routes!(records::publish_transaction))
        .routes(routes!(records::confirm_transaction))
        .routes(routes!(records::abandon_transaction))
        .routes(routes!(records::unconfirm_transaction))
        .routes(routes!(payments::list_leases, payments::release_leases))
        .routes(routes!(payments::clean_leases))
        .routes(routes!(labels::set_transaction_label))
        .routes(routes!(labels::export_labels, labels::import_labels))
        .routes(routes!(labels::freeze_utxo))
        .routes(routes!(labels::unfreeze_utxo))
        .routes(routes!(prune::prune_wallet))
        .routes(routes!(prune::list_pruned))
        .routes(routes!(prune::acknowledge_pruned))
        .routes(routes!(history::verify_wallet))
        .routes(routes!(history::verify_wallets))
        .routes(routes!(events::list_events))
        .routes(routes!(events::list_webhooks, events::add_webhook))
        .routes(routes!(events::remove_webhook))
        .routes(routes!(events::pause_webhook))
        .routes(routes!(events::resume_webhook))
        .routes(routes!(events::test_webhook))
        .routes(routes!(ledger::ledger_tip))
        .routes(routes!(ledger::apply_block))
        .routes(routes!(ledger::disconnect_block))
        .routes(routes!(ledger::roll_back))
}

async fn keep_nowhere(mut response: Response) -> Response {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}
