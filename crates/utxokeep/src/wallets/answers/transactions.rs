//! What became of transactions.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utxokeep_core::Network;
use utxokeep_wallet::{Change, InvalidReason, Recorded, Replacement, TxDetail, TxState, TxSummary};

use crate::wallets::{
    Units,
    texts::{outpoint_text, txid_text},
};

/// A line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TxInfo {
    /// Its id.
    pub txid: String,
    /// `pending`, `published`, `replaced`, `failed` or `orphaned`.
    #[schema(example = "published")]
    pub status: &'static str,
    /// Its block.
    pub height: Option<u32>,
    /// Position in its block.
    pub position: Option<u32>,
    /// Whether it is a coinbase.
    pub coinbase: bool,
    /// Whether it is a replacement that waits to be published.
    pub waiting: bool,
    /// When it was first recorded.
    pub received_at_us: i64,
    /// Sum of the wallet's outputs that it spends.
    pub spent: Units,
    /// Sum of its outputs that belong to the wallet.
    pub received: Units,
    /// By how much it changes what the wallet has, as a decimal string, possibly negative.
    pub delta: String,
    /// What it pays, known when all its inputs are the wallet's.
    pub fee: Option<Units>,
    /// Why it is not live.
    pub invalid_reason: Option<&'static str>,
    /// What took its place, or the transaction it depended on.
    pub invalidated_by: Option<String>,
}

impl TxInfo {
    pub(in crate::wallets) fn new(network: Network, tx: &TxSummary) -> Self {
        Self {
            txid: txid_text(network, &tx.txid),
            status: tx.state.status().name(),
            height: height_of(tx.state),
            position: tx.position,
            coinbase: tx.coinbase,
            waiting: tx.waiting,
            received_at_us: tx.received_at.get(),
            spent: Units(tx.spent),
            received: Units(tx.received),
            delta: tx.delta().to_string(),
            fee: tx.fee.map(Units),
            invalid_reason: tx.invalid_reason.map(InvalidReason::name),
            invalidated_by: tx.invalidated_by.as_ref().map(|by| txid_text(network, by)),
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct InputInfo {
    /// The output it spends, as `TXID:INDEX`.
    pub outpoint: String,
    /// Its amount, where the output belongs to the wallet.
    pub amount: Option<Units>,
}

/// An output of a transaction that belongs to the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OwnOutputInfo {
    /// Its index.
    pub index: u32,
    /// Its amount.
    pub amount: Units,
}

/// Everything about one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
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
    pub raw: Option<String>,
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
                    outpoint: outpoint_text(network, &input.outpoint),
                    amount: input.amount.map(|amount| Units(amount.get())),
                })
                .collect(),
            outputs: detail
                .outputs
                .iter()
                .map(|(index, amount)| OwnOutputInfo { index: *index, amount: Units(amount.get()) })
                .collect(),
            raw: detail.raw.as_deref().map(utxokeep_core::hex_encode),
        }
    }
}

/// Who took whose inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReplacementInfo {
    /// The one that lost, or will lose when the other is published.
    pub replaced: String,
    /// The one that took its place.
    pub replacement: String,
    /// `replaced` when it was declared, `double_spent` when not.
    pub reason: &'static str,
    /// When this was recorded.
    pub created_at_us: i64,
}

impl ReplacementInfo {
    pub(in crate::wallets) fn new(network: Network, edge: &Replacement) -> Self {
        Self {
            replaced: txid_text(network, &edge.replaced),
            replacement: txid_text(network, &edge.replacement),
            reason: edge.reason.name(),
            created_at_us: edge.created_at.get(),
        }
    }
}

/// What recording came to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct RecordedInfo {
    /// The transaction.
    pub txid: String,
    /// `inserted`, `updated`, `revived` or `unchanged`.
    pub change: Cow<'static, str>,
    /// Its status now.
    pub status: Cow<'static, str>,
    /// Its block.
    pub height: Option<u32>,
    /// Whether it is a replacement that waits to be published.
    pub waiting: bool,
    /// Transactions that lost their inputs to it.
    pub losers: Vec<String>,
    /// Transactions that depended on those.
    pub failed_descendants: Vec<String>,
}

impl RecordedInfo {
    pub(in crate::wallets) fn new(network: Network, recorded: &Recorded) -> Self {
        let texts = |txids: &[_]| txids.iter().map(|txid| txid_text(network, txid)).collect();
        Self {
            txid: txid_text(network, &recorded.txid),
            change: Cow::Borrowed(match recorded.change {
                Change::Inserted => "inserted",
                Change::Updated => "updated",
                Change::Revived => "revived",
                Change::Unchanged => "unchanged",
            }),
            status: Cow::Borrowed(recorded.state.status().name()),
            height: height_of(recorded.state),
            waiting: recorded.waiting,
            losers: texts(&recorded.losers),
            failed_descendants: texts(&recorded.failed_descendants),
        }
    }
}

/// Transactions that failed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Abandoned {
    /// The one that was given up.
    pub txid: String,
    /// Those that depended on it.
    pub failed_descendants: Vec<String>,
    /// Leases on inputs that ended with them. Those of other owners stay.
    pub released_leases: u64,
}
