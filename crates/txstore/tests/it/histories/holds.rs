//! What changes the model: mining, locking, freezing, keeping.

use utxokeep_core::{
    Height, Txid,
    node::{MinedInfo, NodeError, OutputRecord, OutputState, Reassignment, SpendError, utxo_hash},
};

use super::{model::Model, ops::Named};

/// Blocks that an output which changed hands has to wait.
const HOLD_BLOCKS: u32 = 1_000;

impl Model {
    pub(crate) fn mine(&mut self, txid: &Txid, info: &MinedInfo) -> Result<Vec<u32>, NodeError> {
        let (height, since) = (info.block.height.get(), info.unmined_since.get());
        let retention = self.policy.retention_blocks;
        let missing = |field| Err(NodeError::HeightMissing { field });
        match (height, info.unset, since) {
            (0, ..) => return missing("block.height"),
            (_, true, 0) => return missing("unmined_since_height"),
            _ => {}
        }
        let record = match self.known(txid, height) {
            Err(NodeError::NotFound(_)) if info.unset => return Ok(Vec::new()),
            found => found?,
        };
        let listed = record.blocks.iter().position(|block| block.id == info.block.id);
        match (listed, info.unset) {
            (Some(at), true) => drop(record.blocks.remove(at)),
            (None, false) => record.blocks.push(info.block),
            (Some(at), false) if record.blocks[at].height.get() != height => {
                let (id, known) = (info.block.id, record.blocks[at].height);
                return Err(NodeError::BlockHeight { id, known, given: info.block.height });
            }
            _ => {}
        }
        if record.blocks.is_empty() {
            record.unmined = Some(since);
        } else if info.on_longest_chain && !info.unset {
            record.unmined = None;
        }
        if !info.unset && listed.is_none() {
            record.locked = false;
        }
        record.evaluate(if info.unset { since } else { height }, retention);
        Ok(record.blocks.iter().map(|block| block.id).collect())
    }

    pub(crate) fn mark(&mut self, txid: &Txid, on: bool, height: u32) -> Result<(), NodeError> {
        let policy = self.policy;
        let record = self.known(txid, height)?;
        let since = height.saturating_sub(policy.unmined_retention_blocks).max(1);
        record.unmined = if on { None } else { record.unmined.or(Some(since)) };
        record.evaluate(height, policy.retention_blocks);
        Ok(())
    }

    pub(crate) fn lock(&mut self, txid: &Txid, on: bool, height: u32) -> Result<(), NodeError> {
        let retention = self.policy.retention_blocks;
        let record = self.known(txid, height)?;
        record.locked = on;
        record.due = record.due.filter(|_| !on);
        record.evaluate(height, retention);
        Ok(())
    }

    fn named(&mut self, (at, hash): &Named) -> Result<&mut OutputRecord, NodeError> {
        let record = self.records.get_mut(at.txid()).ok_or(NodeError::NotFound(*at.txid()))?;
        let slot = record.slot_mut(at.index()).ok_or(SpendError::NotFound(*at))?;
        if slot.hash == *hash { Ok(slot) } else { Err(SpendError::Mismatch(*at).into()) }
    }

    pub(crate) fn freeze(&mut self, output: &Named) -> Result<(), NodeError> {
        let slot = self.named(output)?;
        match slot.state {
            OutputState::Frozen => return Err(NodeError::AlreadyFrozen(output.0)),
            OutputState::Spent(by) => {
                return Err(SpendError::Spent { outpoint: output.0, by }.into());
            }
            OutputState::Unspent => slot.state = OutputState::Frozen,
        }
        Ok(())
    }

    pub(crate) fn unfreeze(&mut self, output: &Named) -> Result<(), NodeError> {
        let slot = self.named(output)?;
        if slot.state != OutputState::Frozen {
            return Err(NodeError::NotFrozen(output.0));
        }
        slot.state = OutputState::Unspent;
        Ok(())
    }

    pub(crate) fn reassign(
        &mut self,
        output: &Named,
        script: &[u8],
        height: u32,
    ) -> Result<[u8; 32], NodeError> {
        if height == 0 {
            return Err(NodeError::HeightZero);
        }
        self.unfreeze(output)?;
        let (at, old) = *output;
        let (txid, vout) = (*at.txid(), at.index());
        let record = self.records.get_mut(&txid).unwrap();
        let amount = record.tx.outputs[vout as usize].satoshis;
        let new = utxo_hash(&txid, vout, script, amount);
        let slot = record.slot_mut(vout).unwrap();
        slot.hash = new;
        slot.spendable_at = Some(height + HOLD_BLOCKS);
        record.due = record.due.filter(|_| record.conflicting);
        let (script, height) = (script.to_vec(), Height::new(height));
        record.given.push(Reassignment { vout, old, new, script, height });
        Ok(new)
    }

    pub(crate) fn preserve(&mut self, txid: &Txid, until: u32) -> bool {
        let Some(record) = self.records.get_mut(txid) else { return false };
        record.preserve = Some(record.preserve.unwrap_or(0).max(until));
        record.due = None;
        true
    }

    pub(crate) fn expire(&mut self, height: u32, limit: usize) -> usize {
        let kept = self.records.iter().filter_map(|(txid, r)| Some((r.preserve?, *txid)));
        let mut due: Vec<_> = kept.filter(|(until, _)| *until <= height).collect();
        due.sort_unstable();
        due.truncate(limit);
        for (_, txid) in &due {
            let record = self.records.get_mut(txid).unwrap();
            record.preserve = None;
            record.evaluate(height, self.policy.retention_blocks);
        }
        due.len()
    }
}
