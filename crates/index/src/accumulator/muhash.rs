//! `MuHash` beside the set: one row for each height that can become the tip.

use utxokeep_core::{
    BlockDelta, Corrupt, Height, MuHash, OutPoint, SetDigest, UtxoRecord, coin_bytes_into,
};
use utxokeep_kv::{Batch, Read};

use super::Change;
use crate::{
    Mode,
    error::IndexError,
    meta::{self, Switch},
    rollback::read_delta,
    tables::MUHASH,
    verify::Check,
};

pub(super) const NAME: &str = "muhash";

pub(super) const SWITCH: Switch = Switch {
    name: "[index] muhash",
    is_on: |settings| settings.muhash,
    note: |identity, is_on| identity.muhash = is_on,
    needs_credentials: false,
};

/// The accumulator of the newest staged block.
#[derive(Debug)]
pub(super) struct Kept {
    set: MuHash,
    /// Height of the newest row, to be replaced by the next batch of bulk load.
    newest_row: Option<Height>,
    /// Room for the bytes of one output.
    coin: Vec<u8>,
}

impl Kept {
    pub(super) fn load(read: &dyn Read, tip: Option<Height>) -> Result<Self, IndexError> {
        let set = tip.map_or_else(|| Ok(MuHash::new()), |tip| read_row(read, tip))?;
        Ok(Self { set, newest_row: tip, coin: Vec::new() })
    }

    pub(super) fn tell(
        &mut self,
        change: Change,
        outpoint: OutPoint,
        record: &UtxoRecord<'_>,
    ) -> Result<(), Corrupt> {
        let is_new = match change {
            Change::Created => true,
            Change::Spent | Change::Replaced => false,
            Change::Passed => return Ok(()),
        };
        self.coin.clear();
        coin_bytes_into(outpoint, record, &mut self.coin)?;
        if is_new {
            self.set.insert(&self.coin);
        } else {
            self.set.remove(&self.coin);
        }
        Ok(())
    }

    pub(super) fn stage(&mut self, height: Height, mode: Mode, batch: &mut Batch) {
        if mode != Mode::Bulk {
            self.put_row(height, batch);
        }
    }

    /// Below the window only the newest row is worth keeping.
    pub(super) fn cut_bulk(&mut self, tip: Height, batch: &mut Batch) {
        if let Some(old) = self.newest_row.filter(|&old| old < tip) {
            MUHASH.delete(batch, &old);
        }
        self.put_row(tip, batch);
    }

    pub(super) fn undo(
        &mut self,
        read: &dyn Read,
        delta: &BlockDelta,
        batch: &mut Batch,
    ) -> Result<(), IndexError> {
        // Dividing what the block did out again would give the same set in other bytes.
        let parent = delta.height.minus(1);
        self.set = read_row(read, parent)?;
        self.newest_row = Some(parent);
        MUHASH.delete(batch, &delta.height);
        Ok(())
    }

    pub(super) fn prune(height: Height, batch: &mut Batch) {
        MUHASH.delete(batch, &height.minus(1));
    }

    fn put_row(&mut self, height: Height, batch: &mut Batch) {
        MUHASH.put(batch, &height, &self.set);
        self.newest_row = Some(height);
    }
}

fn read_row(read: &dyn Read, height: Height) -> Result<MuHash, IndexError> {
    let set = MUHASH.get(read, &height)?;
    let set = set.ok_or_else(|| IndexError::missing("utxo_muhash", height))?;
    Ok(set.read()?)
}

/// The digest of the set after the block at `height`.
pub(super) fn digest_at(read: &dyn Read, height: Height) -> Result<[u8; 32], IndexError> {
    Ok(read_row(read, height)?.digest())
}

/// There is one row per height that can become the tip, and it is that of its set: the set at the
/// tip is scanned, and the deltas walked back from there.
pub(super) fn verify<S: Read>(check: &mut Check<'_, '_, S>) -> Result<(), IndexError> {
    let Some(tip) = check.tip() else { return Ok(()) };
    (check.progress)(NAME, 0);
    let base = meta::undo_base(check.read())?.min(tip);
    let (rows, expected) = (check.count(MUHASH.id())?, u64::from(tip.get() - base.get()) + 1);
    if rows != expected {
        check.report.add(NAME, format!("{rows} accumulators where {expected} belong"));
    }
    let scanned = check.view.scan_set(true, false)?;
    let mut set =
        scanned.unordered.as_ref().and_then(SetDigest::muhash).cloned().unwrap_or_default();
    check.replaced.clear();
    let mut coin = Vec::new();
    for raw in (base.get()..=tip.get()).rev() {
        let height = Height::new(raw);
        let stored = MUHASH.get(check.read(), &height)?;
        let stored = stored.and_then(|stored| stored.read().ok());
        if !stored.is_some_and(|kept| kept.is_same_set(&set)) {
            let detail = format!("the accumulator of height {height} is not that of its set");
            check.report.add(NAME, detail);
            if height == tip {
                // Either it or the set is wrong, and nothing follows from that.
                return Ok(());
            }
        }
        if height > base {
            let delta = read_delta(check.read(), height)?;
            check.each_change(&delta, &mut |change, outpoint, record| {
                coin.clear();
                coin_bytes_into(outpoint, record, &mut coin)?;
                match change {
                    Change::Created => set.remove(&coin),
                    Change::Spent | Change::Replaced => set.insert(&coin),
                    Change::Passed => {}
                }
                Ok(())
            })?;
        }
        (check.progress)(NAME, u64::from(tip.get() - raw) + 1);
    }
    Ok(())
}
