//! The servers as parts of a program: started, announced, stopped by a signal.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use axum::Router;
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::JoinHandle,
};
use utxokeep_index::ChainIndex;
use utxokeep_kv::RocksKv;

use crate::{
    access::{Access, Faces, RestAccess},
    config::Config,
    doors::{Doors, descriptors},
    follow::SourceState,
    grpc::GrpcServer,
    memory::Budget,
    pruning::Pruning,
    rest,
    wallets::Wallets,
    watched::{Watched, any_stopped},
};

/// How long reads of the server may take once the program stops.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(6);

/// The threads that answer requests.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the threads of the server")
}

/// What a program serves.
pub(crate) struct Served<'s> {
    /// The data directory.
    pub(crate) data: &'s Path,
    /// The chain index, if there is one.
    pub(crate) index: Option<&'s ChainIndex<RocksKv>>,
    /// What is known of the source that is followed into it, if there is one.
    pub(crate) source: Option<SourceState>,
    /// The wallet ledger, if there is one.
    pub(crate) wallets: Option<Wallets>,
    /// Where REST listens.
    pub(crate) rest_listen: SocketAddr,
    /// The node store, if there is one.
    pub(crate) store: Option<Watched>,
    /// What answers over gRPC, and where it listens.
    pub(crate) grpc: Option<(GrpcServer, SocketAddr)>,
    /// The pruner, which stops first.
    pub(crate) pruning: Option<Pruning>,
    /// The wallet ledger, to be watched.
    pub(crate) ledger: Option<Watched>,
}

/// What runs, once it does.
pub(crate) struct Announced<'a> {
    pub(crate) rest: SocketAddr,
    pub(crate) grpc: Option<SocketAddr>,
    /// File of the token that clients need, if they need one.
    pub(crate) token_file: Option<&'a Path>,
}

/// Serves until a signal asks to stop. `announce` is told once the servers listen.
pub(crate) fn serve_until_stopped(
    served: Served<'_>,
    config: &Config,
    work: Option<Work>,
    announce: impl FnOnce(Announced<'_>),
) -> anyhow::Result<()> {
    let databases = u64::from(served.index.is_some()) + u64::from(served.store.is_some());
    descriptors::prepare(config, databases)?;
    let faces = Faces {
        rest: served.rest_listen,
        has_wallets: served.wallets.is_some(),
        grpc: served.grpc.as_ref().map(|(_, listen)| *listen),
    };
    let access = Access::prepare(config, served.data, faces)?;
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let chain = served.index.map(|index| {
        let silent_secs_max = config.follow.stalled_secs;
        let source = served.source.clone().map(|state| (state, silent_secs_max));
        rest::RestState::new(index.clone(), &config.rest).with_source(source)
    });
    let wallets = served.wallets.map(|wallets| rest::WalletState::new(wallets, &config.rest));
    let watched: Vec<Watched> = served
        .index
        .map(Watched::chain_index)
        .into_iter()
        .chain(served.store)
        .chain(served.ledger)
        .collect();
    let routes = rest::router_of(chain, wallets, served.pruning.clone(), watched.clone());
    let memory = Budget::new(config.server.request_memory_mib_max);
    let (listen, budget) = (served.rest_listen, memory.clone());
    let rest = Server::start_routes(&runtime, listen, routes, access.rest, budget, config)?;
    let grpc = served.grpc.map(|(answering, listen)| {
        let answering = answering.with_token(access.grpc.clone()).with_memory(memory);
        Server::start_grpc(&runtime, listen, answering)
    });
    let grpc = grpc.transpose()?;
    announce(Announced {
        rest: rest.address,
        grpc: grpc.as_ref().map(|grpc| grpc.address),
        token_file: access.token_file.as_deref(),
    });
    let mut working = work.map(Working::start).transpose()?;
    let broken = runtime.block_on(async {
        let work_ends = async {
            match &mut working {
                // Work ends by itself only when it fails.
                Some(working) => drop((&mut working.ended).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = signals.any() => None,
            () = work_ends => None,
            // Whoever watches the program starts it again, which is what helps.
            error = any_stopped(watched) => Some(error),
        }
    });
    if let Some(pruning) = &served.pruning {
        pruning.stop();
    }
    // Both servers finish what they are answering at the same time.
    let servers: Vec<Stopping> = grpc.into_iter().chain([rest]).map(Server::ask_to_stop).collect();
    let worked = working.map_or(Ok(()), Working::stop);
    let mut stopped = Ok(());
    for server in servers {
        stopped = stopped.and(server.wait(&runtime));
    }
    runtime.shutdown_timeout(STOP_WAIT);
    broken.map_or(Ok(()), Err).and(worked).and(stopped)
}

/// Work that goes on beside the server until it is asked to stop.
pub(crate) type Work = Box<dyn FnOnce(&dyn Fn() -> bool) -> anyhow::Result<()> + Send>;

/// [`Work`] on its own thread.
struct Working {
    is_stopped: Arc<AtomicBool>,
    ended: oneshot::Receiver<()>,
    thread: thread::JoinHandle<anyhow::Result<()>>,
}

impl Working {
    fn start(work: Work) -> anyhow::Result<Self> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (end, ended) = oneshot::channel();
        let flag = Arc::clone(&is_stopped);
        let thread = thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || {
                let result = work(&|| flag.load(Ordering::Relaxed));
                // The server may have stopped first.
                let _ = end.send(());
                result
            })
            .context("cannot start the thread that follows the source")?;
        Ok(Self { is_stopped, ended, thread })
    }

    fn stop(self) -> anyhow::Result<()> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("following the source broke down"))?
    }
}

