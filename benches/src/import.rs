//! Importing a chain, with fsync per batch and without, beside the bound.

use std::path::{Path, PathBuf};

use utxokeep_chains::{BlockFiles, BlockSource, ScanOptions, cardano::ImmutableDb};
use utxokeep_core::{Block, ChainPoint, Network, mmr::MmrRule};
use utxokeep_index::{
    ChainIndex, ChainWriter, IndexSettings, import_files, import_immutable, tables::TABLES,
};
use utxokeep_kv::{Durability, Kv, OpenMode, RocksKv, RocksOptions};

use crate::{
    clock::{Clock, Took, peak_memory_bytes},
    output,
    recorder::{Write, as_commits, bare, recording, replay},
};

pub(crate) struct Setup<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) source: Source,
    pub(crate) network: Network,
    pub(crate) cache_mib: usize,
    /// Whether the index keeps a Merkle mountain range.
    pub(crate) mmr: Option<MmrRule>,
}

/// Where the blocks are.
pub(crate) enum Source {
    /// Bitcoin's block files.
    Files(Vec<PathBuf>),
    /// The immutable database of a Cardano node.
    Immutable(PathBuf),
}

/// An opened [`Source`].
pub(crate) enum Blocks {
    Files(BlockFiles),
    Immutable(ImmutableDb),
}

impl Blocks {
    /// Imports everything.
    fn import<K: Kv>(&self, writer: ChainWriter<K>) -> anyhow::Result<ChainWriter<K>> {
        let (writer, _) = match self {
            Self::Files(files) => import_files(writer, files, true, &mut |_| true)?,
            Self::Immutable(db) => import_immutable(writer, db, true, &mut |_| true)?,
        };
        Ok(writer)
    }

    /// Reads and decodes every block of a node's database on one thread, and does nothing else.
    fn decode_all(&self, settings: &IndexSettings) -> anyhow::Result<Option<Took>> {
        let Self::Immutable(db) = self else { return Ok(None) };
        let clock = Clock::start();
        for raw in db.blocks_from(db.start()) {
            settings.decoder.decode(raw?.bytes)?;
        }
        Ok(Some(clock.stop()))
    }

    /// One block of the followed chain.
    pub(crate) fn block(
        &self,
        point: &ChainPoint,
        settings: &IndexSettings,
    ) -> anyhow::Result<Block> {
        let raw = match self {
            Self::Files(_) if point.hash == settings.network().genesis_hash() => {
                settings.decoder.first_block()
            }
            Self::Files(files) => Some(files.raw(&point.hash)?),
            Self::Immutable(db) => db
                .find(point.slot, &point.hash)?
                .and_then(|position| db.blocks_from(position).next())
                .transpose()?
                .map(|raw| raw.bytes),
        };
        let raw = raw.ok_or_else(|| anyhow::anyhow!("the source lacks a block of its own"))?;
        Ok(settings.decoder.decode(raw)?)
    }
}

impl Setup<'_> {
    pub(crate) fn settings(&self, durability: Durability) -> IndexSettings {
        let mut settings = IndexSettings::new(self.network);
        settings.durability = durability;
        settings.mmr = self.mmr;
        settings.bulk_batch_bytes_max = (self.cache_mib << 20) / 2;
        settings
    }

    pub(crate) fn options(&self) -> RocksOptions {
        RocksOptions::within((self.cache_mib << 20) / 2)
    }

    pub(crate) fn blocks(&self) -> anyhow::Result<Blocks> {
        Ok(match &self.source {
            Source::Files(files) => {
                let options = ScanOptions::default();
                Blocks::Files(BlockFiles::open(files, self.network, self.dir, options)?)
            }
            Source::Immutable(dir) => Blocks::Immutable(ImmutableDb::open(dir)?),
        })
    }
}

/// Imports into `dir` and answers how long that took, everything included.
pub(crate) fn import(
    setup: &Setup<'_>,
    dir: &Path,
    durability: Durability,
) -> anyhow::Result<Took> {
    let clock = Clock::start();
    let blocks = setup.blocks()?;
    let settings = setup.settings(durability);
    let index = ChainIndex::open_dir(dir, settings, setup.options(), OpenMode::Create)?;
    let writer = ChainWriter::new(index)?;
    blocks.import(writer)?;
    Ok(clock.stop())
}

/// The rows an import writes.
fn recorded(setup: &Setup<'_>, dir: &Path) -> anyhow::Result<Vec<Write>> {
    let kv = RocksKv::open(dir, TABLES, setup.options(), OpenMode::Create)?;
    let index = ChainIndex::open(recording(kv), setup.settings(Durability::Buffered))?;
    let writer = ChainWriter::new(index.clone())?;
    drop(setup.blocks()?.import(writer)?);
    Ok(index.engine().hook.take())
}

