//! Several changes that become one commit: a reorganisation is undone and connected here first.
//!
//! # Invariants
//!
//! * While changes are staged, the writer reads its own and everybody else reads the database as it
//!   was.
//! * What is staged reaches the database in one atomic batch, or not at all.

use std::{collections::BTreeMap, ops::Bound, time::Duration};

use utxokeep_core::{BlockEntry, Height, Network, hex_encode, mmr::NodeHash};
use utxokeep_kv::{Batch, Kv, KvError, Read, Scan, TableId, Visitor};

use crate::{ChainWriter, Mode, error::IndexError, stats};

/// The deepest reorganisation that becomes one commit, in blocks.
pub(crate) const ONE_COMMIT_BLOCKS_MAX: u32 = 100;

/// Bytes that a row takes besides its key and value.
const ROW_OVERHEAD_BYTES: usize = 96;

/// Changed rows of a table; those without a value are deleted.
type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes that wait for their commit.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    tables: BTreeMap<TableId, Rows>,
    bytes: usize,
    /// What to count and log once it is true.
    events: Vec<Event>,
}

/// A block that was connected or disconnected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) what: What,
    pub(crate) height: Height,
    pub(crate) entry: BlockEntry,
    pub(crate) took: Duration,
    /// Root of the Merkle mountain range after it, where it is known.
    pub(crate) mmr_root: Option<NodeHash>,
}

/// What happened to a block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    /// Connected, with so many outputs created and spent.
    Connected { created: usize, spent: usize },
    /// Disconnected, with so many outputs restored or removed.
    Disconnected { reversals: usize },
}

impl Event {
    /// Counts and logs it.
    fn tell(&self, network: Network) {
        let Self { what, height, entry, took, mmr_root } = self;
        let text = match *what {
            What::Connected { created, spent } => {
                stats::connected(created, spent, *took);
                "block connected"
            }
            What::Disconnected { reversals } => {
                stats::rolled_back(reversals, *took);
                "block disconnected"
            }
        };
        tracing::info!(
            %height,
            slot = entry.slot.map(|slot| slot.slot),
            hash = network.hash_text(entry.hash.as_bytes()),
            txs = entry.txs,
            created = entry.created,
            spent = entry.spent,
            ms = took.as_millis(),
            mmr_root = mmr_root.map(|root| hex_encode(&root)),
            "{text}"
        );
    }
}

impl Staging {
    /// Takes the rows of a batch; of several writes to one row the last remains.
    fn take(&mut self, batch: &Batch) {
        for row in batch.rows() {
            let value = row.value.map(<[u8]>::to_vec);
            let len = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
            self.bytes += len(&value);
            let rows = self.tables.entry(row.table).or_default();
            match rows.insert(row.key.to_vec(), value) {
                Some(before) => self.bytes -= len(&before),
                None => self.bytes += row.key.len() + ROW_OVERHEAD_BYTES,
            }
        }
    }

    fn into_batch(self) -> Batch {
        let rows = self.tables.values().map(BTreeMap::len).sum();
        let mut batch = Batch::with_capacity(rows, self.bytes);
        for (table, rows) in self.tables {
            for (key, value) in rows {
                match value {
                    Some(value) => batch.put(table, &key, &value),
                    None => batch.delete(table, &key),
                }
            }
        }
        batch
    }
}

/// The database as its writer sees it: with what is staged.
#[derive(Debug)]
pub(crate) struct WriterRead<'a, K> {
    kv: &'a K,
    staging: Option<&'a Staging>,
}

impl<'a, K: Kv> WriterRead<'a, K> {
    pub(crate) const fn new(kv: &'a K, staging: Option<&'a Staging>) -> Self {
        Self { kv, staging }
    }

    fn rows(&self, table: TableId) -> Option<&'a Rows> {
        self.staging.and_then(|staging| staging.tables.get(&table))
    }
}

