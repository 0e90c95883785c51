//! Places where a test can make the process die, to see what a crash there leaves behind.
//!
//! `UTXOKEEP_CRASH_AT=POINT:N` ends the process the N-th time it comes by the point of that name,
//! without any destructor, as `kill -9` does. A build without debug assertions has no such places.
//!
//! The storage port has the same for itself; depending on it would bring RocksDB into every wallet.

#[cfg(debug_assertions)]
pub(crate) fn point(name: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };

    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("UTXOKEEP_CRASH_AT").ok()?;
        let (name, number) = text.split_once(':')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    if let Some((asked, number)) = asked
        && asked == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *number
    {
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) const fn point(_name: &str) {}
