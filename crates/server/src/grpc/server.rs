//! Serving the node store, the pruner, the wallet ledger and the chain index on a socket until told to
//! stop.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use futures_util::stream::{self, Stream};
use tokio::{net::TcpListener, sync::oneshot, time};
use tonic::{
    service::interceptor::InterceptedService,
    transport::{self, Server},
};
use tonic_health::{
    ServingStatus,
    server::{HealthReporter, health_reporter},
};
use utxokeep::{ops::chain::Chain, stream::Streams};
use utxokeep_kv::Trouble;
use utxokeep_txstore::TxStore;

use super::{
    calls::Calls,
    guard::TokenGuard,
    memory::MemoryLayer,
    meter::MeterLayer,
    operations::Limits,
    pruner::{self, PrunerService},
    service::Service,
    services::{
        chain_events_server::{self, ChainEventsServer},
        chain_stream_server::{self, ChainStreamServer},
        pruner_server::{self, PrunerServer},
        tx_store_server::{self, TxStoreServer},
        wallets_server::{self, WalletsServer},
    },
    stream::StreamService,
    table::{Served as _, TableService},
    wallet::{self, WalletService},
    wallet_operations,
};
use crate::{
    access::Token,
    config::GrpcConfig,
    doors::{Admitted, Door, Doors},
    memory::Budget,
    pruning::Pruning,
    rest,
    wallets::Wallets,
    watched::Watched,
};

const MIB: usize = 1 << 20;

/// How long calls that are being answered may take once the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How often a silent client is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A node store, a pruner, a wallet ledger, a chain index, or several of them, ready to be served.
#[derive(Clone)]
pub struct GrpcServer {
    store: Option<Arc<dyn TxStore>>,
    pruning: Option<Pruning>,
    wallets: Option<Wallets>,
    chain: Option<Chain>,
    streams: Option<Streams>,
    /// The most items of calls of the node store and the pruner.
    items_max: usize,
    /// The node store follows the chain by itself.
    follows_chain: bool,
    config: GrpcConfig,
    /// What every call but health checks has to send, if anything.
    token: Option<Token>,
    /// Memory that calls share.
    memory: Budget,
}

impl std::fmt::Debug for GrpcServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrpcServer").field("config", &self.config).finish_non_exhaustive()
    }
}

impl GrpcServer {
    /// Answers from `store`, whose calls take up to `items_max` items, within the limits of
    /// `config`. Installs the recorder of metrics, if
    /// that has not happened yet.
    #[must_use]
    pub fn new(store: Arc<dyn TxStore>, items_max: usize, config: &GrpcConfig) -> Self {
        Self { store: Some(store), ..Self::of_nothing(items_max, config) }
    }

    /// The same for a pruner that runs alone.
    #[must_use]
    pub fn of_pruner(pruning: Pruning, items_max: usize, config: &GrpcConfig) -> Self {
        Self { pruning: Some(pruning), ..Self::of_nothing(items_max, config) }
    }

    /// The same for a wallet ledger that is served alone.
    #[must_use]
    pub fn of_wallets(wallets: Wallets, config: &GrpcConfig) -> Self {
        Self { wallets: Some(wallets), ..Self::of_nothing(0, config) }
    }

    /// The same for a chain index that is served alone.
    #[must_use]
    pub fn of_chain(chain: Chain, config: &GrpcConfig) -> Self {
        Self { chain: Some(chain), ..Self::of_nothing(0, config) }
    }

    fn of_nothing(items_max: usize, config: &GrpcConfig) -> Self {
        rest::install_recorder();
        let config = config.clone();
        Self {
            store: None,
            pruning: None,
            wallets: None,
            chain: None,
            streams: None,
            items_max,
            follows_chain: false,
            config,
            token: None,
            memory: Budget::default(),
        }
    }

    /// Answers for a pruner as well.
    #[must_use]
    pub fn with_pruner(self, pruning: Pruning) -> Self {
        Self { pruning: Some(pruning), ..self }
    }

    /// Refuses calls that tell the node store of blocks: it follows the chain by itself.
    #[must_use]
    pub fn with_followed_chain(self, follows_chain: bool) -> Self {
        Self { follows_chain, ..self }
    }

