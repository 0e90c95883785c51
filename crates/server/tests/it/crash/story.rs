//! A simulated chain in a file, and what is true after each of its blocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use utxokeep_chains::{
    BlockFiles, BlockList, BlockSource as _, HeavyBlocks, ScanOptions, Simulator, SimulatorConfig,
    TxMix, write_block_file,
};
use utxokeep_core::{BlockHash, Height, Totals};
use utxokeep_index::{ChainIndex, ChainWriter, Follower, IndexSettings, tables::TABLES};
use utxokeep_kv::{Kv, MemoryKv};

/// The most blocks a branch of these chains replaces.
const REORG_DEPTH_MAX: u32 = 6;
/// Blocks on top of each other at the end.
const TIP_HEIGHT: u32 = 150;

/// A directory that goes with the value: in memory where the system has a place for that, because
/// what a dead process has written stays there as well, and hundreds of processes wait for no disk.
pub(crate) fn temp_dir() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// Where a database stands, and the set it has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) height: u32,
    pub(crate) hash: BlockHash,
    pub(crate) totals: Totals,
    pub(crate) muhash: Option<[u8; 32]>,
}

/// A chain, told block by block.
pub(crate) struct Story {
    home: TempDir,
    /// Its blocks in order of arrival.
    file: String,
    /// What an uninterrupted run stands at, sooner or later.
    states: BTreeMap<BlockHash, State>,
    /// Blocks that a better branch replaced, or that were connected on the way to its tip: with
    /// these on top, another branch may have more work.
    unsettled: BTreeSet<BlockHash>,
    tip: BlockHash,
}

impl Story {
    /// Small blocks, and a reorganisation every few of them.
    pub(crate) fn light() -> Self {
        Self::new(SimulatorConfig {
            seed: 21,
            txs_per_block: 10..40,
            wide_outputs_max: 12,
            wide_percent: 15,
            fan_in_max: 8,
            fan_in_percent: 20,
            same_block_spend_percent: 20,
            reorg_percent: 25,
            reorg_depth_max: REORG_DEPTH_MAX,
            addresses: 30,
            ..SimulatorConfig::default()
        })
    }

    /// Blocks so large that batches of them are loaded as files, below the window and inside it.
    pub(crate) fn heavy() -> Self {
        let mix = |wide_percent, fan_in_percent| TxMix {
            wide_percent,
            wide_outputs: 1_800..=2_000,
            fan_in_percent,
            fan_in_inputs: 900..=1_000,
            is_signed: false,
        };
        let create =
            HeavyBlocks { from_height: 102, every: 12, phase: 6, txs: 3..=3, mix: mix(100, 0) };
        let gather = HeavyBlocks {
            from_height: TIP_HEIGHT - 25,
            every: 12,
            phase: 7,
            txs: 6..=6,
            mix: mix(0, 100),
        };
        Self::new(SimulatorConfig {
            seed: 5,
            txs_per_block: 1..6,
            reorg_percent: 15,
            reorg_depth_max: REORG_DEPTH_MAX,
            addresses: 30,
            heavy: vec![create, gather],
            ..SimulatorConfig::default()
        })
    }

    fn new(config: SimulatorConfig) -> Self {
        let home = temp_dir();
        let mut simulator = Simulator::new(config);
        let mut raws = Vec::new();
        let tip = loop {
            let (header, raw) = simulator.mine_next();
            raws.push(raw);
            let tip = simulator.tip();
            // The last block wins alone, so that every order of events ends with it.
            if tip.height.get() >= TIP_HEIGHT && tip.hash == header.hash {
                break tip.hash;
            }
        };
        let file = home.path().join("blocks.dat").to_str().unwrap().to_owned();
        write_block_file(Path::new(&file), Simulator::NETWORK, raws).unwrap();
        let (states, unsettled) = (BTreeMap::new(), BTreeSet::new());
        let mut story = Self { home, file, states, unsettled, tip };
        story.live_through();
        story
    }

    /// The command that imports it.
    pub(crate) fn import(&self) -> [&str; 3] {
        ["chain", "import", &self.file]
    }

    /// A file with the first blocks.
    pub(crate) fn first_part(&self) -> String {
        let path = self.home.path().join("first.dat");
        let (paths, spool) = ([PathBuf::from(&self.file)], self.home.path());
        let options = ScanOptions::default();
        let files = BlockFiles::open(&paths, Simulator::NETWORK, spool, options).unwrap();
        let headers = files.headers();
        // Most coins are spent in the newer blocks.
        let first = &headers[..headers.len() * 4 / 5];
        let raws = first.iter().map(|header| files.raw(&header.hash).unwrap());
        write_block_file(&path, Simulator::NETWORK, raws).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn tip(&self) -> State {
        self.states[&self.tip]
    }

    /// Follows the chain block by block in memory and notes every state.
    fn live_through(&mut self) {
        let mut settings = IndexSettings::new(Simulator::NETWORK);
        settings.muhash = true;
        let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
        let (paths, spool) = ([PathBuf::from(&self.file)], self.home.path());
        let options = ScanOptions::default();
        let files = BlockFiles::open(&paths, Simulator::NETWORK, spool, options).unwrap();
        let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
        let mut chain: Vec<BlockHash> = Vec::new();
        for header in files.headers() {
            follower.accept(header, &files).unwrap();
            self.note(&index, &mut chain);
        }
        assert_eq!(chain.last(), Some(&self.tip));
        assert!(self.unsettled.len() > 5, "the chain reorganises");
    }

    fn note(&mut self, index: &ChainIndex<impl Kv>, chain: &mut Vec<BlockHash>) {
        let tip = index.view().unwrap().point().unwrap().height.get();
        let mut fresh = Vec::new();
        for height in (0..=tip).rev() {
            let view = index.view().unwrap();
            let hash = view.block(Height::new(height)).unwrap().unwrap().hash;
            if chain.get(height as usize) == Some(&hash) {
                break;
            }
            fresh.push((height, hash));
            let digest = view.at(Height::new(height)).unwrap().digest(false).unwrap();
            let (totals, muhash) = (digest.totals, digest.muhash);
            self.states.insert(hash, State { height, hash, totals, muhash });
        }
        let Some(&(lowest, _)) = fresh.last() else { return };
        self.unsettled.extend(chain.drain((lowest as usize).min(chain.len())..));
        self.unsettled.extend(fresh.iter().skip(1).map(|(_, hash)| *hash));
        chain.extend(fresh.iter().rev().map(|(_, hash)| *hash));
    }

    /// The state is one the chain passes through, with exactly its set.
    #[track_caller]
    pub(crate) fn assert_known(&self, state: &State) {
        assert_eq!(Some(state), self.states.get(&state.hash), "not a state of this chain");
    }
}

/// An import that died at `before` and again at `after` lost nothing in between; a reorganisation is
/// one commit, so that it never stands lower than before.
#[track_caller]
pub(crate) fn assert_kept(before: Option<&State>, after: Option<&State>) {
    let Some(before) = before else { return };
    let after = after.expect("a database that was there is still there");
    assert!(after.height >= before.height, "{before:?}, then {after:?}");
}
