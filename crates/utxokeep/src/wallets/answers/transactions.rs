//! What became of transactions.

use std::borrow::Cow;

use serde::Serialize;
use utxokeep_core::{ChainHash, ChainOutPoint, Network, Txid};
use utxokeep_wallet::{Change, InvalidReason, Recorded, Replacement, TxDetail, TxState, TxSummary};

use super::StoredAnswer;
use crate::wallets::{Hex, Signed, Units, once::Fields};

/// A line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TxInfo {
    /// Its id.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// `pending`, `published`, `replaced`, `failed` or `orphaned`.
    #[cfg_attr(feature = "schema", schema(example = "published"))]
    pub status: &'static str,
    /// Its block.
    pub height: Option<u32>,
    /// Position in its block.
    pub position: Option<u32>,
    /// Whether it is a coinbase.
    pub is_coinbase: bool,
    /// Whether it is a replacement that waits to be published.
    pub is_waiting: bool,
    /// When it was first recorded.
    pub received_at_us: i64,
    /// Sum of the wallet's outputs that it spends.
    pub spent: Units,
    /// Sum of its outputs that belong to the wallet.
    pub received: Units,
    /// By how much it changes what the wallet has, as a decimal string, possibly negative.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub delta: Signed,
    /// What it pays, known when all its inputs are the wallet's.
    pub fee: Option<Units>,
    /// Why it is not live.
    pub invalid_reason: Option<&'static str>,
    /// What took its place, or the transaction it depended on.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub invalidated_by: Option<ChainHash>,
}

impl TxInfo {
    pub(in crate::wallets) fn new(network: Network, tx: &TxSummary) -> Self {
        Self {
            tx_hash: network.hash(tx.txid),
            status: tx.state.status().name(),
            height: height_of(tx.state),
            position: tx.position,
            is_coinbase: tx.coinbase,
            is_waiting: tx.waiting,
            received_at_us: tx.received_at.get(),
            spent: Units(tx.spent),
            received: Units(tx.received),
            delta: Signed(tx.delta()),
            fee: tx.fee.map(Units),
            invalid_reason: tx.invalid_reason.map(InvalidReason::name),
            invalidated_by: tx.invalidated_by.map(|by| network.hash(by)),
        }
    }
}

fn height_of(state: TxState) -> Option<u32> {
    match state {
        TxState::Confirmed(height) => Some(height.get()),
        _ => None,
    }
}

/// An input of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct InputInfo {
    /// The output it spends, as `TXID:INDEX`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub outpoint: ChainOutPoint,
    /// Its amount, where the output belongs to the wallet.
    pub amount: Option<Units>,
}

/// An output of a transaction that belongs to the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OwnOutputInfo {
    /// Its index.
    pub index: u32,
    /// Its amount.
    pub amount: Units,
}

/// Everything about one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TxDetails {
    /// The line of the history.
    #[serde(flatten)]
    pub summary: TxInfo,
    /// Its label.
    pub label: Option<String>,
    /// Its inputs in order.
    pub inputs: Vec<InputInfo>,
    /// Its outputs that belong to the wallet, spent or not.
    pub outputs: Vec<OwnOutputInfo>,
    /// Its bytes in hexadecimal, where they were given.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub raw: Option<Hex>,
}

impl TxDetails {
    pub(in crate::wallets) fn new(
        network: Network,
        detail: &TxDetail,
        label: Option<String>,
    ) -> Self {
        Self {
            summary: TxInfo::new(network, &detail.summary),
            label,
            inputs: detail
                .inputs
                .iter()
                .map(|input| InputInfo {
                    outpoint: network.outpoint(&input.outpoint),
                    amount: input.amount.map(|amount| Units(amount.get())),
                })
                .collect(),
            outputs: detail
                .outputs
                .iter()
                .map(|(index, amount)| OwnOutputInfo { index: *index, amount: Units(amount.get()) })
                .collect(),
            raw: detail.raw.clone().map(Hex),
        }
    }
}

/// Who took whose inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReplacementInfo {
    /// The one that lost, or will lose when the other is published.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub replaced: ChainHash,
    /// The one that took its place.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub replacement: ChainHash,
    /// `replaced` when it was declared, `double_spent` when not.
    pub reason: &'static str,
    /// When this was recorded.
    pub created_at_us: i64,
}

impl ReplacementInfo {
    pub(in crate::wallets) fn new(network: Network, edge: &Replacement) -> Self {
        Self {
            replaced: network.hash(edge.replaced),
            replacement: network.hash(edge.replacement),
            reason: edge.reason.name(),
            created_at_us: edge.created_at.get(),
        }
    }
}

/// What recording came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RecordedInfo {
    /// The transaction.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// `inserted`, `updated`, `revived` or `unchanged`.
    pub change: Cow<'static, str>,
    /// Its status now.
    pub status: Cow<'static, str>,
    /// Its block.
    pub height: Option<u32>,
    /// Whether it is a replacement that waits to be published.
    pub is_waiting: bool,
    /// Transactions that lost their inputs to it.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub losers: Vec<ChainHash>,
    /// Transactions that depended on those.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub failed_descendants: Vec<ChainHash>,
}

impl RecordedInfo {
    pub(in crate::wallets) fn new(network: Network, recorded: &Recorded) -> Self {
        let named = |txids: &[Txid]| txids.iter().map(|&txid| network.hash(txid)).collect();
        Self {
            tx_hash: network.hash(recorded.txid),
            change: Cow::Borrowed(match recorded.change {
                Change::Inserted => "inserted",
                Change::Updated => "updated",
                Change::Revived => "revived",
                Change::Unchanged => "unchanged",
            }),
            status: Cow::Borrowed(recorded.state.status().name()),
            height: height_of(recorded.state),
            is_waiting: recorded.waiting,
            losers: named(&recorded.losers),
            failed_descendants: named(&recorded.failed_descendants),
        }
    }
}

impl StoredAnswer for RecordedInfo {
    fn read(fields: &Fields) -> Result<Self, String> {
        Ok(Self {
            tx_hash: fields.hash("tx_hash")?,
            change: fields.plain("change")?,
            status: fields.plain("status")?,
            height: fields.plain("height")?,
            is_waiting: fields.plain("is_waiting")?,
            losers: fields.hashes("losers")?,
            failed_descendants: fields.hashes("failed_descendants")?,
        })
    }
}

/// Transactions that failed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Abandoned {
    /// The one that was given up.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// Those that depended on it.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub failed_descendants: Vec<ChainHash>,
    /// Leases on inputs that ended with them. Those of other owners stay.
    pub released_leases: u64,
}

/// A transaction that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Removed {
    /// Its id.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub removed: ChainHash,
}

/// A transaction and its new label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Labelled {
    /// The transaction.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// Its label; empty when it was cleared.
    pub label: String,
}
