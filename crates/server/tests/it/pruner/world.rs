//! A node store with something to prune, and something to keep.

use utxokeep::{config::TxStoreConfig, node_store};
use utxokeep_core::{
    Height, OpenMode, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeInput, NodeOutput, NodeTx, PreviousOutput,
        SpendAndCreate, SpendFlags, SpendingData, UnspendRequest,
    },
};
use utxokeep_txstore::{BlockState, Fields, NodeStore, TxStore};

/// Transactions that are stored at a time.
const BATCH: usize = 5_000;

/// Height at which everything below is as it is described.
pub(crate) const HEIGHT: u32 = 338;

/// Height from which on the parent may go.
pub(crate) const CHILD_STABLE: u32 = 488;

/// What is in the store.
pub(crate) struct World {
    /// Due since 298; nothing keeps them.
    pub(crate) due: Vec<Txid>,
    /// Has a coin that nobody spent.
    pub(crate) coin: Txid,
    /// Due since 338, kept because its child is young until 488.
    pub(crate) parent: Txid,
    /// Its child, mined at 200.
    pub(crate) child: Txid,
}

/// How the stores of these tests are opened.
pub(crate) fn config() -> TxStoreConfig {
    TxStoreConfig { fsync: false, ..TxStoreConfig::default() }
}

fn txid(kind: u8, number: usize) -> Txid {
    let mut bytes = [kind; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
    Txid::from_bytes(bytes)
}

fn tx(txid: Txid, spends: Option<Txid>, has_coin: bool) -> NodeTx {
    let input = |parent: Txid| NodeInput {
        outpoint: OutPoint::new(parent, 0),
        script: Vec::new(),
        sequence: 0,
        previous: Some(PreviousOutput { satoshis: 5, script: vec![0x51] }),
    };
    let output = if has_coin {
        NodeOutput { satoshis: 5, script: vec![0x51] }
    } else {
        NodeOutput { satoshis: 0, script: vec![0x6a] }
    };
    NodeTx {
        txid,
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: spends.map(input).into_iter().collect(),
        outputs: vec![output],
    }
}

fn set_height(store: &NodeStore, height: u32) {
    let state = BlockState { height: Height::new(height), median_time: 1 };
    store.set_block_state(state).unwrap().unwrap();
}

impl World {
    /// The node tells the store at `url` a height.
    pub(crate) fn tell_height(url: &str, height: u32) {
        set_height(&node_store::open(url, &config(), OpenMode::Create).unwrap(), height);
    }

    /// Fills the store at `url`, which may know at which height the chain is.
    pub(crate) fn make(url: &str, due: usize, height: Option<u32>) -> Self {
        Self::fill(&node_store::open(url, &config(), OpenMode::Create).unwrap(), due, height)
    }

    pub(crate) fn fill(store: &NodeStore, due: usize, height: Option<u32>) -> Self {
        let world = Self {
            due: (0..due).map(|number| txid(1, number)).collect(),
            coin: txid(2, 0),
            parent: txid(3, 0),
            child: txid(4, 0),
        };
        let at = Height::new(10);
        let block = MinedBlock { id: 1, height: at, subtree: 0 };
        let mined = CreateOptions { mined: vec![block], ..CreateOptions::default() };
        let due = world.due.iter().map(|txid| (tx(*txid, None, false), mined.clone()));
        let kept = [world.coin, world.parent].map(|txid| (tx(txid, None, true), mined.clone()));
        let all: Vec<_> = due.chain(kept).collect();
        for batch in all.chunks(BATCH) {
            for stored in store.create(batch, at).unwrap() {
                stored.unwrap();
            }
        }
        let child = tx(world.child, Some(world.parent), true);
        let flags = SpendFlags::default();
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        let options = CreateOptions::default();
        store.spend_and_create(&child, Height::new(50), how, &options).unwrap().unwrap();
        let at = Height::new(200);
        let block = MinedBlock { id: 2, height: at, subtree: 0 };
        let mined = MinedInfo { block, on_longest_chain: true, unset: false, unmined_since: at };
        store.set_mined(&[world.child], &mined).unwrap().remove(0).unwrap();
        if let Some(height) = height {
            // A node says so with every block; one report alone would not be believed.
            set_height(store, height - 1);
            set_height(store, height);
        }
        world
    }

    /// Stores a transaction that spends the coin and is due since 298; answers it. The coin stays.
    pub(crate) fn spend_coin(&self, store: &NodeStore) -> Txid {
        let spender = txid(5, 0);
        assert_eq!(store.preserve(&[self.coin], Height::new(100_000)).unwrap(), 1);
        self.spend_coin_by(store, spender, 10);
        let at = Height::new(10);
        let block = MinedBlock { id: 1, height: at, subtree: 0 };
        let mined = MinedInfo { block, on_longest_chain: true, unset: false, unmined_since: at };
        store.set_mined(&[spender], &mined).unwrap().remove(0).unwrap();
        spender
    }

    /// The spend of the coin is taken back, and another transaction has it; answers that one.
    pub(crate) fn spend_coin_again(&self, store: &NodeStore, first: Txid) -> Txid {
        let taker = txid(6, 0);
        self.give_coin_back(store, first);
        self.spend_coin_by(store, taker, HEIGHT);
        taker
    }

    pub(crate) fn give_coin_back(&self, store: &NodeStore, by: Txid) {
        let request = UnspendRequest {
            outpoint: OutPoint::new(self.coin, 0),
            hash: tx(self.coin, None, true).utxo_hash(0).unwrap(),
            expected: Some(SpendingData { txid: by, vin: 0 }),
            set_locked: None,
            height: Height::new(HEIGHT),
        };
        assert_eq!(store.unspend(&[request]).unwrap(), [Ok(true)]);
    }

    fn spend_coin_by(&self, store: &NodeStore, spender: Txid, height: u32) {
        let flags = SpendFlags::default();
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        let (spender, options) = (tx(spender, Some(self.coin), false), CreateOptions::default());
        store.spend_and_create(&spender, Height::new(height), how, &options).unwrap().unwrap();
    }

    /// How many of those that are due are there; the others must always be.
    pub(crate) fn due_left(&self, store: &dyn TxStore) -> usize {
        let there = |txids: &[Txid]| -> usize {
            let found = txids.chunks(BATCH).map(|txids| store.get(txids, Fields::default()));
            found.map(|found| found.unwrap().iter().flatten().count()).sum()
        };
        assert_eq!(there(&[self.coin, self.parent, self.child]), 3, "nobody may delete them");
        there(&self.due)
    }

    pub(crate) fn due_left_at(&self, url: &str) -> usize {
        self.due_left(node_store::open(url, &config(), OpenMode::Create).unwrap().as_ref())
    }
}
