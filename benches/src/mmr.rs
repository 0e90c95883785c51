//! What a Merkle mountain range costs: the same blocks with one and without, in the same run.

mod growth;
mod proofs;

use std::path::{Path, PathBuf};

use utxokeep_core::{Block, Network, mmr::MmrRule};
use utxokeep_index::{ChainIndex, ChainWriter, IndexSettings};
use utxokeep_kv::{Durability, OpenMode, RocksKv};

use crate::{
    clock::{Clock, Took},
    import::{Setup, Source, import},
    output,
    tip::newest_blocks,
};

/// Kinds of blocks, since what a block spends costs the tree more than what it creates. A mainnet
/// block does 8,000 of each.
const CLASSES: [&str; 3] = ["small blocks", "mainnet-like blocks", "blocks that only create"];

fn class(block: &Block) -> Option<usize> {
    match (block.inputs.len(), block.outputs.len()) {
        (..=500, ..=500) => Some(0),
        (3_000.., 3_000..) => Some(1),
        (..=500, 3_000..) => Some(2),
        _ => None,
    }
}

/// Times that the newest blocks are undone and applied, with a range and without in turn.
const ROUNDS: u32 = 3;

/// Names of the two that are compared.
const KINDS: [(&str, Option<MmrRule>); 2] = [("classic", None), ("mmr", Some(MmrRule::Tombstone))];

/// What is measured.
pub(crate) struct Args {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) network: Network,
    pub(crate) cache_mib: usize,
    pub(crate) tip_blocks: u32,
    /// Exponent of two: the most leaves of the growing tree.
    pub(crate) leaves_log2_max: u32,
}

pub(crate) use growth::measure as measure_growth;

/// Measures import, tip, proofs and size on one chain.
pub(crate) fn measure(dir: &Path, args: &Args) -> anyhow::Result<()> {
    output::heading("Merkle mountain range: import");
    let mut pairs = Vec::new();
    for (fsync, durability) in [("off", Durability::Buffered), ("on", Durability::Synced)] {
        let mut times = Vec::new();
        for (kind, mmr) in KINDS {
            let setup = setup(dir, args, mmr);
            let database = dir.join(format!("mmr-{kind}-fsync-{fsync}"));
            let took = import(&setup, &database, durability)?;
            output::line(&format!("fsync {fsync}: {kind}: {took}"));
            times.push(took);
            pairs.push((setup, database));
        }
        describe_ratio(&format!("fsync {fsync}: import"), times[0], times[1]);
    }
    // The databases of the last pair go on.
    let pairs = pairs.split_off(KINDS.len());
    let blocks = newest_blocks(&pairs[0].0, &pairs[0].1, args.tip_blocks)?;
    tip(&pairs, &blocks)?;
    let (setup, database) = &pairs[1];
    let index = open(database, setup.settings(Durability::Buffered), setup)?;
    proofs::measure(&index)?;
    disk_use(&index)?;
    drop(index);
    for (_, database) in &pairs {
        std::fs::remove_dir_all(database)?;
    }
    Ok(())
}

fn setup<'a>(dir: &'a Path, args: &Args, mmr: Option<MmrRule>) -> Setup<'a> {
    let source = Source::Files(args.files.clone());
    Setup { dir, source, network: args.network, cache_mib: args.cache_mib, mmr }
}

fn open(
    database: &Path,
    settings: IndexSettings,
    setup: &Setup<'_>,
) -> anyhow::Result<ChainIndex<RocksKv>> {
    Ok(ChainIndex::open_dir(database, settings, setup.options(), OpenMode::Create)?)
}

/// Speed of the second as a part of that of the first.
fn describe_ratio(what: &str, classic: Took, mmr: Took) {
    output::line(&format!(
        "{what}: mmr at {:.2} of classic by wall, {:.2} by CPU",
        output::ratio(classic.seconds(), mmr.seconds()),
        output::ratio(classic.cpu_seconds, mmr.cpu_seconds),
    ));
}

/// Sums of a class of blocks.
#[derive(Default, Clone, Copy)]
struct Sums {
    blocks: u32,
    apply: Took,
    undo: Took,
}

/// Undoes the newest blocks and applies them again one by one, each a batch of its own.
fn tip(pairs: &[(Setup<'_>, PathBuf)], blocks: &[Block]) -> anyhow::Result<()> {
    output::heading(&format!("Merkle mountain range: {} newest blocks one by one", blocks.len()));
    for (fsync, durability) in [("off", Durability::Buffered), ("on", Durability::Synced)] {
        let mut sums = [[Sums::default(); CLASSES.len()]; KINDS.len()];
        for _ in 0..ROUNDS {
            for ((setup, database), sums) in pairs.iter().zip(&mut sums) {
                let index = open(database, setup.settings(durability), setup)?;
                round(&mut ChainWriter::new(index)?, blocks, sums)?;
            }
        }
        for (number, class) in CLASSES.iter().enumerate() {
            let [classic, mmr] = sums.map(|sums| sums[number]);
            if classic.blocks == 0 {
                continue;
            }
            for (kind, sums) in [("classic", classic), ("mmr", mmr)] {
                let count = f64::from(sums.blocks) / 1e3;
                output::line(&format!(
                    "fsync {fsync}: {class}: {kind}: apply {:.2} ms wall, {:.2} ms CPU; undo {:.2} ms wall, {:.2} ms CPU (mean of {})",
                    sums.apply.seconds() / count,
                    sums.apply.cpu_seconds / count,
                    sums.undo.seconds() / count,
                    sums.undo.cpu_seconds / count,
                    sums.blocks,
                ));
            }
            describe_ratio(&format!("fsync {fsync}: {class}: apply"), classic.apply, mmr.apply);
            describe_ratio(&format!("fsync {fsync}: {class}: undo"), classic.undo, mmr.undo);
        }
    }
    Ok(())
}

fn round(
    writer: &mut ChainWriter<RocksKv>,
    blocks: &[Block],
    sums: &mut [Sums; CLASSES.len()],
) -> anyhow::Result<()> {
    for block in blocks.iter().rev() {
        let tip = writer.tip().ok_or_else(|| anyhow::anyhow!("the chain is empty"))?;
        let clock = Clock::start();
        writer.rollback(tip.height.minus(1))?;
        if let Some(class) = class(block) {
            sums[class].undo += clock.stop();
        }
    }
    for block in blocks {
        let clock = Clock::start();
        writer.apply(block)?;
        if let Some(class) = class(block) {
            sums[class].apply += clock.stop();
            sums[class].blocks += 1;
        }
    }
    Ok(())
}

/// Bytes that the range takes, after a full compaction.
fn disk_use(index: &ChainIndex<RocksKv>) -> anyhow::Result<()> {
    index.compact()?;
    let status = index.status()?;
    let Some(mmr) = status.mmr else { return Ok(()) };
    let size = |name: &str| -> u64 {
        status.tables.iter().filter(|table| table.name == name).map(|table| table.disk_bytes).sum()
    };
    let (nodes, places) = (size("utxo_mmr_nodes"), size("utxo_mmr_places"));
    output::line(&format!(
        "{} leaves, {} live, {} stored hashes; on disk, compacted: nodes {:.1} MB, leaf numbers {:.1} MB; {:.1} B per live output",
        mmr.leaves,
        mmr.live_leaves,
        mmr.nodes,
        output::mega(nodes),
        output::mega(places),
        output::per(nodes + places, mmr.live_leaves),
    ));
    Ok(())
}
