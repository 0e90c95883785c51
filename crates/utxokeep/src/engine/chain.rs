//! The chain index as a part of an engine: opened or created, and its source followed into it.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use utxokeep_chains::{BodyFinder, NodeSource, RecentBlocks, RecentLimits};
use utxokeep_core::{ChainPoint, Network, OpenMode};
use utxokeep_index::{
    CaughtUp, ChainIndex, ChainWriter, IndexError, IndexOpenError, IndexSettings, LiveFollower,
    Readers, SetStanding, peek_identity,
};
use utxokeep_kv::{Kv as _, KvError, RocksKv};

use super::{EngineError, Health, Part};
use crate::{
    catch_up::{self, CatchingUp},
    clock::now_s,
    config::{Config, FollowConfig, Source, WalletConfig},
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

/// Where bodies of blocks are looked for: where the configuration says, and on the node.
#[must_use]
pub fn bodies(config: &Config, index: &Index, node: Option<&NodeSource>) -> BodyFinder {
    let bodies = BodyFinder::new(index.settings().decoder.clone()).with_files(
        &block_places(&config.wallet),
        None,
        &config.storage.data,
    );
    node.cloned().into_iter().fold(bodies, BodyFinder::with_node)
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
    config: Config,
    is_stopped: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
    /// Set when the thread ends and there is more to do.
    ended: Option<watch::Receiver<bool>>,
}

/// A source that is followed.
#[derive(Debug, Clone)]
struct Followed {
    options: FollowOptions,
    node: NodeSource,
    /// Blocks that have just arrived, for a wallet ledger.
    recent: Option<RecentBlocks>,
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
            Ok::<_, EngineError>(Followed { options, node, recent })
        });
        Ok(Self {
            index,
            source: source.transpose()?,
            silent_secs_max: config.follow.stalled_secs,
            config: config.clone(),
            is_stopped: Arc::default(),
            thread: None,
            ended: None,
        })
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

    /// Whether the index was off, and this engine may take it on.
    fn has_to_catch_up(&self) -> Result<bool, IndexError> {
        let standing = self.index.view()?.set_standing();
        let is_behind = matches!(standing, SetStanding::CatchingUp { .. });
        Ok(is_behind && self.index.engine().mode().may_write())
    }

    /// Is done when following ended, which it does by itself only when it fails.
    pub(super) async fn ended(&self) {
        if let Some(mut ended) = self.ended.clone()
            && ended.wait_for(|has_ended| *has_ended).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl Part for ChainPart {
    fn start(&mut self) -> Result<(), EngineError> {
        let source = self.source.clone();
        if source.is_none() && !self.has_to_catch_up()? {
            return Ok(());
        }
        let writer = ChainWriter::new(self.index.clone())?;
        let node = source.as_ref().map(|source| &source.node);
        let bodies = bodies(&self.config, &self.index, node);
        let (end, ended) = watch::channel(false);
        self.is_stopped.store(false, Ordering::Relaxed);
        let flag = Arc::clone(&self.is_stopped);
        let config = self.config.follow.clone();
        let work = move || {
            let is_stopped = || flag.load(Ordering::Relaxed);
            let has_source = source.is_some();
            let worked = take_on(writer, bodies, &config, source, &is_stopped);
            if has_source || worked.is_err() {
                // Nobody listens any more when this fails.
                let _ = end.send(true);
            }
            worked
        };
        let thread = thread::Builder::new().name("follow".to_owned()).spawn(work);
        let failed = |source| EngineError::Thread { does: "follows the source", source };
        (self.thread, self.ended) = (Some(thread.map_err(failed)?), Some(ended));
        Ok(())
    }

    fn stop(&mut self) -> Result<(), EngineError> {
        self.is_stopped.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
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

/// How often the log of the program says how far an index has caught up.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Takes the index to the tip of its log, if it was off, then follows the source, if there is one.
fn take_on(
    mut writer: ChainWriter<RocksKv>,
    mut bodies: BodyFinder,
    config: &FollowConfig,
    source: Option<Followed>,
    is_stopped: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    if let Some(at) = writer.behind() {
        tracing::info!("the index was off: catching up from {at}");
        let mut said: Option<Instant> = None;
        let caught = catch_up::catch_up(
            &mut writer,
            &mut bodies,
            Readers::Present,
            config,
            is_stopped,
            &mut |what| match what {
                CatchingUp::At(height, tip) => {
                    if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
                        said = Some(Instant::now());
                        tracing::info!(%height, %tip, "the index is catching up");
                    }
                }
                CatchingUp::Away(error, wait) => tracing::warn!(
                    error = *error as &dyn std::error::Error,
                    ?wait,
                    "the index cannot catch up yet"
                ),
            },
        )?;
        if caught == CaughtUp::Stopped {
            return Ok(());
        }
        tracing::info!("the index is on: {}", place(writer.tip()));
    }
    drop(bodies);
    let Some(Followed { options, recent, .. }) = source else { return Ok(()) };
    let mut live = LiveFollower::new(writer, Readers::Present);
    follow::follow(&mut live, &options, is_stopped, &mut |what| match what {
        Happened::Arrived(block) => {
            if let Some(recent) = &recent {
                recent.keep(block);
            }
        }
        Happened::Connected(point) => tracing::info!("connected behind {}", place(*point)),
        Happened::AtTip(point) => tracing::info!("at the tip: {}", place(*point)),
        Happened::Away(error, wait) => {
            tracing::warn!(error = *error as &dyn std::error::Error, ?wait, "node is away");
        }
        Happened::NoRoom(error, wait) => tracing::error!(
            error = *error as &dyn std::error::Error,
            ?wait,
            "the chain index takes no writes"
        ),
        Happened::Moved(_) => {}
    })
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
