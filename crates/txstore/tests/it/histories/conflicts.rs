//! What changes the model: transactions that want the same outputs.

use std::collections::BTreeSet;

use utxokeep_core::{
    Height, Txid,
    node::{
        NodeError, OutputState, SpendError, SpendFlags, SpendInput, SpendRequest, SpendingData,
    },
};

use super::model::Model;

impl Model {
    fn spenders_of(&self, txid: &Txid) -> BTreeSet<Txid> {
        let Some(record) = self.records.get(txid) else { return BTreeSet::new() };
        record.outputs.iter().flatten().filter_map(|slot| Some(slot.spent_by()?.txid)).collect()
    }

    /// Answers what the transaction spends, and who spends it.
    pub(crate) fn conflict(
        &mut self,
        txid: &Txid,
        on: bool,
        height: u32,
    ) -> Result<(Vec<SpendInput>, Vec<Txid>), NodeError> {
        if height == 0 {
            return Err(NodeError::HeightZero);
        }
        let retention = self.policy.retention_blocks;
        let record = self.records.get_mut(txid).ok_or(NodeError::NotFound(*txid))?;
        if record.conflicting != on {
            record.conflicting = on;
            record.due = None;
        }
        record.evaluate(height, retention);
        let tx = record.tx.clone();
        self.name_on_parents(&tx);
        let inputs = (0u32..).zip(&tx.inputs).filter(|_| !tx.is_coinbase);
        let spends = inputs.filter_map(|(vin, input)| {
            let outpoint = input.outpoint;
            let slot = self.records.get(outpoint.txid())?.slot(outpoint.index())?;
            Some(SpendInput { outpoint, hash: slot.hash, vin })
        });
        Ok((spends.collect(), self.spenders_of(txid).into_iter().collect()))
    }

    /// Winners take what they want from whoever holds it; everything built on those loses too. All
    /// of it, or nothing.
    pub(crate) fn process(
        &mut self,
        winners: &[Txid],
        height: u32,
    ) -> Result<Vec<Txid>, NodeError> {
        let before = self.records.clone();
        let answer = self.try_process(winners, height);
        if answer.is_err() {
            self.records = before;
        }
        answer
    }

    fn try_process(&mut self, winners: &[Txid], height: u32) -> Result<Vec<Txid>, NodeError> {
        let holders = self.holders(winners)?;
        let mut losers: BTreeSet<Txid> = BTreeSet::new();
        let mut open: Vec<Txid> = holders.iter().map(|(_, by)| by.txid).collect();
        while let Some(txid) = open.pop() {
            let is_stored = self.records.contains_key(&txid);
            if is_stored && !winners.contains(&txid) && losers.insert(txid) {
                open.extend(self.spenders_of(&txid));
            }
        }
        let most = self.policy.conflict_walk_max;
        if losers.len() > most {
            return Err(NodeError::ConflictTooLarge(most));
        }
        for (input, by) in &holders {
            if !self.records.contains_key(&by.txid) {
                self.give_back(input, by, height)?;
            }
        }
        for loser in &losers {
            for input in self.conflict(loser, true, height)?.0 {
                self.give_back(&input, &SpendingData { txid: *loser, vin: input.vin }, height)?;
            }
        }
        let flags = SpendFlags { ignore_conflicting: true, ignore_locked: true };
        for winner in winners {
            let tx = self.records[winner].tx.clone();
            self.spend(&SpendRequest::of(&tx, Height::new(height), flags)?)?;
            self.conflict(winner, false, height)?;
        }
        Ok(losers.into_iter().collect())
    }

    /// Who holds what the winners want.
    fn holders(&self, winners: &[Txid]) -> Result<Vec<(SpendInput, SpendingData)>, NodeError> {
        let mut holders = Vec::new();
        for winner in winners {
            let record = self.records.get(winner).ok_or(NodeError::NotFound(*winner))?;
            if !record.conflicting {
                return Err(NodeError::Invalid(String::new()));
            }
            let inputs = (0u32..).zip(&record.tx.inputs).filter(|_| !record.tx.is_coinbase);
            for (vin, input) in inputs {
                let outpoint = input.outpoint;
                let parent = self.records.get(outpoint.txid());
                let parent = parent.ok_or(NodeError::NotFound(*outpoint.txid()))?;
                let slot = parent.slot(outpoint.index());
                let slot = slot.ok_or(SpendError::NotFound(outpoint))?;
                match slot.state {
                    OutputState::Frozen => return Err(SpendError::Frozen(outpoint).into()),
                    OutputState::Spent(by) if by.txid != *winner => {
                        holders.push((SpendInput { outpoint, hash: slot.hash, vin }, by));
                    }
                    _ => {}
                }
            }
        }
        Ok(holders)
    }

    fn give_back(
        &mut self,
        input: &SpendInput,
        by: &SpendingData,
        height: u32,
    ) -> Result<(), NodeError> {
        let retention = self.policy.retention_blocks;
        if height == 0 {
            return Err(NodeError::HeightZero);
        }
        let record = self.records.get_mut(input.outpoint.txid()).unwrap();
        let slot = record.slot_mut(input.outpoint.index()).unwrap();
        if slot.state == OutputState::Spent(*by) {
            slot.state = OutputState::Unspent;
        }
        record.given_back();
        record.evaluate(height, retention);
        Ok(())
    }
}
