//! Time for the pruner: that of the wall, which never goes back while the program runs.

use std::{
    thread,
    time::{Duration, Instant},
};

use utxokeep_pruner::Clock;

use crate::clock::now_us;

/// Milliseconds since 1970 when the clock was made, and how much time has passed since.
#[derive(Debug)]
pub struct WallClock {
    started_ms: u64,
    since: Instant,
}

impl Default for WallClock {
    fn default() -> Self {
        let started_ms = u64::try_from(now_us() / 1_000).unwrap_or(0);
        Self { started_ms, since: Instant::now() }
    }
}

impl Clock for WallClock {
    fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.started_ms.saturating_add(passed)
    }

    fn sleep_ms(&self, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
    }
}
