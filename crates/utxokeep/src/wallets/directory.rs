//! Wallets, and what they watch: addresses, descriptors, labels.

use utxokeep_core::{Height, Network};
use utxokeep_wallet::{ArchiveBlocker, LabelCursor, NewAddress, NewDescriptor, WalletId};

use super::{
    AddAddresses, AddDescriptor, AddressInfo, Archive, CoinWish, CreateWallet, DescriptorAdded,
    DescriptorInfo, LabelsImported, LedgerTip, ListDescriptors, ListWallets, Listed,
    NewAddressInfo, Page, Restored, SetLabel, StandingInfo, WalletInfo, WalletStatus, Wallets,
    WalletsError, Watched, now, once::Asked, texts,
};
use crate::memory;

impl Wallets {
    /// Rows of a page.
    pub(super) fn rows(&self, count: Option<u32>) -> usize {
        count.unwrap_or(u32::MAX).clamp(1, self.config.page_rows_max.get()) as usize
    }

    /// The last block of a network that the ledger has applied.
    pub fn tip(&self, network: Network) -> Result<Option<LedgerTip>, WalletsError> {
        Ok(self.ledger.tip(network)?.map(|tip| LedgerTip::new(network, tip)))
    }

    /// Makes a wallet.
    pub fn create_wallet(&self, request: &CreateWallet) -> Result<WalletInfo, WalletsError> {
        let network = Network::find(&request.chain, &request.network)?;
        let birthday = request.birthday_height.map(Height::new);
        let wallet = self.ledger.create_wallet_born(&request.name, network, birthday, now())?;
        Ok(WalletInfo::new(&wallet, StandingInfo::default()))
    }

    /// A page of all wallets, in the order they were made.
    pub fn list_wallets(&self, list: &ListWallets) -> Result<Listed<WalletInfo>, WalletsError> {
        let page = Page { cursor: list.cursor.clone(), count: list.count };
        let after = number_cursor(&page)?.map(WalletId::new);
        let rows = self.rows(page.count);
        let wallets = if list.archived {
            self.ledger.wallets_and_archived(after, rows)?
        } else {
            self.ledger.wallets(after, rows)?
        };
        let mut standings = self.standings(&wallets)?;
        Ok(Listed::new(
            &wallets,
            rows,
            |last| last.id.to_string(),
            |each| WalletInfo::new(each, standings.remove(&each.id).unwrap_or_default()),
        ))
    }

    /// One wallet.
    pub fn show_wallet(&self, name: &str) -> Result<WalletStatus, WalletsError> {
        let wallet = self.wallet(name)?;
        let standing = self.standing(&wallet)?;
        let keychains = self.ledger.descriptors(wallet.id)?;
        let near_edge = keychains.iter().filter(|each| each.edge_index.is_some());
        Ok(WalletStatus {
            wallet: WalletInfo::new(&wallet, standing),
            tip: self.tip(wallet.network)?,
            birthday_height: self.ledger.birthday(wallet.id)?.map(Height::get),
            descriptors_near_edge: near_edge.map(|each| each.id).collect(),
        })
    }

    /// Watches addresses, all or none. What is watched already takes the weight that is given.
    pub fn add_addresses(
        &self,
        name: &str,
        request: &AddAddresses,
    ) -> Result<Watched, WalletsError> {
        let wallet = self.wallet(name)?;
        let watch = |each: &super::WatchAddress| {
            let script = texts::script(wallet.network, &each.address)?;
            let address = texts::address(wallet.network, &script);
            Ok(NewAddress { script, address, spend_weight: each.spend_weight })
        };
        let addresses: Vec<NewAddress> =
            request.addresses.iter().map(watch).collect::<Result<_, WalletsError>>()?;
        let added = self.ledger.add_addresses(wallet.id, &addresses, now())?;
        let scan_from_height = added.scan_from.map(Height::get);
        Ok(Watched { address_ids: added.ids, scan_from_height })
    }

    /// A page of watched addresses, in the order they were added.
    pub fn list_addresses(
        &self,
        name: &str,
        page: &Page,
    ) -> Result<Listed<AddressInfo>, WalletsError> {
        let wallet = self.wallet(name)?;
        let after = number_cursor(page)?.unwrap_or(0);
        let rows = self.rows(page.count);
        let addresses = self.ledger.addresses(wallet.id, after, rows)?;
        Ok(Listed::new(
            &addresses,
            rows,
            |last| last.id.to_string(),
            |each| AddressInfo::new(wallet.network, each),
        ))
    }

    /// Watches a descriptor. One that is watched already takes a larger lookahead or next index.
    pub fn add_descriptor(
        &self,
        name: &str,
        request: &AddDescriptor,
    ) -> Result<DescriptorAdded, WalletsError> {
        let wallet = self.wallet(name)?;
        if wallet.network.is_cardano() {
            let what = "an output descriptor";
            return Err(WalletsError::WrongChain { what, network: wallet.network });
        }
        let new = NewDescriptor {
            text: request.descriptor.clone(),
            keychain: request.keychain,
            lookahead: request.lookahead,
            next_index: request.next_index,
        };
        let added = self.ledger.add_descriptor(wallet.id, &new, now())?;
        let scan_from = self.ledger.scan_from(wallet.id)?;
        let info = |watched| DescriptorInfo::new(watched, scan_from);
        Ok(DescriptorAdded {
            items: added.keychains.into_iter().map(info).collect(),
            scan_from_height: added.scan_from.map(Height::get),
        })
    }

