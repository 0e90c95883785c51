//! The statements that read by keys, where tests look at their plans too.

use utxokeep_core::node::HeightIndex;

use super::rows::{RECORD_COLUMNS, SLOT_COLUMNS};

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

/// How often records were unsettled, as it is now. Read before relying on settled records.
pub(super) const GENERATION: &str = "SELECT generation FROM node_unsettled WHERE id = 0";

/// The same at the end of a transaction that relied on settled records: it waits for one that is
/// about to unsettle some, and the next such one waits for it.
pub(super) const GENERATION_SHARED: &str =
    "SELECT generation FROM node_unsettled WHERE id = 0 FOR SHARE";

/// Ends a transaction that unsettles records. One row in place of a lock for each child: it is
/// written by reorganisations only.
pub(super) const NEXT_GENERATION: &str =
    "UPDATE node_unsettled SET generation = generation + 1 WHERE id = 0";

/// Name of the row that is locked by whoever changes values of the store as a whole.
pub(super) const STATES_LOCK: &[u8] = b"lock";

pub(super) const LOCK_STATES: &str = "SELECT name FROM node_state WHERE name = $1 FOR UPDATE";

/// Waits for another program that makes it at the same moment.
pub(super) const MAKE_STATES_LOCK: &str =
    "INSERT INTO node_state (name, value) VALUES ($1, $1) ON CONFLICT (name) DO NOTHING";

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
        HeightIndex::KeptForChild => "kept_for_child_until",
    }
}
