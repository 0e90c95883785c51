//! At every checkpoint of the node's history the ledger has the node's coins and balances.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use utxokeep_core::{BlockHash, Height, Txid};
use utxokeep_testkit::{EventKind, RegtestA, sat};
use utxokeep_wallet::{BalanceQuery, Change, Ledger, MempoolView, NewTx, Recorded, block_txs};

use crate::regtest::{
    answers::{Answers, ChainCoin, WalletCoin},
    chain::{NOW, TestChain, follow, hd_descriptors, open, wallet, watch_descriptors},
};

#[derive(Debug, Deserialize)]
struct Balances {
    trusted: String,
    untrusted_pending: String,
    immature: String,
}

#[derive(Debug, Deserialize)]
struct Moment {
    ev: EventKind,
    height: u32,
    hash: String,
    #[serde(default)]
    note: String,
    wallet: Option<BTreeMap<String, Balances>>,
    wallet_utxos: Option<BTreeMap<String, Vec<WalletCoin>>>,
    chain_utxos: Option<BTreeMap<String, Vec<ChainCoin>>>,
    mempool: Option<Vec<String>>,
}

/// The node's answers at a checkpoint.
struct Node<'m> {
    balances: &'m BTreeMap<String, Balances>,
    wallet_utxos: &'m BTreeMap<String, Vec<WalletCoin>>,
    chain_utxos: &'m BTreeMap<String, Vec<ChainCoin>>,
    mempool: &'m [String],
}

impl Moment {
    fn answers(&self) -> Option<Node<'_>> {
        Some(Node {
            balances: self.wallet.as_ref()?,
            wallet_utxos: self.wallet_utxos.as_ref()?,
            chain_utxos: self.chain_utxos.as_ref()?,
            mempool: self.mempool.as_deref()?,
        })
    }
}

