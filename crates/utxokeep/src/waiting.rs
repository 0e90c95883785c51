//! Whether anybody waits for an answer. Reads that nobody waits for end early; what writes is finished.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

thread_local! {
    /// Set once nobody waits for the work of this thread.
    static GONE: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Lives as long as somebody waits: it is dropped with the connection, or when the answer takes too
/// long.
#[derive(Debug, Default)]
pub struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Waiting {
    /// Work that can find out, on its thread, whether somebody waits for it.
    pub fn watched<T, F: FnOnce() -> T>(&self, work: F) -> impl FnOnce() -> T + use<T, F> {
        let gone = Arc::clone(&self.0);
        move || {
            let _reset = Watched::new(gone);
            work()
        }
    }
}

/// Makes this thread its own again, also when the work panics.
struct Watched;

impl Watched {
    fn new(gone: Arc<AtomicBool>) -> Self {
        GONE.set(Some(gone));
        Self
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        GONE.set(None);
    }
}

/// Whether nobody waits for the work of this thread. Work of the server itself is always wanted.
pub fn is_unwanted() -> bool {
    let is_gone = |gone: &AtomicBool| gone.load(Ordering::Relaxed);
    GONE.with_borrow(|gone| gone.as_deref().is_some_and(is_gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_learns_that_nobody_waits_for_it() {
        assert!(!is_unwanted(), "work of the server itself goes on");
        let (waiting, other) = (Waiting::default(), Waiting::default());
        let work = waiting.watched(is_unwanted);
        assert!(!work());
        let work = waiting.watched(is_unwanted);
        drop(waiting);
        assert!(work());
        assert!(!other.watched(is_unwanted)());
        assert!(!is_unwanted(), "the thread is its own again");
    }
}
