//! A reorganisation while the persister lags: the watermark goes back to what both branches share
//! before a pruner beside it acts on it, and files of the branch that was left prove nothing.

use utxokeep_core::{Block, Header};
use utxokeep_testkit::{ANYONE, mine};

use super::*;

fn at(height: u32) -> Height {
    Height::new(height)
}

/// A chain that leaves its branch when it is told to.
struct Chain {
    index: ChainIndex<MemoryKv>,
    writer: ChainWriter<MemoryKv>,
    headers: Vec<Header>,
    branch: u64,
    recent: RecentBlocks,
}

impl Chain {
    fn new() -> Self {
        let settings = IndexSettings::new(Network::BitcoinRegtest);
        let first = settings.decoder.decode(settings.decoder.first_block().unwrap()).unwrap();
        let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        let limits = RecentLimits { blocks_max: 1 << 10, bytes_max: 1 << 24 };
        let recent = RecentBlocks::new(limits);
        let mut chain = Self { index, writer, headers: Vec::new(), branch: 0, recent };
        chain.join(first);
        chain
    }

    fn join(&mut self, block: Block) {
        self.writer.apply(&block).unwrap();
        self.headers.push(block.header);
        self.recent.keep(&Arc::new(block));
    }

    fn mine_to(&mut self, target: u32) {
        while self.headers.len() <= target as usize {
            let height = u32::try_from(self.headers.len()).unwrap();
            let parent = self.headers.last().unwrap();
            let mined = mine(parent, height, self.branch, &[(50, ANYONE)], &[]);
            let block = self.index.settings().decoder.decode(mined.raw).unwrap();
            self.join(block);
        }
    }

    /// Leaves the chain above a block for another branch, which ends higher.
    fn reorganise_above(&mut self, fork: u32, target: u32) {
        self.writer.rollback(at(fork)).unwrap();
        self.headers.truncate(fork as usize + 1);
        self.branch += 1;
        self.mine_to(target);
    }

    fn persister(&self, dir: &Path) -> (Persister<MemoryKv>, PersistedPlace) {
        let network = self.index.settings().network();
        let url = format!("file:{}", dir.display());
        let place = PersistedPlace::open(&url, network, 10_000, OpenMode::Create, RETRY).unwrap();
        let decoder = self.index.settings().decoder.clone();
        let bodies = BodyFinder::new(decoder).with_recent(self.recent.clone());
        let index = self.index.clone();
        (Persister::new(index, place.clone(), bodies, settings()), place)
    }

    fn block(&self, height: u32) -> (Height, BlockHash) {
        (at(height), self.headers[height as usize].hash)
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} does not come");
}

#[test]
fn a_reorganisation_takes_a_lagging_watermark_back_before_the_pruner_acts_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new();
    let (mut persister, place) = chain.persister(dir.path());
    chain.mine_to(18);
    run(&mut persister).unwrap();
    chain.mine_to(22);
    let store = node_store::open("memory:", &TxStoreConfig::default(), OpenMode::Create).unwrap();
    let pruning = Pruning::start_following(store, &PrunerConfig::default(), &chain.index).unwrap();
    let heights = || pruning.pruner().status().unwrap().heights;
    until("a run at 18", || heights().completed() == Some(at(18)));

    // Below what is persisted, and higher: the old watermark is not above the new tip.
    chain.reorganise_above(15, 24);
    // The persister has not noticed: place and cursor still name block 18 of the old branch.
    let own = || chain.index.consumers().unwrap().into_iter().find(|own| own.name == NAME).unwrap();
    assert_eq!(own().cursor.height(), Some(at(18)));
    assert_eq!(chain.index.reached(NAME).unwrap(), Some(at(15)));
    until("the new branch", || heights().newest() == Some(at(24)));
    let known = heights();
    assert_eq!((known.persisted(), known.completed()), (Some(at(15)), Some(at(15))));
    for asked in 16..=24 {
        assert!(pruning.pruner().trigger(Some(at(asked))).is_err(), "{asked}");
    }

    // The watermark goes back in the place first, on its own, before any file of the new branch.
    let hash = |height: u32| chain.headers[height as usize].hash;
    assert!(!persister.step(&|| false).unwrap());
    assert_eq!(place.watermark().unwrap().unwrap().block, Some(chain.block(15)));
    assert_eq!(own().cursor.block(), Some(chain.block(15)));
    assert!(place.block(at(16), hash(16)).unwrap().is_none());
    // Step by step: never more than is written of the new branch.
    loop {
        let is_done = persister.step(&|| false).unwrap();
        let reached = chain.index.reached(NAME).unwrap();
        for height in 0..=reached.unwrap().get() {
            assert!(place.block(at(height), hash(height)).unwrap().is_some(), "{height}");
        }
        until("the watermark", || heights().persisted() == reached);
        assert!(heights().completed() <= reached);
        if is_done {
            break;
        }
    }
    until("a run at 24", || heights().completed() == Some(at(24)));
    let jobs = pruning.pruner().jobs(100).unwrap();
    assert!(jobs.iter().all(|job| job.height != at(16) && job.height != at(17)), "{jobs:?}");
}

/// A pruner that comes later, or comes back, reads the cursor of the old branch as the fork.
#[test]
fn a_pruner_that_starts_after_the_reorganisation_does_not_believe_the_old_branch() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new();
    let (mut persister, _) = chain.persister(dir.path());
    chain.mine_to(18);
    run(&mut persister).unwrap();
    chain.reorganise_above(12, 30);
    let store = node_store::open("memory:", &TxStoreConfig::default(), OpenMode::Create).unwrap();
    let pruning = Pruning::start_following(store, &PrunerConfig::default(), &chain.index).unwrap();
    let heights = || pruning.pruner().status().unwrap().heights;
    until("a run at 12", || heights().completed() == Some(at(12)));
    assert_eq!((heights().newest(), heights().persisted()), (Some(at(30)), Some(at(12))));
    assert!(pruning.pruner().trigger(Some(at(13))).is_err());
    run(&mut persister).unwrap();
    until("a run at 30", || heights().completed() == Some(at(30)));
}
