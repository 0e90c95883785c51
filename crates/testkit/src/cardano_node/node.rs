//! A fake node: serves a chain that the test may change while clients are connected.
//!
//! It speaks node-to-node over TCP and node-to-client over a local socket, and takes any wrapped
//! blocks: headers, points and predecessors are derived from them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use pallas_network::{
    facades::{NodeServer, PeerServer},
    miniprotocols::{
        Point, blockfetch,
        chainsync::{BlockContent, ClientRequest, N2CServer, N2NServer, ServerError, Tip},
        handshake::{n2c, n2n},
        keepalive,
    },
    multiplexer::Bearer,
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{oneshot, watch},
};

use super::chain::{Ambush, FakeBlock, FakeChain, Step};

/// What the test and the connections share.
struct Shared {
    magic: u64,
    chain: Mutex<FakeChain>,
    /// Counts changes of the chain, so that waiting connections look again.
    changes: watch::Sender<u64>,
    /// Counts requests to drop all connections.
    drops: watch::Sender<u64>,
    connections: watch::Sender<usize>,
    /// Leaves signs of life unanswered.
    deaf: AtomicBool,
}

impl Shared {
    fn chain(&self) -> MutexGuard<'_, FakeChain> {
        self.chain.lock().expect("nobody panics with the chain in hand")
    }
}

