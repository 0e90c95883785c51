//! A running engine: the parts that the configuration names, opened, started and stopped together.
//!
//! # Invariants
//!
//! * Opening starts nothing; what is opened can be asked at once.
//! * Ledger, persister and node store follow the chain before the pruner starts, which deletes nothing
//!   that they have not seen.
//! * The pruner stops first. An engine that is dropped stops, also on a thread of a caller's runtime.

pub mod chain;
mod error;
mod mempool;
mod persister;
mod place;
mod store_follow;

use std::{path::PathBuf, sync::Arc, time::Duration};

use utxokeep_chains::{BlockFiles, BodyFinder, NodeSource, RecentBlocks, ScanOptions, XorKey};
use utxokeep_core::{Height, Network, OpenMode};
use utxokeep_index::{ChainWriter, FollowReport, import_files};
use utxokeep_kv::RocksKv;
use utxokeep_txstore::NodeStore;

use self::{
    chain::{ChainPart, Index, block_places},
    mempool::MempoolPart,
    persister::PersisterPart,
    store_follow::StoreFollowPart,
};
use crate::{
    config::{Config, ConfigError, PrunerConfig, StoreFollow},
    consumers::{ConsumerThread, FollowerState},
    follow::SourceState,
    ops::{
        Answered, Known, Operation,
        chain::{Chain, ChainLimits},
    },
    pruning::Pruning,
    wallet_follow::WalletFollower,
    wallet_rebroadcast::WalletRebroadcast,
    wallet_upkeep::WalletUpkeep,
    wallets::Wallets,
    watched::{Watched, any_stopped},
    webhooks::WebhookDelivery,
};

pub use self::{error::EngineError, place::known_ledger, store_follow::STORE_FOLLOWER_STALLED};

/// How long the pruner may fail to follow the chain database before health says so.
const PRUNER_STALLED: Duration = Duration::from_secs(60);

/// Whether there has to be a chain database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The engine has none.
    Absent,
    /// One that exists is opened.
    IfThere,
    /// It must exist.
    Existing,
    /// It is made where it does not exist.
    OrNew,
}

/// The parts that an engine is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "each is a part of its own")]
pub struct Parts {
    /// The chain index, and its source.
    pub chain: Presence,
    /// The node store.
    pub node_store: bool,
    /// What puts the blocks of the chain index into the node store; it needs both.
    pub store_follower: bool,
    /// The pruner of the node store.
    pub pruner: bool,
    /// The wallet ledger.
    pub wallets: bool,
    /// The block persister; it needs a chain index.
    pub persister: bool,
    /// What opening them may do; [`OpenMode::Create`] makes store and ledger where they do not exist.
    pub mode: OpenMode,
}

impl Parts {
    /// An engine of nothing, to add parts to.
    pub const NONE: Self = Self {
        chain: Presence::Absent,
        node_store: false,
        store_follower: false,
        pruner: false,
        wallets: false,
        persister: false,
        mode: OpenMode::Create,
    };

    /// Those that a configuration names. The chain database is made where it is missing, if a network
    /// is named.
    #[must_use]
    pub const fn of(config: &Config) -> Self {
        let node_store = !config.txstore.url.is_empty();
        let is_named = config.chain.source.is_some() || !config.chain.network.is_empty();
        Self {
            chain: if is_named { Presence::OrNew } else { Presence::IfThere },
            node_store,
            store_follower: node_store && matches!(config.txstore.follow, StoreFollow::All),
            pruner: node_store && config.pruner.enabled,
            wallets: !config.wallet.url.is_empty(),
            persister: config.persister.enabled,
            mode: OpenMode::Create,
        }
    }

    /// These, changed.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// How a part gets on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Its name in health and logs.
    pub part: &'static str,
    /// What is wrong with it.
    pub fault: Option<String>,
}

/// What runs in an engine.
trait Part {
    /// Starts its threads; one that has none does nothing.
    fn start(&mut self) -> Result<(), EngineError>;
    /// Ends its threads after the work in hand.
    fn stop(&mut self) -> Result<(), EngineError>;
    /// How it gets on.
    fn health(&self) -> Vec<Health>;
}

