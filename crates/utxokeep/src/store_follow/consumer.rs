//! The node store as a consumer of the chain log.

use std::{io, sync::Arc, time::Duration};

use utxokeep_chains::{BodyFinder, WantedBlock};
use utxokeep_core::{BlockHash, Height};
use utxokeep_fault::crash_point;
use utxokeep_index::{ChainIndex, ConsumerNeeds, Cursor, LogError, LogEvent, LoggedBlock, View};
use utxokeep_kv::{Kv, Read};
use utxokeep_txstore::NodeStore;

use super::{
    NAME, StoreFollowError, StoreFollowSettings, meter,
    place::{self, FollowPlace},
};
use crate::consumers::{ConsumerThread, FollowerState, LogConsumer, StepFailed, Stepped};

/// How long the store waits for the log at the most, before it looks by itself.
const LOOK_AFTER: Duration = Duration::from_secs(60);

/// Events that are read from one snapshot.
const STEP_EVENTS_MAX: usize = 64;

/// Puts the blocks of a chain log into a node store.
#[derive(Debug)]
pub struct StoreFollower<K> {
    pub(super) index: ChainIndex<K>,
    pub(super) store: Arc<NodeStore>,
    pub(super) bodies: BodyFinder,
    pub(super) settings: StoreFollowSettings,
    /// Where it stands; `None` until the store was asked.
    cursor: Option<Cursor>,
    /// The block that was in hand when it left off.
    again: Option<BlockHash>,
}

impl<K: Kv> StoreFollower<K> {
    /// Follows the log of a database into a store.
    #[must_use]
    pub const fn new(
        index: ChainIndex<K>,
        store: Arc<NodeStore>,
        bodies: BodyFinder,
        settings: StoreFollowSettings,
    ) -> Self {
        Self { index, store, bodies, settings, cursor: None, again: None }
    }

    /// Makes itself known, so that the pruner waits for it.
    pub fn register(&self) -> Result<(), StoreFollowError> {
        let stands = place::read(&self.store)?;
        let cursor = resumes_at(&self.index.view()?, stands)?;
        Ok(self.index.register_consumer(NAME, ConsumerNeeds::Blocks, cursor)?)
    }

    /// Reads on by some blocks; answers whether nothing is left until the chain moves.
    pub fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<bool, StoreFollowError> {
        let (cursor, events, tip) = self.next_events()?;
        meter::stands(cursor.height(), tip);
        let Some(tip) = tip.filter(|_| !events.is_empty()) else {
            self.publish(cursor)?;
            return Ok(true);
        };
        let mut at = cursor;
        for event in events {
            if is_stopped() {
                break;
            }
            self.take(&event, at, tip, is_stopped)?;
            at = event.cursor();
            self.publish(at)?;
            meter::stands(at.height(), Some(tip));
        }
        if at != cursor {
            place::write(&self.store, at.block().map(|(height, hash)| done(height, hash)))?;
        }
        Ok(false)
    }

    /// Where it stands, what comes next, and the tip: all of one moment, since a block in hand comes
    /// as applied or as undone.
    fn next_events(&mut self) -> Result<(Cursor, Vec<LogEvent>, Option<Height>), StoreFollowError> {
        let stands = if self.cursor.is_none() { place::read(&self.store)? } else { None };
        self.again = stands.filter(|stands| stands.is_in_hand).map(|stands| stands.hash);
        let view = self.index.view()?;
        let cursor = self.cursor.map_or_else(|| resumes_at(&view, stands), Ok)?;
        let events = match view.log().events(cursor, STEP_EVENTS_MAX) {
            Err(LogError::UnknownCursor { height, .. }) => {
                let hash = cursor.block().map(|(_, hash)| hash).unwrap_or_default();
                return Err(StoreFollowError::OtherChain { height, hash });
            }
            events => events?,
        };
        Ok((cursor, events, view.tip().map(|(height, _)| height)))
    }

    fn take(
        &mut self,
        event: &LogEvent,
        parent: Cursor,
        tip: Height,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), StoreFollowError> {
        let block = event.block();
        // Nobody can spend anything of the first block.
        if block.height == Height::GENESIS {
            return Ok(());
        }
        crash_point("store_follow_before_block");
        // From here on a restart resumes at this block: everything below is done.
        let in_hand = FollowPlace { is_in_hand: true, ..done(block.height, block.entry.hash) };
        place::write(&self.store, Some(in_hand))?;
        crash_point("store_follow_in_hand");
        match event {
            LogEvent::Undone(block) => self.undo(event, block, tip, is_stopped)?,
            LogEvent::Applied(block) => {
                let raw = self.body(block, parent, tip, is_stopped)?;
                self.apply(block, &raw, self.again == Some(block.entry.hash))?;
            }
        }
        crash_point("store_follow_after_block");
        Ok(())
    }

    /// The bytes of a block.
    pub(super) fn body(
        &mut self,
        block: &LoggedBlock,
        parent: Cursor,
        tip: Height,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, StoreFollowError> {
        // A node is asked for what lies behind the parent.
        let parent = match parent.block() {
            Some((below, hash)) => {
                let logged = self.index.view()?.log().block(below)?;
                logged.filter(|logged| logged.entry.hash == hash).map(|logged| logged.point())
            }
            None => None,
        };
        let wanted = WantedBlock { point: block.point(), parent, tip };
        let found = self.bodies.raw(&wanted, is_stopped)?;
        found.ok_or_else(|| StoreFollowError::MissingBody {
            height: block.height,
            looked_in: self.bodies.places(),
        })
    }

    /// Tells the chain database how far the store is. One that was detached is attached again.
    fn publish(&mut self, cursor: Cursor) -> Result<(), StoreFollowError> {
        self.index.register_consumer(NAME, ConsumerNeeds::Blocks, cursor)?;
        crash_point("store_follow_published");
        self.cursor = Some(cursor);
        Ok(())
    }
}

/// From where the log is read on. A block in hand comes again: applied, where it is on the chain, and
/// undone, where it is not.
fn resumes_at<S: Read>(
    view: &View<'_, S>,
    stands: Option<FollowPlace>,
) -> Result<Cursor, StoreFollowError> {
    let Some(stands) = stands else { return Ok(Cursor::START) };
    if !stands.is_in_hand {
        return Ok(stands.cursor());
    }
    let logged = view.log().block(stands.height)?;
    let logged = logged.filter(|logged| logged.entry.hash == stands.hash);
    Ok(logged.map_or_else(|| stands.cursor(), |logged| logged.parent()))
}

const fn done(height: Height, hash: BlockHash) -> FollowPlace {
    FollowPlace { height, hash, is_in_hand: false }
}

impl<K: Kv + 'static> StoreFollower<K> {
    /// Follows on a thread of its own, until that is dropped.
    pub fn in_background(self, state: FollowerState) -> io::Result<ConsumerThread> {
        meter::describe();
        let signal = self.index.tip_signal().clone();
        // Known before anything that waits for named consumers starts.
        if let Err(error) = self.register() {
            tracing::warn!(%error, "the node store could not register with the chain log yet");
        }
        ConsumerThread::start(self, &signal, LOOK_AFTER, state)
    }
}

impl<K: Kv + 'static> LogConsumer for StoreFollower<K> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
        match Self::step(self, is_stopped) {
            Ok(is_done) => Ok(Stepped { is_done, hindrance: None }),
            Err(error) => {
                // What is stored is looked at again.
                self.cursor = None;
                Err(error.into())
            }
        }
    }
}
