//! `wallet archive`, `restore`, and the same for keychains.

use serde::Serialize;

use super::{Desk, directory::hint_to_scan};
use crate::{
    cli::{
        args::{Allowed, DescriptorArchive, OneDescriptor, WalletArchive},
        exit::Exit,
        output::{Human, Lines},
    },
    wallets::{Archive, Restored},
};

/// What was archived.
#[derive(Debug, Serialize)]
struct Archived<'a> {
    wallet: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor: Option<i64>,
}

impl Human for Archived<'_> {
    fn describe(&self, lines: &mut Lines) {
        lines.field("archived", self.wallet.escape_debug()).optional("keychain", self.descriptor);
    }
}

impl Human for Restored {
    fn describe(&self, lines: &mut Lines) {
        lines.field("restored", "yes").optional("scan from", self.scan_from_height);
    }
}

impl Desk {
    pub(super) fn archive_wallet(&self, args: &WalletArchive) -> anyhow::Result<Exit> {
        let wallet = &args.wallet.name;
        self.wallets.archive_wallet(wallet, &allowed(&args.allowed))?;
        self.print(&Archived { wallet, descriptor: None })
    }

    pub(super) fn restore_wallet(&self, name: &str) -> anyhow::Result<Exit> {
        let restored = self.wallets.restore_wallet(name)?;
        self.print(&restored)?;
        Ok(hint_to_scan(name, restored.scan_from_height))
    }

    pub(super) fn archive_descriptor(&self, args: &DescriptorArchive) -> anyhow::Result<Exit> {
        let OneDescriptor { wallet, id } = &args.descriptor;
        self.wallets.archive_descriptor(&wallet.name, *id, &allowed(&args.allowed))?;
        self.print(&Archived { wallet: &wallet.name, descriptor: Some(*id) })
    }

    pub(super) fn restore_descriptor(&self, args: &OneDescriptor) -> anyhow::Result<Exit> {
        let restored = self.wallets.restore_descriptor(&args.wallet.name, args.id)?;
        self.print(&restored)?;
        Ok(hint_to_scan(&args.wallet.name, restored.scan_from_height))
    }
}

fn allowed(args: &Allowed) -> Archive {
    Archive { allow: args.allow.clone() }
}
