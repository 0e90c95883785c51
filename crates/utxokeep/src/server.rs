//! The REST server as a part of a program: started, announced, stopped by a signal.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::JoinHandle,
};
use utxokeep_index::ChainIndex;
use utxokeep_kv::RocksKv;

use crate::{config::Config, rest};

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

/// Serves `index` until a signal asks to stop. `announce` is told the address once it listens.
pub(crate) fn serve_until_stopped(
    index: &ChainIndex<RocksKv>,
    listen: SocketAddr,
    config: &Config,
    work: Option<Work>,
    announce: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let server = Server::start(&runtime, listen, index, config)?;
    announce(server.address);
    let mut working = work.map(Working::start).transpose()?;
    runtime.block_on(async {
        match &mut working {
            Some(working) => tokio::select! {
                () = signals.any() => {}
                // Work ends by itself only when it fails.
                _ = &mut working.ended => {}
            },
            None => signals.any().await,
        }
    });
    let worked = working.map_or(Ok(()), Working::stop);
    let stopped = server.stop(&runtime);
    runtime.shutdown_timeout(STOP_WAIT);
    worked.and(stopped)
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

/// A REST server in the background.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) fn start(
        runtime: &Runtime,
        listen: SocketAddr,
        index: &ChainIndex<RocksKv>,
        config: &Config,
    ) -> anyhow::Result<Self> {
        let listener = runtime.block_on(TcpListener::bind(listen)).with_context(|| {
            format!("cannot listen on {listen}; choose another address with --listen ADDR:PORT")
        })?;
        let address = listener.local_addr().context("cannot tell the address of the server")?;
        let state = rest::RestState::new(index.clone(), &config.rest);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = runtime.spawn(rest::serve(listener, state, async {
            // Being dropped is a reason to stop as well.
            let _ = stopped.await;
        }));
        Ok(Self { address, stop, task })
    }

    pub(crate) fn stop(self, runtime: &Runtime) -> anyhow::Result<()> {
        // An error means that the server ended before; then its own result says why.
        let _ = self.stop.send(());
        runtime
            .block_on(self.task)
            .context("the REST server broke down")?
            .context("the REST server failed")
    }
}
