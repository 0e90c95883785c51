//! The checks of what undoing stands on: deltas, and blocks of other branches.

use rustc_hash::FxHashSet;
use utxokeep_core::{BlockDelta, Corrupt, Height, Node, OutPoint, UtxoRecord};
use utxokeep_kv::{Read, Stored};

use super::Check;
use crate::{
    accumulator::Change,
    error::IndexError,
    meta,
    query::block_entry,
    rollback::read_delta,
    side::{self, Body, Undone},
    tables::{DELTA, SIDE_BODY, SPENT, UNSPENT},
};

impl<S: Read> Check<'_, '_, S> {
    /// There is a delta for every block above the undo base and for no other; what it lists is
    /// where it must be; and the counters of the log follow from it.
    pub(super) fn deltas(&mut self) -> Result<(), IndexError> {
        const CHECK: &str = "deltas";
        let Some(tip) = self.tip() else { return Ok(()) };
        let base = meta::undo_base(self.read())?;
        let in_progress = meta::prune_cursor(self.read())?;
        let mut spent_listed = 0u64;
        for raw in (base.get().saturating_add(1)..=tip.get()).rev() {
            let height = Height::new(raw);
            match read_delta(self.read(), height) {
                Ok(delta) => {
                    spent_listed += delta.spent.len() as u64;
                    self.delta(height, &delta)?;
                }
                Err(error) => self.report.add_damage(CHECK, error)?,
            }
            self.report.deltas_checked += 1;
            (self.progress)(CHECK, self.report.deltas_checked);
        }
        let mut expected = u64::from(tip.get() - base.get().min(tip.get()));
        if let Some(cursor) = in_progress {
            expected += 1;
            let delta = read_delta(self.read(), cursor.height)?;
            spent_listed += (delta.spent.len() as u64).saturating_sub(u64::from(cursor.done));
        }
        let rows = self.count(DELTA.id())?;
        if rows != expected {
            self.report.add(CHECK, format!("{rows} deltas where {expected} belong"));
        }
        if spent_listed != self.report.spent_checked {
            let found = self.report.spent_checked;
            let detail = format!("{found} spent rows where deltas list {spent_listed}");
            self.report.add(CHECK, detail);
        }
        Ok(())
    }

    fn delta(&mut self, height: Height, delta: &BlockDelta) -> Result<(), IndexError> {
        const CHECK: &str = "deltas";
        let (Some(entry), Some(parent)) =
            (block_entry(self.read(), height)?, block_entry(self.read(), height.minus(1))?)
        else {
            return Ok(());
        };
        let counts = (delta.created.len(), delta.spent.len());
        if (delta.height, delta.hash, delta.prev) != (height, entry.hash, entry.prev)
            || counts != (entry.created as usize, entry.spent as usize)
        {
            self.report.add(CHECK, format!("delta {height} belongs to another block"));
        }
        let mut totals = parent.totals;
        for created in &delta.created {
            let bytes = self.record_of(created.outpoint)?;
            let is_same = created.record.as_ref().is_none_or(|own| bytes.as_ref() == Some(own));
            match bytes.as_deref().map(UtxoRecord::decode) {
                Some(Ok(record)) if record.height == height && is_same => {
                    totals.add(record.value, record.address.len());
                }
                _ => {
                    let named = self.network().outpoint(&created.outpoint);
                    let detail = format!("{named} created at {height} is nowhere");
                    self.report.add(CHECK, detail);
                }
            }
        }
        for spent in &delta.spent {
            let row = SPENT.get(self.read(), &spent.outpoint)?;
            match row.as_ref().map(Stored::read) {
                Some(Ok(row))
                    if row.spent_height == height
                        && spent.record.as_ref().is_none_or(|own| row.record == own)
                        && spent.spent_by.is_none_or(|own| row.spent_by == own) =>
                {
                    let record = row.utxo()?;
                    totals.sub(record.value, record.address.len());
                }
                _ => {
                    let named = self.network().outpoint(&spent.outpoint);
                    let detail = format!("{named} spent at {height} has no row");
                    self.report.add(CHECK, detail);
                }
            }
        }
        for (outpoint, bytes) in &delta.replaced {
            let record = UtxoRecord::decode(bytes)?;
            totals.sub(record.value, record.address.len());
            self.replaced.insert(*outpoint, bytes.clone());
        }
        if totals != entry.totals {
            self.report.add("counters", format!("totals of block {height} do not follow"));
        }
        Ok(())
    }

