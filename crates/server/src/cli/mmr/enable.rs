//! `chain mmr enable` and `chain mmr disable`.

use std::time::Instant;

use anyhow::Context as _;
use serde::Serialize;
use utxokeep::engine::chain;
use utxokeep_chains::{BodyError, BodyFinder, WantedBlock};
use utxokeep_core::{ChainPoint, Height, Network, mmr::MmrRule};
use utxokeep_index::{
    ChainIndex, ChainWriter, FollowError, IndexError, IndexOpenError, IndexSettings, MmrBuilt,
    MmrEnableError, disable_mmr,
};
use utxokeep_kv::OpenMode;

use super::{MmrCommandError, blocks::RawBlocks};
use crate::cli::{
    args::{Import, MmrEnable},
    exit::Exit,
    interrupt::Interrupt,
    open::{Index, Session},
    output::{self, Human, Lines},
    progress::Progress,
    sources::Sources,
};
use utxokeep::{
    config::{Config, Store},
    json::MmrStatus,
};

#[derive(Debug, Serialize)]
struct Enabled {
    built: bool,
    interrupted: bool,
    rule: String,
    /// Height of the tip.
    height: Option<u32>,
    /// The block that the next pass goes on with, if this one was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mmr: Option<MmrStatus>,
    seconds: f64,
}

/// What a pass has to know of the database before it opens it.
struct Before {
    /// The rule that the pass has.
    rule: MmrRule,
    tip: Option<Height>,
    /// Whether it is not the first pass.
    was_interrupted: bool,
    /// The block that the pass begins with.
    next: Height,
    /// Blocks up to here are read from the sources.
    undo_base: Height,
}

/// Builds the tree.
pub(super) fn enable(session: &Session, args: &MmrEnable) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let interrupt = Interrupt::watch()?;
    let asked = rule(session.config(), args)?;
    let settings = settings(session, asked)?;
    let before = before(session, &settings, asked)?;
    let rule = before.rule;
    let network = settings.network();
    let has_sources = !args.sources.is_empty() || args.from_persisted.is_some();
    let node = session.config().chain.source.clone().filter(|_| !has_sources);
    if !has_sources && node.is_none() {
        before.refuse_without_blocks(network)?;
    }
    let sources = open_sources(session, args, &settings, before.next, &interrupt)?;
    match before.next {
        _ if !before.was_interrupted => {}
        Height::GENESIS => output::note(
            "beginning again with the first block: blocks that the interrupted pass went through have \
             left the chain, or the undo data that it needs is gone",
        ),
        next => output::note(format_args!("resuming at height {next}, rule {rule}")),
    }
    let options = session.config().rocks_options();
    let index = ChainIndex::open_dir_to_build_mmr(session.data(), settings, rule, options)
        .with_context(|| session.opening())?;
    let node = node.map(|node| chain::node(session.config(), &index, &node)).transpose()?;
    let node = node.map(|node| BodyFinder::new(index.settings().decoder.clone()).with_node(node));
    let blocks = RawBlocks::new(sources.as_ref(), node, index.settings().decoder.clone());
    let built = build(index, rule, blocks, &interrupt)?;
    let index = reopened(session, built)?;
    let report = Enabled {
        built: built == MmrBuilt::Done,
        interrupted: built == MmrBuilt::Stopped,
        rule: rule.to_string(),
        height: before.tip.map(Height::get),
        next_height: index.mmr_build_standing()?.map(|build| build.next.get()),
        mmr: index.status()?.mmr.map(MmrStatus::from),
        seconds: started.elapsed().as_secs_f64(),
    };
    output::result(session.json(), &report)?;
    Ok(if report.interrupted { Exit::Interrupted } else { Exit::Success })
}

