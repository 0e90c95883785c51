//! Creation locks that are taken before the file of a body is written: lock, file, records.
//!
//! The commit of a call takes the locks of the large transactions in it. A call that writes files
//! first has its locks before that, so that of several creators only one writes the file, and holds
//! them over all its attempts until it is over.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

use utxokeep_core::Txid;

use super::{cells::Cells, lock::Locked};
use crate::error::StoreError;

/// The early locks of one call.
#[derive(Debug)]
struct OfCall {
    thread: ThreadId,
    held: Vec<Locked>,
    locked: BTreeSet<Txid>,
    /// Transactions that others create: to this call they exist.
    locked_out: BTreeSet<Txid>,
}

/// The early locks of all calls of this program. A call is known by its thread, on which it runs from
/// its start to its end.
#[derive(Debug, Default)]
pub(super) struct EarlyLocks(Mutex<Vec<OfCall>>);

impl EarlyLocks {
    fn all(&self) -> MutexGuard<'_, Vec<OfCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_call<T>(&self, look: impl FnOnce(&OfCall) -> T) -> Option<T> {
        let me = thread::current().id();
        self.all().iter().find(|call| call.thread == me).map(look)
    }

    /// Whether the call at work has the lock of a transaction already.
    pub(super) fn has(&self, txid: &Txid) -> bool {
        self.of_call(|call| call.locked.contains(txid)).unwrap_or(false)
    }

    /// Transactions that others create, as the call at work has seen.
    pub(super) fn locked_out(&self) -> BTreeSet<Txid> {
        self.of_call(|call| call.locked_out.clone()).unwrap_or_default()
    }

    /// Takes the locks of those transactions, with so many outputs each, that will have several
    /// records; answers those that others create.
    pub(super) fn take(
        &self,
        cells: &Cells,
        created: &[(Txid, u32)],
    ) -> Result<BTreeSet<Txid>, StoreError> {
        let thread = thread::current().id();
        let mut locked_out = BTreeSet::new();
        for (txid, outputs) in created {
            let pages = cells.layout.pages(*outputs);
            if pages == 0 || self.has(txid) {
                continue;
            }
            let lock = cells.lock(txid, pages + 1)?;
            let mut all = self.all();
            let at = all.iter().position(|call| call.thread == thread).unwrap_or_else(|| {
                let (held, locked, locked_out) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
                all.push(OfCall { thread, held, locked, locked_out });
                all.len() - 1
            });
            if let Some(lock) = lock {
                all[at].held.push(lock);
                all[at].locked.insert(*txid);
            } else {
                all[at].locked_out.insert(*txid);
                locked_out.insert(*txid);
            }
        }
        Ok(locked_out)
    }

    /// Releases the locks of the call at work.
    pub(super) fn release(&self, cells: &Cells) {
        let me = thread::current().id();
        let mut all = self.all();
        let at = all.iter().position(|call| call.thread == me);
        let call = at.map(|at| all.swap_remove(at));
        drop(all);
        for locked in call.into_iter().flat_map(|call| call.held) {
            cells.unlock(locked);
        }
    }
}
