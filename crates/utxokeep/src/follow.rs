//! Following a live source until told to stop, whatever becomes of the connection.
//!
//! # Invariants
//!
//! * Every connection starts at the newest block of ours that the source has.
//! * A lost connection is opened again, with longer and longer waits; only what another attempt
//!   cannot mend is an error. A full disk is waited out too where the caller wants that.
//! * What was applied stays applied, however following ends.
//! * Nothing here knows which chain or protocol a source has: that is behind [`LiveSource`].

mod sources;
mod state;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use utxokeep_chains::{Backoff, LiveConnection, LiveError, LiveEvent, LiveSource};
use utxokeep_core::{Block, ChainPoint, ErrorKind};
use utxokeep_index::{FollowError, LiveFollower};
use utxokeep_kv::Kv;

use crate::{clock::now_s, config::FollowConfig};

pub use sources::{node_source, tx_sender};
pub use state::describe_metrics;
pub use state::{METRICS, SourceState, SourceStatus};

/// How often a waiting follower looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The longest wait for a disk that is full: looking costs one write.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(5);

/// Which source to follow, and how long to wait when it is away.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// Whose chain is followed, and where to connect again.
    pub source: Arc<dyn LiveSource>,
    /// Wait after the first failure; doubles with each further one.
    pub reconnect_first: Duration,
    /// The longest wait.
    pub reconnect_max: Duration,
    /// Stop as soon as everything the source has is applied.
    pub until_tip: bool,
    /// Wait while the database takes no writes for a reason that passes, such as a full disk, in place
    /// of ending.
    pub waits_for_room: bool,
    /// What is known of the source, for whoever wants to tell it.
    pub state: SourceState,
}

impl FollowOptions {
    /// Follows `source` for ever, with the waits of the configuration.
    #[must_use]
    pub fn new(source: Arc<dyn LiveSource>, config: &FollowConfig) -> Self {
        Self {
            state: SourceState::new(source.address(), now_s()),
            source,
            reconnect_first: Duration::from_millis(config.reconnect_first_ms.get().into()),
            reconnect_max: Duration::from_millis(config.reconnect_max_ms.get().into()),
            until_tip: false,
            waits_for_room: false,
        }
    }
}

