//! What handlers share, and the one way they reach the database.

use std::time::Duration;

use tokio::{task::spawn_blocking, time::timeout};
use utxokeep::{
    config::StreamConfig,
    consumers::FollowerState,
    ops::chain::{Chain, ChainLimits},
    stream::Streams,
};
use utxokeep_index::ChainIndex;
use utxokeep_kv::RocksKv;

use super::{admission::Admission, error::ApiError, meter, table::Serves};
use crate::{
    config::RestConfig,
    follow::{self, SourceState},
    memory,
    waiting::Waiting,
};

/// What handlers share; clones share it too.
#[derive(Clone)]
pub struct RestState {
    admission: Admission,
    mmr_proof_changes_max: u64,
    chain: Chain,
    source: Option<Followed>,
    streams: Streams,
    persister: Option<(FollowerState, Duration)>,
    store_follower: Option<(FollowerState, Duration)>,
    mempool: Option<(FollowerState, Duration)>,
}

/// The source that is followed, and how long it may be silent, in seconds.
type Followed = (SourceState, u32);

impl std::fmt::Debug for RestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestState").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl RestState {
    /// Answers from `index` within the limits of `config`. Installs the recorder of metrics, if
    /// that has not happened yet.
    #[must_use]
    pub fn new(index: ChainIndex<RocksKv>, config: &RestConfig) -> Self {
        meter::install_recorder();
        Self {
            admission: Admission::new(config),
            mmr_proof_changes_max: config.mmr_proof_changes_max.get().into(),
            streams: Streams::new(index.clone(), &StreamConfig::default()),
            chain: Chain::new(index, ChainLimits::of_server(config)),
            source: None,
            persister: None,
            store_follower: None,
            mempool: None,
        }
    }

    /// The same, beside a source that is followed and may be silent for so many seconds.
    #[must_use]
    pub fn with_source(self, source: Option<(SourceState, u32)>) -> Self {
        if source.is_some() {
            follow::describe_metrics();
        }
        let chain = self.chain.clone().with_source(source.clone().map(|(state, _)| state));
        Self { chain, source, ..self }
    }

    /// The same, with change streams within other limits, which somebody else may stop.
    #[must_use]
    pub fn with_streams(self, streams: Streams) -> Self {
        Self { streams, ..self }
    }

    pub(super) const fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The same, beside a persister that may stand still for so long.
    #[must_use]
    pub fn with_persister(self, persister: Option<(FollowerState, Duration)>) -> Self {
        Self { persister, ..self }
    }

    pub(super) const fn persister(&self) -> Option<&(FollowerState, Duration)> {
        self.persister.as_ref()
    }

    /// The same, beside a node store that follows the chain and may stand still for so long.
    #[must_use]
    pub fn with_store_follower(self, store_follower: Option<(FollowerState, Duration)>) -> Self {
        Self { store_follower, ..self }
    }

    pub(super) const fn store_follower(&self) -> Option<&(FollowerState, Duration)> {
        self.store_follower.as_ref()
    }

    /// The same, beside a mempool that may not be read for so long.
    #[must_use]
    pub fn with_mempool(self, mempool: Option<(FollowerState, Duration)>) -> Self {
        Self { mempool, ..self }
    }

    pub(super) const fn mempool(&self) -> Option<&(FollowerState, Duration)> {
        self.mempool.as_ref()
    }

    pub(super) const fn source(&self) -> Option<&Followed> {
        self.source.as_ref()
    }

    pub(super) fn index(&self) -> &ChainIndex<RocksKv> {
        self.chain.index()
    }

    pub(super) const fn mmr_proof_changes_max(&self) -> u64 {
        self.mmr_proof_changes_max
    }

    /// Runs one of the few reads that have to get through under load.
    pub(super) async fn read_always<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ChainIndex<RocksKv>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let chain = self.chain.clone();
        read_within(self.admission.timeout(), move || work(chain.index())).await
    }
}

impl Serves for RestState {
    type Part = Chain;

    fn part(&self) -> &Chain {
        &self.chain
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }
}

/// Runs a read on a thread that may block. It ends early when its client is gone, or when it takes
/// longer than `limit`.
pub(super) async fn read_within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let waiting = Waiting::default();
    run_within(limit, ApiError::Timeout, waiting.watched(work)).await
}

/// Runs `work` on a thread that may block. When it takes longer than `limit` the answer is `late`,
/// and the work goes on alone.
pub(super) async fn run_within<T: Send + 'static>(
    limit: Duration,
    late: ApiError,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    match timeout(limit, spawn_blocking(memory::carried(work))).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(ApiError::Internal),
        Err(_) => Err(late),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::waiting::is_unwanted;

    /// Longer than anything here takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_read_ends_when_its_client_is_gone_and_when_its_time_is_over() {
        for limit in [PATIENCE, Duration::from_millis(1)] {
            let (start, started) = mpsc::channel();
            let (finish, finished) = mpsc::channel();
            let read = tokio::spawn(read_within(limit, move || {
                start.send(()).unwrap();
                while !is_unwanted() {
                    std::thread::yield_now();
                }
                finish.send(()).unwrap();
                Ok(())
            }));
            let wait = move || started.recv_timeout(PATIENCE).unwrap();
            spawn_blocking(wait).await.unwrap();
            if limit == PATIENCE {
                read.abort();
            }
            let wait = move || finished.recv_timeout(PATIENCE).unwrap();
            spawn_blocking(wait).await.unwrap();
        }
    }
}