    /// The keychains of a wallet.
    pub fn list_descriptors(
        &self,
        name: &str,
        list: ListDescriptors,
    ) -> Result<Vec<DescriptorInfo>, WalletsError> {
        let wallet = self.wallet_id(name)?;
        let scan_from = self.ledger.scan_from(wallet)?;
        let info = |watched| DescriptorInfo::new(watched, scan_from);
        let keychains = if list.archived {
            self.ledger.descriptors_and_archived(wallet)?
        } else {
            self.ledger.descriptors(wallet)?
        };
        Ok(keychains.into_iter().map(info).collect())
    }

    /// Archives a wallet: it is not followed any more and takes nothing. Its history stays.
    pub fn archive_wallet(&self, name: &str, request: &Archive) -> Result<(), WalletsError> {
        let allow = blockers(request)?;
        Ok(self.ledger.archive_wallet(self.wallet_id(name)?, &allow, now())?)
    }

    /// Takes a wallet out of the archive.
    pub fn restore_wallet(&self, name: &str) -> Result<Restored, WalletsError> {
        let scan_from = self.ledger.restore_wallet(self.wallet_id(name)?, now())?;
        Ok(Restored { scan_from_height: scan_from.map(Height::get) })
    }

    /// Archives a keychain: its scripts are not watched any more.
    pub fn archive_descriptor(
        &self,
        name: &str,
        descriptor: i64,
        request: &Archive,
    ) -> Result<(), WalletsError> {
        let (wallet, allow) = (self.wallet_id(name)?, blockers(request)?);
        Ok(self.ledger.archive_descriptor(wallet, descriptor, &allow, now())?)
    }

    /// Takes a keychain out of the archive.
    pub fn restore_descriptor(
        &self,
        name: &str,
        descriptor: i64,
    ) -> Result<Restored, WalletsError> {
        let wallet = self.wallet_id(name)?;
        let scan_from = self.ledger.restore_descriptor(wallet, descriptor, now())?;
        Ok(Restored { scan_from_height: scan_from.map(Height::get) })
    }

    /// Hands out the next address of a keychain.
    pub fn next_address(
        &self,
        name: &str,
        descriptor: i64,
        idempotency_key: Option<&str>,
    ) -> Result<NewAddressInfo, WalletsError> {
        let wallet = self.wallet(name)?;
        let asked = Asked { operation: "next_address", request: &descriptor, key: idempotency_key };
        self.once(&wallet, &asked, |open| Ok(open.reveal_next_address(descriptor)?.into()))
    }

    /// Sets the label of a transaction; empty text clears it.
    pub fn set_tx_label(
        &self,
        name: &str,
        txid: &str,
        request: &SetLabel,
    ) -> Result<(), WalletsError> {
        let wallet = self.wallet(name)?;
        let txid = texts::txid(wallet.network, txid)?;
        Ok(self.ledger.set_tx_label(wallet.id, &txid, &request.label, now())?)
    }

    /// All labels as lines of BIP-329. Labels that are set meanwhile may be missing.
    pub fn export_labels(&self, name: &str) -> Result<String, WalletsError> {
        let (mut lines, mut after) = (String::new(), None);
        while let Some((page, last)) = self.export_labels_page(name, after.as_ref())? {
            // While the text grows, the old one is there as well.
            memory::take(page.len().saturating_mul(2))?;
            lines.push_str(&page);
            after = Some(last);
        }
        Ok(lines)
    }

    /// The labels behind one, as lines of BIP-329, with the last of them; `None` at the end.
    pub fn export_labels_page(
        &self,
        name: &str,
        after: Option<&LabelCursor>,
    ) -> Result<Option<(String, LabelCursor)>, WalletsError> {
        let (page, last) = self.ledger.export_labels(self.wallet_id(name)?, after, usize::MAX)?;
        Ok(last.map(|last| (page, last)))
    }

    /// Sets labels from lines of BIP-329. Lines that cannot be used are skipped and reported.
    pub fn import_labels(&self, name: &str, lines: &[u8]) -> Result<LabelsImported, WalletsError> {
        Ok(self.ledger.import_labels(self.wallet_id(name)?, lines, now())?.into())
    }

    /// Holds an output back from selections and leases, or lets it go.
    pub fn set_spendable(
        &self,
        name: &str,
        outpoint: &str,
        spendable: bool,
    ) -> Result<CoinWish, WalletsError> {
        let wallet = self.wallet(name)?;
        let output = texts::outpoint(wallet.network, outpoint)?;
        self.ledger.set_spendable(wallet.id, &output, spendable, now())?;
        let outpoint = wallet.network.outpoint(&output);
        Ok(CoinWish { outpoint, spendable })
    }
}

fn blockers(request: &Archive) -> Result<Vec<ArchiveBlocker>, WalletsError> {
    let blocker = |name: &String| {
        let what = "this is none of coins, unconfirmed, leases";
        ArchiveBlocker::from_name(name).ok_or_else(|| WalletsError::field("allow", what))
    };
    request.allow.iter().map(blocker).collect()
}

/// A cursor that is the number of the last row.
pub(super) fn number_cursor(page: &Page) -> Result<Option<i64>, WalletsError> {
    let parse = |text: &String| text.parse().map_err(|_| bad_cursor());
    page.cursor.as_ref().map(parse).transpose()
}

pub(super) fn bad_cursor() -> WalletsError {
    WalletsError::field("cursor", "this is no cursor of this list")
}
