//! Putting a block into the node store, as a list of mined transactions.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_chains::node_txs;
use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeError, NodeTx, PreviousOutput, SpendAndCreate,
        SpendError, Stored,
    },
};
use utxokeep_fault::crash_point;
use utxokeep_index::LoggedBlock;
use utxokeep_kv::Kv;
use utxokeep_txstore::{Decorated, Fields, NodeStore, TxStore as _};

use super::{FLAGS, StoreFollowError, StoreFollower, meter};

impl<K: Kv> StoreFollower<K> {
    pub(super) fn apply(
        &self,
        block: &LoggedBlock,
        raw: &[u8],
        is_again: bool,
    ) -> Result<(), StoreFollowError> {
        let height = block.height;
        let undecodable = |source| StoreFollowError::Undecodable { height, source };
        let mut txs = node_txs(raw).map_err(undecodable)?;
        let pruned = self.say_what_is_spent(&mut txs, height, is_again)?;
        let in_block = MinedBlock { id: block.number(), height, subtree: 0 };
        let created_at_ms = block.entry.time.saturating_mul(1_000);
        let options =
            CreateOptions { mined: vec![in_block], created_at_ms, ..CreateOptions::default() };
        let mining = Mining { store: &self.store, in_block, options, is_again };
        let count = txs.len();
        let mut txs = txs.into_iter();
        let Some(coinbase) = txs.next() else { return Ok(()) };
        mining.coinbase(coinbase)?;
        crash_point("store_follow_after_coinbase");
        let list: Vec<(NodeTx, CreateOptions)> = txs
            .filter(|tx| !pruned.contains(&tx.txid))
            .map(|tx| (tx, mining.options.clone()))
            .collect();
        for some in list.chunks(self.settings.batch_txs_max) {
            mining.list(some)?;
        }
        meter::applied(count);
        Ok(())
    }

    /// Writes amount and script of what they spend into the inputs of a block's transactions. Where a
    /// block comes again, answers those whose parents are gone: a parent goes after its children.
    fn say_what_is_spent(
        &self,
        txs: &mut [NodeTx],
        height: Height,
        is_again: bool,
    ) -> Result<BTreeSet<Txid>, StoreFollowError> {
        let of_block: BTreeMap<Txid, usize> =
            txs.iter().enumerate().map(|(at, tx)| (tx.txid, at)).collect();
        let spends = txs.iter().flat_map(NodeTx::spends).map(|input| input.outpoint);
        let earlier: Vec<OutPoint> =
            spends.filter(|spend| !of_block.contains_key(spend.txid())).collect();
        let mut known = BTreeMap::new();
        for some in earlier.chunks(self.settings.items_max) {
            for (outpoint, found) in some.iter().zip(self.store.decorate(some)?) {
                match found {
                    Decorated::Found(previous) => {
                        known.insert(*outpoint, previous);
                    }
                    Decorated::NoTransaction if is_again => {}
                    _ => {
                        return Err(StoreFollowError::MissingOutput {
                            height,
                            outpoint: *outpoint,
                        });
                    }
                }
            }
        }
        let mut pruned = BTreeSet::new();
        for at in 0..txs.len() {
            if txs[at].is_coinbase {
                continue;
            }
            for input in 0..txs[at].inputs.len() {
                let outpoint = txs[at].inputs[input].outpoint;
                let previous = match of_block.get(outpoint.txid()) {
                    Some(parent) => output(&txs[*parent], outpoint.index()),
                    None => known.remove(&outpoint),
                };
                match previous {
                    Some(previous) => txs[at].inputs[input].previous = Some(previous),
                    None if is_again => {
                        pruned.insert(txs[at].txid);
                    }
                    None => return Err(StoreFollowError::MissingOutput { height, outpoint }),
                }
            }
        }
        Ok(pruned)
    }
}

fn output(tx: &NodeTx, index: u32) -> Option<PreviousOutput> {
    let output = tx.outputs.get(index as usize)?;
    Some(PreviousOutput { satoshis: output.satoshis, script: output.script.clone() })
}

/// What became of a transaction of the chain, at the first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    /// It is stored, with its block.
    New,
    /// It was there before, and its inputs are spent.
    Existed,
    /// Others hold its inputs.
    Contested,
    /// It was stored when the block came before, and pruned since.
    Pruned,
}

/// Mines the transactions of one block.
struct Mining<'s> {
    store: &'s NodeStore,
    in_block: MinedBlock,
    options: CreateOptions,
    /// Any part of the block may have been stored before.
    is_again: bool,
}

