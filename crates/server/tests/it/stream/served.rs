//! A simulated chain in a database, served over REST and gRPC.

use std::{collections::BTreeMap, net::SocketAddr};

use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot, task::JoinHandle};
use utxokeep::{
    config::{GrpcConfig, RestConfig, StreamConfig},
    ops::chain::{Chain, ChainLimits},
    stream::{StreamCursor, Streams, cursor_text},
};
use utxokeep_chains::{Simulator, SimulatorConfig};
use utxokeep_core::{OutPoint, UtxoRecord, mmr::MmrRule};
use utxokeep_index::{ChainIndex, ChainWriter, Follower, IndexSettings, tables::ids::UNSPENT};
use utxokeep_kv::{OpenMode, Read as _, RocksKv, RocksOptions, Scan};
use utxokeep_server::{
    access::RestAccess,
    doors::Doors,
    grpc::GrpcServer,
    rest::{RestState, serve},
};
use utxokeep_testkit::Archive;

use super::client::Face;
use crate::{
    http::{exchange_text, request},
    program::until,
};

/// Outputs by outpoint: amount, height, script.
pub(crate) type Set = BTreeMap<OutPoint, (u64, u32, Vec<u8>)>;

/// A small generator, so that a failure can be repeated by its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Settings of streams that tests change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) event_outputs_max: u32,
    pub(crate) buffer_kib_max: u32,
    pub(crate) slow_reader_secs_max: u32,
    pub(crate) connections_max: u32,
    pub(crate) window: u32,
    /// Whether the database keeps a Merkle mountain range.
    pub(crate) has_mmr: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_outputs_max: 1_000,
            buffer_kib_max: 4_096,
            slow_reader_secs_max: 60,
            connections_max: 16,
            window: 200,
            has_mmr: false,
        }
    }
}

impl Limits {
    fn config(self) -> StreamConfig {
        let count = |number: u32| number.try_into().unwrap();
        StreamConfig {
            event_outputs_max: count(self.event_outputs_max),
            buffer_kib_max: count(self.buffer_kib_max),
            slow_reader_secs_max: count(self.slow_reader_secs_max),
            connections_max: count(self.connections_max),
            // A filtered client hears of every block that it passes, so that it knows the tip.
            checkpoint_blocks: count(1),
            outputs_per_sec_max: count(1_000_000_000),
            ..StreamConfig::default()
        }
    }
}

fn simulator_config(seed: u64, reorg_percent: u32) -> SimulatorConfig {
    SimulatorConfig {
        seed,
        txs_per_block: 1..6,
        same_block_spend_percent: 25,
        odd_output_permille: 60,
        reorg_percent,
        reorg_depth_max: 6,
        addresses: 12,
        ..SimulatorConfig::default()
    }
}

/// Servers of both faces.
struct Servers {
    runtime: Runtime,
    rest: SocketAddr,
    grpc: SocketAddr,
    stops: Vec<oneshot::Sender<()>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Servers {
    fn start(index: &ChainIndex<RocksKv>, limits: Limits) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (rest, grpc) = (bind(), bind());
        let addresses = (rest.local_addr().unwrap(), grpc.local_addr().unwrap());
        let streams = Streams::new(index.clone(), &limits.config());
        let config = RestConfig::default();
        let state = RestState::new(index.clone(), &config).with_streams(streams.clone());
        let doors = Doors::new(config.connections_max, config.idle_secs_max);
        let (stop_rest, rest_stopped) = oneshot::channel::<()>();
        let (stop_grpc, grpc_stopped) = oneshot::channel::<()>();
        let rest = runtime.spawn(async move {
            let stopped = async { drop(rest_stopped.await) };
            serve(rest, state, RestAccess::default(), doors, stopped).await.unwrap();
        });
        let chain = Chain::new(index.clone(), ChainLimits::ALONE);
        let answering =
            GrpcServer::of_chain(chain, &GrpcConfig::default()).with_streams(Some(streams));
        let grpc = runtime.spawn(async move {
            answering.serve(grpc, async { drop(grpc_stopped.await) }).await.unwrap();
        });
        Self {
            runtime,
            rest: addresses.0,
            grpc: addresses.1,
            stops: vec![stop_rest, stop_grpc],
            tasks: vec![rest, grpc],
        }
    }

    fn ask_to_stop(&mut self) {
        self.stops.drain(..).for_each(|stop| stop.send(()).unwrap());
    }

    fn ended(&mut self) {
        for task in self.tasks.drain(..) {
            self.runtime.block_on(task).unwrap();
        }
    }
}

/// The chain, its database and its servers.
pub(crate) struct World {
    servers: Servers,
    follower: Option<Follower<RocksKv>>,
    index: ChainIndex<RocksKv>,
    simulator: Simulator,
    archive: Archive,
    watched: Vec<Vec<u8>>,
    limits: Limits,
    dir: TempDir,
}

