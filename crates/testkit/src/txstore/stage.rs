//! A store to try, and transactions to try it with.

use std::any::Any;

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeError, NodeInput, NodeOutput, NodeTx, Policy,
        PreviousOutput, SpendAndCreate, SpendError, SpendFlags, SpendRequest, SpendStatus,
        SpendView, Spent, Stored, TxRecord, UnspendRequest,
    },
};
use utxokeep_txstore::{Fields, StoredTx, TxStore};

/// Blocks that records are kept for in the scenarios.
pub(super) const RETENTION: u32 = 10;

/// A store under test.
pub struct Stage {
    /// The store.
    pub store: Box<dyn TxStore>,
    /// Where it lives, if that has to go with it.
    _place: Option<Box<dyn Any + Send + Sync>>,
}

/// A store, and what has to go with it, such as a directory.
pub type OpenedStore = (Box<dyn TxStore>, Option<Box<dyn Any + Send + Sync>>);

/// Makes a store for a scenario; `None` where the engine is not installed, which skips the test.
pub type Make<'m> = dyn Fn(Policy) -> Option<OpenedStore> + 'm;

pub(super) fn at(height: u32) -> Height {
    Height::new(height)
}

/// A transaction that spends nothing and is no coinbase: one that a store was seeded with.
pub fn seed(name: u8, amounts: &[u64]) -> NodeTx {
    spending(name, &[], amounts)
}

/// A transaction that creates coins.
pub fn coinbase(name: u8, amounts: &[u64]) -> NodeTx {
    let input = NodeInput {
        outpoint: OutPoint::new(Txid::default(), u32::MAX),
        script: vec![name],
        sequence: u32::MAX,
        previous: None,
    };
    NodeTx { is_coinbase: true, inputs: vec![input], ..seed(name, amounts) }
}

/// A transaction that spends outputs of others. Amounts of zero make data carriers.
pub fn spending(name: u8, inputs: &[(&NodeTx, u32)], amounts: &[u64]) -> NodeTx {
    let inputs = inputs.iter().map(|(parent, vout)| {
        let output = parent.outputs.get(*vout as usize);
        NodeInput {
            outpoint: OutPoint::new(parent.txid, *vout),
            script: vec![name],
            sequence: 0,
            previous: Some(PreviousOutput {
                satoshis: output.map_or(0, |output| output.satoshis),
                script: output.map_or_else(Vec::new, |output| output.script.clone()),
            }),
        }
    });
    let outputs = amounts.iter().map(|&satoshis| NodeOutput {
        satoshis,
        script: if satoshis == 0 { vec![0x6a, name] } else { vec![0x51, name] },
    });
    NodeTx {
        // Names are spread over the locks of a store.
        txid: Txid::from_bytes([name.wrapping_mul(37); 32]),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: inputs.collect(),
        outputs: outputs.collect(),
    }
}

pub(super) fn block(id: u32, height: u32) -> MinedBlock {
    MinedBlock { id, height: at(height), subtree: id + 100 }
}

impl Stage {
    /// A fresh store that keeps records for so many blocks.
    pub fn new(make: &Make<'_>, retention_blocks: u32) -> Option<Self> {
        let policy = Policy {
            retention_blocks,
            coinbase_maturity: 5,
            unmined_retention_blocks: 4,
            conflict_walk_max: 1_000,
            height_jump_blocks_max: 144,
        };
        let (store, place) = make(policy)?;
        Some(Self { store, _place: place })
    }

    pub(super) fn create(&self, tx: &NodeTx, height: u32) -> Result<(), NodeError> {
        self.create_with(tx, height, &CreateOptions::default())
    }

    pub(super) fn create_with(
        &self,
        tx: &NodeTx,
        height: u32,
        options: &CreateOptions,
    ) -> Result<(), NodeError> {
        let items = [(tx.clone(), options.clone())];
        self.store.create(&items, at(height)).expect("the engine works").remove(0)
    }

    /// Creates a transaction that is in block 1 at a height.
    pub(super) fn create_mined(&self, tx: &NodeTx, height: u32) {
        let options = CreateOptions { mined: vec![block(1, height)], ..CreateOptions::default() };
        self.create_with(tx, height, &options).expect("it is new");
    }

