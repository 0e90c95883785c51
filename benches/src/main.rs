//! Measures the chain index beside its bound: the same rows written to bare RocksDB with the same
//! options, in the same run. Ratios travel between machines, absolute figures do not.

mod clock;
mod import;
mod live;
mod mmr;
mod output;
mod persister;
mod pruner;
mod reads;
mod recorder;
mod store;
mod tip;
mod txstore;
mod wakeup;
mod wallet;

use std::path::{Path, PathBuf};

use clap::Parser;
use utxokeep_chains::{BlockFileWriter, Simulator, SimulatorConfig};
use utxokeep_core::Network;

/// Measure utxokeep's chain index.
#[derive(Debug, Parser)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct Args {
    /// Block files to import in place of the generated chain.
    files: Vec<PathBuf>,
    /// Network of the files.
    #[arg(long, default_value = "regtest")]
    network: String,
    /// Blocks of the generated chain.
    #[arg(long, default_value_t = SimulatorConfig::BENCH_BLOCKS)]
    blocks: u32,
    /// Memory for caches, write buffers and batches, in MiB.
    #[arg(long, default_value_t = 512)]
    cache_mib: usize,
    /// Newest blocks that are undone and applied again one by one.
    #[arg(long, default_value_t = 200)]
    tip_blocks: u32,
    /// Where databases are made; a temporary directory by default.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Measure the import only.
    #[arg(long)]
    import_only: bool,
    /// Measure only the node store.
    #[arg(long)]
    txstore_only: bool,
    /// Measure only the engine of the node store that this URL names, beside a bare client of it.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Measure only the pruner.
    #[arg(long)]
    pruner_only: bool,
    /// Measure only the pruner on chains of transactions, on PostgreSQL.
    #[arg(long)]
    prune_chains_only: bool,
    /// Measure only sizes and numbers of chunks of the pruner.
    #[arg(long)]
    prune_chunks_only: bool,
    /// Records that are due while the latency of spends is measured.
    #[arg(long, default_value_t = 1_000_000)]
    prune_due: u64,
    /// Measure only the wallet ledger, at every size.
    #[arg(long)]
    wallet_only: bool,
    /// Coins of the wallet that is measured; 10,000 unless the wallet ledger is measured alone.
    #[arg(long)]
    wallet_coins: Option<u64>,
    /// Measure only how soon a block reaches the wallet ledger.
    #[arg(long)]
    wakeup_only: bool,
    /// Measure only how soon a block that a real Bitcoin Core is given is seen.
    #[arg(long)]
    live_only: bool,
    /// Measure only the Merkle mountain range, beside an index without one.
    #[arg(long)]
    mmr_only: bool,
    /// Exponent of two: the most leaves for which the cost of a block is measured.
    #[arg(long, default_value_t = 22, value_parser = clap::value_parser!(u32).range(20..=28))]
    mmr_leaves_log2: u32,
    /// Measure only the block persister.
    #[arg(long)]
    persister_only: bool,
    /// Measure only the Cardano chain.
    #[arg(long)]
    cardano_only: bool,
    /// Immutable database of a Cardano node on the preview network, in place of the test data.
    #[arg(long)]
    preview: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let dir = match &args.dir {
        Some(dir) => tempfile::TempDir::new_in(dir)?,
        None => tempfile::TempDir::new()?,
    };
    if let Some(url) = &args.store {
        return store::measure(url);
    }
    if args.txstore_only {
        return txstore::measure(dir.path());
    }
    if args.pruner_only {
        return pruner::measure(dir.path(), args.prune_due);
    }
    if args.prune_chains_only {
        return pruner::measure_chains();
    }
    if args.prune_chunks_only {
        return pruner::measure_chunks(dir.path());
    }
    if args.wallet_only {
        let sizes = args.wallet_coins.map_or(wallet::SIZES.to_vec(), |coins| vec![coins]);
        return wallet::measure(dir.path(), &sizes);
    }
    if args.wakeup_only {
        return wakeup::measure(dir.path());
    }
    if args.live_only {
        return live::measure(dir.path());
    }
    if args.persister_only {
        return measure_persister(&args, dir.path());
    }
    if args.mmr_only {
        return measure_mmr(&args, dir.path());
    }
    if !args.cardano_only {
        let network = Network::find("bitcoin", &args.network)?;
        let files = files(&args, dir.path())?;
        measure(&args, dir.path(), import::Source::Files(files), network)?;
    }
    let preview = args.preview.clone().or_else(|| utxokeep_testkit::preview_immutable(dir.path()));
    if let Some(preview) = preview {
        let dir = dir.path().join("cardano");
        std::fs::create_dir_all(&dir)?;
        output::heading("Cardano: the preview network from its first block");
        measure(&args, &dir, import::Source::Immutable(preview), Network::CardanoPreview)?;
    }
    if args.import_only || args.cardano_only {
        return Ok(());
    }
    txstore::measure(dir.path())?;
    pruner::measure(dir.path(), args.prune_due)?;
    wakeup::measure(dir.path())?;
    live::measure(dir.path())?;
    measure_mmr(&args, dir.path())?;
    measure_persister(&args, dir.path())?;
    wallet::measure(dir.path(), &[args.wallet_coins.unwrap_or(10_000)])
}

fn measure(
    args: &Args,
    dir: &Path,
    source: import::Source,
    network: Network,
) -> anyhow::Result<()> {
    let setup = import::Setup { dir, source, network, cache_mib: args.cache_mib, mmr: None };
    let database = import::measure(&setup)?;
    if !args.import_only {
        tip::measure(&setup, &database, args.tip_blocks)?;
        reads::measure(&setup, &database)?;
    }
    Ok(())
}

/// The block files that were named, or a generated one.
fn files(args: &Args, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if args.files.is_empty() {
        Ok(vec![generate(dir.join("chain.dat"), args.blocks)?])
    } else {
        Ok(args.files.clone())
    }
}

fn measure_persister(args: &Args, dir: &Path) -> anyhow::Result<()> {
    let network = Network::find("bitcoin", &args.network)?;
    let source = import::Source::Files(files(args, dir)?);
    persister::measure(&import::Setup {
        dir,
        source,
        network,
        cache_mib: args.cache_mib,
        mmr: None,
    })
}

fn measure_mmr(args: &Args, dir: &Path) -> anyhow::Result<()> {
    let what = mmr::Args {
        files: files(args, dir)?,
        network: Network::find("bitcoin", &args.network)?,
        cache_mib: args.cache_mib,
        tip_blocks: args.tip_blocks,
        leaves_log2_max: args.mmr_leaves_log2,
    };
    mmr::measure(dir, &what)?;
    mmr::measure_growth(dir, &what)
}

fn generate(path: PathBuf, blocks: u32) -> anyhow::Result<PathBuf> {
    let clock = clock::Clock::start();
    let mut simulator = Simulator::new(SimulatorConfig::bench());
    let mut writer = BlockFileWriter::create(&path, Simulator::NETWORK, None)?;
    for _ in 0..blocks {
        writer.push(&simulator.mine_next().1)?;
    }
    writer.finish()?;
    let bytes = std::fs::metadata(&path)?.len();
    output::line(&format!(
        "generated chain: {blocks} blocks, {:.1} MB, in {}",
        output::mega(bytes),
        clock.stop()
    ));
    Ok(path)
}
