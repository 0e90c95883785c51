//! At every checkpoint of the node's history the ledger has the node's coins and balances.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use utxokeep_core::{BlockHash, Height, OutPoint, Txid, hex_encode};
use utxokeep_testkit::{EventKind, RegtestA, sat};
use utxokeep_wallet::{
    BalanceQuery, CoinClass, CoinQuery, ConfirmationRange, HistoryQuery, HistoryScope, Ledger,
    WalletId,
};

use crate::chain::{NOW, TestChain, follow, hd_descriptors, open, wallet, watch_descriptors};

#[derive(Debug, Deserialize)]
struct Balances {
    trusted: String,
    untrusted_pending: String,
    immature: String,
}

/// Transaction, index, amount, script, height, whether a coinbase.
type ChainCoin = (String, u32, String, String, u32, bool);
/// Transaction, index, amount, script, confirmations.
type WalletCoin = (String, u32, String, String, u32);

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

fn moments() -> Vec<Moment> {
    let text = RegtestA::default().text("events.jsonl.xz");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the ledger says of one wallet.
struct Answers<'l> {
    ledger: &'l Ledger,
    wallet: WalletId,
    tip: Height,
    scripts: BTreeMap<i64, Vec<u8>>,
}

impl<'l> Answers<'l> {
    fn new(ledger: &'l Ledger, wallet: WalletId) -> Self {
        let mut scripts = BTreeMap::new();
        loop {
            let after = scripts.last_key_value().map_or(0, |(id, _)| *id);
            let page = ledger.addresses(wallet, after, 1_000).unwrap();
            if page.is_empty() {
                break;
            }
            scripts.extend(page.into_iter().map(|address| (address.id, address.script)));
        }
        let tip = ledger.tip(RegtestA::NETWORK).unwrap().unwrap().0;
        Self { ledger, wallet, tip, scripts }
    }

    /// Block and coinbase flag of all confirmed transactions.
    fn confirmed_txs(&self) -> BTreeMap<Txid, (u32, bool)> {
        let mut found = BTreeMap::new();
        let mut query = HistoryQuery {
            scope: HistoryScope::Heights(Height::GENESIS, self.tip),
            ..HistoryQuery::default()
        };
        loop {
            let page = self.ledger.history(self.wallet, &query).unwrap();
            let Some(last) = page.last() else { return found };
            query.after = Some(last.cursor);
            let facts =
                page.iter().map(|tx| (tx.txid, (tx.state.block().unwrap().get(), tx.coinbase)));
            found.extend(facts);
        }
    }

    /// Confirmed outputs that no confirmed transaction spends.
    fn chain_coins(&self) -> BTreeSet<ChainCoin> {
        let confirmed = self.confirmed_txs();
        let mut found = BTreeSet::new();
        let mut after = 0;
        loop {
            let page = self.ledger.outputs_to_watch(self.wallet, after, 1_000).unwrap();
            let Some(last) = page.last() else { return found };
            after = last.id;
            for output in &page {
                let Some((height, coinbase)) = confirmed.get(output.outpoint.txid()) else {
                    continue;
                };
                let (txid, index) = names(&output.outpoint);
                let script = hex_encode(&output.script);
                let amount = output.amount.get().to_string();
                found.insert((txid, index, amount, script, *height, *coinbase));
            }
        }
    }

    /// Mature confirmed outputs that nothing spends.
    fn wallet_coins(&self) -> BTreeSet<WalletCoin> {
        let mut found = BTreeSet::new();
        let range = ConfirmationRange::at_least(1);
        let mut query = CoinQuery { range, ..CoinQuery::default() };
        loop {
            let page = self.ledger.coins(self.wallet, &query, NOW).unwrap();
            let Some(last) = page.last() else { return found };
            query.after = Some((last.amount, last.id));
            for coin in &page {
                let height = coin.height.unwrap();
                let depth = self.tip.get() - height.get();
                if coin.coinbase && depth < 100 {
                    continue;
                }
                let (txid, index) = names(&coin.outpoint);
                let script = hex_encode(&self.scripts[&coin.address_id]);
                found.insert((txid, index, coin.amount.get().to_string(), script, depth + 1));
            }
        }
    }

