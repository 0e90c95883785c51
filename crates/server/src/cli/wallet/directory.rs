//! Wallets, and what they watch: addresses, descriptors, labels.

use serde::Serialize;

use super::{Desk, files, rows, shown::describe_tip};
use crate::{
    cli::{
        args::{
            AddressAdd, AddressNext, DescriptorAdd, DescriptorList, Disconnect, LabelsExport,
            LabelsImport, OneCoin, OnePage, WalletCreate, WalletList, WalletVerify,
        },
        error::CliError,
        exit::Exit,
        open::Session,
        output::{self, Human, Lines},
    },
    kinds::Codes,
    wallets::{
        AddAddresses, AddDescriptor, CreateWallet, LedgerTip, ListDescriptors, ListWallets, Listed,
        Page, RollBack, VerifyWallet, VerifyWallets, Wallets, WatchAddress,
    },
};

/// Keychain for payments by others.
const RECEIVING: u32 = 0;

/// The longest file of labels.
const LABELS_BYTES_MAX: usize = 64 << 20;

/// What was written to a file of labels.
#[derive(Debug, Serialize)]
struct LabelsExported {
    labels: usize,
}

impl Human for LabelsExported {
    fn describe(&self, lines: &mut Lines) {
        lines.field("labels", self.labels);
    }
}

/// Where a ledger stands after it was rolled back.
#[derive(Debug, Serialize)]
struct RolledBack {
    tip: Option<LedgerTip>,
}

impl Human for RolledBack {
    fn describe(&self, lines: &mut Lines) {
        describe_tip(lines, self.tip.as_ref());
    }
}

/// Says how to find what was paid before to what is watched from now on.
pub(super) fn hint_to_scan(wallet: &str, scan_from_height: Option<u32>) -> Exit {
    if let Some(height) = scan_from_height {
        let wallet = shell_word(wallet);
        output::note(format_args!(
            "the ledger has passed blocks that it does not look at again by itself; to find earlier \
             payments run: utxokeep wallet scan {wallet} --from {height}"
        ));
    }
    Exit::Success
}

/// A name as a shell takes it.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.escape_debug().to_string().replace('\'', "'\\''"))
}

impl Desk {
    pub(super) fn create(&self, args: &WalletCreate) -> anyhow::Result<Exit> {
        let request = CreateWallet {
            name: args.wallet.name.clone(),
            chain: args.network.chain.clone(),
            network: args.network.network.clone(),
            birthday_height: args.birthday,
        };
        self.print(&self.wallets.create_wallet(&request)?)?;
        let network = Wallets::find_network(&request.chain, &request.network)?;
        if args.birthday.is_some() && self.wallets.tip(network)?.is_none() {
            output::note(format_args!(
                "the ledger has no block yet, so that the birthday could not be checked"
            ));
        }
        Ok(Exit::Success)
    }

    pub(super) fn list(&self, args: &WalletList) -> anyhow::Result<Exit> {
        self.print(&rows(&args.page, |Page { cursor, count }| {
            let list = ListWallets { archived: args.archived, cursor, count };
            self.wallets.list_wallets(&list)
        })?)
    }

    pub(super) fn show(&self, name: &str) -> anyhow::Result<Exit> {
        self.print(&self.wallets.show_wallet(name)?)
    }

    pub(super) fn add_addresses(&self, args: &AddressAdd) -> anyhow::Result<Exit> {
        let watch = |address: &String| WatchAddress {
            address: address.clone(),
            spend_weight: args.spend_weight,
        };
        let request = AddAddresses { addresses: args.addresses.iter().map(watch).collect() };
        let watched = self.wallets.add_addresses(&args.wallet.name, &request)?;
        self.print(&watched)?;
        Ok(hint_to_scan(&args.wallet.name, watched.scan_from_height))
    }

    pub(super) fn list_addresses(&self, args: &OnePage) -> anyhow::Result<Exit> {
        let name = &args.wallet.name;
        self.print(&rows(&args.page, |page| self.wallets.list_addresses(name, &page))?)
    }

