//! Reads the change stream step by step: one snapshot, a bounded amount of work, and what to tell.

use utxokeep_core::{BlockDelta, Changes, Direction, PartLimits, StreamCursor, WatchFilter};
use utxokeep_index::{ChainIndex, Cursor, LogEvent, LogReader, LoggedBlock};
use utxokeep_kv::{Kv, Read};

use super::{BlockChanges, MmrAfter, StreamError};
use crate::config::StreamConfig;

/// Events that one step makes. They are in memory before the first is sent.
const STEP_EVENTS_MAX: usize = 4;

/// Blocks that one step looks at, so that a snapshot is not held for long.
const STEP_BLOCKS_MAX: usize = 200;

/// Changes that one step looks at before it begins with another block.
const STEP_CHANGES_MAX: usize = 20_000;

/// How much an event may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Limits of one event.
    pub part: PartLimits,
}

impl StreamLimits {
    /// From settings.
    #[must_use]
    pub const fn of(config: &StreamConfig) -> Self {
        let outputs_max = config.event_outputs_max.get() as usize;
        let bytes_max = config.event_kib_max.get() as usize * 1_024;
        Self { part: PartLimits { outputs_max, bytes_max } }
    }
}

/// What a step came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// What to tell, in order.
    pub events: Vec<BlockChanges>,
    /// Blocks that were done with in silence, because nothing of them is watched.
    pub blocks_passed: u32,
    /// Changes that were looked at.
    pub changes_read: usize,
    /// Whether nothing is left until the tip moves.
    pub is_at_tip: bool,
}

/// A reader of the change stream, somewhere in it.
#[derive(Debug, Clone)]
pub struct StreamReader<K> {
    index: ChainIndex<K>,
    watch: WatchFilter,
    limits: StreamLimits,
    at: StreamCursor,
}

impl<K: Kv> StreamReader<K> {
    /// Reads on behind `at`.
    #[must_use]
    pub const fn new(
        index: ChainIndex<K>,
        watch: WatchFilter,
        limits: StreamLimits,
        at: StreamCursor,
    ) -> Self {
        Self { index, watch, limits, at }
    }

    /// Where it stands: behind everything that it has told, and behind what it passed in silence.
    #[must_use]
    pub const fn cursor(&self) -> StreamCursor {
        self.at
    }

    /// Whether it tells of some outputs only.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        !self.watch.is_empty()
    }

    /// The index that it reads.
    #[must_use]
    pub const fn index(&self) -> &ChainIndex<K> {
        &self.index
    }

    /// Reads on a bit. After an error it stands where it stood before.
    pub fn step(&mut self) -> Result<Step, StreamError> {
        let index = self.index.clone();
        let view = index.view()?;
        let log = view.log();
        let mut step = Step::default();
        let mut at = self.at;
        let mut blocks = 0;
        while step.events.len() < STEP_EVENTS_MAX
            && blocks < STEP_BLOCKS_MAX
            && step.changes_read < STEP_CHANGES_MAX
        {
            let Some(next) = Next::behind(&log, at)? else {
                step.is_at_tip = true;
                break;
            };
            blocks += 1;
            at = self.read_block(&log, &next, &mut step)?;
        }
        self.at = at;
        Ok(step)
    }

    /// Tells of one block, or of as much of it as the step has room for.
    fn read_block<S: Read>(
        &self,
        log: &LogReader<'_, '_, S>,
        next: &Next,
        step: &mut Step,
    ) -> Result<StreamCursor, StreamError> {
        let delta = log.changes(&next.event)?;
        let (block, network) = (*next.event.block(), self.index.settings().network());
        let changes = Changes::of(&delta);
        let mut has = next.has(&delta)?;
        // Of a block that was told in part the end is told too, also when nothing of it is watched.
        let mut is_under_way = next.applied.is_some();
        loop {
            let part =
                changes.part(has, next.direction(), &self.watch, network, self.limits.part)?;
            step.changes_read += part.places.len();
            has = part.applied;
            let at = place(next.direction(), &block, &part);
            if !part.changes.is_empty() || !self.is_filtered() || is_under_way {
                let mmr = if part.is_last { self.mmr_after(log, next, &delta)? } else { None };
                let told = BlockChanges::new(at, next.direction(), block, &part, mmr)?;
                step.events.push(told);
                is_under_way = true;
            } else {
                step.blocks_passed += 1;
            }
            if part.is_last || step.events.len() >= STEP_EVENTS_MAX {
                return Ok(at);
            }
        }
    }
}

