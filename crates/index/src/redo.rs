//! Connecting a block again from what was kept when it was disconnected.

use std::time::Instant;

use rustc_hash::FxHashSet;
use utxokeep_core::{BlockDelta, Corrupt, OutPoint, Totals, UtxoRecord};
use utxokeep_kv::Kv;

use crate::{
    ChainWriter, DeltaKind,
    accumulator::Change,
    coin::{NO_RECORD, RecordBytes, SpentAt},
    error::IndexError,
    side::Redo,
    staging::{Event, What, WriterRead},
    tables::{BLOCKS, DELTA, HEIGHTS, UNSPENT},
    writer::Tip,
};

impl<K: Kv> ChainWriter<K> {
    /// Applies a self-contained delta on top of the tip it was taken from. The tables end up as
    /// they were, byte for byte.
    pub(crate) fn apply_redo(&mut self, redo: &Redo) -> Result<(), IndexError> {
        let started = Instant::now();
        let staged = self.stage_redo(redo).and_then(|()| {
            self.staged_blocks += 1;
            self.flush()
        });
        if staged.is_err() {
            self.discard_staged()?;
        }
        staged?;
        let Redo { entry, delta } = redo;
        let what = What::Connected { created: delta.created.len(), spent: delta.spent.len() };
        let (height, took) = (delta.height, started.elapsed());
        let mmr_root = self.mmr_root();
        self.tell(Event { what, height, entry: *entry, took, mmr_root });
        Ok(())
    }

    fn stage_redo(&mut self, redo: &Redo) -> Result<(), IndexError> {
        let Redo { entry, delta } = redo;
        let parent = self.tip.map(|tip| tip.entry.hash);
        if parent != Some(delta.prev) {
            return Err(Corrupt::new("redo", "it belongs on another block").into());
        }
        if !self.keeps_set() {
            self.stage_redo_log(redo);
            return Ok(());
        }
        let created: FxHashSet<_> = delta.created.iter().map(|c| c.outpoint).collect();
        let spent: FxHashSet<_> = delta.spent.iter().map(|s| s.outpoint).collect();
        let mut totals = self.tip.map_or_else(Totals::default, |tip| tip.entry.totals);
        self.accumulators.begin(delta.hash);
        let at = SpentAt::new(delta.height, entry);
        for (outpoint, record) in &delta.replaced {
            self.redo_remove(Change::Replaced, *outpoint, record, &mut totals)?;
        }
        for entry in &delta.spent {
            let (Some(bytes), Some(by)) = (&entry.record, entry.spent_by) else {
                return Err(Corrupt::new("redo", "a body is missing").into());
            };
            let rows = self.rows();
            let record = RecordBytes::new(bytes);
            let coin = rows.coin(entry.outpoint, &record.read()?, record);
            coin.put_spent(&mut self.side_rows, by, &at);
            if !created.contains(&entry.outpoint) {
                self.redo_remove(Change::Spent, entry.outpoint, bytes, &mut totals)?;
            }
        }
        for entry in &delta.created {
            let bytes = entry.record.as_deref().unwrap_or_default();
            let record = UtxoRecord::decode(bytes)?;
            if spent.contains(&entry.outpoint) {
                self.accumulators.tell(Change::Passed, entry.outpoint, &record)?;
                continue;
            }
            totals.add(record.value, record.address.len());
            self.accumulators.tell(Change::Created, entry.outpoint, &record)?;
            self.pending.create(entry.outpoint, &record);
        }
        if totals != entry.totals {
            return Err(Corrupt::new("redo", "the totals do not add up").into());
        }
        self.stage_redo_rows(redo)
    }

    /// Takes an output out of the set, after checking that it is there as it was.
    fn redo_remove(
        &mut self,
        change: Change,
        outpoint: OutPoint,
        bytes: &[u8],
        totals: &mut Totals,
    ) -> Result<(), IndexError> {
        let found = UNSPENT.get(&self.read(), &outpoint)?;
        if found.is_none_or(|found| found.encoded().bytes() != bytes) {
            return Err(IndexError::missing("utxo_unspent", outpoint));
        }
        let record = UtxoRecord::decode(bytes)?;
        totals.sub(record.value, record.address.len());
        self.accumulators.tell(change, outpoint, &record)?;
        self.pending.spend_old(&self.rows().coin(outpoint, &record, NO_RECORD));
        Ok(())
    }

    fn stage_redo_rows(&mut self, redo: &Redo) -> Result<(), IndexError> {
        let delta = &redo.delta;
        let height = delta.height;
        let mut delta = match self.index.settings.delta {
            DeltaKind::SelfContained => delta.clone(),
            DeltaKind::Compact => without_bodies(delta),
        };
        // The accumulators say again what undoing needs.
        delta.mmr = None;
        let read = &WriterRead::new(self.index.kv.as_ref(), self.staging.as_ref());
        let at = (height, self.mode);
        self.accumulators.stage(read, at, Some(&mut delta), &mut self.side_rows)?;
        DELTA.put(&mut self.side_rows, &height, &delta);
        self.stage_redo_log(redo);
        Ok(())
    }

    /// What the log has of the block.
    fn stage_redo_log(&mut self, Redo { entry, delta }: &Redo) {
        let rows = &mut self.side_rows;
        BLOCKS.put(rows, &delta.height, entry);
        HEIGHTS.put(rows, &entry.hash, &delta.height);
        rows.append(&std::mem::take(&mut self.with_next));
        self.tip = Some(Tip { height: delta.height, entry: *entry });
    }
}

fn without_bodies(delta: &BlockDelta) -> BlockDelta {
    let mut compact = delta.clone();
    for created in &mut compact.created {
        created.record = None;
    }
    for spent in &mut compact.spent {
        spent.record = None;
        spent.spent_by = None;
    }
    compact
}
