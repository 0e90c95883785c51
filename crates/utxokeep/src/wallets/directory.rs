//! Wallets, and what they watch: addresses, descriptors, labels.

use utxokeep_core::{Height, Network};
use utxokeep_wallet::{Address, ArchiveBlocker, LabelCursor, NewAddress, NewDescriptor, WalletId};

use super::{
    AddAddresses, AddDescriptor, AddressInfo, Archive, ArchiveDescriptor, Archived, CoinWish,
    CreateWallet, DescriptorAdded, DescriptorInfo, ImportLabels, InWallet, LabelLines, Labelled,
    LabelsImported, LedgerTip, ListDescriptors, ListWallets, Listed, NewAddressInfo, NextAddress,
    OfNetwork, OneCoin, OneDescriptor, Restored, SetLabel, StandingInfo, TipAnswer, WalletInfo,
    WalletPage, WalletStatus, Wallets, WalletsError, Watched, now, once::Asked, requests::Page,
    texts,
};
use crate::memory;

/// Keychain for payments by others.
const RECEIVING: u32 = 0;

impl Wallets {
    /// The last block of a network that the ledger has applied.
    pub fn tip(&self, network: Network) -> Result<Option<LedgerTip>, WalletsError> {
        Ok(self.ledger.tip(network)?.map(|tip| LedgerTip::new(network, tip)))
    }

    /// The last block of the network that a request names.
    pub fn network_tip(&self, request: &OfNetwork) -> Result<TipAnswer, WalletsError> {
        Ok(TipAnswer { tip: self.tip(Self::find_network(&request.chain, &request.network)?)? })
    }

    /// Makes a wallet.
    pub fn create_wallet(&self, request: &CreateWallet) -> Result<WalletInfo, WalletsError> {
        let network = Network::find(&request.chain, &request.network)?;
        let birthday = request.birthday_height.map(Height::new);
        let wallet = self.ledger.create_wallet_born(&request.name, network, birthday, now())?;
        let is_birthday_unchecked = birthday.is_some() && self.ledger.tip(network)?.is_none();
        Ok(WalletInfo {
            is_birthday_unchecked,
            ..WalletInfo::new(&wallet, StandingInfo::default())
        })
    }

    /// A page of all wallets, in the order they were made.
    pub fn list_wallets(&self, list: &ListWallets) -> Result<Listed<WalletInfo>, WalletsError> {
        self.pages(&list.page(), |page| self.wallets_page(list.archived, page))
    }