    /// Bytes of the record of an output: live, spent, or replaced by a block above the one that is
    /// looked at.
    fn record_of(&self, outpoint: OutPoint) -> Result<Option<Vec<u8>>, IndexError> {
        if let Some(bytes) = self.replaced.get(&outpoint) {
            return Ok(Some(bytes.clone()));
        }
        if let Some(record) = UNSPENT.get(self.read(), &outpoint)? {
            return Ok(Some(record.into_bytes()));
        }
        let Some(spent) = SPENT.get(self.read(), &outpoint)? else { return Ok(None) };
        Ok(spent.read().ok().map(|spent| spent.record.to_vec()))
    }

    /// Tells what a block changed in the set that is left after it, newest block first: who walks
    /// back clears [`Self::replaced`] at the tip.
    pub(crate) fn each_change(
        &mut self,
        delta: &BlockDelta,
        tell: &mut dyn FnMut(Change, OutPoint, &UtxoRecord<'_>) -> Result<(), Corrupt>,
    ) -> Result<(), IndexError> {
        let created: FxHashSet<_> = delta.created.iter().map(|c| c.outpoint).collect();
        let spent: FxHashSet<_> = delta.spent.iter().map(|s| s.outpoint).collect();
        let mut stored = |change, outpoint: OutPoint| -> Result<(), IndexError> {
            let bytes = self.record_of(outpoint)?;
            let bytes = bytes.ok_or_else(|| IndexError::missing("utxo_unspent", outpoint))?;
            Ok(tell(change, outpoint, &UtxoRecord::decode(&bytes)?)?)
        };
        for outpoint in delta.created.iter().map(|c| c.outpoint).filter(|o| !spent.contains(o)) {
            stored(Change::Created, outpoint)?;
        }
        for outpoint in delta.spent.iter().map(|s| s.outpoint).filter(|o| !created.contains(o)) {
            stored(Change::Spent, outpoint)?;
        }
        for (outpoint, bytes) in &delta.replaced {
            tell(Change::Replaced, *outpoint, &UtxoRecord::decode(bytes)?)?;
        }
        self.replaced.extend(delta.replaced.iter().cloned());
        Ok(())
    }

    /// Headers of other branches can be read, and each body is that of its header.
    pub(super) fn side(&mut self) -> Result<(), IndexError> {
        const CHECK: &str = "side blocks";
        let decoder = &self.view.settings.decoder;
        let mut bodies = 0u64;
        let nodes = side::nodes(self.read())?;
        for node in &nodes {
            let own = (node.hash, node.prev);
            let found = match side::body(self.read(), node.height, &node.hash)? {
                None => {
                    // Left while the index was off: only readers of the log have a use for it.
                    let key = (node.height, node.hash);
                    bodies += u64::from(SIDE_BODY.has(self.read(), &key)?);
                    continue;
                }
                Some(Body::Raw(raw)) => {
                    // On Cardano a boundary block may lie between a body and the parent of its header.
                    let is_linked_around = decoder.network().is_cardano();
                    decoder.decode(raw).ok().map(|block| {
                        let prev = if is_linked_around { node.prev } else { block.header.prev };
                        (block.header.hash, prev)
                    })
                }
                Some(Body::Redo(redo)) => (redo.entry.hash == redo.delta.hash)
                    .then_some((redo.entry.hash, redo.entry.prev)),
            };
            bodies += 1;
            if found != Some(own) {
                self.report.add(CHECK, format!("the body of block {} is damaged", node.hash));
            }
        }
        let bodies = bodies + self.undone(&nodes)?;
        let rows = self.count(SIDE_BODY.id())?;
        if rows != bodies {
            self.report.add(CHECK, format!("{rows} bodies of which {bodies} have a header"));
        }
        Ok(())
    }

    /// Blocks that are kept for readers of the log say what their keys say. Answers how many of
    /// them belong to no branch.
    fn undone(&mut self, nodes: &[Node]) -> Result<u64, IndexError> {
        let nodes: FxHashSet<_> = nodes.iter().map(|node| (node.height, node.hash)).collect();
        let (mut alone, mut damaged) = (0, Vec::new());
        side::visit_undone(self.read(), &mut |height, hash, undone| {
            alone += u64::from(!nodes.contains(&(height, hash)));
            let is_own = undone.is_ok_and(|Undone { entry, delta }| {
                let own = (height, hash, entry.prev);
                entry.hash == hash
                    && delta.is_none_or(|delta| (delta.height, delta.hash, delta.prev) == own)
            });
            if !is_own {
                damaged.push(hash);
            }
        })?;
        for hash in damaged {
            self.report.add("side blocks", format!("the body of block {hash} is damaged"));
        }
        Ok(alone)
    }
}
