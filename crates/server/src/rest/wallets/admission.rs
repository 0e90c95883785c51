//! What wallet routes share, and the one way they reach the ledger.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::FromRequestParts, http::request::Parts};
use tokio::sync::Semaphore;

use super::Answer;
use crate::{
    config::RestConfig,
    rest::{
        error::ApiError,
        state::{read_within, run_within},
    },
    wallets::{Lagging, Wallets, WalletsError},
};

/// What wallet routes share; clones share it too.
#[derive(Debug, Clone)]
pub struct WalletState(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    wallets: Wallets,
    request_timeout: Duration,
    body_bytes_max: usize,
    /// One permit for each request that is worked on.
    permits: Arc<Semaphore>,
}

impl WalletState {
    /// Answers from a ledger within the limits of `config`.
    #[must_use]
    pub fn new(wallets: Wallets, config: &RestConfig) -> Self {
        let requests_max = config.concurrent_requests_max.get() as usize;
        Self(Arc::new(Shared {
            wallets,
            request_timeout: Duration::from_millis(config.request_timeout_ms.get().into()),
            body_bytes_max: (config.body_kib_max.get() as usize).saturating_mul(1 << 10),
            permits: Arc::new(Semaphore::new(requests_max.min(Semaphore::MAX_PERMITS))),
        }))
    }

    pub(super) fn request_timeout(&self) -> Duration {
        self.0.request_timeout
    }

    pub(super) fn body_bytes_max(&self) -> usize {
        self.0.body_bytes_max
    }

    /// Whether the ledger follows a chain in this program.
    pub(in crate::rest) fn is_following(&self) -> bool {
        self.0.wallets.follower().runs()
    }

    /// Why the ledger has not followed the chain for too long.
    pub(in crate::rest) fn follower_fault(&self) -> Option<String> {
        self.0.wallets.follower_fault()
    }

    /// Which wallets lack blocks, if the ledger answers; gets through under load.
    pub(in crate::rest) async fn lagging(&self) -> Result<Lagging, ApiError> {
        let wallets = self.0.wallets.clone();
        read_within(self.0.request_timeout, move || Ok(wallets.lagging()?)).await
    }
}

/// A request that was let in. It takes its place among those that are worked on when its work begins:
/// a client that sends its body slowly keeps nobody out.
#[derive(Debug, Clone)]
pub(super) struct Admitted(WalletState);

impl FromRequestParts<WalletState> for Admitted {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &WalletState) -> Result<Self, ApiError> {
        Ok(Self(state.clone()))
    }
}

impl Admitted {
    /// Asks the ledger, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        self,
        work: impl FnOnce(&Wallets) -> Result<T, WalletsError> + Send + 'static,
    ) -> Answer<T> {
        let (limit, work) = self.begin(work)?;
        read_within(limit, work).await.map(Json)
    }

    /// Changes the ledger, on a thread that may block.
    pub(super) async fn write<T: Send + 'static>(
        self,
        work: impl FnOnce(&Wallets) -> Result<T, WalletsError> + Send + 'static,
    ) -> Answer<T> {
        let (limit, work) = self.begin(work)?;
        run_within(limit, ApiError::WriteTimeout, work).await.map(Json)
    }

    /// The ledger, for what does not block.
    pub(super) fn wallets(&self) -> &Wallets {
        &self.0.0.wallets
    }

    /// Takes a place; answers how long the work may take, and the work.
    fn begin<T>(
        self,
        work: impl FnOnce(&Wallets) -> Result<T, WalletsError> + Send + 'static,
    ) -> Result<(Duration, impl FnOnce() -> Result<T, ApiError> + Send + 'static), ApiError> {
        let Self(state) = self;
        let permits = Arc::clone(&state.0.permits);
        let permit = permits.try_acquire_owned().map_err(|_| ApiError::Overloaded)?;
        let limit = state.0.request_timeout;
        // The permit goes with the work: what outlives its request still counts.
        let work = move || {
            let _permit = permit;
            Ok(work(&state.0.wallets)?)
        };
        Ok((limit, work))
    }
}
