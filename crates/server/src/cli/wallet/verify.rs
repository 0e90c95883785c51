//! `wallet verify`: one wallet, or all of them.

use utxokeep::ops::Answer as _;

use super::Desk;
use crate::{
    cli::{args::WalletVerify, exit::Exit, open::Session},
    kinds::Codes,
    wallets::{Listed, VerifyWallet, VerifyWallets, Wallets},
};

impl Desk {
    pub(super) fn verify(&self, session: &Session, args: &WalletVerify) -> anyhow::Result<Exit> {
        let with_chain = args.with_chain || session.is_data_named();
        let mut wallets = self.wallets.clone();
        if with_chain {
            wallets = wallets.with_chain(session.open()?);
        }
        let Some(name) = &args.name else { return self.verify_all(&wallets, with_chain) };
        let request = VerifyWallet { wallet: name.clone(), with_chain };
        let verified = wallets.verify_wallet(&request)?;
        self.print(&verified)?;
        Ok(verified.fault().map_or(Exit::Success, |kind| Codes::of(kind).exit))
    }

    /// Checks every wallet. What is broken outweighs what could not be checked.
    fn verify_all(&self, wallets: &Wallets, with_chain: bool) -> anyhow::Result<Exit> {
        let mut all = Listed::whole(Vec::new());
        loop {
            let cursor = all.next_cursor.take();
            let page =
                wallets.verify_wallets(&VerifyWallets { with_chain, cursor, page_size: None })?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() {
                break;
            }
        }
        self.print(&all)?;
        let mut verified = all.items.iter().filter_map(|each| each.verified.as_ref());
        if verified.any(|verified| !verified.is_sound) {
            return Ok(Exit::Unsound);
        }
        let failures = all.items.iter().filter_map(|each| each.error.as_ref());
        let exits = failures.map(|error| Codes::of(error.kind).exit);
        Ok(exits.max_by_key(|exit| *exit == Exit::Unsound).unwrap_or(Exit::Success))
    }
}
