//! Reading what the rules ask for, a few statements for any number of transactions.

use std::{
    cell::{RefCell, RefMut},
    collections::BTreeMap,
};

use rustc_hash::FxHashMap;
use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        MinedBlock, NodeInput, NodeOutput, NodeTx, PreviousOutput, Reassignment, Slot, TxRecord,
    },
};
use utxokeep_sql::{Transaction, Value};

use super::{
    rows::{
        RecordRow, SLOT_COLUMNS, count, height_at, record_row, slot_row, txid_at, u32_at, u64_at,
    },
    statements::{
        LOCK_SETTLED, OUTPUTS_TAIL, SETTLED_HEAD, SETTLED_KEY, SPENDS_HEAD, SPENDS_TAIL, by_height,
        outputs_head, records_head, slots_head,
    },
};
use crate::{
    backend::{HeightIndex, SlotPage, View},
    error::StoreError,
};

/// The tables inside one transaction.
pub(super) struct SqlView<'t, 'c> {
    pub(super) transaction: RefCell<&'t mut Transaction<'c>>,
    /// What makes a record stay as it was read until the transaction ends.
    pub(super) lock: &'static str,
    /// Others write at the same time.
    pub(super) is_shared: bool,
}

/// Each once and in order, so that rows are locked in the same order by everybody.
fn sorted(txids: &[Txid]) -> Vec<Txid> {
    let mut sorted = txids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

fn keys(txids: &[Txid]) -> Vec<Value<'_>> {
    txids.iter().map(|txid| Value::from(txid.as_bytes())).collect()
}

