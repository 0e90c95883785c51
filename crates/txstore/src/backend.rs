//! What an engine has to be able to do. Everything else is [`crate::NodeStore`], once for all.

use utxokeep_core::{
    Txid,
    node::{ChangeSet, NodeReads},
};

use utxokeep_kv::{OpenMode, Trouble};

use crate::error::StoreError;

/// The transactions that a call changes.
#[derive(Debug, Clone)]
pub enum Touched {
    /// These, and no others.
    Only(Vec<Txid>),
    /// It shows on the way.
    Unknown,
}

/// A state of a store, as an engine shows it.
pub type StoreReads<'v> = dyn NodeReads<Error = StoreError> + 'v;

/// Reads on one state of the store.
pub type ReadWork<'w> = dyn FnMut(&StoreReads<'_>) -> Result<(), StoreError> + 'w;

/// Reads, decides and answers what to write.
pub type WriteWork<'w> = dyn FnMut(&StoreReads<'_>) -> Result<ChangeSet, StoreError> + 'w;

/// An engine below the node store.
pub trait Backend: Send + Sync {
    /// Lets `work` read one state of the store.
    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError>;

    /// Lets `work` read what it is about to change, and commits what it answers. Nobody else
    /// changes the same transactions meanwhile. `work` may run again from the start, where the
    /// engine had to give up and try once more.
    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError>;

    /// How it was opened.
    fn mode(&self) -> OpenMode {
        OpenMode::Create
    }

    /// Why no writes are taken at present, if so.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// What the tables take on disk, where the engine tells. Asked often, so it costs little.
    fn disk_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Name of the engine.
    fn engine(&self) -> &'static str;
}
