//! A reorganisation is one commit: whoever reads sees the chain before it, or the chain after it.

use std::sync::Mutex;

use utxokeep_chains::{BlockSource, Simulator, SimulatorConfig};
use utxokeep_core::{BlockHash, Height};
use utxokeep_index::{
    ChainIndex, ChainWriter, DeltaKind, Follower, IndexSettings, Mode,
    tables::{
        TABLES,
        ids::{META, SIDE, SIDE_BODY},
    },
};
use utxokeep_kv::{Batch, KvError, MemoryKv};
use utxokeep_testkit::{Archive, Hook, HookedKv};

use crate::common::{self, assert_clean, assert_same, dump, fresh};

/// Remembers the height of every tip that was ever committed.
#[derive(Debug, Default)]
struct Tips(Mutex<Vec<u32>>);

impl Hook for Tips {
    fn commit(&self, batch: &Batch) -> Result<(), KvError> {
        let mut tips = self.0.lock().unwrap();
        for row in batch.rows().filter(|row| row.table == META && row.key == b"tip") {
            tips.push(Height::from_key(&row.value.unwrap()[..4]).unwrap().get());
        }
        Ok(())
    }
}

impl Tips {
    /// How often the tip fell.
    fn falls(&self) -> usize {
        self.0.lock().unwrap().windows(2).filter(|pair| pair[1] < pair[0]).count()
    }

    fn commits(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

type Engine = HookedKv<MemoryKv, Tips>;

fn open(settings: IndexSettings) -> (ChainIndex<Engine>, Follower<Engine>) {
    let engine = HookedKv::new(MemoryKv::new(TABLES), Tips::default());
    let index = ChainIndex::open(engine, settings).unwrap();
    let follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    (index, follower)
}

fn simulated(seed: u64, reorg_percent: u32) -> SimulatorConfig {
    SimulatorConfig {
        seed,
        txs_per_block: 1..8,
        same_block_spend_percent: 25,
        odd_output_permille: 60,
        reorg_percent,
        reorg_depth_max: 7,
        addresses: 15,
        ..SimulatorConfig::default()
    }
}

fn simulate(seed: u64, reorg_percent: u32, blocks: usize) -> Archive {
    let mut simulator = Simulator::new(simulated(seed, reorg_percent));
    let mut archive = Archive::default();
    for _ in 0..blocks {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
    }
    archive
}

fn hashes(archive: &Archive) -> Vec<BlockHash> {
    archive.headers().iter().map(|header| header.hash).collect()
}

fn follow(follower: &mut Follower<Engine>, archive: &Archive) {
    for header in archive.headers() {
        follower.accept(header, archive).unwrap();
    }
}

fn variants() -> impl Iterator<Item = IndexSettings> {
    [(DeltaKind::Compact, true), (DeltaKind::SelfContained, false)]
        .map(|(delta, muhash)| {
            common::settings(150).with(|settings| {
                settings.delta = delta;
                settings.muhash = muhash;
            })
        })
        .into_iter()
}

#[test]
fn no_reader_sees_the_chain_shrink() {
    let archive = simulate(31, 30, 200);
    let best = common::best_chain(common::REGTEST.genesis_hash(), archive.headers());
    for settings in variants() {
        for mode in [Mode::Tip, Mode::CatchUp] {
            let (index, mut follower) = open(settings.clone());
            follower.writer_mut().set_mode(mode).unwrap();
            follow(&mut follower, &archive);
            let (_, report) = follower.into_writer().unwrap();
            assert!(report.reorganisations > 10, "{}", report.reorganisations);
            assert_eq!(index.engine().hook.falls(), 0, "{mode:?}");
            let expected = fresh(settings.clone(), &archive, &best);
            let same = &[SIDE, SIDE_BODY];
            assert_same(&dump(index.engine()), &dump(expected.engine()), same, "one commit each");
            assert_clean(&index, "one commit each");
        }
    }
    // The same with no memory for it: step by step, with the same end.
    let settings = common::settings(150).with(|settings| settings.bulk_batch_bytes_max = 1);
    let (index, mut follower) = open(settings.clone());
    follow(&mut follower, &archive);
    assert!(index.engine().hook.falls() > 10, "{}", index.engine().hook.falls());
    let expected = fresh(settings, &archive, &best);
    assert_same(&dump(index.engine()), &dump(expected.engine()), &[SIDE, SIDE_BODY], "stepwise");
}

#[test]
fn the_bound_is_a_hundred_blocks() {
    for (depth, falls) in [(100, 0), (101, 1)] {
        let mut archive = simulate(33, 0, 210);
        let chain = hashes(&archive);
        let fork = chain.len() - depth;
        let count = depth + 1;
        let branch = common::simulate_branch(&mut archive, simulated(34, 0), &chain[..fork], count);
        let (index, mut follower) = open(common::settings(150));
        follow(&mut follower, &archive);
        assert_eq!(follower.writer().tip().unwrap().hash, *branch.last().unwrap());
        assert_eq!(follower.report().deepest_reorganisation, u32::try_from(depth).unwrap());
        assert_eq!(index.engine().hook.falls().min(1), falls, "{depth} blocks");
        assert_clean(&index, "deep");
    }
}

#[test]
fn a_better_branch_that_is_invalid_changes_nothing() {
    for settings in variants() {
        let mut archive = simulate(35, 0, 112);
        let chain = hashes(&archive);
        let before = archive.headers().len();
        common::bad_branch(&mut archive, &chain[..chain.len() - 2]);
        let (index, mut follower) = open(settings);
        for header in &archive.headers()[..before] {
            follower.accept(header, &archive).unwrap();
        }
        let (tables, commits) = (dump(index.engine()), index.engine().hook.commits());
        for header in &archive.headers()[before..] {
            follower.accept(header, &archive).unwrap();
        }
        assert_eq!(follower.report().refused.len(), 1);
        assert_eq!(index.engine().hook.commits(), commits, "the tip was never written");
        assert_same(&tables, &dump(index.engine()), &[SIDE, SIDE_BODY], "the branch was refused");
        assert_eq!(follower.writer().tip().unwrap().hash, *chain.last().unwrap());
        assert_clean(&index, "the branch was refused");
        // The writer goes on where it stood.
        let next = common::simulate_branch(&mut archive, simulated(36, 0), &chain, 3);
        let source: &dyn BlockSource = &archive;
        for header in archive.headers().iter().filter(|header| next.contains(&header.hash)) {
            follower.accept(header, source).unwrap();
        }
        assert_eq!(follower.writer().tip().unwrap().hash, next[2]);
        assert_clean(&index, "it went on");
    }
}
