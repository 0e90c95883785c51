//! Locks over transactions, taken in one order so that nobody waits in a circle.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use utxokeep_core::Txid;

const SHARDS: usize = 256;

/// One lock for each first byte of a transaction id.
#[derive(Debug)]
pub(crate) struct Locks {
    shards: Vec<Mutex<()>>,
}

/// Locks that are held; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held<'l> {
    _guards: Vec<MutexGuard<'l, ()>>,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(())).collect() }
    }

    /// Locks the shards of these transactions, lowest first.
    pub(crate) fn lock<'t>(&self, txids: impl IntoIterator<Item = &'t Txid>) -> Held<'_> {
        self.lock_shards(Self::shards_of(txids).into_iter().map(usize::from))
    }

    /// The shard of a transaction.
    pub(crate) const fn shard_of(txid: &Txid) -> u8 {
        txid.as_bytes()[0]
    }

    /// The shards of transactions.
    pub(crate) fn shards_of<'t>(txids: impl IntoIterator<Item = &'t Txid>) -> BTreeSet<u8> {
        txids.into_iter().map(Self::shard_of).collect()
    }

    /// Locks everything, for operations that find out on the way what they touch.
    pub(crate) fn lock_all(&self) -> Held<'_> {
        self.lock_shards(0..SHARDS)
    }

    fn lock_shards(&self, shards: impl Iterator<Item = usize>) -> Held<'_> {
        // A panic while a lock was held changed nothing: changes reach the tables in one commit.
        let lock = |at: usize| self.shards[at].lock().unwrap_or_else(PoisonError::into_inner);
        Held { _guards: shards.map(lock).collect() }
    }
}
