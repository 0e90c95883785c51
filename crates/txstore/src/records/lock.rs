//! The creation lock of a large transaction: one record that says who is creating it.
//!
//! It keeps others from doing the same work. Nothing rests on it: what decides is who commits the
//! master. It expires by itself when its holder dies, and is released by its fence only, so that a
//! holder that stalled past its time cannot release the lock of the next one.

use utxokeep_core::{Corrupt, Txid};
use utxokeep_records::{Barrier, Cell, Key, ReadCell, Version, WriteCell, Written};

use super::{cells::Cells, fault::Fault};
use crate::{error::StoreError, meter};

/// Seconds that every lock is held at most.
const BASE_S: u64 = 30;
/// Seconds more for each record.
const PER_RECORD_S: u64 = 2;
/// Seconds that no lock exceeds.
const MAX_S: u64 = 300;

/// What the lock is for.
const LOCK_TYPE: &str = "tx_creation";

/// Seconds until the lock of a transaction with so many records expires.
#[must_use]
pub const fn creation_lock_ttl_s(records: u32) -> u64 {
    let wanted = BASE_S + PER_RECORD_S * records as u64;
    if wanted < MAX_S { wanted } else { MAX_S }
}

/// Who is creating a large transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreationLock {
    /// When the lock was taken, in seconds since 1970, by the server's clock.
    pub created_at: u64,
    /// Always `tx_creation`.
    pub lock_type: String,
    /// Process of the holder.
    pub process_id: u32,
    /// Host of the holder.
    pub hostname: String,
    /// Records that the transaction will have, its master included.
    pub expected_recs: u32,
    /// Random number that only the holder knows, and releases the lock by.
    pub fence: u64,
}

impl CreationLock {
    /// When the lock expires, in seconds since 1970.
    #[must_use]
    pub const fn expires_at(&self) -> u64 {
        self.created_at + creation_lock_ttl_s(self.expected_recs)
    }

    fn of(cell: &Cell) -> Result<Self, Corrupt> {
        let damaged = || Corrupt::new("creation lock", "malformed");
        let text = |name: &str| {
            let bytes = cell.get(name.as_bytes()).ok_or_else(damaged)?;
            String::from_utf8(bytes.to_vec()).map_err(|_| damaged())
        };
        let number = |name: &str| text(name)?.parse::<u64>().map_err(|_| damaged());
        let small = |name: &str| u32::try_from(number(name)?).map_err(|_| damaged());
        Ok(Self {
            created_at: number("created_at")?,
            lock_type: text("lock_type")?,
            process_id: small("process_id")?,
            hostname: text("hostname")?,
            expected_recs: small("expected_recs")?,
            fence: number("fence")?,
        })
    }
}

/// A lock that is held. It is released by [`Cells::unlock`], and expires otherwise.
#[derive(Debug, Clone)]
pub(super) struct Locked {
    txid: Txid,
    key: Key,
    fence: Version,
}

impl Cells {
    /// Takes the creation lock of a transaction with so many records; `None` where another has it.
    pub(super) fn lock(&self, txid: &Txid, records: u32) -> Result<Option<Locked>, StoreError> {
        let (key, fence) = (self.layout.lock(txid), self.context.versions.next());
        let created_at = self.port.now_ms(key.shard)? / 1_000;
        let write = WriteCell::create(key.clone(), fence)
            .set(*b"created_at", created_at.to_string())
            .set(*b"lock_type", LOCK_TYPE)
            .set(*b"process_id", self.context.process_id.to_string())
            .set(*b"hostname", self.context.hostname.as_str())
            .set(*b"expected_recs", records.to_string())
            .set(*b"fence", fence.bits().to_string())
            .expires_in_ms(self.context.lock_ttl_ms(creation_lock_ttl_s(records) * 1_000));
        match self.send_one(write, Barrier::Safe)?.written {
            Written::Done => {
                meter::creation_lock("taken");
                tracing::debug!(%txid, records, "creation lock taken");
                Ok(Some(Locked { txid: *txid, key, fence }))
            }
            Written::Mismatch(_) => {
                meter::creation_lock("held_by_other");
                tracing::info!(%txid, "creation lock is held by another caller");
                Ok(None)
            }
            Written::InDoubt | Written::Unavailable => Err(self.unavailable("a creation lock")),
        }
    }

    /// Releases a lock, if it is still ours. One that cannot be released expires.
    pub(super) fn unlock(&self, locked: Locked) {
        let Locked { txid, key, mut fence } = locked;
        if self.context.leaves_out(Fault::LockWithoutFence)
            && let Ok(now) = self.versions([&key])
        {
            fence = now.into_iter().flatten().next().unwrap_or(fence);
        }
        match self.send_one(WriteCell::discard(key, fence), Barrier::None).map(|sent| sent.written)
        {
            Ok(Written::Done) => meter::creation_lock("released"),
            Ok(Written::Mismatch(_)) => {
                meter::creation_lock("expired");
                tracing::warn!(%txid, "creation lock had expired before it was released");
            }
            Ok(Written::InDoubt | Written::Unavailable) | Err(_) => {
                tracing::warn!(%txid, "creation lock was not released; it expires by itself");
            }
        }
    }

    /// Who is creating a transaction.
    pub(super) fn creation_lock(&self, txid: &Txid) -> Result<Option<CreationLock>, StoreError> {
        let cell = self.read_one(ReadCell::all(self.layout.lock(txid)))?;
        Ok(cell.map(|cell| CreationLock::of(&cell)).transpose()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_expires_after_a_time_for_each_record_up_to_five_minutes() {
        let seconds = [1, 5, 10, 50, 100, 134, 135, 200, 10_000].map(creation_lock_ttl_s);
        assert_eq!(seconds, [32, 40, 50, 130, 230, 298, 300, 300, 300]);
    }
}
