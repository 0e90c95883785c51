//! The clock of the servers, and how long a write may be carried out.
//!
//! A node that hung and goes on finds writes in its connections that were sent before. Others may have
//! taken its place meanwhile, and have acknowledged newer writes of the same cells; carried out late, an
//! old one would have the newest time of all, and win over them. So each write says until when it may be
//! carried out, by the clock of whoever carries it out.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How old the comparison of clocks may get before it is made again.
const AGE_MAX: Duration = Duration::from_secs(5);

/// Until when a write may be carried out, in milliseconds of the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline(u64);

impl Deadline {
    pub(super) fn server_ms(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

/// What a server said its time was, and when it was heard: its time now is no earlier than what follows
/// from that.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    said: Mutex<Option<(Instant, u64)>>,
    is_asked: AtomicBool,
}

impl ServerClock {
    fn lock(&self) -> MutexGuard<'_, Option<(Instant, u64)>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn heard(&self, said_ms: u64) {
        *self.lock() = Some((Instant::now(), said_ms));
        self.is_asked.store(false, Ordering::Release);
    }

    /// Its time, if it ever said it.
    pub(super) fn now_ms(&self) -> Option<u64> {
        let (heard, said_ms) = (*self.lock())?;
        Some(said_ms + u64::try_from(heard.elapsed().as_millis()).unwrap_or(u64::MAX / 2))
    }

    /// Whether it should be asked again. Says so to one caller, until that one heard or gave up.
    pub(super) fn is_due(&self) -> bool {
        let is_old = (*self.lock()).is_none_or(|(heard, _)| heard.elapsed() >= AGE_MAX);
        is_old && !self.is_asked.swap(true, Ordering::AcqRel)
    }

    pub(super) fn gave_up(&self) {
        self.is_asked.store(false, Ordering::Release);
    }

    /// The deadline of a write that is sent now.
    pub(super) fn deadline(&self, within_ms: u64) -> Option<Deadline> {
        Some(Deadline(self.now_ms()? + within_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_asks_and_a_deadline_follows_from_the_answer() {
        let clock = ServerClock::default();
        assert_eq!(clock.deadline(100), None);
        assert!(clock.is_due() && !clock.is_due());
        clock.gave_up();
        assert!(clock.is_due());
        clock.heard(1_000_000);
        assert!(!clock.is_due());
        let Deadline(until) = clock.deadline(100).unwrap();
        assert!((1_000_100..1_060_000).contains(&until), "{until}");
    }
}
