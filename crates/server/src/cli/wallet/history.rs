//! What a wallet has, and how it came about.

use super::{Desk, rows};
use crate::{
    cli::{
        args::{OneTx, Replacements, Txs, WalletBalance, WalletUtxos},
        exit::Exit,
        output,
    },
    wallets::{BalanceOf, ListCoins, ListTransactions, Listed, Page},
};

impl Desk {
    pub(super) fn balance(&self, args: &WalletBalance) -> anyhow::Result<Exit> {
        let of = BalanceOf {
            min_confirmations: args.confirmations.min_conf,
            max_confirmations: args.confirmations.max_conf,
        };
        self.print(&self.wallets.balance(&args.wallet.name, &of)?)
    }

    pub(super) fn utxos(&self, args: &WalletUtxos) -> anyhow::Result<Exit> {
        let coins = rows(&args.page, |page| {
            let list = ListCoins {
                min_confirmations: args.confirmations.min_conf,
                max_confirmations: args.confirmations.max_conf,
                only_free: args.only_free,
                descriptor: args.descriptor,
                address: args.address,
                cursor: page.cursor,
                count: page.count,
            };
            self.wallets.list_coins(&args.wallet.name, &list)
        })?;
        self.print(&coins)
    }

    pub(super) fn txs(&self, args: &Txs) -> anyhow::Result<Exit> {
        let history = rows(&args.page, |page| {
            let list = ListTransactions {
                unconfirmed: args.unconfirmed,
                from_height: args.from,
                to_height: args.to,
                newest_first: args.newest_first,
                cursor: page.cursor,
                count: page.count,
            };
            self.wallets.list_transactions(&args.wallet.name, &list)
        })?;
        self.print(&history)
    }

    pub(super) fn tx(&self, tx: &OneTx) -> anyhow::Result<Exit> {
        self.print(&self.wallets.show_transaction(&tx.wallet.name, &tx.txid)?)
    }

    pub(super) fn replacements(&self, args: &Replacements) -> anyhow::Result<Exit> {
        let page = Page { cursor: None, count: Some(args.limit) };
        let (name, txid) = (&args.tx.wallet.name, &args.tx.txid);
        let found = self.wallets.list_replacements(name, txid, &page)?;
        let rows_max = args.limit.min(self.wallets.config().page_rows_max.get());
        if found.len() >= rows_max as usize {
            output::note(format_args!("these are the first {rows_max} rows; there may be more"));
        }
        self.print(&Listed::whole(found))
    }
}
