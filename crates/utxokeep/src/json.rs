//! What answers about the chain are made of, on every face.
//!
//! # Invariants
//!
//! * Amounts are decimal strings in JSON, whose numbers lose digits above 2^53 ([`Units`]).
//! * Hashes are in the order people of the chain read them; on Bitcoin that is reversed.

mod mmr;
mod stream;
mod utxo;

use serde::{Serialize, Serializer};
use utxokeep_chains::cardano::asset_fingerprint;
use utxokeep_core::{
    BlockEntry, ChainPoint, Height, Network, Partial as PartialIndex, cardano::era, hex_encode,
};
use utxokeep_index::{
    AddressBalance, AssetId, IndexSettings, IndexStatus, MmrBuildStanding, SetStanding,
};

pub use mmr::{
    MmrRootAnswer, MmrStatus, UtreexoBlockProof, UtreexoDocument, UtreexoInclusion, UtreexoRoots,
};
pub use stream::{StreamBlock, StreamChanges, StreamCut, StreamEvent, StreamOutput, StreamPlace};
pub use utxo::{Utxo, address_of, script_hash};

use crate::follow::SourceStatus;

/// A place on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Point {
    /// Number of the block.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub height: u32,
    /// Slot of the block; equals the height on chains without slots.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub slot: u64,
    /// Hash of the block.
    #[cfg_attr(
        feature = "schema",
        schema(example = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206")
    )]
    pub hash: String,
}

impl Point {
    /// Describes a place on the chain of `network`.
    #[must_use]
    pub fn new(point: &ChainPoint, network: Network) -> Self {
        let hash = network.hash_text(point.hash.as_bytes());
        Self { height: point.height.get(), slot: point.slot, hash }
    }
}

/// What a database keeps that does not keep everything. Answers of a complete one have no such
/// field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Partial {
    /// Cardano: height of the first block. Outputs created before it are not known here, so that
    /// sums and lists lack them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, example = 58_000))]
    pub started_mid_chain_at: Option<u32>,
    /// Addresses and credentials whose outputs are kept, when there is a filter. Totals are those
    /// of the outputs kept; other owners are refused with `not_kept`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, example = 3))]
    pub filter_entries: Option<usize>,
    /// The same for people, in the words of the errors.
    #[serde(skip)]
    text: PartialIndex,
}

impl std::fmt::Display for Partial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.text, f)
    }
}

impl Partial {
    /// Describes what is kept; `None` when that is everything.
    #[must_use]
    pub fn new(partial: Option<PartialIndex>) -> Option<Self> {
        partial.map(|partial| Self {
            started_mid_chain_at: partial.started_mid_chain_at.map(Height::get),
            filter_entries: Some(partial.filter_entries).filter(|&entries| entries > 0),
            text: partial,
        })
    }
}

/// An amount in the smallest unit of a chain: satoshi or lovelace.
///
/// Formats for people (JSON) have it as a decimal string, because their numbers lose digits above
/// 2^53; others (messages of gRPC) as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Units(pub u128);

impl std::fmt::Display for Units {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Units {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u128(self.0)
        }
    }
}

/// A quantity of one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Amount {
    /// What is counted: `sat`, `lovelace`, or policy and name of a native asset in hexadecimal,
    /// one behind the other.
    #[cfg_attr(feature = "schema", schema(example = "sat"))]
    pub unit: String,
    /// Policy of a native asset, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub policy_id: Option<String>,
    /// Name of a native asset within its policy, in hexadecimal; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub asset_name: Option<String>,
    /// Short name of a native asset that wallets show (CIP-14).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub fingerprint: Option<String>,
    /// How many, as a decimal string.
    #[cfg_attr(feature = "schema", schema(example = "5000000000"))]
    pub quantity: String,
}

impl Amount {
    /// An amount of the chain's own coin, then native assets.
    fn list<'a>(
        value: u128,
        assets: impl Iterator<Item = (&'a AssetId, u128)>,
        network: Network,
    ) -> Vec<Self> {
        let unit = if network.is_cardano() { "lovelace" } else { "sat" };
        let (unit, quantity) = (unit.to_owned(), value.to_string());
        let coin = Self { unit, policy_id: None, asset_name: None, fingerprint: None, quantity };
        let assets = assets.map(|((policy, name), quantity)| {
            let fingerprint = Some(asset_fingerprint(policy, name));
            let (policy, name) = (hex_encode(policy), hex_encode(name));
            let (unit, quantity) = (format!("{policy}{name}"), quantity.to_string());
            let (policy_id, asset_name) = (Some(policy), Some(name));
            Self { unit, policy_id, asset_name, fingerprint, quantity }
        });
        std::iter::once(coin).chain(assets).collect()
    }
}

/// What an owner holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Balance {
    /// Sum of the amounts in the smallest unit (satoshi or lovelace), as a decimal string.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "5000000000"))]
    pub amount: Units,
    /// Cardano: the same sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = String, nullable = false, required = false))]
    pub lovelace_amount: Option<Units>,
    /// The same sum by unit; on Cardano the sum of every native asset follows, in order of policy
    /// and name.
    pub amounts: Vec<Amount>,
    /// Number of outputs.
    #[cfg_attr(feature = "schema", schema(example = 1))]
    pub utxo_count: u64,
}