/// Measures the import and leaves the database of the last run behind.
pub(crate) fn measure(setup: &Setup<'_>) -> anyhow::Result<PathBuf> {
    output::heading(&format!("import, cache {} MiB", setup.cache_mib));
    let mut database = PathBuf::new();
    let mut times = Vec::new();
    for (name, durability) in [("off", Durability::Buffered), ("on", Durability::Synced)] {
        database = setup.dir.join(format!("import-fsync-{name}"));
        let took = import(setup, &database, durability)?;
        describe(setup, &database, name, took)?;
        times.push((name, durability, took));
    }
    if let Some(took) = setup.blocks()?.decode_all(&setup.settings(Durability::Buffered))? {
        output::line(&format!("reading and decoding alone, one thread: {took}"));
    }
    output::line(&format!("peak memory so far: {:.0} MB", output::mega(peak_memory_bytes())));
    let writes = recorded(setup, &setup.dir.join("recorded"))?;
    for (name, durability, took) in times {
        let dir = setup.dir.join(format!("bound-{name}"));
        let kv = bare(&dir, setup.options())?;
        let (bound, _) = replay(&kv, writes.clone(), durability)?;
        drop(kv);
        std::fs::remove_dir_all(&dir)?;
        describe_bound(name, "the same rows as sorted table files", bound, took);
        let kv = bare(&dir, setup.options())?;
        let (bound, _) = replay(&kv, as_commits(&writes), durability)?;
        drop(kv);
        std::fs::remove_dir_all(dir)?;
        describe_bound(name, "the same rows as sorted write batches", bound, took);
    }
    Ok(database)
}

fn describe_bound(fsync: &str, how: &str, bound: Took, took: Took) {
    output::line(&format!(
        "fsync {fsync}: bound, {how} into bare RocksDB: {bound}; ratio {:.2} by wall, {:.2} by CPU",
        output::ratio(bound.seconds(), took.seconds()),
        output::ratio(bound.cpu_seconds, took.cpu_seconds),
    ));
}

fn describe(setup: &Setup<'_>, dir: &Path, fsync: &str, took: Took) -> anyhow::Result<()> {
    let settings = setup.settings(Durability::Buffered);
    let index = ChainIndex::open_dir(dir, settings, setup.options(), OpenMode::Existing)?;
    let view = index.view()?;
    let (tip, entry) = view.here()?;
    let (mut outputs, mut inputs) = (0, 0);
    for raw in 0..=tip.get() {
        if let Some(block) = view.block(utxokeep_core::Height::new(raw))? {
            outputs += u64::from(block.created);
            inputs += u64::from(block.spent);
        }
    }
    output::line(&format!(
        "fsync {fsync}: {took}; {} blocks ({}), {outputs} outputs ({}), {inputs} inputs ({}), {} live",
        tip.get() + 1,
        output::per_second(u64::from(tip.get()) + 1, took.seconds()),
        output::per_second(outputs, took.seconds()),
        output::per_second(inputs, took.seconds()),
        entry.totals.txouts,
    ));
    Ok(())
}

/// Disk use, after a full compaction so that it does not depend on timing.
pub(crate) fn disk_use<K: Kv>(index: &ChainIndex<K>) -> anyhow::Result<()> {
    index.compact()?;
    let status = index.status()?;
    let live = status.totals.map_or(0, |totals| totals.txouts);
    let size = |names: &[&str]| -> u64 {
        status.tables.iter().filter(|t| names.contains(&t.name)).map(|t| t.disk_bytes).sum()
    };
    let set = size(&["utxo_unspent", "utxo_addr"]);
    let undo = size(&["utxo_spent", "utxo_addr_spent", "utxo_block_delta"]);
    let (tip, floor) = (status.tip.map(|tip| tip.height), status.rollback_floor);
    let window = tip.zip(floor).and_then(|(tip, floor)| floor.depth_below(tip)).unwrap_or(1);
    output::line(&format!(
        "on disk, compacted: {:.1} B per live output with its address row (Yaci's estimate with two indexes: 274 B, with one: 204 B); {:.1} kB of undo per block over {window} blocks",
        output::per(set, live),
        output::per(undo, u64::from(window)) / 1e3,
    ));
    for table in status.tables.iter().filter(|table| table.rows_estimate > 0) {
        output::line(&format!(
            "  {:<18} {:>10.2} MB {:>10} rows",
            table.name,
            output::mega(table.disk_bytes),
            table.rows_estimate
        ));
    }
    Ok(())
}
