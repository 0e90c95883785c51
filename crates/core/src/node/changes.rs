//! What a call changes.

mod codec;

use std::collections::BTreeMap;

use super::{output::OutputRecord, record::TxRecord, tx::NodeTx};
use crate::types::{OutPoint, Txid};

/// A transaction, and its record before and after a call.
pub type RecordChange = (Txid, Option<TxRecord>, Option<TxRecord>);

/// A value of the store as a whole by its name; `None` deletes.
pub type NamedState = (String, Option<Vec<u8>>);

/// What a call changes. An engine writes all of it in one commit, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeSet {
    /// Transactions whose record changed: before and after.
    pub records: Vec<RecordChange>,
    /// Outputs that changed; `None` deletes.
    pub slots: Vec<(OutPoint, Option<OutputRecord>)>,
    /// Bodies to keep beside their records; `None` deletes.
    pub bodies: Vec<(Txid, Option<NodeTx>)>,
    /// Markers to write, parent and child: the child was mined, and goes with this commit.
    pub markers: Vec<(Txid, Txid)>,
    /// Markers to take away again, because the child comes back.
    pub unmarked: Vec<(Txid, Txid)>,
    /// Values of the store as a whole.
    pub states: Vec<NamedState>,
    /// Every record that is deleted was proven to be settled, and leaves markers: a commit that
    /// relied on that needs no new proof.
    pub is_pruning: bool,
}

/// The part of a change set that belongs to one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxChanges {
    /// The transaction.
    pub txid: Txid,
    /// Its record before and after; `None` where it stays as it is.
    pub record: Option<(Option<TxRecord>, Option<TxRecord>)>,
    /// Outputs that changed, by index; `None` deletes.
    pub slots: Vec<(u32, Option<OutputRecord>)>,
    /// Its body, if that changes; the inner `None` deletes.
    #[allow(clippy::option_option, reason = "not changed is not the same as deleted")]
    pub body: Option<Option<NodeTx>>,
    /// Deleted children whose markers it bears from now on.
    pub markers: Vec<Txid>,
    /// Children whose markers are taken away.
    pub unmarked: Vec<Txid>,
}

impl TxChanges {
    /// Nothing changes in a transaction.
    #[must_use]
    pub fn none(txid: Txid) -> Self {
        let (slots, markers, unmarked) = (Vec::new(), Vec::new(), Vec::new());
        Self { txid, record: None, slots, body: None, markers, unmarked }
    }
}

impl ChangeSet {
    /// Values of the store as a whole, and nothing else.
    #[must_use]
    pub fn of_states(states: Vec<NamedState>) -> Self {
        Self { states, ..Self::default() }
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.slots.is_empty()
            && self.bodies.is_empty()
            && self.markers.is_empty()
            && self.unmarked.is_empty()
            && self.states.is_empty()
    }

    /// Whether a record is no longer settled at the height it was, and nothing proves that it was.
    #[must_use]
    pub fn unsettles(&self) -> bool {
        let settled = |record: &Option<TxRecord>| record.as_ref()?.settled_height();
        let mut changed = self.records.iter();
        let unsettled = |(_, before, now): &RecordChange| {
            settled(before).is_some_and(|height| settled(now) != Some(height))
        };
        !self.is_pruning && changed.any(unsettled)
    }

    /// The parts that belong to one transaction each, by ascending id, and the values that belong
    /// to the store as a whole. For engines that keep a transaction in a record of its own.
    #[must_use]
    pub fn split(self) -> (Vec<TxChanges>, Vec<NamedState>) {
        let mut parts = BTreeMap::new();
        for (txid, before, now) in self.records {
            part_of(&mut parts, txid).record = Some((before, now));
        }
        for (outpoint, slot) in self.slots {
            part_of(&mut parts, *outpoint.txid()).slots.push((outpoint.index(), slot));
        }
        for (txid, body) in self.bodies {
            part_of(&mut parts, txid).body = Some(body);
        }
        for (parent, child) in self.markers {
            part_of(&mut parts, parent).markers.push(child);
        }
        for (parent, child) in self.unmarked {
            part_of(&mut parts, parent).unmarked.push(child);
        }
        (parts.into_values().collect(), self.states)
    }

    /// Adds another change set, of other transactions.
    pub fn append(&mut self, other: Self) {
        self.records.extend(other.records);
        self.slots.extend(other.slots);
        self.bodies.extend(other.bodies);
        self.markers.extend(other.markers);
        self.unmarked.extend(other.unmarked);
        self.states.extend(other.states);
        self.is_pruning |= other.is_pruning;
    }

    /// Adds the part of a transaction. Inverse of [`ChangeSet::split`], if that was in order.
    pub fn add(&mut self, part: TxChanges) {
        let TxChanges { txid, record, slots, body, markers, unmarked } = part;
        self.records.extend(record.map(|(before, now)| (txid, before, now)));
        let outpoint = |(vout, slot)| (OutPoint::new(txid, vout), slot);
        self.slots.extend(slots.into_iter().map(outpoint));
        self.bodies.extend(body.map(|body| (txid, body)));
        self.markers.extend(markers.into_iter().map(|child| (txid, child)));
        self.unmarked.extend(unmarked.into_iter().map(|child| (txid, child)));
    }
}

fn part_of(parts: &mut BTreeMap<Txid, TxChanges>, txid: Txid) -> &mut TxChanges {
    parts.entry(txid).or_insert_with(|| TxChanges::none(txid))
}

#[cfg(test)]
mod tests;