    pub(super) fn next_address(&self, args: &AddressNext) -> anyhow::Result<Exit> {
        let name = &args.wallet.name;
        let descriptor = if let Some(id) = args.descriptor {
            id
        } else {
            let keychains = self.wallets.list_descriptors(name, ListDescriptors::default())?;
            let receiving = keychains.iter().find(|each| each.keychain == RECEIVING);
            receiving.ok_or_else(|| CliError::NoKeychain { wallet: name.clone() })?.id
        };
        self.print(&self.wallets.next_address(
            name,
            descriptor,
            args.once.idempotency_key.as_deref(),
        )?)
    }

    pub(super) fn add_descriptor(&self, args: &DescriptorAdd) -> anyhow::Result<Exit> {
        let request = AddDescriptor {
            descriptor: args.descriptor.clone(),
            keychain: args.keychain,
            lookahead: args.lookahead,
            next_index: args.next_index,
        };
        let added = self.wallets.add_descriptor(&args.wallet.name, &request)?;
        self.print(&added)?;
        Ok(hint_to_scan(&args.wallet.name, added.scan_from_height))
    }

    pub(super) fn list_descriptors(&self, args: &DescriptorList) -> anyhow::Result<Exit> {
        let list = ListDescriptors { archived: args.archived };
        self.print(&Listed::whole(self.wallets.list_descriptors(&args.wallet.name, list)?))
    }

    pub(super) fn export_labels(&self, args: &LabelsExport) -> anyhow::Result<Exit> {
        let Some(path) = &args.out else {
            output::text(&self.wallets.export_labels(&args.wallet.name)?)?;
            return Ok(Exit::Success);
        };
        let file = files::NewFile::create(path)?;
        let lines = self.wallets.export_labels(&args.wallet.name)?;
        file.write(lines.as_bytes())?;
        self.print(&LabelsExported { labels: lines.lines().count() })
    }

    pub(super) fn import_labels(&self, args: &LabelsImport) -> anyhow::Result<Exit> {
        let lines = files::read_bytes(&args.file, LABELS_BYTES_MAX)?;
        self.print(&self.wallets.import_labels(&args.wallet.name, &lines)?)
    }

    pub(super) fn set_spendable(&self, coin: &OneCoin, spendable: bool) -> anyhow::Result<Exit> {
        let OneCoin { wallet, outpoint } = coin;
        self.print(&self.wallets.set_spendable(&wallet.name, outpoint, spendable)?)
    }

    pub(super) fn verify(&self, session: &Session, args: &WalletVerify) -> anyhow::Result<Exit> {
        let with_chain = args.with_chain || session.is_data_named();
        let mut wallets = self.wallets.clone();
        if with_chain {
            wallets = wallets.with_chain(session.open()?);
        }
        let Some(name) = &args.name else { return self.verify_all(&wallets, with_chain) };
        let verified = wallets.verify_wallet(name, VerifyWallet { with_chain })?;
        self.print(&verified)?;
        Ok(if verified.is_sound { Exit::Success } else { Exit::Unsound })
    }

    /// Checks every wallet. What is broken outweighs what could not be checked.
    fn verify_all(&self, wallets: &Wallets, with_chain: bool) -> anyhow::Result<Exit> {
        let mut all = Listed::whole(Vec::new());
        loop {
            let cursor = all.next_cursor.take();
            let page =
                wallets.verify_wallets(&VerifyWallets { with_chain, cursor, count: None })?;
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

    pub(super) fn disconnect(&self, args: &Disconnect) -> anyhow::Result<Exit> {
        let network = Wallets::find_network(&args.network.chain, &args.network.network)?;
        let request = RollBack { from_height: args.from_height, allow: args.allow.clone() };
        let tip = self.wallets.roll_back(network, &request)?;
        self.print(&RolledBack { tip })
    }
}
