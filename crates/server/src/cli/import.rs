//! `chain import`.

use std::time::Instant;

use serde::Serialize;
use utxokeep::engine::chain;
use utxokeep_chains::WantedBlock;
use utxokeep_core::{Height, Network, hex_encode};
use utxokeep_index::{
    ChainWriter, FollowError, FollowReport, ImportProgress, ImportStage, IndexError, OnProgress,
    REFUSED_LISTED_MAX, Readers, import_files, import_immutable,
};

use super::{
    args::Import,
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    mmr::RawBlocks,
    open::{Index, Session},
    output::{self, Human, Lines},
    progress::Progress,
    sources::{Scan, Sources},
};
use crate::{config::ConfigError, json::Partial};

/// How many refused blocks are named on stderr; the JSON report has all.
const WARNINGS_MAX: usize = 20;

#[derive(Debug, Serialize)]
struct Report {
    chain: &'static str,
    network: &'static str,
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u64>,
    best_hash: Option<String>,
    txouts: Option<u64>,
    connected: u64,
    disconnected: u64,
    reorganisations: u64,
    deepest_reorganisation: u32,
    refused: Vec<Refused>,
    waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_inputs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mmr_root: Option<String>,
    scan: Scan,
    interrupted: bool,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Refused {
    hash: String,
    height: u32,
    reason: String,
    /// Its bytes are not what its header says.
    damaged: bool,
}

/// Imports blocks.
pub(super) fn import(session: &Session, args: &Import) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let interrupt = Interrupt::watch()?;
    let session = &session.for_import(args)?;
    let asked = asked_network(session, args)?;
    // An existing database is opened first: what is wrong with it shows before a long scan.
    let existing = chain::open_existing(session.config(), asked, session.mode())?;
    let network = existing.as_ref().map(|index| index.settings().network()).or(asked);
    let network = network.ok_or(CliError::NoNetwork)?;
    check_flags(args, network)?;
    let settings = match &existing {
        Some(index) => index.settings().clone(),
        None => session.config().settings(network, None)?,
    };
    let first = first_missing(existing.as_ref())?;
    let sources = Sources::open(session, args, &settings.decoder, first, &interrupt)?;
    let index = match existing {
        Some(index) => index,
        None => chain::create(session.config(), settings)?,
    };
    let bulk = session.config().storage.bulk && !args.no_bulk;
    let mut writer = ChainWriter::new(index)?;
    catch_up(&mut writer, &sources, &interrupt)?;
    let (writer, followed) = run(writer, &sources, bulk, &interrupt)?;
    let is_interrupted = interrupt.is_asked();
    let seconds = started.elapsed().as_secs_f64();
    let report = Report::new(writer.index(), &followed, sources.scan, is_interrupted, seconds)?;
    tracing::info!(
        height = report.height,
        hash = report.best_hash,
        connected = report.connected,
        mmr_root = report.mmr_root,
        "imported"
    );
    warn(&report);
    output::result(session.json(), &report)?;
    Ok(if is_interrupted { Exit::Interrupted } else { report.exit() })
}

/// The lowest height of which a block may be missing or another one: all below are settled.
fn first_missing(existing: Option<&Index>) -> anyhow::Result<Height> {
    let Some(index) = existing else { return Ok(Height::GENESIS) };
    let view = index.view()?;
    let tip = view.tip().map(|(height, _)| height);
    // An index that was off needs the blocks behind the last one that it has, too.
    let stands_at = view.set_standing().stands_at();
    let stands_at = stands_at.map(|at| at.height().unwrap_or_default());
    let tip = tip.map(|tip| stands_at.map_or(tip, |at| at.min(tip)));
    let horizon = index.settings().window.horizon();
    Ok(tip.map_or(Height::GENESIS, |tip| tip.minus(horizon)))
}

