//! A store to prune, and the moves of the scenarios.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        ChainReport, CreateOptions, KeepReason, MinedBlock, MinedInfo, NodeError, NodeTx, Policy,
        PruneRules, Pruned, Sighting, SpendAndCreate, SpendFlags, SpendingData, Stored, TxRecord,
        UnspendRequest, Witness,
    },
};
use utxokeep_pruner::{ChainState as _, Clock, Job, Pruner, PrunerSettings};
use utxokeep_txstore::{Fields, PruneStore};

/// Blocks that records are kept for, and that must lie above a child.
pub(super) const WINDOW: u32 = 288;

/// A store, and what must stay while it is open.
pub type OpenedPruneStore = (Arc<dyn PruneStore>, Option<Box<dyn Any + Send + Sync>>);

/// Makes a store for a scenario; `None` where the engine is not installed, which skips the test.
pub type MakePruneStore<'m> = dyn Fn(Policy) -> Option<OpenedPruneStore> + 'm;

/// A store under test.
pub struct PruneStage {
    /// The store.
    pub store: Arc<dyn PruneStore>,
    _place: Option<Box<dyn Any + Send + Sync>>,
}

/// A clock that only moves when somebody sleeps.
#[derive(Debug, Default)]
pub struct StillClock(AtomicU64);

impl Clock for StillClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

pub(super) fn at(height: u32) -> Height {
    Height::new(height)
}

/// Takes back what `by` spends of an output.
pub(super) fn unspend_of(parent: &NodeTx, vout: u32, by: &NodeTx, height: u32) -> UnspendRequest {
    let outpoint = OutPoint::new(parent.txid, vout);
    let vin = (0..).zip(&by.inputs).find(|(_, input)| input.outpoint == outpoint);
    UnspendRequest {
        outpoint,
        hash: parent.utxo_hash(vout).expect("it has the output"),
        expected: vin.map(|(vin, _)| SpendingData { txid: by.txid, vin }),
        set_locked: None,
        height: at(height),
    }
}

/// Two witnesses say at which height the chain is.
pub fn reach(store: &dyn PruneStore, height: u32) {
    let seen = |by| ChainReport::Newest(Sighting { height: at(height), by });
    let both = [seen(Witness::Operator), seen(Witness::Block)];
    let (_, heights) = store.report(&both, 0).expect("the engine works");
    assert_eq!(heights.newest(), Some(at(height)));
}

pub(super) fn rules_at(height: u32) -> PruneRules {
    PruneRules::at(at(height), WINDOW)
}

impl PruneStage {
    /// A fresh store with the usual retention.
    pub fn new(make: &MakePruneStore<'_>) -> Option<Self> {
        let (store, place) = make(Policy { coinbase_maturity: 1, ..Policy::default() })?;
        Some(Self { store, _place: place })
    }

    /// Stores a transaction that is in the block of a height, and spends its inputs.
    pub(super) fn mined(&self, tx: &NodeTx, height: u32) {
        let mined = vec![MinedBlock { id: height, height: at(height), subtree: 0 }];
        let options = CreateOptions { mined, ..CreateOptions::default() };
        self.store_with(tx, height, &options).expect("it is new");
    }

    /// Stores an unmined transaction and spends its inputs.
    pub(super) fn unmined(&self, tx: &NodeTx, height: u32) {
        self.store_with(tx, height, &CreateOptions::default()).expect("it is new");
    }

    pub(super) fn store_with(
        &self,
        tx: &NodeTx,
        height: u32,
        options: &CreateOptions,
    ) -> Result<Stored, NodeError> {
        let (spend_only, create_only) = (false, tx.inputs.is_empty() || options.is_conflicting);
        let how = SpendAndCreate { spend_only, create_only, flags: SpendFlags::default() };
        self.store.spend_and_create(tx, at(height), how, options).expect("the engine works")
    }

    fn set_mined(&self, tx: &NodeTx, height: u32, unset: bool) {
        let info = MinedInfo {
            block: MinedBlock { id: height, height: at(height), subtree: 0 },
            on_longest_chain: true,
            unset,
            unmined_since: at(height),
        };
        let answer = self.store.set_mined(&[tx.txid], &info).expect("the engine works").remove(0);
        answer.expect("it is stored");
    }

    pub(super) fn mine(&self, tx: &NodeTx, height: u32) {
        self.set_mined(tx, height, false);
    }

    pub(super) fn orphan(&self, tx: &NodeTx, height: u32) {
        self.set_mined(tx, height, true);
    }

    pub(super) fn record(&self, tx: &NodeTx) -> Option<TxRecord> {
        let found = self.store.get(&[tx.txid], Fields::default()).expect("the engine works");
        found.into_iter().next().flatten().map(|stored| stored.record)
    }

    pub(super) fn is_there(&self, tx: &NodeTx) -> bool {
        let fields = Fields { body: true, slots: true };
        let found = self.store.get(&[tx.txid], fields).expect("the engine works").remove(0);
        // All of it, or nothing.
        found.is_some_and(|stored| {
            assert!(stored.body.is_some() && stored.slots.is_some());
            true
        })
    }

    pub(super) fn due(&self, tx: &NodeTx) -> Option<u32> {
        self.record(tx).and_then(|record| record.delete_at).map(Height::get)
    }

    /// Why each transaction was kept at a height; `None` for those that went.
    pub(super) fn prune(&self, txs: &[&NodeTx], height: u32) -> Vec<Option<KeepReason>> {
        let txids: Vec<Txid> = txs.iter().map(|tx| tx.txid).collect();
        let pruned = self.store.prune(&txids, &rules_at(height)).expect("the engine works");
        let answers = pruned.expect("the height is one").into_iter().map(|one| match one {
            Pruned::Kept { reason, .. } => Some(reason),
            Pruned::Deleted { .. } => None,
        });
        let answers: Vec<_> = answers.collect();
        for (tx, answer) in txs.iter().zip(&answers) {
            let is_gone = matches!(answer, None | Some(KeepReason::Missing));
            assert_eq!(self.is_there(tx), !is_gone, "the answer is the truth");
        }
        answers
    }

    /// Why one transaction was kept at a height.
    pub(super) fn prune_one(&self, tx: &NodeTx, height: u32) -> Option<KeepReason> {
        self.prune(&[tx], height).remove(0)
    }

    /// A pruner over the store, without threads and without waiting.
    pub(super) fn pruner(&self, settings: PrunerSettings) -> Pruner {
        let clock = Arc::new(StillClock::default());
        Pruner::new(Arc::clone(&self.store), clock, settings).expect("the settings work")
    }

    /// The chain is at a height, and two witnesses say so.
    pub fn reach(&self, height: u32) {
        reach(self.store.as_ref(), height);
    }

    /// A run at a height that the chain has reached.
    pub(super) fn run(&self, pruner: &Pruner, height: u32) -> Job {
        self.reach(height);
        pruner.run_at(at(height))
    }
}