impl Balance {
    /// Describes a balance on `network`.
    #[must_use]
    pub fn new(balance: &AddressBalance, network: Network) -> Self {
        let assets = balance.assets.iter().map(|(asset, quantity)| (asset, *quantity));
        let amount = Units(balance.value);
        Self {
            amounts: Amount::list(balance.value, assets, network),
            lovelace_amount: network.is_cardano().then_some(amount),
            amount,
            utxo_count: balance.utxos,
        }
    }
}

/// A block of the followed chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Block {
    /// Height of the block.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub height: u32,
    /// Slot of the block; equals the height on chains without slots.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub slot: u64,
    /// Cardano: epoch of that slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub epoch: Option<u32>,
    /// Cardano: era of the block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub era: Option<&'static str>,
    /// Hash of the block.
    pub hash: String,
    /// Hash of its parent.
    pub previous_hash: String,
    /// Its time, in seconds since the epoch.
    #[cfg_attr(feature = "schema", schema(example = 1_296_868_800))]
    pub time: u64,
    /// Work of the chain up to and including the block, as a hexadecimal number.
    pub chain_work: String,
    /// Transactions in the block.
    pub tx_count: u32,
    /// Outputs it created, those spent in the block itself included.
    pub outputs_created: u32,
    /// Outputs it spent.
    pub outputs_spent: u32,
    /// Outputs in the set after the block.
    pub utxo_count: u64,
    /// Sum of their amounts in the smallest unit, as a decimal string.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "1500000000000"))]
    pub total_amount: Units,
}

impl Block {
    /// Describes the block at `height` of a chain of `network`.
    #[must_use]
    pub fn new(height: Height, entry: &BlockEntry, network: Network) -> Self {
        let point = entry.point(height);
        Self {
            height: height.get(),
            slot: point.slot,
            epoch: entry.slot.map(|slot| slot.epoch),
            era: entry.slot.map(|slot| era_name(slot.era)),
            hash: network.hash_text(entry.hash.as_bytes()),
            previous_hash: network.hash_text(entry.prev.as_bytes()),
            time: entry.time,
            chain_work: hex_encode(entry.work.as_bytes()),
            tx_count: entry.txs,
            outputs_created: entry.created,
            outputs_spent: entry.spent,
            utxo_count: entry.totals.txouts,
            total_amount: Units(entry.totals.total_amount.into()),
        }
    }
}

/// Name of an era of Cardano.
fn era_name(number: u8) -> &'static str {
    const NAMES: [&str; era::LAST as usize + 1] =
        ["byron", "byron", "shelley", "allegra", "mary", "alonzo", "babbage", "conway"];
    NAMES.get(usize::from(number)).copied().unwrap_or("unknown")
}

/// Size of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Table {
    /// Name of the table.
    #[cfg_attr(feature = "schema", schema(example = "utxo_unspent"))]
    pub name: String,
    /// Bytes on disk, without the write-ahead log.
    pub disk_bytes: u64,
    /// Rows, as estimated by the engine.
    pub rows_estimate: u64,
}

/// What a database says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Status))]
pub struct ChainStatus {
    /// The chain it follows.
    #[cfg_attr(feature = "schema", schema(example = "bitcoin"))]
    pub chain: String,
    /// The network within the chain.
    #[cfg_attr(feature = "schema", schema(example = "regtest"))]
    pub network: String,
    /// The last applied block; `null` before the first.
    pub point: Option<Point>,
    /// Height of that block.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub height: Option<u32>,
    /// Cardano: slot of that block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub slot: Option<u64>,
    /// Cardano: epoch of that slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub epoch: Option<u32>,
    /// Hash of that block.
    pub best_hash: Option<String>,
    /// Time of that block, in seconds since the epoch.
    pub block_time: Option<u64>,
    /// Outputs in the set; `null` while the index is off.
    #[cfg_attr(feature = "schema", schema(example = 30_690))]
    pub utxo_count: Option<u64>,
    /// Sum of their amounts in the smallest unit, as a decimal string.
    #[cfg_attr(
        feature = "schema",
        schema(value_type = Option<String>, example = "1124999990000")
    )]
    pub total_amount: Option<Units>,
    /// The source that is followed, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub source: Option<SourceStatus>,
    /// Deepest height that can still become the tip, and the lowest that `at` can ask about.
    #[cfg_attr(feature = "schema", schema(example = 12))]
    pub rollback_floor: Option<u32>,
    /// Undo data exists for every block above this height.
    #[cfg_attr(feature = "schema", schema(example = 12))]
    pub undo_base: Option<u32>,
    /// What is kept, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub partial: Option<Partial>,
    /// Cardano: height of the first block, when the index lacks the blocks before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub started_mid_chain_at: Option<u32>,
    /// Cardano: inputs that spent outputs from before the first block of the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub missing_inputs: Option<u64>,
    /// Addresses and credentials whose outputs are kept; 0 when all are. Always there on Cardano,
    /// elsewhere when there is a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub filter_entries: Option<usize>,
    /// Whether the set of unspent outputs is kept. Questions are answered where it is at the tip.
    pub is_index_enabled: bool,
    /// Where an index that is off, or that was off and is catching up, stands: the height of the last
    /// block in its tables. Absent where they are at the tip, where there are none, and where they have
    /// no block yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub index_height: Option<u32>,
    /// `on`, `off` or `catching_up`.
    #[cfg_attr(feature = "schema", schema(example = "on"))]
    pub index_state: &'static str,
    /// Whether an order-free digest of the set is kept at hand.
    pub is_muhash_kept: bool,
    /// Indexes that are kept, by the names of their settings.
    #[cfg_attr(feature = "schema", schema(example = json!(["address_hash"])))]
    pub indexes: Vec<&'static str>,
    /// The Merkle mountain range, where one is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub mmr: Option<MmrStatus>,
    /// `mmr` where a Merkle mountain range is kept, else `classic`.
    #[cfg_attr(feature = "schema", schema(example = "classic"))]
    pub store: &'static str,
    /// The block that an interrupted `chain mmr enable` resumes at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub mmr_build_next_height: Option<u32>,
    /// Undo data above this height is kept for an interrupted `chain mmr enable`, up to `[index]
    /// consumer_lag_blocks_max` blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub mmr_build_holds_undo_above: Option<u32>,
    /// Format of the database.
    #[cfg_attr(feature = "schema", schema(example = 1))]
    pub format_version: u64,
    /// Size of each table.
    pub tables: Vec<Table>,
}