/// The rule of the command line, else of the configuration.
fn rule(config: &Config, args: &MmrEnable) -> Result<Option<MmrRule>, MmrCommandError> {
    if config.stated_store() == Some(Store::Classic) {
        return Err(MmrCommandError::SaysClassic);
    }
    let (asked, stated) = (args.rule.map(MmrRule::from), config.stated_mmr_rule());
    match (asked, stated) {
        (Some(asked), Some(stated)) if asked != stated => {
            Err(MmrCommandError::TwoRules { asked, stated })
        }
        _ => Ok(asked.or(stated)),
    }
}

/// Settings of a database that has no tree yet and may have one.
fn settings(session: &Session, rule: Option<MmrRule>) -> anyhow::Result<IndexSettings> {
    let identity = session.identity()?;
    match (identity.mmr, rule) {
        (Some(found), Some(asked)) if found != asked => {
            return Err(MmrCommandError::OtherRuleIsOn { found, asked }.into());
        }
        (Some(_), _) => return Err(MmrEnableError::IsOn.into()),
        (None, _) => {}
    }
    let rule = rule.unwrap_or_default();
    let network = session.config().network()?.unwrap_or(identity.network);
    let settings = session.config().settings(network, Some(&identity))?;
    settings.clone().with(|settings| settings.mmr = Some(rule)).check_mmr()?;
    Ok(settings.with(|settings| settings.mmr = None))
}

/// Looks at the database without changing it.
fn before(
    session: &Session,
    settings: &IndexSettings,
    stated: Option<MmrRule>,
) -> anyhow::Result<Before> {
    let options = session.config().rocks_options();
    let index = ChainIndex::open_dir(session.data(), settings.clone(), options, OpenMode::Read)
        .with_context(|| session.opening())?;
    let status = index.status()?;
    if status.started_mid_chain_at.is_some() {
        let why = "it started in the middle of the chain";
        return Err(MmrEnableError::NotWhole { why }.into());
    }
    let standing = index.mmr_build_standing()?;
    // A pass keeps the rule it began with.
    let rule = match (standing.map(|build| build.rule), stated) {
        (Some(began), Some(asked)) if began != asked => {
            return Err(MmrEnableError::OtherRule { began, asked }.into());
        }
        (began, stated) => began.or(stated).unwrap_or_default(),
    };
    Ok(Before {
        rule,
        was_interrupted: standing.is_some(),
        tip: status.tip.map(|tip| tip.height),
        next: standing.map_or(Height::GENESIS, |build| build.next),
        undo_base: status.undo_base.unwrap_or_default(),
    })
}

impl Before {
    /// The program knows the first block of Bitcoin's networks; every other one has to be read.
    fn refuse_without_blocks(&self, network: Network) -> Result<(), MmrCommandError> {
        let first = if network.is_cardano() { Height::GENESIS } else { Height::new(1) };
        let from = self.next.max(first);
        if self.tip.is_none() || from > self.undo_base {
            return Ok(());
        }
        Err(MmrCommandError::BlocksNeeded { from, until: self.undo_base })
    }
}