    /// Coins that transactions wanted which failed with the coinbase they depend on.
    ///
    /// The node goes on counting those coins as spent, although its mempool has dropped the
    /// spender, until a block spends another input of it. The ledger frees them.
    fn wanted_by_failed(&self, chain: &TestChain) -> BTreeSet<(String, u32)> {
        let scope = HistoryScope::Unconfirmed;
        let mut query = HistoryQuery { scope, ..HistoryQuery::default() };
        let mut wanted = BTreeSet::new();
        loop {
            let page = self.ledger.history(self.wallet, &query).unwrap();
            let Some(last) = page.last() else { return wanted };
            query.after = Some(last.cursor);
            for tx in &page {
                let Some(root) = tx.invalidated_by else { continue };
                let root = self.ledger.transaction(self.wallet, &root).unwrap();
                let inputs = self.ledger.transaction(self.wallet, &tx.txid).unwrap().inputs;
                let is_free = inputs.iter().all(|input| !chain.is_spent(&input.outpoint));
                if root.summary.coinbase && is_free {
                    wanted.extend(inputs.iter().map(|input| names(&input.outpoint)));
                }
            }
        }
    }

    /// Sums of trusted and untrusted coins that transactions of the mempool make.
    fn unconfirmed(&self, mempool: &BTreeSet<&String>) -> (u64, u64) {
        let mut sums = (0, 0);
        let mut query = CoinQuery::default();
        loop {
            let page = self.ledger.coins(self.wallet, &query, NOW).unwrap();
            let Some(last) = page.last() else { return sums };
            query.after = Some((last.amount, last.id));
            for coin in &page {
                let amount = coin.amount.get();
                match coin.class {
                    _ if !mempool.contains(&names(&coin.outpoint).0) => {}
                    CoinClass::Trusted => sums.0 += amount,
                    CoinClass::Untrusted => sums.1 += amount,
                    _ => {}
                }
            }
        }
    }
}

fn names(outpoint: &OutPoint) -> (String, u32) {
    (outpoint.txid().to_reversed_hex(), outpoint.index())
}

/// What two sets do not share, in words; nothing when they are equal.
fn difference<T: Ord + std::fmt::Debug>(ours: &BTreeSet<T>, node: &BTreeSet<T>) -> Option<String> {
    let only_ours: Vec<&T> = ours.difference(node).take(5).collect();
    let only_node: Vec<&T> = node.difference(ours).take(5).collect();
    let same = only_ours.is_empty() && only_node.is_empty();
    (!same).then(|| format!("only in the ledger {only_ours:?}, only in the node {only_node:?}"))
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
    let mut checkpoints = 0;
    let mut differences = Vec::new();
    for moment in moments() {
        let hash = BlockHash::from_reversed_hex(&moment.hash).unwrap();
        match moment.ev {
            EventKind::Connect => chain.connect(hash),
            EventKind::Disconnect => chain.disconnect(hash),
            EventKind::Tip => {
                checkpoints += usize::from(moment.chain_utxos.is_some());
                for (name, wallet) in wallets {
                    let found = compare(&moment, name, &Answers::new(&ledger, wallet), &chain);
                    let at = format!("{name} at {} ({})", moment.height, moment.note);
                    differences.extend(found.into_iter().map(|what| format!("{at}: {what}")));
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

/// Everything in which the ledger differs from the node.
fn compare(moment: &Moment, name: &str, ours: &Answers<'_>, chain: &TestChain) -> Vec<String> {
    let (Some(chain_utxos), Some(wallet_utxos), Some(balances), Some(mempool)) =
        (&moment.chain_utxos, &moment.wallet_utxos, &moment.wallet, &moment.mempool)
    else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    let mut node = BTreeSet::new();
    for (txid, index, amount, script, height, coinbase) in chain_utxos[name].clone() {
        node.insert((txid, index, sat(&amount).to_string(), script, height, coinbase));
    }
    differences.extend(difference(&ours.chain_coins(), &node));

    let mut node = BTreeSet::new();
    for (txid, index, amount, script, depth) in wallet_utxos[name].clone() {
        node.insert((txid, index, sat(&amount).to_string(), script, depth));
    }
    let wanted = ours.wanted_by_failed(chain);
    let mut coins = ours.wallet_coins();
    coins.retain(|(txid, index, ..)| !wanted.contains(&(txid.clone(), *index)));
    differences.extend(difference(&coins, &node));

    let balance = ours.ledger.balance(ours.wallet, &BalanceQuery::default(), NOW).unwrap();
    let confirmed: u64 = coins.iter().map(|coin| coin.2.parse::<u64>().unwrap()).sum();
    let (trusted, untrusted) = ours.unconfirmed(&mempool.iter().collect());
    let ours = [confirmed + trusted, untrusted, balance.immature];
    let Balances { trusted, untrusted_pending, immature } = &balances[name];
    let node = [trusted, untrusted_pending, immature].map(|text| sat(text));
    if ours != node {
        differences.push(format!("trusted, untrusted, immature {ours:?}, in the node {node:?}"));
    }
    differences
}

crate::on_both!(the_ledger_agrees_with_the_node);
