//! The trigger: one slot, the newest height wins, heights never go back.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use utxokeep_core::Height;

/// Which event starts a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerMode {
    /// A block joined the chain; there is no persister to wait for.
    BlockMined,
    /// A persister has written everything of a block. Nothing above it is pruned, and nothing at
    /// all before it reported for the first time.
    BlockPersisted,
}

#[derive(Debug, Default)]
struct Slot {
    pending: Option<Height>,
    current: Option<Height>,
    persisted: Option<Height>,
    processed: Option<Height>,
    is_closed: bool,
}

/// Waits for the next height to prune at.
#[derive(Debug)]
pub struct Trigger {
    mode: TriggerMode,
    slot: Mutex<Slot>,
    changed: Condvar,
}

impl Trigger {
    /// A trigger that nothing has pulled.
    #[must_use]
    pub fn new(mode: TriggerMode) -> Self {
        Self { mode, slot: Mutex::new(Slot::default()), changed: Condvar::new() }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block joined the chain.
    pub fn block_mined(&self, height: Height) {
        let mut slot = self.slot();
        slot.current = Some(height);
        if self.mode == TriggerMode::BlockMined {
            self.offer(&mut slot, height);
        }
    }

    /// A persister has everything up to a block.
    pub fn block_persisted(&self, height: Height) {
        let mut slot = self.slot();
        slot.persisted = slot.persisted.max(Some(height));
        if self.mode == TriggerMode::BlockPersisted {
            self.offer(&mut slot, height);
        }
    }

    /// The chain went back to a height before it goes on with other blocks.
    pub fn rolled_back(&self, height: Height) {
        let mut slot = self.slot();
        slot.current = slot.current.map(|current| current.min(height));
    }

    /// Somebody asks for a run by hand; answers the height it will have, if it is new.
    pub fn request(&self, height: Height) -> Option<Height> {
        let mut slot = self.slot();
        let safe = self.safe_height(&slot, height)?;
        self.offer(&mut slot, safe).then_some(safe)
    }

    /// The height that may be pruned at if the chain is at `height`: not above what is persisted,
    /// where there is a persister.
    fn safe_height(&self, slot: &Slot, height: Height) -> Option<Height> {
        let height = slot.current.map_or(height, |current| current.min(height));
        match self.mode {
            TriggerMode::BlockMined => Some(height),
            TriggerMode::BlockPersisted => slot.persisted.map(|persisted| persisted.min(height)),
        }
    }

    fn offer(&self, slot: &mut Slot, height: Height) -> bool {
        let is_new = Some(height) > slot.pending
            && Some(height) > slot.processed
            && height > Height::GENESIS;
        if is_new {
            slot.pending = Some(height);
            self.changed.notify_all();
        }
        is_new
    }

    /// Takes the newest height, waiting for one at most this long.
    pub fn take(&self, wait: Duration) -> Option<Height> {
        let slot = self.slot();
        let is_idle = |slot: &mut Slot| slot.pending.is_none() && !slot.is_closed;
        let (mut slot, _) = self
            .changed
            .wait_timeout_while(slot, wait, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        let height = slot.pending.take()?;
        // The chain may have gone back since the height was offered.
        let safe = self.safe_height(&slot, height)?;
        (Some(safe) > slot.processed && safe > Height::GENESIS).then_some(safe)
    }

    /// A run at this height is complete.
    pub fn done(&self, height: Height) {
        let mut slot = self.slot();
        slot.processed = slot.processed.max(Some(height));
    }

    /// Newest height that is complete.
    pub fn processed(&self) -> Option<Height> {
        self.slot().processed
    }

    /// Newest height that waits.
    pub fn pending(&self) -> Option<Height> {
        self.slot().pending
    }

    /// Height up to which everything is persisted.
    pub fn persisted(&self) -> Option<Height> {
        self.slot().persisted
    }

    /// The height that a run would have now, if the chain is at the height last heard of.
    pub fn safe_now(&self) -> Option<Height> {
        let slot = self.slot();
        self.safe_height(&slot, slot.current.or(slot.persisted)?)
    }

    /// Lets whoever waits go.
    pub fn close(&self) {
        self.slot().is_closed = true;
        self.changed.notify_all();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.slot().is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn at(height: u32) -> Height {
        Height::new(height)
    }

    #[test]
    fn w_coalesce_first_and_newest_are_processed_and_heights_never_go_back() {
        let trigger = Trigger::new(TriggerMode::BlockMined);
        trigger.block_mined(at(1));
        assert_eq!(trigger.take(NOW), Some(at(1)));
        for height in 2..=100 {
            trigger.block_mined(at(height));
        }
        trigger.done(at(1));
        assert_eq!(trigger.take(NOW), Some(at(100)), "newest wins");
        trigger.done(at(100));
        trigger.block_mined(at(99));
        assert_eq!((trigger.take(NOW), trigger.processed()), (None, Some(at(100))));
    }

    #[test]
    fn a_failed_height_is_offered_again_by_the_next_block() {
        let trigger = Trigger::new(TriggerMode::BlockMined);
        trigger.block_mined(at(5));
        assert_eq!(trigger.take(NOW), Some(at(5)));
        assert_eq!(trigger.processed(), None, "nothing is done before somebody says so");
        trigger.block_mined(at(6));
        assert_eq!(trigger.take(NOW), Some(at(6)));
    }

    #[test]
    fn r_persister_safe_height_is_the_lower_of_both() {
        for (persisted, asked, runs_at) in
            [(Some(10), 50, Some(10)), (Some(50), 10, Some(10)), (None, 50, None)]
        {
            let trigger = Trigger::new(TriggerMode::BlockPersisted);
            trigger.block_mined(at(asked));
            assert_eq!(trigger.take(NOW), None, "blocks alone start nothing");
            if let Some(persisted) = persisted {
                trigger.block_persisted(at(persisted));
            }
            assert_eq!(trigger.take(NOW), runs_at.map(at));
        }
        // A persister that has nothing yet is not the same as no persister.
        let trigger = Trigger::new(TriggerMode::BlockPersisted);
        trigger.block_persisted(at(0));
        assert_eq!((trigger.take(NOW), trigger.request(at(9))), (None, None));
        let trigger = Trigger::new(TriggerMode::BlockMined);
        trigger.block_persisted(at(3));
        assert_eq!((trigger.take(NOW), trigger.request(at(9))), (None, Some(at(9))));
    }

    #[test]
    fn a_reorganisation_lowers_what_waits() {
        let trigger = Trigger::new(TriggerMode::BlockMined);
        trigger.block_mined(at(20));
        trigger.rolled_back(at(15));
        assert_eq!(trigger.take(NOW), Some(at(15)));
    }
}
