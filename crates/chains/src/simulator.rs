//! A seeded generator of whole regtest chains: real serialised blocks, forks included.
//!
//! Everything but signatures is as on a real chain: values, fees, subsidies, maturity, merkle
//! roots, witness commitments and proof of work. One path of the program therefore serves both.
//!
//! # Invariants
//!
//! * The chain is a function of the configuration (and of the state it is resumed on) alone.
//! * Each block is valid on top of its parent, on every branch.
//! * Memory is bounded: coins by `coins_max`, blocks by a window of heights.

mod assemble;
mod coins;
mod config;
mod rng;
mod scripts;
mod tx;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use utxokeep_core::{BlockHash, Header, Height, Network, OutPoint};

use self::{
    assemble::{Plan, assemble},
    coins::{Coins, Step},
    rng::Rng,
    scripts::Scripts,
    tx::{Maker, Payment, SimTx},
};
use crate::{
    BlockSource, SourceError,
    bitcoin::{decode_header, genesis_block},
};

pub use coins::SimCoin;
pub use config::{HeavyBlocks, SimulatorConfig, TxMix};

/// Heights whose blocks are kept besides those that forks need.
const KEPT_HEIGHTS_MIN: u32 = 16;

/// How many of a hundred branches overtake the chain they left.
const OVERTAKE_PERCENT: u32 = 65;

/// The block a simulated chain goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimTip {
    /// Blocks below it; the next block has one more.
    pub height: Height,
    /// The next block names it as its parent.
    pub hash: BlockHash,
    /// Its time in seconds since the epoch.
    pub time: u64,
}

/// A block that may still be replaced.
#[derive(Debug)]
struct Mined {
    parent: SimTip,
    tip: SimTip,
    steps: Vec<Step>,
    txs: Vec<SimTx>,
}

/// A branch while it grows.
#[derive(Debug)]
struct Fork {
    /// Blocks of the chain the branch left, lowest first.
    replaced: Vec<Mined>,
    mined: usize,
    left: u32,
    overtakes: bool,
}

/// Generates blocks. See the module documentation.
#[derive(Debug)]
pub struct Simulator {
    config: SimulatorConfig,
    scripts: Scripts,
    rng: Rng,
    coins: Coins,
    /// The block the next one is mined on.
    head: SimTip,
    /// The tip of a node that has seen every block so far.
    tip: SimTip,
    genesis_due: bool,
    mined: u64,
    recent: VecDeque<Mined>,
    fork: Option<Fork>,
    /// Transactions of replaced blocks that may be mined again.
    pending: Vec<SimTx>,
    raws: FxHashMap<BlockHash, Vec<u8>>,
    arrivals: VecDeque<(Height, BlockHash)>,
}

impl Simulator {
    /// The network all simulated chains belong to.
    pub const NETWORK: Network = Network::BitcoinRegtest;

    /// A chain from its first block on, which is the first to arrive.
    #[must_use]
    pub fn new(config: SimulatorConfig) -> Self {
        let genesis = decode_header(&genesis_block(Self::NETWORK))
            .expect("the first block is a constant that a test decodes");
        let tip = SimTip { height: Height::GENESIS, hash: genesis.hash, time: genesis.time };
        let seed = config.seed;
        Self::at(config, tip, seed, true)
    }

    /// Goes on on top of `tip` with the `coins` that are unspent there. Blocks up to `tip` are
    /// settled: forks happen among later ones only.
    #[must_use]
    pub fn resume(config: SimulatorConfig, tip: SimTip, mut coins: Vec<SimCoin>) -> Self {
        // Another start of the sequence, so that new blocks do not repeat the old ones' choices.
        let salt = tip.hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let seed = config.seed ^ salt;
        let mut simulator = Self::at(config, tip, seed, false);
        coins.sort_by_key(|coin| (coin.height, coin.outpoint));
        coins.dedup_by_key(|coin| coin.outpoint);
        for coin in coins {
            if coin.is_coinbase {
                simulator.coins.add_waiting(coin);
            } else {
                simulator.coins.add(coin);
            }
        }
        let max = simulator.config.coins_max as usize;
        simulator.coins.limit(max, &mut simulator.rng);
        simulator
    }

    fn at(config: SimulatorConfig, tip: SimTip, seed: u64, genesis_due: bool) -> Self {
        Self {
            scripts: Scripts::new(&config),
            rng: Rng::new(seed),
            coins: Coins::default(),
            head: tip,
            tip,
            genesis_due,
            mined: 0,
            recent: VecDeque::new(),
            fork: None,
            pending: Vec::new(),
            raws: FxHashMap::default(),
            arrivals: VecDeque::new(),
            config,
        }
    }

    /// All scripts that outputs of such a chain pay to, unspendable ones excepted.
    #[must_use]
    pub fn scripts(config: &SimulatorConfig) -> Vec<Vec<u8>> {
        Scripts::new(config).into_inner()
    }

    /// Height of the best chain: the first of the longest.
    #[must_use]
    pub fn tip_height(&self) -> Height {
        self.tip.height
    }

    /// Tip of the best chain.
    #[must_use]
    pub fn tip(&self) -> SimTip {
        self.tip
    }

    /// Mines the next block, on the best chain or on a branch.
    pub fn mine_next(&mut self) -> (Header, Vec<u8>) {
        if std::mem::take(&mut self.genesis_due) {
            let raw = genesis_block(Self::NETWORK);
            let header = decode_header(&raw).expect("the first block is a valid constant");
            return (header, raw);
        }
        self.end_fork();
        self.maybe_fork();
        self.mine()
    }