    pub(super) fn get(&self, tx: &NodeTx) -> Option<StoredTx> {
        let fields = Fields { body: true, slots: true };
        self.store.get(&[tx.txid], fields).expect("the engine works").remove(0)
    }

    pub(super) fn record(&self, tx: &NodeTx) -> TxRecord {
        self.get(tx).expect("it is stored").record
    }

    pub(super) fn due(&self, tx: &NodeTx) -> Option<u32> {
        self.record(tx).delete_at.map(Height::get)
    }

    pub(super) fn request(tx: &NodeTx, height: u32) -> SpendRequest {
        SpendRequest::of(tx, at(height), SpendFlags::default()).expect("it is extended")
    }

    pub(super) fn spend(&self, tx: &NodeTx, height: u32) -> Result<Spent, NodeError> {
        self.spend_request(Self::request(tx, height))
    }

    pub(super) fn spend_request(&self, request: SpendRequest) -> Result<Spent, NodeError> {
        self.store.spend(&[request]).expect("the engine works").remove(0)
    }

    /// Why the first input that failed did.
    pub(super) fn spend_error(&self, request: SpendRequest) -> SpendError {
        match self.spend_request(request) {
            Err(NodeError::Spend { mut errors, .. }) => errors.remove(0).1,
            other => panic!("expected a refused input: {other:?}"),
        }
    }

    pub(super) fn unspend(&self, parent: &NodeTx, vout: u32, by: &NodeTx, height: u32) -> bool {
        let request = Self::unspend_request(parent, vout, by, height);
        self.store.unspend(&[request]).expect("the engine works").remove(0).expect("accepted")
    }

    pub(super) fn unspend_request(
        parent: &NodeTx,
        vout: u32,
        by: &NodeTx,
        height: u32,
    ) -> UnspendRequest {
        let outpoint = OutPoint::new(parent.txid, vout);
        let vin = by.inputs.iter().position(|input| input.outpoint == outpoint).unwrap_or(0);
        UnspendRequest {
            outpoint,
            hash: parent.utxo_hash(vout).expect("it has the output"),
            expected: Some(utxokeep_core::node::SpendingData {
                txid: by.txid,
                vin: u32::try_from(vin).expect("few inputs"),
            }),
            set_locked: None,
            height: at(height),
        }
    }

    pub(super) fn view(&self, parent: &NodeTx, vout: u32, height: u32) -> SpendView {
        let output = (OutPoint::new(parent.txid, vout), None);
        let views = self.store.spend_views(&[output], at(height)).expect("the engine works");
        views.into_iter().next().expect("one answer").expect("no hash was given")
    }

    pub(super) fn status(&self, parent: &NodeTx, vout: u32) -> SpendStatus {
        self.view(parent, vout, 1_000_000).status
    }

    pub(super) fn mine(&self, tx: &NodeTx, id: u32, height: u32) -> Result<Vec<u32>, NodeError> {
        self.set_mined(tx, id, height, true, false)
    }

    pub(super) fn set_mined(
        &self,
        tx: &NodeTx,
        id: u32,
        height: u32,
        on_longest_chain: bool,
        unset: bool,
    ) -> Result<Vec<u32>, NodeError> {
        let info = MinedInfo {
            block: block(id, height),
            on_longest_chain,
            unset,
            unmined_since: at(height + 1),
        };
        self.store.set_mined(&[tx.txid], &info).expect("the engine works").remove(0)
    }

    pub(super) fn lock(&self, tx: &NodeTx, is_locked: bool, height: u32) {
        let answers = self.store.set_locked(&[tx.txid], is_locked, at(height));
        answers.expect("the engine works").remove(0).expect("it is stored");
    }

    pub(super) fn mark(&self, tx: &NodeTx, on: bool, height: u32) {
        let answers = self.store.mark_on_longest_chain(&[tx.txid], on, at(height));
        answers.expect("the engine works").remove(0).expect("it is stored");
    }

    pub(super) fn sac(&self, tx: &NodeTx, height: u32) -> Result<Stored, NodeError> {
        let flags = SpendFlags::default();
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        let options = CreateOptions::default();
        self.store.spend_and_create(tx, at(height), how, &options).expect("the engine works")
    }
}
