//! JSON models shared by the command line and REST.
//!
//! Names are in snake case and follow the seed design where it has them.
//!
//! # Invariants
//!
//! * Amounts are decimal strings: JSON numbers lose digits above 2^53.
//! * Hashes are in the order people of the chain read them; on Bitcoin that is reversed.

use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use utxokeep_chains::{script_to_address, script_type};
use utxokeep_core::{BlockEntry, ChainPoint, Height, Network, hex_encode};
use utxokeep_index::{AddressBalance, Status as IndexStatus, Utxo as IndexUtxo};

/// The smallest unit of the amounts.
pub const UNIT: &str = "sat";

/// A place on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Point {
    /// Number of the block.
    #[schema(example = 300)]
    pub height: u32,
    /// Slot of the block; equals the height on chains without slots.
    #[schema(example = 300)]
    pub slot: u64,
    /// Hash of the block.
    #[schema(example = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206")]
    pub hash: String,
}

impl From<ChainPoint> for Point {
    fn from(point: ChainPoint) -> Self {
        Self { height: point.height.get(), slot: point.slot, hash: point.hash.to_reversed_hex() }
    }
}

/// A quantity of one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Amount {
    /// What is counted.
    #[schema(example = "sat")]
    pub unit: String,
    /// How many, as a decimal string.
    #[schema(example = "5000000000")]
    pub quantity: String,
}

impl Amount {
    fn list(quantity: &str) -> Vec<Self> {
        vec![Self { unit: UNIT.to_owned(), quantity: quantity.to_owned() }]
    }
}

/// An output. The `spent_*` fields are present only when it is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Utxo {
    /// Transaction that created the output.
    #[schema(example = "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456")]
    pub tx_hash: String,
    /// Position among the outputs of that transaction.
    #[schema(example = 0)]
    pub output_index: u32,
    /// Address of the owner; `null` for scripts that have no address.
    #[schema(example = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080")]
    pub owner_addr: Option<String>,
    /// The output script in hexadecimal.
    #[schema(example = "0014751e76e8199196d454941c45d1b3a323f1433bd6")]
    pub script_pub_key: String,
    /// Form of the script.
    #[schema(example = "p2wpkh")]
    pub script_type: String,
    /// SHA-256 of the script, reversed, as Electrum writes it.
    #[schema(example = "9623df75239b5daa7f5f03042d325b51498c4bb7059c7748b17049bf96f73888")]
    pub script_hash: String,
    /// Amount in the smallest unit, as a decimal string.
    #[schema(example = "5000000000")]
    pub amount: String,
    /// The same amount, by unit.
    pub amounts: Vec<Amount>,
    /// Whether a coinbase created the output.
    pub is_coinbase: bool,
    /// Slot of the block that created it.
    #[schema(example = 120)]
    pub slot: u64,
    /// Height of that block.
    #[schema(example = 120)]
    pub block: u32,
    /// Hash of that block.
    pub block_hash: String,
    /// Time of that block, in seconds since the epoch.
    #[schema(example = 1_296_760_800)]
    pub block_time: u64,
    /// Position of the transaction in that block.
    #[schema(example = 0)]
    pub tx_index: u32,
    /// Transaction that spent the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spent_tx_hash: Option<String>,
    /// Slot of the block that spent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spent_at_slot: Option<u64>,
    /// Height of that block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spent_at_block: Option<u32>,
    /// Hash of that block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spent_at_block_hash: Option<String>,
    /// Time of that block, in seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spent_block_time: Option<u64>,
}

impl Utxo {
    /// Describes an output of `network`.
    #[must_use]
    pub fn new(utxo: &IndexUtxo, network: Network) -> Self {
        let amount = utxo.value.to_string();
        let spent = utxo.spent.as_ref();
        Self {
            tx_hash: utxo.outpoint.txid().to_reversed_hex(),
            output_index: utxo.outpoint.index(),
            owner_addr: script_to_address(&utxo.address, network),
            script_pub_key: hex_encode(&utxo.address),
            script_type: script_type(&utxo.address).to_owned(),
            script_hash: script_hash(&utxo.address),
            amounts: Amount::list(&amount),
            amount,
            is_coinbase: utxo.is_coinbase,
            slot: utxo.created.slot,
            block: utxo.created.height.get(),
            block_hash: utxo.created.hash.to_reversed_hex(),
            block_time: utxo.created_time,
            tx_index: utxo.tx_index,
            spent_tx_hash: spent.map(|spent| spent.txid.to_reversed_hex()),
            spent_at_slot: spent.map(|spent| spent.block.slot),
            spent_at_block: spent.map(|spent| spent.block.height.get()),
            spent_at_block_hash: spent.map(|spent| spent.block.hash.to_reversed_hex()),
            spent_block_time: spent.map(|spent| spent.time),
        }
    }
}

/// The Electrum form of a script: its SHA-256, reversed.
#[must_use]
pub fn script_hash(script: &[u8]) -> String {
    let mut hash: [u8; 32] = Sha256::digest(script).into();
    hash.reverse();
    hex_encode(&hash)
}

/// What an address or script holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Balance {
    /// Sum of the amounts in the smallest unit, as a decimal string.
    #[schema(example = "5000000000")]
    pub amount: String,
    /// The same sum, by unit.
    pub amounts: Vec<Amount>,
    /// Number of outputs.
    #[schema(example = 1)]
    pub utxo_count: u64,
}

impl From<AddressBalance> for Balance {
    fn from(balance: AddressBalance) -> Self {
        let amount = balance.value.to_string();
        Self { amounts: Amount::list(&amount), amount, utxo_count: balance.utxos }
    }
}

