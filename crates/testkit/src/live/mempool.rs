//! One scenario per rule of mempools, and the nodes on whose mempools they run.

use std::{cell::RefCell, collections::BTreeSet};

use serde_json::json;
use utxokeep_chains::{
    LiveError, MempoolList, MempoolSource, bitcoind::BitcoinMempool, decode_header,
};
use utxokeep_core::{BlockHash, Txid};

use super::{SimulatedNode, bitcoind_options, stage::make_bitcoin_block};
use crate::{
    bitcoind::Bitcoind,
    open_coins::{OpenCoin, OpenTx, open_script},
};

/// A node whose mempool a scenario fills and empties.
pub trait MempoolStage {
    /// A client of it.
    fn source(&self) -> Box<dyn MempoolSource>;

    /// Puts a new transaction into the mempool.
    fn enter(&self) -> Txid;

    /// Makes the transaction leave the mempool, though no block holds it.
    fn drop_from_mempool(&self, txid: &Txid);

    /// Puts an empty block behind the tip; answers its hash.
    fn mine(&self) -> BlockHash;

    /// Stops the node.
    fn stop(&self);
}

const TXS_MAX: usize = 1_000;

fn list(source: &mut dyn MempoolSource) -> MempoolList {
    source.list(TXS_MAX, &|| false).unwrap()
}

pub(super) fn what_entered_is_listed_with_its_bytes(stage: &dyn MempoolStage) {
    let mut source = stage.source();
    let tip = stage.mine();
    let empty = list(&mut *source);
    assert_eq!((empty.tip, empty.txids.len()), (tip, 0));
    let entered: BTreeSet<Txid> = (0..7).map(|_| stage.enter()).collect();
    let full = list(&mut *source);
    assert_eq!((full.tip, &full.txids), (tip, &entered));
    let asked: Vec<Txid> = entered.into_iter().rev().collect();
    let bodies = source.bodies(&asked, &|| false).unwrap();
    let read =
        |raw: &Option<Vec<u8>>| utxokeep_chains::decode_tx(raw.as_deref().unwrap()).unwrap().txid;
    assert_eq!(bodies.iter().map(read).collect::<Vec<Txid>>(), asked);
    assert!(!source.address().is_empty());
}

pub(super) fn what_left_is_not_listed_and_has_no_bytes(stage: &dyn MempoolStage) {
    let mut source = stage.source();
    stage.mine();
    let (kept, dropped) = (stage.enter(), stage.enter());
    stage.drop_from_mempool(&dropped);
    let found = list(&mut *source);
    assert!(found.txids.contains(&kept) && !found.txids.contains(&dropped));
    let bodies = source.bodies(&[dropped, kept], &|| false).unwrap();
    assert!(bodies[0].is_none() && bodies[1].is_some());
}

pub(super) fn the_tip_is_that_of_the_chain_and_every_change_shows(stage: &dyn MempoolStage) {
    let mut source = stage.source();
    stage.mine();
    let first = list(&mut *source);
    assert_eq!(list(&mut *source), first);
    let tip = stage.mine();
    assert_eq!(list(&mut *source).tip, tip);
    stage.enter();
    let second = list(&mut *source);
    assert_ne!(second.sequence, first.sequence);
    stage.enter();
    assert_ne!(list(&mut *source).sequence, second.sequence);
}

pub(super) fn a_mempool_that_is_too_large_or_a_node_that_is_gone_is_an_error(
    stage: &dyn MempoolStage,
) {
    let mut source = stage.source();
    stage.mine();
    stage.enter();
    stage.enter();
    assert!(source.list(1, &|| false).is_err());
    assert_eq!(source.list(2, &|| false).unwrap().txids.len(), 2);
    stage.stop();
    let gone = source.list(2, &|| false).unwrap_err();
    assert!(matches!(gone, LiveError::Away(_)), "{gone:?}");
}

/// [`SimulatedNode`] on a stage.
#[derive(Debug, Default)]
pub struct SimulatedMempoolStage {
    node: SimulatedNode,
    made: RefCell<(Option<super::MadeBlock>, u32)>,
}

impl MempoolStage for SimulatedMempoolStage {
    fn source(&self) -> Box<dyn MempoolSource> {
        Box::new(self.node.clone())
    }

    fn enter(&self) -> Txid {
        let mut made = self.made.borrow_mut();
        made.1 += 1;
        // Nobody asks whether what it spends exists.
        let from = OpenCoin::new(Txid::from_bytes([7; 32]), made.1, 1_000, 1);
        self.node.enter_mempool(&OpenTx::spend(&[from], &[(open_script(2), 900)]).raw())
    }

    fn drop_from_mempool(&self, txid: &Txid) {
        self.node.leave_mempool(txid);
    }

    fn mine(&self) -> BlockHash {
        let mut made = self.made.borrow_mut();
        let block = make_bitcoin_block(made.0.as_ref(), 1);
        self.node.append(std::slice::from_ref(&block.raw));
        let hash = decode_header(&block.raw).unwrap().hash;
        made.0 = Some(block);
        hash
    }

    fn stop(&self) {
        self.node.stop();
    }
}

/// A real Bitcoin Core on a stage.
#[derive(Debug)]
pub struct BitcoindMempoolStage {
    node: RefCell<Bitcoind>,
    coins: RefCell<Vec<OpenCoin>>,
}

impl BitcoindMempoolStage {
    /// Starts a node with coins to spend; `None`, with a message, where there is no bitcoind.
    #[must_use]
    pub fn start_or_skip() -> Option<Self> {
        let node = Bitcoind::start_or_skip(&["-rest"])?;
        let coins = node.mine_open_coins(1, 20);
        Some(Self { node: RefCell::new(node), coins: RefCell::new(coins) })
    }

    fn send(&self, coin: &OpenCoin, fee: u64) -> Txid {
        let tx = OpenTx::spend(&[*coin], &[(open_script(2), coin.amount - fee)]);
        self.node.borrow().send(&tx)
    }
}

impl MempoolStage for BitcoindMempoolStage {
    fn source(&self) -> Box<dyn MempoolSource> {
        let node = self.node.borrow();
        Box::new(BitcoinMempool::new(bitcoind_options(&node, &node.url())))
    }

    fn enter(&self) -> Txid {
        let coin = self.coins.borrow_mut().pop().unwrap();
        self.send(&coin, 1_000)
    }

    fn drop_from_mempool(&self, txid: &Txid) {
        // Another transaction that spends the same and pays more takes its place.
        let node = self.node.borrow();
        let raw = node.rpc("getrawtransaction", &json!([txid.to_reversed_hex(), true]));
        let spent = raw["vin"][0]["txid"].as_str().unwrap();
        let index = u32::try_from(raw["vin"][0]["vout"].as_u64().unwrap()).unwrap();
        let (spent, paid) = (Txid::from_reversed_hex(spent).unwrap(), 50 * 100_000_000);
        drop(node);
        self.send(&OpenCoin::new(spent, index, paid, 1), 5_000);
    }

    fn mine(&self) -> BlockHash {
        let node = self.node.borrow();
        BlockHash::from_reversed_hex(&node.generate_block(&[])).unwrap()
    }

    fn stop(&self) {
        self.node.borrow_mut().kill();
    }
}
