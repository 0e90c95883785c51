//! A server to call, and engines to put behind it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot, task::JoinHandle};
use tonic::{
    Status,
    transport::{Channel, Endpoint, Error},
};
use utxokeep::{config::GrpcConfig, memory::Budget};
use utxokeep_core::node::Policy;
use utxokeep_kv::{Batch, Durability, Kv, KvError, MemoryKv};
use utxokeep_server::grpc::{GrpcServer, proto::tx_store_client::TxStoreClient};
use utxokeep_testkit::{Hook, HookedKv};
use utxokeep_txstore::{NodeStore, StoreSettings, TABLES, TxStore};

/// Items that a call may have here.
pub(crate) const ITEMS_MAX: usize = 1_000;

/// A node store on an engine.
pub(crate) fn store_on(kv: impl Kv + 'static, policy: Policy) -> Arc<dyn TxStore> {
    let settings = StoreSettings::default().with(|settings| settings.policy = policy);
    Arc::new(NodeStore::on_kv(kv, settings, Durability::Buffered).unwrap())
}

/// A server and the threads of both sides.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<Result<(), Error>>>,
}

impl Served {
    /// A server of an empty store in memory.
    pub(crate) fn memory() -> Self {
        Self::start(store_on(MemoryKv::new(TABLES), Policy::default()), &GrpcConfig::default())
    }

    pub(crate) fn start(store: Arc<dyn TxStore>, config: &GrpcConfig) -> Self {
        Self::start_within(store, config, Budget::default())
    }

    /// A server whose calls share this memory.
    pub(crate) fn start_within(
        store: Arc<dyn TxStore>,
        config: &GrpcConfig,
        memory: Budget,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = GrpcServer::new(store, ITEMS_MAX, config).with_memory(memory);
        let task = runtime.spawn(server.serve(listener, async {
            let _ = stopped.await;
        }));
        Self { address, runtime, stop: Some(stop), task: Some(task) }
    }

    /// A connection, which is made with the first call.
    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let _inside = self.runtime.enter();
        endpoint.connect_lazy()
    }

    pub(crate) fn client(&self) -> TxStoreClient<Channel> {
        TxStoreClient::new(self.channel()).max_decoding_message_size(usize::MAX)
    }

    /// The answer to a call that must succeed.
    pub(crate) fn ok<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> T {
        self.runtime.block_on(call).unwrap().into_inner()
    }

    /// The status of a call that must fail.
    pub(crate) fn status<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Status {
        match self.runtime.block_on(call) {
            Ok(_) => panic!("the call must fail"),
            Err(status) => status,
        }
    }

    pub(crate) fn ask_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has ended.
    pub(crate) fn ended(&mut self) {
        let task = self.task.take().unwrap();
        self.runtime.block_on(task).unwrap().unwrap();
    }
}

/// Tables in memory whose writes can be slow, or fail.
pub(crate) type TroubledKv = HookedKv<MemoryKv, Trouble>;

/// What is wrong with the tables.
#[derive(Default)]
pub(crate) struct Trouble {
    pub(crate) is_slow: AtomicBool,
    pub(crate) is_poisoned: AtomicBool,
    /// A slow write has begun.
    pub(crate) has_begun: AtomicBool,
}

/// How long a slow write takes.
pub(crate) const SLOW: Duration = Duration::from_millis(1_500);

impl Hook for Trouble {
    fn commit(&self, _: &Batch) -> Result<(), KvError> {
        if self.is_poisoned.load(Ordering::SeqCst) {
            return Err(KvError::Poisoned);
        }
        if self.is_slow.load(Ordering::SeqCst) {
            self.has_begun.store(true, Ordering::SeqCst);
            std::thread::sleep(SLOW);
        }
        Ok(())
    }
}

/// Such tables, and what to make wrong with them.
pub(crate) fn troubled_kv() -> (TroubledKv, Arc<Trouble>) {
    let kv = HookedKv::new(MemoryKv::new(TABLES), Trouble::default());
    let trouble = Arc::clone(&kv.hook);
    (kv, trouble)
}
