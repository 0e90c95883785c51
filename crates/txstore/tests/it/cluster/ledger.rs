//! What must hold of a store once the faults are over and everything unfinished is ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use utxokeep_core::{
    OutPoint, Txid,
    node::{CreateOptions, NodeTx, OutputRecord},
};
use utxokeep_txstore::{Fields, NodeStore, PruneStore as _, StoredTx, TxStore};

use super::load::{AT, Told};

/// Transactions that one read asks for.
const PAGE: usize = 500;

/// What was found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) stored: usize,
    /// Transactions of several records that nobody had finished.
    pub(crate) creating: usize,
    pub(crate) ended: u64,
}

fn read(store: &NodeStore, txs: &BTreeMap<Txid, NodeTx>) -> BTreeMap<Txid, StoredTx> {
    let ids: Vec<Txid> = txs.keys().copied().collect();
    let mut found = BTreeMap::new();
    for some in ids.chunks(PAGE) {
        let read = store.get(some, Fields { body: false, slots: true }).unwrap();
        let read = some.iter().zip(read);
        found.extend(read.filter_map(|(txid, stored)| Some((*txid, stored?))));
    }
    found
}

fn slots(stored: &StoredTx) -> impl Iterator<Item = (u32, &OutputRecord)> {
    let slots = stored.slots.iter().flatten();
    (0..).zip(slots).filter_map(|(vout, slot)| Some((vout, slot.as_ref()?)))
}

/// Ends every call that its caller left; answers how many.
fn end_all(store: &NodeStore) -> u64 {
    let end = Instant::now() + Duration::from_secs(60);
    let (mut ended, mut idle) = (0, 0);
    // A call can be ended once its deadline is over.
    while idle < 3 {
        match store.end_unfinished(1_000).unwrap() {
            0 => idle += 1,
            some => (ended, idle) = (ended + some, 0),
        }
        assert!(Instant::now() < end, "there is always something left to end");
        std::thread::sleep(Duration::from_millis(700));
    }
    ended
}

/// Checks everything that callers tried.
pub(crate) fn check(store: &NodeStore, told: &Told) -> Found {
    let ended = end_all(store);
    let tried: BTreeMap<Txid, NodeTx> = told.tried.iter().map(|tx| (tx.txid, tx.clone())).collect();
    let stored = read(store, &tried);
    let mut acknowledged = BTreeSet::new();
    for tx in &told.stored {
        assert!(stored.contains_key(&tx.txid), "{} was acknowledged and is lost", tx.txid);
        assert!(acknowledged.insert(tx.txid), "two callers were told that they stored {}", tx.txid);
    }
    for txid in &told.mined {
        let is_mined = stored[txid].record.blocks.iter().any(|block| block.id == 7);
        assert!(is_mined, "{txid} was mined, and that is lost");
    }
    let mut winners: BTreeMap<OutPoint, Txid> = BTreeMap::new();
    for (txid, tx) in tried.iter().filter(|(txid, _)| stored.contains_key(txid)) {
        for input in tx.spends() {
            let other = winners.insert(input.outpoint, *txid);
            assert_eq!(other, None, "{} has two winners", input.outpoint);
        }
    }
    let mut creating = Vec::new();
    for (txid, one) in &stored {
        for (vout, slot) in slots(one) {
            let outpoint = OutPoint::new(*txid, vout);
            let by = slot.spent_by().map(|by| by.txid);
            assert_eq!(by, winners.get(&outpoint).copied(), "the spender of {outpoint}");
            assert!(by.is_none() || !one.record.is_creating, "{outpoint} of an incomplete one");
        }
        if one.record.is_creating {
            creating.push((tried[txid].clone(), CreateOptions::default()));
        }
    }
    for outpoint in winners.keys() {
        assert!(stored.contains_key(outpoint.txid()), "{outpoint} is spent and is not there");
    }
    // Whoever creates it again completes it.
    store.create(&creating, AT).unwrap();
    let left: Vec<_> =
        read(store, &tried).into_values().filter(|one| one.record.is_creating).collect();
    assert!(left.is_empty(), "{} are incomplete for good", left.len());
    let report = store.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    Found { stored: stored.len(), creating: creating.len(), ended }
}
