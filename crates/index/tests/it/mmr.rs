//! The Merkle mountain range against a naive tree, through every way that blocks take.

mod cut_short;
mod enable;
mod killed;
mod leaves;
mod logged;
mod preview;
mod proofs;
mod rollbacks;

use std::collections::BTreeMap;

use utxokeep_chains::{BlockSource as _, Simulator, SimulatorConfig};
use utxokeep_core::{
    Block, BlockHash, BlockStamp, Height, OutPoint, UtxoRecord, in_block_prevouts,
    mmr::{MmrRule, NodeHash},
};
use utxokeep_index::{
    ChainIndex, ChainWriter, DeltaKind, Follower, IndexSettings, Mode,
    tables::ids::{SIDE, SIDE_BODY},
};
use utxokeep_kv::Kv;
use utxokeep_testkit::{Archive, RegtestA};

use crate::common::{
    self, InMemory, IndexPlace as _, REGTEST, assert_clean, assert_same, best_chain, block,
    dump_all, fresh, prune_fully,
};

pub(crate) const RULES: [MmrRule; 2] = [MmrRule::Tombstone, MmrRule::Utreexo];

pub(crate) fn settings(rule: MmrRule, window: u32) -> IndexSettings {
    common::settings(window).with(|settings| settings.mmr = Some(rule))
}

/// A list of leaves, by the definition: each output that its block leaves unspent is the next one.
#[derive(Debug)]
pub(crate) struct Naive {
    rule: MmrRule,
    leaves: Vec<Option<NodeHash>>,
    by_output: BTreeMap<OutPoint, usize>,
}

impl Naive {
    pub(crate) fn new(rule: MmrRule) -> Self {
        Self { rule, leaves: Vec::new(), by_output: BTreeMap::new() }
    }

    pub(crate) fn apply(&mut self, block: &Block, height: Height) {
        let in_block = in_block_prevouts(block);
        for (outpoint, in_block) in block.inputs.iter().zip(&in_block) {
            if in_block.is_none() {
                let leaf = self.by_output.remove(outpoint).unwrap();
                self.leaves[leaf] = None;
            }
        }
        for (tx_index, tx) in (0..).zip(&block.txs) {
            for (output, number) in block.outputs_of(tx).iter().zip(tx.outputs.start..) {
                if in_block.contains(&Some(number)) {
                    continue;
                }
                let outpoint = OutPoint::new(tx.txid, output.index);
                let record = UtxoRecord {
                    address: block.address_of(output),
                    value: output.value,
                    details: block.details_of(output),
                    height,
                    place: block.header.slot.map(|slot| BlockStamp {
                        slot: slot.slot,
                        hash: block.header.hash,
                        epoch: slot.epoch,
                        time: block.header.time,
                    }),
                    tx_index,
                    is_coinbase: tx.is_coinbase,
                };
                let hash = self.rule.leaf_hash(outpoint, &record, &block.header.hash, &mut vec![]);
                if let Some(replaced) = self.by_output.insert(outpoint, self.leaves.len())
                    && self.rule == MmrRule::Tombstone
                {
                    self.leaves[replaced] = None;
                }
                self.leaves.push(Some(hash.unwrap()));
            }
        }
    }

    /// Makes tombstones of outputs that left the set without a transaction.
    pub(crate) fn keep(&mut self, is_live: impl Fn(OutPoint) -> bool) {
        let leaves = &mut self.leaves;
        self.by_output.retain(|outpoint, leaf| {
            let is_live = is_live(*outpoint);
            if !is_live {
                leaves[*leaf] = None;
            }
            is_live
        });
    }

    /// Unspent outputs and their leaves.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (OutPoint, u64)> {
        self.by_output.iter().map(|(outpoint, leaf)| (*outpoint, *leaf as u64))
    }

    pub(crate) fn root(&self) -> (u64, NodeHash) {
        let mut rest = self.leaves.as_slice();
        let mut peaks = Vec::new();
        while !rest.is_empty() {
            let level = rest.len().ilog2();
            let (mountain, after) = rest.split_at(1 << level);
            let mut nodes = mountain.to_vec();
            for level in 0..level {
                let pairs = nodes.as_chunks::<2>().0;
                nodes = pairs.iter().map(|&[l, r]| self.rule.combine(level, l, r)).collect();
            }
            peaks.push(self.rule.fill(level, nodes[0]));
            rest = after;
        }
        let leaves = self.leaves.len() as u64;
        (leaves, self.rule.root(leaves, &peaks))
    }
}

