//! Requests as clients write them. Every field that may be left out has a default.

mod payments;
mod transactions;

use serde::Deserialize;

pub use self::{payments::*, transactions::*};
pub use super::texts::{Hex, LineBytes, Rate, Signed, Units};

/// A wallet to create.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateWallet {
    /// Its name, which no other wallet of the ledger may have.
    #[cfg_attr(feature = "clap", arg(value_name = "WALLET"))]
    #[cfg_attr(feature = "schema", schema(example = "treasury"))]
    pub name: String,
    /// Chain of the network.
    #[serde(default = "bitcoin")]
    #[cfg_attr(feature = "clap", arg(long, default_value = "bitcoin"))]
    pub chain: String,
    /// The network.
    #[cfg_attr(feature = "clap", arg(long))]
    pub network: String,
    /// Its birthday: nothing was paid to it below this block, so that scans start there. One above
    /// the last block of the ledger is refused. When not given, scans start at the first block that
    /// the ledger has applied.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    pub birthday_height: Option<u32>,
}

fn bitcoin() -> String {
    "bitcoin".to_owned()
}

/// A page has a row at least.
#[cfg(feature = "clap")]
fn page_size() -> clap::builder::RangedU64ValueParser<u32> {
    clap::builder::RangedU64ValueParser::new().range(1..=u64::from(super::ALONE_ROWS_MAX))
}

/// Where a list goes on, and how many rows are wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    pub(super) cursor: Option<String>,
    pub(super) page_size: Option<u32>,
}

macro_rules! paged {
    ($($request:ty),+) => {
        $(impl $request {
            pub(super) fn page(&self) -> Page {
                Page { cursor: self.cursor.clone(), page_size: self.page_size }
            }
        })+
    };
}

paged!(ListWallets, WalletPage, VerifyWallets, ListCoins, ListTransactions);

/// A wallet to archive, and in spite of what.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// Name of the wallet.
    pub wallet: String,
    /// What it may still have: `coins`, `unconfirmed`, `leases`. Repeat the option for more.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT"))]
    pub allow: Vec<String>,
}

/// One keychain of a wallet.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OneDescriptor {
    /// Name of the wallet.
    pub wallet: String,
    /// Number of the keychain, as the list of keychains has it.
    #[cfg_attr(feature = "clap", arg(value_name = "ID"))]
    pub descriptor_id: i64,
}

/// A keychain to archive, and in spite of what.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ArchiveDescriptor {
    /// Name of the wallet.
    pub wallet: String,
    /// Number of the keychain, as the list of keychains has it.
    #[cfg_attr(feature = "clap", arg(value_name = "ID"))]
    pub descriptor_id: i64,
    /// What it may still have: `coins`, `unconfirmed`, `leases`. Repeat the option for more.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT"))]
    pub allow: Vec<String>,
}

/// The keychain to hand an address out from.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NextAddress {
    /// Name of the wallet.
    pub wallet: String,
    /// Number of the keychain; a command may leave it out for the first one for payments by others.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub descriptor_id: Option<i64>,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub idempotency_key: Option<String>,
}

/// Which wallets to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ListWallets {
    /// Archived ones too.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub archived: bool,
    /// Goes on behind the last row of an earlier answer: its `next_cursor`.
    #[cfg_attr(feature = "clap", arg(long))]
    pub cursor: Option<String>,
    /// Rows of the page. A server has as many as `[wallet] page_rows_max` says when it is not given, and
    /// never more; a command has 100.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = page_size()))]
    pub page_size: Option<u32>,
}

/// Which keychains to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ListDescriptors {
    /// Name of the wallet.
    pub wallet: String,
    /// Archived ones too.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub archived: bool,
}

/// An address to watch.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchAddress {
    /// The address; on Bitcoin also an output script in hexadecimal.
    pub address: String,
    /// Weight of an input that spends from it; estimated from the script when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spend_weight: Option<u32>,
}

/// Addresses to watch, all or none.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AddAddresses {
    /// Name of the wallet.
    pub wallet: String,
    /// The addresses; on Bitcoin also output scripts in hexadecimal.
    #[cfg_attr(feature = "clap", arg(required = true, value_name = "ADDRESS"))]
    pub addresses: Vec<WatchAddress>,
    /// Weight of an input that spends from those that name none of their own; estimated from the
    /// script when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "UNITS"))]
    pub spend_weight: Option<u32>,
}

/// A descriptor to watch.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AddDescriptor {
    /// Name of the wallet.
    pub wallet: String,
    /// The descriptor, with or without a checksum, without private keys. Several paths, as in
    /// `<0;1>`, are several keychains.
    pub descriptor: String,
    /// Number of its first keychain: 0 for payments by others, 1 for change. When not given, 0, or
    /// what it is already.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub keychain: Option<u32>,
    /// How many scripts are watched ahead. When not given, 1,000, or what it is already. Can be
    /// raised later, and not lowered.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
    pub lookahead: Option<u32>,
    /// Scripts below this number were handed out already. When not given, 0, or what it is already.
    /// Can be raised later, and not lowered.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub next_index: Option<u32>,
}

