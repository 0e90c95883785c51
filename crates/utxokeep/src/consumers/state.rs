//! How the thread gets on that follows the chain for the ledger, for those who ask about health.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What the thread that follows says of itself; clones share it.
#[derive(Debug, Clone, Default)]
pub struct FollowerState(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    runs: bool,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    attempts: u32,
    reason: String,
    /// It panicked, which is worth telling at once.
    is_defect: bool,
}

impl FollowerState {
    /// The thread runs from now on, or not any more.
    pub fn set_running(&self, runs: bool) {
        *self.inner() = Inner { runs, trouble: None };
    }

    /// The last attempt succeeded.
    pub fn goes_on(&self) {
        self.inner().trouble = None;
    }

    /// The last attempt failed, or had to wait; the thread tries again.
    pub fn held_up(&self, reason: String) {
        self.note(reason, false);
    }

    /// The last attempt panicked; the thread tries again.
    pub fn broke_down(&self, reason: String) {
        self.note(reason, true);
    }

    fn note(&self, reason: String, is_defect: bool) {
        let mut inner = self.inner();
        let (since, attempts) = match &inner.trouble {
            Some(known) => (known.since, known.attempts),
            None => (Instant::now(), 0),
        };
        let attempts = attempts.saturating_add(1);
        inner.trouble = Some(Trouble { since, attempts, reason, is_defect });
    }

    /// Whether the thread runs here.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.inner().runs
    }

    /// Why the ledger has not gone on for at least `stalled`.
    #[must_use]
    pub fn fault(&self, stalled: Duration) -> Option<String> {
        let inner = self.inner();
        let trouble = inner.trouble.as_ref()?;
        let lasts = trouble.since.elapsed();
        (trouble.is_defect || lasts >= stalled).then(|| {
            let (seconds, attempts) = (lasts.as_secs(), trouble.attempts);
            format!("stands still for {seconds} s, {attempts} attempts: {}", trouble.reason)
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;
    const LATER: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_short_trouble_is_no_fault_and_a_panic_is_at_once() {
        let state = FollowerState::default();
        assert!(!state.runs());
        state.set_running(true);
        assert_eq!((state.runs(), state.fault(AT_ONCE)), (true, None));
        state.held_up("no body".to_owned());
        state.held_up("no body of block 7".to_owned());
        assert_eq!(state.fault(LATER), None);
        let told = state.fault(AT_ONCE).unwrap();
        assert!(told.contains("2 attempts: no body of block 7"), "{told}");
        state.broke_down("overflow".to_owned());
        assert!(state.fault(LATER).unwrap().contains("3 attempts: overflow"));
        state.goes_on();
        assert_eq!(state.fault(AT_ONCE), None);
    }
}