/// A node on the loopback interface and on a local socket. Ends when dropped.
pub struct FakeNode {
    shared: Arc<Shared>,
    tcp: SocketAddr,
    socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeNode {
    /// Serves `blocks`; the socket is made in `dir`.
    pub fn start(magic: u64, dir: &Path, blocks: &[Vec<u8>]) -> Self {
        let mut chain = FakeChain::default();
        chain.switch(0, blocks);
        let shared = Arc::new(Shared {
            magic,
            chain: Mutex::new(chain),
            changes: watch::Sender::new(0),
            drops: watch::Sender::new(0),
            connections: watch::Sender::new(0),
            deaf: AtomicBool::new(false),
        });
        let socket = dir.join("node.socket");
        let (stop, stopped) = oneshot::channel();
        let (address_sender, address) = mpsc::channel();
        let for_thread = (Arc::clone(&shared), socket.clone());
        let thread = thread::spawn(move || {
            let (shared, socket) = for_thread;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime starts");
            runtime.block_on(async {
                let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let local = UnixListener::bind(socket).expect("a free socket");
                let bound = tcp.local_addr().expect("a bound port has an address");
                address_sender.send(bound).expect("the test waits for it");
                tokio::select! {
                    _ = stopped => {}
                    () = accept(&shared, &tcp, &local) => {}
                }
            });
            runtime.shutdown_background();
        });
        let tcp = address.recv().expect("the node listens");
        Self { shared, tcp, socket, stop: Some(stop), thread: Some(thread) }
    }

    /// `HOST:PORT` for node-to-node.
    pub fn tcp_address(&self) -> String {
        self.tcp.to_string()
    }

    /// The socket for node-to-client.
    pub fn socket_path(&self) -> &Path {
        &self.socket
    }

    /// Puts `blocks` behind the tip.
    pub fn append(&self, blocks: &[Vec<u8>]) {
        let len = self.shared.chain().len();
        self.switch_fork(len, blocks);
    }

    /// Keeps the first `keep` blocks and puts `blocks` behind them.
    pub fn switch_fork(&self, keep: usize, blocks: &[Vec<u8>]) {
        self.shared.chain().switch(keep, blocks);
        self.changed();
    }

    /// Like [`FakeNode::switch_fork`], at the moment a client next asks for a range of blocks.
    pub fn switch_fork_at_next_range(&self, keep: usize, blocks: &[Vec<u8>]) {
        self.shared.chain().ambush = Some(Ambush { keep, blocks: blocks.to_vec() });
    }

    /// Serves `body` when the block `of` is asked for by range.
    pub fn swap_body(&self, of: &[u8], body: &[u8]) {
        self.shared.chain().swap_body(&FakeBlock::new(of).point, body.to_vec());
    }

    /// How many ranges were answered with "no blocks" so far.
    pub fn refused_ranges(&self) -> usize {
        self.shared.chain().refused_ranges
    }

    /// How many blocks were served by range so far.
    pub fn served_blocks(&self) -> usize {
        self.shared.chain().served_blocks
    }

    /// Answers every range with "no blocks" from now on.
    pub fn refuse_ranges(&self) {
        self.shared.chain().refuse_ranges = true;
    }

    /// Leaves the signs of life of new connections unanswered.
    pub fn ignore_signs_of_life(&self) {
        self.shared.deaf.store(true, Ordering::Relaxed);
    }

    /// Cuts all connections off.
    pub fn drop_connections(&self) {
        self.shared.drops.send_modify(|count| *count += 1);
    }

    /// Clients that have shaken hands and not left.
    pub fn connections(&self) -> usize {
        *self.shared.connections.borrow()
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(shared: &Arc<Shared>, tcp: &TcpListener, local: &UnixListener) {
    loop {
        tokio::select! {
            accepted = Bearer::accept_tcp(tcp) => {
                tokio::spawn(serve_peer(Arc::clone(shared), accepted.expect("a connection").0));
            }
            accepted = Bearer::accept_unix(local) => {
                tokio::spawn(serve_local(Arc::clone(shared), accepted.expect("a connection").0));
            }
        }
    }
}

/// Node-to-node. A refused client closes the connection itself: closing it here could overtake
/// the refusal.
async fn serve_peer(shared: Arc<Shared>, bearer: Bearer) {
    let mut server = PeerServer::new(bearer);
    let mut dropped = shared.drops.subscribe();
    let versions = n2n::VersionTable::v7_and_above(shared.magic);
    let Ok(Some(_)) = server.handshake().handshake(versions).await else { return };
    let PeerServer { plexer, chainsync, mut blockfetch, mut keepalive, .. } = server;
    shared.connections.send_modify(|count| *count += 1);
    tokio::select! {
        _ = dropped.changed() => {}
        _ = serve_chain(&shared, ChainServer::Headers(chainsync)) => {}
        _ = serve_ranges(&shared, &mut blockfetch) => {}
        _ = serve_signs_of_life(&shared, &mut keepalive) => {}
    }
    plexer.abort().await;
    shared.connections.send_modify(|count| *count -= 1);
}

async fn serve_local(shared: Arc<Shared>, bearer: Bearer) {
    let mut server = NodeServer::new(bearer).await;
    let mut dropped = shared.drops.subscribe();
    let versions = n2c::VersionTable::v10_and_above(shared.magic);
    let Ok(Some(_)) = server.handshake().handshake(versions).await else { return };
    // Nobody asks for the state, but the reader of questions notices a client that leaves.
    let NodeServer { plexer, chainsync, mut statequery, localtxsubmission, .. } = server;
    shared.connections.send_modify(|count| *count += 1);
    tokio::select! {
        _ = dropped.changed() => {}
        _ = serve_chain(&shared, ChainServer::Blocks(chainsync)) => {}
        _ = statequery.recv_while_idle() => {}
    }
    // Kept until here: the multiplexer ends when the reader of a protocol is gone.
    drop(localtxsubmission);
    plexer.abort().await;
    shared.connections.send_modify(|count| *count -= 1);
}

async fn serve_signs_of_life(
    shared: &Shared,
    server: &mut keepalive::Server,
) -> Result<(), keepalive::ServerError> {
    loop {
        if shared.deaf.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        server.keepalive_roundtrip().await?;
    }
}

async fn serve_ranges(
    shared: &Shared,
    server: &mut blockfetch::Server,
) -> Result<(), blockfetch::ServerError> {
    while let Some(blockfetch::BlockRequest((first, last))) = server.recv_while_idle().await? {
        let bodies = shared.chain().range(&first, &last);
        // The request may have set off a change that waiting readers must hear of.
        shared.changes.send_modify(|count| *count += 1);
        server.send_block_range(bodies).await?;
    }
    Ok(())
}

async fn serve_chain(shared: &Shared, mut server: ChainServer) -> Result<(), ServerError> {
    let mut changes = shared.changes.subscribe();
    let mut end = Point::Origin;
    // A node repeats the intersection before it goes on.
    let mut repeat = true;
    while let Some(request) = server.request().await? {
        match request {
            ClientRequest::Intersect(points) => {
                let (found, tip) = {
                    let chain = shared.chain();
                    (chain.intersection(&points), chain.tip())
                };
                if let Some(point) = &found {
                    end = point.clone();
                    repeat = true;
                }
                server.intersect(found, tip).await?;
            }
            ClientRequest::RequestNext => {
                let mut told_to_wait = false;
                loop {
                    changes.mark_unchanged();
                    let (step, tip) = {
                        let chain = shared.chain();
                        (chain.step(&end), chain.tip())
                    };
                    let step = if std::mem::take(&mut repeat) && !matches!(step, Step::Backward(_))
                    {
                        Step::Backward(end.clone())
                    } else {
                        step
                    };
                    match step {
                        Step::Forward(block) => {
                            end = block.point.clone();
                            server.forward(*block, tip).await?;
                            break;
                        }
                        Step::Backward(point) => {
                            end = point.clone();
                            server.backward(point, tip).await?;
                            break;
                        }
                        Step::Await => {
                            if !std::mem::replace(&mut told_to_wait, true) {
                                server.wait().await?;
                            }
                            if changes.changed().await.is_err() {
                                return Ok(());
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Chain-sync towards either kind of client; they differ in what a step forward carries.
enum ChainServer {
    Headers(N2NServer),
    Blocks(N2CServer),
}

impl ChainServer {
    async fn request(&mut self) -> Result<Option<ClientRequest>, ServerError> {
        match self {
            Self::Headers(server) => server.recv_while_idle().await,
            Self::Blocks(server) => server.recv_while_idle().await,
        }
    }

    async fn intersect(&mut self, found: Option<Point>, tip: Tip) -> Result<(), ServerError> {
        match (self, found) {
            (Self::Headers(server), Some(point)) => server.send_intersect_found(point, tip).await,
            (Self::Headers(server), None) => server.send_intersect_not_found(tip).await,
            (Self::Blocks(server), Some(point)) => server.send_intersect_found(point, tip).await,
            (Self::Blocks(server), None) => server.send_intersect_not_found(tip).await,
        }
    }

    async fn forward(&mut self, block: FakeBlock, tip: Tip) -> Result<(), ServerError> {
        match self {
            Self::Headers(server) => server.send_roll_forward(block.header, tip).await,
            Self::Blocks(server) => server.send_roll_forward(BlockContent(block.raw), tip).await,
        }
    }

    async fn backward(&mut self, point: Point, tip: Tip) -> Result<(), ServerError> {
        match self {
            Self::Headers(server) => server.send_roll_backward(point, tip).await,
            Self::Blocks(server) => server.send_roll_backward(point, tip).await,
        }
    }

    async fn wait(&mut self) -> Result<(), ServerError> {
        match self {
            Self::Headers(server) => server.send_await_reply().await,
            Self::Blocks(server) => server.send_await_reply().await,
        }
    }
}
