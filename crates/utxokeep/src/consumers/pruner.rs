//! The pruner as a consumer of the chain log: it hears of a block once every other named consumer
//! has it.
//!
//! # Invariants
//!
//! * The pruner is told of a reorganisation before it is told of a block above the fork, also when the
//!   reorganisation happened while it was down: its cursor is kept in the chain database.
//! * It is told of no block above the lowest cursor of the other named consumers.

use utxokeep_core::Height;
use utxokeep_index::{ChainIndex, ConsumerNeeds, ConsumerState, Cursor, LogError, LogEvent};
use utxokeep_kv::Kv;

use super::{LogConsumer, StepFailed, Stepped};
use crate::pruning::Pruning;

/// Events that are read from one snapshot.
const STEP_EVENTS_MAX: usize = 256;

/// Tells a pruner what becomes of the chain.
#[derive(Debug)]
pub(crate) struct PrunerConsumer<K> {
    pruning: Pruning,
    index: ChainIndex<K>,
    /// `None` until it has been registered.
    cursor: Option<Cursor>,
}

impl<K: Kv> PrunerConsumer<K> {
    /// Name under which its cursor is kept.
    pub(crate) const NAME: &'static str = "pruner";

    pub(crate) const fn new(pruning: Pruning, index: ChainIndex<K>) -> Self {
        Self { pruning, index, cursor: None }
    }

    /// Where it left off. One that never followed this chain starts at the newest block that every
    /// other consumer has; `None` when there is no block.
    fn resume(&self) -> Result<Option<Cursor>, StepFailed> {
        let known = self.index.consumers()?;
        if let Some(own) = known.into_iter().find(|consumer| consumer.name == Self::NAME) {
            if own.state != ConsumerState::Attached {
                self.index.register_consumer(Self::NAME, ConsumerNeeds::Blocks, own.cursor)?;
            }
            // A store that is newer than the cursor has heard of no height yet.
            if let Some(height) = own.cursor.height() {
                self.pruning.chain_moved(None, Some(height))?;
            }
            return Ok(Some(own.cursor));
        }
        let bound = self.index.watermark(&[Self::NAME])?;
        let view = self.index.view()?;
        let Some(tip) = view.log().tip() else { return Ok(None) };
        let start = bound.map_or(tip.height, |bound| bound.min(tip.height));
        let Some(block) = view.log().block(start)? else { return Ok(None) };
        self.pruning.chain_moved(None, Some(start))?;
        self.index.register_consumer(Self::NAME, ConsumerNeeds::Blocks, block.cursor())?;
        Ok(Some(block.cursor()))
    }
}

impl<K: Kv + 'static> LogConsumer for PrunerConsumer<K> {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn step(&mut self, _: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
        let idle = Stepped { is_done: true, hindrance: None };
        let Some(cursor) = self.cursor else {
            self.cursor = self.resume()?;
            return Ok(Stepped { is_done: self.cursor.is_none(), hindrance: None });
        };
        let bound = self.index.watermark(&[Self::NAME])?;
        let view = self.index.view()?;
        let events = match view.log().events(cursor, STEP_EVENTS_MAX) {
            Err(LogError::UnknownCursor { height, start_from }) => {
                // Nobody knows where the branches part: what was said above the floor is void.
                let Some(fork) = view.log().block(start_from.min(height))? else { return Ok(idle) };
                self.pruning.chain_moved(Some(fork.height), None)?;
                self.cursor = Some(fork.cursor());
                return Ok(Stepped::default());
            }
            events => events?,
        };
        let Some(moved) = Moved::over(&events, bound) else { return Ok(idle) };
        self.pruning.chain_moved(moved.fork, moved.newest)?;
        self.index.publish_cursor(Self::NAME, moved.cursor)?;
        self.cursor = Some(moved.cursor);
        Ok(Stepped::default())
    }
}

/// What some events of the log come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moved {
    /// The last block that stayed, when some left.
    fork: Option<Height>,
    /// The newest block that joined.
    newest: Option<Height>,
    cursor: Cursor,
}

impl Moved {
    /// Sums events up, as far as `bound` allows; `None` when nothing may be told yet.
    fn over(events: &[LogEvent], bound: Option<Height>) -> Option<Self> {
        let is_told = |event: &&LogEvent| match event {
            LogEvent::Undone(_) => true,
            LogEvent::Applied(block) => bound.is_none_or(|bound| block.height <= bound),
        };
        let mut moved = None;
        for event in events.iter().take_while(is_told) {
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
