//! Hashes of the newest blocks, so that a fork is found where it is.
//!
//! The table of blocks holds only those with transactions of a wallet; between two of them may lie
//! years.

use utxokeep_core::{ChainWork, Height};
use utxokeep_sql::{SqlError, Transaction, Value};

use crate::BlockRef;

const INSERT: &str = "INSERT INTO recent_blocks (chain_id, height, hash, time_us, work)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (chain_id, height) DO UPDATE
    SET hash = excluded.hash, time_us = excluded.time_us, work = excluded.work";
const DELETE_OLD: &str = "DELETE FROM recent_blocks WHERE chain_id = $1 AND height <= $2";
const DELETE_FROM: &str = "DELETE FROM recent_blocks WHERE chain_id = $1 AND height >= $2";

/// Blocks that are remembered: more than any chain is expected to reorganise.
const RECENT_BLOCKS_MAX: u32 = 5_000;

/// Remembers a block that is applied.
pub(crate) fn remember(
    tx: &mut Transaction<'_>,
    chain: i64,
    block: &BlockRef,
    work: Option<ChainWork>,
) -> Result<(), SqlError> {
    let chain = Value::from(chain);
    let height = Value::from(block.height.get());
    let time = Value::from(block.time.get());
    let work = Value::from(work.as_ref().map(ChainWork::as_bytes));
    tx.execute(INSERT, &[chain, height, Value::from(block.hash.as_bytes()), time, work])?;
    if let Some(old) = block.height.get().checked_sub(RECENT_BLOCKS_MAX) {
        tx.execute(DELETE_OLD, &[chain, Value::from(old)])?;
    }
    Ok(())
}

/// Forgets blocks that are taken back.
pub(crate) fn forget(tx: &mut Transaction<'_>, chain: i64, height: Height) -> Result<(), SqlError> {
    tx.execute(DELETE_FROM, &[Value::from(chain), Value::from(height.get())])?;
    Ok(())
}