/// Leaves and root after each block.
pub(crate) fn naive_roots(
    rule: MmrRule,
    source: &Archive,
    chain: &[BlockHash],
) -> Vec<(u64, NodeHash)> {
    let mut naive = Naive::new(rule);
    let after = |(height, hash): (u32, &BlockHash)| {
        naive.apply(&block(source, hash), Height::new(height));
        naive.root()
    };
    (0..).zip(chain).map(after).collect()
}

pub(crate) fn root<K: Kv>(index: &ChainIndex<K>, at: Option<u32>) -> (u64, NodeHash) {
    let root = index.view().unwrap().mmr_root(at.map(Height::new)).unwrap();
    (root.leaves, root.root)
}

pub(crate) fn simulate(seed: u64, reorg_percent: u32, blocks: usize) -> Archive {
    let mut simulator = Simulator::new(SimulatorConfig {
        seed,
        txs_per_block: 2..9,
        same_block_spend_percent: 25,
        odd_output_permille: 60,
        reorg_percent,
        reorg_depth_max: 7,
        addresses: 15,
        ..SimulatorConfig::default()
    });
    let mut archive = Archive::default();
    for _ in 0..blocks {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
    }
    archive
}

pub(crate) fn chain_of(archive: &Archive) -> Vec<BlockHash> {
    best_chain(REGTEST.genesis_hash(), archive.headers())
}

/// Elsewhere all outputs of a block got the same leaf: the number of leaves was read from the
/// database while the batch was open. Here the batch is one block, several, or all.
#[test]
fn mistake_leaf_numbers_read_while_the_batch_waits() {
    let archive = simulate(11, 0, 220);
    let chain = chain_of(&archive);
    for rule in RULES {
        let expected = naive_roots(rule, &archive, &chain);
        let mut dumps = Vec::new();
        for (mode, bytes_max) in [
            (Mode::Tip, 1),
            (Mode::CatchUp, 1 << 20),
            (Mode::Bulk, 1),
            (Mode::Bulk, 40_000),
            (Mode::Bulk, 1 << 30),
        ] {
            let settings =
                settings(rule, 50).with(|settings| settings.bulk_batch_bytes_max = bytes_max);
            let index = InMemory::default().open(settings);
            let mut writer = ChainWriter::new(index.clone()).unwrap();
            writer.set_mode(mode).unwrap();
            let bulk_until = if mode == Mode::Bulk { chain.len() - 60 } else { chain.len() };
            for (number, hash) in chain.iter().enumerate() {
                if number == bulk_until {
                    writer.set_mode(Mode::CatchUp).unwrap();
                }
                writer.apply(&block(&archive, hash)).unwrap();
            }
            writer.set_mode(Mode::Tip).unwrap();
            prune_fully(&mut writer);
            let what = format!("{rule} {mode:?} {bytes_max}");
            assert_eq!(root(&index, None), *expected.last().unwrap(), "{what}");
            let oldest = index.status().unwrap().undo_base.unwrap().get();
            for height in oldest..u32::try_from(chain.len()).unwrap() {
                let at = root(&index, Some(height));
                assert_eq!(at, expected[height as usize], "{what} at {height}");
            }
            assert_clean(&index, &what);
            dumps.push(dump_all(index.engine()));
        }
        for dump in &dumps {
            assert_same(&dumps[0], dump, &[], "every way gives the same rows");
        }
    }
}

/// Elsewhere a rollback erased the peaks. Here it gives back the tree, row by row.
#[test]
fn mistake_a_rollback_that_forgets_the_peaks() {
    let archive = simulate(12, 0, 180);
    let chain = chain_of(&archive);
    for (rule, delta) in [
        (MmrRule::Tombstone, DeltaKind::Compact),
        (MmrRule::Tombstone, DeltaKind::SelfContained),
        (MmrRule::Utreexo, DeltaKind::Compact),
    ] {
        let settings = settings(rule, 60).with(|settings| settings.delta = delta);
        let index = InMemory::default().open(settings.clone());
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        for hash in &chain {
            writer.apply(&block(&archive, hash)).unwrap();
        }
        let all = dump_all(index.engine());
        let expected = naive_roots(rule, &archive, &chain);
        for depth in [1, 2, 7, 30, 59] {
            let target = chain.len() - 1 - depth;
            writer.rollback(Height::new(u32::try_from(target).unwrap())).unwrap();
            assert_eq!(root(&index, None), expected[target]);
            assert_clean(&index, "rolled back");
            let fresh = fresh(settings.clone(), &archive, &chain[..=target]);
            let except = &[SIDE, SIDE_BODY];
            assert_same(&dump_all(index.engine()), &dump_all(fresh.engine()), except, "undone");
            for hash in &chain[target + 1..] {
                writer.apply(&block(&archive, hash)).unwrap();
            }
            assert_same(&dump_all(index.engine()), &all, except, "applied again");
        }
    }
}

