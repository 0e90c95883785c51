//! Hashes of the newest blocks, so that a fork is found where it is.
//!
//! The table of blocks holds only those with transactions of a wallet; between two of them may lie
//! years.

use utxokeep_core::{BlockHash, Height, Network};
use utxokeep_sql::{SqlError, Transaction, Value};

use super::{FollowError, FollowedChain};
use crate::{BlockRef, Ledger, LedgerError, rows};

const INSERT: &str = "INSERT INTO recent_blocks (chain_id, height, hash, time_us)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (chain_id, height) DO UPDATE SET hash = excluded.hash, time_us = excluded.time_us";
const DELETE_OLD: &str = "DELETE FROM recent_blocks WHERE chain_id = $1 AND height <= $2";
const DELETE_FROM: &str = "DELETE FROM recent_blocks WHERE chain_id = $1 AND height >= $2";
const SELECT_RECENT: &str = "SELECT r.height, r.hash
    FROM chains c JOIN recent_blocks r ON r.chain_id = c.id
    WHERE c.chain = $1 AND c.network = $2 AND r.height < $3 ORDER BY r.height DESC LIMIT $4";
const SELECT_STORED: &str = "SELECT b.height, b.hash
    FROM chains c JOIN blocks b ON b.chain_id = c.id
    WHERE c.chain = $1 AND c.network = $2 AND b.height < $3 ORDER BY b.height DESC LIMIT $4";

/// Blocks that are remembered: more than any chain is expected to reorganise.
const RECENT_BLOCKS_MAX: u32 = 5_000;
/// Blocks that are read at once while a fork is searched.
const PAGE_ROWS: i64 = 500;

/// Remembers a block that is applied.
pub(crate) fn remember(
    tx: &mut Transaction<'_>,
    chain: i64,
    block: &BlockRef,
) -> Result<(), SqlError> {
    let chain = Value::from(chain);
    let height = Value::from(block.height.get());
    let time = Value::from(block.time.get());
    tx.execute(INSERT, &[chain, height, Value::from(block.hash.as_bytes()), time])?;
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

impl Ledger {
    /// The highest remembered block below `tip` that `chain` has too.
    pub(super) fn common_block(
        &self,
        network: Network,
        tip: Height,
        chain: &dyn FollowedChain,
    ) -> Result<Option<(Height, BlockHash)>, FollowError> {
        for statement in [SELECT_RECENT, SELECT_STORED] {
            let mut below = tip;
            loop {
                let page = self.remembered(statement, network, below)?;
                let Some((lowest, _)) = page.last().copied() else { break };
                for (height, hash) in page {
                    if chain.hash_at(height).map_err(FollowError::Chain)? == Some(hash) {
                        return Ok(Some((height, hash)));
                    }
                }
                below = lowest;
            }
        }
        Ok(None)
    }

    fn remembered(
        &self,
        statement: &str,
        network: Network,
        below: Height,
    ) -> Result<Vec<(Height, BlockHash)>, LedgerError> {
        let parameters = [
            Value::from(network.chain()),
            Value::from(network.name()),
            Value::from(below.get()),
            Value::from(PAGE_ROWS),
        ];
        let read = |tx: &mut Transaction<'_>| -> Result<_, LedgerError> {
            Ok(tx.query_all(statement, &parameters, |row| rows::tip(row, 0, 1))?)
        };
        Ok(self.read(read)?.into_iter().flatten().collect())
    }
}
