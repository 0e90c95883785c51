//! Dropping undo data that no allowed rollback needs: old deltas are walked, tables never scanned.

use std::time::{Duration, Instant};

use utxokeep_core::{BlockDelta, Height, OutPoint};
use utxokeep_kv::{Batch, Durability, Kv};

use crate::{
    ChainWriter,
    accumulator::mmr::held_for_build,
    coin::NO_RECORD,
    error::IndexError,
    log::{self, Held},
    meta::{self, PruneCursor},
    rollback::read_delta,
    side, stats, switch,
    tables::{DELTA, SPENT},
};

/// What a prune pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// Spent outputs deleted.
    pub spent_deleted: usize,
    /// Blocks whose undo data is gone entirely.
    pub deltas_deleted: usize,
    /// Side blocks deleted.
    pub side_deleted: usize,
    /// Whether something is still due.
    pub more: bool,
}

impl<K: Kv> ChainWriter<K> {
    /// One bounded pass: at most the configured rows and milliseconds.
    pub fn prune_pass(&mut self) -> Result<PruneReport, IndexError> {
        let mut report = PruneReport::default();
        let Some(tip) = self.tip else { return Ok(report) };
        if self.is_staging() {
            // The chain may yet be as it was: what it needs stays.
            return Ok(report);
        }
        if !self.keeps_set() {
            // The log alone has no undo data, but side blocks it has.
            let held = log::held(&self.index)?;
            self.prune_side(held, self.index.settings.prune_rows_max.max(1), &mut report)?;
            return Ok(report);
        }
        if self.index.settings.window.prunable(tip.height).is_none() {
            return Ok(report);
        }
        let held = log::held(&self.index)?;
        let settings = &self.index.settings;
        let build = held_for_build(self.index.kv.as_ref(), settings, tip.height)?;
        let changes_above = held.changes_above.into_iter().chain(build).min();
        let Some(cutoff) = settings.window.prunable_below(tip.height, changes_above) else {
            return Ok(report);
        };
        if self.next_prunable(cutoff)?.is_none() {
            return Ok(report);
        }
        self.flush()?;
        let started = Instant::now();
        let time_max = Duration::from_millis(self.index.settings.prune_pass_ms_max);
        let rows_max = self.index.settings.prune_rows_max.max(1);
        let mut rows = 0;
        loop {
            let Some(cursor) = self.next_prunable(cutoff)? else { break };
            if rows >= rows_max || (rows > 0 && started.elapsed() >= time_max) {
                report.more = true;
                break;
            }
            rows += self.prune_some(cursor, rows_max - rows, &mut report)?.max(1);
        }
        self.prune_side(held, rows_max, &mut report)?;
        let took = started.elapsed();
        stats::pruned(&report, took);
        tracing::info!(
            height = %tip.height,
            undo_base = %self.undo_base,
            spent_deleted = report.spent_deleted,
            deltas_deleted = report.deltas_deleted,
            side_blocks_deleted = report.side_deleted,
            more = report.more,
            ms = took.as_millis(),
            "pruned"
        );
        Ok(report)
    }

    /// Drops the undo data of every committed block: what bulk mode is about to commit lies far
    /// above it, and pruning starts above that.
    pub(crate) fn drop_undo_data(&mut self) -> Result<(), IndexError> {
        if !self.keeps_set() {
            return Ok(());
        }
        let Some((tip, _)) = meta::tip(self.index.kv.as_ref())? else { return Ok(()) };
        let rows_max = self.index.settings.prune_rows_max.max(1);
        let mut report = PruneReport::default();
        while let Some(cursor) = self.next_prunable(tip)? {
            self.prune_some(cursor, rows_max, &mut report)?;
        }
        Ok(())
    }

    /// The block to work on: the one in progress, or the next above the undo base.
    fn next_prunable(&self, cutoff: Height) -> Result<Option<PruneCursor>, IndexError> {
        if let Some(cursor) = meta::prune_cursor(self.index.kv.as_ref())? {
            return Ok(Some(cursor));
        }
        let next = self.undo_base.plus(1);
        Ok((next <= cutoff).then_some(PruneCursor { height: next, done: 0 }))
    }

    /// Deletes up to `limit` spent outputs of one block, and its delta with the last of them.
    fn prune_some(
        &mut self,
        cursor: PruneCursor,
        limit: usize,
        report: &mut PruneReport,
    ) -> Result<usize, IndexError> {
        let PruneCursor { height, done } = cursor;
        let delta = read_delta(self.index.kv.as_ref(), height)?;
        let part = delta.spent.get(done as usize..).unwrap_or_default();
        let part = &part[..part.len().min(limit)];
        let outpoints: Vec<OutPoint> = part.iter().map(|spent| spent.outpoint).collect();
        let mut batch = Batch::new();
        self.delete_spent_rows(&mut batch, &delta, &outpoints)?;

        let done = done as usize + part.len();
        let is_finished = done >= delta.spent.len();
        if is_finished {
            DELTA.delete(&mut batch, &height);
            meta::put_prune_cursor(&mut batch, None);
            report.deltas_deleted += 1;
        } else {
            let done = u32::try_from(done).unwrap_or(u32::MAX);
            meta::put_prune_cursor(&mut batch, Some(PruneCursor { height, done }));
        }
        // From its first deleted row on, the block can no longer be undone.
        let base = self.undo_base.max(height);
        meta::put_undo_base(&mut batch, base);
        if self.catching_up.is_some() {
            switch::forget_entries(&mut batch, self.undo_base, base);
        }
        self.accumulators.prune(height, &mut batch);
        self.index.kv.commit(batch, Durability::Buffered)?;
        self.undo_base = base;
        report.spent_deleted += outpoints.len();
        Ok(outpoints.len())
    }

    fn delete_spent_rows(
        &self,
        batch: &mut Batch,
        delta: &BlockDelta,
        outpoints: &[OutPoint],
    ) -> Result<(), IndexError> {
        let rows = self.rows();
        let mut sorted = outpoints.to_vec();
        sorted.sort_unstable();
        let mut damage = None;
        SPENT.multi_get(self.index.kv.as_ref(), &sorted, |at, value| {
            let Some(value) = value else { return };
            let record = value.read().and_then(|spent| spent.utxo());
            match record {
                Ok(record) => {
                    rows.coin(sorted[at], &record, NO_RECORD).delete_spent(batch, delta.height);
                }
                Err(error) => damage = Some(error),
            }
        })?;
        damage.map_or(Ok(()), |error| Err(error.into()))
    }

    fn prune_side(
        &mut self,
        held: Held,
        limit: usize,
        report: &mut PruneReport,
    ) -> Result<(), IndexError> {
        let mut batch = Batch::new();
        let floor = held.undone_above.map_or(self.floor(), |fork| self.floor().min(fork.plus(1)));
        let deleted = side::prune(self.index.kv.as_ref(), &mut batch, floor, limit)?;
        if deleted > 0 {
            self.index.kv.commit(batch, Durability::Buffered)?;
            report.side_deleted = deleted;
            report.more |= deleted == limit;
        }
        Ok(())
    }
}