/// The signals that stop the program.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals over; from now on they no longer end the process by themselves.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let take = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A server in the background.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    stopping: Stopping,
}

/// A server that was asked to stop.
struct Stopping {
    name: &'static str,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Server {
    /// Starts the REST server of a chain index; answers also which file has the token that clients
    /// need, if they need one.
    pub(crate) fn start(
        runtime: &Runtime,
        listen: SocketAddr,
        index: &ChainIndex<RocksKv>,
        data: &Path,
        config: &Config,
    ) -> anyhow::Result<(Self, Option<PathBuf>)> {
        let faces = Faces { rest: listen, has_wallets: false, grpc: None };
        let access = Access::prepare(config, data, faces)?;
        let state = rest::RestState::new(index.clone(), &config.rest);
        let routes = rest::router(state);
        let memory = Budget::new(config.server.request_memory_mib_max);
        let server = Self::start_routes(runtime, listen, routes, access.rest, memory, config)?;
        Ok((server, access.token_file))
    }

    /// Starts a server of routes.
    fn start_routes(
        runtime: &Runtime,
        listen: SocketAddr,
        routes: Router,
        access: RestAccess,
        memory: Budget,
        config: &Config,
    ) -> anyhow::Result<Self> {
        let doors = Doors::new(config.rest.connections_max, config.rest.idle_secs_max);
        let doors = Doors { memory, ..doors };
        Self::spawn(runtime, listen, "--listen", "REST", move |listener, stopped| async move {
            Ok(rest::serve_routes(listener, routes, access, doors, stopped).await?)
        })
    }

    /// Starts the gRPC server.
    fn start_grpc(
        runtime: &Runtime,
        listen: SocketAddr,
        server: GrpcServer,
    ) -> anyhow::Result<Self> {
        Self::spawn(runtime, listen, "--grpc-listen", "gRPC", |listener, stopped| async {
            Ok(server.serve(listener, stopped).await?)
        })
    }

    fn spawn<F: Future<Output = anyhow::Result<()>> + Send + 'static>(
        runtime: &Runtime,
        listen: SocketAddr,
        option: &str,
        name: &'static str,
        serve: impl FnOnce(TcpListener, Stopped) -> F,
    ) -> anyhow::Result<Self> {
        let listener = runtime.block_on(TcpListener::bind(listen)).with_context(|| {
            format!("cannot listen on {listen}; choose another address with {option} ADDR:PORT")
        })?;
        let address = listener.local_addr().context("cannot tell the address of the server")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped: Stopped = Box::pin(async {
            // Being dropped is a reason to stop as well.
            let _ = stopped.await;
        });
        let task = runtime.spawn(serve(listener, stopped));
        Ok(Self { address, stop, stopping: Stopping { name, task } })
    }

    fn ask_to_stop(self) -> Stopping {
        // An error means that the server ended before; then its own result says why.
        let _ = self.stop.send(());
        self.stopping
    }

    pub(crate) fn stop(self, runtime: &Runtime) -> anyhow::Result<()> {
        self.ask_to_stop().wait(runtime)
    }
}

/// Is done when a server has to stop.
type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Stopping {
    fn wait(self, runtime: &Runtime) -> anyhow::Result<()> {
        let name = self.name;
        runtime
            .block_on(self.task)
            .with_context(|| format!("the {name} server broke down"))?
            .with_context(|| format!("the {name} server failed"))
    }
}
