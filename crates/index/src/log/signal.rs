//! The signal that the log has changed: it says that there is more, and carries no data.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Wakes readers of the log when the tip has moved. Clones share it.
///
/// A reader takes the count *before* it reads the log and waits for another one afterwards, so that
/// a block that comes in between is never slept through.
#[derive(Debug, Clone, Default)]
pub struct TipSignal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    count: Mutex<u64>,
    changed: Condvar,
}

impl TipSignal {
    /// How often the tip has moved since the database was opened.
    #[must_use]
    pub fn count(&self) -> u64 {
        *self.lock()
    }

    /// Waits until the count differs from `seen`, or the time is over; answers the count.
    #[must_use]
    pub fn wait(&self, seen: u64, wait: Duration) -> u64 {
        let until = Instant::now() + wait;
        let mut count = self.lock();
        while *count == seen {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let woken = self.0.changed.wait_timeout(count, left);
            count = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *count
    }

    /// Wakes every reader, also to have one look whether it is to stop.
    pub fn raise(&self) {
        *self.lock() += 1;
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.0.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_change_between_the_look_and_the_wait_is_not_slept_through() {
        let signal = TipSignal::default();
        let seen = signal.count();
        signal.raise();
        assert_eq!(signal.wait(seen, Duration::from_secs(600)), seen + 1);
    }

    #[test]
    fn a_waiting_reader_is_woken_and_one_that_nobody_wakes_gives_up() {
        let signal = TipSignal::default();
        let waiting = {
            let signal = signal.clone();
            thread::spawn(move || signal.wait(0, Duration::from_secs(600)))
        };
        signal.raise();
        assert_eq!(waiting.join().unwrap(), 1);
        assert_eq!(signal.wait(1, Duration::from_millis(1)), 1);
    }
}