impl Mining<'_> {
    fn refused(&self, txid: Txid, source: NodeError) -> StoreFollowError {
        StoreFollowError::Refused { height: self.in_block.height, txid, source }
    }

    /// A coinbase exists already where the block was here before, and where it is one of the two that
    /// Bitcoin has in two blocks.
    fn coinbase(&self, tx: NodeTx) -> Result<(), StoreFollowError> {
        let (txid, height) = (tx.txid, self.in_block.height);
        let answers = self.store.create(&[(tx, self.options.clone())], height)?;
        match answers.into_iter().next() {
            Some(Err(NodeError::Exists(_))) => {}
            Some(Err(error)) => return Err(self.refused(txid, error)),
            _ => return Ok(()),
        }
        let found = self.store.get(&[txid], Fields::default())?;
        // It lost when its block left the chain.
        if found.into_iter().flatten().any(|stored| stored.record.is_conflicting) {
            for answer in self.store.set_conflicting(&[txid], false, height)? {
                answer.map_err(|error| self.refused(txid, error))?;
            }
        }
        self.set_mined(&[txid])
    }

    /// Stores some transactions of the block, in block order, each without its coinbase.
    fn list(&self, txs: &[(NodeTx, CreateOptions)]) -> Result<(), StoreFollowError> {
        let Some(((first, _), height)) = txs.first().zip(Some(self.in_block.height)) else {
            return Ok(());
        };
        let answers = self.store.spend_and_create_list(txs, height, FLAGS)?;
        let answers = answers.map_err(|error| self.refused(first.txid, error))?;
        crash_point("store_follow_after_list");
        let (mut existed, mut later) = (Vec::new(), Vec::new());
        for ((tx, _), answer) in txs.iter().zip(answers) {
            match answer {
                Ok(Stored::New(_)) => {}
                Ok(Stored::Existed(_)) => existed.push(tx),
                Err(_) => later.push(tx),
            }
        }
        // Parents first: what a list refuses, it refuses for all that builds on it.
        for tx in later {
            match self.alone(tx)? {
                Put::New | Put::Pruned => {}
                Put::Existed => existed.push(tx),
                Put::Contested => self.win(tx)?,
            }
        }
        self.mine_existing(&existed)
    }

    /// One that was refused in a list.
    fn alone(&self, tx: &NodeTx) -> Result<Put, StoreFollowError> {
        let how = SpendAndCreate { spend_only: false, create_only: false, flags: FLAGS };
        let height = self.in_block.height;
        match self.store.spend_and_create(tx, height, how, &self.options)? {
            Ok(Stored::New(_)) => Ok(Put::New),
            Ok(Stored::Existed(_)) => Ok(Put::Existed),
            Err(NodeError::Spend { errors, .. }) if errors.iter().all(is_contest) => {
                Ok(Put::Contested)
            }
            Err(NodeError::Spend { errors, .. }) if self.is_again && errors.iter().all(is_gone) => {
                Ok(Put::Pruned)
            }
            Err(error) => Err(self.refused(tx.txid, error)),
        }
    }

    /// Lets a transaction win against those that hold its inputs. Nothing but the block in hand
    /// remembers that it is under way: after a crash the block comes again, and with it the conflict.
    fn win(&self, tx: &NodeTx) -> Result<(), StoreFollowError> {
        let (txid, height) = (tx.txid, self.in_block.height);
        let refused = |error| self.refused(txid, error);
        let options = CreateOptions { is_conflicting: true, ..self.options.clone() };
        for answer in self.store.create(&[(tx.clone(), options)], height)? {
            match answer {
                Ok(()) => {}
                Err(NodeError::Exists(_)) => {
                    for answer in self.store.set_conflicting(&[txid], true, height)? {
                        answer.map_err(refused)?;
                    }
                }
                Err(error) => return Err(refused(error)),
            }
        }
        crash_point("store_follow_contested");
        let losers = self.store.process_conflicting(&[txid], height)?.map_err(refused)?;
        meter::conflict(losers.len());
        crash_point("store_follow_after_conflict");
        self.set_mined(&[txid])
    }

    /// Mines transactions that the store had. One that had lost wins now.
    fn mine_existing(&self, txs: &[&NodeTx]) -> Result<(), StoreFollowError> {
        let ids: Vec<Txid> = txs.iter().map(|tx| tx.txid).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let found = self.store.get(&ids, Fields::default())?;
        for (tx, stored) in txs.iter().zip(found) {
            if stored.is_some_and(|stored| stored.record.is_conflicting) {
                self.win(tx)?;
            }
        }
        self.set_mined(&ids)?;
        crash_point("store_follow_after_mined");
        Ok(())
    }

    fn set_mined(&self, txids: &[Txid]) -> Result<(), StoreFollowError> {
        let found = self.store.get(txids, Fields::default())?;
        let has_block = |record: &utxokeep_core::node::TxRecord| {
            // A chain has one block at a height, whatever number it was stored with.
            let height = self.in_block.height;
            record.unmined_since.is_none() && record.blocks.iter().any(|b| b.height == height)
        };
        let new = txids
            .iter()
            .zip(found)
            .filter(|(_, stored)| stored.as_ref().is_none_or(|stored| !has_block(&stored.record)));
        let new: Vec<Txid> = new.map(|(txid, _)| *txid).collect();
        if new.is_empty() {
            return Ok(());
        }
        let info = MinedInfo {
            block: self.in_block,
            on_longest_chain: true,
            unset: false,
            unmined_since: Height::GENESIS,
        };
        for (txid, answer) in new.iter().zip(self.store.set_mined(&new, &info)?) {
            answer.map_err(|error| self.refused(*txid, error))?;
        }
        Ok(())
    }
}

/// Whether another transaction is in the way, and nothing else.
const fn is_contest((_, error): &(u32, SpendError)) -> bool {
    matches!(error, SpendError::Spent { .. })
}

/// Whether the transaction, or what it spends, was pruned.
const fn is_gone((_, error): &(u32, SpendError)) -> bool {
    matches!(error, SpendError::SpenderPruned { .. } | SpendError::NotFound(_))
}