/// The network the arguments name, else the one the configuration names.
fn asked_network(session: &Session, args: &Import) -> anyhow::Result<Option<Network>> {
    let config = session.config();
    let Some(name) = args.network.as_deref() else {
        let network = config.network()?;
        return match (&args.chain, network) {
            (Some(chain), Some(network)) => {
                Ok(Some(Network::find(chain, network.name()).map_err(ConfigError::from)?))
            }
            _ => Ok(network),
        };
    };
    // Two chains have a main network: of an existing database, its own is meant.
    let is_stated = args.chain.is_some() || config.is_stated("chain.chain");
    let database = utxokeep_index::peek_identity(session.data()).ok().filter(|_| !is_stated);
    let database = database.map(|identity| identity.network.chain());
    let chain = args.chain.as_deref().or(database).unwrap_or(&config.chain.chain);
    let mut found = Network::find(chain, name);
    if found.is_err() && args.chain.is_none() && !config.is_stated("chain.chain") {
        // Nobody named the chain, and only one has a network of this name.
        let of_name = Network::ALL.into_iter().find(|network| network.name() == name);
        found = of_name.map_or(found, Ok);
    }
    Ok(Some(found.map_err(ConfigError::from)?))
}

/// Refuses what was asked for and would have no effect.
fn check_flags(args: &Import, network: Network) -> Result<(), CliError> {
    if let Some(chain) = args.chain.as_ref().filter(|chain| *chain != network.chain()) {
        return Err(CliError::WrongChain { chain: chain.clone(), network });
    }
    let flag = match network.is_cardano() {
        true if args.xor_key.is_some() => "--xor-key",
        false if args.start_mid_chain => "--start-mid-chain",
        _ => return Ok(()),
    };
    Err(CliError::WrongFlag { flag, network })
}

type Writer = ChainWriter<utxokeep_kv::RocksKv>;

