//! Columns to values of the rules, and back.

use utxokeep_core::{
    Height, Txid,
    node::{BlobKind, OutputRecord, OutputState, SpendingData, TxRecord},
};
use utxokeep_sql::{Row, SqlError, Value};

/// Columns of a record, in the order of [`record_row`].
pub(super) const RECORD_COLUMNS: &str = "txid, is_coinbase, is_conflicting, is_locked, blob, \
     spendable_at, outputs, utxos, spent, unmined_since, created_at_ms, delete_at_height, \
     preserve_until, blocks, conflicting_children, reassignments, deleted_children, spent_at, \
     kept_for_child_until, body_checksum";

/// A record without its lists, and how long each of them is.
pub(super) struct RecordRow {
    pub(super) txid: Txid,
    pub(super) record: TxRecord,
    pub(super) has_blocks: bool,
    pub(super) has_conflicts: bool,
    pub(super) has_reassignments: bool,
}

pub(super) fn u32_at(row: &Row<'_>, column: usize) -> Result<u32, SqlError> {
    let number = row.int(column)?;
    u32::try_from(number)
        .map_err(|_| SqlError::bad_row(format!("{number} in column {column} is no u32")))
}

pub(super) fn height_at(row: &Row<'_>, column: usize) -> Result<Option<Height>, SqlError> {
    row.opt_int(column)?.map(|_| u32_at(row, column).map(Height::new)).transpose()
}

pub(super) fn checksum_at(row: &Row<'_>, column: usize) -> Result<Option<u32>, SqlError> {
    row.opt_int(column)?.map(|_| u32_at(row, column)).transpose()
}

pub(super) fn txid_at(row: &Row<'_>, column: usize) -> Result<Txid, SqlError> {
    Ok(Txid::from_bytes(row.array(column)?))
}

/// Amounts and times are unsigned; the database has signed numbers of the same length.
pub(super) fn u64_at(row: &Row<'_>, column: usize) -> Result<u64, SqlError> {
    Ok(row.int(column)?.cast_unsigned())
}

pub(super) fn from_u64(number: u64) -> Value<'static> {
    Value::from(number.cast_signed())
}

pub(super) fn count(len: usize) -> Value<'static> {
    Value::from(i64::try_from(len).unwrap_or(i64::MAX))
}

pub(super) fn height(height: Option<Height>) -> Value<'static> {
    Value::from(height.map(Height::get))
}

pub(super) fn blob(kind: Option<BlobKind>) -> i64 {
    match kind {
        None => 0,
        Some(BlobKind::Tx) => 1,
        Some(BlobKind::Outputs) => 2,
    }
}

/// Reads the columns of [`RECORD_COLUMNS`].
pub(super) fn record_row(row: &Row<'_>) -> Result<RecordRow, SqlError> {
    let blob = match row.int(4)? {
        0 => None,
        1 => Some(BlobKind::Tx),
        2 => Some(BlobKind::Outputs),
        other => return Err(SqlError::bad_row(format!("{other} is no kind of a file"))),
    };
    let record = TxRecord {
        is_coinbase: row.int(1)? != 0,
        is_conflicting: row.int(2)? != 0,
        is_locked: row.int(3)? != 0,
        blob,
        spendable_at: height_at(row, 5)?,
        outputs: u32_at(row, 6)?,
        utxos: u32_at(row, 7)?,
        spent: u32_at(row, 8)?,
        spent_at: height_at(row, 17)?,
        unmined_since: height_at(row, 9)?,
        created_at_ms: u64_at(row, 10)?,
        delete_at: height_at(row, 11)?,
        preserve_until: height_at(row, 12)?,
        kept_for_child_until: height_at(row, 18)?,
        blocks: Vec::new(),
        conflicting_children: Vec::new(),
        reassignments: Vec::new(),
        deleted_children: u32_at(row, 16)?,
        file_checksum: if blob.is_some() { checksum_at(row, 19)? } else { None },
        is_creating: false,
    };
    Ok(RecordRow {
        txid: txid_at(row, 0)?,
        record,
        has_blocks: row.int(13)? > 0,
        has_conflicts: row.int(14)? > 0,
        has_reassignments: row.int(15)? > 0,
    })
}

/// Columns of an output, in the order of [`slot_row`].
pub(super) const SLOT_COLUMNS: &str =
    "txid, vout, utxo_hash, spending_data, is_frozen, spendable_at";

/// Reads the columns of [`SLOT_COLUMNS`]; `None` for an output that nobody can spend.
pub(super) fn slot_row(row: &Row<'_>) -> Result<Option<OutputRecord>, SqlError> {
    let Some(hash) = row.opt_bytes(2)? else { return Ok(None) };
    let hash = hash.try_into().map_err(|_| SqlError::bad_row("a commitment has not 32 bytes"))?;
    let state = match row.opt_bytes(3)? {
        Some(bytes) => OutputState::Spent(
            SpendingData::from_bytes(bytes)
                .ok_or_else(|| SqlError::bad_row("spending data has not 36 bytes"))?,
        ),
        None if row.int(4)? != 0 => OutputState::Frozen,
        None => OutputState::Unspent,
    };
    Ok(Some(OutputRecord { hash, state, spendable_at: height_at(row, 5)?.map(Height::get) }))
}