    /// Leaves a branch that is complete: for good when it lost, with everything else when it won.
    fn end_fork(&mut self) {
        let Some(fork) = self.fork.take_if(|fork| fork.left == 0) else { return };
        self.pending.clear();
        if fork.overtakes {
            return;
        }
        for _ in 0..fork.mined {
            self.take_back();
        }
        for block in fork.replaced {
            self.coins.redo(&block.steps);
            self.head = block.tip;
            self.recent.push_back(block);
        }
    }

    fn maybe_fork(&mut self) {
        if self.fork.is_some() || !self.config.has_forks() {
            return;
        }
        if !self.rng.percent(self.config.reorg_percent) || self.recent.is_empty() {
            return;
        }
        // The smaller of two draws: deep branches are rarer, as on real chains.
        let depth = 1 + self.rng.place(self.recent.len()).min(self.rng.place(self.recent.len()));
        let overtakes = self.rng.percent(OVERTAKE_PERCENT);
        let length = if overtakes { depth + 1 } else { 1 + self.rng.place(depth) };
        let mut replaced: Vec<Mined> = (0..depth).filter_map(|_| self.take_back()).collect();
        replaced.reverse();
        self.pending = replaced.iter().flat_map(|block| block.txs.iter().cloned()).collect();
        let left = u32::try_from(length).unwrap_or(1);
        self.fork = Some(Fork { replaced, mined: 0, left, overtakes });
    }

    /// Undoes the newest block.
    fn take_back(&mut self) -> Option<Mined> {
        let block = self.recent.pop_back()?;
        self.coins.undo(&block.steps);
        self.head = block.parent;
        Some(block)
    }

    fn mine(&mut self) -> (Header, Vec<u8>) {
        let parent = self.head;
        let height = parent.height.plus(1);
        if self.config.has_forks() {
            self.coins.start_journal();
        }
        self.coins.mature(height, Self::NETWORK.coinbase_maturity());
        let txs = self.make_txs(height);
        let fees: u64 = txs.iter().map(|tx| tx.fee).sum();
        let time = parent.time.saturating_add(u64::from(self.config.block_secs));
        let plan = Plan {
            prev: parent.hash,
            time: u32::try_from(time).unwrap_or(u32::MAX),
            height,
            extra_nonce: self.mined,
            rewards: self.rewards(Self::NETWORK.subsidy(height) + fees),
        };
        let block = assemble(plan, &txs);
        for (index, value) in block.coinbase_outputs {
            let outpoint = OutPoint::new(block.coinbase_txid, index);
            self.coins.add_waiting(SimCoin { outpoint, value, height, is_coinbase: true });
        }
        self.coins.limit(self.config.coins_max as usize, &mut self.rng);
        self.mined += 1;
        let tip = SimTip { height, hash: block.header.hash, time: block.header.time };
        let steps = self.coins.finish_journal();
        self.advance(Mined { parent, tip, steps, txs });
        (block.header, block.raw)
    }

    fn make_txs(&mut self, height: Height) -> Vec<SimTx> {
        let (count, mix) = self.config.shape(height.get(), self.coins.len());
        let count = self.rng.between(&count) as usize;
        let mut txs = Vec::with_capacity(count);
        for tx in std::mem::take(&mut self.pending) {
            let wanted = txs.len() < count && self.rng.percent(self.config.remine_percent);
            if wanted && tx.apply_again(&mut self.coins, height) {
                txs.push(tx);
            } else {
                self.pending.push(tx);
            }
        }
        let mut maker = Maker {
            config: &self.config,
            scripts: &self.scripts,
            mix: &mix,
            rng: &mut self.rng,
            coins: &mut self.coins,
            height,
        };
        while txs.len() < count {
            let Some(tx) = maker.make() else { break };
            txs.push(tx);
        }
        txs
    }

    /// Splits the reward of a block over one to three outputs.
    fn rewards(&mut self, reward: u64) -> Vec<Payment> {
        let first = if self.rng.percent(60) { reward } else { self.rng.below(reward + 1) };
        let second = if self.rng.percent(70) { reward - first } else { (reward - first) / 2 };
        let third = reward - first - second;
        let mut rewards = vec![(first, self.scripts.pick(&mut self.rng).to_vec())];
        for value in [second, third] {
            if value > 0 {
                rewards.push((value, self.scripts.pick(&mut self.rng).to_vec()));
            }
        }
        rewards
    }

    /// Moves the tips to a new block.
    fn advance(&mut self, block: Mined) {
        self.head = block.tip;
        if self.head.height > self.tip.height {
            self.tip = self.head;
        }
        if let Some(fork) = &mut self.fork {
            fork.mined += 1;
            fork.left -= 1;
        }
        if !self.config.has_forks() {
            return;
        }
        self.recent.push_back(block);
        if self.fork.is_none() {
            while self.recent.len() > self.config.reorg_depth_max as usize {
                self.recent.pop_front();
            }
        }
    }

    /// Keeps a block for [`BlockSource::raw`], and forgets those far below the tip.
    fn keep(&mut self, hash: BlockHash, raw: Vec<u8>) {
        self.raws.insert(hash, raw);
        self.arrivals.push_back((self.head.height, hash));
        let window = KEPT_HEIGHTS_MIN.saturating_add(self.config.reorg_depth_max.saturating_mul(4));
        while let Some((height, hash)) = self.arrivals.front().copied() {
            if height.plus(window) >= self.tip.height {
                break;
            }
            self.raws.remove(&hash);
            self.arrivals.pop_front();
        }
    }
}

impl BlockSource for Simulator {
    fn next(&mut self) -> Result<Option<Header>, SourceError> {
        let (header, raw) = self.mine_next();
        self.keep(header.hash, raw);
        Ok(Some(header))
    }

    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let unknown = || SourceError::UnknownBlock { hash: Self::NETWORK.hash(*hash) };
        self.raws.get(hash).cloned().ok_or_else(unknown)
    }
}
