//! What a store that followed must have in common with the index, transaction by transaction.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    OutPoint, Txid,
    node::{OutputState, TxRecord},
};
use utxokeep_index::tables::UNSPENT;
use utxokeep_kv::{Kv, Scan};
use utxokeep_txstore::{Fields, StoredTx, TxStore as _};

use super::*;

/// Every block that ever was, by its hash.
#[derive(Default)]
pub(super) struct Raws(BTreeMap<BlockHash, Vec<u8>>);

impl Raws {
    pub(super) fn insert(&mut self, hash: BlockHash, raw: Vec<u8>) {
        self.0.insert(hash, raw);
    }

    pub(super) fn raw(&self, hash: &BlockHash) -> Vec<u8> {
        self.0[hash].clone()
    }

    fn txs(&self, hash: &BlockHash) -> Vec<NodeTx> {
        node_txs(&self.0[hash]).unwrap()
    }

    pub(super) fn ids(&self) -> BTreeSet<Txid> {
        self.0.keys().flat_map(|hash| self.txs(hash)).map(|tx| tx.txid).collect()
    }
}

/// How many records of each kind there are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Of the chain.
    pub(super) mined: usize,
    /// Of the chain, and with an output that nobody has spent.
    pub(super) unspent: usize,
    /// Of blocks that left.
    pub(super) unmined: usize,
    pub(super) losers: usize,
    /// Transactions of the chain without a record.
    pub(super) pruned: usize,
}

/// The live outputs of an index.
pub(super) fn live<K: Kv>(index: &ChainIndex<K>) -> BTreeSet<OutPoint> {
    let mut live = BTreeSet::new();
    UNSPENT
        .scan(index.engine(), &Scan::ALL, |key, _| {
            live.insert(key.read().unwrap());
            true
        })
        .unwrap();
    live
}

/// Transactions of the chain, with the number and the height of their newest block.
fn on_chain<K: Kv>(index: &ChainIndex<K>, raws: &Raws) -> BTreeMap<Txid, (u32, Height)> {
    let view = index.view().unwrap();
    let tip = view.tip().unwrap().0;
    let mut found = BTreeMap::new();
    for height in 1..=tip.get() {
        let block = view.log().block(Height::new(height)).unwrap().unwrap();
        for tx in raws.txs(&block.entry.hash) {
            found.insert(tx.txid, (block.number(), block.height));
        }
    }
    found
}

/// Compares a store that followed to the tip with the index.
pub(super) fn compare<K: Kv>(
    index: &ChainIndex<K>,
    store: &NodeStore,
    raws: &Raws,
    is_pruned: bool,
) -> Found {
    let (live, on_chain) = (live(index), on_chain(index, raws));
    let ids: Vec<Txid> = raws.ids().into_iter().collect();
    let mut stored: BTreeMap<Txid, StoredTx> = BTreeMap::new();
    for some in ids.chunks(500) {
        let found = store.get(some, Fields { body: true, slots: true }).unwrap();
        stored.extend(some.iter().zip(found).filter_map(|(txid, tx)| Some((*txid, tx?))));
    }
    let is_mined = |txid: &Txid| stored.get(txid).is_some_and(|tx| is_on_chain(&tx.record));
    let mut found = Found::default();
    for outpoint in &live {
        let tx = &stored[outpoint.txid()];
        assert!(is_on_chain(&tx.record), "{outpoint} is live, and its transaction not mined");
        let slots = tx.slots.as_ref().unwrap();
        let slot = slots[outpoint.index() as usize].as_ref().expect("a live output has a slot");
        match slot.state {
            OutputState::Unspent => {}
            // A transaction of a block that left waits to be mined again, and holds it.
            OutputState::Spent(by) => assert!(!is_mined(&by.txid), "{outpoint} is live and spent"),
            OutputState::Frozen => panic!("{outpoint} is frozen"),
        }
    }
    for (txid, (number, height)) in &on_chain {
        let Some(tx) = stored.get(txid) else {
            assert!(is_pruned, "{txid} of block {height} is not in the store");
            found.pruned += 1;
            continue;
        };
        let record = &tx.record;
        assert!(is_on_chain(record), "{txid} of block {height}: {record:?}");
        let blocks: Vec<_> = record.blocks.iter().map(|block| (block.id, block.height)).collect();
        assert_eq!(blocks, [(*number, *height)], "{txid}");
        found.mined += 1;
        found.unspent += usize::from(has_unspent(&live, txid, tx, is_pruned, &is_mined));
    }
    for (txid, tx) in stored.iter().filter(|(txid, _)| !on_chain.contains_key(txid)) {
        // Nobody reported the first block.
        assert!(!tx.record.is_mined(), "{txid} is on no block of the chain: {:?}", tx.record);
        found.unmined += 1;
        found.losers += usize::from(tx.record.is_conflicting);
        assert!(!tx.record.is_coinbase || tx.record.is_conflicting, "{txid} can never be mined");
    }
    found
}

fn is_on_chain(record: &TxRecord) -> bool {
    record.is_mined() && !record.is_conflicting
}

/// Checks the outputs of a transaction of the chain; answers whether one of them is unspent.
fn has_unspent(
    live: &BTreeSet<OutPoint>,
    txid: &Txid,
    tx: &StoredTx,
    is_pruned: bool,
    is_mined: &dyn Fn(&Txid) -> bool,
) -> bool {
    let (slots, body) = (tx.slots.as_ref().unwrap(), tx.body.as_ref().unwrap());
    let mut has_unspent = false;
    for (vout, slot) in (0u32..).zip(slots) {
        let outpoint = OutPoint::new(*txid, vout);
        let Some(slot) = slot else { continue };
        match slot.state {
            OutputState::Unspent => {
                let script = &body.outputs[vout as usize].script;
                // The index keeps nothing that nobody can spend.
                let is_burnt = script.first() == Some(&0x6a) || script.len() > 10_000;
                assert!(live.contains(&outpoint) || is_burnt, "{outpoint} is unspent and not live");
                has_unspent = true;
            }
            OutputState::Spent(by) if is_mined(&by.txid) => {
                assert!(!live.contains(&outpoint), "{outpoint} is spent and live");
            }
            // A transaction that waits to be mined holds it, or one that was mined is pruned.
            OutputState::Spent(by) => {
                let is_live = live.contains(&outpoint);
                assert!(is_pruned || is_live, "{outpoint}: {by:?} is not mined");
                has_unspent |= is_live;
            }
            OutputState::Frozen => panic!("{outpoint} is frozen"),
        }
    }
    has_unspent
}
