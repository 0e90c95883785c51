//! An engine with somebody in between: to fail, to be slow, to remember, to check.

use std::sync::Arc;

use utxokeep_kv::{
    Batch, Durability, Kv, KvError, OpenMode, Read, Scan, SortedRows, TableId, TableSize, Trouble,
    Visitor,
};

/// What happens before a call reaches the engine. An error is answered in its place.
pub trait Hook: Send + Sync {
    /// Before rows are read by their keys.
    fn read(&self, _table: TableId, _keys: &[&[u8]]) {}

    /// Before a batch is committed.
    fn commit(&self, _batch: &Batch) -> Result<(), KvError> {
        Ok(())
    }

    /// Why no writes are taken, instead of what the engine says.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Before rows are loaded.
    fn load(&self, _tables: &[&dyn SortedRows], _finish: &Batch) -> Result<(), KvError> {
        Ok(())
    }
}

/// An engine behind a [`Hook`]. Clones share both.
#[derive(Debug)]
pub struct HookedKv<K, H> {
    /// The engine.
    pub kv: Arc<K>,
    /// Who is in between.
    pub hook: Arc<H>,
}

impl<K, H> Clone for HookedKv<K, H> {
    fn clone(&self) -> Self {
        Self { kv: Arc::clone(&self.kv), hook: Arc::clone(&self.hook) }
    }
}

impl<K, H> HookedKv<K, H> {
    /// Puts a hook in front of an engine.
    pub fn new(kv: K, hook: H) -> Self {
        Self { kv: Arc::new(kv), hook: Arc::new(hook) }
    }
}

impl<K: Read + Send, H: Hook> Read for HookedKv<K, H> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.hook.read(table, &[key]);
        self.kv.get(table, key)
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        self.hook.read(table, keys);
        self.kv.multi_get(table, keys, found)
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        self.kv.scan(table, scan, visit)
    }
}

impl<K: Kv + 'static, H: Hook> Kv for HookedKv<K, H> {
    type Snapshot<'a>
        = K::Snapshot<'a>
    where
        Self: 'a;

    fn snapshot(&self) -> Self::Snapshot<'_> {
        self.kv.snapshot()
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), KvError> {
        self.hook.commit(&batch)?;
        self.kv.commit(batch, durability)
    }

    fn load(&self, tables: &[&dyn SortedRows], finish: Batch) -> Result<(), KvError> {
        self.hook.load(tables, &finish)?;
        self.kv.load(tables, finish)
    }

    fn mode(&self) -> OpenMode {
        self.kv.mode()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.hook.trouble().or_else(|| self.kv.trouble())
    }

    fn table_sizes(&self) -> Result<Vec<TableSize>, KvError> {
        self.kv.table_sizes()
    }

    fn compact(&self) -> Result<(), KvError> {
        self.kv.compact()
    }
}
