//! What the rules read: a view of the tables, and the blob store behind it.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        NodeTx, Slot, Source, TxRecord, check_body, decode_blob, file_checksum, wrong_checksum,
    },
};

use crate::{backend::View, blobs::Blobs, error::StoreError};

/// A state of the store as the rules see it.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'v> {
    pub(crate) view: &'v dyn View,
    pub(crate) blobs: Option<&'v Blobs>,
}

impl Facts<'_> {
    /// Bodies, wherever they are.
    pub(crate) fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, StoreError> {
        let mut bodies = self.view.bodies(txids)?;
        let absent: Vec<usize> = (0..txids.len()).filter(|&at| bodies[at].is_none()).collect();
        if absent.is_empty() {
            return Ok(bodies);
        }
        let ids: Vec<Txid> = absent.iter().map(|&at| txids[at]).collect();
        for (at, record) in absent.into_iter().zip(self.view.records(&ids)?) {
            bodies[at] = match record {
                Some(record) => self.read_file(&txids[at], &record)?,
                None => None,
            };
        }
        Ok(bodies)
    }

    fn read_file(&self, txid: &Txid, record: &TxRecord) -> Result<Option<NodeTx>, StoreError> {
        let Some(kind) = record.blob else { return Ok(None) };
        let blobs = self.blobs.ok_or(StoreError::NoBlobStore(*txid))?;
        let bytes = blobs.get(txid, kind)?.ok_or(StoreError::BlobMissing(*txid))?;
        // Nothing below a file tests what it says, unlike a row.
        if record.file_checksum.is_some_and(|checksum| checksum != file_checksum(&bytes)) {
            return Err(wrong_checksum().into());
        }
        let body = decode_blob(*txid, kind, record.is_coinbase, &bytes)?;
        // A file from before there were checksums: bytes that have the id need no other proof; a node
        // may give another id, and then the outputs have to do.
        if record.file_checksum.is_none() && body.hashed_txid() != *txid {
            let slots = self.view.outputs(&[(*txid, record.outputs)])?.pop().unwrap_or_default();
            check_body(&body, record, &slots)?;
        }
        Ok(Some(body))
    }
}

fn first<T>(answers: Vec<Option<T>>) -> Option<T> {
    answers.into_iter().next().flatten()
}

impl Source for Facts<'_> {
    type Error = StoreError;

    fn record(&self, txid: &Txid) -> Result<Option<TxRecord>, StoreError> {
        Ok(first(self.view.records(std::slice::from_ref(txid))?))
    }

    fn slot(&self, outpoint: &OutPoint) -> Result<Option<Slot>, StoreError> {
        Ok(first(self.view.slots(std::slice::from_ref(outpoint))?))
    }

    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError> {
        self.view.records(txids)
    }

    fn slots(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Slot>>, StoreError> {
        self.view.slots(outpoints)
    }

    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, Slot)>>, StoreError> {
        self.view.outputs(of)
    }

    fn settled(&self, txids: &[Txid], until: Height) -> Result<Vec<Option<Height>>, StoreError> {
        self.view.settled(txids, until)
    }

    fn body(&self, txid: &Txid) -> Result<Option<NodeTx>, StoreError> {
        Ok(first(self.bodies(std::slice::from_ref(txid))?))
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError> {
        self.view.is_deleted_child(parent, child)
    }
}
