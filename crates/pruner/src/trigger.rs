//! The trigger: at most one height waits, the newest.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use utxokeep_core::Height;

/// Which event starts a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerMode {
    /// A block that joined the chain, until a persister has reported; from then on one that was
    /// persisted.
    Auto,
    /// A block that joined the chain; there is no persister, and one that reports is refused.
    BlockMined,
    /// A persister has written everything of a block. Nothing above it is pruned, and nothing at
    /// all before it reported for the first time.
    BlockPersisted,
}

impl TriggerMode {
    /// Its name in the configuration and in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::BlockMined => "block_mined",
            Self::BlockPersisted => "block_persisted",
        }
    }

    /// Whether nothing is safe before a persister has reported.
    #[must_use]
    pub fn needs_persister(self) -> bool {
        self == Self::BlockPersisted
    }
}

#[derive(Debug, Default)]
struct Waiting {
    pending: Option<Height>,
    is_closed: bool,
}

/// Waits for the next height to prune at. Which heights are safe is not its business.
#[derive(Debug, Default)]
pub struct Trigger {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Trigger {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers a height; answers whether it waits now and did not before.
    pub fn offer(&self, height: Height) -> bool {
        let mut waiting = self.waiting();
        // Whoever was let go must not find work again.
        let is_new =
            !waiting.is_closed && Some(height) > waiting.pending && height > Height::GENESIS;
        if is_new {
            waiting.pending = Some(height);
            self.changed.notify_all();
        }
        is_new
    }

    /// Takes the newest height, waiting for one at most this long.
    pub fn take(&self, wait: Duration) -> Option<Height> {
        let waiting = self.waiting();
        let is_idle = |waiting: &mut Waiting| waiting.pending.is_none() && !waiting.is_closed;
        let (mut waiting, _) = self
            .changed
            .wait_timeout_while(waiting, wait, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.pending.take()
    }

    /// Newest height that waits.
    pub fn pending(&self) -> Option<Height> {
        self.waiting().pending
    }

    /// Lets whoever waits go; no height is taken from now on.
    pub fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        waiting.pending = None;
        drop(waiting);
        self.changed.notify_all();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.waiting().is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_trigger_offers_no_work() {
        let trigger = Trigger::default();
        assert!(trigger.offer(Height::new(5)));
        trigger.close();
        assert!(!trigger.offer(Height::new(6)));
        assert_eq!(trigger.take(Duration::ZERO), None);
    }

    #[test]
    fn of_many_heights_only_the_newest_waits() {
        let at = Height::new;
        let trigger = Trigger::default();
        assert!(trigger.offer(at(1)) && !trigger.offer(at(1)) && !trigger.offer(at(0)));
        assert_eq!(trigger.take(Duration::ZERO), Some(at(1)));
        for height in 2..=100 {
            assert!(trigger.offer(at(height)));
        }
        assert!(!trigger.offer(at(99)), "newest wins");
        assert_eq!(trigger.pending(), Some(at(100)));
        assert_eq!(trigger.take(Duration::ZERO), Some(at(100)));
        assert_eq!(trigger.take(Duration::ZERO), None);
    }
}
