//! Places where a test can make the process die, to see what a crash there leaves behind.
//!
//! `UTXOKEEP_CRASH_AT=POINT` ends the process the first time it comes by the point of that name,
//! `POINT:N` the N-th time: at once, without any destructor, as `kill -9` does. Only programs built
//! with debug assertions listen; in a release the calls compile to nothing.
//!
//! # Invariants
//!
//! - One variable and one count for the whole process: crates that use the same name share it.
//! - A variable that is no point is refused where the first point is passed, never ignored.

#[cfg(debug_assertions)]
mod listening {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };

    const VARIABLE: &str = "UTXOKEEP_CRASH_AT";

    /// Where to die.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct Asked {
        pub(super) point: String,
        /// The passage that is to be the last, counted from 1.
        pub(super) passage: u64,
    }

    /// Reads `POINT` or `POINT:N`.
    pub(super) fn parse(text: &str) -> Option<Asked> {
        let (point, passage) = match text.split_once(':') {
            Some((point, number)) => (point, number.parse().ok().filter(|number| *number > 0)?),
            None => (text, 1),
        };
        (!point.is_empty()).then(|| Asked { point: point.to_owned(), passage })
    }

    fn asked() -> Option<Asked> {
        let text = std::env::var(VARIABLE).ok()?;
        let asked = parse(&text);
        assert!(asked.is_some(), "{VARIABLE} is {text:?}, and must be POINT or POINT:N");
        asked
    }

    /// Ends the process if this is the place that was asked for.
    pub fn crash_point(name: &str) {
        static ASKED: OnceLock<Option<Asked>> = OnceLock::new();
        static PASSED: AtomicU64 = AtomicU64::new(0);
        let Some(asked) = ASKED.get_or_init(asked) else { return };
        if asked.point == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == asked.passage {
            std::process::abort();
        }
    }
}

#[cfg(debug_assertions)]
pub use listening::crash_point;

#[cfg(not(debug_assertions))]
/// Does nothing in a release.
pub const fn crash_point(_name: &str) {}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::listening::{Asked, parse};

    #[test]
    fn a_point_has_a_name_and_perhaps_a_passage() {
        let at = |point: &str, passage| Some(Asked { point: point.to_owned(), passage });
        assert_eq!(parse("before_commit"), at("before_commit", 1));
        assert_eq!(parse("before_commit:1"), at("before_commit", 1));
        assert_eq!(parse("before_commit:12"), at("before_commit", 12));
    }

    #[test]
    fn what_is_no_point_is_refused() {
        for text in ["", ":", ":1", "a:", "a:0", "a:-1", "a:b", "a:1:2"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
