//! Tables in memory whose reads and commits somebody can listen to, or make fail.

use std::sync::{Arc, Mutex};

use utxokeep_kv::{
    Batch, Durability, Kv, KvError, MemoryKv, Read, Scan, SortedRows, TableId, TableSize, Visitor,
};
use utxokeep_txstore::{NodeStore, ProofFault, PruneStore, Settings, TABLES};

/// Called with the table and the key of a row that is about to be read.
type ReadHook = dyn FnMut(TableId, &[u8]) + Send;

/// Called with the rows of a commit; an error is answered in its place, and nothing is written.
type Hook = dyn FnMut(&Batch) -> Result<(), KvError> + Send;

struct Inner {
    kv: MemoryKv,
    hook: Mutex<Option<Box<Hook>>>,
    read_hook: Mutex<Option<Box<ReadHook>>>,
}

/// Tables in memory that several stores can share, one after the other.
#[derive(Clone)]
pub(super) struct Faulty(Arc<Inner>);

impl Faulty {
    pub(super) fn new() -> Self {
        let (hook, read_hook) = (Mutex::new(None), Mutex::new(None));
        Self(Arc::new(Inner { kv: MemoryKv::new(TABLES), hook, read_hook }))
    }

    pub(super) fn on_read(&self, hook: impl FnMut(TableId, &[u8]) + Send + 'static) {
        *self.0.read_hook.lock().unwrap() = Some(Box::new(hook));
    }

    /// Reads are nobody's business any more.
    pub(super) fn heal_reads(&self) {
        *self.0.read_hook.lock().unwrap() = None;
    }

    fn reads(&self, table: TableId, key: &[u8]) {
        // A read that comes while the hook runs is none of its business.
        if let Ok(mut hook) = self.0.read_hook.try_lock()
            && let Some(hook) = hook.as_mut()
        {
            hook(table, key);
        }
    }

    pub(super) fn on_commit(
        &self,
        hook: impl FnMut(&Batch) -> Result<(), KvError> + Send + 'static,
    ) {
        *self.0.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub(super) fn heal(&self) {
        *self.0.hook.lock().unwrap() = None;
    }

    pub(super) fn store(&self) -> Arc<dyn PruneStore> {
        self.store_with(None)
    }

    /// The same with a planted mistake.
    pub(super) fn store_with(&self, fault: Option<ProofFault>) -> Arc<dyn PruneStore> {
        let settings = Settings::default();
        let store = NodeStore::on_kv(self.clone(), settings, Durability::Buffered).unwrap();
        Arc::new(match fault {
            Some(fault) => store.unsafe_with(fault),
            None => store,
        })
    }
}

impl Read for Faulty {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.reads(table, key);
        self.0.kv.get(table, key)
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        for key in keys {
            self.reads(table, key);
        }
        self.0.kv.multi_get(table, keys, found)
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        self.0.kv.scan(table, scan, visit)
    }
}

impl Kv for Faulty {
    type Snapshot<'a> = <MemoryKv as Kv>::Snapshot<'a>;

    fn snapshot(&self) -> Self::Snapshot<'_> {
        self.0.kv.snapshot()
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), KvError> {
        // A commit that comes while the hook runs is none of its business.
        if let Ok(mut hook) = self.0.hook.try_lock()
            && let Some(hook) = hook.as_mut()
        {
            hook(&batch)?;
        }
        self.0.kv.commit(batch, durability)
    }

    fn load(&self, tables: &[&dyn SortedRows], finish: Batch) -> Result<(), KvError> {
        self.0.kv.load(tables, finish)
    }

    fn table_sizes(&self) -> Result<Vec<TableSize>, KvError> {
        self.0.kv.table_sizes()
    }

    fn compact(&self) -> Result<(), KvError> {
        self.0.kv.compact()
    }
}
