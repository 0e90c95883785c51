//! Disconnecting blocks: the delta walked backwards, through the same rows as apply.

use std::time::Instant;

use rustc_hash::FxHashSet;
use utxokeep_core::{BlockDelta, Corrupt, Height, OutPoint, SpentRecord, StoredValue, Txid};
use utxokeep_kv::{Batch, Kv, Read, Table};

use crate::{
    ChainWriter,
    coin::{Coin, RecordBytes, Rows},
    error::{IndexError, RollbackError},
    meta,
    query::block_entry,
    side::{self, Redo, Undone},
    staging::{Event, What, WriterRead},
    stats,
    tables::{BLOCKS, DELTA, HEIGHTS, SPENT, TABLES, UNSPENT},
    writer::Tip,
};

impl<K: Kv> ChainWriter<K> {
    /// Makes `target` the tip again, undoing the blocks above it one atomic batch each. Answers
    /// how many were undone. A target below the floor is refused whole. Of each undone block what
    /// readers of the log have to be told is kept.
    pub fn rollback(&mut self, target: Height) -> Result<u32, RollbackError> {
        self.rollback_keeping(target, false)
    }

    /// Like [`ChainWriter::rollback`]. With `keep_redo`, the undone blocks stay a branch that can be
    /// connected again without its source.
    pub(crate) fn rollback_keeping(
        &mut self,
        target: Height,
        keep_redo: bool,
    ) -> Result<u32, RollbackError> {
        self.flush()?;
        let tip = self.tip.ok_or(RollbackError::Empty)?.height;
        let depth = target.depth_below(tip).ok_or(RollbackError::AboveTip { target, tip })?;
        let safe = self.rollback_floor();
        if target < safe {
            stats::rollback_refused();
            return Err(if self.set_cursor.is_some() {
                RollbackError::BelowTables { target, safe }
            } else {
                RollbackError::TooDeep { target, safe }
            });
        }
        for _ in 0..depth {
            let (started, undone) = (Instant::now(), self.tip);
            let reversals = self.undo_tip(keep_redo)?;
            if let Some(Tip { height, entry }) = undone {
                let what = What::Disconnected { reversals };
                let (took, mmr_root) = (started.elapsed(), self.mmr_root());
                self.tell(Event { what, height, entry, took, mmr_root });
            }
        }
        Ok(depth)
    }

    /// Undoes the newest block; answers how many outputs that changed.
    fn undo_tip(&mut self, keep_redo: bool) -> Result<usize, IndexError> {
        let undone = self.undo_committed_tip(keep_redo);
        if undone.is_err() {
            // The accumulators may have gone back already.
            self.discard_staged()?;
        }
        undone
    }

    fn undo_committed_tip(&mut self, keep_redo: bool) -> Result<usize, IndexError> {
        let Some(tip) = self.tip else { return Ok(0) };
        let read = &WriterRead::new(self.index.kv.as_ref(), self.staging.as_ref());
        let parent = tip.height.minus(1);
        let entry = block_entry(read, parent)?
            .ok_or_else(|| IndexError::missing("chain_blocks", parent))?;
        let mut batch = Batch::new();
        let mut reversals = 0;
        if self.keeps_set() {
            let delta = read_delta(read, tip.height)?;
            if delta.hash != tip.entry.hash {
                return Err(Corrupt::new("block delta", "it belongs to another block").into());
            }
            let bodies = Bodies::gather(read, &delta)?;
            reversals = delta.created.len() + delta.spent.len();
            self.undo_set(&mut batch, &delta, &bodies)?;
            self.accumulators.undo(read, &delta, &bodies, &mut batch)?;
            DELTA.delete(&mut batch, &tip.height);
            let (entry, delta) = (tip.entry, bodies.into_self_contained(delta)?);
            if keep_redo {
                side::put_redo(&mut batch, tip.height, &Redo { entry, delta });
            } else {
                let undone = Undone { entry, delta: Some(delta) };
                side::put_undone(&mut batch, tip.height, &undone);
            }
        } else {
            let undone = Undone { entry: tip.entry, delta: None };
            side::put_undone(&mut batch, tip.height, &undone);
        }
        BLOCKS.delete(&mut batch, &tip.height);
        HEIGHTS.delete(&mut batch, &tip.entry.hash);
        meta::put_tip(&mut batch, parent, &entry.hash);
        let number = tip.entry.number(tip.height);
        let undone_number = self.undone_number.map_or(number, |greatest| greatest.max(number));
        if self.undone_number != Some(undone_number) {
            meta::put_undone_number(&mut batch, undone_number);
        }
        self.commit(batch)?;
        self.undone_number = Some(undone_number);
        self.tip = Some(Tip { height: parent, entry });
        self.boundary = None;
        self.with_next = Batch::new();
        Ok(reversals)
    }

