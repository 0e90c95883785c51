//! `wallet …`: the wallet ledger.
//!
//! Most commands come from the table of operations. Those here take or write files besides, or work
//! until they are stopped. A new ledger is made by `create` and `follow` only.

mod events;
pub(super) mod files;
mod labels;
mod payments;
mod prune;
mod records;
mod verify;

use serde::Serialize;
use utxokeep::{engine::known_ledger, ops::Answer};

use super::{
    args::{Labels, Wallet, WalletCommand},
    exit::Exit,
    open::Session,
    output::{self, Human},
    wallet_follow,
};
use crate::wallets::Wallets;

/// Does what a command asks.
pub(super) fn wallet(session: &Session, args: &Wallet) -> anyhow::Result<Exit> {
    let session = session.with_ledger(args.ledger.as_deref())?;
    let desk = || Desk::open(&session);
    match &args.command {
        WalletCommand::Record(args) => desk()?.record(args),
        WalletCommand::Psbt(args) => desk()?.psbt(args),
        WalletCommand::Bump(args) => desk()?.bump(args),
        WalletCommand::Broadcast(args) => desk()?.broadcast(args),
        WalletCommand::Labels(Labels::Export(args)) => desk()?.export_labels(args),
        WalletCommand::Labels(Labels::Import(args)) => desk()?.import_labels(args),
        WalletCommand::Prune(args) => desk()?.prune(args),
        WalletCommand::Verify(args) => desk()?.verify(&session, args),
        WalletCommand::Events(args) => desk()?.events(args),
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
        let wallets = known_ledger(session.config(), session.mode())?.alone();
        Ok(Self { wallets, ledger_url: config.url.clone(), json: session.json() })
    }

    fn print(&self, answer: &impl Answer) -> anyhow::Result<Exit> {
        output::answer(self.json, answer)?;
        Ok(Exit::Success)
    }

    /// Prints what only the command line answers with.
    fn tell(&self, answer: &(impl Serialize + Human)) -> anyhow::Result<Exit> {
        output::result(self.json, answer)?;
        Ok(Exit::Success)
    }
}
