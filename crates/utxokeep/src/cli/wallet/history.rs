//! What a wallet has, and how it came about.

use super::{Desk, files, rows};
use crate::{
    cli::{
        args::{OneTx, Replacements, Txs, WalletBalance, WalletPrune, WalletUtxos},
        exit::Exit,
        output,
    },
    wallets::{Archive, BalanceOf, ListCoins, ListTransactions, Listed, Page, PruneWallet},
};

const DAY_SECS: u64 = 86_400;

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

    /// Removes step by step; what a step removed is in the file before the next one starts.
    pub(super) fn prune(&self, args: &WalletPrune) -> anyhow::Result<Exit> {
        let mut file = args.archive.as_deref().map(files::Archive::open).transpose()?;
        let limit = args.limit as usize;
        let mut removed = Archive { transactions: Vec::new() };
        while removed.transactions.len() < limit {
            let left = limit - removed.transactions.len();
            let request = PruneWallet {
                dead_older_than_secs: args.dead_older_than.map(|days| u64::from(days) * DAY_SECS),
                confirmed_up_to: args.confirmed_up_to,
                txs_max: u32::try_from(left).ok(),
            };
            let step = self.wallets.prune_wallet(&args.wallet.name, &request)?;
            if step.transactions.is_empty() {
                return self.print(&removed);
            }
            if let Some(Err(error)) = file.as_mut().map(|file| file.append(&step.transactions)) {
                // They are gone from the ledger; this is the last chance to keep them.
                output::result(true, &step)?;
                return Err(error.into());
            }
            removed.transactions.extend(step.transactions);
        }
        output::note(format_args!("{limit} transactions were removed; there may be more"));
        self.print(&removed)
    }
}
