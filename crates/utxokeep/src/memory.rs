//! Memory of requests: what is read, decoded and answered over REST and gRPC shares one budget.
//!
//! # Invariants
//!
//! * Memory is counted before it is taken, and given back when the client has its answer.
//! * A request that does not fit is refused at once and changes nothing; it never waits for another.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utxokeep_core::ErrorKind;

const KIB: usize = 1 << 10;

/// The default of `[server] request_memory_mib_max`.
const MIB_MAX: NonZeroU32 = NonZeroU32::new(512).expect("it is not zero");

tokio::task_local! {
    /// The share of the request that is being worked on.
    static SHARE: Arc<Share>;
}

/// There is no room for a request among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "requests that are being answered take the memory there is for them ([server] \
     request_memory_mib_max, {mib_max}); send less at a time, or try again later"
)]
pub struct OverBudget {
    mib_max: u32,
}

impl OverBudget {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Overloaded
    }
}

/// Memory that all requests share; clones are the same budget.
#[derive(Debug, Clone)]
pub struct Budget {
    kib: Arc<Semaphore>,
    mib_max: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MIB_MAX)
    }
}

impl Budget {
    /// A budget of so many MiB.
    #[must_use]
    pub fn new(mib_max: NonZeroU32) -> Self {
        let kib = (mib_max.get() as usize).saturating_mul(KIB).min(Semaphore::MAX_PERMITS);
        Self { kib: Arc::new(Semaphore::new(kib)), mib_max: mib_max.get() }
    }

    /// A share for one request, empty at first.
    pub fn share(&self) -> Arc<Share> {
        Arc::new(Share { budget: self.clone(), taken: Mutex::new(Taken::default()) })
    }
}

/// What one request takes of a budget.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    kib: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Takes so many bytes more, or nothing.
    pub fn take(&self, bytes: usize) -> Result<(), OverBudget> {
        let over = OverBudget { mib_max: self.budget.mib_max };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = taken.bytes.saturating_add(bytes);
        let held = taken.kib.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(KIB).saturating_sub(held);
        if missing > 0 {
            let missing = u32::try_from(missing).map_err(|_| over)?;
            let kib = Arc::clone(&self.budget.kib);
            let more = kib.try_acquire_many_owned(missing).map_err(|_| over)?;
            match &mut taken.kib {
                Some(kib) => kib.merge(more),
                none => *none = Some(more),
            }
        }
        taken.bytes = bytes;
        Ok(())
    }

    /// Gives everything back.
    pub fn give_back(&self) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Taken::default();
    }
}

/// Takes memory for the request that is being worked on; outside of one nothing is counted.
pub fn take(bytes: usize) -> Result<(), OverBudget> {
    SHARE.try_with(|share| share.take(bytes)).unwrap_or(Ok(()))
}

/// Works on a request with its share.
pub async fn within<F: Future>(share: Arc<Share>, work: F) -> F::Output {
    SHARE.scope(share, work).await
}

/// The same for work that does not wait.
pub fn within_call<T>(share: Arc<Share>, work: impl FnOnce() -> T) -> T {
    SHARE.sync_scope(share, work)
}

/// The same on a thread that may block, for the request that hands the work over.
pub fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let share = SHARE.try_with(Arc::clone).ok();
    move || match share {
        Some(share) => SHARE.sync_scope(share, work),
        None => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(NonZeroU32::MIN)
    }

    #[test]
    fn shares_together_never_exceed_the_budget() {
        let budget = budget();
        let (one, other) = (budget.share(), budget.share());
        one.take(600 * KIB).unwrap();
        assert!(other.take(600 * KIB).is_err());
        other.take(400 * KIB).unwrap();
        assert!(one.take(25 * KIB).is_err(), "what was refused took nothing");
        one.take(24 * KIB).unwrap();
        one.give_back();
        other.take(600 * KIB).unwrap();
        drop(other);
        one.take(1_024 * KIB).unwrap();
        assert!(one.take(1).is_err() && one.take(usize::MAX).is_err());
    }

    #[test]
    fn small_amounts_add_up() {
        let share = budget().share();
        let taken = (0..100_000).take_while(|_| share.take(100).is_ok()).count();
        assert_eq!(taken, 1_024 * KIB / 100);
    }

    #[tokio::test]
    async fn work_on_another_thread_counts_for_its_request() {
        let budget = budget();
        take(usize::MAX).expect("nothing is counted outside of a request");
        within(budget.share(), async {
            let work = carried(|| take(1_024 * KIB));
            tokio::task::spawn_blocking(work).await.unwrap().unwrap();
            assert!(take(1).is_err());
        })
        .await;
        budget.share().take(1_024 * KIB).unwrap();
    }
}
