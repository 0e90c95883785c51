//! A bounded set of connections for callers that block.
//!
//! One pool serves both engines, so that waiting, limits and broken connections mean the same.

use crate::error::{RetryReason, SqlError};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A connection that knows whether another transaction may use it.
pub(crate) trait Pooled {
    fn is_usable(&self) -> bool;
}

pub(crate) struct Pool<C> {
    state: Mutex<State<C>>,
    connections_max: usize,
    wait_max: Duration,
}

struct State<C> {
    idle: Vec<C>,
    open: usize,
    /// Who waits, in the order they came. Without an order, whoever has just given a connection
    /// back takes it again before anybody else has woken up.
    waiting: VecDeque<(u64, Thread)>,
    tickets: u64,
}

/// What a caller gets when it is its turn.
enum FreeConnection<C> {
    Idle(C),
    /// A connection may be opened; its place is counted already.
    New,
}

impl<C: Pooled> Pool<C> {
    pub(crate) fn new(connections_max: usize, wait_max: Duration) -> Self {
        let state = State { idle: Vec::new(), open: 0, waiting: VecDeque::new(), tickets: 0 };
        Self { state: Mutex::new(state), connections_max, wait_max }
    }

    /// Takes an idle connection, opens one, or waits for one.
    pub(crate) fn take(
        &self,
        open: impl FnOnce() -> Result<C, SqlError>,
    ) -> Result<Lease<'_, C>, SqlError> {
        let place = self.place().ok_or_else(|| SqlError::Transient {
            reason: RetryReason::Busy,
            source: "every connection is in use".into(),
        })?;
        // From here on the lease gives the place back, also when opening fails.
        let mut lease =
            Lease { pool: self, connection: None, fresh: matches!(place, FreeConnection::New) };
        lease.connection = Some(match place {
            FreeConnection::Idle(connection) => connection,
            FreeConnection::New => open()?,
        });
        Ok(lease)
    }

    /// Waits until it is the caller's turn and there is a place; `None` when that takes too long.
    fn place(&self) -> Option<FreeConnection<C>> {
        let mut state = self.lock();
        if state.waiting.is_empty()
            && let Some(place) = state.free_place(self.connections_max)
        {
            return Some(place);
        }
        let deadline = Instant::now() + self.wait_max;
        let ticket = state.tickets;
        state.tickets += 1;
        state.waiting.push_back((ticket, thread::current()));
        loop {
            let is_first = state.waiting.front().is_some_and(|(first, _)| *first == ticket);
            let place = is_first.then(|| state.free_place(self.connections_max)).flatten();
            let left = deadline.saturating_duration_since(Instant::now());
            if place.is_some() || left.is_zero() {
                state.waiting.retain(|(other, _)| *other != ticket);
                // There may be a place for the next one too.
                state.wake_first();
                return place;
            }
            drop(state);
            thread::park_timeout(left);
            state = self.lock();
        }
    }

    /// The state is right at every moment, so a panic elsewhere in a thread that held the lock does
    /// not matter.
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Pooled> State<C> {
    fn free_place(&mut self, connections_max: usize) -> Option<FreeConnection<C>> {
        while let Some(connection) = self.idle.pop() {
            if connection.is_usable() {
                return Some(FreeConnection::Idle(connection));
            }
            self.open -= 1;
        }
        (self.open < connections_max).then(|| {
            self.open += 1;
            FreeConnection::New
        })
    }

    fn wake_first(&self) {
        if let Some((_, thread)) = self.waiting.front() {
            thread.unpark();
        }
    }
}

/// A connection taken from the pool; goes back when dropped, if it is still usable.
pub(crate) struct Lease<'p, C: Pooled> {
    pool: &'p Pool<C>,
    connection: Option<C>,
    fresh: bool,
}

impl<C: Pooled> Lease<'_, C> {
    /// Whether it was opened for this lease.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }
}

impl<C: Pooled> Deref for Lease<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect("set by take, cleared only when dropped")
    }
}

impl<C: Pooled> DerefMut for Lease<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect("set by take, cleared only when dropped")
    }
}

impl<C: Pooled> Drop for Lease<'_, C> {
    fn drop(&mut self) {
        let connection = self.connection.take().filter(Pooled::is_usable);
        let mut state = self.pool.lock();
        match connection {
            Some(connection) => state.idle.push(connection),
            None => state.open -= 1,
        }
        state.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Fake;

    impl Pooled for Fake {
        fn is_usable(&self) -> bool {
            true
        }
    }

    fn waiting(pool: &Pool<Fake>) -> usize {
        pool.lock().waiting.len()
    }

    #[test]
    fn those_who_wait_are_served_in_the_order_they_came() {
        let pool = Pool::new(1, Duration::from_secs(60));
        let (sender, served) = mpsc::channel();
        thread::scope(|scope| {
            let held = pool.take(|| Ok(Fake)).unwrap();
            for number in 0..5 {
                let (pool, sender) = (&pool, sender.clone());
                scope.spawn(move || {
                    let lease = pool.take(|| Ok(Fake)).unwrap();
                    sender.send(number).unwrap();
                    drop(lease);
                });
                while waiting(pool) <= number {
                    thread::yield_now();
                }
            }
            drop(held);
            // Whoever comes now comes last.
            drop(pool.take(|| Ok(Fake)).unwrap());
        });
        drop(sender);
        assert_eq!(served.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn who_gives_up_does_not_hold_up_the_others() {
        let pool = Pool::new(1, Duration::from_millis(20));
        let held = pool.take(|| Ok(Fake)).unwrap();
        let refused = pool.take(|| Ok(Fake)).map(|_| ());
        assert!(matches!(refused, Err(SqlError::Transient { reason: RetryReason::Busy, .. })));
        assert_eq!(waiting(&pool), 0);
        drop(held);
        assert!(!pool.take(|| Ok(Fake)).unwrap().is_fresh());
    }

    #[test]
    fn a_connection_that_does_not_open_leaves_its_place() {
        let pool = Pool::<Fake>::new(1, Duration::ZERO);
        assert!(pool.take(|| Err(SqlError::usage("no"))).is_err());
        assert!(pool.take(|| Ok(Fake)).unwrap().is_fresh());
    }
}
