//! The rules of utxokeep: types, records, deltas and verdicts.
//!
//! # Invariants
//!
//! * Nothing here performs I/O, reads a clock, spawns a thread or iterates a hash map: every
//!   answer is a function of its arguments.
//! * Each byte that reaches a disk key or value is produced by a codec in this crate.

mod accumulator;
mod block;
mod block_name;
pub mod cardano;
mod check;
mod coin;
mod delta;
mod details;
mod filter;
mod metric;
mod network;
pub mod node;
mod partial;
mod record;
mod rows;
mod tree;
mod types;
pub mod wallet;
mod window;

pub use accumulator::MuHash;
pub use block::{Block, Header, Output, SlotInfo, Tx};
pub use block_name::{BlockName, BlockNameError};
pub use check::{
    Checked, CoinFacts, InvalidBlock, MissingInput, Prevout, check_block, in_block_prevouts,
};
pub use coin::{SetDigest, Totals, bogosize, coin_bytes_into};
pub use delta::{BlockDelta, Created, InvalidTx, Spent};
pub use details::{Asset, AssetFilter, Datum, Details, Parsed as ParsedDetails, ScriptRef};
pub use filter::Filter;
pub use metric::{Metric, MetricKind};
pub use network::{Network, UnknownNetwork};
pub use partial::{FilterSize, OwnerKeys, Partial};
pub use record::{Corrupt, Place, SpentRecord, UtxoRecord};
pub use rows::{
    AddressRow, AddressRowKey, BlockEntry, IndexKey, IndexTag, SpentAddressRow, row_outpoint,
};
pub use tree::{HeaderTree, Inserted, Node, Path};
pub use types::{
    AddressKey, BlockHash, ChainPoint, ChainWork, HashParseError, Height, OutPoint, Txid,
    hex_decode, hex_encode,
};
pub use window::Window;
