//! What the ledger says of one wallet, in the node's words.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{Height, OutPoint, Txid, hex_encode};
use utxokeep_testkit::RegtestA;
use utxokeep_wallet::{
    CoinQuery, ConfirmationRange, HistoryQuery, HistoryScope, Ledger, TxDetail, WalletId,
};

use crate::regtest::chain::NOW;

/// Transaction, index, amount, script, height, whether a coinbase.
pub(crate) type ChainCoin = (String, u32, String, String, u32, bool);
/// Transaction, index, amount, script, confirmations.
pub(crate) type WalletCoin = (String, u32, String, String, u32);

/// What the ledger says of one wallet.
pub(crate) struct Answers<'l> {
    pub(crate) ledger: &'l Ledger,
    pub(crate) wallet: WalletId,
    tip: Height,
    scripts: BTreeMap<i64, Vec<u8>>,
}

impl<'l> Answers<'l> {
    pub(crate) fn new(ledger: &'l Ledger, wallet: WalletId) -> Self {
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
    pub(crate) fn chain_coins(&self) -> BTreeSet<ChainCoin> {
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
    pub(crate) fn wallet_coins(&self) -> BTreeSet<WalletCoin> {
        let mut found = BTreeSet::new();
        let range = ConfirmationRange::at_least(1);
        let mut query = CoinQuery { range, ..CoinQuery::default() };
        loop {
            let page = self.ledger.coins(self.wallet, &query, NOW).unwrap();
            let Some(last) = page.last() else { return found };
            query.after = Some((last.amount, last.outpoint));
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

    /// Transactions in no block, with whether they are live.
    pub(crate) fn unconfirmed(&self) -> BTreeMap<Txid, bool> {
        let scope = HistoryScope::Unconfirmed;
        let mut query = HistoryQuery { scope, ..HistoryQuery::default() };
        let mut found = BTreeMap::new();
        loop {
            let page = self.ledger.history(self.wallet, &query).unwrap();
            let Some(last) = page.last() else { return found };
            query.after = Some(last.cursor);
            found.extend(page.iter().map(|tx| (tx.txid, tx.state.is_live())));
        }
    }

    /// What the transactions that are not live wanted to spend.
    pub(crate) fn wanted_in_vain(&self) -> BTreeSet<(String, u32)> {
        let dead = self.unconfirmed().into_iter().filter(|(_, is_live)| !is_live);
        let inputs = dead.flat_map(|(txid, _)| self.detail(&txid).inputs);
        inputs.map(|input| names(&input.outpoint)).collect()
    }

    fn detail(&self, txid: &Txid) -> TxDetail {
        self.ledger.transaction(self.wallet, txid).unwrap()
    }
}

fn names(outpoint: &OutPoint) -> (String, u32) {
    (outpoint.txid().to_reversed_hex(), outpoint.index())
}