impl ChainStatus {
    /// Describes a database that was opened with `settings`. `mmr_build` is where an
    /// interrupted build of the Merkle mountain range stands.
    #[must_use]
    pub fn new(
        status: &IndexStatus,
        settings: &IndexSettings,
        mmr_build: Option<&MmrBuildStanding>,
    ) -> Self {
        let network = status.network;
        let is_cardano = network.is_cardano();
        let point = status.tip.map(|tip| Point::new(&tip, network));
        let filter_entries = Some(status.filter_entries).filter(|&n| is_cardano || n > 0);
        Self {
            chain: network.chain().to_owned(),
            network: network.name().to_owned(),
            height: point.as_ref().map(|point| point.height),
            slot: point.as_ref().map(|point| point.slot).filter(|_| is_cardano),
            epoch: status.tip.and_then(|tip| epoch_of(tip.slot, settings)),
            best_hash: point.as_ref().map(|point| point.hash.clone()),
            point,
            block_time: status.tip_time,
            utxo_count: status.totals.map(|totals| totals.txouts),
            total_amount: status.totals.map(|totals| Units(totals.total_amount.into())),
            source: None,
            rollback_floor: status.rollback_floor.map(Height::get),
            undo_base: status.undo_base.map(Height::get),
            partial: Partial::new(status.partial),
            started_mid_chain_at: status.started_mid_chain_at.map(Height::get),
            missing_inputs: is_cardano.then_some(status.missing_inputs),
            filter_entries,
            is_index_enabled: settings.enabled,
            index_height: status
                .set_standing
                .stands_at()
                .and_then(|at| at.height())
                .map(Height::get),
            index_state: match status.set_standing {
                SetStanding::AtTip => "on",
                SetStanding::CatchingUp { .. } => "catching_up",
                SetStanding::Off { .. } => "off",
            },
            is_muhash_kept: settings.enabled && settings.muhash,
            indexes: indexes(settings),
            store: if settings.mmr.is_some() { "mmr" } else { "classic" },
            mmr_build_next_height: mmr_build.map(|build| build.next.get()),
            mmr_build_holds_undo_above: mmr_build
                .and_then(|build| build.holds_undo_above)
                .map(Height::get),
            mmr: status.mmr.map(MmrStatus::from),
            format_version: status.format_version,
            tables: status
                .tables
                .iter()
                .map(|table| Table {
                    name: table.name.to_owned(),
                    disk_bytes: table.disk_bytes,
                    rows_estimate: table.rows_estimate,
                })
                .collect(),
        }
    }
}

impl ChainStatus {
    /// The same, with what is known of the source.
    #[must_use]
    pub fn with_source(self, source: Option<SourceStatus>) -> Self {
        Self { source, ..self }
    }
}

/// Epoch of a slot, on chains that have epochs.
#[must_use]
pub fn epoch_of(slot: u64, settings: &IndexSettings) -> Option<u32> {
    settings.decoder.genesis().map(|genesis| genesis.epoch_and_time(slot).0)
}

fn indexes(settings: &IndexSettings) -> Vec<&'static str> {
    let all = [
        ("address_hash", settings.address_index),
        ("payment_credential", settings.payment_index),
        ("stake_credential", settings.stake_index),
    ];
    all.into_iter().filter(|(_, is_kept)| settings.enabled && *is_kept).map(|(n, _)| n).collect()
}
