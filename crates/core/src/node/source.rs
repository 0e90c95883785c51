//! What the rules read.

use super::{record::TxRecord, slot::Slot, tx::NodeTx};
use crate::types::{Height, OutPoint, Txid};

/// Where records come from. The engine holds whatever locks make the answers stay true until the
/// changes are written.
pub trait Source {
    /// Why the source failed.
    type Error;

    /// The mutable part of a transaction.
    fn record(&self, txid: &Txid) -> Result<Option<TxRecord>, Self::Error>;

    /// An output that can be spent; `None` for every other.
    fn slot(&self, outpoint: &OutPoint) -> Result<Option<Slot>, Self::Error>;

    /// Records of many transactions; an engine that reads them together overrides it.
    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, Self::Error> {
        txids.iter().map(|txid| self.record(txid)).collect()
    }

    /// Many outputs, likewise.
    fn slots(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Slot>>, Self::Error> {
        outpoints.iter().map(|outpoint| self.slot(outpoint)).collect()
    }

    /// Every output that can be spent of transactions with so many outputs, in order; an engine
    /// that has them side by side overrides it.
    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, Slot)>>, Self::Error> {
        let all = |&(txid, count): &(Txid, u32)| {
            let outpoints: Vec<_> = (0..count).map(|vout| OutPoint::new(txid, vout)).collect();
            let found = (0..).zip(self.slots(&outpoints)?);
            Ok(found.filter_map(|(vout, slot)| Some((vout, slot?))).collect())
        };
        of.iter().map(all).collect()
    }

    /// Greatest recorded height of those of the transactions that are known to be settled (see
    /// [`TxRecord::settled_height`]) at a height up to `until`, and stay so until the changes are
    /// written. `None` says nothing: the record has to be read.
    fn settled(&self, txids: &[Txid], _until: Height) -> Result<Vec<Option<Height>>, Self::Error> {
        Ok(vec![None; txids.len()])
    }

    /// The body of a transaction.
    fn body(&self, txid: &Txid) -> Result<Option<NodeTx>, Self::Error>;

    /// Whether `child` spent `parent`, was mined, and was deleted since.
    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, Self::Error>;
}
