//! Mining and unmining, locks, and where the longest chain goes.

use super::{
    error::NodeError,
    reads::NodeReads,
    record::MinedBlock,
    workspace::{Outcome, Workspace},
};
use crate::types::{Height, Txid};

/// A block that contains transactions, or does not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinedInfo {
    /// The block.
    pub block: MinedBlock,
    /// Whether it is on the longest chain.
    pub on_longest_chain: bool,
    /// Take the block off the transactions.
    pub unset: bool,
    /// Height that a transaction without any block is unmined since. Only asked for where a block is
    /// taken off.
    pub unmined_since: Height,
}

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Puts a block on a transaction, or takes it off; answers the numbers of its blocks. A block
    /// that the transaction does not have yet unlocks it. To take a block off a transaction that is
    /// gone is fine.
    pub fn set_mined(&mut self, txid: &Txid, info: &MinedInfo) -> Outcome<Vec<u32>, S::Error> {
        let missing = |field| Ok(Err(NodeError::HeightMissing { field }));
        if info.block.height == Height::GENESIS {
            return missing("block.height");
        }
        if info.unset && info.unmined_since == Height::GENESIS {
            return missing("unmined_since_height");
        }
        let retention = self.policy.retention_blocks;
        let Some(record) = self.record(txid)? else {
            return Ok(if info.unset { Ok(Vec::new()) } else { Err(NodeError::NotFound(*txid)) });
        };
        let MinedBlock { id, height: given, .. } = info.block;
        let known = record.blocks.iter().find(|block| block.id == id).map(|block| block.height);
        if info.unset {
            record.blocks.retain(|block| block.id != id);
        } else if let Some(known) = known {
            // The height decides when it is deleted.
            if known != given {
                return Ok(Err(NodeError::BlockHeight { id, known, given }));
            }
        } else {
            record.blocks.push(info.block);
        }
        if record.blocks.is_empty() {
            record.unmined_since = Some(info.unmined_since);
        } else if info.on_longest_chain && !info.unset {
            record.unmined_since = None;
        }
        // A block has it, so it is complete: the engine makes sure of that, or refuses.
        record.is_creating &= info.unset;
        // A block lifts a lock when it comes. Its loss does not, nor does the same block told again:
        // somebody may have locked the transaction since.
        record.is_locked &= info.unset || known.is_some();
        let at = if info.unset { info.unmined_since } else { info.block.height };
        record.evaluate(at, retention);
        Ok(Ok(record.blocks.iter().map(|block| block.id).collect()))
    }

    /// Says that a transaction is on the longest chain, or is not any more.
    pub fn mark_on_longest_chain(
        &mut self,
        txid: &Txid,
        on_longest_chain: bool,
        height: Height,
    ) -> Outcome<(), S::Error> {
        if height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        let policy = self.policy;
        let Some(record) = self.record(txid)? else { return Ok(Err(NodeError::NotFound(*txid))) };
        if on_longest_chain {
            record.unmined_since = None;
        } else {
            // Dated back, so that whoever protects parents of unmined transactions sees it at once.
            let since = height.minus(policy.unmined_retention_blocks).max(Height::new(1));
            record.unmined_since.get_or_insert(since);
        }
        record.evaluate(height, policy.retention_blocks);
        Ok(Ok(()))
    }

    /// Locks or unlocks a transaction.
    pub fn set_locked(
        &mut self,
        txid: &Txid,
        is_locked: bool,
        height: Height,
    ) -> Outcome<(), S::Error> {
        if height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        let retention = self.policy.retention_blocks;
        let Some(record) = self.record(txid)? else { return Ok(Err(NodeError::NotFound(*txid))) };
        record.is_locked = is_locked;
        if is_locked {
            record.delete_at = None;
        }
        record.evaluate(height, retention);
        Ok(Ok(()))
    }
}
