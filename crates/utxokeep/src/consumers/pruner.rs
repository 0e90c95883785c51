//! The pruner as a consumer of the chain log: it is told what the chain does, and which of the other
//! named consumers has come least far.
//!
//! # Invariants
//!
//! * The pruner is told of a reorganisation before it is told of a block above the fork, also when the
//!   reorganisation happened while it was down: its cursor is kept in the chain database.
//! * It is told how far a persister of the same log has come, in the same commit as of a block, or
//!   before: also of one that is so far behind that the log does not wait for it any more.
//! * It is told how far the slowest of the other named consumers is in the same commit as of a block,
//!   or before. The store keeps that: it bounds every run, whoever asks for it.

use utxokeep_core::{
    Height,
    node::{ConsumerBound, ConsumerName},
};
use utxokeep_fault::crash_point;
use utxokeep_index::{
    ChainIndex, ConsumerNeeds, ConsumerState, Cursor, IndexError, LogError, LogEvent, View,
};
use utxokeep_kv::{Kv, Read};

use super::{LogConsumer, StepFailed, Stepped};
use crate::{pruning::Pruning, store_follow};

/// Events that are read from one snapshot.
const STEP_EVENTS_MAX: usize = 256;

/// Name under which the cursor of the pruner is kept.
const NAME: &str = "pruner";

/// The consumer of a log that has come least far, the pruner apart. The node store itself counts also
/// where it is so far behind that the log does not wait for it any more.
fn slowest<S: Read>(view: &View<'_, S>) -> Result<Option<ConsumerBound>, IndexError> {
    let slowest = view.slowest_consumer(&[NAME])?;
    let own = view.reached(store_follow::NAME)?;
    let own = own.map(|height| (store_follow::NAME.to_owned(), height));
    let slowest = slowest.into_iter().chain(own).min_by_key(|(_, height)| *height);
    Ok(slowest
        .and_then(|(name, height)| Some(ConsumerBound { name: ConsumerName::new(&name)?, height })))
}

/// How far the other consumers of a log are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Others {
    /// The one that has come least far.
    pub slowest: Option<ConsumerBound>,
    /// The newest block that a persister has written; `None` where there is no persister.
    pub persisted: Option<Height>,
}

impl Others {
    /// As the log knows them. What is persisted above `newest`, the newest block that the pruner has
    /// heard of, it is told of later.
    pub(crate) fn of<S: Read>(
        view: &View<'_, S>,
        newest: Option<Height>,
    ) -> Result<Self, IndexError> {
        let persisted = view.reached(crate::persister::NAME)?;
        let heard = newest.unwrap_or(Height::GENESIS);
        let persisted = persisted.map(|persisted| persisted.min(heard));
        Ok(Self { slowest: slowest(view)?, persisted })
    }
}

/// What a look at the log from a cursor finds, all of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What became of the chain; `None` when nothing did.
    pub moved: Option<Moved>,
    /// How far the other consumers are, as of the place behind `moved`.
    pub others: Others,
}

impl Seen {
    /// Looks from a cursor, at [`STEP_EVENTS_MAX`] events at the most.
    pub(crate) fn from<S: Read>(view: &View<'_, S>, cursor: Cursor) -> Result<Self, LogError> {
        let moved = Moved::over(&view.log().events(cursor, STEP_EVENTS_MAX)?);
        let at = moved.map_or(cursor, |moved| moved.cursor);
        Ok(Self { moved, others: Others::of(view, at.height())? })
    }
}

/// Tells a pruner what becomes of the chain.
#[derive(Debug)]
pub(crate) struct PrunerConsumer<K> {
    pruning: Pruning,
    index: ChainIndex<K>,
    /// `None` until it has been registered.
    cursor: Option<Cursor>,
    /// What the pruner was last told of the other consumers; `None` before that.
    told: Option<Others>,
}

impl<K: Kv> PrunerConsumer<K> {
    pub(crate) const fn new(pruning: Pruning, index: ChainIndex<K>) -> Self {
        Self { pruning, index, cursor: None, told: None }
    }

    fn tell(
        &mut self,
        others: Others,
        fork: Option<Height>,
        newest: Option<Height>,
    ) -> Result<(), StepFailed> {
        crash_point("pruner_before_report");
        self.pruning.chain_moved(others, fork, newest)?;
        crash_point("pruner_after_report");
        self.told = Some(others);
        Ok(())
    }

    /// Where it left off. One that never followed this chain starts at the tip; `None` when there is
    /// no block.
    fn resume(&mut self) -> Result<Option<Cursor>, StepFailed> {
        let known = self.index.consumers()?;
        if let Some(own) = known.into_iter().find(|consumer| consumer.name == NAME) {
            if own.state != ConsumerState::Attached {
                self.index.register_consumer(NAME, ConsumerNeeds::Blocks, own.cursor)?;
            }
            // A store that is newer than the cursor has heard of no height yet.
            let others = Others::of(&self.index.view()?, own.cursor.height())?;
            self.tell(others, None, own.cursor.height())?;
            return Ok(Some(own.cursor));
        }
        let view = self.index.view()?;
        let Some(tip) = view.log().tip() else { return Ok(None) };
        let others = Others::of(&view, Some(tip.height))?;
        self.pruning.chain_moved(others, None, Some(tip.height))?;
        self.index.register_consumer(NAME, ConsumerNeeds::Blocks, tip.cursor())?;
        Ok(Some(tip.cursor()))
    }
}

impl<K: Kv + 'static> LogConsumer for PrunerConsumer<K> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, _: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
        let idle = Stepped { is_done: true, hindrance: None };
        let Some(cursor) = self.cursor else {
            self.cursor = self.resume()?;
            return Ok(Stepped { is_done: self.cursor.is_none(), hindrance: None });
        };
        let index = self.index.clone();
        let view = index.view()?;
        let Seen { moved, others } = match Seen::from(&view, cursor) {
            Err(LogError::UnknownCursor { height, start_from }) => {
                // Nobody knows where the branches part: what was said above the floor is void.
                let Some(fork) = view.log().block(start_from.min(height))? else { return Ok(idle) };
                let others = Others::of(&view, Some(fork.height))?;
                self.tell(others, Some(fork.height), None)?;
                self.cursor = Some(fork.cursor());
                return Ok(Stepped::default());
            }
            seen => seen?,
        };
        let Some(moved) = moved else {
            if self.told != Some(others) {
                self.tell(others, None, None)?;
            }
            return Ok(idle);
        };
        self.tell(others, moved.fork, moved.newest)?;
        self.index.publish_cursor(NAME, moved.cursor)?;
        self.cursor = Some(moved.cursor);
        Ok(Stepped::default())
    }
}

/// What some events of the log come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The last block that stayed, when some left.
    pub fork: Option<Height>,
    /// The newest block that joined.
    pub newest: Option<Height>,
    /// Behind all of it.
    pub cursor: Cursor,
}

impl Moved {
    /// Sums events up; `None` when there are none.
    fn over(events: &[LogEvent]) -> Option<Self> {
        let mut moved = None;
        for event in events {
            let height = event.block().height;
            let Self { mut fork, mut newest, .. } =
                moved.unwrap_or(Self { fork: None, newest: None, cursor: Cursor::START });
            match event {
                LogEvent::Undone(_) => fork = Some(height.minus(1)),
                LogEvent::Applied(_) => newest = Some(height),
            }
            moved = Some(Self { fork, newest, cursor: event.cursor() });
        }
        moved
    }
}