/// Takes an index that was off to the tip of its log, with the blocks of the sources.
fn catch_up(writer: &mut Writer, sources: &Sources, interrupt: &Interrupt) -> anyhow::Result<()> {
    let Some(at) = writer.behind() else { return Ok(()) };
    output::note(format_args!("the index was off: catching up from {at}"));
    let index = writer.index().clone();
    let mut raw = RawBlocks::new(Some(sources), None, index.settings().decoder.clone());
    let mut progress = Progress::start("catching up", false);
    let caught = writer.catch_up::<anyhow::Error>(
        Readers::Absent,
        &mut |height, hash| {
            let view = index.view()?;
            let entry = view.block(height)?.filter(|entry| entry.hash == *hash);
            let Some((entry, (tip, _))) = entry.zip(view.tip()) else { return Ok(None) };
            let wanted = WantedBlock { point: entry.point(height), parent: None, tip };
            match raw.block(&wanted, &|| interrupt.is_asked()) {
                Ok(block) => Ok(Some(block)),
                Err(FollowError::MissingBody { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            }
        },
        &mut |height, tip| {
            let count = |height: Height| u64::from(height.get()) + 1;
            progress.update(count(height), count(tip), || format!("blocks, height {height}"));
            !interrupt.is_asked()
        },
    );
    progress.finish();
    caught?;
    Ok(())
}

fn run(
    writer: Writer,
    sources: &Sources,
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
    let imported = import_all(writer, sources, bulk, interrupt, &mut on_block);
    progress.finish();
    Ok(imported?)
}

/// Imports one source after the other; a stop in one passes over the others.
fn import_all(
    mut writer: Writer,
    sources: &Sources,
    bulk: bool,
    interrupt: &Interrupt,
    on_block: &mut OnProgress<'_>,
) -> Result<(Writer, FollowReport), FollowError> {
    let mut total = FollowReport::default();
    for db in &sources.immutable {
        if interrupt.is_asked() {
            return Ok((writer, total));
        }
        let report;
        (writer, report) = import_immutable(writer, db, bulk, on_block)?;
        add(&mut total, report);
    }
    if let Some(files) = sources.files.as_ref().filter(|_| !interrupt.is_asked()) {
        let report;
        (writer, report) = import_files(writer, files.as_ref(), bulk, on_block)?;
        add(&mut total, report);
    }
    Ok((writer, total))
}

/// Counts what one more source did.
fn add(total: &mut FollowReport, more: FollowReport) {
    total.connected += more.connected;
    total.disconnected += more.disconnected;
    total.reorganisations += more.reorganisations;
    total.deepest_reorganisation = total.deepest_reorganisation.max(more.deepest_reorganisation);
    total.refused.extend(more.refused);
    total.waiting += more.waiting;
    total.dropped += more.dropped;
}

fn warn(report: &Report) {
    for Refused { hash, height, reason, .. } in report.refused.iter().take(WARNINGS_MAX) {
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
    if report.is_damaged() {
        output::warning(
            "the block files are damaged: what was sound in them is imported; fetch them again and \
             import them once more",
        );
    } else if report.got_nowhere() {
        output::warning(
            "there are no blocks, or none of the blocks could be used; the chain is as it was",
        );
    }
    if let Some(truncated) = report.scan.truncated.filter(|&truncated| truncated > 0) {
        output::warning(format_args!(
            "blocks that are cut off at the end of their file: {truncated}"
        ));
    }
}

impl Report {
    /// Whether files held something that was a block once, or may have been.
    fn is_damaged(&self) -> bool {
        let found = |count: Option<u64>| count.is_some_and(|count| count > 0);
        found(self.scan.garbage_bytes)
            || found(self.scan.bad_headers)
            || self.refused.iter().any(|block| block.damaged)
    }

    /// Whether no block of the files could be used. Blocks that the chain has already are of use:
    /// an import may be repeated.
    fn got_nowhere(&self) -> bool {
        let unusable = (self.waiting + self.refused.len()) as u64;
        // Not all refused ones are listed, so that many may be all.
        let is_all = self.scan.blocks <= unusable || self.refused.len() >= REFUSED_LISTED_MAX;
        self.connected == 0 && is_all
    }

    fn exit(&self) -> Exit {
        if self.is_damaged() {
            Exit::Unsound
        } else if self.got_nowhere() {
            Exit::Refused
        } else {
            Exit::Success
        }
    }

    fn new(
        index: &Index,
        followed: &FollowReport,
        scan: Scan,
        interrupted: bool,
        seconds: f64,
    ) -> Result<Self, IndexError> {
        let status = index.status()?;
        let network = status.network;
        let refused = followed.refused.iter().map(|block| Refused {
            hash: network.hash_text(block.hash.as_bytes()),
            height: block.height.get(),
            reason: block.reason.clone(),
            damaged: block.is_damage,
        });
        Ok(Self {
            chain: network.chain(),
            network: network.name(),
            height: status.tip.map(|tip| tip.height.get()),
            slot: status.tip.map(|tip| tip.slot).filter(|_| network.is_cardano()),
            best_hash: status.tip.map(|tip| network.hash_text(tip.hash.as_bytes())),
            txouts: status.totals.map(|totals| totals.txouts),
            connected: followed.connected,
            disconnected: followed.disconnected,
            reorganisations: followed.reorganisations,
            deepest_reorganisation: followed.deepest_reorganisation,
            refused: refused.collect(),
            waiting: followed.waiting,
            missing_inputs: network.is_cardano().then_some(status.missing_inputs),
            partial: Partial::new(status.partial),
            mmr_root: status.mmr.map(|mmr| hex_encode(&mmr.root)),
            scan,
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
            .optional("height", self.height);
        if let Some(slot) = self.slot {
            lines.field("slot", slot);
        }
        lines
            .optional("best hash", self.best_hash.as_ref())
            .optional("outputs", self.txouts)
            .field("connected", self.connected)
            .field("disconnected", self.disconnected)
            .field(
                "reorganisations",
                format_args!("{} (deepest {})", self.reorganisations, self.deepest_reorganisation),
            )
            .field("refused", self.refused.len())
            .field("waiting", self.waiting);
        if let Some(missing) = self.missing_inputs {
            lines.field("missing inputs", missing);
        }
        if let Some(root) = &self.mmr_root {
            lines.field("mmr root", root);
        }
        lines.field("seconds", format_args!("{:.2}", self.seconds));
        output::partial(lines, self.partial.as_ref());
    }
}