    pub(crate) fn undo_set(
        &self,
        batch: &mut Batch,
        delta: &BlockDelta,
        bodies: &Bodies,
    ) -> Result<(), IndexError> {
        let rows = self.rows();
        for (spent, body) in delta.spent.iter().zip(&bodies.spent) {
            let coin = coin(rows, spent.outpoint, &body.record)?;
            coin.delete_spent(batch, delta.height);
            if !bodies.same_block.contains(&spent.outpoint) {
                coin.put_live(batch);
            }
        }
        for (created, body) in delta.created.iter().zip(&bodies.created) {
            if let Some(body) = body {
                coin(rows, created.outpoint, body)?.delete_live(batch);
            }
        }
        for (outpoint, body) in &delta.replaced {
            coin(rows, *outpoint, body)?.put_live(batch);
        }
        Ok(())
    }
}

fn coin(rows: Rows, outpoint: OutPoint, bytes: &[u8]) -> Result<Coin<'_>, Corrupt> {
    let bytes = RecordBytes::new(bytes);
    Ok(rows.coin(outpoint, &bytes.read()?, bytes))
}

pub(crate) fn read_delta(read: &dyn Read, height: Height) -> Result<BlockDelta, IndexError> {
    let delta = DELTA.get(read, &height)?;
    let delta = delta.ok_or_else(|| IndexError::missing("utxo_block_delta", height))?;
    Ok(delta.read()?)
}

pub(crate) struct SpentBody {
    record: Vec<u8>,
    spent_by: Txid,
}

/// The records behind a delta: from inside it, or from the tables.
pub(crate) struct Bodies {
    spent: Vec<SpentBody>,
    /// `None` for an output that its own block spent: it never was live.
    created: Vec<Option<Vec<u8>>>,
    same_block: FxHashSet<OutPoint>,
}

impl Bodies {
    /// For the newest block: whatever it created and did not spend is live.
    pub(crate) fn gather(read: &dyn Read, delta: &BlockDelta) -> Result<Self, IndexError> {
        Self::gather_with(read, delta, |read, created| read_all(read, UNSPENT, created))
    }

    /// For any block with undo data: what it created may have been spent since.
    pub(crate) fn gather_later(read: &dyn Read, delta: &BlockDelta) -> Result<Self, IndexError> {
        Self::gather_with(read, delta, read_live_or_spent)
    }

    /// For who asks only what the block took out of the set.
    pub(crate) fn gather_spent(read: &dyn Read, delta: &BlockDelta) -> Result<Self, IndexError> {
        Self::gather_with(read, delta, |_, _| Ok(Vec::new()))
    }

