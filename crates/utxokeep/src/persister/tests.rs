//! A simulated chain with reorganisations is persisted, pruned beside it, and built anew from the
//! files alone.

mod bucket;
mod crash;
mod faulty;
mod reorganisation;
mod simulation;

use std::{path::Path, sync::Arc, time::Duration};

use utxokeep_blobs::Retry;
use utxokeep_chains::{
    BlockDecoder, BlockSource as _, BodyFinder, RecentBlocks, RecentLimits, Simulator,
    SimulatorConfig, cardano::ImmutableDb,
};
use utxokeep_core::{BlockHash, Height, Network, OpenMode, persisted::WATERMARK_NAME};
use utxokeep_index::{
    ChainIndex, ChainWriter, ConsumerNeeds, Cursor, Digest, Follower, IndexSettings, import_files,
    import_immutable, tables::TABLES,
};
use utxokeep_kv::{Kv, MemoryKv};

use super::*;
use crate::{config::PrunerConfig, config::TxStoreConfig, node_store, pruning::Pruning};

const NETWORK: Network = Simulator::NETWORK;

const RETRY: Retry = Retry {
    retries_max: 2,
    wait_first: Duration::from_millis(1),
    wait_max: Duration::from_millis(2),
};

fn settings() -> PersisterSettings {
    PersisterSettings {
        subtree_txs_log2: 2,
        retention_blocks: None,
        batch_blocks_max: 4,
        batch_bytes_max: 1 << 20,
        parallel_files: 4,
        retry: RETRY,
    }
}

fn place(dir: &Path) -> PersistedPlace {
    let url = format!("file:{}", dir.display());
    PersistedPlace::open(&url, NETWORK, 10_000, OpenMode::Create, RETRY).unwrap()
}

/// A chain database in memory, and a simulated chain for it.
struct World {
    index: ChainIndex<MemoryKv>,
    follower: Follower<MemoryKv>,
    simulator: Simulator,
    recent: RecentBlocks,
}

impl World {
    fn new(config: SimulatorConfig) -> Self {
        let index = empty(NETWORK);
        let follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
        let limits = RecentLimits { blocks_max: 1 << 20, bytes_max: 1 << 30 };
        let recent = RecentBlocks::new(limits);
        Self { index, follower, simulator: Simulator::new(config), recent }
    }

    fn mine(&mut self, blocks: usize) {
        let decoder = BlockDecoder::new(NETWORK);
        for _ in 0..blocks {
            let header = self.simulator.next().unwrap().unwrap();
            let raw = self.simulator.raw(&header.hash).unwrap();
            self.recent.keep(&Arc::new(decoder.decode(raw).unwrap()));
            self.follower.accept(&header, &self.simulator).unwrap();
        }
    }

    fn bodies(&self) -> BodyFinder {
        BodyFinder::new(BlockDecoder::new(NETWORK)).with_recent(self.recent.clone())
    }

    fn persister(&self, place: PersistedPlace) -> Persister<MemoryKv> {
        Persister::new(self.index.clone(), place, self.bodies(), settings())
    }

    fn tip(&self) -> (Height, BlockHash) {
        let (height, entry) = self.index.view().unwrap().tip().unwrap();
        (height, entry.hash)
    }

    fn digest(&self) -> Digest {
        digest(&self.index)
    }
}

fn empty(network: Network) -> ChainIndex<MemoryKv> {
    ChainIndex::open(MemoryKv::new(TABLES), IndexSettings::new(network)).unwrap()
}

fn digest<K: Kv>(index: &ChainIndex<K>) -> Digest {
    index.view().unwrap().digest(true).unwrap()
}

fn run<K: Kv>(persister: &mut Persister<K>) -> Result<(), PersisterError> {
    while !persister.step(&|| false)? {}
    Ok(())
}

/// Builds a database from the files of a place alone.
fn rebuilt(place: &PersistedPlace) -> ChainIndex<MemoryKv> {
    let index = empty(place.network());
    let list = PersistedList::open(place.clone(), Height::GENESIS, 4, &mut |_| true).unwrap();
    let writer = ChainWriter::new(index.clone()).unwrap();
    let (_, report) = import_files(writer, &list, false, &mut |_| true).unwrap();
    assert!(report.refused.is_empty(), "{report:?}");
    index
}

fn is_sound<K: Kv>(index: &ChainIndex<K>, place: &PersistedPlace) -> PersistedReport {
    let report = verify(index, place, Height::GENESIS, &mut |_, _| true).unwrap();
    assert_eq!(report.faults, [], "{report:?}");
    report
}