fn moments() -> Vec<Moment> {
    let text = RegtestA::default().text("events.jsonl.xz");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What two sets do not share, in words; nothing when they are equal.
fn difference<T: Ord + std::fmt::Debug>(ours: &BTreeSet<T>, node: &BTreeSet<T>) -> Option<String> {
    let only_ours: Vec<&T> = ours.difference(node).take(5).collect();
    let only_node: Vec<&T> = node.difference(ours).take(5).collect();
    let same = only_ours.is_empty() && only_node.is_empty();
    (!same).then(|| format!("only in the ledger {only_ours:?}, only in the node {only_node:?}"))
}

/// Every transaction of the history, as its mempools held them.
fn bodies(chain: &TestChain) -> BTreeMap<Txid, NewTx> {
    let connected = moments().into_iter().filter(|moment| matches!(moment.ev, EventKind::Connect));
    let hashes = connected.map(|moment| BlockHash::from_reversed_hex(&moment.hash).unwrap());
    hashes
        .flat_map(|hash| block_txs(&chain.body_of(&hash)).unwrap())
        .map(|tx| (tx.txid, tx))
        .collect()
}

/// Follows every single event and compares at every checkpoint.
fn the_ledger_agrees_with_the_node(url: &str) {
    let ledger = open(url);
    let wallets = [
        ("watch", wallet(&ledger, "watch", &watch_descriptors())),
        ("hd", wallet(&ledger, "hd", &hd_descriptors())),
    ];
    let mut chain = TestChain::new();
    follow(&ledger, &chain);
    let bodies = bodies(&chain);
    let mut checkpoints = 0;
    let mut differences = Vec::new();
    for moment in moments() {
        let hash = BlockHash::from_reversed_hex(&moment.hash).unwrap();
        match moment.ev {
            EventKind::Connect => {
                chain.connect(hash);
            }
            // A chain that only ends lower is waited for, so that the ledger has to be told.
            EventKind::Disconnect => {
                chain.disconnect(hash);
                let height = Height::new(moment.height);
                ledger.rollback_from(RegtestA::NETWORK, height, NOW).unwrap();
            }
            EventKind::Tip => {
                let Some(node) = moment.answers() else { continue };
                checkpoints += 1;
                let at = |name: &str| format!("{name} at {} ({})", moment.height, moment.note);
                for (name, wallet) in wallets {
                    let found = compare_chain(&Answers::new(&ledger, wallet), &node, name);
                    differences.extend(found.map(|what| format!("{}: {what}", at(name))));
                }
                let refused = tell_mempool(&ledger, hash, &node, &bodies);
                differences.extend(refused.iter().map(|what| format!("{}: {what}", at("all"))));
                for (name, wallet) in wallets {
                    let found = compare_wallet(&Answers::new(&ledger, wallet), &node, name);
                    differences.extend(found.iter().map(|what| format!("{}: {what}", at(name))));
                }
                continue;
            }
        }
        follow(&ledger, &chain);
    }
    assert_eq!(checkpoints, 39);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    for (_, wallet) in wallets {
        assert_eq!(ledger.verify(wallet).unwrap(), []);
    }
}

/// Confirmed coins, whatever unconfirmed transactions want of them.
fn compare_chain(ours: &Answers<'_>, node: &Node<'_>, name: &str) -> Option<String> {
    let mut coins = BTreeSet::new();
    for (txid, index, amount, script, height, coinbase) in node.chain_utxos[name].clone() {
        coins.insert((txid, index, sat(&amount).to_string(), script, height, coinbase));
    }
    difference(&ours.chain_coins(), &coins)
}

/// The mempool of the node, told to all wallets at once. What it does not hold is gone, whenever the
/// ledger learnt of it.
fn tell_mempool(
    ledger: &Ledger,
    tip: BlockHash,
    node: &Node<'_>,
    bodies: &BTreeMap<Txid, NewTx>,
) -> Vec<String> {
    let mempool: BTreeSet<Txid> =
        node.mempool.iter().map(|text| Txid::from_reversed_hex(text).unwrap()).collect();
    let new: Vec<NewTx> = mempool.iter().map(|txid| bodies[txid].clone()).collect();
    let (holds, held) = (|txid: &Txid| mempool.contains(txid), |_: &Txid| false);
    let view = MempoolView { tip, holds: &holds, held: &held, grace_us: 0 };
    let applied = ledger.apply_mempool(RegtestA::NETWORK, &view, &new, NOW).unwrap();
    assert!(!applied.is_elsewhere);
    // Telling it again changes nothing.
    let again = ledger.apply_mempool(RegtestA::NETWORK, &view, &new, NOW).unwrap();
    assert!(again.evicted.is_empty());
    let is_unchanged = |recorded: &Recorded| recorded.change == Change::Unchanged;
    assert!(again.recorded.values().flatten().all(is_unchanged));
    applied.refused.iter().map(|refused| format!("not taken: {refused:?}")).collect()
}

/// Coins and balances with what the mempool says.
fn compare_wallet(ours: &Answers<'_>, node: &Node<'_>, name: &str) -> Vec<String> {
    let mut differences = Vec::new();
    let mut listed = BTreeSet::new();
    for (txid, index, amount, script, depth) in node.wallet_utxos[name].clone() {
        listed.insert((txid, index, sat(&amount).to_string(), script, depth));
    }
    // The node does not list what is wanted by a transaction of its wallet that its mempool has
    // dropped, but counts it. The ledger has given that transaction up.
    let wanted = ours.wanted_in_vain();
    let mut coins = ours.wallet_coins();
    coins.retain(|coin| listed.contains(coin) || !wanted.contains(&(coin.0.clone(), coin.1)));
    differences.extend(difference(&coins, &listed));

    let balance = ours.ledger.balance(ours.wallet, &BalanceQuery::default(), NOW).unwrap();
    let sums = [
        balance.confirmed + balance.trusted_unconfirmed,
        balance.untrusted_unconfirmed,
        balance.immature,
    ];
    let Balances { trusted, untrusted_pending, immature } = &node.balances[name];
    let node = [trusted, untrusted_pending, immature].map(|text| sat(text));
    if sums != node {
        differences.push(format!("trusted, untrusted, immature {sums:?}, in the node {node:?}"));
    }
    differences
}

crate::regtest::on_both!(the_ledger_agrees_with_the_node);
