//! Taking a block that left the chain off its transactions.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_chains::coinbase_id;
use utxokeep_core::{
    BlockDelta, Height, Txid, UtxoRecord,
    node::{MinedBlock, MinedInfo, SpendingData, TxRecord, UnspendRequest},
};
use utxokeep_fault::crash_point;
use utxokeep_index::{LogEvent, LoggedBlock};
use utxokeep_kv::Kv;
use utxokeep_txstore::{Fields, NodeStore, PruneStore as _, TxStore as _};

use super::{StoreFollowError, StoreFollower, meter};

/// The transactions of an undone block.
struct Left {
    coinbase: Option<Txid>,
    others: BTreeSet<Txid>,
}

impl Left {
    /// As the log tells of them: every transaction but a coinbase spends something.
    fn of(delta: &BlockDelta) -> Result<Self, StoreFollowError> {
        let mut left = Self { coinbase: None, others: BTreeSet::new() };
        left.others.extend(delta.spent.iter().filter_map(|spent| spent.spent_by));
        for created in &delta.created {
            let record = UtxoRecord::decode(created.record.as_deref().unwrap_or_default())?;
            if record.is_coinbase {
                left.coinbase = Some(*created.outpoint.txid());
            }
        }
        Ok(left)
    }
}

impl<K: Kv> StoreFollower<K> {
    pub(super) fn undo(
        &mut self,
        event: &LogEvent,
        block: &LoggedBlock,
        tip: Height,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), StoreFollowError> {
        let delta = self.index.view()?.log().changes(event)?;
        let mut left = Left::of(&delta)?;
        if left.coinbase.is_none() {
            // It pays to nobody, so that only the body tells its id.
            let raw = self.body(block, block.parent(), tip, is_stopped)?;
            let undecodable =
                |source| StoreFollowError::Undecodable { height: block.height, source };
            left.coinbase = Some(coinbase_id(&raw).map_err(undecodable)?);
        }
        let txids: Vec<Txid> = left.others.iter().chain(&left.coinbase).copied().collect();
        // The transactions wait to be mined from the fork on.
        let since = block.height.minus(1).max(Height::new(1));
        for some in txids.chunks(self.settings.batch_txs_max) {
            self.unset(some, block.height, since)?;
            crash_point("store_follow_after_unset");
        }
        if let Some(coinbase) = left.coinbase {
            self.lose_coinbase(&coinbase, since)?;
        }
        meter::undone();
        Ok(())
    }

    /// Takes the block at a height off some transactions; those that are not there are fine. A chain
    /// has one block at a height, so that nothing depends on the number it was stored with.
    fn unset(&self, txids: &[Txid], height: Height, since: Height) -> Result<(), StoreFollowError> {
        let found = self.store.get(txids, Fields::default())?;
        let mut by_id: BTreeMap<u32, Vec<Txid>> = BTreeMap::new();
        for (txid, stored) in txids.iter().zip(found) {
            let blocks = stored.map(|stored| stored.record.blocks).unwrap_or_default();
            for block in blocks.iter().filter(|block| block.height == height) {
                by_id.entry(block.id).or_default().push(*txid);
            }
        }
        for (id, txids) in by_id {
            let block = MinedBlock { id, height, subtree: 0 };
            let info =
                MinedInfo { block, on_longest_chain: false, unset: true, unmined_since: since };
            for (txid, answer) in txids.iter().zip(self.store.set_mined(&txids, &info)?) {
                answer.map_err(|source| {
                    let txid = *txid;
                    StoreFollowError::Refused { height, txid, source }
                })?;
            }
        }
        Ok(())
    }

    /// A coinbase exists in its block only: without one it has lost, with everything that spends it.
    fn lose_coinbase(&self, coinbase: &Txid, height: Height) -> Result<(), StoreFollowError> {
        let found = self.store.get(&[*coinbase], Fields::default())?;
        // One of the two that were mined twice may still be in the other block.
        let is_in_block = |record: &TxRecord| !record.blocks.is_empty();
        match found.into_iter().next().flatten() {
            Some(stored) if !is_in_block(&stored.record) => {}
            _ => return Ok(()),
        }
        let max = self.store.policy().conflict_walk_max;
        let (mut seen, mut work_list) = (BTreeSet::from([*coinbase]), vec![*coinbase]);
        while let Some(txid) = work_list.pop() {
            for child in lose(&self.store, txid, height)? {
                if seen.insert(child) {
                    work_list.push(child);
                }
            }
            if seen.len() > max {
                return Err(StoreFollowError::TooManyLosers { txid: *coinbase, max });
            }
            crash_point("store_follow_after_loser");
        }
        meter::lost(seen.len());
        Ok(())
    }
}

/// Marks a transaction as conflicting, and gives back what it spends. Answers what spends it.
fn lose(store: &NodeStore, txid: Txid, height: Height) -> Result<Vec<Txid>, StoreFollowError> {
    let refused = |source| StoreFollowError::Refused { height, txid, source };
    let mut answers = store.set_conflicting(&[txid], true, height)?.into_iter();
    let Some(answer) = answers.next() else { return Ok(Vec::new()) };
    let (spends, children) = answer.map_err(refused)?;
    let requests: Vec<UnspendRequest> = spends
        .iter()
        .map(|spend| UnspendRequest {
            outpoint: spend.outpoint,
            hash: spend.hash,
            expected: Some(SpendingData { txid, vin: spend.vin }),
            set_locked: None,
            height,
        })
        .collect();
    for answer in store.unspend(&requests)? {
        answer.map_err(refused)?;
    }
    Ok(children)
}
