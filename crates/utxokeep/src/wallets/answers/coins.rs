//! What a wallet has.

use serde::Serialize;
use utxokeep_core::{
    ChainOutPoint, Height, Network,
    wallet::{Balance, confirmations},
};
use utxokeep_wallet::Coin;

use super::LedgerTip;
use crate::wallets::{Hex, RescanInfo, SetAsideInfo, StandingInfo, Units, texts::address};

/// What a wallet has. Outputs that a live transaction spends never count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BalanceInfo {
    /// In a block, and mature.
    pub confirmed: Units,
    /// In no block, paid by ourselves alone.
    pub trusted_unconfirmed: Units,
    /// In no block, paid by somebody else.
    pub untrusted_unconfirmed: Units,
    /// Of transactions that were not sent yet.
    pub pending: Units,
    /// Coinbase outputs that may not be spent yet.
    pub immature: Units,
    /// The part of `total` that is under a lease.
    pub leased: Units,
    /// Spendable and not leased, but held back by a label that says so.
    pub held_back: Units,
    /// Spendable, not leased and not held back, but the `older()` or `after()` of its descriptor
    /// keeps it out of the next block.
    pub locked: Units,
    /// What can be spent now without trusting others, is not leased, not held back and not locked.
    pub available: Units,
    /// Everything that counts, leased or not.
    pub total: Units,
    /// The last block that was applied; `null` before the first, and for an archived wallet.
    pub tip: Option<LedgerTip>,
    /// The last block that an archived wallet has looked at; all of this is as of then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub archived_height: Option<u32>,
    /// The wallet has not all blocks since this one, so that none of this may be true any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub set_aside: Option<SetAsideInfo>,
    /// Blocks that the wallet looks at again; until then coins may be missing, and coins that were
    /// found may be spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub rescan: Option<RescanInfo>,
}

impl BalanceInfo {
    pub(in crate::wallets) fn new(
        balance: &Balance,
        tip: Option<LedgerTip>,
        standing: StandingInfo,
    ) -> Self {
        Self {
            confirmed: Units(balance.confirmed),
            trusted_unconfirmed: Units(balance.trusted_unconfirmed),
            untrusted_unconfirmed: Units(balance.untrusted_unconfirmed),
            pending: Units(balance.pending),
            immature: Units(balance.immature),
            leased: Units(balance.leased),
            held_back: Units(balance.held_back),
            locked: Units(balance.locked),
            available: Units(balance.available()),
            total: Units(balance.total()),
            tip,
            archived_height: None,
            set_aside: standing.set_aside,
            rescan: standing.rescan,
        }
    }

    /// The balance of an archived wallet, which has looked at no block above `height`.
    pub(in crate::wallets) fn archived_at(self, height: Option<Height>) -> Self {
        Self { tip: None, archived_height: height.map(Height::get), ..self }
    }
}

/// An unspent output of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CoinInfo {
    /// The output, as `TXID:INDEX`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub outpoint: ChainOutPoint,
    /// Its amount.
    pub amount: Units,
    /// Number of the address it is credited to.
    pub address_id: i64,
    /// The address it pays, where its script has one.
    pub address: Option<String>,
    /// Its script in hexadecimal; on Cardano the bytes of the address.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub script: Hex,
    /// What its transaction makes of it: `confirmed`, `trusted`, `untrusted` or `pending`.
    #[cfg_attr(feature = "schema", schema(example = "confirmed"))]
    pub class: &'static str,
    /// Block of its transaction.
    pub height: Option<u32>,
    /// Blocks on top of it, its own included.
    pub confirmations: u32,
    /// Whether a coinbase made it.
    pub is_coinbase: bool,
    /// Whether a lease is active.
    pub leased: bool,
    /// Whether it may be spent; `false` when a label says otherwise, then it is not selected.
    pub is_spendable: bool,
}

impl CoinInfo {
    pub(in crate::wallets) fn new(network: Network, tip: Option<Height>, coin: &Coin) -> Self {
        Self {
            outpoint: network.outpoint(&coin.outpoint),
            amount: Units(coin.amount.get()),
            address_id: coin.address_id,
            address: coin.address.clone().or_else(|| address(network, &coin.script)),
            script: Hex(coin.script.clone()),
            class: coin.class.name(),
            height: coin.height.map(Height::get),
            confirmations: confirmations(coin.height, tip),
            is_coinbase: coin.coinbase,
            leased: coin.leased,
            is_spendable: coin.spendable,
        }
    }
}

/// Whether an output may be spent, as a label says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CoinWish {
    /// The output, as `TXID:INDEX`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub outpoint: ChainOutPoint,
    /// `false` while it is held back: it is neither selected nor leased.
    pub is_spendable: bool,
}
