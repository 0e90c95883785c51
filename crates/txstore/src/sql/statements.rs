//! The statements that read by keys, where tests look at their plans too.

use utxokeep_sql::Value;

use super::rows::{RECORD_COLUMNS, SLOT_COLUMNS};
use crate::backend::HeightIndex;

/// Records by their ids.
pub(super) fn records_head() -> String {
    format!("SELECT {RECORD_COLUMNS} FROM node_transactions WHERE txid IN")
}

/// Outputs by transaction and index.
pub(super) fn slots_head() -> String {
    format!("SELECT {SLOT_COLUMNS} FROM node_outputs WHERE (txid, vout) IN")
}

/// All outputs of transactions.
pub(super) fn outputs_head() -> String {
    format!("SELECT {SLOT_COLUMNS} FROM node_outputs WHERE txid IN")
}

pub(super) const OUTPUTS_TAIL: &str = " ORDER BY txid, vout";

/// Greatest heights of records that are settled.
pub(super) const SETTLED_HEAD: &str = "SELECT txid, (SELECT MAX(block_height) FROM node_block_ids \
     WHERE node_block_ids.txid = node_transactions.txid) FROM node_transactions \
     WHERE unmined_since IS NULL AND is_conflicting = 0 AND blocks > 0 AND txid IN";

/// Held by who relies on settled records, together with others, and by who unsettles one, alone.
/// One lock in place of one for each child: it is rarely wanted alone, and costs no write.
pub(super) const SETTLED_KEY: Value<'static> = Value::Int(Some(0x7574_786f_6b65_6570));
pub(super) const LOCK_SETTLED: &str = "SELECT pg_advisory_xact_lock_shared($1)";
pub(super) const LOCK_SETTLED_ALONE: &str = "SELECT pg_advisory_xact_lock($1)";

/// What bodies beside their records spend.
pub(super) const SPENDS_HEAD: &str = "SELECT node_transactions.txid, is_coinbase, previous_txid, \
     previous_vout FROM node_transactions LEFT JOIN node_inputs \
     ON node_inputs.txid = node_transactions.txid WHERE blob = 0 AND node_transactions.txid IN";
pub(super) const SPENDS_TAIL: &str = " ORDER BY node_transactions.txid, vin";

/// Rows of an index: up to a height, behind a row, at most so many.
pub(super) fn by_height(index: HeightIndex) -> String {
    let column = column(index);
    format!(
        "SELECT {column}, txid FROM node_transactions WHERE {column} IS NOT NULL \
         AND {column} <= $1 AND ({column}, txid) > ($2, $3) ORDER BY {column}, txid LIMIT $4"
    )
}

const fn column(index: HeightIndex) -> &'static str {
    match index {
        HeightIndex::Due => "delete_at_height",
        HeightIndex::Unmined => "unmined_since",
        HeightIndex::Preserved => "preserve_until",
    }
}