    /// Answers for a wallet ledger as well.
    #[must_use]
    pub fn with_wallets(self, wallets: Wallets) -> Self {
        Self { wallets: Some(wallets), ..self }
    }

    /// Answers questions to a chain index as well.
    #[must_use]
    pub fn with_chain(self, chain: Chain) -> Self {
        Self { chain: Some(chain), ..self }
    }

    /// Answers for the change stream of a chain as well.
    #[must_use]
    pub fn with_streams(self, streams: Option<Streams>) -> Self {
        Self { streams, ..self }
    }

    /// Asks every call for a token, but not health checks.
    #[must_use]
    pub fn with_token(self, token: Option<Token>) -> Self {
        Self { token, ..self }
    }

    /// Lets calls share the memory of other servers.
    #[must_use]
    pub fn with_memory(self, memory: Budget) -> Self {
        Self { memory, ..self }
    }

    /// Names of the services that are served.
    fn services(&self) -> Vec<&'static str> {
        let store = self.store.iter().map(|_| tx_store_server::SERVICE_NAME);
        let pruner = self
            .pruning
            .iter()
            .flat_map(|_| [pruner_server::SERVICE_NAME, chain_events_server::SERVICE_NAME]);
        let wallets = self.wallets.iter().map(|_| wallets_server::SERVICE_NAME);
        let index = self.chain.iter().map(|_| Chain::SERVICE);
        let streams = self.streams.iter().map(|_| chain_stream_server::SERVICE_NAME);
        store.chain(pruner).chain(wallets).chain(index).chain(streams).collect()
    }

    fn store_service(&self, health: &HealthReporter) -> Option<TxStoreServer<Service>> {
        let config = &self.config;
        let service = Service {
            calls: Calls::new(
                Arc::clone(self.store.as_ref()?),
                tx_store_server::SERVICE_NAME,
                config,
                health.clone(),
            ),
            limits: Limits {
                items: self.items_max,
                answer_bytes: self.message_bytes_max(),
                page_entries: config.page_entries_max.get() as usize,
                follows_chain: self.follows_chain,
            },
        };
        Some(TxStoreServer::new(service).max_decoding_message_size(self.message_bytes_max()))
    }

    fn pruner_service(&self, health: &HealthReporter) -> Option<PrunerService> {
        let pruning = Arc::new(self.pruning.clone()?);
        let name = pruner_server::SERVICE_NAME;
        let calls = Calls::new(pruning, name, &self.config, health.clone());
        Some(PrunerService { calls, items_max: self.items_max })
    }

    fn wallet_service(&self, health: &HealthReporter) -> Option<WalletsServer<WalletService>> {
        let wallets = self.wallets.clone()?;
        let rows_max = wallets.config().page_rows_max;
        let limits = wallet_operations::Limits {
            page_entries: self.config.page_entries_max.min(rows_max).get() as usize,
            answer_bytes: self.message_bytes_max(),
        };
        let name = wallets_server::SERVICE_NAME;
        let calls = Calls::new(Arc::new(wallets), name, &self.config, health.clone());
        let service = WalletService { calls, limits };
        Some(WalletsServer::new(service).max_decoding_message_size(self.message_bytes_max()))
    }

    fn chain_service(&self, health: &HealthReporter) -> Option<TableService<Chain>> {
        let chain = Arc::new(self.chain.clone()?);
        let calls = Calls::new(chain, Chain::SERVICE, &self.config, health.clone());
        Some(TableService::new(calls, self.message_bytes_max()))
    }

    const fn message_bytes_max(&self) -> usize {
        self.config.message_mib_max.get() as usize * MIB
    }

    /// A service that asks for the token before it reads a message.
    fn guarded<S>(&self, service: S) -> InterceptedService<S, TokenGuard> {
        InterceptedService::new(service, TokenGuard(self.token.clone()))
    }

    /// Keeps the health service up to date, for ever.
    async fn watch_health(&self, health: &HealthReporter) {
        let pruner = async {
            match self.pruning.clone() {
                Some(pruning) => pruner::watch_health(pruning, health.clone()).await,
                None => std::future::pending().await,
            }
        };
        let wallets = async {
            match self.wallets.clone() {
                Some(wallets) => wallet::watch_health(wallets, health.clone()).await,
                None => std::future::pending().await,
            }
        };
        let store = async {
            match self.store.clone().map(Watched::node_store) {
                Some(store) => store.follow(|trouble| set_store_health(health, trouble)).await,
                None => std::future::pending().await,
            }
        };
        let chain = async {
            match self.chain.as_ref().map(|chain| Watched::chain_index(chain.index())) {
                Some(index) => index.follow(|trouble| set_chain_health(health, trouble)).await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(store, pruner, wallets, chain);
    }

    /// Answers calls until `shutdown` is done, then finishes those that are being answered.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), transport::Error> {
        let config = &self.config;
        let (health, health_service) = health_reporter();
        let services = self.services();
        for service in &services {
            health.set_service_status(service, ServingStatus::Serving).await;
        }
        let pruner = self.pruner_service(&health);
        let events = pruner.clone().map(ChainEventsServer::new);
        let bytes_max = self.message_bytes_max();
        let pruner =
            pruner.map(|pruner| PrunerServer::new(pruner).max_decoding_message_size(bytes_max));
        let streams = self.streams.clone();
        let ending = streams.clone();
        let streams = streams.map(|streams| ChainStreamServer::new(StreamService(streams)));
        let (stop, stopped) = oneshot::channel::<()>();
        let doors = Doors::new(config.connections_max, config.idle_secs_max);
        // The time of a call starts when its message is there; to send it may take as long again.
        let timeout = Duration::from_millis(config.call_timeout_ms.get().into()) * 2;
        let server = Server::builder()
            .timeout(timeout)
            .max_concurrent_streams(Some(config.connection_calls_max.get()))
            .http2_keepalive_interval(Some(KEEPALIVE))
            .layer(MeterLayer)
            .layer(MemoryLayer(self.memory.clone()))
            .add_service(health_service)
            .add_optional_service(self.store_service(&health).map(|it| self.guarded(it)))
            .add_optional_service(pruner.map(|it| self.guarded(it)))
            .add_optional_service(events.map(|it| self.guarded(it)))
            .add_optional_service(self.wallet_service(&health).map(|it| self.guarded(it)))
            .add_optional_service(self.chain_service(&health).map(|it| self.guarded(it)))
            .add_optional_service(streams.map(|it| self.guarded(it)))
            .serve_with_incoming_shutdown(
                admitted(Door::new(listener, &doors), doors.idle_max),
                async {
                    // An error means that the sender is gone, which is a reason to stop as well.
                    let _ = stopped.await;
                },
            );
        let watched = self.watch_health(&health);
        let drained = async {
            tokio::select! {
                () = shutdown => {}
                () = watched => {}
            }
            for service in services {
                health.set_service_status(service, ServingStatus::NotServing).await;
            }
            if let Some(streams) = ending {
                streams.stop();
            }
            let _ = stop.send(());
            // A client that keeps a stream open must not keep the program from ending.
            time::sleep(DRAIN).await;
        };
        tokio::select! {
            result = server => result,
            () = drained => Ok(()),
        }
    }
}

/// Connections as they are let in, for ever.
fn admitted(
    door: Door,
    idle_max: Duration,
) -> impl Stream<Item = Result<Admitted, Infallible>> + Send {
    stream::unfold(door, move |door| async move {
        let admitted = door.admit().await.with_preface_within(idle_max);
        Some((Ok(admitted), door))
    })
}

async fn set_chain_health(health: &HealthReporter, trouble: Option<Trouble>) {
    let status = trouble.map_or(ServingStatus::Serving, |_| ServingStatus::NotServing);
    health.set_service_status(Chain::SERVICE, status).await;
}

async fn set_store_health(health: &HealthReporter, trouble: Option<Trouble>) {
    let status = trouble.map_or(ServingStatus::Serving, |_| ServingStatus::NotServing);
    // Probes that name no service ask about the whole server.
    for service in ["", tx_store_server::SERVICE_NAME] {
        health.set_service_status(service, status).await;
    }
}
