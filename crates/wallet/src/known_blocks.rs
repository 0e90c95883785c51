//! Which block is at a height: what the ledger followed, and what somebody claims.
//!
//! # Invariants
//!
//! * A claim is checked against every table that knows the height or the hash, and changes none of
//!   what they say.
//! * A claim stays one: its row is marked, and neither the tip nor a fork is ever looked for in it.
//! * A followed or scanned block replaces what was claimed about its height.

use utxokeep_core::Height;
use utxokeep_sql::{Row, SqlError, Value};

use crate::{BlockRef, LedgerError, session::Session};

const SELECT_FOLLOWED: &str =
    "SELECT hash, time_us FROM recent_blocks WHERE chain_id = $1 AND height = $2";
const SELECT_BLOCK: &str =
    "SELECT hash, time_us, is_claimed FROM blocks WHERE chain_id = $1 AND height = $2";
const INSERT_BLOCK: &str = "INSERT INTO blocks (chain_id, height, hash, time_us, is_claimed)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
const UPSERT_BLOCK: &str = "INSERT INTO blocks (chain_id, height, hash, time_us, is_claimed)
    VALUES ($1, $2, $3, $4, 0) ON CONFLICT (chain_id, height)
    DO UPDATE SET hash = excluded.hash, time_us = excluded.time_us, is_claimed = 0";
const SELECT_FOLLOWED_ELSEWHERE: &str = "SELECT height FROM recent_blocks
    WHERE chain_id = $1 AND hash = $3 AND height <> $2";
const DROP_CLAIM: &str = "DELETE FROM blocks
    WHERE chain_id = $1 AND height = $2 AND is_claimed = 1 AND NOT EXISTS (SELECT t.wallet_id
        FROM transactions t WHERE t.chain_id = $1 AND t.block_height = $2)";
const SELECT_ELSEWHERE: &str =
    "SELECT height FROM blocks WHERE chain_id = $1 AND hash = $3 AND height <> $2";
const SET_HASH: &str = "UPDATE blocks SET hash = $3 WHERE chain_id = $1 AND height = $2";

/// Hash of a block that was followed, and its time where that is known.
type Followed = ([u8; 32], Option<i64>);

impl Session<'_, '_> {
    /// Accepts somebody's word for a block, if nothing that the ledger knows contradicts it. Unless
    /// `beyond_tip` is set, the chain must have reached the block.
    pub(crate) fn claim_block(
        &mut self,
        block: &BlockRef,
        beyond_tip: bool,
    ) -> Result<(), LedgerError> {
        if self.known_block.as_ref() == Some(block) {
            return Ok(());
        }
        let hash = self.network.hash(block.hash);
        let mismatch = LedgerError::BlockMismatch { height: block.height, hash };
        if self.tip.is_some_and(|(height, hash)| height == block.height && hash != block.hash) {
            return Err(mismatch);
        }
        if !beyond_tip && self.tip_height().is_none_or(|tip| block.height > tip) {
            return Err(LedgerError::BlockNotFound { height: block.height });
        }
        let followed = self.followed(block)?;
        let is_other = |(hash, time): Followed| {
            hash != *block.hash.as_bytes() || time.is_some_and(|time| time != block.time.get())
        };
        if followed.is_some_and(is_other) {
            return Err(mismatch);
        }
        let row = self.block_row(block);
        if self.tx.query_opt(SELECT_FOLLOWED_ELSEWHERE, &row[..3], |_| Ok(()))?.is_some() {
            return Err(mismatch);
        }
        let read = |row: &Row<'_>| Ok((row.array::<32>(0)?, row.int(1)?));
        let mut found = self.tx.query_opt(SELECT_BLOCK, &row[..2], read)?;
        if found.is_none() {
            let [chain, height, hash, time] = row;
            let is_claimed = Value::from(followed.is_none());
            self.tx.execute(INSERT_BLOCK, &[chain, height, hash, time, is_claimed])?;
            found = self.tx.query_opt(SELECT_BLOCK, &row[..2], read)?;
        }
        if found != Some((*block.hash.as_bytes(), block.time.get())) {
            return Err(mismatch);
        }
        self.lower_birthday(block.height)?;
        self.known_block = Some(*block);
        Ok(())
    }

    /// Forgets what was claimed about a height when no transaction hangs on it any more, so that
    /// another block can be claimed there.
    pub(crate) fn drop_empty_claim(&mut self, height: Height) -> Result<(), SqlError> {
        let key = [Value::from(self.chain), Value::from(height.get())];
        self.tx.execute(DROP_CLAIM, &key)?;
        self.known_block = None;
        Ok(())
    }

    /// Whether `block` is the one that was followed at its height; heights of which the ledger has
    /// no memory may have been any block.
    pub(crate) fn is_followed(&mut self, block: &BlockRef) -> Result<bool, SqlError> {
        Ok(self.followed(block)?.is_none_or(|(hash, _)| hash == *block.hash.as_bytes()))
    }

    /// What was followed at the height of `block`.
    fn followed(&mut self, block: &BlockRef) -> Result<Option<Followed>, SqlError> {
        let key = [Value::from(self.chain), Value::from(block.height.get())];
        let read = |row: &Row<'_>| Ok((row.array::<32>(0)?, row.opt_int(1)?));
        self.tx.query_opt(SELECT_FOLLOWED, &key, read)
    }

    /// Writes down a block that is followed or scanned, whatever was claimed about its height.
    pub(crate) fn assert_block(&mut self, block: &BlockRef) -> Result<(), SqlError> {
        if self.known_block.as_ref() == Some(block) {
            return Ok(());
        }
        let row = self.block_row(block);
        let read = |row: &Row<'_>| Ok((row.array::<32>(0)?, row.int(1)?, row.int(2)?));
        let found = self.tx.query_opt(SELECT_BLOCK, &row[..2], read)?;
        if found != Some((*block.hash.as_bytes(), block.time.get(), 0)) {
            // Somebody may have claimed this block at another height. Transactions hang on that row.
            let elsewhere = self.tx.query_opt(SELECT_ELSEWHERE, &row[..3], |row| row.int(0))?;
            if let Some(height) = elsewhere {
                let unknown = unknown_hash(height);
                self.tx.execute(SET_HASH, &[row[0], Value::from(height), Value::from(&unknown)])?;
            }
            self.tx.execute(UPSERT_BLOCK, &row)?;
        }
        self.known_block = Some(*block);
        Ok(())
    }

    fn block_row<'b>(&self, block: &'b BlockRef) -> [Value<'b>; 4] {
        [
            Value::from(self.chain),
            Value::from(block.height.get()),
            Value::from(block.hash.as_bytes()),
            Value::from(block.time.get()),
        ]
    }
}

/// Stands for a hash that turned out to be of another height: hashes are unique, and the real one is
/// not known.
fn unknown_hash(height: i64) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[24..].copy_from_slice(&height.to_be_bytes());
    hash
}
