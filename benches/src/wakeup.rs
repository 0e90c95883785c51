//! How soon a committed block reaches the wallet ledger that follows the chain log.
//!
//! The bound is the same ledger, told of the same blocks by a plain call: what is above it is the way
//! through the log, the signal and the thread.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use utxokeep::{consumers::FollowerState, wallet_follow::WalletFollower};
use utxokeep_chains::{
    BlockDecoder, BodyFinder, RecentBlocks, RecentLimits, Simulator, SimulatorConfig,
};
use utxokeep_core::{Block, Height};
use utxokeep_index::{ChainIndex, ChainWriter, IndexSettings, tables::TABLES};
use utxokeep_kv::{Durability, OpenMode, RocksKv, RocksOptions};
use utxokeep_sql::{Database, Options};
use utxokeep_wallet::{Ledger, Limits, Micros, NewAddress};

use crate::output;

const BLOCKS: usize = 300;
const NOW: Micros = Micros::new(1_700_000_000_000_000);
/// Between two looks at the ledger.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Commits blocks one by one and waits for each to be in the ledger.
pub(crate) fn measure(dir: &Path) -> anyhow::Result<()> {
    output::heading(&format!(
        "from a committed block to the wallet's row: {BLOCKS} blocks, SQLite"
    ));
    let config = SimulatorConfig { reorg_percent: 0, ..SimulatorConfig::default() };
    let decoder = BlockDecoder::new(Simulator::NETWORK);
    let mut simulator = Simulator::new(config.clone());
    let blocks: Vec<Arc<Block>> = (0..=BLOCKS)
        .map(|_| Ok(Arc::new(decoder.decode(simulator.mine_next().1)?)))
        .collect::<anyhow::Result<_>>()?;
    let scripts = Simulator::scripts(&config);
    for (name, fsync) in [("off", false), ("on", true)] {
        let place = dir.join(format!("wakeup-{name}"));
        std::fs::create_dir_all(&place)?;
        let followed = run(&place.join("followed"), &blocks, &scripts, &decoder, fsync, true)?;
        let called = run(&place.join("called"), &blocks, &scripts, &decoder, fsync, false)?;
        let (p50, p99) = (percentile(&followed, 50), percentile(&followed, 99));
        output::line(&format!(
            "fsync {name}: p50 {:.2} ms, p99 {:.2} ms; by a plain call p50 {:.2} ms, p99 {:.2} ms",
            millis(p50),
            millis(p99),
            millis(percentile(&called, 50)),
            millis(percentile(&called, 99)),
        ));
    }
    Ok(())
}

/// The time of each block: by the thread that follows the log, or by a call.
fn run(
    dir: &Path,
    blocks: &[Arc<Block>],
    scripts: &[Vec<u8>],
    decoder: &BlockDecoder,
    fsync: bool,
    by_log: bool,
) -> anyhow::Result<Vec<Duration>> {
    let durability = if fsync { Durability::Synced } else { Durability::Buffered };
    let kv = RocksKv::open(dir, TABLES, RocksOptions::within(64 << 20), OpenMode::Create)?;
    let settings =
        IndexSettings::new(Simulator::NETWORK).with(|settings| settings.durability = durability);
    let index = ChainIndex::open(kv, settings)?;
    let ledger = ledger(&dir.with_extension("sqlite"), scripts, fsync)?;
    let limits = RecentLimits { blocks_max: BLOCKS + 1, bytes_max: 1 << 30 };
    let recent = RecentBlocks::new(limits);
    let bodies = BodyFinder::new(decoder.clone()).with_recent(recent.clone());
    let mut follower =
        Some(WalletFollower::new(ledger.clone(), index.clone(), bodies, Height::GENESIS));
    let mut thread = None;
    let mut writer = ChainWriter::new(index)?;
    let mut times = Vec::with_capacity(blocks.len());
    for block in blocks {
        recent.keep(block);
        writer.apply(block)?;
        let committed = Instant::now();
        if by_log {
            if let Some(follower) = follower.take() {
                let long = Duration::from_secs(3_600);
                thread = Some(follower.in_background(long, FollowerState::default())?);
            }
            while ledger.tip(Simulator::NETWORK)?.map(|(_, hash)| hash) != Some(block.header.hash) {
                thread::sleep(LOOK_EVERY);
            }
        } else if let Some(follower) = &mut follower {
            follower.step(&|| false)?;
        }
        times.push(committed.elapsed());
    }
    drop(thread);
    Ok(times.split_off(1))
}

fn ledger(file: &Path, scripts: &[Vec<u8>], fsync: bool) -> anyhow::Result<Ledger> {
    let durability =
        if fsync { utxokeep_sql::Durability::Synced } else { utxokeep_sql::Durability::Relaxed };
    let options = Options::default().with(|settings| settings.durability = durability);
    let database = Database::open(&format!("sqlite:{}", file.display()), &options)?;
    let ledger = Ledger::open(database, Limits::default(), NOW)?;
    let wallet = ledger.create_wallet("measured", Simulator::NETWORK, NOW)?.id;
    let watched: Vec<NewAddress> = scripts
        .iter()
        // A ledger watches none that are longer.
        .filter(|script| (1..=1_000).contains(&script.len()))
        .step_by(10)
        .map(|script| NewAddress { script: script.clone(), address: None, spend_weight: None })
        .collect();
    ledger.add_addresses(wallet, &watched, NOW)?;
    Ok(ledger)
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