    /// Outputs that were in the set before the block and not after it, with their records: those
    /// that it replaced, then those that it spent.
    pub(crate) fn left_the_set<'a>(
        &'a self,
        delta: &'a BlockDelta,
    ) -> impl Iterator<Item = (OutPoint, &'a [u8])> {
        let replaced = delta.replaced.iter().map(|(outpoint, body)| (*outpoint, body.as_slice()));
        replaced.chain(self.spent_before(delta))
    }

    /// Outputs that the block spent and an earlier one created, with their records.
    pub(crate) fn spent_before<'a>(
        &'a self,
        delta: &'a BlockDelta,
    ) -> impl Iterator<Item = (OutPoint, &'a [u8])> {
        let spent = delta.spent.iter().zip(&self.spent);
        spent
            .map(|(spent, body)| (spent.outpoint, body.record.as_slice()))
            .filter(|(outpoint, _)| !self.same_block.contains(outpoint))
    }

    /// Outputs that the block created and did not spend, with their records.
    pub(crate) fn created_and_left<'a>(
        &'a self,
        delta: &'a BlockDelta,
    ) -> impl Iterator<Item = (OutPoint, &'a [u8])> {
        let created = delta.created.iter().zip(&self.created);
        created.filter_map(|(created, body)| Some((created.outpoint, body.as_deref()?)))
    }

    fn gather_with(
        read: &dyn Read,
        delta: &BlockDelta,
        read_created: impl Fn(&dyn Read, &[OutPoint]) -> Result<Vec<Vec<u8>>, IndexError>,
    ) -> Result<Self, IndexError> {
        let spent_set: FxHashSet<_> = delta.spent.iter().map(|spent| spent.outpoint).collect();
        let same_block: FxHashSet<_> = delta
            .created
            .iter()
            .map(|created| created.outpoint)
            .filter(|outpoint| spent_set.contains(outpoint))
            .collect();

        let in_tables: Vec<_> =
            delta.spent.iter().filter(|s| s.record.is_none()).map(|s| s.outpoint).collect();
        let mut found = read_all(read, SPENT, &in_tables)?.into_iter();
        let mut spent = Vec::with_capacity(delta.spent.len());
        for entry in &delta.spent {
            spent.push(if let (Some(record), Some(spent_by)) = (&entry.record, entry.spent_by) {
                SpentBody { record: record.clone(), spent_by }
            } else {
                let row = found.next().unwrap_or_default();
                let row = SpentRecord::decode(&row)?;
                SpentBody { record: row.record.to_vec(), spent_by: row.spent_by }
            });
        }

        let is_live = |outpoint: &OutPoint| !same_block.contains(outpoint);
        let in_tables: Vec<_> = delta
            .created
            .iter()
            .filter(|created| created.record.is_none() && is_live(&created.outpoint))
            .map(|created| created.outpoint)
            .collect();
        let mut found = read_created(read, &in_tables)?.into_iter();
        let created = delta
            .created
            .iter()
            .map(|created| {
                is_live(&created.outpoint)
                    .then(|| created.record.clone().or_else(|| found.next()))
                    .flatten()
            })
            .collect();
        Ok(Self { spent, created, same_block })
    }

    /// The delta with every body inside.
    pub(crate) fn into_self_contained(
        self,
        mut delta: BlockDelta,
    ) -> Result<BlockDelta, IndexError> {
        let mut same_block = rustc_hash::FxHashMap::default();
        for (entry, body) in delta.spent.iter_mut().zip(self.spent) {
            if self.same_block.contains(&entry.outpoint) {
                same_block.insert(entry.outpoint, body.record.clone());
            }
            entry.record = Some(body.record);
            entry.spent_by = Some(body.spent_by);
        }
        for (entry, body) in delta.created.iter_mut().zip(self.created) {
            entry.record = body.or_else(|| same_block.remove(&entry.outpoint));
            if entry.record.is_none() {
                return Err(IndexError::missing("utxo_unspent", entry.outpoint));
            }
        }
        Ok(delta)
    }
}

/// Records of outputs that are live, or that were spent inside the horizon.
fn read_live_or_spent(read: &dyn Read, outpoints: &[OutPoint]) -> Result<Vec<Vec<u8>>, IndexError> {
    let mut records = read_some(read, UNSPENT, outpoints)?;
    let since_spent: Vec<usize> =
        (0..outpoints.len()).filter(|&at| records[at].is_none()).collect();
    let asked: Vec<OutPoint> = since_spent.iter().map(|&at| outpoints[at]).collect();
    for (at, row) in since_spent.into_iter().zip(read_all(read, SPENT, &asked)?) {
        records[at] = Some(SpentRecord::decode(&row)?.record.to_vec());
    }
    Ok(records.into_iter().flatten().collect())
}

/// Reads the rows of many outpoints; every one must be there.
fn read_all<V: StoredValue>(
    read: &dyn Read,
    table: Table<OutPoint, V>,
    outpoints: &[OutPoint],
) -> Result<Vec<Vec<u8>>, IndexError> {
    let name = TABLES[usize::from(table.id().0)].name;
    read_some(read, table, outpoints)?
        .into_iter()
        .zip(outpoints)
        .map(|(value, outpoint)| value.ok_or_else(|| IndexError::missing(name, outpoint)))
        .collect()
}

/// Reads the rows of many outpoints in one sorted pass.
fn read_some<V: StoredValue>(
    read: &dyn Read,
    table: Table<OutPoint, V>,
    outpoints: &[OutPoint],
) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
    let mut sorted: Vec<_> = outpoints.iter().enumerate().map(|(at, one)| (*one, at)).collect();
    sorted.sort_unstable();
    let mut values = vec![None; outpoints.len()];
    table.multi_get(read, sorted.iter().map(|(outpoint, _)| outpoint), |number, value| {
        values[sorted[number].1] = value.map(|value| value.bytes().to_vec());
    })?;
    Ok(values)
}
