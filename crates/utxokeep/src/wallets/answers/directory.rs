//! Wallets, and what they watch.

use serde::{Deserialize, Serialize};
use utxokeep_core::{Height, Network};
use utxokeep_wallet::{Address, Micros, RevealedAddress, Wallet, WatchedDescriptor};

use super::{LedgerTip, StoredAnswer};
use crate::wallets::{Hex, RescanInfo, SetAsideInfo, StandingInfo, once::Fields, texts::address};

/// A wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WalletInfo {
    /// Its name.
    #[cfg_attr(feature = "schema", schema(example = "treasury"))]
    pub name: String,
    /// Its chain.
    #[cfg_attr(feature = "schema", schema(example = "bitcoin"))]
    pub chain: String,
    /// Network of the chain.
    #[cfg_attr(feature = "schema", schema(example = "regtest"))]
    pub network: String,
    /// When it was made.
    pub created_at_us: i64,
    /// Why it gets no blocks; absent when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub set_aside: Option<SetAsideInfo>,
    /// Blocks that it looks at again; absent when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub rescan: Option<RescanInfo>,
    /// When it was archived; `null` while it is followed.
    pub archived_at_us: Option<i64>,
    /// Whether it was just created with a birthday that no block could be compared with.
    #[serde(skip)]
    pub is_birthday_unchecked: bool,
}

impl WalletInfo {
    pub(in crate::wallets) fn new(wallet: &Wallet, standing: StandingInfo) -> Self {
        Self {
            name: wallet.name.clone(),
            chain: wallet.network.chain().to_owned(),
            network: wallet.network.name().to_owned(),
            created_at_us: wallet.created_at.get(),
            set_aside: standing.set_aside,
            rescan: standing.rescan,
            archived_at_us: wallet.archived_at.map(Micros::get),
            is_birthday_unchecked: false,
        }
    }
}

/// A wallet, and how far the ledger has come on its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WalletStatus {
    /// The wallet.
    #[serde(flatten)]
    pub wallet: WalletInfo,
    /// The last block that was applied; `null` before the first.
    pub tip: Option<LedgerTip>,
    /// Nothing was paid to it below this block; `null` when that was not said.
    pub birthday_height: Option<u32>,
    /// Numbers of keychains whose payments came near the end of what is watched; their list says
    /// what to do.
    pub descriptors_near_edge: Vec<i64>,
}

/// A watched address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AddressInfo {
    /// Its number in the wallet.
    pub id: i64,
    /// The address, where the script has one.
    pub address: Option<String>,
    /// The script in hexadecimal; on Cardano the bytes of the address.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub script: Hex,
    /// Weight of an input that spends from it.
    pub spend_weight: u32,
    /// Whether it was ever paid.
    pub used: bool,
}

impl AddressInfo {
    pub(in crate::wallets) fn new(network: Network, watched: &Address) -> Self {
        Self {
            id: watched.id,
            address: watched.address.clone().or_else(|| address(network, &watched.script)),
            script: Hex(watched.script.clone()),
            spend_weight: watched.spend_weight,
            used: watched.used,
        }
    }
}

/// Addresses that are watched now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Watched {
    /// Their numbers in the wallet, in the order of the request.
    pub address_ids: Vec<i64>,
    /// The ledger has passed blocks that may pay the new ones: scan the wallet from this height.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub scan_from_height: Option<u32>,
    /// Name of the wallet.
    #[serde(skip)]
    pub wallet: String,
}

/// A descriptor that is watched now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DescriptorAdded {
    /// Its keychains, one for each path.
    pub items: Vec<DescriptorInfo>,
    /// The ledger has passed blocks that may pay scripts that are new: scan the wallet from this
    /// height.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub scan_from_height: Option<u32>,
    /// Name of the wallet.
    #[serde(skip)]
    pub wallet: String,
}

/// A payment came near the end of what a keychain watches: others may have gone beyond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NearEdgeInfo {
    /// The script that was paid.
    pub index: u32,
    /// Add the descriptor again with this lookahead.
    pub raise_lookahead_to: u32,
    /// Then scan the wallet from this height.
    pub scan_from_height: Option<u32>,
}

/// A keychain of a wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DescriptorInfo {
    /// Its number in the wallet.
    pub id: i64,
    /// Its text, in canonical form.
    pub descriptor: String,
    /// 0 for payments by others, 1 for change.
    pub keychain: u32,
    /// Whether it stands for many scripts.
    pub is_ranged: bool,
    /// Scripts below this number were handed out or paid.
    pub next_index: u32,
    /// Scripts below this number are watched.
    pub derived_count: u32,
    /// How many scripts are watched ahead.
    pub lookahead: u32,
    /// Whether payments may have been missed, and what to do; `null` when there is no sign of it.
    pub near_edge: Option<NearEdgeInfo>,
    /// When it was archived; `null` while it is followed.
    pub archived_at_us: Option<i64>,
}

/// A wallet or a keychain that is followed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Restored {
    /// The ledger has passed blocks meanwhile: scan the wallet from this height. `null` when there
    /// are none.
    pub scan_from_height: Option<u32>,
    /// Name of the wallet.
    #[serde(skip)]
    pub wallet: String,
}

/// What was archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Archived {
    /// Name of the wallet.
    pub wallet: String,
    /// Number of the keychain, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub descriptor_id: Option<i64>,
}

impl DescriptorInfo {
    pub(in crate::wallets) fn new(watched: WatchedDescriptor, scan_from: Option<Height>) -> Self {
        let raise_to = watched.edge_index.zip(watched.lookahead_to_raise_to());
        Self {
            archived_at_us: watched.archived_at.map(Micros::get),
            near_edge: raise_to.map(|(index, raise_lookahead_to)| NearEdgeInfo {
                index,
                raise_lookahead_to,
                scan_from_height: scan_from.map(Height::get),
            }),
            id: watched.id,
            descriptor: watched.text,
            keychain: watched.keychain,
            is_ranged: watched.is_ranged,
            next_index: watched.next_index,
            derived_count: watched.derived_count,
            lookahead: watched.lookahead,
        }
    }
}

/// An address that was handed out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewAddressInfo {
    /// Number of its script in the descriptor.
    pub index: u32,
    /// Its number in the wallet.
    pub address_id: i64,
    /// The address, where the script has one.
    pub address: Option<String>,
    /// The script in hexadecimal.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub script: Hex,
}

impl From<RevealedAddress> for NewAddressInfo {
    fn from(revealed: RevealedAddress) -> Self {
        Self {
            index: revealed.index,
            address_id: revealed.address_id,
            address: revealed.address,
            script: Hex(revealed.script),
        }
    }
}

impl StoredAnswer for NewAddressInfo {
    fn read(fields: &Fields) -> Result<Self, String> {
        fields.whole()
    }
}