    fn wallets_page(
        &self,
        with_archived: bool,
        page: &Page,
    ) -> Result<Listed<WalletInfo>, WalletsError> {
        let after = number_cursor(page)?.map(WalletId::new);
        let rows = self.rows(page.page_size);
        let wallets = if with_archived {
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
    pub fn show_wallet(&self, request: &InWallet) -> Result<WalletStatus, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
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
    pub fn add_addresses(&self, request: &AddAddresses) -> Result<Watched, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let watch = |each: &super::WatchAddress| {
            let script = texts::script(wallet.network, &each.address)?;
            let address = texts::address(wallet.network, &script);
            let spend_weight = each.spend_weight.or(request.spend_weight);
            Ok(NewAddress { script, address, spend_weight })
        };
        let addresses: Vec<NewAddress> =
            request.addresses.iter().map(watch).collect::<Result<_, WalletsError>>()?;
        let added = self.ledger.add_addresses(wallet.id, &addresses, now())?;
        let scan_from_height = added.scan_from.map(Height::get);
        let wallet = wallet.name;
        Ok(Watched { address_ids: added.ids, scan_from_height, wallet })
    }

    /// A page of watched addresses, in the order they were added.
    pub fn list_addresses(&self, list: &WalletPage) -> Result<Listed<AddressInfo>, WalletsError> {
        let wallet = self.wallet(&list.wallet)?;
        self.pages(&list.page(), |page| {
            let rows = self.rows(page.page_size);
            let after = number_cursor(page)?.unwrap_or(0);
            let addresses = self.ledger.addresses(wallet.id, after, rows)?;
            let info = |each: &Address| AddressInfo::new(wallet.network, each);
            Ok(Listed::new(&addresses, rows, |last| last.id.to_string(), info))
        })
    }

    /// Watches a descriptor. One that is watched already takes a larger lookahead or next index.
    pub fn add_descriptor(&self, request: &AddDescriptor) -> Result<DescriptorAdded, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
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
            wallet: wallet.name,
        })
    }

    /// The keychains of a wallet.
    pub fn list_descriptors(
        &self,
        list: &ListDescriptors,
    ) -> Result<Listed<DescriptorInfo>, WalletsError> {
        let wallet = self.wallet_id(&list.wallet)?;
        let scan_from = self.ledger.scan_from(wallet)?;
        let info = |watched| DescriptorInfo::new(watched, scan_from);
        let keychains = if list.archived {
            self.ledger.descriptors_and_archived(wallet)?
        } else {
            self.ledger.descriptors(wallet)?
        };
        Ok(Listed::whole(keychains.into_iter().map(info).collect()))
    }

    /// Archives a wallet: it is not followed any more and takes nothing. Its history stays.
    pub fn archive_wallet(&self, request: &Archive) -> Result<Archived, WalletsError> {
        let allow = blockers(&request.allow)?;
        self.ledger.archive_wallet(self.wallet_id(&request.wallet)?, &allow, now())?;
        Ok(Archived { wallet: request.wallet.clone(), descriptor_id: None })
    }

    /// Takes a wallet out of the archive.
    pub fn restore_wallet(&self, request: &InWallet) -> Result<Restored, WalletsError> {
        let wallet = request.wallet.clone();
        let scan_from = self.ledger.restore_wallet(self.wallet_id(&wallet)?, now())?;
        Ok(Restored { scan_from_height: scan_from.map(Height::get), wallet })
    }

    /// Archives a keychain: its scripts are not watched any more.
    pub fn archive_descriptor(
        &self,
        request: &ArchiveDescriptor,
    ) -> Result<Archived, WalletsError> {
        let (id, allow) = (self.wallet_id(&request.wallet)?, blockers(&request.allow)?);
        self.ledger.archive_descriptor(id, request.descriptor_id, &allow, now())?;
        let wallet = request.wallet.clone();
        Ok(Archived { wallet, descriptor_id: Some(request.descriptor_id) })
    }

    /// Takes a keychain out of the archive.
    pub fn restore_descriptor(&self, request: &OneDescriptor) -> Result<Restored, WalletsError> {
        let wallet = request.wallet.clone();
        let id = self.wallet_id(&wallet)?;
        let scan_from = self.ledger.restore_descriptor(id, request.descriptor_id, now())?;
        Ok(Restored { scan_from_height: scan_from.map(Height::get), wallet })
    }

    /// Hands out the next address of a keychain.
    pub fn next_address(&self, request: &NextAddress) -> Result<NewAddressInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let descriptor = if let Some(id) = request.descriptor_id {
            id
        } else {
            let keychains = self.ledger.descriptors(wallet.id)?;
            let receiving = keychains.iter().find(|each| each.keychain == RECEIVING);
            let missing = || WalletsError::NoKeychain { wallet: wallet.name.clone() };
            receiving.ok_or_else(missing)?.id
        };
        let key = request.idempotency_key.as_deref();
        let asked = Asked { operation: "next_address", request: &descriptor, key };
        self.once(&wallet, &asked, |open| Ok(open.reveal_next_address(descriptor)?.into()))
    }

    /// Sets the label of a transaction; empty text clears it.
    pub fn set_tx_label(&self, request: &SetLabel) -> Result<Labelled, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let txid = texts::txid(wallet.network, &request.tx_hash)?;
        self.ledger.set_tx_label(wallet.id, &txid, &request.label, now())?;
        Ok(Labelled { tx_hash: wallet.network.hash(txid), label: request.label.clone() })
    }

    /// All labels as lines of BIP-329. Labels that are set meanwhile may be missing.
    pub fn export_labels(&self, request: &InWallet) -> Result<LabelLines, WalletsError> {
        let name = request.wallet.as_str();
        let (mut lines, mut after) = (String::new(), None);
        while let Some((page, last)) = self.export_labels_page(name, after.as_ref())? {
            // While the text grows, the old one is there as well.
            memory::take(page.len().saturating_mul(2))?;
            lines.push_str(&page);
            after = Some(last);
        }
        Ok(LabelLines(lines))
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
    pub fn import_labels(&self, request: &ImportLabels) -> Result<LabelsImported, WalletsError> {
        let wallet = self.wallet_id(&request.wallet)?;
        Ok(self.ledger.import_labels(wallet, &request.lines.0, now())?.into())
    }

    /// Holds an output back from selections and leases.
    pub fn freeze(&self, request: &OneCoin) -> Result<CoinWish, WalletsError> {
        self.set_spendable(request, false)
    }

    /// Lets an output go that was held back.
    pub fn unfreeze(&self, request: &OneCoin) -> Result<CoinWish, WalletsError> {
        self.set_spendable(request, true)
    }

    fn set_spendable(&self, request: &OneCoin, spendable: bool) -> Result<CoinWish, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let output = texts::outpoint(wallet.network, &request.outpoint)?;
        self.ledger.set_spendable(wallet.id, &output, spendable, now())?;
        let outpoint = wallet.network.outpoint(&output);
        Ok(CoinWish { outpoint, is_spendable: spendable })
    }
}

fn blockers(names: &[String]) -> Result<Vec<ArchiveBlocker>, WalletsError> {
    let blocker = |name: &String| {
        let what = "this is none of coins, unconfirmed, leases";
        ArchiveBlocker::from_name(name).ok_or_else(|| WalletsError::field("allow", what))
    };
    names.iter().map(blocker).collect()
}

/// A cursor that is the number of the last row.
pub(super) fn number_cursor(page: &Page) -> Result<Option<i64>, WalletsError> {
    let parse = |text: &String| text.parse().map_err(|_| bad_cursor());
    page.cursor.as_ref().map(parse).transpose()
}

pub(super) fn bad_cursor() -> WalletsError {
    WalletsError::field("cursor", "this is no cursor of this list")
}
