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

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::{
    sync::watch,
    time::{self, Instant},
};
use utxokeep::engine::{Engine, Parts, Presence, chain::Index};
use utxokeep_chains::Simulator;
use utxokeep_index::ChainIndex;
use utxokeep_kv::{Kv as _, RocksKv};

use self::{
    miner::{Miner, Pace, Progress},
    summary::Summary,
};
use crate::{
    config::Config,
    server::{self, STOP_WAIT, Servers, Signals, runtime},
};

/// What the demo cannot do without.
const NEEDS: &str = "the demo needs the UTXO set and its address index: turn [index] enabled and \
                     address_hash on, and use a new data directory if this one was made without \
                     them";

/// What an index needs that was off.
const IS_BEHIND: &str = "the index of this database was switched off, and has to catch up with its \
                         log first, with the blocks that it missed; use a new data directory";

/// What to show.
#[derive(Debug, Clone)]
pub struct DemoOptions {
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
pub fn run(options: &DemoOptions, config: &Config) -> anyhow::Result<()> {
    let DemoOptions { listen, seed, blocks_per_second, blocks } = *options;
    let pace = Pace::new(blocks, blocks_per_second)?;
    let engine = open(config)?;
    let index = engine.index().context("the demo has no chain index")?;
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let listen = listen.or(blocks.is_none().then_some(config.rest.listen));
    let servers =
        listen.map(|listen| Servers::start(&runtime, &engine, listen, None)).transpose()?;

    let miner = Miner::new(index, seed)?;
    let address = servers.as_ref().map(|servers| servers.rest.address);
    let mut summary = Summary::new(config.storage.data.clone(), seed, address);
    summary.open(servers.as_ref().and_then(|servers| servers.token_file.as_deref()));
    let mining = miner.start(pace)?;
    let (first, progress) = (mining.progress.borrow().clone(), mining.progress.clone());
    let broken = runtime.block_on(async {
        tokio::select! {
            () = show(&mut signals, progress, index, &mut summary) => None,
            broken = engine.broken() => broken,
        }
    });
    let result = mining.stop();
    summary.close();
    let stopped = servers.map_or(Ok(()), |servers| server::wait(servers.ask_to_stop(), &runtime));
    runtime.shutdown_timeout(STOP_WAIT);
    let last = result?;
    stopped?;
    broken.map_or(Ok(()), Err)?;
    if let Some(trouble) = index.engine().trouble() {
        bail!("the chain may not be on disk: {}", trouble.reason);
    }
    summary::farewell(&first, &last);
    Ok(())
}

/// Opens the chain index of the demo, or makes a new one.
fn open(config: &Config) -> anyhow::Result<Engine> {
    let mut config = config.clone();
    config.chain.source = None;
    (config.chain.chain, config.chain.network) = ("bitcoin".to_owned(), "regtest".to_owned());
    debug_assert_eq!(config.network()?, Some(Simulator::NETWORK));
    if !config.index.enabled || !config.index.keeps_addresses() {
        bail!(NEEDS);
    }
    let engine =
        Engine::open_parts(&config, Parts::NONE.with(|parts| parts.chain = Presence::OrNew))?;
    let is_kept = |index: &Index| index.settings().enabled && index.settings().address_index;
    if !engine.index().is_some_and(is_kept) {
        bail!(NEEDS);
    }
    if let Some(index) = engine.index()
        && !index.view()?.set_standing().is_at_tip()
    {
        bail!(IS_BEHIND);
    }
    Ok(engine)
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
