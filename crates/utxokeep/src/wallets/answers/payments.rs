//! Leases, selections and transactions to be signed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utxokeep_core::{ChainHash, ChainOutPoint, Height, Network};
use utxokeep_wallet::Lease;

use super::{RecordedInfo, StoredAnswer};
use crate::wallets::{Hex, Signed, Units, once::Fields};

/// An active lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeaseInfo {
    /// The output, as `TXID:INDEX`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub outpoint: ChainOutPoint,
    /// Its amount.
    pub amount: Units,
    /// The owner.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub owner: Hex,
    /// When it ends, unless it is held.
    pub expires_at_us: i64,
    /// Held until the spend has this many confirmations.
    pub hold_confirmations: Option<u32>,
    /// A block has spent the output since the lease began, so the clock does not matter.
    pub held: bool,
    /// The block that spends it now.
    pub spent_height: Option<u32>,
    /// The live transaction that spends it now.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub spent_by: Option<ChainHash>,
}

impl LeaseInfo {
    pub(in crate::wallets) fn new(network: Network, lease: &Lease) -> Self {
        Self {
            outpoint: network.outpoint(&lease.outpoint),
            amount: Units(lease.amount.get()),
            owner: Hex(lease.owner.as_bytes().to_vec()),
            expires_at_us: lease.expires_at.get(),
            hold_confirmations: lease.hold_confirmations,
            held: lease.held,
            spent_height: lease.spent_height.map(Height::get),
            spent_by: lease.spent_by.map(|txid| network.hash(txid)),
        }
    }
}

/// Leases that were taken.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Leased {
    /// Who holds them: 64 hexadecimal digits.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub owner: Hex,
    /// The name that was given for the owner; its SHA-256 is `owner`.
    pub owner_name: Option<String>,
    /// When they end, by the clock of the database where hosts share one.
    pub expires_at_us: i64,
}

/// Rows of expired leases that were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CleanedLeases {
    /// How many.
    pub leases: u64,
    /// Whether there may be more; call again.
    pub has_more: bool,
}

/// Leases that were ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Released {
    /// How many.
    pub leases: u64,
}

/// A coin that was selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SelectedInfo {
    /// The output, as `TXID:INDEX`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub outpoint: ChainOutPoint,
    /// Its amount.
    pub amount: Units,
    /// Its script in hexadecimal.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub script: Hex,
    /// Weight of the input that spends it.
    pub weight: u32,
}

/// A selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SelectionInfo {
    /// The coins.
    pub coins: Vec<SelectedInfo>,
    /// Their sum.
    pub input_total: Units,
    /// What the transaction pays as fee.
    pub fee: Units,
    /// Weight of the transaction, when it is signed.
    pub weight: u64,
    /// Amount of the change output, if there is one.
    pub change: Option<Units>,
    /// How much worse than ideal the choice is, as a decimal string; lower is better.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub waste: Signed,
    /// What found it.
    pub algorithm: Cow<'static, str>,
    /// The leases, if they were asked for.
    pub leased: Option<Leased>,
}

/// A transaction to be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PsbtInfo {
    /// The PSBT in base64.
    pub psbt: String,
    /// Its id before it is signed.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// Whether signing keeps the id.
    pub is_tx_hash_final: bool,
    /// The coins it spends, with fee and change.
    pub selection: SelectionInfo,
    /// Where change goes, if there is any.
    pub change_address: Option<String>,
    /// First block that may hold the transaction, by height, if a lock asks for one.
    pub valid_from_height: Option<u32>,
    /// The chain's time from which on a block may hold it, in seconds since 1970, if a lock asks for
    /// one. That time is the median of eleven blocks, about an hour behind the clock.
    pub valid_from_time: Option<u32>,
    /// What recording it came to, if that was asked for and its id is final.
    pub recorded: Option<RecordedInfo>,
}

/// The replacement of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BumpInfo {
    /// What it replaces.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub replaces: ChainHash,
    /// What it pushes out besides: everything that depends on that.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub evicts: Vec<ChainHash>,
    /// Its inputs: all of the old one, then those that were added.
    pub inputs: Vec<SelectedInfo>,
    /// How many of them are the old one's.
    pub kept_inputs: usize,
    /// What it pays as fee.
    pub fee: Units,
    /// What the old one and all it pushes out pay together.
    pub replaced_fees: Units,
    /// Its weight, when it is signed.
    pub weight: u64,
    /// Amount of its change, if there is any.
    pub change: Option<Units>,
    /// Where that goes.
    pub change_address: Option<String>,
    /// First block that may hold the transaction, by height, if a lock asks for one.
    pub valid_from_height: Option<u32>,
    /// The chain's time from which on a block may hold it, in seconds since 1970, if a lock asks for
    /// one. That time is the median of eleven blocks, about an hour behind the clock.
    pub valid_from_time: Option<u32>,
    /// The PSBT in base64.
    pub psbt: String,
    /// Its id before it is signed.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// Whether signing keeps the id.
    pub is_tx_hash_final: bool,
    /// The leases of its inputs; absent in a dry run.
    pub leased: Option<Leased>,
    /// The replacement, when it was recorded. It waits to be published.
    pub recorded: Option<RecordedInfo>,
}

impl StoredAnswer for Leased {
    fn read(fields: &Fields) -> Result<Self, String> {
        fields.whole()
    }
}

impl StoredAnswer for SelectedInfo {
    fn read(fields: &Fields) -> Result<Self, String> {
        Ok(Self {
            outpoint: fields.outpoint("outpoint")?,
            amount: fields.plain("amount")?,
            script: fields.plain("script")?,
            weight: fields.plain("weight")?,
        })
    }
}

impl StoredAnswer for SelectionInfo {
    fn read(fields: &Fields) -> Result<Self, String> {
        Ok(Self {
            coins: fields.list("coins")?,
            input_total: fields.plain("input_total")?,
            fee: fields.plain("fee")?,
            weight: fields.plain("weight")?,
            change: fields.plain("change")?,
            waste: fields.plain("waste")?,
            algorithm: fields.plain("algorithm")?,
            leased: fields.plain("leased")?,
        })
    }
}

impl StoredAnswer for PsbtInfo {
    fn read(fields: &Fields) -> Result<Self, String> {
        Ok(Self {
            psbt: fields.plain("psbt")?,
            tx_hash: fields.hash("tx_hash")?,
            is_tx_hash_final: fields.plain("is_tx_hash_final")?,
            selection: fields.within("selection")?,
            change_address: fields.plain("change_address")?,
            valid_from_height: fields.plain("valid_from_height")?,
            valid_from_time: fields.plain("valid_from_time")?,
            recorded: fields.optional("recorded")?,
        })
    }
}

impl StoredAnswer for BumpInfo {
    fn read(fields: &Fields) -> Result<Self, String> {
        Ok(Self {
            replaces: fields.hash("replaces")?,
            evicts: fields.hashes("evicts")?,
            inputs: fields.list("inputs")?,
            kept_inputs: fields.plain("kept_inputs")?,
            fee: fields.plain("fee")?,
            replaced_fees: fields.plain("replaced_fees")?,
            weight: fields.plain("weight")?,
            change: fields.plain("change")?,
            change_address: fields.plain("change_address")?,
            valid_from_height: fields.plain("valid_from_height")?,
            valid_from_time: fields.plain("valid_from_time")?,
            psbt: fields.plain("psbt")?,
            tx_hash: fields.hash("tx_hash")?,
            is_tx_hash_final: fields.plain("is_tx_hash_final")?,
            leased: fields.plain("leased")?,
            recorded: fields.optional("recorded")?,
        })
    }
}
