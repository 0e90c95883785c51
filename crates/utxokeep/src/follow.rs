//! Following a live node until told to stop, whatever becomes of the connection.
//!
//! # Invariants
//!
//! * Every connection starts at the newest block of ours that the node has.
//! * A lost connection is opened again, with longer and longer waits; only what another attempt
//!   cannot mend is an error.
//! * What was applied stays applied, however following ends.

mod state;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use utxokeep_chains::cardano::{
    Backoff, NodeAddress, NodeConnection, NodeError, NodeEvent, NodeOptions, NodePoint,
};
use utxokeep_core::{Block, BlockHash, ChainPoint};
use utxokeep_index::{FollowError, LiveFollower};
use utxokeep_kv::Kv;

use crate::{
    clock::now_s,
    config::{FollowConfig, Source},
};

pub(crate) use state::describe_metrics;
pub use state::{METRICS, SourceState, SourceStatus};

/// How often a waiting follower looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Which node to follow, and how long to wait when it is away.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// The node.
    pub node: NodeOptions,
    /// Wait after the first failure; doubles with each further one.
    pub reconnect_first: Duration,
    /// The longest wait.
    pub reconnect_max: Duration,
    /// Stop as soon as everything the node has is applied.
    pub until_tip: bool,
    /// What is known of the node, for whoever wants to tell it.
    pub state: SourceState,
}

impl FollowOptions {
    /// The options of the configuration, for a node of the network with this magic.
    #[must_use]
    pub fn new(source: &Source, config: &FollowConfig, network_magic: u32) -> Self {
        let address = match source {
            Source::CardanoNodeAddress(address) => NodeAddress::Tcp(address.clone()),
            Source::CardanoNodeSocket(path) => NodeAddress::Socket(path.clone()),
        };
        Self {
            state: SourceState::new(address.to_string(), now_s()),
            node: NodeOptions {
                address,
                network_magic: network_magic.into(),
                queue_blocks_max: config.queue_blocks_max.get() as usize,
                fetch_range_blocks_max: config.fetch_range_blocks_max.get() as usize,
                answer_timeout_ms: config.answer_timeout_ms.get().into(),
            },
            reconnect_first: Duration::from_millis(config.reconnect_first_ms.get().into()),
            reconnect_max: Duration::from_millis(config.reconnect_max_ms.get().into()),
            until_tip: false,
        }
    }
}

/// What a follower tells while it works.
#[derive(Debug)]
pub enum Happened<'a> {
    /// The node answers, and shares this block with us; `None` before the first.
    Connected(Option<ChainPoint>),
    /// A block has arrived; it is applied next.
    Arrived(&'a Arc<Block>),
    /// A block was applied or undone; this is the last one now.
    Moved(Option<ChainPoint>),
    /// Everything the node has is applied.
    AtTip(Option<ChainPoint>),
    /// The node is away; the next attempt comes after this time.
    Away(&'a NodeError, Duration),
}

/// Follows until `is_stopped` says so.
pub fn follow<K: Kv>(
    live: &mut LiveFollower<K>,
    options: &FollowOptions,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Happened<'_>),
) -> anyhow::Result<()> {
    let mut backoff = Backoff::new(options.reconnect_first, options.reconnect_max);
    options.state.stands(live.tip());
    while !is_stopped() {
        let points: Vec<NodePoint> = live.points()?.iter().map(node_point).collect();
        let ended = NodeConnection::open(options.node.clone(), &points).map_or_else(
            |error| Ok(Ended::Lost(error)),
            |node| listen(node, live, options, &mut backoff, is_stopped, tell),
        );
        match ended? {
            Ended::Stopped => break,
            Ended::Lost(error) if may_pass(&error, live.tip()) => {
                options.state.lost(error.to_string());
                live.lost_connection()?;
                let wait = backoff.next_wait();
                tell(&Happened::Away(&error, wait));
                pause(wait, is_stopped);
            }
            Ended::Lost(error) => {
                options.state.lost(error.to_string());
                return Err(error).context("the node cannot be followed");
            }
        }
    }
    live.lost_connection()?;
    Ok(())
}

enum Ended {
    Stopped,
    Lost(NodeError),
}

fn listen<K: Kv>(
    mut node: NodeConnection,
    live: &mut LiveFollower<K>,
    options: &FollowOptions,
    backoff: &mut Backoff,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Happened<'_>),
) -> Result<Ended, FollowError> {
    tell(&Happened::Connected(live.tip()));
    let mut messages = 0;
    while !is_stopped() {
        let event = node.next(LOOK_EVERY);
        if node.messages() != messages {
            messages = node.messages();
            options.state.heard(now_s(), node.tip_height());
        }
        match event {
            Ok(None) => {}
            Ok(Some(NodeEvent::RolledBack(point))) => {
                let point = point.map(|point| (point.slot, BlockHash::from_bytes(point.hash)));
                match live.roll_back(point) {
                    // A boundary block, perhaps: the next connection starts from points we know.
                    Err(FollowError::UnknownPoint { .. }) => {
                        return Ok(Ended::Lost(NodeError::Closed));
                    }
                    done => done?,
                };
                options.state.stands(live.tip());
                tell(&Happened::Moved(live.tip()));
            }
            Ok(Some(NodeEvent::Block(raw))) => {
                let block = Arc::new(live.decode(raw)?);
                tell(&Happened::Arrived(&block));
                live.connect(&block)?;
                backoff.reset();
                options.state.stands(live.tip());
                tell(&Happened::Moved(live.tip()));
            }
            Ok(Some(NodeEvent::AtTip)) => {
                live.reached_tip()?;
                backoff.reset();
                tell(&Happened::AtTip(live.tip()));
                if options.until_tip {
                    return Ok(Ended::Stopped);
                }
            }
            Err(error) => return Ok(Ended::Lost(error)),
        }
    }
    Ok(Ended::Stopped)
}

/// Whether a later attempt can do better: also with a node that has not come as far as we have.
fn may_pass(error: &NodeError, tip: Option<ChainPoint>) -> bool {
    let is_behind = match error {
        NodeError::NoIntersection { tip: node } => {
            let node = node.as_ref().map(|point| point.slot);
            tip.is_some_and(|tip| node.is_none_or(|slot| slot < tip.slot))
        }
        _ => false,
    };
    is_behind || error.is_worth_retrying()
}

fn node_point(point: &ChainPoint) -> NodePoint {
    NodePoint { slot: point.slot, hash: *point.hash.as_bytes() }
}

fn pause(wait: Duration, is_stopped: &dyn Fn() -> bool) {
    let until = Instant::now() + wait;
    while !is_stopped() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}
