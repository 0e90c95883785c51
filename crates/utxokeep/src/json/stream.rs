//! Events of the change stream, as REST and the command line show them.

use serde::Serialize;
use utxokeep_core::{BlockHash, ChainPoint, Direction, Network, StreamCursor, hex_encode};
use utxokeep_index::{LoggedBlock, Utxo as IndexUtxo};

use super::{Amount, Units, Utxo};
use crate::stream::{BlockChanges, ChangedOutput, Cut, cursor_text};

/// An output that a block created, spent or replaced. Fields have the names that they have elsewhere;
/// those of the other chain, and those that say what this output does not have, are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamOutput {
    /// Transaction that created the output.
    pub tx_hash: String,
    /// Position among the outputs of that transaction.
    pub output_index: u32,
    /// Address of the owner. Bitcoin: `null` for scripts that have no address.
    pub owner_addr: Option<String>,
    /// Cardano: the stake address that goes with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_stake_addr: Option<String>,
    /// Cardano: hash of the key or script that may spend the output, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_payment_credential: Option<String>,
    /// Cardano: hash of the key or script that earns the rewards, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_stake_credential: Option<String>,
    /// Bitcoin: the output script in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub script_pub_key: Option<String>,
    /// Amount in the smallest unit (satoshi or lovelace), as a decimal string.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "5000000000"))]
    pub amount: Units,
    /// The same amount by unit; on Cardano native assets follow, in order of policy and name.
    pub amounts: Vec<Amount>,
    /// Cardano: hash of the datum; of an inline datum too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub data_hash: Option<String>,
    /// Cardano: the datum, its original bytes in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub inline_datum: Option<String>,
    /// Cardano: hash of the script that other transactions may refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub reference_script_hash: Option<String>,
    /// Bitcoin: whether a coinbase created the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub is_coinbase: Option<bool>,
    /// Height of the block that created it.
    pub block: u32,
    /// Position of the transaction in that block.
    pub tx_index: u32,
    /// Transaction that spent the output. Absent from one that the ledger itself removed where an era
    /// of Cardano began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spent_tx_hash: Option<String>,
}

impl StreamOutput {
    fn new(output: &ChangedOutput, network: Network) -> Self {
        // Of the block that created it the stream tells the height: its hash is not in the log when
        // that block has left the chain too.
        let created = ChainPoint {
            height: output.height,
            slot: output.height.get().into(),
            hash: BlockHash::default(),
        };
        let shown = Utxo::new(
            &IndexUtxo {
                outpoint: output.outpoint,
                address: output.address.clone(),
                value: output.value,
                details: output.details.clone(),
                tx_index: output.tx_index,
                is_coinbase: output.is_coinbase,
                created,
                created_time: 0,
                created_epoch: None,
                spent: None,
            },
            network,
        );
        Self {
            tx_hash: shown.tx_hash,
            output_index: shown.output_index,
            owner_addr: shown.owner_addr,
            owner_stake_addr: shown.owner_stake_addr,
            owner_payment_credential: shown.owner_payment_credential,
            owner_stake_credential: shown.owner_stake_credential,
            script_pub_key: shown.script_pub_key,
            amount: shown.amount,
            amounts: shown.amounts,
            data_hash: shown.data_hash,
            inline_datum: shown.inline_datum,
            reference_script_hash: shown.reference_script_hash,
            is_coinbase: shown.is_coinbase,
            block: shown.block,
            tx_index: shown.tx_index,
            spent_tx_hash: output.spent_by.map(|txid| network.hash_text(txid.as_bytes())),
        }
    }
}

/// The block of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamBlock {
    /// Where the block is, or was before it was undone.
    pub height: u32,
    /// Its slot; equals the height on chains without slots.
    pub slot: u64,
    /// Its hash.
    pub hash: String,
    /// Hash of the block below it.
    pub prev_hash: String,
    /// Its time, in seconds since the epoch.
    pub time: u64,
}

impl StreamBlock {
    fn new(block: &LoggedBlock, network: Network) -> Self {
        Self {
            height: block.height.get(),
            slot: block.point().slot,
            hash: network.hash_text(block.entry.hash.as_bytes()),
            prev_hash: network.hash_text(block.entry.prev.as_bytes()),
            time: block.entry.time,
        }
    }
}

