//! Applying and undoing blocks one by one at the tip, beside the bound.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use utxokeep_core::{Block, Height};
use utxokeep_index::{ChainIndex, ChainWriter, tables::TABLES};
use utxokeep_kv::{Durability, OpenMode, RocksKv};

use crate::{
    clock::Clock,
    import::{Setup, Source, disk_use},
    output,
    recorder::{recording, replay},
};

/// Blocks by the number of outputs they create and spend. A mainnet block has about 16,000.
const CLASSES: [(&str, RangeInclusive<usize>); 3] = [
    ("small blocks", 0..=1_000),
    ("mainnet-like blocks", 10_000..=25_000),
    ("stress blocks", 25_001..=usize::MAX),
];

fn changes_of(block: &Block) -> usize {
    block.inputs.len() + block.outputs.len()
}

/// Rolls the newest blocks back and applies them again, twice, and compares with the bound.
pub(crate) fn measure(setup: &Setup<'_>, database: &Path, count: u32) -> anyhow::Result<()> {
    let blocks = newest_blocks(setup, database, count)?;
    let changes: usize = blocks.iter().map(changes_of).sum();
    output::heading(&format!(
        "tip: {} newest blocks, {} changes each on average",
        blocks.len(),
        changes / blocks.len().max(1)
    ));
    let Some(base) = blocks.first().map(|block| block.header.prev) else { return Ok(()) };
    for (name, durability) in [("off", Durability::Buffered), ("on", Durability::Synced)] {
        let kv = RocksKv::open(database, TABLES, setup.options(), OpenMode::Existing)?;
        let index = ChainIndex::open(recording(kv), setup.settings(durability))?;
        let fork = index.view()?.height_of(&base)?.unwrap_or_default();
        let mut writer = ChainWriter::new(index.clone())?;

        let mut undo = Vec::new();
        let all_undo = Clock::start();
        while let Some(tip) = writer.tip().filter(|tip| tip.height > fork) {
            let clock = Clock::start();
            writer.rollback(tip.height.minus(1))?;
            undo.push(clock.stop().wall);
        }
        let undo_took = all_undo.stop();
        index.engine().hook.take();
        let mut apply = Vec::new();
        let all_apply = Clock::start();
        for block in &blocks {
            let clock = Clock::start();
            writer.apply(block)?;
            apply.push(clock.stop().wall);
        }
        let apply_took = all_apply.stop();
        let recorded = index.engine().hook.take();
        drop((writer, index));

        let copy = bare_copy(setup, database, name)?;
        let kv = RocksKv::open(&copy, TABLES, setup.options(), OpenMode::Existing)?;
        let (bound, each) = replay(&kv, recorded, durability)?;
        drop(kv);
        std::fs::remove_dir_all(copy)?;
        output::line(&format!(
            "fsync {name}: all: apply {apply_took}; undo {undo_took}; bound {bound}; ratio of apply to it {:.2} by wall, {:.2} by CPU",
            output::ratio(bound.seconds(), apply_took.seconds()),
            output::ratio(bound.cpu_seconds, apply_took.cpu_seconds),
        ));
        undo.reverse();
        for (class, range) in CLASSES {
            let of = |times: &[Duration]| -> String {
                let own = blocks.iter().zip(times);
                let own = own.filter(|(block, _)| range.contains(&changes_of(block)));
                output::percentiles(own.map(|(_, took)| *took).collect())
            };
            output::line(&format!("fsync {name}: {class}: apply {}", of(&apply)));
            output::line(&format!("fsync {name}: {class}: undo  {}", of(&undo)));
            output::line(&format!("fsync {name}: {class}: bound {}", of(&each)));
        }
    }
    // Finding single blocks in a node's files would take longer than what is measured.
    if matches!(setup.source, Source::Files(_)) {
        age(setup, database)?;
    }
    let settings = setup.settings(Durability::Buffered);
    disk_use(&ChainIndex::open_dir(database, settings, setup.options(), OpenMode::Existing)?)
}

/// The bound writes into a database of the same size: a copy, made while nobody writes.
fn bare_copy(setup: &Setup<'_>, database: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let copy = setup.dir.join(format!("bound-tip-{name}"));
    std::fs::create_dir_all(&copy)?;
    for entry in std::fs::read_dir(database)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
        }
    }
    Ok(copy)
}

pub(crate) fn newest_blocks(
    setup: &Setup<'_>,
    database: &Path,
    count: u32,
) -> anyhow::Result<Vec<Block>> {
    let settings = setup.settings(Durability::Buffered);
    let index =
        ChainIndex::open_dir(database, settings.clone(), setup.options(), OpenMode::Existing)?;
    let source = setup.blocks()?;
    let view = index.view()?;
    let (tip, _) = view.here()?;
    let floor = view.floor()?.unwrap_or_default().max(tip.minus(count));
    let mut blocks = Vec::new();
    for raw in floor.get() + 1..=tip.get() {
        if let Some(entry) = view.block(Height::new(raw))? {
            blocks.push(source.block(&entry.point(Height::new(raw)), &settings)?);
        }
    }
    Ok(blocks)
}

/// Applies the whole chain block by block without fsync and compares the cost per change of its
/// quarters: it must not grow with the age of the chain.
fn age(setup: &Setup<'_>, database: &Path) -> anyhow::Result<()> {
    let settings = setup.settings(Durability::Buffered);
    let index =
        ChainIndex::open_dir(database, settings.clone(), setup.options(), OpenMode::Existing)?;
    let source = setup.blocks()?;
    let view = index.view()?;
    let (tip, _) = view.here()?;
    let dir = setup.dir.join("age");
    let young = ChainIndex::open_dir(&dir, settings.clone(), setup.options(), OpenMode::Create)?;
    let mut writer = ChainWriter::new(young)?;
    let mut quarters = [(0.0, 0usize); 4];
    for raw in 0..=tip.get() {
        let Some(entry) = view.block(Height::new(raw))? else { continue };
        let block = source.block(&entry.point(Height::new(raw)), &settings)?;
        let clock = Clock::start();
        writer.apply(&block)?;
        writer.prune_pass()?;
        let quarter = &mut quarters[(raw * 4 / (tip.get() + 1)) as usize];
        quarter.0 += clock.stop().seconds();
        quarter.1 += changes_of(&block);
    }
    let cost = quarters
        .map(|(seconds, changes)| format!("{:.2}", output::per_change(seconds * 1e6, changes)));
    output::line(&format!(
        "age: block by block with pruning, fsync off: {} µs per change in the four quarters of the chain",
        cost.join(" / ")
    ));
    drop(writer);
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
