//! Keeping records for a while whatever else holds, and conflicts between transactions.

use std::collections::BTreeSet;

use super::{
    error::{NodeError, SpendError},
    output::{OutputState, SpendingData},
    reads::NodeReads,
    record::TxRecord,
    spend::{SpendFlags, SpendInput, SpendRequest, UnspendRequest},
    workspace::{Outcome, Workspace},
};
use crate::types::{Height, OutPoint, Txid};

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Keeps a record until a height, also one that nothing would delete yet. Answers whether it
    /// did; one that is gone is fine.
    pub fn preserve(&mut self, txid: &Txid, until: Height) -> Result<bool, S::Error> {
        let Some(record) = self.record(txid)? else { return Ok(false) };
        record.preserve_until = record.preserve_until.max(Some(until));
        record.delete_at = None;
        Ok(true)
    }

    /// Keeps a record until a height because a child of it waits to be mined, if it was about to be
    /// deleted or is kept already. Answers whether that is longer than before.
    pub fn preserve_for_child(&mut self, txid: &Txid, until: Height) -> Result<bool, S::Error> {
        let Some(record) = self.look(txid)? else { return Ok(false) };
        let is_due = record.delete_at.is_some() || record.kept_until().is_some();
        if !is_due || record.kept_until() >= Some(until) {
            return Ok(false);
        }
        if let Some(record) = self.record(txid)? {
            record.kept_for_child_until = Some(until);
            record.delete_at = None;
        }
        Ok(true)
    }

    /// The transactions that spend a record which is kept for one of them, if none of them waits any
    /// more: every output is spent, and each spender is on the longest chain, or was and left a
    /// marker. One that is gone without a marker may be sent again, and needs the record then.
    pub fn children_that_waited(&mut self, txid: &Txid) -> Result<Option<Vec<Txid>>, S::Error> {
        let is_over = |record: &TxRecord| {
            let is_kept = record.kept_for_child_until.is_some();
            is_kept && record.is_all_spent() && !record.is_conflicting
        };
        if !self.look(txid)?.is_some_and(is_over) {
            return Ok(None);
        }
        let children = self.spenders_of(txid)?;
        // A few at a time: the first that waits is answer enough.
        for some in children.chunks(100) {
            self.prefetch(some, &[])?;
            for child in some {
                let is_settled = match self.look(child)? {
                    Some(child) => child.settled_height().is_some(),
                    None => self.has_marker(txid, child)?,
                };
                if !is_settled {
                    return Ok(None);
                }
            }
        }
        Ok(Some(children))
    }

    /// Ends the keeping of a record for children, if none of them waits any more. The retention
    /// counts from the newest of their blocks. Answers whether it ended; what others asked for
    /// stays.
    pub fn end_keeping_for_children(&mut self, txid: &Txid) -> Result<bool, S::Error> {
        let retention = self.policy.retention_blocks;
        let Some(children) = self.children_that_waited(txid)? else { return Ok(false) };
        let mut newest = Height::GENESIS;
        for child in &children {
            let mined = self.look(child)?.and_then(TxRecord::settled_height);
            newest = newest.max(mined.unwrap_or_default());
        }
        if let Some(record) = self.record(txid)? {
            record.kept_for_child_until = None;
            record.evaluate(newest, retention);
        }
        Ok(true)
    }

    /// Ends the keeping of a record whose height has come; answers whether it did.
    pub fn expire_preservation(&mut self, txid: &Txid, height: Height) -> Result<bool, S::Error> {
        let retention = self.policy.retention_blocks;
        let Some(record) = self.record(txid)? else { return Ok(false) };
        let has_come = |until: Option<Height>| until.is_some_and(|until| until <= height);
        let before = (record.preserve_until, record.kept_for_child_until);
        record.preserve_until = before.0.filter(|_| !has_come(before.0));
        record.kept_for_child_until = before.1.filter(|_| !has_come(before.1));
        if (record.preserve_until, record.kept_for_child_until) == before {
            return Ok(false);
        }
        record.evaluate(height, retention);
        Ok(true)
    }

    /// Marks a transaction as the loser of a conflict, or as no loser. Answers the outputs it
    /// spends and the transactions that spend its outputs.
    pub fn set_conflicting(
        &mut self,
        txid: &Txid,
        is_conflicting: bool,
        height: Height,
    ) -> Outcome<(Vec<SpendInput>, Vec<Txid>), S::Error> {
        if height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        let retention = self.policy.retention_blocks;
        let Some(record) = self.record(txid)? else { return Ok(Err(NodeError::NotFound(*txid))) };
        if record.is_conflicting != is_conflicting {
            record.is_conflicting = is_conflicting;
            record.delete_at = record.delete_at.filter(|_| record.kept_until().is_some());
        }
        record.evaluate(height, retention);
        let children = self.spenders_of(txid)?;
        let Some(body) = self.body(txid)? else { return Ok(Err(NodeError::NotFound(*txid))) };
        self.add_conflicting_child(&body)?;
        let mut spends = Vec::new();
        for (vin, input) in (0u32..).zip(&body.inputs).filter(|_| !body.is_coinbase) {
            if let Some(slot) = self.slot(&input.outpoint)? {
                spends.push(SpendInput { outpoint: input.outpoint, hash: slot.hash, vin });
            }
        }
        Ok(Ok((spends, children)))
    }

    /// Transactions that spend outputs of this one, each once.
    fn spenders_of(&mut self, txid: &Txid) -> Result<Vec<Txid>, S::Error> {
        let outputs = self.record(txid)?.map_or(0, |record| record.outputs);
        let outputs: Vec<_> = (0..outputs).map(|vout| OutPoint::new(*txid, vout)).collect();
        self.prefetch(&[], &outputs)?;
        let mut spenders = BTreeSet::new();
        for outpoint in &outputs {
            let slot = self.slot(outpoint)?;
            spenders.extend(slot.and_then(|slot| slot.spent_by()).map(|by| by.txid));
        }
        Ok(spenders.into_iter().collect())
    }

    /// Lets conflicting transactions win against those that hold their inputs: the holders and
    /// everything built on them become conflicting, give their inputs back, and the winners spend
    /// them. Answers the losers. All of it, or nothing.
    pub fn process_conflicting(
        &mut self,
        winners: &[Txid],
        height: Height,
    ) -> Outcome<Vec<Txid>, S::Error> {
        let (losers, ghosts) = match self.losers_of(winners)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        for (outpoint, by) in ghosts {
            let Some(hash) = self.slot(&outpoint)?.map(|slot| slot.hash) else { continue };
            let (expected, set_locked) = (Some(by), None);
            let request = UnspendRequest { outpoint, hash, expected, set_locked, height };
            if let Err(error) = self.unspend(&request)? {
                return Ok(Err(error));
            }
        }
        for loser in &losers {
            let (spends, _) = match self.set_conflicting(loser, true, height)? {
                Ok(found) => found,
                Err(error) => return Ok(Err(error)),
            };
            for SpendInput { outpoint, hash, vin } in spends {
                let expected = Some(SpendingData { txid: *loser, vin });
                let set_locked = None;
                let request = UnspendRequest { outpoint, hash, expected, set_locked, height };
                if let Err(error) = self.unspend(&request)? {
                    return Ok(Err(error));
                }
            }
        }
        for winner in winners {
            let Some(body) = self.body(winner)? else {
                return Ok(Err(NodeError::NotFound(*winner)));
            };
            let flags = SpendFlags { ignore_conflicting: true, ignore_locked: true };
            let request = match SpendRequest::of(&body, height, flags) {
                Ok(request) => request,
                Err(error) => return Ok(Err(error)),
            };
            if let Err(error) = self.spend(&request)? {
                return Ok(Err(error));
            }
            if let Err(error) = self.set_conflicting(winner, false, height)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(losers))
    }

    /// Who holds inputs of the winners, and everything that builds on them; and inputs that are
    /// held by transactions that never got a record.
    fn losers_of(&mut self, winners: &[Txid]) -> Outcome<Losers, S::Error> {
        let (mut found, mut ghosts) = (Vec::new(), Vec::new());
        let mut seen: BTreeSet<Txid> = winners.iter().copied().collect();
        let mut work_list = Vec::new();
        for winner in winners {
            let Some(record) = self.record(winner)? else {
                return Ok(Err(NodeError::NotFound(*winner)));
            };
            if !record.is_conflicting {
                let text = format!("{winner} is not conflicting");
                return Ok(Err(NodeError::Invalid(text)));
            }
            let Some(body) = self.body(winner)? else {
                return Ok(Err(NodeError::NotFound(*winner)));
            };
            for input in body.spends() {
                if self.look(input.outpoint.txid())?.is_none() {
                    return Ok(Err(NodeError::NotFound(*input.outpoint.txid())));
                }
                let Some(slot) = self.slot(&input.outpoint)?.copied() else {
                    return Ok(Err(SpendError::NotFound(input.outpoint).into()));
                };
                if slot.state == OutputState::Frozen {
                    return Ok(Err(SpendError::Frozen(input.outpoint).into()));
                }
                if let Some(by) = slot.spent_by().filter(|by| by.txid != *winner) {
                    let outpoint = input.outpoint;
                    if self.look(&by.txid)?.is_some() {
                        work_list.push(by.txid);
                    } else if self.has_marker(outpoint.txid(), &by.txid)? {
                        return Ok(Err(SpendError::SpenderPruned { outpoint, by }.into()));
                    } else {
                        ghosts.push((outpoint, by));
                    }
                }
            }
        }
        while let Some(txid) = work_list.pop() {
            if !seen.insert(txid) || self.look(&txid)?.is_none() {
                continue;
            }
            found.push(txid);
            if found.len() > self.policy.conflict_walk_max {
                return Ok(Err(NodeError::ConflictTooLarge(self.policy.conflict_walk_max)));
            }
            work_list.extend(self.spenders_of(&txid)?);
        }
        Ok(Ok((found, ghosts)))
    }
}

/// Transactions that lose, and spends by transactions that are not there.
type Losers = (Vec<Txid>, Vec<(OutPoint, SpendingData)>);
