//! The servers as parts of a program: started, announced, stopped by a signal.

use std::{
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::JoinHandle,
};
use utxokeep::{
    engine::{Engine, STORE_FOLLOWER_STALLED},
    ops::transactions::Transactions,
    stream::Streams,
};

use crate::{
    access::{Access, Faces},
    doors::{Doors, descriptors},
    grpc::GrpcServer,
    memory::Budget,
    rest,
};

/// How long reads of the server may take once the program stops.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(6);

/// The longest that stopping takes. Whoever supervises the program is promised ten seconds.
const STOP_MAX: Duration = Duration::from_secs(8);

/// The threads that answer requests.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the threads of the server")
}

/// The servers of an engine.
pub(crate) struct Servers {
    pub(crate) rest: Server,
    pub(crate) grpc: Option<Server>,
    /// File of the token that clients need, if they need one.
    pub(crate) token_file: Option<PathBuf>,
    streams: Option<Streams>,
}

impl Servers {
    /// Lets REST answer from an engine, and gRPC beside it.
    pub(crate) fn start(
        runtime: &Runtime,
        engine: &Engine,
        rest_listen: SocketAddr,
        grpc: Option<(GrpcServer, SocketAddr)>,
    ) -> anyhow::Result<Self> {
        let config = engine.config();
        let databases = [engine.index().is_some(), engine.node_store().is_some()];
        descriptors::prepare(config, databases.into_iter().map(u64::from).sum())?;
        let faces = Faces {
            rest: rest_listen,
            has_wallets: engine.wallets().is_some(),
            has_consumers: engine.index().is_some(),
            grpc: grpc.as_ref().map(|(_, listen)| *listen),
        };
        let access = Access::prepare(config, &config.storage.data, faces)?;
        let streams = engine.index().map(|index| Streams::new(index.clone(), &config.stream));
        let chain = engine.index().zip(streams.clone()).map(|(index, streams)| {
            let stalled = Duration::from_secs(config.persister.stalled_secs.into());
            let persister = engine.persisting().map(|state| (state.clone(), stalled));
            let store_follower = engine.store_following().cloned();
            let store_follower = store_follower.map(|state| (state, STORE_FOLLOWER_STALLED));
            let stalled = Duration::from_secs(config.mempool.stalled_secs.into());
            let mempool = engine.reading_mempool().map(|state| (state.clone(), stalled));
            rest::RestState::new(index.clone(), &config.rest)
                .with_source(engine.source())
                .with_streams(streams)
                .with_persister(persister)
                .with_store_follower(store_follower)
                .with_mempool(mempool)
        });
        let wallets = engine.wallets().cloned();
        let wallets = wallets.map(|wallets| rest::WalletState::new(wallets, &config.rest));
        let transactions = engine.node_store().map(|store| {
            let window = config.pruner.safety_window_blocks;
            Transactions::new(store.clone(), &config.txstore.url, window)
        });
        let node = rest::NodeState::new(transactions, engine.pruning().cloned(), &config.rest);
        let routes = rest::router_of(chain, wallets, Some(node), engine.watched());
        let memory = Budget::new(config.server.request_memory_mib_max);
        let doors = Doors::new(config.rest.connections_max, config.rest.idle_secs_max);
        let (doors, asked) = (Doors { memory: memory.clone(), ..doors }, access.rest);
        let rest = Server::spawn(
            runtime,
            rest_listen,
            "--listen",
            "REST",
            |listener, stopped| async move {
                Ok(rest::serve_routes(listener, routes, asked, doors, stopped).await?)
            },
        )?;
        let grpc = grpc.map(|(answering, listen)| {
            let answering = answering.with_token(access.grpc.clone()).with_memory(memory);
            let answering = answering.with_streams(streams.clone());
            Server::spawn(runtime, listen, "--grpc-listen", "gRPC", |listener, stopped| async {
                Ok(answering.serve(listener, stopped).await?)
            })
        });
        Ok(Self { rest, grpc: grpc.transpose()?, token_file: access.token_file, streams })
    }

    /// Asks the servers to stop; both finish what they are answering at the same time.
    pub(crate) fn ask_to_stop(self) -> Vec<Stopping> {
        // Streams end with a last event that says where to go on.
        self.streams.iter().for_each(Streams::stop);
        self.grpc.into_iter().chain([self.rest]).map(Server::ask_to_stop).collect()
    }
}

/// Serves a started engine until a signal asks to stop. `announce` is told once the servers listen.
pub(crate) fn serve_until_stopped(
    mut engine: Engine,
    rest_listen: SocketAddr,
    grpc: Option<(GrpcServer, SocketAddr)>,
    announce: impl FnOnce(&Engine, &Servers),
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let servers = Servers::start(&runtime, &engine, rest_listen, grpc)?;
    announce(&engine, &servers);
    let broken = runtime.block_on(async {
        tokio::select! {
            () = signals.any() => None,
            // Whoever watches the program starts it again, which is what helps.
            broken = engine.broken() => broken,
        }
    });
    let asked = Instant::now();
    end_in_time(i32::from(broken.is_some()));
    let servers = servers.ask_to_stop();
    let worked = engine.stop().map_err(anyhow::Error::from);
    let stopped = wait(servers, &runtime);
    runtime.shutdown_timeout(STOP_WAIT.min(STOP_MAX.saturating_sub(asked.elapsed())));
    broken.map_or(Ok(()), Err).and(worked).and(stopped)
}

/// Ends the process when stopping takes too long, as when a database server holds a statement. Nothing
/// is lost by it: every part is made for being killed.
fn end_in_time(code: i32) {
    thread::spawn(move || {
        thread::sleep(STOP_MAX);
        tracing::warn!(
            "work in hand did not end within {STOP_MAX:?} and was cut off; what was acknowledged is \
             kept, the rest is done again after the next start"
        );
        std::process::exit(code);
    });
}

/// Waits for servers that were asked to stop; answers the first failure.
pub(crate) fn wait(servers: Vec<Stopping>, runtime: &Runtime) -> anyhow::Result<()> {
    servers.into_iter().map(|server| server.wait(runtime)).fold(Ok(()), Result::and)
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
pub(crate) struct Stopping {
    name: &'static str,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Server {
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