/// A block of the followed chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Block {
    /// Height of the block.
    #[schema(example = 300)]
    pub height: u32,
    /// Slot of the block; equals the height on chains without slots.
    #[schema(example = 300)]
    pub slot: u64,
    /// Hash of the block.
    pub hash: String,
    /// Hash of its parent.
    pub previous_hash: String,
    /// Its time, in seconds since the epoch.
    #[schema(example = 1_296_868_800)]
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
    #[schema(example = "1500000000000")]
    pub total_amount: String,
}

impl Block {
    /// Describes the block at `height`.
    #[must_use]
    pub fn new(height: Height, entry: &BlockEntry) -> Self {
        let point = entry.point(height);
        Self {
            height: height.get(),
            slot: point.slot,
            hash: entry.hash.to_reversed_hex(),
            previous_hash: entry.prev.to_reversed_hex(),
            time: entry.time,
            chain_work: hex_encode(entry.work.as_bytes()),
            tx_count: entry.txs,
            outputs_created: entry.created,
            outputs_spent: entry.spent,
            utxo_count: entry.totals.txouts,
            total_amount: entry.totals.total_amount.to_string(),
        }
    }
}

/// Size of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Table {
    /// Name of the table.
    #[schema(example = "utxo_unspent")]
    pub name: String,
    /// Bytes on disk, without the write-ahead log.
    pub disk_bytes: u64,
    /// Rows, as estimated by the engine.
    pub rows_estimate: u64,
}

/// What a database says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Status {
    /// The chain it follows.
    #[schema(example = "bitcoin")]
    pub chain: String,
    /// The network within the chain.
    #[schema(example = "regtest")]
    pub network: String,
    /// The last applied block; `null` before the first.
    pub point: Option<Point>,
    /// Height of that block.
    #[schema(example = 300)]
    pub height: Option<u32>,
    /// Hash of that block.
    pub best_hash: Option<String>,
    /// Time of that block, in seconds since the epoch.
    pub block_time: Option<u64>,
    /// Outputs in the set; `null` while the index is off.
    #[schema(example = 30_690)]
    pub utxo_count: Option<u64>,
    /// Sum of their amounts in the smallest unit, as a decimal string.
    #[schema(example = "1124999990000")]
    pub total_amount: Option<String>,
    /// Deepest height that can still become the tip, and the lowest that `at` can ask about.
    #[schema(example = 12)]
    pub rollback_floor: Option<u32>,
    /// Format of the database.
    #[schema(example = 1)]
    pub format_version: u64,
    /// Size of each table.
    pub tables: Vec<Table>,
}

impl From<&IndexStatus> for Status {
    fn from(status: &IndexStatus) -> Self {
        let point = status.tip.map(Point::from);
        Self {
            chain: status.network.chain().to_owned(),
            network: status.network.name().to_owned(),
            height: point.as_ref().map(|point| point.height),
            best_hash: point.as_ref().map(|point| point.hash.clone()),
            point,
            block_time: status.tip_time,
            utxo_count: status.totals.map(|totals| totals.txouts),
            total_amount: status.totals.map(|totals| totals.total_amount.to_string()),
            rollback_floor: status.rollback_floor.map(Height::get),
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

#[cfg(test)]
mod tests {
    use utxokeep_core::{BlockHash, OutPoint, Txid};
    use utxokeep_index::SpentInfo;

    use super::*;

    fn output() -> IndexUtxo {
        let point = |height| ChainPoint {
            height: Height::new(height),
            slot: u64::from(height),
            hash: BlockHash::from_bytes([u8::try_from(height).unwrap(); 32]),
        };
        IndexUtxo {
            outpoint: OutPoint::new(Txid::from_bytes([1; 32]), 7),
            address: utxokeep_core::hex_decode("0014751e76e8199196d454941c45d1b3a323f1433bd6")
                .unwrap(),
            value: u64::MAX,
            tx_index: 3,
            is_coinbase: false,
            created: point(5),
            created_time: 50,
            spent: Some(SpentInfo { txid: Txid::from_bytes([2; 32]), block: point(6), time: 60 }),
        }
    }

    #[test]
    fn a_spent_output_names_its_spender_and_keeps_every_digit() {
        let json = serde_json::to_value(Utxo::new(&output(), Network::BitcoinRegtest)).unwrap();
        assert_eq!(json["owner_addr"], "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080");
        assert_eq!(json["amount"], "18446744073709551615");
        assert_eq!(json["amounts"][0]["unit"], "sat");
        assert_eq!(json["amounts"][0]["quantity"], json["amount"]);
        assert_eq!(json["script_type"], "p2wpkh");
        assert_eq!(
            json["script_hash"],
            "9623df75239b5daa7f5f03042d325b51498c4bb7059c7748b17049bf96f73888"
        );
        assert_eq!(json["spent_tx_hash"], "02".repeat(32));
        assert_eq!(json["spent_at_block"], 6);
        assert_eq!(json["spent_block_time"], 60);
    }

    #[test]
    fn a_live_output_has_no_spent_fields_and_an_odd_script_no_address() {
        let mut utxo = output();
        utxo.spent = None;
        utxo.address = vec![0x51];
        let json = serde_json::to_value(Utxo::new(&utxo, Network::BitcoinRegtest)).unwrap();
        let fields = json.as_object().unwrap();
        assert!(fields.keys().all(|name| !name.starts_with("spent_")), "{fields:?}");
        assert!(fields["owner_addr"].is_null());
        assert_eq!(json["script_pub_key"], "51");
    }
}
