//! How the cost of a block grows with the number of leaves.
//!
//! A chain that creates many outputs goes into two databases. Where the tree has just outgrown a
//! power of two, some blocks in a row that are like those of the main network are applied one by
//! one and measured, first all of them to one database, then all to the other. They spend outputs of
//! any age, which is the worst that can happen to the tree: wallets prefer to spend what is young,
//! and young leaves share most of their way up.

use std::path::Path;

use utxokeep_chains::{HeavyBlocks, Simulator, SimulatorConfig, decode_block};
use utxokeep_core::Block;
use utxokeep_index::{ChainWriter, Mode};
use utxokeep_kv::{Durability, RocksKv};

use super::{Args, KINDS, Sums, disk_use, open, setup};
use crate::{clock::Clock, output};

/// Blocks in a row; those after the first [`WARM_UP`] are measured.
const LIKE_MAINNET: u32 = 12;
const WARM_UP: usize = 4;
/// Blocks from one such row to the next.
const CYCLE: u32 = 40;
/// Height of the first row, when there is enough to spend.
const FIRST: u32 = 320;
/// The first size is two to this power.
const LEAVES_LOG2_MIN: u32 = 20;

/// Rows of blocks like those of the main network, the others with very many outputs. No output is
/// forgotten: what is spent is of any age.
fn config(leaves_log2_max: u32) -> SimulatorConfig {
    let bench = SimulatorConfig::bench();
    // In that chain: the first kind is like the main network, the second creates.
    let [like_mainnet, create, ..] = &bench.heavy[..] else { return bench };
    let rows = (0..LIKE_MAINNET).map(|phase| HeavyBlocks {
        from_height: FIRST,
        every: CYCLE,
        phase,
        ..like_mainnet.clone()
    });
    let creating = HeavyBlocks { from_height: 120, every: 1, phase: 0, ..create.clone() };
    let heavy = rows.chain([creating]).collect();
    SimulatorConfig { heavy, coins_max: 2 << leaves_log2_max, ..bench }
}

pub(crate) fn measure(dir: &Path, args: &Args) -> anyhow::Result<()> {
    output::heading("Merkle mountain range: growth, fsync off");
    let mut simulator = Simulator::new(config(args.leaves_log2_max));
    let mut writers = Vec::new();
    for (kind, mmr) in KINDS {
        let setup = setup(dir, args, mmr);
        let database = dir.join(format!("mmr-growth-{kind}"));
        let index = open(&database, setup.settings(Durability::Buffered), &setup)?;
        writers.push(ChainWriter::new(index)?);
    }
    for exponent in LEAVES_LOG2_MIN..=args.leaves_log2_max {
        grow(&mut simulator, &mut writers, 1 << exponent)?;
        let blocks = (0..LIKE_MAINNET).map(|_| next_block(&mut simulator));
        let blocks = blocks.collect::<anyhow::Result<Vec<_>>>()?;
        let sums = writers.iter_mut().map(|writer| row(writer, &blocks));
        describe(exponent, &blocks, &sums.collect::<anyhow::Result<Vec<_>>>()?);
    }
    disk_use(writers[1].index())
}

fn next_block(simulator: &mut Simulator) -> anyhow::Result<Block> {
    Ok(decode_block(simulator.mine_next().1, Simulator::NETWORK)?)
}

/// Applies blocks to both until the tree has so many leaves and a row of blocks begins.
fn grow(
    simulator: &mut Simulator,
    writers: &mut [ChainWriter<RocksKv>],
    until: u64,
) -> anyhow::Result<()> {
    for writer in &mut *writers {
        writer.set_mode(Mode::Bulk)?;
    }
    let mut leaves = writers[1].index().view()?.mmr_standing()?.map_or(0, |mmr| mmr.leaves);
    loop {
        let next = simulator.tip_height().get() + 1;
        if leaves >= until && next >= FIRST && next.is_multiple_of(CYCLE) {
            break;
        }
        let block = next_block(simulator)?;
        leaves += block.outputs.len() as u64;
        for writer in &mut *writers {
            writer.apply(&block)?;
        }
    }
    for writer in writers {
        writer.set_mode(Mode::Tip)?;
        // Both begin with tables at rest: what is measured is the blocks, not what came before.
        writer.index().compact()?;
    }
    Ok(())
}

/// Applies blocks one by one.
fn row(writer: &mut ChainWriter<RocksKv>, blocks: &[Block]) -> anyhow::Result<Sums> {
    let mut sums = Sums::default();
    for (number, block) in blocks.iter().enumerate() {
        let clock = Clock::start();
        writer.apply(block)?;
        if number >= WARM_UP {
            sums.apply += clock.stop();
            sums.blocks += 1;
        }
    }
    // Nothing of it may be left for the other one to pay.
    writer.index().compact()?;
    Ok(sums)
}

fn describe(exponent: u32, blocks: &[Block], sums: &[Sums]) {
    let each = |sums: &Sums| {
        let count = f64::from(sums.blocks) / 1e3;
        let (wall, cpu) = (sums.apply.seconds() / count, sums.apply.cpu_seconds / count);
        format!("{wall:.1} ms wall, {cpu:.1} ms CPU")
    };
    let [classic, mmr] = sums else { return };
    let (inputs, outputs): (Vec<_>, Vec<_>) =
        blocks.iter().map(|block| (block.inputs.len(), block.outputs.len())).unzip();
    let mean = |counts: Vec<usize>| counts.iter().sum::<usize>() / blocks.len().max(1);
    output::line(&format!(
        "2^{exponent} leaves, blocks of {} inputs and {} outputs: classic {}; mmr {}; {:.2} of classic by wall, {:.2} by CPU",
        mean(inputs),
        mean(outputs),
        each(classic),
        each(mmr),
        output::ratio(classic.apply.seconds(), mmr.apply.seconds()),
        output::ratio(classic.apply.cpu_seconds, mmr.apply.cpu_seconds),
    ));
}
