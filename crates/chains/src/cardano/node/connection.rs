//! The thread that talks to the node, and the consumer's end of the queue.

use std::{
    io,
    path::Path,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use pallas_network::multiplexer::Bearer;
use tokio::{
    runtime,
    sync::{Semaphore, oneshot},
};
use tracing::debug;

use super::{
    NodeAddress, NodeError, NodeOptions, NodePoint,
    local::Local,
    peer::Peer,
    wire::{AnswerLimit, Heard, Outbox},
};
use crate::live::LiveEvent;

/// A connection to a node. Dropping it closes the connection and ends its thread.
#[derive(Debug)]
pub struct NodeConnection {
    events: mpsc::Receiver<LiveEvent>,
    permits: Arc<Semaphore>,
    /// Dropping the sender stops the thread wherever it waits.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), NodeError>>>,
    heard: Arc<Heard>,
}

impl NodeConnection {
    /// Connects, shakes hands and finds the newest of `points` (newest first) that the node has
    /// on its chain. Without points the chain is followed from the origin.
    pub fn open(options: NodeOptions, points: &[NodePoint]) -> Result<Self, NodeError> {
        let room = options.queue_blocks_max.clamp(1, Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(room));
        let (event_sender, events) = mpsc::channel();
        let outbox = Outbox::new(Arc::clone(&permits), event_sender);
        let heard = Arc::clone(&outbox.heard);
        let (stop, stopped) = oneshot::channel();
        let (ready_sender, ready) = mpsc::channel();

        let points = points.to_vec();
        let thread = thread::Builder::new()
            .name("cardano-node".to_owned())
            .spawn(move || run(&options, &points, &outbox, &ready_sender, stopped))
            .map_err(|source| NodeError::Start { source })?;
        let (stop, thread) = (Some(stop), Some(thread));
        let mut connection = Self { events, permits, stop, thread, heard };
        // The sender is dropped unused when the thread fails before it is ready.
        match ready.recv() {
            Ok(()) => Ok(connection),
            Err(mpsc::RecvError) => Err(connection.failure()),
        }
    }

    /// The next event; `None` when nothing came within `wait`.
    ///
    /// After a failure the events before it come first, then the failure once, then
    /// [`NodeError::Closed`].
    pub fn next(&mut self, wait: Duration) -> Result<Option<LiveEvent>, NodeError> {
        match self.events.recv_timeout(wait) {
            Ok(event) => {
                self.permits.add_permits(1);
                Ok(Some(event))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.failure()),
        }
    }

    /// How many messages the node has sent: while the number grows, it is there.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.heard.messages()
    }

    /// Height of the node's tip, as it last said.
    #[must_use]
    pub fn tip_height(&self) -> u64 {
        self.heard.tip_height()
    }

    /// Why the thread ended.
    fn failure(&mut self) -> NodeError {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => error,
            _ => NodeError::Closed,
        }
    }
}

impl Drop for NodeConnection {
    fn drop(&mut self) {
        self.stop.take();
        self.permits.close();
        if let Some(thread) = self.thread.take() {
            // Its outcome no longer matters to anyone.
            let _ = thread.join();
        }
    }
}

/// The thread's life: from connecting to the end of the connection.
fn run(
    options: &NodeOptions,
    points: &[NodePoint],
    outbox: &Outbox,
    ready: &mpsc::Sender<()>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), NodeError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|source| NodeError::Start { source })?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            _ = stopped => Ok(()),
            outcome = follow(options, points, outbox, ready) => outcome,
        }
    });
    // A name that is still being resolved must not hold up the end.
    runtime.shutdown_background();
    outcome
}

async fn follow(
    options: &NodeOptions,
    points: &[NodePoint],
    outbox: &Outbox,
    ready: &mpsc::Sender<()>,
) -> Result<(), NodeError> {
    let limit = AnswerLimit::from_ms(options.answer_timeout_ms);
    let magic = options.network_magic;
    let bearer = connect(&options.address, limit).await?;
    match &options.address {
        NodeAddress::Tcp(_) => {
            let mut peer = Peer::greet(bearer, magic, limit).await?;
            let start = peer.headers.find_intersection(points, limit).await?;
            outbox.heard.tip(peer.headers.tip_height());
            begin(options, start, outbox, ready).await?;
            peer.follow(start, options.fetch_range_blocks_max, limit, outbox).await
        }
        NodeAddress::Socket(_) => {
            let mut local = Local::greet(bearer, magic, limit).await?;
            let start = local.find_intersection(points, limit, &outbox.heard).await?;
            begin(options, start, outbox, ready).await?;
            local.follow(start, limit, outbox).await
        }
    }
}

async fn begin(
    options: &NodeOptions,
    start: Option<NodePoint>,
    outbox: &Outbox,
    ready: &mpsc::Sender<()>,
) -> Result<(), NodeError> {
    debug!(address = %options.address, ?start, "following a node");
    ready.send(()).map_err(|_| NodeError::Closed)?;
    outbox.send(LiveEvent::RolledBack(start.as_ref().map(NodePoint::block_hash))).await
}

async fn connect(address: &NodeAddress, limit: AnswerLimit) -> Result<Bearer, NodeError> {
    let connecting = async {
        match address {
            NodeAddress::Tcp(host_and_port) => Bearer::connect_tcp(host_and_port.as_str()).await,
            NodeAddress::Socket(path) => connect_socket(path).await,
        }
        .map_err(|source| NodeError::Connect { address: address.to_string(), source })
    };
    limit.keep("the connection", connecting).await
}

#[cfg(unix)]
async fn connect_socket(path: &Path) -> io::Result<Bearer> {
    Bearer::connect_unix(path).await
}

#[cfg(not(unix))]
async fn connect_socket(_: &Path) -> io::Result<Bearer> {
    Err(io::ErrorKind::Unsupported.into())
}
