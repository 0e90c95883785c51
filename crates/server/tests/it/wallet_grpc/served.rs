//! A server of a wallet ledger, in this process.

use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint},
};
use utxokeep::{
    config::{GrpcConfig, WalletConfig},
    wallets::Wallets,
};
use utxokeep_server::grpc::{GrpcServer, proto::wallets_client::WalletsClient};

/// A server and the threads of both sides.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    /// Where the ledger is.
    pub(crate) url: String,
    address: String,
    _stop: oneshot::Sender<()>,
    _dir: Option<TempDir>,
}

impl Served {
    /// A server of a new ledger in a file.
    pub(crate) fn sqlite() -> Self {
        Self::sqlite_with(&GrpcConfig::default())
    }

    pub(crate) fn sqlite_with(config: &GrpcConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("wallets.db").display());
        Self { _dir: Some(dir), ..Self::start(&url, config) }
    }

    pub(crate) fn start(url: &str, config: &GrpcConfig) -> Self {
        let settings = WalletConfig { fsync: false, ..WalletConfig::default() };
        let wallets = Wallets::open(url, &settings, utxokeep_core::OpenMode::Create).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = GrpcServer::of_wallets(wallets, config);
        runtime.spawn(server.serve(listener, async {
            let _ = stopped.await;
        }));
        Self { runtime, url: url.to_owned(), address, _stop: stop, _dir: None }
    }

    /// A connection, which is made with the first call.
    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let _inside = self.runtime.enter();
        endpoint.connect_lazy()
    }

    pub(crate) fn client(&self) -> WalletsClient<Channel> {
        WalletsClient::new(self.channel())
    }

    /// The answer to a call that must succeed.
    pub(crate) fn ok<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> T {
        self.runtime.block_on(call).unwrap().into_inner()
    }

    /// The status of a call that must fail.
    pub(crate) fn status<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Status {
        match self.runtime.block_on(call) {
            Ok(_) => panic!("the call must fail"),
            Err(status) => status,
        }
    }
}
