//! A server of a store in memory and its pruner, in this process.

use std::sync::Arc;

use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint},
};
use utxokeep::{
    config::{GrpcConfig, PrunerConfig},
    node_store,
    pruning::Pruning,
};
use utxokeep_server::grpc::{
    GrpcServer,
    proto::{self, chain_events_client::ChainEventsClient, pruner_client::PrunerClient},
};
use utxokeep_txstore::NodeStore;

use crate::pruner::{
    program::until,
    world::{self, World},
};

/// Items that a call may have here.
pub(crate) const ITEMS_MAX: usize = 10;

pub(crate) struct Served {
    pub(crate) store: Arc<NodeStore>,
    pub(crate) world: World,
    pub(crate) pruning: Pruning,
    runtime: Runtime,
    address: String,
    _stop: oneshot::Sender<()>,
}

impl Served {
    /// A store with this many records that are due, which knows no height.
    pub(crate) fn start(due: usize, config: &PrunerConfig) -> Self {
        let store =
            node_store::open("memory:", &world::config(), utxokeep_core::OpenMode::Create).unwrap();
        let world = World::fill(&store, due, None);
        let pruning = Pruning::start(store.clone(), config).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = GrpcServer::new(store.clone(), ITEMS_MAX, &GrpcConfig::default())
            .with_pruner(pruning.clone());
        runtime.spawn(server.serve(listener, async {
            let _ = stopped.await;
        }));
        Self { store, world, pruning, runtime, address, _stop: stop }
    }

    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let _inside = self.runtime.enter();
        endpoint.connect_lazy()
    }

    pub(crate) fn pruner(&self) -> PrunerClient<Channel> {
        PrunerClient::new(self.channel())
    }

    pub(crate) fn events(&self) -> ChainEventsClient<Channel> {
        ChainEventsClient::new(self.channel())
    }

    /// The answer to a call that must succeed.
    pub(crate) fn ok<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> T {
        self.runtime.block_on(call).unwrap().into_inner()
    }

    /// The status of a call that must fail.
    pub(crate) fn refused<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Status {
        match self.runtime.block_on(call) {
            Ok(_) => panic!("the call must fail"),
            Err(status) => status,
        }
    }

    /// The node reports a block, and where that jumps an operator agrees.
    pub(crate) fn block(&self, height: u32) -> Option<u32> {
        let reported = self.ok(self.events().block(block(height)));
        if reported.held_height.is_some() {
            let request = proto::PrunerConfirmHeightRequest { height };
            self.ok(self.pruner().confirm_height(request));
            return self.ok(self.pruner().status(proto::PrunerStatusRequest {})).pending_height;
        }
        reported.pending_height
    }

    pub(crate) fn jobs(&self) -> Vec<proto::PrunerJob> {
        self.ok(self.pruner().jobs(proto::PrunerJobsRequest { limit: 0 })).jobs
    }

    /// Waits until a run at a height is over.
    pub(crate) fn wait_for(&self, height: u32) -> proto::PrunerJob {
        let is_over = |job: &&proto::PrunerJob| job.height == height && job.ended_ms.is_some();
        until("the run is over", || self.jobs().iter().any(|job| is_over(&job)));
        self.jobs().iter().find(is_over).unwrap().clone()
    }
}

pub(crate) fn block(height: u32) -> proto::ChainEventsBlockRequest {
    proto::ChainEventsBlockRequest { height, mined_set_height: None, is_catching_up: None }
}
