//! Columns to types. A value that cannot be right is an error, never skipped.

use utxokeep_core::{
    BlockHash, ChainWork, Height, OutPoint, Txid,
    wallet::{Amount, CoinClass, TxState, TxStatus},
};
use utxokeep_sql::{Row, SqlError, Value};

pub(crate) fn bad(what: impl Into<String>) -> SqlError {
    SqlError::bad_row(what)
}

pub(crate) fn txid(row: &Row<'_>, column: usize) -> Result<Txid, SqlError> {
    Ok(Txid::from_bytes(row.array(column)?))
}

pub(crate) fn outpoint(row: &Row<'_>, txid_at: usize) -> Result<OutPoint, SqlError> {
    Ok(OutPoint::new(txid(row, txid_at)?, u32_at(row, txid_at + 1)?))
}

pub(crate) fn u32_at(row: &Row<'_>, column: usize) -> Result<u32, SqlError> {
    u32::try_from(row.int(column)?).map_err(|_| bad(format!("column {column} is out of range")))
}

pub(crate) fn flag(row: &Row<'_>, column: usize) -> Result<bool, SqlError> {
    match row.int(column)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(bad(format!("column {column} is {other}, expected 0 or 1"))),
    }
}

pub(crate) fn height(row: &Row<'_>, column: usize) -> Result<Option<Height>, SqlError> {
    row.opt_int(column)?
        .map(|raw| u32::try_from(raw).map(Height::new).map_err(|_| bad("a height is out of range")))
        .transpose()
}

pub(crate) fn amount(row: &Row<'_>, column: usize) -> Result<Amount, SqlError> {
    let raw = row.int(column)?;
    Amount::from_column(raw).ok_or_else(|| bad(format!("amount {raw} is out of range")))
}

/// A sum of amounts, which may be larger than one amount; null counts as nothing.
pub(crate) fn sum(row: &Row<'_>, column: usize) -> Result<u64, SqlError> {
    u64::try_from(row.opt_int(column)?.unwrap_or(0)).map_err(|_| bad("a sum is negative"))
}

pub(crate) fn class(row: &Row<'_>, column: usize) -> Result<CoinClass, SqlError> {
    let code = row.int(column)?;
    CoinClass::from_code(code).ok_or_else(|| bad(format!("{code} is no class of coins")))
}

pub(crate) fn status(row: &Row<'_>, column: usize) -> Result<TxStatus, SqlError> {
    let code = row.int(column)?;
    TxStatus::from_code(code).ok_or_else(|| bad(format!("{code} is no status")))
}

/// Status and height from two columns.
pub(crate) fn state(
    row: &Row<'_>,
    status_at: usize,
    height_at: usize,
) -> Result<TxState, SqlError> {
    TxState::from_columns(status(row, status_at)?, height(row, height_at)?)
        .ok_or_else(|| bad("a transaction that is not published has a block"))
}

pub(crate) fn tip(
    row: &Row<'_>,
    height_at: usize,
    hash_at: usize,
) -> Result<Option<(Height, BlockHash)>, SqlError> {
    match height(row, height_at)? {
        None => Ok(None),
        Some(height) => Ok(Some((height, BlockHash::from_bytes(row.array(hash_at)?)))),
    }
}

/// Stands for a position in a block that nobody said: a column for it is there or absent together
/// with the height.
const NO_POSITION: i64 = -1;

/// A position in a block; `None` where there is no block, or nobody said it.
pub(crate) fn position(row: &Row<'_>, column: usize) -> Result<Option<u32>, SqlError> {
    match row.opt_int(column)? {
        None | Some(NO_POSITION) => Ok(None),
        Some(_) => u32_at(row, column).map(Some),
    }
}

/// The column of a position; `is_in_block` is the height's.
pub(crate) fn position_value<'a>(is_in_block: bool, position: Option<u32>) -> Value<'a> {
    Value::from(is_in_block.then(|| position.map_or(NO_POSITION, i64::from)))
}

pub(crate) fn height_value<'a>(height: Option<Height>) -> Value<'a> {
    Value::from(height.map(Height::get))
}

pub(crate) fn opt_work(row: &Row<'_>, column: usize) -> Result<Option<ChainWork>, SqlError> {
    let is_known = row.opt_bytes(column)?.is_some();
    is_known.then(|| row.array(column).map(ChainWork::from_be_bytes)).transpose()
}