#[test]
fn a_chain_with_reorganisations_is_persisted_and_built_anew_with_the_same_digest() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let mut world = World::new(SimulatorConfig::default());
    let mut persister = world.persister(place.clone());
    for _ in 0..40 {
        world.mine(5);
        run(&mut persister).unwrap();
        assert_eq!(place.watermark().unwrap().unwrap().block, Some(world.tip()));
        assert_eq!(world.index.reached(NAME).unwrap(), Some(world.tip().0));
    }
    let reorganised = world.follower.report().reorganisations;
    assert!(reorganised > 3, "the chain has {reorganised} reorganisations");
    let report = is_sound(&world.index, &place);
    assert_eq!(report.blocks, u64::from(world.tip().0.get()) + 1);
    assert!(report.file_bytes > report.block_bytes);
    assert_eq!(digest(&rebuilt(&place)), world.digest());
    // A second persister that knows nothing begins where the place says.
    world.index.forget_consumer(NAME).unwrap();
    let mut again = world.persister(place.clone());
    again.register().unwrap();
    assert_eq!(world.index.reached(NAME).unwrap(), Some(Height::GENESIS));
    assert!(again.step(&|| false).unwrap(), "nothing is left to do");
    assert_eq!(world.index.reached(NAME).unwrap(), Some(world.tip().0));
}

#[test]
fn an_import_that_was_stopped_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let mut world = World::new(SimulatorConfig::default());
    world.mine(60);
    run(&mut world.persister(place.clone())).unwrap();
    let index = empty(NETWORK);
    for stop_after in [7, 20, u64::MAX] {
        let list = PersistedList::open(place.clone(), Height::GENESIS, 4, &mut |_| true).unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        let mut left = stop_after;
        import_files(writer, &list, false, &mut |_| {
            left -= 1;
            left > 0
        })
        .unwrap();
    }
    assert_eq!(digest(&index), world.digest());
}

#[test]
fn cardano_blocks_come_back_byte_by_byte() {
    let cache = std::env::temp_dir().join("utxokeep-test-preview");
    let Some(dir) = utxokeep_testkit::preview_immutable(&cache) else { return };
    let db = ImmutableDb::open(&dir).unwrap();
    let index = empty(Network::CardanoPreview);
    let mut left = 3_000;
    let writer = ChainWriter::new(index.clone()).unwrap();
    import_immutable(writer, &db, false, &mut |_| {
        left -= 1;
        left > 0
    })
    .unwrap();
    let store = tempfile::tempdir().unwrap();
    let url = format!("file:{}", store.path().display());
    let network = Network::CardanoPreview;
    let place = PersistedPlace::open(&url, network, 10_000, OpenMode::Create, RETRY).unwrap();
    let bodies =
        BodyFinder::new(index.settings().decoder.clone()).with_files(&[dir], None, store.path());
    let settings = PersisterSettings { batch_blocks_max: 100, ..settings() };
    let mut persister = Persister::new(index.clone(), place.clone(), bodies, settings);
    run(&mut persister).unwrap();
    let report = is_sound(&index, &place);
    assert!(report.blocks > 2_000, "{report:?}");
    assert_eq!(digest(&rebuilt(&place)), digest(&index));
}

