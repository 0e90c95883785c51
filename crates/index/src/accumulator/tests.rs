//! What accumulators are told, by one that writes down what it hears.

use std::collections::BTreeMap;

use utxokeep_chains::{Simulator, SimulatorConfig, decode_block};
use utxokeep_core::{Block, Network, in_block_prevouts};
use utxokeep_kv::MemoryKv;

use super::*;
use crate::{
    ChainIndex, ChainWriter,
    side::{self, Body},
    tables::TABLES,
};

const NETWORK: Network = Network::BitcoinRegtest;

/// A change, the output, and the amount in its record.
type Heard = (Change, OutPoint, u64);

/// Writes down what it is told, block by block.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    staged: Vec<Heard>,
    blocks: Vec<Vec<Heard>>,
}

impl Recorder {
    pub(super) fn tell(&mut self, change: Change, outpoint: OutPoint, record: &UtxoRecord<'_>) {
        self.staged.push((change, outpoint, record.value));
    }

    pub(super) fn stage(&mut self, height: Height) {
        assert_eq!(self.blocks.len(), height.get() as usize);
        self.blocks.push(std::mem::take(&mut self.staged));
    }

    pub(super) fn undo(&mut self, delta: &BlockDelta) {
        assert!(self.staged.is_empty());
        self.blocks.pop();
        assert_eq!(self.blocks.len(), delta.height.get() as usize);
    }
}

fn simulated() -> Vec<Block> {
    let mut simulator = Simulator::new(SimulatorConfig {
        seed: 11,
        txs_per_block: 4..9,
        reorg_percent: 0,
        same_block_spend_percent: 30,
        ..SimulatorConfig::default()
    });
    let mut next = || decode_block(simulator.mine_next().1, NETWORK).unwrap();
    (0..150).map(|_| next()).collect()
}

fn recorded_writer(settings: IndexSettings) -> ChainWriter<MemoryKv> {
    let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
    let mut writer = ChainWriter::new(index).unwrap();
    writer.accumulators.0.push(Accumulator::Recorder(Recorder::default()));
    writer
}

fn heard(writer: &ChainWriter<MemoryKv>) -> &[Vec<Heard>] {
    match writer.accumulators.0.last() {
        Some(Accumulator::Recorder(recorder)) => &recorder.blocks,
        other => panic!("the recorder is gone: {other:?}"),
    }
}

/// What the blocks themselves say.
fn expected(blocks: &[Block]) -> Vec<Vec<Heard>> {
    let mut amounts = BTreeMap::new();
    let of_block = |block: &Block| {
        let in_block = in_block_prevouts(block);
        let mut changes = Vec::new();
        for tx in &block.txs {
            for (outpoint, at) in block.inputs_of(tx).iter().zip(tx.inputs.start as usize..) {
                if in_block[at].is_none() {
                    changes.push((Change::Spent, *outpoint, amounts[outpoint]));
                }
            }
            for (output, number) in block.outputs_of(tx).iter().zip(tx.outputs.start..) {
                let outpoint = OutPoint::new(tx.txid, output.index);
                let is_passed = in_block.contains(&Some(number));
                let change = if is_passed { Change::Passed } else { Change::Created };
                changes.push((change, outpoint, output.value));
                amounts.insert(outpoint, output.value);
            }
        }
        changes
    };
    blocks.iter().map(of_block).collect()
}

#[test]
fn every_mode_tells_every_output_in_the_order_of_its_block() {
    let blocks = simulated();
    let expected = expected(&blocks);
    for change in [Change::Created, Change::Passed, Change::Spent] {
        let count = expected.iter().flatten().filter(|heard| heard.0 == change).count();
        assert!(count > 50, "{count} outputs are {change:?}");
    }
    for (mode, bulk_batch_bytes_max) in
        [(Mode::Tip, 1), (Mode::CatchUp, 1 << 20), (Mode::Bulk, 1), (Mode::Bulk, 1 << 30)]
    {
        let settings = IndexSettings { bulk_batch_bytes_max, ..IndexSettings::new(NETWORK) };
        let mut writer = recorded_writer(settings);
        writer.set_mode(mode).unwrap();
        for block in &blocks {
            writer.apply(block).unwrap();
        }
        writer.flush().unwrap();
        assert_eq!(heard(&writer), expected, "{mode:?}, batches of {bulk_batch_bytes_max} bytes");
    }
}

#[test]
fn a_block_connected_again_creates_its_outputs_in_the_same_order() {
    let blocks = simulated();
    let expected = expected(&blocks);
    let mut writer = recorded_writer(IndexSettings { muhash: true, ..IndexSettings::new(NETWORK) });
    for block in &blocks {
        writer.apply(block).unwrap();
    }
    let tip = writer.tip().unwrap().height;
    let target = tip.minus(20);
    writer.rollback_keeping(target, true).unwrap();
    assert_eq!(heard(&writer), &expected[..=target.get() as usize]);

    for block in &blocks[target.get() as usize + 1..] {
        let height = writer.tip().unwrap().height.plus(1);
        let body = side::body(&writer.read(), height, &block.header.hash).unwrap();
        let Some(Body::Redo(redo)) = body else { panic!("no redo at {height}: {body:?}") };
        writer.apply_redo(&redo).unwrap();
    }
    assert_eq!(writer.tip().unwrap().height, tip);
    for (again, first) in heard(&writer).iter().zip(&expected) {
        // Spends may come in another order: they take no place of their own.
        let (spends, creations) = split(again);
        assert_eq!((spends, creations), split(first));
    }
}

/// Spends in order of their outputs, creations in the order they were told.
fn split(heard: &[Heard]) -> (Vec<Heard>, Vec<Heard>) {
    let (mut spends, creations): (Vec<_>, Vec<_>) =
        heard.iter().partition(|(change, ..)| *change == Change::Spent);
    spends.sort_by_key(|&(_, outpoint, _)| outpoint);
    (spends, creations)
}

#[test]
fn what_is_off_is_not_in_the_list() {
    let kv = MemoryKv::new(TABLES);
    for (enabled, muhash, kept) in
        [(true, false, 0), (true, true, 1), (false, true, 0), (false, false, 0)]
    {
        let settings = IndexSettings { enabled, muhash, ..IndexSettings::new(NETWORK) };
        assert_eq!(Accumulators::load(&kv, &settings, None).unwrap().0.len(), kept);
        assert_eq!(Kind::kept(&settings).count(), kept);
    }
}
