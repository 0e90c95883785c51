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
use utxokeep::{
    config::GrpcConfig,
    grpc::{GrpcServer, proto::tx_store_client::TxStoreClient},
};
use utxokeep_core::node::Policy;
use utxokeep_kv::{
    Batch, Durability, Kv, KvError, MemoryKv, Read, Scan, SortedRows, TableId, TableSize, Visitor,
};
use utxokeep_txstore::{NodeStore, Settings, TABLES, TxStore};

/// Items that a call may have here.
pub(crate) const ITEMS_MAX: usize = 1_000;

/// A node store on an engine.
pub(crate) fn store_on(kv: impl Kv + 'static, policy: Policy) -> Arc<dyn TxStore> {
    let settings = Settings { policy, ..Settings::default() };
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
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = GrpcServer::new(store, ITEMS_MAX, config);
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
pub(crate) struct TroubledKv {
    inner: MemoryKv,
    pub(crate) trouble: Arc<Trouble>,
}

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

impl TroubledKv {
    pub(crate) fn new() -> (Self, Arc<Trouble>) {
        let trouble = Arc::new(Trouble::default());
        (Self { inner: MemoryKv::new(TABLES), trouble: Arc::clone(&trouble) }, trouble)
    }
}

impl Read for TroubledKv {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.inner.get(table, key)
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        self.inner.multi_get(table, keys, found)
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        self.inner.scan(table, scan, visit)
    }
}

impl Kv for TroubledKv {
    type Snapshot<'a> = <MemoryKv as Kv>::Snapshot<'a>;

    fn snapshot(&self) -> Self::Snapshot<'_> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), KvError> {
        if self.trouble.is_poisoned.load(Ordering::SeqCst) {
            return Err(KvError::Poisoned);
        }
        if self.trouble.is_slow.load(Ordering::SeqCst) {
            self.trouble.has_begun.store(true, Ordering::SeqCst);
            std::thread::sleep(SLOW);
        }
        self.inner.commit(batch, durability)
    }

    fn load(&self, tables: &[&dyn SortedRows], finish: Batch) -> Result<(), KvError> {
        self.inner.load(tables, finish)
    }

    fn table_sizes(&self) -> Result<Vec<TableSize>, KvError> {
        self.inner.table_sizes()
    }

    fn compact(&self) -> Result<(), KvError> {
        self.inner.compact()
    }
}