impl<K: Kv> Read for WriterRead<'_, K> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        match self.rows(table).and_then(|rows| rows.get(key)) {
            Some(value) => Ok(value.clone()),
            None => self.kv.get(table, key),
        }
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        let Some(rows) = self.rows(table) else { return self.kv.multi_get(table, keys, found) };
        let mut rest = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            match rows.get(*key) {
                Some(value) => found(at, value.as_deref()),
                None => rest.push((at, *key)),
            }
        }
        let rest_keys: Vec<&[u8]> = rest.iter().map(|(_, key)| *key).collect();
        self.kv.multi_get(table, &rest_keys, &mut |at, value| found(rest[at].0, value))
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        let Some(rows) = self.rows(table) else { return self.kv.scan(table, scan, visit) };
        if scan.limit == 0 || scan.until.is_some_and(|until| until <= scan.from) {
            return Ok(0);
        }
        let end = scan.until.map_or(Bound::Unbounded, Bound::Excluded);
        let range = rows.range::<[u8], _>((Bound::Included(scan.from), end));
        let staged: Vec<_> = if scan.reverse { range.rev().collect() } else { range.collect() };
        let mut merge = Merge { staged: staged.into_iter().peekable(), scan, visited: 0, visit };
        let all = Scan { limit: usize::MAX, ..scan.clone() };
        let mut go_on = true;
        self.kv.scan(table, &all, &mut |key, value| {
            go_on = merge.stored(key, value);
            go_on
        })?;
        if go_on {
            merge.rest();
        }
        Ok(merge.visited)
    }
}

/// Staged rows put between stored ones, in the order of a scan.
struct Merge<'m, 'r, I: Iterator<Item = (&'r Vec<u8>, &'r Option<Vec<u8>>)>> {
    staged: std::iter::Peekable<I>,
    scan: &'m Scan<'m>,
    visited: usize,
    visit: &'m mut Visitor<'m>,
}

impl<'r, I: Iterator<Item = (&'r Vec<u8>, &'r Option<Vec<u8>>)>> Merge<'_, 'r, I> {
    fn show(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.visited += 1;
        (self.visit)(key, value) && self.visited < self.scan.limit
    }

    /// A stored row, behind the staged rows that come before it.
    fn stored(&mut self, key: &[u8], value: &[u8]) -> bool {
        while let Some(&(staged, change)) = self.staged.peek() {
            let is_before =
                if self.scan.reverse { staged.as_slice() > key } else { staged.as_slice() < key };
            let is_same = staged.as_slice() == key;
            if !is_before && !is_same {
                break;
            }
            self.staged.next();
            if let Some(value) = change
                && !self.show(staged, value)
            {
                return false;
            }
            if is_same {
                return true;
            }
        }
        self.show(key, value)
    }

    fn rest(&mut self) {
        while let Some((key, change)) = self.staged.next() {
            if let Some(value) = change
                && !self.show(key, value)
            {
                return;
            }
        }
    }
}

impl<K: Kv> ChainWriter<K> {
    /// From now on commits are staged.
    pub(crate) fn begin_staging(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        self.staging = Some(Staging::default());
        Ok(())
    }

    pub(crate) const fn is_staging(&self) -> bool {
        self.staging.is_some()
    }

    /// Whether so much is staged that it has to be committed.
    pub(crate) fn is_staging_full(&self) -> bool {
        let bytes_max = self.index.settings.bulk_batch_bytes_max;
        self.staging.as_ref().is_some_and(|staging| staging.bytes >= bytes_max)
    }

    /// Commits what is staged; a no-op when nothing is.
    pub(crate) fn commit_staged(&mut self) -> Result<(), IndexError> {
        if !self.is_staging() {
            return Ok(());
        }
        self.flush()?;
        let Some(mut staging) = self.staging.take() else { return Ok(()) };
        let events = std::mem::take(&mut staging.events);
        let batch = staging.into_batch();
        let rows = batch.len();
        if let Err(error) = self.index.kv.commit(batch, self.index.settings.durability) {
            self.discard_staged()?;
            return Err(error.into());
        }
        stats::committed(rows);
        self.index.signal.raise();
        let network = self.index.settings.network();
        for event in &events {
            event.tell(network);
        }
        Ok(())
    }

    /// Forgets what is staged: the database stands as it stood before.
    pub(crate) fn abandon_staged(&mut self) -> Result<(), IndexError> {
        if self.staging.take().is_none() {
            return Ok(());
        }
        self.discard_staged()
    }