impl<'t, 'c> SqlView<'t, 'c> {
    fn transaction(&self) -> RefMut<'_, &'t mut Transaction<'c>> {
        self.transaction.borrow_mut()
    }

    /// The lists that belong to records, for those that have any.
    fn fill_lists(&self, rows: &mut BTreeMap<Txid, RecordRow>) -> Result<(), StoreError> {
        let having = |has: fn(&RecordRow) -> bool| -> Vec<Txid> {
            rows.values().filter(|row| has(row)).map(|row| row.txid).collect()
        };
        let with_blocks = having(|row| row.has_blocks);
        let with_conflicts = having(|row| row.has_conflicts);
        let with_reassignments = having(|row| row.has_reassignments);
        let mut transaction = self.transaction();
        let by = " ORDER BY txid, position";
        let head = "SELECT txid, block_id, block_height, subtree_idx FROM node_block_ids \
                    WHERE txid IN";
        transaction.query_in(head, by, &[], 1, &keys(&with_blocks), |row| {
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
        transaction.query_in(head, by, &[], 1, &keys(&with_conflicts), |row| {
            let child = txid_at(row, 1)?;
            if let Some(owner) = rows.get_mut(&txid_at(row, 0)?) {
                owner.record.conflicting_children.push(child);
            }
            Ok(())
        })?;
        let head = "SELECT txid, vout, old_hash, new_hash, script, height \
                    FROM node_reassignments WHERE txid IN";
        transaction.query_in(head, by, &[], 1, &keys(&with_reassignments), |row| {
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
        })?;
        Ok(())
    }
}

impl View for SqlView<'_, '_> {
    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError> {
        let ids = sorted(txids);
        let mut rows = BTreeMap::new();
        let head = records_head();
        let tail = format!(" ORDER BY txid{}", self.lock);
        self.transaction().query_in(&head, &tail, &[], 1, &keys(&ids), |row| {
            let row = record_row(row)?;
            rows.insert(row.txid, row);
            Ok(())
        })?;
        self.fill_lists(&mut rows)?;
        Ok(txids.iter().map(|txid| rows.get(txid).map(|row| row.record.clone())).collect())
    }

    fn slots(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Slot>>, StoreError> {
        let mut ordered = outpoints.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        let mut keys = Vec::with_capacity(ordered.len() * 2);
        for outpoint in &ordered {
            keys.extend([Value::from(outpoint.txid().as_bytes()), Value::from(outpoint.index())]);
        }
        let mut found = BTreeMap::new();
        let head = slots_head();
        self.transaction().query_in(&head, "", &[], 2, &keys, |row| {
            if let Some(slot) = slot_row(row)? {
                found.insert(OutPoint::new(txid_at(row, 0)?, u32_at(row, 1)?), slot);
            }
            Ok(())
        })?;
        Ok(outpoints.iter().map(|outpoint| found.get(outpoint).copied()).collect())
    }

    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, Slot)>>, StoreError> {
        let ids = sorted(&of.iter().map(|(txid, _)| *txid).collect::<Vec<_>>());
        let mut found: BTreeMap<Txid, Vec<(u32, Slot)>> = BTreeMap::new();
        let head = outputs_head();
        self.transaction().query_in(&head, OUTPUTS_TAIL, &[], 1, &keys(&ids), |row| {
            if let Some(slot) = slot_row(row)? {
                found.entry(txid_at(row, 0)?).or_default().push((u32_at(row, 1)?, slot));
            }
            Ok(())
        })?;
        Ok(of.iter().map(|(txid, _)| found.get(txid).cloned().unwrap_or_default()).collect())
    }

    fn settled(&self, txids: &[Txid], _until: Height) -> Result<Vec<Option<Height>>, StoreError> {
        if self.is_shared {
            // First the lock, then the question: what it sees holds until the transaction ends.
            self.transaction().query_opt(LOCK_SETTLED, &[SETTLED_KEY], |_| Ok(()))?;
        }
        let ids = sorted(txids);
        let mut found: FxHashMap<Txid, Height> = FxHashMap::default();
        found.reserve(ids.len());
        self.transaction().query_in(SETTLED_HEAD, "", &[], 1, &keys(&ids), |row| {
            if let Some(height) = height_at(row, 1)? {
                found.insert(txid_at(row, 0)?, height);
            }
            Ok(())
        })?;
        Ok(txids.iter().map(|txid| found.get(txid).copied()).collect())
    }

    fn spends(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<OutPoint>>>, StoreError> {
        let mut found: BTreeMap<Txid, Vec<OutPoint>> = BTreeMap::new();
        let ids = sorted(txids);
        self.transaction().query_in(SPENDS_HEAD, SPENDS_TAIL, &[], 1, &keys(&ids), |row| {
            let spends = found.entry(txid_at(row, 0)?).or_default();
            // A transaction without inputs has a row, without any; a coinbase spends nothing.
            if row.int(1)? == 0 && row.opt_bytes(2)?.is_some() {
                spends.push(OutPoint::new(txid_at(row, 2)?, u32_at(row, 3)?));
            }
            Ok(())
        })?;
        Ok(txids.iter().map(|txid| found.get(txid).cloned()).collect())
    }

    fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, StoreError> {
        let mut found = BTreeMap::new();
        let ids = sorted(txids);
        let mut transaction = self.transaction();
        let head = "SELECT txid, version, lock_time, is_coinbase FROM node_transactions \
                    WHERE blob = 0 AND txid IN";
        transaction.query_in(head, "", &[], 1, &keys(&ids), |row| {
            let txid = txid_at(row, 0)?;
            let body = NodeTx {
                txid,
                version: u32_at(row, 1)?,
                lock_time: u32_at(row, 2)?,
                is_coinbase: row.int(3)? != 0,
                inputs: Vec::new(),
                outputs: Vec::new(),
            };
            found.insert(txid, body);
            Ok(())
        })?;
        let ids: Vec<Txid> = found.keys().copied().collect();
        let head = "SELECT txid, previous_txid, previous_vout, previous_satoshis, \
                    previous_script, script, sequence FROM node_inputs WHERE txid IN";
        transaction.query_in(head, " ORDER BY txid, vin", &[], 1, &keys(&ids), |row| {
            let previous = match row.opt_bytes(4)? {
                None => None,
                Some(script) => {
                    Some(PreviousOutput { satoshis: u64_at(row, 3)?, script: script.to_vec() })
                }
            };
            let input = NodeInput {
                outpoint: OutPoint::new(txid_at(row, 1)?, u32_at(row, 2)?),
                script: row.bytes(5)?.to_vec(),
                sequence: u32_at(row, 6)?,
                previous,
            };
            if let Some(body) = found.get_mut(&txid_at(row, 0)?) {
                body.inputs.push(input);
            }
            Ok(())
        })?;
        let head = "SELECT txid, satoshis, script FROM node_outputs WHERE txid IN";
        transaction.query_in(head, " ORDER BY txid, vout", &[], 1, &keys(&ids), |row| {
            let output = NodeOutput { satoshis: u64_at(row, 1)?, script: row.bytes(2)?.to_vec() };
            if let Some(body) = found.get_mut(&txid_at(row, 0)?) {
                body.outputs.push(output);
            }
            Ok(())
        })?;
        Ok(txids.iter().map(|txid| found.get(txid).cloned()).collect())
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM node_deleted_children WHERE parent_txid = $1 AND child_txid = $2";
        let keys = [Value::from(parent.as_bytes()), Value::from(child.as_bytes())];
        Ok(self.transaction().query_opt(sql, &keys, |_| Ok(()))?.is_some())
    }

    fn by_height(
        &self,
        index: HeightIndex,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        let sql = by_height(index);
        let (from, behind) = match &after {
            Some((height, txid)) => (i64::from(height.get()), txid.as_bytes().as_slice()),
            None => (-1, [].as_slice()),
        };
        let parameters =
            [Value::from(until.get()), Value::from(from), Value::from(behind), count(limit)];
        Ok(self.transaction().query_all(&sql, &parameters, |row| {
            Ok((height_at(row, 0)?.unwrap_or_default(), txid_at(row, 1)?))
        })?)
    }

    fn is_indexed(
        &self,
        _index: HeightIndex,
        _height: Height,
        _txid: &Txid,
    ) -> Result<bool, StoreError> {
        // An index of the database is over the record's own column.
        Ok(true)
    }

    fn txids_after(&self, after: Option<&Txid>, limit: usize) -> Result<Vec<Txid>, StoreError> {
        let sql = "SELECT txid FROM node_transactions WHERE txid > $1 ORDER BY txid LIMIT $2";
        let after = after.map_or([].as_slice(), |txid| txid.as_bytes());
        let parameters = [Value::from(after), count(limit)];
        Ok(self.transaction().query_all(sql, &parameters, |row| txid_at(row, 0))?)
    }

    fn slots_after(&self, after: Option<&OutPoint>, limit: usize) -> Result<SlotPage, StoreError> {
        let sql = format!(
            "SELECT {SLOT_COLUMNS} FROM node_outputs WHERE utxo_hash IS NOT NULL \
             AND (txid, vout) > ($1, $2) ORDER BY txid, vout LIMIT $3"
        );
        let (txid, vout) = match after {
            Some(outpoint) => (outpoint.txid().as_bytes().as_slice(), outpoint.index()),
            None => ([].as_slice(), 0),
        };
        let parameters = [Value::from(txid), Value::from(vout), count(limit)];
        let found = self.transaction().query_all(&sql, &parameters, |row| {
            Ok((OutPoint::new(txid_at(row, 0)?, u32_at(row, 1)?), slot_row(row)?))
        })?;
        Ok(found.into_iter().filter_map(|(at, slot)| Some((at, Ok(slot?)))).collect())
    }

    fn state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        // Inside a write it stays as it was read, like a record.
        let sql = format!("SELECT value FROM node_state WHERE name = $1{}", self.lock);
        let parameters = [Value::from(name.as_bytes())];
        let read = |row: &utxokeep_sql::Row<'_>| Ok(row.bytes(0)?.to_vec());
        Ok(self.transaction().query_opt(&sql, &parameters, read)?)
    }

    fn states(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        // Names are ASCII.
        let until = format!("{prefix}\u{7f}");
        let sql = "SELECT name, value FROM node_state WHERE name > $1 AND name < $2 \
                   ORDER BY name LIMIT $3";
        let after = after.unwrap_or(prefix);
        let parameters =
            [Value::from(after.as_bytes()), Value::from(until.as_bytes()), count(limit)];
        Ok(self.transaction().query_all(sql, &parameters, |row| {
            Ok((String::from_utf8_lossy(row.bytes(0)?).into_owned(), row.bytes(1)?.to_vec()))
        })?)
    }
}