/// The parts of a state engine, together.
///
/// ```no_run
/// use utxokeep::{config::Config, engine::Engine};
/// use utxokeep::ops::chain::{Address, OwnerUtxos, UtxosRequest};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let mut config = Config::default();
///     config.chain.network = "regtest".to_owned();
///     config.storage.data = "regtest-db".into();
///     config.wallet.url = "sqlite:regtest-ledger".to_owned();
///
///     let mut engine = Engine::open(&config)?;
///     engine.import(&["crates/testkit/data/regtest-a/blocks.dat.xz".into()])?;
///     engine.start()?; // From here on the wallet ledger follows the chain.
///
///     let owner = UtxosRequest::of("bcrt1pfeesnyr2tx");
///     for utxo in engine.ask::<OwnerUtxos<Address>>(owner)?.items {
///         println!("{}:{} {}", utxo.tx_hash, utxo.output_index, utxo.amount);
///     }
///     Ok(engine.stop()?)
/// }
/// ```
#[derive(Debug)]
pub struct Engine {
    config: Config,
    chain: Option<ChainPart>,
    wallets: Option<WalletPart>,
    mempool: Option<MempoolPart>,
    persister: Option<PersisterPart>,
    node_store: Option<StorePart>,
    store_follower: Option<StoreFollowPart>,
    pruner: Option<PrunerPart>,
}

impl Engine {
    /// Opens the parts that a configuration names, and makes those that do not exist yet.
    pub fn open(config: &Config) -> Result<Self, EngineError> {
        Self::open_parts(config, Parts::of(config))
    }

    /// Opens some parts; the others are left alone.
    pub fn open_parts(config: &Config, parts: Parts) -> Result<Self, EngineError> {
        let mode = parts.mode;
        // Before anything is opened or made.
        if parts.persister && parts.pruner && !config.pruner.follow_chain {
            return Err(ConfigError::PrunerPassesPersister.into());
        }
        if parts.store_follower && !config.index.enabled {
            // Opening the database would switch its index off first.
            return Err(EngineError::StoreCannotFollow { why: crate::store_follow::NEEDS_INDEX });
        }
        let wallets = parts.wallets.then(|| place::wallet_ledger(config, mode)).transpose()?;
        let index = match parts.chain {
            Presence::Absent => None,
            Presence::IfThere => chain::open_existing(config, config.network()?, mode)?,
            Presence::Existing => Some(chain::open(config, mode)?),
            Presence::OrNew => Some(chain::open_or_create(config, config.network()?)?),
        };
        if parts.persister && index.is_none() {
            return Err(EngineError::NothingToPersist);
        }
        if parts.store_follower && index.is_none() {
            let why = "there is no chain database: import one, or name a source";
            return Err(EngineError::StoreCannotFollow { why });
        }
        // Blocks that arrive are kept for those that read bodies.
        let has_ledger = wallets.is_some() && config.wallet.follow_chain;
        let reads_bodies = has_ledger || parts.persister || parts.store_follower;
        let chain = index.map(|index| ChainPart::new(index, config, reads_bodies)).transpose()?;
        let persister = match chain.as_ref().filter(|_| parts.persister) {
            Some(chain) => Some(PersisterPart::new(config, chain, mode)?),
            None => None,
        };
        let wallets = wallets.map(|wallets| WalletPart::new(wallets, config, chain.as_ref()));
        let mempool = MempoolPart::new(config, chain.as_ref(), wallets.as_ref());
        let opens_store = parts.node_store || parts.store_follower || parts.pruner;
        let store = opens_store.then(|| place::node_store(config, mode)).transpose()?;
        let node_store = store.map(|store| StorePart { store });
        let followed = chain.as_ref().zip(node_store.as_ref()).filter(|_| parts.store_follower);
        let store_follower = followed
            .map(|(chain, part)| StoreFollowPart::new(config, chain, part.store.clone()))
            .transpose()?;
        let pruner = node_store.as_ref().filter(|_| parts.pruner).map(|part| PrunerPart {
            store: part.store.clone(),
            config: config.pruner.clone(),
            index: chain.as_ref().map(|part| part.index.clone()),
            pruning: None,
        });
        let config = config.clone();
        Ok(Self { config, chain, wallets, mempool, persister, node_store, store_follower, pruner })
    }

