//! `chain follow`.

use serde::Serialize;
use utxokeep::{
    catch_up::{self, CatchingUp},
    engine::{
        EngineError,
        chain::{self, place},
    },
};
use utxokeep_chains::{BodyFinder, bitcoind::Credentials};
use utxokeep_core::{Height, Network, hex_encode};
use utxokeep_index::{CaughtUp, ChainWriter, LiveFollower, Readers};
use utxokeep_kv::RocksKv;

use super::{
    args::Follow,
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    open::Session,
    output::{self, Human, Lines},
    progress::Progress,
};
use crate::{
    config::{BitcoindSource, ConfigError, Source},
    follow::{self, Happened},
    json::Partial,
};

#[derive(Debug, Serialize)]
struct Report {
    network: String,
    height: Option<u32>,
    slot: Option<u64>,
    best_hash: Option<String>,
    connected: u64,
    disconnected: u64,
    reorganisations: u64,
    deepest_reorganisation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    mmr_root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
}

/// Follows a node until Ctrl-C, or until its tip is reached.
pub(super) fn follow(session: &Session, args: &Follow) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::watch()?;
    let source = named_source(args).or_else(|| session.config().chain.source.clone());
    let source = source.ok_or(CliError::NoSource)?;
    let asked = match &args.network {
        Some(name) => Some(Network::find(source.chain(), name).map_err(ConfigError::from)?),
        None => session.config().network()?,
    };
    let index = chain::open_or_create(session.config(), asked).map_err(|error| match error {
        EngineError::NoNetwork => CliError::NoNetwork.into(),
        error => anyhow::Error::from(error),
    })?;
    let network = index.settings().network();
    let node = chain::node(session.config(), &index, &source)?;
    let mut options = chain::follow_options(session.config(), &node);
    options.until_tip = args.until_tip;
    let mut writer = ChainWriter::new(index)?;
    let mut bodies = chain::bodies(session.config(), writer.index(), Some(&node));
    let is_at_tip = catch_up(session, &mut writer, &mut bodies, &interrupt)?;
    drop(bodies);
    let live = LiveFollower::new(writer, Readers::Absent);
    let mut live = live.with_bulk(session.config().storage.bulk);
    let mut progress = Progress::start("following", false);
    let state = options.state.clone();
    let is_stopped = || interrupt.is_asked() || !is_at_tip;
    let followed = follow::follow(&mut live, &options, &is_stopped, &mut |what| match what {
        Happened::Arrived(_) | Happened::NoRoom(..) => {}
        Happened::Moved(point) => {
            let count = |height: u64| height + 1;
            let done = point.map_or(0, |point| count(point.height.get().into()));
            let total = state.status().height.map_or(0, count);
            progress.update(done, total, || format!("blocks, {}", place(*point)));
        }
        Happened::Away(error, wait) => {
            output::note(format_args!("{error}; trying again in {:.1} s", wait.as_secs_f64()));
        }
        Happened::Connected(point) => {
            output::note(format_args!("connected; going on behind {}", place(*point)));
        }
        Happened::AtTip(point) => output::note(format_args!("at the tip: {}", place(*point))),
    });
    progress.finish();
    let (writer, report) = live.into_writer()?;
    followed?;
    let tip = writer.tip();
    let report = Report {
        network: network.to_string(),
        height: tip.map(|tip| tip.height.get()),
        slot: tip.map(|tip| tip.slot),
        best_hash: tip.map(|tip| network.hash_text(tip.hash.as_bytes())),
        connected: report.connected,
        disconnected: report.disconnected,
        reorganisations: report.reorganisations,
        deepest_reorganisation: report.deepest_reorganisation,
        mmr_root: writer.index().status()?.mmr.map(|mmr| hex_encode(&mmr.root)),
        partial: Partial::new(writer.index().view()?.partial()),
    };
    output::result(session.json(), &report)?;
    Ok(if interrupt.is_asked() { Exit::Interrupted } else { Exit::Success })
}

/// Takes an index that was off to the tip of its log; answers whether it is there.
fn catch_up(
    session: &Session,
    writer: &mut ChainWriter<RocksKv>,
    bodies: &mut BodyFinder,
    interrupt: &Interrupt,
) -> anyhow::Result<bool> {
    let Some(at) = writer.behind() else { return Ok(true) };
    output::note(format_args!("the index was off: catching up from {at}"));
    let mut progress = Progress::start("catching up", false);
    let caught = catch_up::catch_up(
        writer,
        bodies,
        Readers::Absent,
        &session.config().follow,
        &|| interrupt.is_asked(),
        &mut |what| match what {
            CatchingUp::At(height, tip) => {
                let count = |height: Height| u64::from(height.get()) + 1;
                let message = || format!("blocks, height {height}");
                progress.update(count(*height), count(*tip), message);
            }
            CatchingUp::Away(error, wait) => {
                output::note(format_args!("{error}; trying again in {:.1} s", wait.as_secs_f64()));
            }
        },
    );
    progress.finish();
    Ok(caught? == CaughtUp::Done)
}

/// The node that the command line names.
fn named_source(args: &Follow) -> Option<Source> {
    if let (Some(url), Some(cookie_file)) = (&args.bitcoind, &args.cookie_file) {
        return Some(Source::Bitcoind(BitcoindSource {
            url: url.clone(),
            credentials: Credentials::CookieFile(cookie_file.clone()),
            blocks_dir: args.blocks_dir.clone(),
        }));
    }
    args.node.clone().or_else(|| args.socket.clone().map(Source::CardanoNodeSocket))
}

impl Human for Report {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("network", &self.network)
            .optional("height", self.height)
            .optional("slot", self.slot)
            .optional("best hash", self.best_hash.as_ref())
            .field("connected", self.connected)
            .field("disconnected", self.disconnected)
            .field("reorganisations", self.reorganisations)
            .field("deepest", self.deepest_reorganisation);
        if let Some(root) = &self.mmr_root {
            lines.field("mmr root", root);
        }
        output::partial(lines, self.partial.as_ref());
    }
}
