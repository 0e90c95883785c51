//! The chain index as a part of an engine: opened or created, and its source followed into it.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::sync::watch;
use utxokeep_chains::{NodeSource, RecentBlocks, RecentLimits};
use utxokeep_core::{ChainPoint, Network, OpenMode};
use utxokeep_index::{
    ChainIndex, ChainWriter, IndexError, IndexOpenError, IndexSettings, LiveFollower, Readers,
    peek_identity,
};
use utxokeep_kv::{Kv as _, KvError, RocksKv};

use super::{EngineError, Health, Part};
use crate::{
    clock::now_s,
    config::{Config, Source, WalletConfig},
    follow::{self, FollowOptions, Happened, SourceState},
};

/// The index on disk.
pub type Index = ChainIndex<RocksKv>;

/// Opens the chain database of the configuration if there is one, checking that it follows `asked`.
/// What is part of a database and not stated is taken from the database.
pub fn open_existing(
    config: &Config,
    asked: Option<Network>,
    mode: OpenMode,
) -> Result<Option<Index>, EngineError> {
    let path = &config.storage.data;
    let failed = |source| EngineError::Chain { path: path.clone(), source };
    let identity = match peek_identity(path) {
        Ok(identity) => identity,
        Err(IndexOpenError::Store(IndexError::Kv(KvError::NotFound { .. }))) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let settings = config.settings(asked.unwrap_or(identity.network), Some(&identity))?;
    let (options, mode) = (config.rocks_options(), mode.without_creating());
    ChainIndex::open_dir(path, settings, options, mode).map(Some).map_err(failed)
}

/// Opens the chain database of the configuration, which must exist.
pub fn open(config: &Config, mode: OpenMode) -> Result<Index, EngineError> {
    let missing = || KvError::NotFound { path: config.storage.data.clone() };
    open_existing(config, config.network()?, mode)?
        .ok_or_else(|| EngineError::NoChain(missing().into()))
}

/// Makes a new chain database where the configuration says.
pub fn create(config: &Config, settings: IndexSettings) -> Result<Index, EngineError> {
    let path = &config.storage.data;
    let failed = |source| EngineError::Create { path: path.clone(), source };
    // Before the engine makes its files.
    settings.check_mmr().map_err(failed)?;
    ChainIndex::open_dir(path, settings, config.rocks_options(), OpenMode::Create).map_err(failed)
}

/// Opens the chain database of the configuration, or makes one for the network `asked`.
pub fn open_or_create(config: &Config, asked: Option<Network>) -> Result<Index, EngineError> {
    if let Some(index) = open_existing(config, asked, OpenMode::Create)? {
        return Ok(index);
    }
    let network = asked.ok_or(EngineError::NoNetwork)?;
    create(config, config.settings(network, None)?)
}

/// How to reach the node that a database follows.
pub fn node(config: &Config, index: &Index, source: &Source) -> Result<NodeSource, EngineError> {
    let settings = index.settings();
    let (network, chain) = (settings.network(), source.chain());
    follow::node_source(source, &config.follow, &settings.decoder)
        .ok_or(EngineError::NotFollowed { network, chain })
}

/// How to follow a node.
#[must_use]
pub fn follow_options(config: &Config, node: &NodeSource) -> FollowOptions {
    FollowOptions::new(node.live(), &config.follow)
}

/// A place of a chain, for people.
#[must_use]
pub fn place(point: Option<ChainPoint>) -> String {
    point.map_or_else(
        || "the start of the chain".to_owned(),
        |point| match point.slot {
            // Chains without slots.
            slot if slot == u64::from(point.height.get()) => format!("height {}", point.height),
            slot => format!("height {} slot {slot}", point.height),
        },
    )
}

/// The chain index of an engine.
#[derive(Debug)]
pub(super) struct ChainPart {
    pub(super) index: Index,
    source: Option<Followed>,
    silent_secs_max: u32,
}

/// A source that is followed, and its thread once there is one.
#[derive(Debug)]
struct Followed {
    options: FollowOptions,
    node: NodeSource,
    /// Blocks that have just arrived, for a wallet ledger.
    recent: Option<RecentBlocks>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
    is_stopped: Arc<AtomicBool>,
    /// Closed when the thread ends.
    ended: Option<watch::Receiver<()>>,
}

impl ChainPart {
    pub(super) fn new(
        index: Index,
        config: &Config,
        has_ledger: bool,
    ) -> Result<Self, EngineError> {
        let source = config.chain.source.as_ref().map(|source| {
            let node = node(config, &index, source)?;
            let recent = has_ledger.then(|| RecentBlocks::new(recent_limits(&config.wallet)));
            let options = follow_options(config, &node);
            // Others are served meanwhile.
            let options = FollowOptions { waits_for_room: true, ..options };
            let is_stopped = Arc::default();
            Ok::<_, EngineError>(Followed {
                options,
                node,
                recent,
                thread: None,
                is_stopped,
                ended: None,
            })
        });
        let silent_secs_max = config.follow.stalled_secs;
        Ok(Self { index, source: source.transpose()?, silent_secs_max })
    }

    /// What is known of the source, and for how long it may be silent.
    pub(super) fn source(&self) -> Option<(SourceState, u32)> {
        let source = self.source.as_ref()?;
        Some((source.options.state.clone(), self.silent_secs_max))
    }

    /// The node that is followed, and the blocks that have just arrived from it.
    pub(super) fn live(&self) -> Option<(NodeSource, RecentBlocks)> {
        let source = self.source.as_ref()?;
        Some((source.node.clone(), source.recent.clone()?))
    }

    /// Is done when following ended, which it does by itself only when it fails.
    pub(super) async fn ended(&self) {
        match self.source.as_ref().and_then(|source| source.ended.clone()) {
            Some(mut ended) => while ended.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }
}

impl Part for ChainPart {
    fn start(&mut self) -> Result<(), EngineError> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let mut live = LiveFollower::new(ChainWriter::new(self.index.clone())?, Readers::Present);
        let (options, recent) = (source.options.clone(), source.recent.clone());
        let (end, ended) = watch::channel(());
        source.is_stopped.store(false, Ordering::Relaxed);
        let flag = Arc::clone(&source.is_stopped);
        let work = move || {
            let is_stopped = || flag.load(Ordering::Relaxed);
            let followed =
                follow::follow(&mut live, &options, &is_stopped, &mut |what| match what {
                    Happened::Arrived(block) => {
                        if let Some(recent) = &recent {
                            recent.keep(block);
                        }
                    }
                    Happened::Connected(point) => {
                        tracing::info!("connected behind {}", place(*point));
                    }
                    Happened::AtTip(point) => tracing::info!("at the tip: {}", place(*point)),
                    Happened::Away(error, wait) => {
                        tracing::warn!(
                            error = *error as &dyn std::error::Error,
                            ?wait,
                            "node is away"
                        );
                    }
                    Happened::NoRoom(error, wait) => {
                        tracing::error!(
                            error = *error as &dyn std::error::Error,
                            ?wait,
                            "the chain index takes no writes"
                        );
                    }
                    Happened::Moved(_) => {}
                });
            drop(end);
            followed
        };
        let thread = thread::Builder::new().name("follow".to_owned()).spawn(work);
        let failed = |source| EngineError::Thread { does: "follows the source", source };
        (source.thread, source.ended) = (Some(thread.map_err(failed)?), Some(ended));
        Ok(())
    }

    fn stop(&mut self) -> Result<(), EngineError> {
        let Some(source) = &mut self.source else { return Ok(()) };
        source.is_stopped.store(true, Ordering::Relaxed);
        let Some(thread) = source.thread.take() else { return Ok(()) };
        let broken = |_| Err(anyhow::anyhow!("following the source broke down"));
        thread.join().unwrap_or_else(broken).map_err(EngineError::Following)
    }

    fn health(&self) -> Vec<Health> {
        let trouble = self.index.engine().trouble().map(|trouble| trouble.reason);
        let read = || self.index.view().err().map(|error| error.to_string());
        let mut health = vec![Health { part: "chain_index", fault: trouble.or_else(read) }];
        if let Some((source, silent_secs_max)) = self.source() {
            let fault = source.trouble(now_s(), silent_secs_max);
            health.push(Health { part: "chain_source", fault });
        }
        health
    }
}

/// How many of the blocks that arrive are kept for a wallet ledger.
fn recent_limits(config: &WalletConfig) -> RecentLimits {
    RecentLimits {
        blocks_max: config.recent_blocks_max.get() as usize,
        bytes_max: (config.recent_mib_max.get() as usize).saturating_mul(1 << 20),
    }
}

/// The directories in which the configuration says that bodies of blocks are.
pub(super) fn block_places(config: &WalletConfig) -> Vec<PathBuf> {
    let blocks = &config.blocks;
    Some(PathBuf::from(blocks)).filter(|_| !blocks.is_empty()).into_iter().collect()
}
