//! A bounded set of connections for callers that block.
//!
//! One pool serves both engines, so that waiting, limits and broken connections mean the same.

use crate::error::{RetryReason, SqlError};
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A connection that knows whether another transaction may use it.
pub(crate) trait Pooled {
    fn is_usable(&self) -> bool;
}

pub(crate) struct Pool<C> {
    state: Mutex<State<C>>,
    freed: Condvar,
    connections_max: usize,
    wait_max: Duration,
}

struct State<C> {
    idle: Vec<C>,
    open: usize,
}

impl<C: Pooled> Pool<C> {
    pub(crate) fn new(connections_max: usize, wait_max: Duration) -> Self {
        let state = Mutex::new(State { idle: Vec::new(), open: 0 });
        Self { state, freed: Condvar::new(), connections_max, wait_max }
    }

    /// Takes an idle connection, opens one, or waits for one.
    pub(crate) fn take(
        &self,
        open: impl FnOnce() -> Result<C, SqlError>,
    ) -> Result<Lease<'_, C>, SqlError> {
        let deadline = Instant::now() + self.wait_max;
        let mut state = self.lock();
        loop {
            while let Some(connection) = state.idle.pop() {
                if connection.is_usable() {
                    return Ok(Lease { pool: self, connection: Some(connection), fresh: false });
                }
                state.open -= 1;
            }
            if state.open < self.connections_max {
                state.open += 1;
                drop(state);
                // From here on the lease gives the place back, also when opening fails.
                let mut lease = Lease { pool: self, connection: None, fresh: true };
                lease.connection = Some(open()?);
                return Ok(lease);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SqlError::Transient {
                    reason: RetryReason::Busy,
                    source: "every connection is in use".into(),
                });
            }
            state = match self.freed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// The state is a list and a counter, both right at every moment, so a panic elsewhere in a
    /// thread that held the lock does not matter.
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        drop(state);
        self.pool.freed.notify_one();
    }
}
