//! Routes of the wallet ledger. They read and write; the chain index is not touched.
//!
//! # Invariants
//!
//! * What a request means is said in [`crate::wallets`]; routes come from the table of operations,
//!   but for events.
//! * Nothing of a wallet is to be kept by caches on the way.

mod events;

use axum::{
    http::{HeaderValue, header},
    middleware::{from_fn, map_response},
    response::Response,
};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    admission::Admission,
    error::ApiError,
    guard::trusted_only,
    state::read_within,
    table::{Routes, Serves},
};
use crate::{
    config::RestConfig,
    wallets::{Lagging, Wallets},
};

/// What wallet routes share; clones share it too.
#[derive(Debug, Clone)]
pub struct WalletState {
    wallets: Wallets,
    admission: Admission,
}

impl WalletState {
    /// Answers from a ledger within the limits of `config`.
    #[must_use]
    pub fn new(wallets: Wallets, config: &RestConfig) -> Self {
        Self { wallets, admission: Admission::new(config) }
    }

    /// Whether the ledger follows a chain in this program.
    pub(super) fn is_following(&self) -> bool {
        self.wallets.follower().runs()
    }

    /// Why the ledger has not followed the chain for too long.
    pub(super) fn follower_fault(&self) -> Option<String> {
        self.wallets.follower_fault()
    }

    /// Which wallets lack blocks, if the ledger answers; gets through under load.
    pub(super) async fn lagging(&self) -> Result<Lagging, ApiError> {
        let wallets = self.wallets.clone();
        read_within(self.admission.timeout(), move || Ok(wallets.lagging()?)).await
    }
}

impl Serves for WalletState {
    type Part = Wallets;

    fn part(&self) -> &Wallets {
        &self.wallets
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }
}

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

/// Routes and their description, from the table of operations.
pub(super) fn wallet_routes() -> OpenApiRouter<WalletState> {
    let mut routes = Routes { router: OpenApiRouter::with_openapi(Description::openapi()) };
    utxokeep::ops::wallets::operations(&mut routes);
    routes
        .router
        .routes(routes!(events::list_events))
        .route_layer(from_fn(trusted_only))
        .route_layer(map_response(keep_nowhere))
}

async fn keep_nowhere(mut response: Response) -> Response {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}
