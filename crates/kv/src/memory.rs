//! An engine without a disk, for tests and models.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    Batch, Durability, Kv, KvError, Read, Scan, SortedRows, TableId, TableSize, TableSpec, Visitor,
};

type Tables = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// Ordered maps in memory. Nothing survives the value.
#[derive(Debug)]
pub struct MemoryKv {
    specs: &'static [TableSpec],
    tables: RwLock<Arc<Tables>>,
}

/// A view of a [`MemoryKv`].
#[derive(Debug, Clone)]
pub struct MemorySnapshot(Arc<Tables>);

impl MemoryKv {
    /// Empty tables.
    pub fn new(specs: &'static [TableSpec]) -> Self {
        let tables = specs.iter().map(|_| BTreeMap::new()).collect();
        Self { specs, tables: RwLock::new(Arc::new(tables)) }
    }

    fn view(&self) -> MemorySnapshot {
        // A poisoned lock means a panic between two whole batches: the tables are intact.
        MemorySnapshot(self.tables.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Read for MemorySnapshot {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.0[usize::from(table.0)].get(key).cloned())
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        for (at, key) in keys.iter().enumerate() {
            found(at, self.0[usize::from(table.0)].get(*key).map(Vec::as_slice));
        }
        Ok(())
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        if scan.until.is_some_and(|until| until <= scan.from) {
            return Ok(0);
        }
        let end = scan.until.map_or(Bound::Unbounded, Bound::Excluded);
        let range =
            self.0[usize::from(table.0)].range::<[u8], _>((Bound::Included(scan.from), end));
        let mut visited = 0;
        let mut each = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            visited += 1;
            visit(key, value)
        };
        if scan.reverse {
            range.rev().take(scan.limit).all(&mut each);
        } else {
            let mut range = range;
            range.by_ref().take(scan.limit).all(&mut each);
        }
        Ok(visited)
    }
}

impl Read for MemoryKv {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.view().get(table, key)
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        self.view().multi_get(table, keys, found)
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        self.view().scan(table, scan, visit)
    }
}

impl Kv for MemoryKv {
    type Snapshot<'a> = MemorySnapshot;

    fn snapshot(&self) -> MemorySnapshot {
        self.view()
    }

    fn commit(&self, batch: Batch, _: Durability) -> Result<(), KvError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let tables = Arc::make_mut(&mut tables);
        for row in batch.rows() {
            let table = &mut tables[usize::from(row.table.0)];
            match row.value {
                Some(value) => table.insert(row.key.to_vec(), value.to_vec()),
                None => table.remove(row.key),
            };
        }
        Ok(())
    }

    fn load(&self, tables: &[&dyn SortedRows], finish: Batch) -> Result<(), KvError> {
        let mut batch = Batch::new();
        for rows in tables {
            rows.visit(&mut |key, value| {
                match value {
                    Some(value) => batch.put(rows.table(), key, value),
                    None => batch.delete(rows.table(), key),
                }
                Ok(())
            })?;
        }
        batch.append(&finish);
        self.commit(batch, Durability::Synced)
    }

    fn table_sizes(&self) -> Result<Vec<TableSize>, KvError> {
        let tables = self.view().0;
        let size = |(spec, table): (&TableSpec, &BTreeMap<Vec<u8>, Vec<u8>>)| TableSize {
            name: spec.name,
            disk_bytes: table.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
            rows_estimate: table.len() as u64,
        };
        Ok(self.specs.iter().zip(tables.iter()).map(size).collect())
    }

    fn compact(&self) -> Result<(), KvError> {
        Ok(())
    }
}