    /// In the order in which they start.
    fn parts(&self) -> impl Iterator<Item = &dyn Part> {
        [
            self.chain.as_ref().map(|part| part as &dyn Part),
            self.wallets.as_ref().map(|part| part as &dyn Part),
            self.mempool.as_ref().map(|part| part as &dyn Part),
            self.persister.as_ref().map(|part| part as &dyn Part),
            self.node_store.as_ref().map(|part| part as &dyn Part),
            self.store_follower.as_ref().map(|part| part as &dyn Part),
            self.pruner.as_ref().map(|part| part as &dyn Part),
        ]
        .into_iter()
        .flatten()
    }

    fn parts_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut dyn Part> {
        [
            self.chain.as_mut().map(|part| part as &mut dyn Part),
            self.wallets.as_mut().map(|part| part as &mut dyn Part),
            self.mempool.as_mut().map(|part| part as &mut dyn Part),
            self.persister.as_mut().map(|part| part as &mut dyn Part),
            self.node_store.as_mut().map(|part| part as &mut dyn Part),
            self.store_follower.as_mut().map(|part| part as &mut dyn Part),
            self.pruner.as_mut().map(|part| part as &mut dyn Part),
        ]
        .into_iter()
        .flatten()
    }

    /// Starts what runs beside the caller: following the source, the ledger's follower and its upkeep,
    /// the persister, the node store's follower, the pruner. What was started is stopped again when a part refuses.
    pub fn start(&mut self) -> Result<(), EngineError> {
        let started = self.parts_mut().try_for_each(Part::start);
        if started.is_err() {
            // The first failure is the one to tell.
            let _ = self.stop();
        }
        started
    }

    /// Ends what runs, after the work in hand; answers the first failure. It can be started again.
    pub fn stop(&mut self) -> Result<(), EngineError> {
        self.parts_mut().rev().map(Part::stop).fold(Ok(()), Result::and)
    }

