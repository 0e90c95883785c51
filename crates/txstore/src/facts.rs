//! What a call reads: a state of the tables, and the files of large bodies beside them.

use utxokeep_core::{
    Txid,
    node::{BlobKind, BodyFiles, NodeTx, TxRecord, Workspace, read_bodies},
};

use crate::{backend::StoreReads, engine::NodeStore, error::StoreError};

/// The rules at work on a state of the store.
pub(crate) type Work<'s, 'v> = Workspace<'s, StoreReads<'v>>;

/// A state of the store.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'v> {
    pub(crate) view: &'v StoreReads<'v>,
    store: &'v NodeStore,
}

impl<'v> Facts<'v> {
    /// Nothing is loaded yet.
    pub(crate) fn workspace(&self) -> Work<'v, 'v> {
        Workspace::new(self.view, self.store, self.store.settings.policy)
    }

    /// Bodies, wherever they are.
    pub(crate) fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, StoreError> {
        read_bodies(self.view, self.store, txids)
    }

    /// One body.
    pub(crate) fn body(&self, txid: &Txid) -> Result<Option<NodeTx>, StoreError> {
        Ok(self.bodies(std::slice::from_ref(txid))?.into_iter().next().flatten())
    }

    /// One record.
    pub(crate) fn record(&self, txid: &Txid) -> Result<Option<TxRecord>, StoreError> {
        Ok(self.view.records(std::slice::from_ref(txid))?.into_iter().next().flatten())
    }
}

impl NodeStore {
    pub(crate) const fn facts<'v>(&'v self, view: &'v StoreReads<'v>) -> Facts<'v> {
        Facts { view, store: self }
    }
}

impl BodyFiles for NodeStore {
    type Error = StoreError;

    fn read(&self, txid: &Txid, kind: BlobKind) -> Result<Vec<u8>, StoreError> {
        let blobs = self.blobs.as_ref().ok_or(StoreError::NoBlobStore(*txid))?;
        blobs.get(txid, kind)?.ok_or(StoreError::BlobMissing(*txid))
    }
}
