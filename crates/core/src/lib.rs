//! The rules of utxokeep: types, records, deltas and verdicts.
//!
//! # Invariants
//!
//! * Nothing here performs I/O, reads a clock, spawns a thread or iterates a hash map: every
//!   answer is a function of its arguments.
//! * Each byte that reaches a disk key or value is produced by a codec in this crate.

mod accumulator;
mod chain;
mod hash;
mod kind;
mod metric;
mod network;
pub mod node;
mod open_mode;
pub mod persisted;
mod stored;
mod types;
pub mod wallet;

pub use accumulator::{MuHash, mmr};
pub use chain::{
    bitcoin::{
        BLOCK_WEIGHT_MAX, BitcoinFacts, MEDIAN_BLOCKS, PastTimes, SIGOP_COST_MAX, TxLock, Unlock,
        check_alone, is_final_sequence, median_time,
    },
    block::{Block, Header, Output, SlotInfo, Tx},
    block_name::{BlockName, BlockNameError},
    cardano,
    changes::{Change, ChangeKind, ChangePart, Changes, Direction, PartLimits, WatchFilter},
    check::{
        Checked, CoinFacts, InvalidBlock, MissingInput, Prevout, check_block, in_block_prevouts,
    },
    coin::{SetDigest, Totals, bogosize, coin_bytes_into},
    delta::{BlockDelta, Created, InvalidTx, MmrDelta, Spent},
    details::{Asset, AssetFilter, Datum, Details, Parsed as ParsedDetails, ScriptRef},
    filter::Filter,
    partial::{FilterSize, OwnerKeys, Partial},
    record::{BlockStamp, Corrupt, SpentRecord, UtxoRecord},
    rows::{
        AddressRow, AddressRowKey, BlockEntry, IndexKey, IndexTag, SpentAddressRow, row_outpoint,
    },
    sigops::legacy_sigops,
    stream_cursor::StreamCursor,
    tree::{HeaderTree, Inserted, Node, Path},
    window::Window,
};
pub use hash::{ChainHash, ChainOutPoint};
pub use kind::ErrorKind;
pub use metric::{Metric, MetricKind};
pub use network::{Network, UnknownNetwork};
pub use open_mode::{Found, NotOpened, OpenMode, Opening};
pub use stored::{Encoded, StoreAs, StoredBody, StoredKey, StoredValue};
pub use types::{
    AddressKey, BlockHash, ChainPoint, ChainWork, HashParseError, Height, OutPoint, Txid,
    hex_decode, hex_encode,
};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
