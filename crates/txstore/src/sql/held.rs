//! Records that a write has locked, so that they stay as they were read.
//!
//! A write names what it is about to touch, and all of it is locked by ascending id before
//! anything is read. What shows only on the way is read without a lock and remembered: the write
//! is then not committed but run again, with those records named too. Nobody waits for a record
//! while holding a higher one, so nobody waits in a circle.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Height, Txid,
    node::{MinedBlock, Reassignment, TxRecord},
};
use utxokeep_sql::{SqlError, Transaction};

use super::{
    read::{keys, query_rows, sorted},
    rows::{RecordRow, record_row, txid_at, u32_at},
    statements::{GENERATION, GENERATION_SHARED, records_head},
};

/// Makes rows stay as they are read until the transaction ends.
pub(super) const FOR_UPDATE: &str = " FOR UPDATE";

/// The same, for rows that others may keep as they are too.
const FOR_SHARE: &str = " FOR SHARE";

/// Locked records of one transaction.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Ids that were named; one without a record has no row to lock.
    named: BTreeSet<Txid>,
    records: BTreeMap<Txid, TxRecord>,
    /// Records that were read without a lock.
    unlocked: BTreeSet<Txid>,
    trusts_settled: bool,
    /// How often records had been unsettled when the write began to rely on settled ones.
    relied_on: Option<i64>,
    /// A planted mistake: rows are locked when they are read, in whatever order.
    locks_on_the_way: bool,
    ignores_agreed: bool,
}

impl Held {
    /// Locks records in the order of their ids.
    pub(super) fn lock(
        transaction: &mut Transaction<'_>,
        txids: &[Txid],
        trusts_settled: bool,
    ) -> Result<Self, SqlError> {
        let ids = sorted(txids);
        let records = read_records(transaction, &ids, FOR_UPDATE)?;
        let named = ids.into_iter().collect();
        Ok(Self { named, records, trusts_settled, ..Self::default() })
    }

    /// Locks nothing beforehand. For tests only: such writes wait in circles.
    pub(super) fn on_the_way(trusts_settled: bool) -> Self {
        Self { trusts_settled, locks_on_the_way: true, ..Self::default() }
    }

    /// A planted mistake: numbers that were compared may change before the commit.
    pub(super) fn without_keeping_agreed(self) -> Self {
        Self { ignores_agreed: true, ..self }
    }

    /// How numbers are read that all programs have in common: they stay until the commit, whoever
    /// changes them waits for it, and it waits for those.
    pub(super) const fn keeps_agreed(&self) -> &'static str {
        if self.ignores_agreed { "" } else { FOR_SHARE }
    }

    /// Records, in the order they were asked for.
    pub(super) fn records(
        &mut self,
        transaction: &mut Transaction<'_>,
        txids: &[Txid],
    ) -> Result<Vec<Option<TxRecord>>, SqlError> {
        let absent = txids.iter().filter(|txid| !self.named.contains(txid));
        let ids = sorted(&absent.copied().collect::<Vec<_>>());
        let lock = if self.locks_on_the_way { FOR_UPDATE } else { "" };
        let others = read_records(transaction, &ids, lock)?;
        if !self.locks_on_the_way {
            self.unlocked.extend(others.keys());
        }
        let find = |txid: &Txid| self.records.get(txid).or_else(|| others.get(txid)).cloned();
        Ok(txids.iter().map(find).collect())
    }

    /// Whether the write may rely on what is settled now; it will be asked whether that still
    /// holds when it commits.
    pub(super) fn relies_on_settled(
        &mut self,
        transaction: &mut Transaction<'_>,
    ) -> Result<bool, SqlError> {
        if self.trusts_settled && self.relied_on.is_none() {
            let sql = if self.locks_on_the_way { GENERATION_SHARED } else { GENERATION };
            self.relied_on = transaction.query_opt(sql, &[], |row| row.int(0))?;
        }
        Ok(self.relied_on.is_some())
    }

    /// Records that were read without a lock, and the generation that the write relied on.
    pub(super) fn into_unlocked(self) -> (Vec<Txid>, Option<i64>) {
        (self.unlocked.into_iter().collect(), self.relied_on)
    }
}

/// Records with their lists; `lock` makes them stay as they are until the transaction ends.
pub(super) fn read_records(
    transaction: &mut Transaction<'_>,
    ids: &[Txid],
    lock: &str,
) -> Result<BTreeMap<Txid, TxRecord>, SqlError> {
    let mut rows = BTreeMap::new();
    let tail = format!(" ORDER BY txid{lock}");
    query_rows(transaction, &records_head(), &tail, 1, &keys(ids), |row| {
        let row = record_row(row)?;
        rows.insert(row.txid, row);
        Ok(())
    })?;
    fill_lists(transaction, &mut rows)?;
    Ok(rows.into_iter().map(|(txid, row)| (txid, row.record)).collect())
}

/// The lists that belong to records, for those that have any.
fn fill_lists(
    transaction: &mut Transaction<'_>,
    rows: &mut BTreeMap<Txid, RecordRow>,
) -> Result<(), SqlError> {
    let having = |has: fn(&RecordRow) -> bool| -> Vec<Txid> {
        rows.values().filter(|row| has(row)).map(|row| row.txid).collect()
    };
    let with_blocks = having(|row| row.has_blocks);
    let with_conflicts = having(|row| row.has_conflicts);
    let with_reassignments = having(|row| row.has_reassignments);
    let by = " ORDER BY txid, position";
    let head = "SELECT txid, block_id, block_height, subtree_idx FROM node_block_ids \
                WHERE txid IN";
    query_rows(transaction, head, by, 1, &keys(&with_blocks), |row| {
        let block = MinedBlock {
            id: u32_at(row, 1)?,
            height: Height::new(u32_at(row, 2)?),
            subtree: u32_at(row, 3)?,
        };
        if let Some(owner) = rows.get_mut(&txid_at(row, 0)?) {
            owner.record.blocks.push(block);
        }
        Ok(())
    })?;
    let head = "SELECT txid, child_txid FROM node_conflicting_children WHERE txid IN";
    query_rows(transaction, head, by, 1, &keys(&with_conflicts), |row| {
        let child = txid_at(row, 1)?;
        if let Some(owner) = rows.get_mut(&txid_at(row, 0)?) {
            owner.record.conflicting_children.push(child);
        }
        Ok(())
    })?;
    let head = "SELECT txid, vout, old_hash, new_hash, script, height \
                FROM node_reassignments WHERE txid IN";
    query_rows(transaction, head, by, 1, &keys(&with_reassignments), |row| {
        let change = Reassignment {
            vout: u32_at(row, 1)?,
            old: row.array(2)?,
            new: row.array(3)?,
            script: row.bytes(4)?.to_vec(),
            height: Height::new(u32_at(row, 5)?),
        };
        if let Some(owner) = rows.get_mut(&txid_at(row, 0)?) {
            owner.record.reassignments.push(change);
        }
        Ok(())
    })
}
