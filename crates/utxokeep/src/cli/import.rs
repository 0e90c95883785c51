//! `chain import`.

use std::{fs, time::Instant};

use serde::Serialize;
use utxokeep_chains::{BlockFiles, ScanOptions, ScanReport};
use utxokeep_core::{Height, Network};
use utxokeep_index::{
    ChainWriter, FollowReport, ImportProgress, ImportStage, StoreError, import_files,
};

use super::{
    args::Import,
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    open::{Index, Session},
    output::{self, Human, Lines},
    progress::Progress,
};

/// How many refused blocks are named on stderr; the JSON report has all.
const WARNINGS_MAX: usize = 20;

#[derive(Debug, Serialize)]
struct Report {
    chain: &'static str,
    network: &'static str,
    height: Option<u32>,
    best_hash: Option<String>,
    txouts: Option<u64>,
    connected: u64,
    disconnected: u64,
    reorganisations: u64,
    deepest_reorganisation: u32,
    refused: Vec<Refused>,
    waiting: usize,
    scan: Scan,
    interrupted: bool,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Refused {
    hash: String,
    height: u32,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Scan {
    blocks: u64,
    duplicates: u64,
    garbage_bytes: u64,
    padding_bytes: u64,
    truncated: u64,
    bad_headers: u64,
}

/// Imports block files.
pub(super) fn import(session: &Session, args: &Import) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let interrupt = Interrupt::watch()?;
    let asked = asked_network(session, args)?;
    // An existing database is opened first: what is wrong with it shows before a long scan.
    let existing = session.open_existing(asked)?;
    let network = existing.as_ref().map(|index| index.settings().network).or(asked);
    let network = network.ok_or(CliError::NoNetwork)?;
    let mut files = scan(session, args, network)?;
    let scan = files.report();
    let index = match existing {
        Some(index) => index,
        None => session.create(Some(network))?,
    };
    let bulk = session.config().storage.bulk && !args.no_bulk;
    let (writer, followed) = run(ChainWriter::new(index)?, &mut files, bulk, &interrupt)?;
    let is_interrupted = interrupt.is_asked();
    let seconds = started.elapsed().as_secs_f64();
    let report = Report::new(writer.index(), &followed, scan, is_interrupted, seconds)?;
    warn(&report);
    output::result(session.json(), &report)?;
    Ok(if is_interrupted { Exit::Interrupted } else { Exit::Success })
}

/// The network the arguments name, else the one the configuration names.
fn asked_network(session: &Session, args: &Import) -> anyhow::Result<Option<Network>> {
    let Some(name) = &args.network else { return Ok(session.config().network()?) };
    let chain = args.chain.as_deref().unwrap_or(&session.config().chain.chain);
    Ok(Some(Network::find(chain, name)?))
}

/// Finds the blocks. Compressed files are unpacked beside the database, where there is room.
fn scan(session: &Session, args: &Import, network: Network) -> anyhow::Result<BlockFiles> {
    let spool_dir = session.data();
    fs::create_dir_all(spool_dir)?;
    let mut progress = Progress::start("reading", true);
    let mut on_bytes = |done, total| progress.update(done, total, String::new);
    let options = ScanOptions { xor_key: args.xor_key, progress: Some(&mut on_bytes) };
    let files = BlockFiles::open(&args.files, network, spool_dir, options);
    progress.finish();
    if files.is_err() {
        // Removes only an empty directory: the one made above, when nothing came of it.
        let _ = fs::remove_dir(spool_dir);
    }
    Ok(files?)
}

type Writer = ChainWriter<utxokeep_kv::RocksKv>;

fn run(
    writer: Writer,
    files: &mut BlockFiles,
    bulk: bool,
    interrupt: &Interrupt,
) -> anyhow::Result<(Writer, FollowReport)> {
    let mut progress = Progress::start("importing", false);
    let mut on_block = |at: &ImportProgress| {
        progress.update(at.blocks_done, at.blocks_total, || {
            let height = at.height.map_or(0, Height::get);
            match at.stage {
                ImportStage::Bulk => format!("blocks, height {height} (bulk)"),
                ImportStage::Window => format!("blocks, height {height}"),
            }
        });
        !interrupt.is_asked()
    };
    let imported = import_files(writer, files, bulk, &mut on_block);
    progress.finish();
    Ok(imported?)
}

fn warn(report: &Report) {
    for Refused { hash, height, reason } in report.refused.iter().take(WARNINGS_MAX) {
        output::warning(format_args!("block {hash} at height {height} was refused: {reason}"));
    }
    let unnamed = report.refused.len().saturating_sub(WARNINGS_MAX);
    if unnamed > 0 {
        output::warning(format_args!("{unnamed} more blocks were refused; --json lists all"));
    }
    if report.waiting > 0 {
        output::warning(format_args!(
            "blocks that wait for a parent that is in none of the files: {}",
            report.waiting
        ));
    }
    if report.scan.truncated > 0 {
        output::warning(format_args!(
            "blocks that are cut off at the end of their file: {}",
            report.scan.truncated
        ));
    }
}

impl Report {
    fn new(
        index: &Index,
        followed: &FollowReport,
        scan: ScanReport,
        interrupted: bool,
        seconds: f64,
    ) -> Result<Self, StoreError> {
        let status = index.status()?;
        let refused = followed.refused.iter().map(|block| Refused {
            hash: block.hash.to_reversed_hex(),
            height: block.height.get(),
            reason: block.reason.clone(),
        });
        Ok(Self {
            chain: status.network.chain(),
            network: status.network.name(),
            height: status.tip.map(|tip| tip.height.get()),
            best_hash: status.tip.map(|tip| tip.hash.to_reversed_hex()),
            txouts: status.totals.map(|totals| totals.txouts),
            connected: followed.connected,
            disconnected: followed.disconnected,
            reorganisations: followed.reorganisations,
            deepest_reorganisation: followed.deepest_reorganisation,
            refused: refused.collect(),
            waiting: followed.waiting,
            scan: Scan {
                blocks: scan.blocks,
                duplicates: scan.duplicates,
                garbage_bytes: scan.garbage_bytes,
                padding_bytes: scan.padding_bytes,
                truncated: scan.truncated,
                bad_headers: scan.bad_headers,
            },
            interrupted,
            seconds,
        })
    }
}

impl Human for Report {
    fn describe(&self, lines: &mut Lines) {
        let state = if self.interrupted { "stopped before the end" } else { "finished" };
        lines
            .field("import", state)
            .field("network", format_args!("{}/{}", self.chain, self.network))
            .optional("height", self.height)
            .optional("best hash", self.best_hash.as_ref())
            .optional("outputs", self.txouts)
            .field("connected", self.connected)
            .field("disconnected", self.disconnected)
            .field(
                "reorganisations",
                format_args!("{} (deepest {})", self.reorganisations, self.deepest_reorganisation),
            )
            .field("refused", self.refused.len())
            .field("waiting", self.waiting)
            .field("seconds", format_args!("{:.2}", self.seconds));
    }
}