    /// What the writer reads.
    pub(crate) fn read(&self) -> WriterRead<'_, K> {
        WriterRead::new(self.index.kv.as_ref(), self.staging.as_ref())
    }

    /// Commits a batch at the tip, or stages it.
    pub(crate) fn commit(&mut self, batch: Batch) -> Result<(), KvError> {
        if let Some(staging) = &mut self.staging {
            staging.take(&batch);
            return Ok(());
        }
        let rows = batch.len();
        self.index.kv.commit(batch, self.index.settings.durability)?;
        stats::committed(rows);
        self.index.signal.raise();
        Ok(())
    }

    /// Root after the newest block, where it is known: bulk load hashes once for each batch.
    pub(crate) fn mmr_root(&self) -> Option<NodeHash> {
        self.accumulators.mmr_root().filter(|_| self.mode != Mode::Bulk)
    }

    /// Counts and logs what happened to a block, once it is true.
    pub(crate) fn tell(&mut self, event: Event) {
        match &mut self.staging {
            Some(staging) => staging.events.push(event),
            None => event.tell(self.index.settings.network()),
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_kv::{Access, Durability, MemoryKv, TableSpec};

    use super::*;

    const TABLE: TableId = TableId(0);

    fn batch(rows: &[(&str, Option<&str>)]) -> Batch {
        let mut batch = Batch::new();
        for (key, value) in rows {
            match value {
                Some(value) => batch.put(TABLE, key.as_bytes(), value.as_bytes()),
                None => batch.delete(TABLE, key.as_bytes()),
            }
        }
        batch
    }

    /// Everything that can be read of keys `a` to `f`.
    fn all(read: &dyn Read) -> Vec<String> {
        let keys: Vec<&[u8]> = [b"a", b"b", b"c", b"d", b"e", b"f"].map(<[u8; 1]>::as_slice).into();
        let mut answers: Vec<String> =
            keys.iter().map(|key| format!("{:?}", read.get(TABLE, key).unwrap())).collect();
        let mut many = vec![None; keys.len()];
        read.multi_get(TABLE, &keys, &mut |at, value| many[at] = value.map(<[u8]>::to_vec))
            .unwrap();
        answers.push(format!("{many:?}"));
        for reverse in [false, true] {
            for (from, until) in
                [("a", None), ("b", Some("e")), ("c", Some("c")), ("bb", Some("f"))]
            {
                for limit in [0, 1, 2, 3, usize::MAX] {
                    let until = until.map(str::as_bytes);
                    let scan =
                        Scan { from: from.as_bytes(), until, reverse, limit, within_prefix: false };
                    let mut rows = Vec::new();
                    let visited = read
                        .scan(TABLE, &scan, &mut |key, value| {
                            rows.push((key.to_vec(), value.to_vec()));
                            rows.len() < 4
                        })
                        .unwrap();
                    answers.push(format!("{visited} {rows:?}"));
                }
            }
        }
        answers
    }

    #[test]
    fn the_writer_reads_what_the_database_will_hold_after_the_commit() {
        let changes =
            [("a", None), ("c", Some("x")), ("d", None), ("e", Some("y")), ("f", Some(""))];
        // Every subset of the changes over every subset of the rows.
        for stored in 0u32..64 {
            for changed in 0u32..32 {
                let kv = MemoryKv::new(&[TableSpec { name: "t", access: Access::Point }]);
                let rows: Vec<_> = ["a", "b", "c", "d", "e", "f"]
                    .into_iter()
                    .enumerate()
                    .filter(|(at, _)| stored >> at & 1 == 1)
                    .map(|(_, key)| (key, Some("old")))
                    .collect();
                kv.commit(batch(&rows), Durability::Buffered).unwrap();
                let mut staging = Staging::default();
                for (at, change) in changes.iter().enumerate() {
                    if changed >> at & 1 == 1 {
                        staging.take(&batch(&[("c", Some("first")), *change]));
                    }
                }
                let staged = all(&WriterRead::new(&kv, Some(&staging)));
                kv.commit(staging.into_batch(), Durability::Buffered).unwrap();
                assert_eq!(staged, all(&kv), "{stored:b} {changed:b}");
            }
        }
    }
}
