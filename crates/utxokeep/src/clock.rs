//! The one place where the program asks what time it is. Everything below takes it as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "time has to come from somewhere")]
pub fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Seconds since 1970.
#[must_use]
pub fn now_s() -> i64 {
    now_us() / 1_000_000
}