/// Opens the sources as an import does. Persisted blocks below `first` are not looked for.
fn open_sources(
    session: &Session,
    args: &MmrEnable,
    settings: &IndexSettings,
    first: Height,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Sources>> {
    if args.sources.is_empty() && args.from_persisted.is_none() {
        return Ok(None);
    }
    if settings.network().is_cardano() && args.xor_key.is_some() {
        let (flag, network) = ("--xor-key", settings.network());
        return Err(crate::cli::CliError::WrongFlag { flag, network }.into());
    }
    let args = Import {
        from_persisted: args.from_persisted.clone(),
        chain: None,
        network: None,
        genesis: Vec::new(),
        start_mid_chain: false,
        xor_key: args.xor_key,
        no_bulk: false,
        sources: args.sources.clone(),
    };
    Sources::open(session, &args, &settings.decoder, first, interrupt).map(Some)
}

fn build(
    index: Index,
    rule: MmrRule,
    mut blocks: RawBlocks<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<MmrBuilt> {
    let chain = index.clone();
    let view = chain.view()?;
    let tip = view.tip().map_or(Height::GENESIS, |(height, _)| height);
    let point = |height: Height| -> Result<Option<ChainPoint>, IndexError> {
        Ok(view.block(height)?.map(|entry| entry.point(height)))
    };
    let mut progress = Progress::start("building", false);
    let built = ChainWriter::new(index)?.build_mmr(
        rule,
        &mut |height, hash| {
            let own = ChainPoint { height, slot: 0, hash: *hash };
            let below = height.get().checked_sub(1).map(Height::new);
            let wanted = WantedBlock {
                point: point(height)?.unwrap_or(own),
                parent: below.map(&point).transpose()?.flatten(),
                tip,
            };
            blocks.block(&wanted, &|| interrupt.is_asked())
        },
        &mut |height, tip| {
            let total = u64::from(tip.get()) + 1;
            let message = || format!("blocks, height {height}");
            progress.update(u64::from(height.get()) + 1, total, message);
            !interrupt.is_asked()
        },
    );
    progress.finish();
    let built = match (built, blocks.failed) {
        (Err(_), Some(BodyError::Stopped)) => return Ok(MmrBuilt::Stopped),
        (Err(_), Some(source)) => return Err(MmrCommandError::NodeFailed { source }.into()),
        (built, _) => built,
    };
    built.map_err(|error| match error {
        MmrEnableError::Source(FollowError::MissingBody { hash, height }) => {
            MmrCommandError::BlockMissing { hash, height }.into()
        }
        error => error.into(),
    })
}

/// Opens the database as it is after a pass.
fn reopened(session: &Session, built: MmrBuilt) -> anyhow::Result<Index> {
    let identity = session.identity()?;
    let network = identity.network;
    let settings = session.config().settings(network, Some(&identity))?;
    let mmr = if built == MmrBuilt::Done { identity.mmr } else { None };
    let settings = settings.with(|settings| settings.mmr = mmr);
    let options = session.config().rocks_options();
    ChainIndex::open_dir(session.data(), settings, options, OpenMode::Read)
        .with_context(|| session.opening())
}

impl Human for Enabled {
    fn describe(&self, lines: &mut Lines) {
        let state = if self.built { "built" } else { "not built yet" };
        lines.field("mmr", state).field("rule", &self.rule).optional("height", self.height);
        if let Some(mmr) = &self.mmr {
            super::describe_size(lines, mmr);
        }
        lines.field("seconds", format_args!("{:.2}", self.seconds));
        if let Some(next) = self.next_height {
            lines.row(format!("Stopped. The same command resumes at height {next}."));
        }
    }
}

#[derive(Debug, Serialize)]
struct Disabled {
    dropped: bool,
    /// Rule of the tree that was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

/// Drops the tree.
pub(super) fn disable(session: &Session) -> anyhow::Result<Exit> {
    let identity = session.identity()?;
    let network = session.config().network()?.unwrap_or(identity.network);
    let settings = session.config().settings(network, Some(&identity))?;
    let settings = settings.with(|settings| settings.mmr = identity.mmr);
    let dropped: Result<bool, IndexOpenError> =
        disable_mmr(session.data(), &settings, session.config().rocks_options());
    let dropped = dropped.with_context(|| session.opening())?;
    let rule = identity.mmr.map(|rule| rule.to_string());
    output::result(session.json(), &Disabled { dropped, rule })?;
    if session.config().stated_store() == Some(Store::Mmr) {
        output::note(
            "the configuration says [index] store = \"mmr\": take it out, or build the tree with \
             `chain mmr enable`",
        );
    }
    Ok(Exit::Success)
}

impl Human for Disabled {
    fn describe(&self, lines: &mut Lines) {
        let state = match (&self.rule, self.dropped) {
            (Some(_), _) => "dropped",
            (None, true) => "dropped, before it was complete",
            (None, false) => "there was none",
        };
        lines.field("mmr", state);
        if let Some(rule) = &self.rule {
            lines.field("rule", rule);
        }
    }
}