/// What a follower tells while it works.
#[derive(Debug)]
pub enum Happened<'a> {
    /// The source answers, and shares this block with us; `None` before the first.
    Connected(Option<ChainPoint>),
    /// A block has arrived; it is applied next.
    Arrived(&'a Arc<Block>),
    /// A block was applied or undone; this is the last one now.
    Moved(Option<ChainPoint>),
    /// Everything the source has is applied.
    AtTip(Option<ChainPoint>),
    /// The source is away; the next attempt comes after this time.
    Away(&'a LiveError, Duration),
    /// The database takes no writes for now; the next attempt comes after this time.
    NoRoom(&'a FollowError, Duration),
}

/// Follows until `is_stopped` says so.
pub fn follow<K: Kv>(
    live: &mut LiveFollower<K>,
    options: &FollowOptions,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Happened<'_>),
) -> anyhow::Result<()> {
    let mut backoff = Backoff::new(options.reconnect_first, options.reconnect_max);
    let mut room = Backoff::new(options.reconnect_first, options.reconnect_max.min(ROOM_WAIT_MAX));
    options.state.stands(live.tip());
    while !is_stopped() {
        let ended = connect_and_listen(live, options, &mut backoff, is_stopped, tell);
        match wait_for_room(ended, options)? {
            Ended::Stopped => break,
            Ended::Lost(error) if error.is_worth_retrying() => {
                options.state.lost(error.to_string());
                if let Some(full) = let_go(live, options)? {
                    tracing::warn!(error = &full as &dyn std::error::Error, "nothing was kept");
                }
                let wait = backoff.next_wait();
                tell(&Happened::Away(&error, wait));
                pause(wait, is_stopped);
            }
            Ended::Lost(error) => {
                options.state.lost(error.to_string());
                return Err(error).context("the node cannot be followed");
            }
            Ended::NoRoom(error) => {
                options.state.held_up(error.to_string());
                let_go(live, options)?;
                options.state.stands(live.tip());
                let wait = room.next_wait();
                tell(&Happened::NoRoom(&error, wait));
                pause(wait, is_stopped);
                continue;
            }
        }
        room.reset();
    }
    // What is not committed now is fetched again at the next start.
    let_go(live, options)?;
    Ok(())
}

/// Commits what waits. A database that takes no writes for now is no failure where it is waited for:
/// then what waited is forgotten, and fetched again.
fn let_go<K: Kv>(
    live: &mut LiveFollower<K>,
    options: &FollowOptions,
) -> Result<Option<FollowError>, FollowError> {
    let done = live.lost_connection().map(|()| Ended::Stopped);
    match wait_for_room(done, options)? {
        Ended::NoRoom(error) => Ok(Some(error)),
        Ended::Stopped | Ended::Lost(_) => Ok(None),
    }
}

/// Makes a failure that passes by itself a reason to wait.
fn wait_for_room(
    ended: Result<Ended, FollowError>,
    options: &FollowOptions,
) -> Result<Ended, FollowError> {
    match ended {
        Err(error) if options.waits_for_room && error.kind() == ErrorKind::Unavailable => {
            Ok(Ended::NoRoom(error))
        }
        ended => ended,
    }
}

fn connect_and_listen<K: Kv>(
    live: &mut LiveFollower<K>,
    options: &FollowOptions,
    backoff: &mut Backoff,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Happened<'_>),
) -> Result<Ended, FollowError> {
    match options.source.connect(&live.points()?, is_stopped) {
        Ok(connection) => listen(connection, live, options, backoff, is_stopped, tell),
        Err(_) if is_stopped() => Ok(Ended::Stopped),
        Err(error) => Ok(Ended::Lost(error)),
    }
}

enum Ended {
    Stopped,
    Lost(LiveError),
    NoRoom(FollowError),
}

fn listen<K: Kv>(
    mut connection: Box<dyn LiveConnection>,
    live: &mut LiveFollower<K>,
    options: &FollowOptions,
    backoff: &mut Backoff,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Happened<'_>),
) -> Result<Ended, FollowError> {
    tell(&Happened::Connected(live.tip()));
    let mut messages = 0;
    while !is_stopped() {
        let event = connection.next(LOOK_EVERY);
        let contact = connection.contact();
        if contact.messages != messages {
            messages = contact.messages;
            options.state.heard(now_s(), contact.tip_height);
            live.source_is_at(contact.tip_height);
        }
        match event {
            Ok(None) => live.rest()?,
            Ok(Some(LiveEvent::RolledBack(to))) => {
                match live.roll_back(to) {
                    // A boundary block, perhaps: the next connection starts from points we know.
                    Err(error @ FollowError::UnknownPoint { .. }) => {
                        return Ok(Ended::Lost(LiveError::Away(error.into())));
                    }
                    done => done?,
                };
                options.state.stands(live.tip());
                tell(&Happened::Moved(live.tip()));
            }
            Ok(Some(LiveEvent::Block(raw))) => {
                let block = Arc::new(live.decode(raw)?);
                tell(&Happened::Arrived(&block));
                live.connect(&block)?;
                options.state.goes_on();
                backoff.reset();
                options.state.stands(live.tip());
                tell(&Happened::Moved(live.tip()));
            }
            Ok(Some(LiveEvent::AtTip)) => {
                live.reached_tip()?;
                options.state.goes_on();
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

/// Sleeps for a while, or until the program is to stop.
pub fn pause(wait: Duration, is_stopped: &dyn Fn() -> bool) {
    let until = Instant::now() + wait;
    while !is_stopped() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}
