//! The thread that mines and writes.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tokio::sync::watch;
use utxokeep_chains::{BlockSource, SimCoin, SimTip, Simulator, SimulatorConfig, script_type};
use utxokeep_core::{BlockHash, Height, IndexKey, Totals};
use utxokeep_index::{ChainIndex, ChainWriter, Follower, Paging};
use utxokeep_kv::RocksKv;

/// Below this height blocks come at full speed: only then are there coins old enough to move.
const WARM_UP_HEIGHT: Height = Height::new(150);

/// Coins read from the index at a time.
const COIN_PAGE_ROWS: usize = 1_000;

/// The most blocks that may be asked for in a second.
const BLOCKS_PER_SECOND_MAX: f64 = 1_000_000.0;

/// How fast to mine, and how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// Time between blocks; none for full speed.
    between: Duration,
    blocks: Option<u64>,
}

impl Pace {
    pub(super) fn new(blocks: Option<u64>, blocks_per_second: f64) -> anyhow::Result<Self> {
        if !(blocks_per_second > 0.0 && blocks_per_second <= BLOCKS_PER_SECOND_MAX) {
            bail!("blocks per second must be more than 0 and at most {BLOCKS_PER_SECOND_MAX}");
        }
        let between = Duration::try_from_secs_f64(1.0 / blocks_per_second)
            .context("blocks per second is too small")?;
        Ok(Self { between: if blocks.is_some() { Duration::ZERO } else { between }, blocks })
    }
}

/// How the chain stands.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    pub(super) height: Height,
    pub(super) hash: BlockHash,
    pub(super) floor: Height,
    pub(super) totals: Totals,
    /// Blocks that arrived since the start, those of losing branches included.
    pub(super) mined: u64,
    pub(super) reorganisations: u64,
    /// Blocks undone by the deepest reorganisation since the start.
    pub(super) deepest: u32,
    /// What the last block took, its reorganisation included.
    pub(super) last_apply: Duration,
}

/// A chain that is ready to grow.
#[derive(Debug)]
pub(super) struct Miner {
    simulator: Simulator,
    follower: Follower<RocksKv>,
    mined: u64,
    last_apply: Duration,
}

/// A chain that grows.
#[derive(Debug)]
pub(super) struct Mining {
    pub(super) progress: watch::Receiver<Progress>,
    stop: Sender<()>,
    thread: JoinHandle<anyhow::Result<Progress>>,
}

impl Miner {
    /// Takes up the chain where the database has it.
    pub(super) fn new(index: &ChainIndex<RocksKv>, seed: u64) -> anyhow::Result<Self> {
        let config = SimulatorConfig { seed, ..SimulatorConfig::default() };
        let follower = Follower::new(ChainWriter::new(index.clone())?)?;
        let simulator = resume(index, config)?;
        Ok(Self { simulator, follower, mined: 0, last_apply: Duration::ZERO })
    }

    /// Grows the chain on a thread of its own.
    pub(super) fn start(self, pace: Pace) -> anyhow::Result<Mining> {
        let (stop, stopped) = channel();
        let (sender, progress) = watch::channel(self.progress()?);
        let thread = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || self.run(pace, &stopped, &sender))
            .context("cannot start the writer")?;
        Ok(Mining { progress, stop, thread })
    }

    fn run(
        mut self,
        pace: Pace,
        stopped: &Receiver<()>,
        progress: &watch::Sender<Progress>,
    ) -> anyhow::Result<Progress> {
        let mut next = Instant::now();
        while pace.blocks.is_none_or(|blocks| self.mined < blocks) {
            if self.simulator.tip_height() < WARM_UP_HEIGHT {
                next = Instant::now();
            }
            let wait = next.saturating_duration_since(Instant::now());
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.mine()?;
            // A machine too slow for the pace must not save up blocks for later.
            next = next.max(Instant::now().checked_sub(pace.between).unwrap_or(next));
            next += pace.between;
            progress.send_replace(self.progress()?);
        }
        let last = self.progress()?;
        self.follower.into_writer()?;
        Ok(last)
    }

    /// Mines one block, follows the best branch and prunes what has become old.
    fn mine(&mut self) -> anyhow::Result<()> {
        let Some(header) = self.simulator.next()? else { return Ok(()) };
        let started = Instant::now();
        self.follower.accept(&header, &self.simulator)?;
        self.last_apply = started.elapsed();
        self.mined += 1;
        if let Some(refused) = self.follower.report().refused.first() {
            let (hash, height) = (refused.hash, refused.height);
            bail!("simulated block {hash} at height {height} was refused: {}", refused.reason);
        }
        self.follower.writer_mut().prune_pass()?;
        Ok(())
    }

    fn progress(&self) -> anyhow::Result<Progress> {
        let (writer, report) = (self.follower.writer(), self.follower.report());
        let tip = writer.tip().zip(writer.tip_entry());
        let (tip, entry) = tip.context("the chain has lost its first block")?;
        Ok(Progress {
            height: tip.height,
            hash: tip.hash,
            floor: writer.floor(),
            totals: entry.totals,
            mined: self.mined,
            reorganisations: report.reorganisations,
            deepest: report.deepest_reorganisation,
            last_apply: self.last_apply,
        })
    }
}

