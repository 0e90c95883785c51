//! Places where a test can make the process die, to see what a crash there leaves behind.
//!
//! `UTXOKEEP_CRASH_AT=POINT` ends the process the first time it comes by the point of that name,
//! `POINT:N` the N-th time: at once, without any destructor, as `kill -9` does. Only programs built
//! with debug assertions listen; in a release the calls compile to nothing.

#[cfg(debug_assertions)]
mod listening {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };

    /// Name of a point, and the passage that is to be the last.
    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    fn asked() -> Option<(String, u64)> {
        let text = std::env::var("UTXOKEEP_CRASH_AT").ok()?;
        match text.split_once(':') {
            Some((name, number)) => Some((name.to_owned(), number.parse().ok()?)),
            None => Some((text, 1)),
        }
    }

    /// Ends the process if this is the place that was asked for.
    pub fn point(name: &str) {
        let Some((asked, number)) = ASKED.get_or_init(asked) else { return };
        if asked == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *number {
            std::process::abort();
        }
    }
}

#[cfg(debug_assertions)]
pub use listening::point;

#[cfg(not(debug_assertions))]
/// Does nothing in a release.
pub const fn point(_name: &str) {}