/// Which wallet.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct InWallet {
    /// Name of the wallet.
    pub wallet: String,
}

/// A page of a list of one wallet.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WalletPage {
    /// Name of the wallet.
    pub wallet: String,
    /// Goes on behind the last row of an earlier answer: its `next_cursor`.
    #[cfg_attr(feature = "clap", arg(long))]
    pub cursor: Option<String>,
    /// Rows of the page. A server has as many as `[wallet] page_rows_max` says when it is not given, and
    /// never more; a command has 100.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = page_size()))]
    pub page_size: Option<u32>,
}

/// One transaction of a wallet.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OneTx {
    /// Name of the wallet.
    pub wallet: String,
    /// Id of the transaction, as nodes print it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    pub tx_hash: String,
}

/// One output of a wallet.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OneCoin {
    /// Name of the wallet.
    pub wallet: String,
    /// The output, as `TXID:INDEX`.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID:INDEX"))]
    pub outpoint: String,
}

/// Whose replacements to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ListReplacements {
    /// Name of the wallet.
    pub wallet: String,
    /// Id of the transaction, as nodes print it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    pub tx_hash: String,
    /// Rows of the list, which has no pages. A server has as many as `[wallet] page_rows_max` says when
    /// it is not given, and never more; a command has 100.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = page_size()))]
    pub page_size: Option<u32>,
}

/// A network of the ledger.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OfNetwork {
    /// Chain of the network.
    #[serde(default = "bitcoin")]
    #[cfg_attr(feature = "clap", arg(long, default_value = "bitcoin"))]
    pub chain: String,
    /// The network.
    #[cfg_attr(feature = "clap", arg(long))]
    pub network: String,
}

/// Whose balance, and which confirmations count.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BalanceOf {
    /// Name of the wallet.
    pub wallet: String,
    /// Only with at least this many confirmations.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value_t))]
    pub min_confirmations: u32,
    /// Only with at most this many.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub max_confirmations: Option<u32>,
}

/// What to check.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VerifyWallet {
    /// Name of the wallet.
    pub wallet: String,
    /// Also compare confirmed coins with the UTXO set of the chain database, at the same block.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub with_chain: bool,
}

/// What to check of all wallets.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VerifyWallets {
    /// Also compare confirmed coins with the UTXO set of the chain database, at the same block.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub with_chain: bool,
    /// Goes on behind the last row of an earlier answer: its `next_cursor`.
    #[cfg_attr(feature = "clap", arg(long))]
    pub cursor: Option<String>,
    /// Wallets of the page, 10 unless told, since each is checked whole; `[wallet] page_rows_max` is the
    /// most.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = page_size()))]
    pub page_size: Option<u32>,
}

/// Which unspent outputs to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ListCoins {
    /// Name of the wallet.
    pub wallet: String,
    /// Only with at least this many confirmations.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value_t))]
    pub min_confirmations: u32,
    /// Only with at most this many.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub max_confirmations: Option<u32>,
    /// Leave out outputs under a lease.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub only_free: bool,
    /// Only those of this keychain, by its number. Not together with `address_id`.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub descriptor_id: Option<i64>,
    /// Only those of this address, by its number.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub address_id: Option<i64>,
    /// Goes on behind the last row of an earlier answer: its `next_cursor`.
    #[cfg_attr(feature = "clap", arg(long))]
    pub cursor: Option<String>,
    /// Rows of the page. A server has as many as `[wallet] page_rows_max` says when it is not given, and
    /// never more; a command has 100.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = page_size()))]
    pub page_size: Option<u32>,
}

/// Which transactions to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ListTransactions {
    /// Name of the wallet.
    pub wallet: String,
    /// Only those in no block, live or not.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub unconfirmed: bool,
    /// Only those in blocks from this height on, in the order of the chain.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    pub from_height: Option<u32>,
    /// Only those in blocks up to this height, in the order of the chain.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    pub to_height: Option<u32>,
    /// Newest first.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub newest_first: bool,
    /// Goes on behind the last row of an earlier answer: its `next_cursor`.
    #[cfg_attr(feature = "clap", arg(long))]
    pub cursor: Option<String>,
    /// Rows of the page. A server has as many as `[wallet] page_rows_max` says when it is not given, and
    /// never more; a command has 100.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = page_size()))]
    pub page_size: Option<u32>,
}

impl std::str::FromStr for WatchAddress {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { address: text.to_owned(), spend_weight: None })
    }
}