    /// How the parts get on. It reads, and so may block.
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        self.parts().flat_map(Part::health).collect()
    }

    /// Is done when a part cannot go on until the engine is opened again; [`Engine::stop`] says why
    /// where this does not.
    pub async fn broken(&self) -> Option<anyhow::Error> {
        let ended = async {
            match &self.chain {
                Some(chain) => chain.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended => None,
            error = any_stopped(self.watched()) => Some(error),
        }
    }

    /// The databases of the engine, to be watched.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        let chain = self.chain.iter().map(|part| Watched::chain_index(&part.index));
        let store = self.node_store.iter().map(|part| Watched::node_store(part.store.clone()));
        let ledger = self.wallets.iter().map(|part| Watched::wallet_ledger(part.wallets.ledger()));
        chain.chain(store).chain(ledger).collect()
    }

    /// What it was opened with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The chain index, if there is one.
    #[must_use]
    pub fn index(&self) -> Option<&Index> {
        self.chain.as_ref().map(|part| &part.index)
    }

    /// What is known of the source, and for how many seconds it may be silent.
    #[must_use]
    pub fn source(&self) -> Option<(SourceState, u32)> {
        self.chain.as_ref()?.source()
    }

    /// The node store, if there is one.
    #[must_use]
    pub fn node_store(&self) -> Option<&Arc<NodeStore>> {
        self.node_store.as_ref().map(|part| &part.store)
    }

    /// The pruner, while it runs.
    #[must_use]
    pub fn pruning(&self) -> Option<&Pruning> {
        self.pruner.as_ref()?.pruning.as_ref()
    }

    /// How the persister gets on, while it runs.
    #[must_use]
    pub fn persisting(&self) -> Option<&FollowerState> {
        self.persister.as_ref().map(|part| &part.state).filter(|state| state.runs())
    }

    /// How the node store gets on that follows the chain, while it does.
    #[must_use]
    pub fn store_following(&self) -> Option<&FollowerState> {
        self.store_follower.as_ref().map(|part| &part.state).filter(|state| state.runs())
    }

    /// How reading the mempool gets on, while it is read.
    #[must_use]
    pub fn reading_mempool(&self) -> Option<&FollowerState> {
        self.mempool.as_ref().map(|part| &part.state).filter(|state| state.runs())
    }

    /// The wallet ledger, if there is one.
    #[must_use]
    pub fn wallets(&self) -> Option<&Wallets> {
        self.wallets.as_ref().map(|part| &part.wallets)
    }

    /// Whether the wallet ledger follows the chain at present.
    #[must_use]
    pub fn ledger_follows(&self) -> bool {
        self.wallets.as_ref().is_some_and(|part| part.following.is_some())
    }

    /// Imports files of blocks into the chain index, before the engine is started.
    pub fn import(&self, files: &[PathBuf]) -> Result<FollowReport, EngineError> {
        let index = self.index().ok_or(EngineError::Absent { part: "chain index" })?;
        let network = index.settings().network();
        let files =
            BlockFiles::open(files, network, &self.config.storage.data, ScanOptions::default())?;
        let writer = ChainWriter::new(index.clone())?;
        let bulk = self.config.storage.bulk;
        let (_, report) = import_files(writer, &files, bulk, &mut |_| true)?;
        Ok(report)
    }

    /// Asks the chain index.
    pub fn ask<O: Operation<Part = Chain>>(
        &self,
        request: O::Request,
    ) -> Result<O::Answer, EngineError> {
        let index = self.index().ok_or(EngineError::Absent { part: "chain index" })?;
        let chain = Chain::new(index.clone(), ChainLimits::ALONE);
        let chain = chain.with_source(self.source().map(|(source, _)| source));
        match O::run(&chain, request, Known::NOTHING)? {
            Answered::New(answer, _) => Ok(answer),
            Answered::Same(_) => unreachable!("the caller said that it knows nothing"),
        }
    }

    /// What follows the chain for the ledger, for a caller who steps through it. Bodies of blocks are
    /// in `paths`, or else where the configuration says.
    pub fn wallet_follower(
        &self,
        paths: &[PathBuf],
        xor_key: Option<XorKey>,
    ) -> Result<WalletFollower<RocksKv>, EngineError> {
        let index = self.index().ok_or(EngineError::Absent { part: "chain index" })?;
        let wallets = self.wallets().ok_or(EngineError::Absent { part: "wallet ledger" })?;
        let bodies = bodies(&self.config, index, paths, xor_key);
        let node = self.config.chain.source.as_ref();
        let node = node.map(|source| chain::node(&self.config, index, source)).transpose()?;
        let bodies = node.into_iter().fold(bodies, BodyFinder::with_node);
        Ok(follower(&self.config, wallets, index, bodies))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the engine did not stop well"
            );
        }
    }
}

fn bodies(
    config: &Config,
    index: &Index,
    paths: &[PathBuf],
    xor_key: Option<XorKey>,
) -> BodyFinder {
    let configured = block_places(&config.wallet);
    let paths = if paths.is_empty() { &configured } else { paths };
    BodyFinder::new(index.settings().decoder.clone()).with_files(
        paths,
        xor_key,
        &config.storage.data,
    )
}

fn follower(
    config: &Config,
    wallets: &Wallets,
    index: &Index,
    bodies: BodyFinder,
) -> WalletFollower<RocksKv> {
    let from = Height::new(config.wallet.follow_from_height);
    WalletFollower::new(wallets.ledger().clone(), index.clone(), bodies, from)
}

/// The node store. It answers; nothing of it runs.
#[derive(Debug)]
struct StorePart {
    store: Arc<NodeStore>,
}

