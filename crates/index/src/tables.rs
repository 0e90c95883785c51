//! The schema: every table of the chain log and the chain index. `docs/schema.md` explains it.

use utxokeep_core::{
    AddressRow, AddressRowKey, BlockDelta, BlockEntry, BlockHash, Height, MuHash, OutPoint,
    SpentAddressRow, SpentRecord, UtxoRecord,
    mmr::{PlaceKey, Row as MmrRow, RowKey as MmrRowKey},
};
use utxokeep_kv::{Access, TableSpec, tables};

pub use crate::side::{SideBody, SideHeader};

tables! {
    pub,
    /// Format version, network, settings and tip, by name.
    META = 0, "chain_meta": [u8] => [u8], Access::Sequential;
    /// The chain log: height → block entry, with the totals of the set after the block.
    BLOCKS = 1, "chain_blocks": Height => BlockEntry, Access::Sequential;
    /// Block hash → height, for blocks of the followed chain.
    HEIGHTS = 2, "chain_heights": BlockHash => Height, Access::Point;
    /// Blocks of other branches: height, hash → header and verdict.
    SIDE = 3, "chain_side": (Height, BlockHash) => SideHeader, Access::Sequential;
    /// Bodies of those blocks: height, hash → raw block or redo delta.
    SIDE_BODY = 4, "chain_side_body": (Height, BlockHash) => SideBody, Access::Sequential;
    /// Live outputs: outpoint → record.
    UNSPENT = 5, "utxo_unspent": OutPoint => UtxoRecord<'static>, Access::Point;
    /// Spent outputs inside the horizon: outpoint → spent record.
    SPENT = 6, "utxo_spent": OutPoint => SpentRecord<'static>, Access::Point;
    /// Live outputs by address: tag, address key, chain position → txid, amount.
    ADDR = 7, "utxo_addr": AddressRowKey => AddressRow, Access::Prefix(AddressRowKey::PREFIX_LEN);
    /// Spent outputs inside the horizon, by address: the same key → txid, amount, spent height.
    ADDR_SPENT = 8, "utxo_addr_spent": AddressRowKey => SpentAddressRow, Access::Prefix(AddressRowKey::PREFIX_LEN);
    /// Height → what the block changed.
    DELTA = 9, "utxo_block_delta": Height => BlockDelta, Access::Sequential;
    /// Height → MuHash accumulator after the block.
    MUHASH = 10, "utxo_muhash": Height => MuHash, Access::Sequential;
    /// Undo base and prune cursor, by name.
    UTXO_META = 11, "utxo_meta": [u8] => [u8], Access::Sequential;
    /// Nodes of the Merkle mountain range: level and number → sixteen neighbours.
    MMR_NODES = 12, "utxo_mmr_nodes": MmrRowKey => MmrRow, Access::Hashes;
    /// Leaf numbers: height, transactions → leaves of their outputs.
    MMR_PLACES = 13, "utxo_mmr_places": PlaceKey => [u8], Access::Point;
}

/// How many of [`TABLES`] belong to the chain log; the rest is the index and stays unopened when
/// the index is off.
pub const LOG_TABLES: usize = 5;

/// How many of [`TABLES`] there are without a Merkle mountain range; its own come behind them.
pub const CLASSIC_TABLES: usize = 12;

/// The tables of a database that has these on disk: the log alone, with the index, or with the
/// Merkle mountain range too, of which one may be missing.
#[must_use]
pub fn tables_of(on_disk: &[String]) -> &'static [TableSpec] {
    if MmrTables::of(on_disk) != MmrTables::None {
        TABLES
    } else if has(on_disk, LOG_TABLES) {
        &TABLES[..CLASSIC_TABLES]
    } else {
        &TABLES[..LOG_TABLES]
    }
}

/// Which tables of a Merkle mountain range a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "rocksdb"), allow(dead_code, reason = "only databases on disk lack some"))]
pub(crate) enum MmrTables {
    None,
    /// The process died while it created or dropped them; this one is missing.
    Without(&'static str),
    All,
}

impl MmrTables {
    /// Looks at the names of the tables on disk.
    pub(crate) fn of(on_disk: &[String]) -> Self {
        let mut tables = CLASSIC_TABLES..TABLES.len();
        if !tables.clone().any(|at| has(on_disk, at)) {
            return Self::None;
        }
        match tables.find(|at| !has(on_disk, *at)) {
            Some(missing) => Self::Without(TABLES[missing].name),
            None => Self::All,
        }
    }
}

fn has(on_disk: &[String], at: usize) -> bool {
    on_disk.iter().any(|name| *name == TABLES[at].name)
}
