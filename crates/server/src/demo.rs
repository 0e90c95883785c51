//! A simulated chain to look at: mined into a database, served over REST, summed up on a terminal.
//!
//! # Invariants
//!
//! * One thread writes; the server and the summary only read.
//! * Every block is committed before the next is mined, so stopping and starting again goes on at
//!   the stored tip.
//! * Only a chain that the simulator made is continued, never one that was imported.

mod miner;
mod summary;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use tokio::{
    sync::watch,
    time::{self, Instant},
};
use utxokeep_chains::Simulator;
use utxokeep_index::{ChainIndex, IndexError, IndexOpenError, peek_identity};
use utxokeep_kv::{Kv as _, KvError, OpenMode, RocksKv};

use self::{
    miner::{Miner, Pace, Progress},
    summary::Summary,
};
use crate::{
    config::Config,
    doors::descriptors,
    server::{STOP_WAIT, Server, Signals, runtime},
    watched::{Watched, any_stopped},
};

/// What to show.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// Directory of the database; made when absent.
    pub data: PathBuf,
    /// Address of the REST server. `None` takes the one of the configuration; when a number of
    /// blocks is given, `None` starts no server.
    pub listen: Option<SocketAddr>,
    /// Start of the simulator's random sequence.
    pub seed: u64,
    /// Speed of the chain, once it has a few blocks.
    pub blocks_per_second: f64,
    /// Mine this many blocks at full speed and end.
    pub blocks: Option<u64>,
}

/// Mines until told to stop, or until the blocks asked for are mined.
pub fn run(options: DemoOptions, config: &Config) -> anyhow::Result<()> {
    let DemoOptions { data, listen, seed, blocks_per_second, blocks } = options;
    let pace = Pace::new(blocks, blocks_per_second)?;
    let index = open(&data, config)?;
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    descriptors::prepare(config, 1)?;
    let listen = listen.or(blocks.is_none().then_some(config.rest.listen));
    let started =
        listen.map(|listen| Server::start(&runtime, listen, &index, &data, config)).transpose()?;
    let (server, token_file) = started.unzip();

    let miner = Miner::new(&index, seed)?;
    let mut summary = Summary::new(data, seed, server.as_ref().map(|server| server.address));
    summary.open(token_file.flatten().as_deref());
    let mining = miner.start(pace)?;
    let (first, progress) = (mining.progress.borrow().clone(), mining.progress.clone());
    let watched = Watched::chain_index(&index);
    let broken = runtime.block_on(async {
        tokio::select! {
            () = show(&mut signals, progress, &index, &mut summary) => None,
            error = any_stopped(vec![watched]) => Some(error),
        }
    });
    let result = mining.stop();
    summary.close();
    let stopped = server.map_or(Ok(()), |server| server.stop(&runtime));
    runtime.shutdown_timeout(STOP_WAIT);
    let last = result?;
    stopped?;
    if let Some(error) = broken {
        return Err(error);
    }
    if let Some(trouble) = index.engine().trouble() {
        bail!("the chain may not be on disk: {}", trouble.reason);
    }
    summary::farewell(&first, &last);
    Ok(())
}

/// Opens the database, or makes a new one.
fn open(data: &Path, config: &Config) -> anyhow::Result<ChainIndex<RocksKv>> {
    let opening = || format!("cannot open the database at {}", data.display());
    let network = Simulator::NETWORK;
    let identity = match peek_identity(data) {
        Ok(identity) => Some(identity),
        Err(IndexOpenError::Store(IndexError::Kv(KvError::NotFound { .. }))) => None,
        Err(error) => return Err(error).with_context(opening),
    };
    let settings = config.settings(network, identity.as_ref())?;
    if !settings.enabled || !settings.address_index {
        bail!(
            "the demo needs the UTXO set and its address index: turn [index] enabled and \
             address_hash on, and use a new data directory if this one was made without them"
        );
    }
    // Before the engine makes its files.
    settings.check_mmr().with_context(opening)?;
    ChainIndex::open_dir(data, settings, config.rocks_options(), OpenMode::Create)
        .with_context(opening)
}

/// Shows how the chain grows until a signal comes or mining ends.
async fn show(
    signals: &mut Signals,
    mut progress: watch::Receiver<Progress>,
    index: &ChainIndex<RocksKv>,
    summary: &mut Summary,
) {
    let latest = progress.clone();
    let mining_ends = async { while progress.changed().await.is_ok() {} };
    tokio::pin!(mining_ends);
    let mut ticks = time::interval_at(Instant::now() + summary.delay(), summary.period());
    loop {
        tokio::select! {
            () = signals.any() => return,
            () = &mut mining_ends => return,
            _ = ticks.tick() => {
                let now = latest.borrow().clone();
                summary.show(&now, index);
            }
        }
    }
}
