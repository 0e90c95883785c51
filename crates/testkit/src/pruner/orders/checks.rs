//! Whether what went could go, and whether what came back may be there.

use std::collections::BTreeSet;

use utxokeep_core::{
    Height, Txid,
    node::{NodeTx, OutputRecord, SpendingData},
};
use utxokeep_txstore::StoredTx;

type Stored = [Option<StoredTx>];

/// What is known of transactions that are gone.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Pruned while mined: parent that survived, and child.
    marked: BTreeSet<(Txid, Txid)>,
    /// Deleted by hand, or lost and gone with a spend that stays: parents may wait for them.
    by_hand: BTreeSet<Txid>,
}

fn find<'s>(txs: &[NodeTx], stored: &'s Stored, txid: &Txid) -> Option<&'s StoredTx> {
    txs.iter().position(|tx| tx.txid == *txid).and_then(|at| stored[at].as_ref())
}

fn spenders(stored: &StoredTx) -> impl Iterator<Item = SpendingData> {
    stored.slots.iter().flatten().flatten().filter_map(OutputRecord::spent_by)
}

impl Gone {
    pub(super) fn deleted(&mut self, txid: Txid) {
        self.by_hand.insert(txid);
    }

    /// What a run took away could go, as it was before the run.
    pub(super) fn ran(
        &mut self,
        at: Height,
        window: u32,
        txs: &[NodeTx],
        before: &Stored,
        after: &Stored,
    ) -> Result<(), String> {
        let went =
            |txid: &Txid| find(txs, before, txid).is_some() && find(txs, after, txid).is_none();
        for (tx, stored) in txs.iter().zip(before) {
            let Some(stored) = stored.as_ref().filter(|_| went(&tx.txid)) else { continue };
            self.could_go((at, window), tx, stored, txs, before)?;
        }
        for (tx, stored) in txs.iter().zip(before) {
            let Some(stored) = stored.as_ref().filter(|_| went(&tx.txid)) else { continue };
            // It left a marker on the parents that survive it, if it was mined; a loser leaves its
            // spends on parents that did not lose.
            for input in &tx.inputs {
                let parent = *input.outpoint.txid();
                let holds = find(txs, before, &parent)
                    .is_some_and(|parent| spenders(parent).any(|by| by.txid == tx.txid));
                if holds && find(txs, after, &parent).is_some() {
                    if stored.record.settled_height().is_some() {
                        self.marked.insert((parent, tx.txid));
                    } else {
                        self.by_hand.insert(tx.txid);
                    }
                }
            }
            self.marked.retain(|(parent, _)| *parent != tx.txid);
        }
        Ok(())
    }

    fn could_go(
        &self,
        (at, window): (Height, u32),
        tx: &NodeTx,
        stored: &StoredTx,
        txs: &[NodeTx],
        before: &Stored,
    ) -> Result<(), String> {
        let (record, txid) = (&stored.record, tx.txid);
        let wrong = |why: String| Err(format!("{txid} went: {why}\n{stored:?}"));
        if record.is_locked || record.preserve_until.is_some_and(|until| until > at) {
            return wrong("it was held".to_owned());
        }
        if record.is_mined() == record.is_conflicting {
            return wrong("it was neither mined nor a loser, or both".to_owned());
        }
        let unspent = stored.slots.iter().flatten().flatten().any(|slot| slot.spent_by().is_none());
        if unspent && !record.is_conflicting {
            return wrong("an output was unspent".to_owned());
        }
        for by in spenders(stored) {
            if find(txs, before, &by.txid).is_none() && !self.marked.contains(&(txid, by.txid)) {
                return wrong(format!("nothing is known of {}", by.txid));
            }
        }
        for (child, of_child) in txs.iter().zip(before) {
            let Some(of_child) = of_child else { continue };
            let holds = spenders(stored).any(|by| by.txid == child.txid);
            if !holds && !record.conflicting_children.contains(&child.txid) {
                continue;
            }
            let is_loser = of_child.record.is_conflicting && !of_child.record.is_mined();
            if is_loser && (record.is_conflicting || !holds) {
                continue;
            }
            let depth = of_child.record.settled_height().and_then(|mined| mined.depth_below(at));
            if depth.is_none_or(|depth| depth < window) {
                return wrong(format!("{} still needs it: {of_child:?}", child.txid));
            }
        }
        Ok(())
    }

    /// Whoever comes back has its inputs, unless it lost.
    pub(super) fn restored(
        &mut self,
        tx: &NodeTx,
        txs: &[NodeTx],
        stored: &Stored,
    ) -> Result<(), String> {
        let record = &find(txs, stored, &tx.txid).ok_or("it is not there")?.record;
        for (vin, input) in (0..).zip(&tx.inputs) {
            let parent = *input.outpoint.txid();
            self.marked.remove(&(parent, tx.txid));
            let Some(of_parent) = find(txs, stored, &parent) else { continue };
            let slots = of_parent.slots.as_deref().unwrap_or_default();
            let by = slots[input.outpoint.index() as usize].and_then(|slot| slot.spent_by());
            if !record.is_conflicting && by != Some(SpendingData { txid: tx.txid, vin }) {
                return Err(format!("{} came back, and its input {vin} is {by:?}", tx.txid));
            }
        }
        for by in spenders(find(txs, stored, &tx.txid).ok_or("it is not there")?) {
            if find(txs, stored, &by.txid).is_none() {
                if record.is_conflicting {
                    self.by_hand.insert(by.txid);
                } else {
                    self.marked.insert((tx.txid, by.txid));
                }
            }
        }
        Ok(())
    }

    /// Losers go in the end, unless something that nobody can prove was spent from them.
    pub(super) fn leaks(&self, txs: &[NodeTx], stored: &Stored) -> Result<(), String> {
        for (tx, stored) in txs.iter().zip(stored) {
            let Some(stored) = stored else { continue };
            let waits_for_nobody = spenders(stored).any(|by| self.by_hand.contains(&by.txid));
            if stored.record.is_conflicting && !stored.record.is_mined() && !waits_for_nobody {
                return Err(format!("{} has lost and stays for ever: {stored:?}", tx.txid));
            }
        }
        Ok(())
    }
}