impl Part for StorePart {
    fn start(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn stop(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn health(&self) -> Vec<Health> {
        use utxokeep_txstore::TxStore as _;
        let fault = self.store.trouble().map(|trouble| trouble.reason);
        vec![Health { part: "node_store", fault }]
    }
}

/// The pruner of the node store; it follows the chain database if it is told to.
#[derive(Debug)]
struct PrunerPart {
    store: Arc<NodeStore>,
    config: PrunerConfig,
    index: Option<Index>,
    pruning: Option<Pruning>,
}

impl Part for PrunerPart {
    fn start(&mut self) -> Result<(), EngineError> {
        let store = self.store.clone();
        self.pruning = Some(if self.config.follow_chain {
            let index = self.index.as_ref().ok_or(EngineError::NothingToFollow)?;
            Pruning::start_following(store, &self.config, index)?
        } else if self.config.events_address().is_some() {
            Pruning::start_listening(store, &self.config)?
        } else {
            Pruning::start(store, &self.config)?
        });
        Ok(())
    }

    fn stop(&mut self) -> Result<(), EngineError> {
        if let Some(pruning) = self.pruning.take() {
            pruning.stop();
        }
        Ok(())
    }

    fn health(&self) -> Vec<Health> {
        let follower = self.pruning.as_ref().map(Pruning::follower);
        let runs = follower.filter(|follower| follower.runs());
        let health = |fault| Health { part: "pruner_follower", fault };
        runs.map(|follower| health(follower.fault(PRUNER_STALLED))).into_iter().collect()
    }
}

/// The wallet ledger, its follower and its upkeep.
#[derive(Debug)]
struct WalletPart {
    wallets: Wallets,
    config: Config,
    /// The chain to follow.
    chain: Option<Index>,
    /// The node that is followed, and what has just arrived from it.
    live: Option<(NodeSource, RecentBlocks)>,
    /// Of the chain whose node takes transactions.
    network: Option<Network>,
    following: Option<ConsumerThread>,
    upkeep: Option<WalletUpkeep>,
    rebroadcast: Option<WalletRebroadcast>,
    webhooks: Option<WebhookDelivery>,
}

impl WalletPart {
    fn new(wallets: Wallets, config: &Config, chain: Option<&ChainPart>) -> Self {
        let wallets = chain.iter().fold(wallets, |all, part| all.with_chain(part.index.clone()));
        Self {
            wallets,
            config: config.clone(),
            chain: chain.filter(|_| config.wallet.follow_chain).map(|part| part.index.clone()),
            live: chain.and_then(ChainPart::live),
            network: chain.map(|part| part.index.settings().network()),
            following: None,
            upkeep: None,
            rebroadcast: None,
            webhooks: None,
        }
    }
}

impl Part for WalletPart {
    fn start(&mut self) -> Result<(), EngineError> {
        if let Some(index) = &self.chain {
            let mut bodies = bodies(&self.config, index, &[], None);
            if let Some((node, recent)) = self.live.clone() {
                bodies = bodies.with_recent(recent).with_node(node);
            }
            let follower = follower(&self.config, &self.wallets, index, bodies);
            let poll = Duration::from_millis(self.config.wallet.follow_poll_ms.get().into());
            let thread = follower.in_background(poll, self.wallets.follower().clone());
            let failed = |source| EngineError::Thread { does: "follows the chain", source };
            self.following = Some(thread.map_err(failed)?);
        }
        let failed = |source| EngineError::Thread { does: "looks after the wallet ledger", source };
        self.upkeep = WalletUpkeep::start(&self.wallets).map_err(failed)?;
        let failed = |source| EngineError::Thread { does: "sends payments again", source };
        self.rebroadcast = WalletRebroadcast::start(&self.wallets, self.network).map_err(failed)?;
        let failed = |source| EngineError::Thread { does: "delivers to webhooks", source };
        self.webhooks = WebhookDelivery::start(&self.wallets).map_err(failed)?;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), EngineError> {
        (self.following, self.upkeep, self.webhooks) = (None, None, None);
        self.rebroadcast = None;
        Ok(())
    }

    fn health(&self) -> Vec<Health> {
        let fault = self.wallets.check().err().map(|error| error.to_string());
        let mut health = vec![Health { part: "wallet_ledger", fault }];
        if self.following.is_some() {
            health.push(Health { part: "wallet_follower", fault: self.wallets.follower_fault() });
        }
        health
    }
}

#[cfg(test)]
mod tests;
