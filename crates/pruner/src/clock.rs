//! Time, so that tests need not wait for it.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Milliseconds since some moment; never goes back.
    fn now_ms(&self) -> u64;

    /// Waits for so many milliseconds; a clock of tests moves on instead.
    fn sleep_ms(&self, ms: u64);
}

/// Time since the clock was made.
#[derive(Debug)]
pub struct MonotonicClock(Instant);

impl Default for MonotonicClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep_ms(&self, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
    }
}
