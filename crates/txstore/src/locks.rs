//! Locks over transactions.
//!
//! What a call names beforehand is locked lowest first, so that nobody waits in a circle. What shows
//! only on the way is locked when it is read, without waiting: whoever finds it taken lets go of
//! everything and starts again, with that lock named beforehand too.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rustc_hash::FxHashMap;
use utxokeep_core::Txid;

/// Many, so that a large batch does not hold what everybody else needs. A Mutex has 8 bytes.
const SHARDS: usize = 1 << 16;

/// One lock for each beginning of a transaction id.
#[derive(Debug)]
pub(crate) struct Locks {
    shards: Vec<Mutex<()>>,
}

/// Locks that are held; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held<'l> {
    locks: &'l Locks,
    guards: FxHashMap<usize, MutexGuard<'l, ()>>,
}

/// The lock of a transaction.
const fn shard_of(txid: &Txid) -> usize {
    let bytes = txid.as_bytes();
    bytes[0] as usize * 256 + bytes[1] as usize
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(())).collect() }
    }

    /// Locks these transactions, lowest first.
    pub(crate) fn lock<'t>(&self, txids: impl IntoIterator<Item = &'t Txid>) -> Held<'_> {
        let mut shards: Vec<usize> = txids.into_iter().map(shard_of).collect();
        shards.sort_unstable();
        shards.dedup();
        // A panic while a lock was held changed nothing: changes reach the tables in one commit.
        let lock = |at: usize| (at, self.shards[at].lock().unwrap_or_else(PoisonError::into_inner));
        Held { locks: self, guards: shards.into_iter().map(lock).collect() }
    }
}

impl Held<'_> {
    /// Locks these too, without waiting. Answers those that somebody else has.
    pub(crate) fn try_lock(&mut self, txids: &[Txid]) -> Vec<Txid> {
        let mut taken = Vec::new();
        for txid in txids {
            let at = shard_of(txid);
            if self.guards.contains_key(&at) {
                continue;
            }
            match self.locks.shards[at].try_lock() {
                Ok(guard) => {
                    self.guards.insert(at, guard);
                }
                Err(TryLockError::Poisoned(poisoned)) => {
                    self.guards.insert(at, poisoned.into_inner());
                }
                Err(TryLockError::WouldBlock) => taken.push(*txid),
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_has_is_named() {
        let [a, b, c] = [1, 2, 3].map(|byte| Txid::from_bytes([byte; 32]));
        let locks = Locks::new();
        let mut mine = locks.lock(&[a, a]);
        let other = locks.lock(&[b]);
        assert_eq!(mine.try_lock(&[a, b, c]), [b], "the rest is held now");
        drop(other);
        assert_eq!(mine.try_lock(&[b]), []);
        let mut late = locks.lock([]);
        assert_eq!(late.try_lock(&[a, b, c]), [a, b, c]);
        drop(mine);
        assert_eq!(late.try_lock(&[a, b, c]), []);
    }
}
