//! `wallet …`: the wallet ledger.
//!
//! Each command makes the request that REST and gRPC would send, and prints the answer they would
//! get. A new ledger is made by `create` and `follow` only.

mod archive;
mod directory;
mod events;
pub(super) mod files;
mod history;
mod payments;
mod prune;
mod records;
mod shown;
mod shown_payments;

use serde::Serialize;

use super::{
    args::{Labels, Lease, Paging, Wallet, WalletAddress, WalletCommand, WalletDescriptor},
    exit::Exit,
    open::Session,
    output::{self, Human},
    wallet_follow,
};
use crate::wallets::{Listed, Page, Wallets, WalletsError};
use utxokeep::engine::known_ledger;

/// Does what a command asks.
pub(super) fn wallet(session: &Session, args: &Wallet) -> anyhow::Result<Exit> {
    let session = session.with_ledger(args.ledger.as_deref())?;
    let desk = || Desk::open(&session);
    match &args.command {
        WalletCommand::Create(args) => desk()?.create(args),
        WalletCommand::List(args) => desk()?.list(args),
        WalletCommand::Archive(args) => desk()?.archive_wallet(args),
        WalletCommand::Restore(wallet) => desk()?.restore_wallet(&wallet.name),
        WalletCommand::Show(wallet) => desk()?.show(&wallet.name),
        WalletCommand::Address(command) => match command {
            WalletAddress::Add(args) => desk()?.add_addresses(args),
            WalletAddress::List(args) => desk()?.list_addresses(args),
            WalletAddress::Next(args) => desk()?.next_address(args),
        },
        WalletCommand::Descriptor(command) => match command {
            WalletDescriptor::Add(args) => desk()?.add_descriptor(args),
            WalletDescriptor::List(args) => desk()?.list_descriptors(args),
            WalletDescriptor::Archive(args) => desk()?.archive_descriptor(args),
            WalletDescriptor::Restore(args) => desk()?.restore_descriptor(args),
        },
        WalletCommand::Balance(args) => desk()?.balance(args),
        WalletCommand::Utxos(args) => desk()?.utxos(args),
        WalletCommand::Txs(args) => desk()?.txs(args),
        WalletCommand::Tx(tx) => desk()?.tx(tx),
        WalletCommand::Replacements(args) => desk()?.replacements(args),
        WalletCommand::Record(args) => desk()?.record(args),
        WalletCommand::Publish(tx) => desk()?.publish(tx),
        WalletCommand::Confirm(args) => desk()?.confirm(args),
        WalletCommand::Abandon(tx) => desk()?.abandon(tx),
        WalletCommand::Unconfirm(tx) => desk()?.unconfirm(tx),
        WalletCommand::Remove(tx) => desk()?.remove(tx),
        WalletCommand::Label(args) => desk()?.label(args),
        WalletCommand::Lease(command) => match command {
            Lease::Acquire(args) => desk()?.acquire(args),
            Lease::Renew(args) => desk()?.renew(&args.lease),
            Lease::Clean(wallet) => desk()?.clean_leases(&wallet.name),
            Lease::Release(args) => desk()?.release(args),
            Lease::List(args) => desk()?.leases(args),
        },
        WalletCommand::Select(args) => desk()?.select(args),
        WalletCommand::Psbt(args) => desk()?.psbt(args),
        WalletCommand::Bump(args) => desk()?.bump(args),
        WalletCommand::Labels(command) => match command {
            Labels::Export(args) => desk()?.export_labels(args),
            Labels::Import(args) => desk()?.import_labels(args),
        },
        WalletCommand::Freeze(coin) => desk()?.set_spendable(coin, false),
        WalletCommand::Unfreeze(coin) => desk()?.set_spendable(coin, true),
        WalletCommand::Prune(args) => desk()?.prune(args),
        WalletCommand::Verify(args) => desk()?.verify(&session, args),
        WalletCommand::Disconnect(args) => desk()?.disconnect(args),
        WalletCommand::Events(args) => desk()?.events(args),
        WalletCommand::Webhook(command) => desk()?.webhook(command),
        WalletCommand::Follow(args) => wallet_follow::follow(&session, args),
        WalletCommand::Scan(args) => wallet_follow::scan(&session, args),
    }
}

/// An open ledger, and how answers are wanted.
struct Desk {
    wallets: Wallets,
    ledger_url: String,
    json: bool,
}

impl Desk {
    fn open(session: &Session) -> anyhow::Result<Self> {
        let config = &session.config().wallet;
        let wallets = known_ledger(session.config(), session.mode())?;
        Ok(Self { wallets, ledger_url: config.url.clone(), json: session.json() })
    }

    fn print(&self, answer: &(impl Serialize + Human)) -> anyhow::Result<Exit> {
        output::result(self.json, answer)?;
        Ok(Exit::Success)
    }
}

/// Rows up to the limit, page by page; the cursor is there only if there are more.
fn rows<T>(
    paging: &Paging,
    mut page: impl FnMut(Page) -> Result<Listed<T>, WalletsError>,
) -> Result<Listed<T>, WalletsError> {
    let mut all = Listed::whole(Vec::new());
    all.next_cursor.clone_from(&paging.cursor);
    loop {
        let have = u32::try_from(all.items.len()).unwrap_or(u32::MAX);
        let left = paging.limit.saturating_sub(have);
        let more = page(Page { cursor: all.next_cursor.clone(), count: Some(left.max(1)) })?;
        if left == 0 {
            // A page that came out full has a cursor even if it was the last.
            all.next_cursor.take_if(|_| more.items.is_empty());
            return Ok(all);
        }
        all.items.extend(more.items);
        all.set_aside = more.set_aside;
        all.next_cursor = more.next_cursor;
        if all.next_cursor.is_none() {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of at most three of the numbers below `end`.
    fn numbers(end: u32) -> impl FnMut(Page) -> Result<Listed<u32>, WalletsError> {
        move |page| {
            let first = page.cursor.map_or(0, |text| text.parse().unwrap());
            let count = page.count.unwrap().min(3);
            let items: Vec<u32> = (first..end).take(count as usize).collect();
            let is_full = items.len() == count as usize;
            let next_cursor = is_full.then(|| (first + count).to_string());
            Ok(Listed { next_cursor, ..Listed::whole(items) })
        }
    }

    #[test]
    fn pages_are_joined_up_to_the_limit_and_more_is_told_exactly() {
        let cases = [(5, 10, 5, None), (6, 6, 6, None), (7, 6, 6, Some("6")), (3, 1, 1, Some("1"))];
        for (end, limit, rows_expected, more) in cases {
            let paging = Paging { limit, cursor: None };
            let all = rows(&paging, numbers(end)).unwrap();
            assert_eq!(all.items, (0..rows_expected).collect::<Vec<_>>());
            assert_eq!(all.next_cursor.as_deref(), more, "{end} {limit}");
        }
        let behind = Paging { limit: 10, cursor: Some("4".to_owned()) };
        assert_eq!(rows(&behind, numbers(6)).unwrap().items, [4, 5]);
    }
}