impl World {
    pub(crate) fn new(seed: u64, reorg_percent: u32, limits: Limits) -> Self {
        Self::of(simulator_config(seed, reorg_percent), limits)
    }

    pub(crate) fn with_large_blocks(seed: u64, limits: Limits) -> Self {
        let config = simulator_config(seed, 0);
        Self::of(SimulatorConfig { txs_per_block: 60..80, ..config }, limits)
    }

    fn of(config: SimulatorConfig, limits: Limits) -> Self {
        let watched = Simulator::scripts(&config).into_iter().take(2).collect();
        let dir = TempDir::new().unwrap();
        let index = open(&dir, limits);
        Self {
            servers: Servers::start(&index, limits),
            follower: Some(follower(&index)),
            index,
            simulator: Simulator::new(config),
            archive: Archive::default(),
            watched,
            limits,
            dir,
        }
    }

    /// The database and the servers are closed and opened again.
    pub(crate) fn restarted(self) -> Self {
        let Self { mut servers, follower, index, simulator, archive, watched, limits, dir } = self;
        servers.ask_to_stop();
        servers.ended();
        drop((servers, follower, index));
        let index = open(&dir, limits);
        Self {
            servers: Servers::start(&index, limits),
            follower: Some(self::follower(&index)),
            index,
            simulator,
            archive,
            watched,
            limits,
            dir,
        }
    }

    pub(crate) fn mine(&mut self) {
        let (header, raw) = self.simulator.mine_next();
        self.archive.push(header, raw);
        let follower = self.follower.as_mut().unwrap();
        follower.accept(&header, &self.archive).unwrap();
        follower.writer_mut().prune_pass().unwrap();
    }

    pub(crate) fn rest(&self) -> SocketAddr {
        self.servers.rest
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.servers.grpc
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.servers.runtime
    }

    /// Scripts that filtered clients watch.
    pub(crate) fn watched(&self) -> &[Vec<u8>] {
        &self.watched
    }

    pub(crate) const fn index(&self) -> &ChainIndex<RocksKv> {
        &self.index
    }

    /// Raw blocks, as they were mined.
    pub(crate) const fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Cursor of whoever has everything.
    pub(crate) fn tip(&self) -> String {
        let (height, entry) = self.index.view().unwrap().tip().unwrap();
        cursor_text(&StreamCursor::behind(height, entry.hash))
    }

    /// Leaves and root of the Merkle mountain range at the tip.
    pub(crate) fn mmr(&self) -> (u64, Vec<u8>) {
        let root = self.index.view().unwrap().mmr_root(None).unwrap();
        (root.leaves, root.root.to_vec())
    }

    /// The set of the index, of some scripts or of all.
    pub(crate) fn set(&self, scripts: &[Vec<u8>]) -> Set {
        set_of(self.index.engine(), scripts)
    }

    pub(crate) fn get(&self, path: &str) -> String {
        exchange_text(self.rest(), request("GET", path, "", "").as_bytes())
    }

    pub(crate) fn send(&self, method: &str, path: &str) -> String {
        exchange_text(self.rest(), request(method, path, "", "").as_bytes())
    }

    pub(crate) fn wait_for_cut(&self, face: Face, reason: &str) {
        let line =
            format!("utxokeep_stream_cut_total{{face=\"{}\",reason=\"{reason}\"}}", face.name());
        until(&line, || self.get("/metrics").contains(&line));
    }

    pub(crate) fn ask_to_stop(&mut self) {
        self.servers.ask_to_stop();
    }

    pub(crate) fn ended(&mut self) {
        self.servers.ended();
    }
}

pub(crate) fn set_of(kv: &RocksKv, scripts: &[Vec<u8>]) -> Set {
    let mut set = Set::new();
    kv.scan(UNSPENT, &Scan::ALL, &mut |key, value| {
        let record = UtxoRecord::decode(value).unwrap();
        let is_watched = scripts.is_empty() || scripts.iter().any(|one| one == record.address);
        if is_watched {
            let coin = (record.value, record.height.get(), record.address.to_vec());
            set.insert(OutPoint::from_key(key).unwrap(), coin);
        }
        true
    })
    .unwrap();
    set
}

fn open(dir: &TempDir, limits: Limits) -> ChainIndex<RocksKv> {
    let settings = IndexSettings::new(Simulator::NETWORK).with(|settings| {
        settings.window.rollback_window = limits.window;
        settings.window.prune_depth = limits.window;
        settings.mmr = limits.has_mmr.then(MmrRule::default);
        settings.durability = utxokeep_kv::Durability::Buffered;
    });
    let options = RocksOptions::within(32 << 20);
    ChainIndex::open_dir(dir.path(), settings, options, OpenMode::Create).unwrap()
}

fn follower(index: &ChainIndex<RocksKv>) -> Follower<RocksKv> {
    Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap()
}