impl Mining {
    /// Lets the block in flight end, and answers how the chain stands.
    pub(super) fn stop(self) -> anyhow::Result<Progress> {
        // An error means that the thread ended before; then its own result says why.
        let _ = self.stop.send(());
        match self.thread.join() {
            Ok(result) => result,
            Err(_) => bail!("the writer broke down; what it committed is safe"),
        }
    }
}

/// The simulator, on top of the stored tip and with the coins that are unspent there.
fn resume(index: &ChainIndex<RocksKv>, config: SimulatorConfig) -> anyhow::Result<Simulator> {
    let view = index.view()?;
    let (height, entry) = view.here()?;
    let coins_max = config.coins_max as usize;
    let mut coins = Vec::new();
    let mut is_ours = height == Height::GENESIS;
    for script in Simulator::scripts(&config) {
        // Scripts without an owner are in use on every chain and prove nothing.
        let is_owned = !matches!(script_type(&script), "nonstandard" | "p2a");
        let mut paging = Paging {
            after: None,
            skip: 0,
            limit: COIN_PAGE_ROWS,
            reverse: false,
            scan_rows_max: u64::MAX,
        };
        let owner = IndexKey::address(Simulator::NETWORK, &script);
        while coins.len() < coins_max {
            let page = view.owner_utxos(owner, paging, None)?;
            is_ours |= is_owned && !page.utxos.is_empty();
            coins.extend(page.utxos.iter().map(|utxo| SimCoin {
                outpoint: utxo.outpoint,
                value: utxo.value,
                height: utxo.created.height,
                is_coinbase: utxo.is_coinbase,
            }));
            paging.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
    }
    if !is_ours {
        bail!(
            "the database holds a chain that the demo did not make with seed {}; choose another \
             directory with --data, or the seed it was made with",
            config.seed
        );
    }
    coins.truncate(coins_max);
    let tip = SimTip { height, hash: entry.hash, time: entry.time };
    Ok(Simulator::resume(config, tip, coins))
}

#[cfg(test)]
mod tests {
    use utxokeep_index::IndexSettings;
    use utxokeep_kv::{OpenMode, RocksOptions};

    use super::*;

    fn index(dir: &std::path::Path) -> ChainIndex<RocksKv> {
        let settings = IndexSettings::new(Simulator::NETWORK);
        ChainIndex::open_dir(dir, settings, RocksOptions::within(32 << 20), OpenMode::Create)
            .unwrap()
    }

    #[test]
    fn a_chain_goes_on_at_the_stored_tip_and_never_repeats_itself() {
        let dir = tempfile::tempdir().unwrap();
        let mut heights = Vec::new();
        let mut hashes = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let miner = Miner::new(&index(dir.path()), 1).unwrap();
            let before = miner.progress().unwrap();
            heights.push(before.height);
            assert_eq!(miner.simulator.tip().hash, before.hash);
            let last = miner.start(Pace::new(Some(120), 1.0).unwrap()).unwrap();
            let last = last.thread.join().unwrap().unwrap();
            assert_eq!(last.mined, 120);
            assert!(last.height > before.height.plus(80));
            assert!(hashes.insert(last.hash));
        }
        assert_eq!(heights[0], Height::GENESIS);
    }

    #[test]
    fn a_chain_of_another_seed_is_not_continued() {
        let dir = tempfile::tempdir().unwrap();
        let pace = Pace::new(Some(120), 1.0).unwrap();
        let mining = Miner::new(&index(dir.path()), 1).unwrap().start(pace).unwrap();
        mining.thread.join().unwrap().unwrap();
        let error = Miner::new(&index(dir.path()), 2).unwrap_err().to_string();
        assert!(error.contains("did not make with seed 2"), "{error}");
        assert!(error.contains("--data"), "{error}");
    }

    #[test]
    fn speeds_that_make_no_sense_are_refused() {
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-30] {
            assert!(Pace::new(None, speed).is_err(), "{speed}");
        }
        assert_eq!(Pace::new(None, 2.0).unwrap().between, Duration::from_millis(500));
    }
}
