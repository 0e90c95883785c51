//! Tables in memory whose reads and commits somebody can listen to, or make fail.

use std::sync::{Arc, Mutex};

use utxokeep_kv::{Batch, Durability, KvError, MemoryKv, TableId};
use utxokeep_pruner::PrunerSettings;
use utxokeep_testkit::{Hook, HookedKv};
use utxokeep_txstore::{Agreement, NodeStore, ProofFault, PruneStore, StoreSettings, TABLES};

/// Called with the table and the key of a row that is about to be read.
type ReadHook = dyn FnMut(TableId, &[u8]) + Send;

/// Called with the rows of a commit; an error is answered in its place, and nothing is written.
type CommitHook = dyn FnMut(&Batch) -> Result<(), KvError> + Send;

/// Who listens.
#[derive(Default)]
pub(super) struct Hooks {
    on_read: Mutex<Option<Box<ReadHook>>>,
    on_commit: Mutex<Option<Box<CommitHook>>>,
}

impl Hook for Hooks {
    fn read(&self, table: TableId, keys: &[&[u8]]) {
        // A read that comes while the hook runs is none of its business.
        if let Ok(mut hook) = self.on_read.try_lock()
            && let Some(hook) = hook.as_mut()
        {
            for key in keys {
                hook(table, key);
            }
        }
    }

    fn commit(&self, batch: &Batch) -> Result<(), KvError> {
        // Nor is a commit.
        if let Ok(mut hook) = self.on_commit.try_lock()
            && let Some(hook) = hook.as_mut()
        {
            hook(batch)?;
        }
        Ok(())
    }
}

/// Tables in memory that several stores can share, one after the other.
#[derive(Clone)]
pub(super) struct Faulty(pub(super) HookedKv<MemoryKv, Hooks>);

impl Faulty {
    pub(super) fn new() -> Self {
        Self(HookedKv::new(MemoryKv::new(TABLES), Hooks::default()))
    }

    pub(super) fn on_read(&self, hook: impl FnMut(TableId, &[u8]) + Send + 'static) {
        *self.0.hook.on_read.lock().unwrap() = Some(Box::new(hook));
    }

    /// Reads are nobody's business any more.
    pub(super) fn heal_reads(&self) {
        *self.0.hook.on_read.lock().unwrap() = None;
    }

    pub(super) fn on_commit(
        &self,
        hook: impl FnMut(&Batch) -> Result<(), KvError> + Send + 'static,
    ) {
        *self.0.hook.on_commit.lock().unwrap() = Some(Box::new(hook));
    }

    pub(super) fn heal(&self) {
        *self.0.hook.on_commit.lock().unwrap() = None;
    }

    pub(super) fn store(&self) -> Arc<dyn PruneStore> {
        self.store_with(None)
    }

    /// The same with a planted mistake.
    pub(super) fn store_with(&self, fault: Option<ProofFault>) -> Arc<dyn PruneStore> {
        let settings = StoreSettings::default();
        let store = NodeStore::on_kv(self.0.clone(), settings, Durability::Buffered).unwrap();
        // As if a pruner had been there before: what it agrees on is no commit of a run.
        let agreed = PrunerSettings::default().agreed();
        store.agree(&agreed, Agreement::Compare).unwrap().unwrap();
        Arc::new(match fault {
            Some(fault) => store.unsafe_with(fault),
            None => store,
        })
    }
}
