//! Waiting times between attempts to reach a source.

use std::time::Duration;

/// Waiting times that double from a first to a longest one. No clock and no chance: the caller
/// sleeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts at `first` and never exceeds `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        let first = first.min(max);
        Self { first, max, next: first }
    }

    /// How long to wait before the next attempt; every call doubles the answer of the next one.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.max);
        wait
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(backoff: &mut Backoff, calls: usize) -> Vec<u64> {
        (0..calls).map(|_| backoff.next_wait().as_secs()).collect()
    }

    #[test]
    fn doubles_up_to_the_maximum_and_starts_over_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        assert_eq!(seconds(&mut backoff, 6), [1, 2, 4, 8, 10, 10]);
        backoff.reset();
        assert_eq!(seconds(&mut backoff, 2), [1, 2]);
    }

    #[test]
    fn extreme_durations_stay_in_range() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::MAX);
        assert_eq!(backoff.next_wait(), Duration::MAX);
        assert_eq!(backoff.next_wait(), Duration::MAX);
        let mut backoff = Backoff::new(Duration::from_secs(9), Duration::from_secs(3));
        assert_eq!(seconds(&mut backoff, 2), [3, 3]);
    }
}
