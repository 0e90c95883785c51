//! Requests that are worked on: how many at a time, for how long, and how long their bodies may be.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use utxokeep::ops::Effect;

use super::{
    error::ApiError,
    state::{read_within, run_within},
};
use crate::config::RestConfig;

/// The limits that routes of one part share; clones share them too.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    /// One permit for each request that is worked on.
    permits: Arc<Semaphore>,
    timeout: Duration,
    body_bytes_max: usize,
}

impl Admission {
    pub(super) fn new(config: &RestConfig) -> Self {
        let requests_max = config.concurrent_requests_max.get() as usize;
        Self {
            permits: Arc::new(Semaphore::new(requests_max.min(Semaphore::MAX_PERMITS))),
            timeout: Duration::from_millis(config.request_timeout_ms.get().into()),
            body_bytes_max: (config.body_kib_max.get() as usize).saturating_mul(1 << 10),
        }
    }

    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) const fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// Does work on a thread that may block. A request takes its place here, after its body has
    /// arrived: a client that sends slowly keeps nobody out. The place goes with the work: what
    /// outlives its request still counts.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        effect: Effect,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permits = Arc::clone(&self.permits);
        let permit = permits.try_acquire_owned().map_err(|_| ApiError::Overloaded)?;
        let work = move || {
            let _permit = permit;
            work()
        };
        match effect {
            Effect::Reads => read_within(self.timeout, work).await,
            Effect::Changes | Effect::Creates => {
                run_within(self.timeout, ApiError::WriteTimeout, work).await
            }
        }
    }
}