/// The chain is at 100, the persister at 95: nothing above 95 goes, whoever asks.
#[test]
fn the_pruner_goes_no_further_than_the_persister_in_the_same_process() {
    let dir = tempfile::tempdir().unwrap();
    let calm = SimulatorConfig { reorg_percent: 0, ..SimulatorConfig::default() };
    let mut world = World::new(calm);
    // Blocks 0 to 95.
    world.mine(96);
    let place = place(dir.path());
    let mut persister = world.persister(place.clone());
    run(&mut persister).unwrap();
    world.mine(5);
    let store = node_store::open("memory:", &TxStoreConfig::default(), OpenMode::Create).unwrap();
    let pruning = Pruning::start_following(store, &PrunerConfig::default(), &world.index).unwrap();
    let wait_until = |height: u32| {
        for _ in 0..3_000 {
            let done = pruning.pruner().status().unwrap().heights.completed();
            if done >= Some(Height::new(height)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no run at {height}");
    };
    wait_until(95);
    let heights = || pruning.pruner().status().unwrap().heights;
    assert_eq!(
        (heights().newest(), heights().persisted()),
        (Some(Height::new(100)), Some(Height::new(95)))
    );
    assert!(pruning.pruner().trigger(Some(Height::new(96))).is_err());
    // A persister that is so far behind that the log does not wait for it still counts.
    world.index.register_consumer("other", ConsumerNeeds::Blocks, Cursor::START).unwrap();
    world.index.forget_consumer("other").unwrap();
    assert_eq!(heights().completed(), Some(Height::new(95)));
    run(&mut persister).unwrap();
    wait_until(100);
}

#[test]
fn a_place_that_lost_its_files_or_is_of_another_chain_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(SimulatorConfig::default());
    world.mine(10);
    let place = place(dir.path());
    run(&mut world.persister(place.clone())).unwrap();
    std::fs::remove_file(dir.path().join(WATERMARK_NAME)).unwrap();
    let lost = run(&mut world.persister(place.clone())).unwrap_err();
    assert!(matches!(lost, PersisterError::Lost { .. }), "{lost}");
    assert_eq!(world.index.reached(NAME).unwrap(), Some(world.tip().0), "nothing moved");
    let url = format!("file:{}", dir.path().display());
    let network = Network::BitcoinMainnet;
    let foreign = PersistedPlace::open(&url, network, 10_000, OpenMode::Create, RETRY).unwrap();
    foreign.put_watermark(None).1.unwrap();
    let refused = run(&mut world.persister(place)).unwrap_err();
    assert!(matches!(refused, PersisterError::OtherChain { .. }), "{refused}");
}

/// A disk that is unmounted leaves an empty directory behind.
#[test]
fn a_place_that_is_emptied_while_blocks_are_persisted_gets_nothing_until_it_is_back() {
    let home = tempfile::tempdir().unwrap();
    let (dir, away) = (home.path().join("place"), home.path().join("away"));
    std::fs::create_dir(&dir).unwrap();
    let mut world = World::new(SimulatorConfig::default());
    world.mine(10);
    let mut persister = world.persister(place(&dir));
    run(&mut persister).unwrap();
    let stood = world.tip().0;
    std::fs::rename(&dir, &away).unwrap();
    std::fs::create_dir(&dir).unwrap();
    world.mine(5);
    for _ in 0..2 {
        let lost = run(&mut persister).unwrap_err();
        assert!(matches!(lost, PersisterError::Lost { height, .. } if height == stood), "{lost}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "nothing was written");
    assert!(world.index.reached(NAME).unwrap() <= Some(stood), "so the pruner waits");
    std::fs::remove_dir(&dir).unwrap();
    std::fs::rename(&away, &dir).unwrap();
    run(&mut persister).unwrap();
    assert_eq!(world.index.reached(NAME).unwrap(), Some(world.tip().0));
}

#[test]
fn an_older_copy_of_the_place_is_brought_up_to_date() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let mut world = World::new(SimulatorConfig::default());
    world.mine(10);
    run(&mut world.persister(place.clone())).unwrap();
    let old = std::fs::read(dir.path().join(WATERMARK_NAME)).unwrap();
    world.mine(30);
    run(&mut world.persister(place.clone())).unwrap();
    std::fs::write(dir.path().join(WATERMARK_NAME), old).unwrap();
    let newest = std::fs::read_dir(dir.path().join("0000000")).unwrap().last().unwrap().unwrap();
    std::fs::remove_file(newest.path()).unwrap();
    run(&mut world.persister(place.clone())).unwrap();
    assert_eq!(place.watermark().unwrap().unwrap().block, Some(world.tip()));
}

#[test]
fn damage_to_any_file_is_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let calm = SimulatorConfig { reorg_percent: 0, ..SimulatorConfig::default() };
    let mut world = World::new(calm);
    world.mine(6);
    run(&mut world.persister(place.clone())).unwrap();
    let files: Vec<_> = std::fs::read_dir(dir.path().join("0000000")).unwrap().collect();
    assert!(files.len() >= 5 * 6);
    for file in files {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x40;
        for wrong in [Some(damaged), Some(bytes[..bytes.len() - 1].to_vec()), None] {
            match &wrong {
                Some(wrong) => std::fs::write(&path, wrong).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let report = verify(&world.index, &place, Height::GENESIS, &mut |_, _| true).unwrap();
            assert_eq!(report.faults_total, 1, "{path:?}: {report:?}");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(report.faults[0].reason.contains(name), "{report:?}");
        }
        std::fs::write(&path, bytes).unwrap();
    }
    is_sound(&world.index, &place);
}

#[test]
fn old_files_are_deleted_and_newer_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let mut world = World::new(SimulatorConfig {
        reorg_percent: 0,
        txs_per_block: 0..2,
        ..SimulatorConfig::default()
    });
    world.mine(1_150);
    let settings =
        PersisterSettings { retention_blocks: Some(100), batch_blocks_max: 50, ..settings() };
    let mut persister =
        Persister::new(world.index.clone(), place.clone(), world.bodies(), settings);
    run(&mut persister).unwrap();
    assert!(
        !dir.path().join("0000000").exists()
            || std::fs::read_dir(dir.path().join("0000000")).unwrap().next().is_none()
    );
    let first = Height::new(1_000);
    let report = verify(&world.index, &place, first, &mut |_, _| true).unwrap();
    assert_eq!((report.faults_total, report.blocks), (0, 150));
    let list = PersistedList::open(place, Height::GENESIS, 4, &mut |_| true).unwrap();
    assert_eq!(utxokeep_chains::BlockList::headers(&list).len(), 150);
}