impl<K: Kv> StreamReader<K> {
    /// The Merkle mountain range behind a block. What the delta of an undone block says of it may be of
    /// another rule, from before the range was built anew: there the chain is asked.
    fn mmr_after<S: Read>(
        &self,
        log: &LogReader<'_, '_, S>,
        next: &Next,
        delta: &BlockDelta,
    ) -> Result<Option<MmrAfter>, StreamError> {
        if self.index.settings().mmr.is_none() {
            return Ok(None);
        }
        if let (LogEvent::Applied(_), Some(mmr)) = (&next.event, &delta.mmr) {
            return Ok(Some(MmrAfter { leaves: mmr.leaves_before + mmr.inserts, root: mmr.root }));
        }
        let root = log.mmr_root(next.event.cursor())?;
        Ok(root.map(|root| MmrAfter { leaves: root.leaves, root: root.root }))
    }
}

/// Where a reader stands behind a part.
fn place(
    direction: Direction,
    block: &LoggedBlock,
    part: &utxokeep_core::ChangePart<'_>,
) -> StreamCursor {
    match (part.is_last, direction) {
        (true, Direction::Apply) => StreamCursor::behind(block.height, block.entry.hash),
        (true, Direction::Undo) => behind(block.parent()),
        (false, _) => {
            let applied = u32::try_from(part.applied).unwrap_or(u32::MAX);
            StreamCursor::inside(block.height, block.entry.hash, applied)
        }
    }
}

/// The same place in the stream as in the log.
pub(super) fn behind(cursor: Cursor) -> StreamCursor {
    match cursor.block() {
        Some((height, hash)) => StreamCursor::behind(height, hash),
        None => StreamCursor::START,
    }
}

/// The next block of a reader.
struct Next {
    event: LogEvent,
    /// How many of its changes the reader has, of a block that it has in part.
    applied: Option<u32>,
}

impl Next {
    /// What comes behind a place; `None` at the tip.
    fn behind<S: Read>(
        log: &LogReader<'_, '_, S>,
        at: StreamCursor,
    ) -> Result<Option<Self>, StreamError> {
        let first = log.events(at.block().into(), 1)?.into_iter().next();
        let (Some(applied), Some((height, hash))) = (at.applied(), at.block()) else {
            return Ok(first.map(|event| Self { event, applied: None }));
        };
        // Whoever has a part of a block gives it back if the block has left, and else gets the rest.
        let event = match first {
            Some(event @ LogEvent::Undone(_)) if event.block().entry.hash == hash => event,
            _ => LogEvent::Applied(log.block(height)?.ok_or(StreamError::BadCursor)?),
        };
        Ok(Some(Self { event, applied: Some(applied) }))
    }

    const fn direction(&self) -> Direction {
        match self.event {
            LogEvent::Applied(_) => Direction::Apply,
            LogEvent::Undone(_) => Direction::Undo,
        }
    }

    /// How many changes of the block the reader has.
    fn has(&self, delta: &BlockDelta) -> Result<usize, StreamError> {
        let changes = Changes::of(delta).len();
        let Some(applied) = self.applied else {
            return Ok(match self.direction() {
                Direction::Apply => 0,
                Direction::Undo => changes,
            });
        };
        match usize::try_from(applied) {
            Ok(has) if has <= changes => Ok(has),
            _ => {
                let height = self.event.block().height;
                Err(StreamError::CursorBehindBlock { height, applied, changes })
            }
        }
    }
}
