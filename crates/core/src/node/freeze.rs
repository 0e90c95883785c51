//! Outputs that change state by order: frozen, unfrozen, given to another owner.

use super::{
    error::{NodeError, SpendError},
    output::OutputState,
    reads::NodeReads,
    record::Reassignment,
    tx::utxo_hash,
    workspace::{Outcome, Workspace},
};
use crate::types::{Height, OutPoint};

/// Blocks that a reassigned output has to wait.
pub const REASSIGN_HOLD_BLOCKS: u32 = 1_000;

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Freezes an unspent output.
    pub fn freeze(&mut self, outpoint: &OutPoint, hash: &[u8; 32]) -> Outcome<(), S::Error> {
        let state = match self.checked_state(outpoint, hash)? {
            Ok(state) => state,
            Err(error) => return Ok(Err(error)),
        };
        match state {
            OutputState::Unspent => self.set_state(outpoint, OutputState::Frozen).map(Ok),
            OutputState::Frozen => Ok(Err(NodeError::AlreadyFrozen(*outpoint))),
            OutputState::Spent(by) => Ok(Err(SpendError::Spent { outpoint: *outpoint, by }.into())),
        }
    }

    /// Unfreezes a frozen output.
    pub fn unfreeze(&mut self, outpoint: &OutPoint, hash: &[u8; 32]) -> Outcome<(), S::Error> {
        match self.checked_state(outpoint, hash)? {
            Ok(OutputState::Frozen) => self.set_state(outpoint, OutputState::Unspent).map(Ok),
            Ok(_) => Ok(Err(NodeError::NotFrozen(*outpoint))),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Gives a frozen output to the owner of another script. It can be spent after a hold, and its
    /// record is never deleted. Answers the new commitment.
    pub fn reassign(
        &mut self,
        outpoint: &OutPoint,
        hash: &[u8; 32],
        script: &[u8],
        height: Height,
    ) -> Outcome<[u8; 32], S::Error> {
        if height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        match self.checked_state(outpoint, hash)? {
            Ok(OutputState::Frozen) => {}
            Ok(_) => return Ok(Err(NodeError::NotFrozen(*outpoint))),
            Err(error) => return Ok(Err(error)),
        }
        let body = self.body(outpoint.txid())?;
        let output = body.and_then(|tx| tx.outputs.get(outpoint.index() as usize).cloned());
        let Some(output) = output else {
            return Ok(Err(SpendError::NotFound(*outpoint).into()));
        };
        let new = utxo_hash(outpoint.txid(), outpoint.index(), script, output.satoshis);
        if let Some(slot) = self.slot(outpoint)? {
            slot.hash = new;
            slot.state = OutputState::Unspent;
            slot.spendable_at = Some(height.plus(REASSIGN_HOLD_BLOCKS).get());
        }
        if let Some(record) = self.record(outpoint.txid())? {
            record.utxos = record.utxos.saturating_add(1);
            record.delete_at = record.delete_at.filter(|_| record.is_conflicting);
            record.reassignments.push(Reassignment {
                vout: outpoint.index(),
                old: *hash,
                new,
                script: script.to_vec(),
                height,
            });
        }
        Ok(Ok(new))
    }

    fn checked_state(
        &mut self,
        outpoint: &OutPoint,
        hash: &[u8; 32],
    ) -> Outcome<OutputState, S::Error> {
        if self.look(outpoint.txid())?.is_none() {
            return Ok(Err(NodeError::NotFound(*outpoint.txid())));
        }
        Ok(match self.slot(outpoint)? {
            None => Err(SpendError::NotFound(*outpoint).into()),
            Some(slot) if slot.hash != *hash => Err(SpendError::Mismatch(*outpoint).into()),
            Some(slot) => Ok(slot.state),
        })
    }

    fn set_state(&mut self, outpoint: &OutPoint, state: OutputState) -> Result<(), S::Error> {
        if let Some(slot) = self.slot(outpoint)? {
            slot.state = state;
        }
        Ok(())
    }
}
