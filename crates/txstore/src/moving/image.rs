//! All that a store has of one transaction, and what makes one such image of another.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    OutPoint, Txid,
    node::{ChangeSet, NodeTx, OutputRecord, TxRecord},
};

use crate::{backend::StoreReads, error::StoreError};

/// A transaction as a store has it: record, outputs, body beside them, markers of deleted children.
/// Indexes by height follow from the record; a body in a file is named by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TxImage {
    pub(super) record: TxRecord,
    outputs: BTreeMap<u32, OutputRecord>,
    body: Option<NodeTx>,
    deleted_children: BTreeSet<Txid>,
}

/// Images of transactions; `None` for those that the store does not have.
pub(super) fn images(
    view: &StoreReads<'_>,
    txids: &[Txid],
) -> Result<Vec<Option<TxImage>>, StoreError> {
    let records = view.records(txids)?;
    let counts = txids.iter().zip(&records);
    let of: Vec<(Txid, u32)> = counts
        .map(|(txid, record)| (*txid, record.as_ref().map_or(0, |record| record.outputs)))
        .collect();
    let outputs = view.outputs(&of)?;
    let bodies = view.bodies(txids)?;
    let mut found = Vec::with_capacity(txids.len());
    for (((txid, record), outputs), body) in txids.iter().zip(records).zip(outputs).zip(bodies) {
        let Some(record) = record else {
            found.push(None);
            continue;
        };
        let children = if record.deleted_children > 0 {
            view.deleted_children(txid)?.into_iter().collect()
        } else {
            BTreeSet::new()
        };
        let outputs = outputs.into_iter().collect();
        found.push(Some(TxImage { record, outputs, body, deleted_children: children }));
    }
    Ok(found)
}

/// In what two images of a transaction differ, in a word; `None` where they do not.
pub(super) fn difference(one: Option<&TxImage>, other: Option<&TxImage>) -> Option<&'static str> {
    let (one, other) = match (one, other) {
        (None, None) => return None,
        (Some(_), None) => return Some("missing"),
        (None, Some(_)) => return Some("not expected"),
        (Some(one), Some(other)) => (one, other),
    };
    if one.record != other.record {
        return Some("record");
    }
    if one.outputs != other.outputs {
        return Some("outputs");
    }
    if one.body != other.body {
        return Some("body");
    }
    (one.deleted_children != other.deleted_children).then_some("markers of deleted children")
}

/// What makes `now` of `before`.
pub(super) fn changes(txid: Txid, before: Option<&TxImage>, now: Option<&TxImage>) -> ChangeSet {
    let mut changes = ChangeSet::default();
    let record = |image: Option<&TxImage>| image.map(|image| image.record.clone());
    if record(before) != record(now) {
        changes.records.push((txid, record(before), record(now)));
    }
    let (nothing, nobody) = (BTreeMap::new(), BTreeSet::new());
    let old = before.map_or(&nothing, |image| &image.outputs);
    let new = now.map_or(&nothing, |image| &image.outputs);
    let vouts: BTreeSet<u32> = old.keys().chain(new.keys()).copied().collect();
    for vout in vouts.into_iter().filter(|vout| old.get(vout) != new.get(vout)) {
        changes.slots.push((OutPoint::new(txid, vout), new.get(&vout).copied()));
    }
    let body = |image: Option<&TxImage>| image.and_then(|image| image.body.clone());
    if body(before) != body(now) {
        changes.bodies.push((txid, body(now)));
    }
    let old = before.map_or(&nobody, |image| &image.deleted_children);
    let new = now.map_or(&nobody, |image| &image.deleted_children);
    changes.markers = new.difference(old).map(|child| (txid, *child)).collect();
    changes.unmarked = old.difference(new).map(|child| (txid, *child)).collect();
    changes
}
