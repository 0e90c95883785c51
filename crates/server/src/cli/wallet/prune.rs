//! `wallet prune`: old transactions leave the ledger when they are on disk elsewhere.
//!
//! # Invariants
//!
//! * A row is in the ledger, in its archive, or in the file, at any moment; after a crash perhaps in
//!   two of them.

use std::path::Path;

use super::{Desk, files};
use crate::{
    cli::{args::WalletPrune, exit::Exit, output},
    wallets::{AcknowledgePruned, PruneWallet, PrunedNow},
};

const DAY_SECS: u64 = 86_400;

impl Desk {
    /// Removes step by step. What a step moved to the archive of the ledger is in the file before the
    /// next one starts.
    pub(super) fn prune(&self, args: &WalletPrune) -> anyhow::Result<Exit> {
        let name = &args.wallet.wallet;
        if let Some(path) = &args.archive {
            files::refuse_ledger(path, &self.ledger_url)?;
        }
        let mut file = args.archive.as_deref().map(files::Archive::open).transpose()?;
        if let (Some(file), Some(path)) = (file.as_mut(), &args.archive) {
            let earlier = self.drain(name, file)?;
            tell_of_earlier(earlier, path);
        }
        let limit = args.limit as usize;
        let mut removed = PrunedNow { transactions: Vec::new(), waiting: 0 };
        while removed.transactions.len() < limit {
            let left = limit - removed.transactions.len();
            let request = PruneWallet {
                wallet: name.clone(),
                dead_older_than_secs: args.dead_older_than.map(|days| u64::from(days) * DAY_SECS),
                confirmed_up_to: args.confirmed_up_to,
                txs_max: u32::try_from(left).ok(),
                discard: args.no_archive,
                is_dry_run: args.dry_run,
            };
            let step = self.wallets.prune_wallet(&request)?;
            let is_empty = step.transactions.is_empty();
            removed.transactions.extend(step.transactions);
            removed.waiting = step.waiting;
            if let Some(file) = file.as_mut() {
                self.drain(name, file)?;
                removed.waiting = 0;
            }
            if is_empty || args.dry_run {
                break;
            }
        }
        if removed.transactions.len() >= limit {
            output::note(format_args!("{limit} transactions are listed; there may be more"));
        }
        if removed.waiting > 0 {
            output::note(format_args!(
                "{} transactions of an earlier run wait in the ledger; the next one with --archive \
                 keeps them",
                removed.waiting
            ));
        }
        self.print(&removed)
    }

    /// Moves what waits in the archive of the ledger to the file. Returns how many.
    fn drain(&self, name: &str, file: &mut files::Archive) -> anyhow::Result<usize> {
        let mut count = 0;
        loop {
            let rows = self.wallets.pruned_rows(name, 0, usize::MAX)?;
            let Some(last) = rows.last() else { return Ok(count) };
            file.append(rows.iter().map(|row| row.document.as_str()))?;
            let (wallet, up_to) = (name.to_owned(), last.id);
            self.wallets.acknowledge_pruned(&AcknowledgePruned { wallet, up_to })?;
            count += rows.len();
        }
    }
}

fn tell_of_earlier(count: usize, path: &Path) {
    if count > 0 {
        output::note(format_args!(
            "{count} transactions that an earlier run had removed are in {} now; lines that were \
             written before it stopped may be there twice",
            path.display()
        ));
    }
}
