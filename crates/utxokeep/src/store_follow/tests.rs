//! Simulated chains with reorganisations are followed into node stores, which are compared with the
//! chain index after every few blocks.

mod check;
mod crash;
mod scenarios;
mod size;

use std::{path::Path, sync::Arc};

use utxokeep_chains::{
    BlockDecoder, BlockSource as _, BodyFinder, RecentBlocks, RecentLimits, Simulator,
    SimulatorConfig, node_txs,
};
use utxokeep_core::{BlockHash, Height, Network, OpenMode, node::NodeTx};
use utxokeep_index::{ChainIndex, ChainWriter, Follower, IndexSettings, tables::TABLES};
use utxokeep_kv::MemoryKv;
use utxokeep_txstore::NodeStore;

use self::check::{Raws, compare};
use super::*;
use crate::{config::TxStoreConfig, node_store};

const NETWORK: Network = Simulator::NETWORK;

fn open_store(url: &str) -> Arc<NodeStore> {
    let config = TxStoreConfig { fsync: false, ..TxStoreConfig::default() };
    node_store::open(url, &config, OpenMode::Create).unwrap()
}

fn lists_of(batch_txs_max: usize) -> StoreFollowSettings {
    StoreFollowSettings { batch_txs_max, items_max: 1_000 }
}

/// A chain database in memory, a simulated chain for it, and every block that ever was.
struct World {
    index: ChainIndex<MemoryKv>,
    follower: Follower<MemoryKv>,
    simulator: Simulator,
    recent: RecentBlocks,
    raws: Raws,
}

impl World {
    fn new(config: SimulatorConfig) -> Self {
        let settings = IndexSettings::new(NETWORK);
        let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
        let follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
        let limits = RecentLimits { blocks_max: 1 << 20, bytes_max: 1 << 30 };
        let recent = RecentBlocks::new(limits);
        Self { index, follower, simulator: Simulator::new(config), recent, raws: Raws::default() }
    }

    /// The next block of the simulator, which nobody has heard of yet.
    fn draw(&mut self) -> (utxokeep_core::Header, Vec<u8>) {
        let header = self.simulator.next().unwrap().unwrap();
        let raw = self.simulator.raw(&header.hash).unwrap();
        self.raws.insert(header.hash, raw.clone());
        (header, raw)
    }

    fn take(&mut self, header: &utxokeep_core::Header, raw: Vec<u8>) {
        self.recent.keep(&Arc::new(BlockDecoder::new(NETWORK).decode(raw).unwrap()));
        self.follower.accept(header, &self.simulator).unwrap();
    }

    fn mine(&mut self, blocks: usize) {
        for _ in 0..blocks {
            let (header, raw) = self.draw();
            self.take(&header, raw);
        }
    }

    fn following(&self, store: &Arc<NodeStore>) -> StoreFollower<MemoryKv> {
        let bodies = BodyFinder::new(BlockDecoder::new(NETWORK)).with_recent(self.recent.clone());
        // Blocks are cut into lists of a few transactions.
        StoreFollower::new(self.index.clone(), Arc::clone(store), bodies, lists_of(7))
    }

    fn tip(&self) -> Height {
        self.index.view().unwrap().tip().unwrap().0
    }

    fn reached(&self) -> Option<Height> {
        self.index.reached(NAME).unwrap()
    }
}

impl<K: utxokeep_kv::Kv> StoreFollower<K> {
    /// Deals with the next event alone.
    fn take_one(&mut self) -> Result<(), StoreFollowError> {
        let taken = std::cell::Cell::new(false);
        self.step(&|| taken.replace(true)).map(|_| ())
    }
}

fn run<K: utxokeep_kv::Kv>(follower: &mut StoreFollower<K>) -> Result<(), StoreFollowError> {
    while !follower.step(&|| false)? {}
    Ok(())
}

#[test]
fn a_chain_with_reorganisations_is_followed_and_the_store_agrees_with_the_index() {
    let (mut undone, mut conflicts) = (0, 0);
    for seed in 1..=3 {
        let mut world = World::new(SimulatorConfig { seed, ..SimulatorConfig::default() });
        let store = open_store("memory:");
        let mut following = world.following(&store);
        for _ in 0..45 {
            world.mine(5);
            run(&mut following).unwrap();
            assert_eq!(world.reached(), Some(world.tip()));
            conflicts = conflicts.max(compare(&world.index, &store, &world.raws, false).losers);
        }
        undone += world.follower.report().reorganisations;
    }
    assert!(undone > 9, "the chains have {undone} reorganisations");
    assert!(conflicts > 0, "no transaction of a lost branch was spent doubly");
}

#[test]
fn every_engine_follows_alike() {
    let dir = tempfile::tempdir().unwrap();
    let at = |engine: &str, name: &str| format!("{engine}:{}", dir.path().join(name).display());
    for url in [at("rocksdb", "rocks"), at("sqlite", "sqlite")] {
        let mut world = World::new(SimulatorConfig {
            seed: 4,
            txs_per_block: 2..20,
            reorg_percent: 15,
            ..SimulatorConfig::default()
        });
        let store = open_store(&url);
        let mut following = world.following(&store);
        for _ in 0..8 {
            world.mine(20);
            run(&mut following).unwrap();
            compare(&world.index, &store, &world.raws, false);
        }
        assert!(world.follower.report().reorganisations > 3);
    }
}
