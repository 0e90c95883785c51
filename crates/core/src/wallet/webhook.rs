//! Webhooks: their states, when a failed delivery is tried again, and when it is given up.

use super::Micros;

/// What becomes of the events of a wallet. The numbers are part of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WebhookState {
    /// They are delivered.
    Active = 0,
    /// Somebody paused it. Events wait, as long as they are kept.
    Paused = 1,
    /// Deliveries failed for too long, or events were forgotten before they were delivered.
    Disabled = 2,
}

impl WebhookState {
    /// Every state, in the order of the numbers.
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Disabled];

    /// The number in the database.
    #[must_use]
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// Inverse of [`WebhookState::code`].
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The name for people and interfaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }
}

/// How often and how long a delivery is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Pause after the first failure; each further one doubles it.
    pub pause_us: i64,
    /// The longest pause.
    pub pause_max_us: i64,
    /// Failures in a row that disable the webhook.
    pub attempts_max: u32,
    /// Time since the first failure in a row that disables it.
    pub give_up_us: i64,
}

/// What happens after a failed delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is tried again at this time.
    RetryAt(Micros),
    /// The webhook is disabled.
    Disable,
}

impl RetryPolicy {
    /// What happens after the `failures`-th failure in a row (1 for the first), at `now`, when the
    /// first was at `since`.
    #[must_use]
    pub fn after(&self, failures: u32, since: Micros, now: Micros) -> AfterFailure {
        let failing_us = now.get().saturating_sub(since.get());
        if failures >= self.attempts_max || failing_us >= self.give_up_us {
            return AfterFailure::Disable;
        }
        let doublings = failures.saturating_sub(1).min(40);
        let pause = self.pause_us.saturating_mul(1 << doublings).min(self.pause_max_us);
        AfterFailure::RetryAt(now.plus(pause))
    }
}

impl Default for RetryPolicy {
    /// From a second up to an hour, for five days or a thousand attempts.
    fn default() -> Self {
        Self {
            pause_us: 1_000_000,
            pause_max_us: 3_600_000_000,
            attempts_max: 1_000,
            give_up_us: 5 * 86_400_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { pause_us: 10, pause_max_us: 100, attempts_max: 50, give_up_us: 10_000 };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (since, now) = (Micros::new(0), Micros::new(1_000));
        let pauses = [1, 2, 3, 4, 5, 49].map(|failures| POLICY.after(failures, since, now));
        let at = |pause: i64| AfterFailure::RetryAt(Micros::new(1_000 + pause));
        assert_eq!(pauses, [at(10), at(20), at(40), at(80), at(100), at(100)]);
    }

    #[test]
    fn too_many_failures_or_too_long_a_time_disable() {
        let since = Micros::new(5);
        assert_eq!(POLICY.after(50, since, since), AfterFailure::Disable);
        assert_eq!(POLICY.after(1, since, Micros::new(10_005)), AfterFailure::Disable);
        assert_ne!(POLICY.after(1, since, Micros::new(10_004)), AfterFailure::Disable);
        // A clock that went back disables nothing.
        assert_ne!(POLICY.after(1, since, Micros::new(-50)), AfterFailure::Disable);
    }

    #[test]
    fn numbers_at_the_edge_do_not_overflow() {
        let policy =
            RetryPolicy { pause_us: i64::MAX, attempts_max: u32::MAX, ..RetryPolicy::default() };
        let after = policy.after(u32::MAX - 1, Micros::new(0), Micros::new(0));
        assert_eq!(after, AfterFailure::RetryAt(Micros::new(3_600_000_000)));
    }

    #[test]
    fn codes_read_back() {
        for state in WebhookState::ALL {
            assert_eq!(WebhookState::from_code(state.code()), Some(state));
        }
        assert_eq!(WebhookState::from_code(3), None);
    }
}
