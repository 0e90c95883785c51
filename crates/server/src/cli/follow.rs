//! `chain follow`, and following beside `serve`.

use std::sync::Arc;

use serde::Serialize;
use utxokeep_chains::{
    RecentBlocks, RecentLimits,
    cardano::{CardanoNode, NodeOptions},
};
use utxokeep_core::{ChainPoint, Network, hex_encode};
use utxokeep_index::{ChainWriter, LiveFollower, Readers};

use super::{
    args::Follow,
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    open::{Index, Session},
    output::{self, Human, Lines},
    progress::Progress,
    wallet_follow,
};
use crate::{
    config::{ConfigError, Source},
    follow::{self, FollowOptions, Happened, SourceState},
    json::Partial,
    server::Work,
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
    let source = match (&args.node, &args.socket) {
        (Some(node), _) => Some(node.clone()),
        (None, Some(socket)) => Some(Source::CardanoNodeSocket(socket.clone())),
        (None, None) => session.config().chain.source.clone(),
    };
    let source = source.ok_or(CliError::NoSource)?;
    let asked = match &args.network {
        Some(name) => Some(Network::find("cardano", name).map_err(ConfigError::from)?),
        None => session.config().network()?,
    };
    let index = open_or_create(session, asked)?;
    let network = index.settings().network();
    let mut options = options(session, node(session, &index, &source)?);
    options.until_tip = args.until_tip;
    let mut live = LiveFollower::new(ChainWriter::new(index)?, Readers::Absent);
    let mut progress = Progress::start("following", false);
    let (mut seen, mut last) = (0, None);
    let followed =
        follow::follow(&mut live, &options, &|| interrupt.is_asked(), &mut |what| match what {
            Happened::Arrived(_) => {}
            Happened::Moved(point) => {
                let height = point.map(|point| point.height);
                seen += u64::from(height > last);
                last = height;
                progress.update(seen, 0, || format!("blocks, {}", place(*point)));
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

fn place(point: Option<ChainPoint>) -> String {
    point.map_or_else(
        || "the start of the chain".to_owned(),
        |point| format!("height {} slot {}", point.height, point.slot),
    )
}

/// What `serve` has of a chain.
#[derive(Default)]
pub(super) struct Background {
    pub(super) index: Option<Index>,
    /// Following the source of the configuration into it.
    pub(super) work: Option<Work>,
    /// What is known of the source, for health, status and metrics.
    pub(super) source: Option<SourceState>,
    /// The node that is followed, and the blocks that have just arrived from it, for the wallet
    /// ledger.
    pub(super) live: Option<(NodeOptions, RecentBlocks)>,
}

/// The database, and the work of following the source of the configuration into it, if there is
/// one. Without a source there need not be a database if it `may_lack`. Blocks that arrive are kept
/// for a wallet ledger if there is one.
pub(super) fn in_background(session: &Session, may_lack: bool) -> anyhow::Result<Background> {
    let Some(source) = &session.config().chain.source else {
        let index = if may_lack {
            session.open_existing(session.config().network()?)?
        } else {
            Some(session.open()?)
        };
        return Ok(Background { index, ..Background::default() });
    };
    let index = open_or_create(session, session.config().network()?)?;
    let node = node(session, &index, source)?;
    let options = options(session, node.clone());
    let recent =
        wallet_follow::is_asked(session).then(|| RecentBlocks::new(recent_limits(session)));
    let for_ledger = recent.clone().map(|recent| (node, recent));
    let source = Some(options.state.clone());
    let mut live = LiveFollower::new(ChainWriter::new(index.clone())?, Readers::Present);
    let work: Work = Box::new(move |is_stopped| {
        follow::follow(&mut live, &options, is_stopped, &mut |what| match what {
            Happened::Arrived(block) => {
                if let Some(recent) = &recent {
                    recent.keep(block);
                }
            }
            Happened::Connected(point) => tracing::info!("connected behind {}", place(*point)),
            Happened::AtTip(point) => tracing::info!("at the tip: {}", place(*point)),
            Happened::Away(error, wait) => {
                tracing::warn!(error = *error as &dyn std::error::Error, ?wait, "node is away");
            }
            Happened::Moved(_) => {}
        })
    });
    Ok(Background { index: Some(index), work: Some(work), source, live: for_ledger })
}

/// How many of the blocks that arrive are kept for a wallet ledger.
fn recent_limits(session: &Session) -> RecentLimits {
    let config = &session.config().wallet;
    RecentLimits {
        blocks_max: config.recent_blocks_max.get() as usize,
        bytes_max: (config.recent_mib_max.get() as usize).saturating_mul(1 << 20),
    }
}

fn open_or_create(session: &Session, asked: Option<Network>) -> anyhow::Result<Index> {
    if let Some(index) = session.open_existing(asked)? {
        return Ok(index);
    }
    let network = asked.ok_or(CliError::NoNetwork)?;
    session.create(session.config().settings(network, None)?)
}

fn options(session: &Session, node: NodeOptions) -> FollowOptions {
    FollowOptions::new(Arc::new(CardanoNode::new(node)), &session.config().follow)
}

/// How to reach the node that a database follows.
pub(super) fn node(
    session: &Session,
    index: &Index,
    source: &Source,
) -> anyhow::Result<NodeOptions> {
    let settings = index.settings();
    let genesis = settings.decoder.genesis();
    let genesis = genesis.ok_or(CliError::NotFollowed { network: settings.network() })?;
    Ok(follow::node_options(source, &session.config().follow, genesis.network_magic()))
}