/// An event of the change stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum StreamEvent {
    /// A block joined the chain: take `replaced` out, put `created` in, take `spent` out.
    Apply(StreamChanges),
    /// A block left the chain: put `spent` back, take `created` out, put `replaced` back.
    Undo(StreamChanges),
    /// Nothing that is watched happened up to the cursor.
    Checkpoint(StreamPlace),
    /// The server ends the stream.
    Cut(StreamCut),
}

/// What a block changed, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamChanges {
    /// Where a client stands that has carried the event out.
    pub cursor: String,
    /// The block.
    pub block: StreamBlock,
    /// Place of the first change of this part among all changes of the block.
    pub first: usize,
    /// How many changes of the block the part covers, those that are not watched included.
    pub covers: usize,
    /// Whether the block is done with it. A large block comes in several events.
    pub is_last: bool,
    /// With `is_last`, where the database keeps a Merkle mountain range: its root behind this event. Of
    /// several blocks that are undone in a row only the last has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub mmr_root: Option<String>,
    /// Together with `mmr_root`: leaves, spent ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub mmr_leaves: Option<u64>,
    /// Outputs that a repeated transaction replaced; two blocks of Bitcoin have some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<StreamOutput>,
    /// Outputs that the block created, in the order in which a client carries the event out.
    pub created: Vec<StreamOutput>,
    /// Outputs that it spent, likewise. One that the same block created is in both lists.
    pub spent: Vec<StreamOutput>,
}

/// A place in the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamPlace {
    /// The cursor.
    pub cursor: String,
    /// Height of its block; `null` before the first.
    pub height: Option<u32>,
}

/// The end of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamCut {
    /// Where to go on.
    pub cursor: String,
    /// `slow_reader`, `server_stops`, `past_window` or `failed`.
    pub reason: &'static str,
    /// The same for people.
    pub message: String,
    /// With `past_window`: the lowest height to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub start_from: Option<u32>,
}

impl StreamEvent {
    /// What a block changed.
    #[must_use]
    pub fn changes(changes: &BlockChanges, network: Network) -> Self {
        let outputs = |all: &[ChangedOutput]| {
            all.iter().map(|output| StreamOutput::new(output, network)).collect()
        };
        let shown = StreamChanges {
            cursor: cursor_text(&changes.cursor),
            block: StreamBlock::new(&changes.block, network),
            first: changes.first,
            covers: changes.covers,
            is_last: changes.is_last,
            mmr_root: changes.mmr.map(|mmr| hex_encode(&mmr.root)),
            mmr_leaves: changes.mmr.map(|mmr| mmr.leaves),
            replaced: outputs(&changes.replaced),
            created: outputs(&changes.created),
            spent: outputs(&changes.spent),
        };
        match changes.direction {
            Direction::Apply => Self::Apply(shown),
            Direction::Undo => Self::Undo(shown),
        }
    }

    /// A place that was reached in silence.
    #[must_use]
    pub fn checkpoint(cursor: &StreamCursor) -> Self {
        let height = cursor.block().map(|(height, _)| height.get());
        Self::Checkpoint(StreamPlace { cursor: cursor_text(cursor), height })
    }

    /// The end.
    #[must_use]
    pub fn cut(cut: &Cut) -> Self {
        Self::Cut(StreamCut {
            cursor: cursor_text(&cut.cursor),
            reason: cut.reason.name(),
            message: cut.message.clone(),
            start_from: cut.start_from.map(utxokeep_core::Height::get),
        })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Apply(_) => "apply",
            Self::Undo(_) => "undo",
            Self::Checkpoint(_) => "checkpoint",
            Self::Cut(_) => "cut",
        }
    }

    /// Where a client stands that has carried it out.
    #[must_use]
    pub fn cursor(&self) -> &str {
        match self {
            Self::Apply(changes) | Self::Undo(changes) => &changes.cursor,
            Self::Checkpoint(place) => &place.cursor,
            Self::Cut(cut) => &cut.cursor,
        }
    }
}
