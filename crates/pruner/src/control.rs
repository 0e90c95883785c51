//! Stopping and pausing what runs, from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between a run and those who watch it.
#[derive(Debug, Default)]
pub struct Control {
    is_cancelled: AtomicBool,
    is_stopped: AtomicBool,
    is_paused: AtomicBool,
    examined: AtomicU64,
    deleted: AtomicU64,
}

impl Control {
    /// Asks the present run to stop after its chunk.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    /// Cancels this run and every later one: the service goes down.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Whether the run is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire) || self.is_stopped.load(Ordering::Acquire)
    }

    /// Lets no further run start, or lets them start again. A run that goes on is not touched.
    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Release);
    }

    /// Whether runs may not start.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    /// Records the present run has looked at, and how many of them it deleted.
    pub fn progress(&self) -> (u64, u64) {
        (self.examined.load(Ordering::Relaxed), self.deleted.load(Ordering::Relaxed))
    }

    pub(crate) fn start_run(&self) {
        self.is_cancelled.store(false, Ordering::Release);
        self.examined.store(0, Ordering::Relaxed);
        self.deleted.store(0, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, examined: u64, deleted: u64) {
        self.examined.fetch_add(examined, Ordering::Relaxed);
        self.deleted.fetch_add(deleted, Ordering::Relaxed);
    }
}