/// Two that took different ways to one tip, through reorganisations of one commit and of many.
#[test]
fn whatever_the_way_to_a_tip_its_root_is_one() {
    let archive = simulate(13, 30, 220);
    let chain = chain_of(&archive);
    for rule in RULES {
        let expected = *naive_roots(rule, &archive, &chain).last().unwrap();
        for (mode, bytes_max) in [(Mode::Tip, 1 << 20), (Mode::CatchUp, 1 << 20), (Mode::Tip, 1)] {
            let settings =
                settings(rule, 150).with(|settings| settings.bulk_batch_bytes_max = bytes_max);
            let index = InMemory::default().open(settings.clone());
            let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
            follower.writer_mut().set_mode(mode).unwrap();
            for header in archive.headers() {
                follower.accept(header, &archive).unwrap();
            }
            let (_, report) = follower.into_writer().unwrap();
            assert!(report.reorganisations > 10, "{}", report.reorganisations);
            assert_eq!(root(&index, None), expected);
            let straight = fresh(settings, &archive, &chain);
            let except = &[SIDE, SIDE_BODY];
            assert_same(&dump_all(index.engine()), &dump_all(straight.engine()), except, "ways");
            assert_clean(&index, "reorganised");
        }
    }
}

/// Elsewhere the tree was written outside the batch of its block, and failures only logged. Here a
/// write that fails anywhere leaves tree and set at one block.
#[test]
fn mistake_a_tree_outside_the_batch_of_its_block() {
    let archive = simulate(14, 0, 130);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    let expected = naive_roots(rule, &archive, &chain);
    for (mode, bytes_max) in [(Mode::Tip, 1), (Mode::CatchUp, 30_000), (Mode::Bulk, 30_000)] {
        let settings =
            settings(rule, 50).with(|settings| settings.bulk_batch_bytes_max = bytes_max);
        for commits in [1, 2, 3, 5, 8, 13, 40, 90] {
            let place = InMemory::default();
            place.open(settings.clone());
            let dying = place.dying_after(commits).open(settings.clone());
            let mut writer = ChainWriter::new(dying).unwrap();
            writer.set_mode(mode).unwrap();
            for hash in &chain {
                if writer.apply(&block(&archive, hash)).is_err() {
                    break;
                }
            }
            let _ = writer.flush();
            drop(writer);
            let index = place.open(settings.clone());
            if let Some(tip) = index.status().unwrap().tip {
                assert_eq!(root(&index, None), expected[tip.height.get() as usize]);
            }
            assert_clean(&index, "after a failed write");
            let mut writer = ChainWriter::new(index.clone()).unwrap();
            for hash in &chain {
                writer.apply(&block(&archive, hash)).unwrap();
            }
            assert_eq!(root(&index, None), *expected.last().unwrap(), "{mode:?} {commits}");
        }
    }
}

#[test]
fn a_node_made_chain_has_one_root_however_it_is_imported() {
    let data = RegtestA::default();
    let files = data.block_files();
    let mut roots = Vec::new();
    for bulk in [false, true] {
        let settings = IndexSettings::new(RegtestA::NETWORK)
            .with(|settings| settings.mmr = Some(MmrRule::Tombstone));
        let index = InMemory::default().open(settings);
        let writer = ChainWriter::new(index.clone()).unwrap();
        utxokeep_index::import_files(writer, &files, bulk, &mut |_| true).unwrap();
        assert_clean(&index, "imported");
        roots.push(root(&index, None));
    }
    let mut naive = Naive::new(MmrRule::Tombstone);
    for (height, hash) in (0..).zip(data.active_chain()) {
        let raw = match height {
            0 => IndexSettings::new(RegtestA::NETWORK).decoder.first_block().unwrap(),
            _ => files.raw(&hash).unwrap(),
        };
        naive.apply(
            &utxokeep_chains::decode_block(raw, RegtestA::NETWORK).unwrap(),
            Height::new(height),
        );
    }
    assert_eq!(roots, [naive.root(), naive.root()]);
}
