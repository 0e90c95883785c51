//! Reading what the rules ask for, a few statements for any number of transactions.

use std::{
    cell::{RefCell, RefMut},
    collections::BTreeMap,
};

use rustc_hash::FxHashMap;
use utxokeep_core::{
    Corrupt, Height, OutPoint, Txid,
    node::{
        HeightIndex, NodeInput, NodeOutput, NodeReads, NodeTx, OutputPage, OutputRecord,
        PreviousOutput, TxRecord, body_checksum, wrong_checksum,
    },
};
use utxokeep_sql::{Row, SqlError, Transaction, Value};

use super::{
    held::{FOR_UPDATE, Held, read_records},
    rows::{SLOT_COLUMNS, checksum_at, count, height_at, slot_row, txid_at, u32_at, u64_at},
    statements::{
        OUTPUTS_TAIL, SETTLED_HEAD, SPENDS_HEAD, SPENDS_TAIL, by_height, outputs_head, slots_head,
    },
};
use crate::error::StoreError;

/// The tables inside one transaction.
pub(super) struct SqlView<'t, 'c> {
    transaction: RefCell<&'t mut Transaction<'c>>,
    /// Records that are locked; `None` where nobody else writes, or nothing is written.
    held: RefCell<Option<Held>>,
}

/// Each once and in order.
pub(super) fn sorted(txids: &[Txid]) -> Vec<Txid> {
    let mut sorted = txids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

pub(super) fn keys(txids: &[Txid]) -> Vec<Value<'_>> {
    txids.iter().map(|txid| Value::from(txid.as_bytes())).collect()
}

/// Reads the rows of keys. A row that makes no sense is answered at the end: it must not end the
/// transaction, so that whoever looks for damage can go on.
pub(super) fn query_rows(
    transaction: &mut Transaction<'_>,
    head: &str,
    tail: &str,
    columns: usize,
    keys: &[Value<'_>],
    mut each: impl FnMut(&Row<'_>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let mut damage = None;
    transaction.query_in(head, tail, &[], columns, keys, |row| {
        if let Err(error) = each(row) {
            damage.get_or_insert(error);
        }
        Ok(())
    })?;
    damage.map_or(Ok(()), Err)
}

impl<'t, 'c> SqlView<'t, 'c> {
    pub(super) fn new(transaction: &'t mut Transaction<'c>, held: Option<Held>) -> Self {
        Self { transaction: RefCell::new(transaction), held: RefCell::new(held) }
    }

    pub(super) fn into_held(self) -> Option<Held> {
        self.held.into_inner()
    }

    fn read_state(&self, name: &str, lock: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = format!("SELECT value FROM node_state WHERE name = $1{lock}");
        let parameters = [Value::from(name.as_bytes())];
        let read = |row: &Row<'_>| Ok(row.bytes(0)?.to_vec());
        Ok(self.transaction().query_opt(&sql, &parameters, read)?)
    }

    fn transaction(&self) -> RefMut<'_, &'t mut Transaction<'c>> {
        self.transaction.borrow_mut()
    }
}

impl NodeReads for SqlView<'_, '_> {
    type Error = StoreError;

    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError> {
        let (mut transaction, mut held) = (self.transaction(), self.held.borrow_mut());
        if let Some(held) = &mut *held {
            return Ok(held.records(&mut transaction, txids)?);
        }
        let rows = read_records(&mut transaction, &sorted(txids), "")?;
        Ok(txids.iter().map(|txid| rows.get(txid).cloned()).collect())
    }

    fn outputs_at(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<OutputRecord>>, StoreError> {
        let mut ordered = outpoints.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        let mut keys = Vec::with_capacity(ordered.len() * 2);
        for outpoint in &ordered {
            keys.extend([Value::from(outpoint.txid().as_bytes()), Value::from(outpoint.index())]);
        }
        let mut found = BTreeMap::new();
        let head = slots_head();
        query_rows(&mut self.transaction(), &head, "", 2, &keys, |row| {
            if let Some(slot) = slot_row(row)? {
                found.insert(OutPoint::new(txid_at(row, 0)?, u32_at(row, 1)?), slot);
            }
            Ok(())
        })?;
        Ok(outpoints.iter().map(|outpoint| found.get(outpoint).copied()).collect())
    }

    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, OutputRecord)>>, StoreError> {
        let ids = sorted(&of.iter().map(|(txid, _)| *txid).collect::<Vec<_>>());
        let mut found: BTreeMap<Txid, Vec<(u32, OutputRecord)>> = BTreeMap::new();
        let head = outputs_head();
        query_rows(&mut self.transaction(), &head, OUTPUTS_TAIL, 1, &keys(&ids), |row| {
            if let Some(slot) = slot_row(row)? {
                found.entry(txid_at(row, 0)?).or_default().push((u32_at(row, 1)?, slot));
            }
            Ok(())
        })?;
        Ok(of.iter().map(|(txid, _)| found.get(txid).cloned().unwrap_or_default()).collect())
    }

    fn settled(&self, txids: &[Txid], _until: Height) -> Result<Vec<Option<Height>>, StoreError> {
        if let Some(held) = &mut *self.held.borrow_mut()
            && !held.relies_on_settled(&mut self.transaction())?
        {
            return Ok(vec![None; txids.len()]);
        }
        let ids = sorted(txids);
        let mut found: FxHashMap<Txid, Height> = FxHashMap::default();
        found.reserve(ids.len());
        query_rows(&mut self.transaction(), SETTLED_HEAD, "", 1, &keys(&ids), |row| {
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
        query_rows(&mut self.transaction(), SPENDS_HEAD, SPENDS_TAIL, 1, &keys(&ids), |row| {
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
        let (mut checksums, mut fees) = (Vec::new(), Vec::new());
        let head = "SELECT txid, version, lock_time, is_coinbase, body_checksum, fee \
                    FROM node_transactions WHERE blob = 0 AND txid IN";
        query_rows(&mut transaction, head, "", 1, &keys(&ids), |row| {
            let txid = txid_at(row, 0)?;
            let body = NodeTx {
                txid,
                version: u32_at(row, 1)?,
                lock_time: u32_at(row, 2)?,
                is_coinbase: row.int(3)? != 0,
                inputs: Vec::new(),
                outputs: Vec::new(),
            };
            checksums.extend(checksum_at(row, 4)?.map(|checksum| (txid, checksum)));
            fees.push((txid, row.opt_int(5)?.map(i64::cast_unsigned)));
            found.insert(txid, body);
            Ok(())
        })?;
        let ids: Vec<Txid> = found.keys().copied().collect();
        let head = "SELECT txid, previous_txid, previous_vout, previous_satoshis, \
                    previous_script, script, sequence FROM node_inputs WHERE txid IN";
        query_rows(&mut transaction, head, " ORDER BY txid, vin", 1, &keys(&ids), |row| {
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
        query_rows(&mut transaction, head, " ORDER BY txid, vout", 1, &keys(&ids), |row| {
            let output = NodeOutput { satoshis: u64_at(row, 1)?, script: row.bytes(2)?.to_vec() };
            if let Some(body) = found.get_mut(&txid_at(row, 0)?) {
                body.outputs.push(output);
            }
            Ok(())
        })?;
        // Neither engine tests by itself what its pages say.
        for (txid, checksum) in checksums {
            if found.get(&txid).map(body_checksum) != Some(checksum) {
                return Err(wrong_checksum().into());
            }
        }
        for (txid, fee) in fees {
            if found.get(&txid).is_some_and(|body| body.fee() != fee) {
                let detail = "its fee is not that of its inputs and outputs";
                return Err(Corrupt::new("body of a transaction", detail).into());
            }
        }
        Ok(txids.iter().map(|txid| found.get(txid).cloned()).collect())
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM node_deleted_children WHERE parent_txid = $1 AND child_txid = $2";
        let keys = [Value::from(parent.as_bytes()), Value::from(child.as_bytes())];
        Ok(self.transaction().query_opt(sql, &keys, |_| Ok(()))?.is_some())
    }

    fn deleted_children(&self, parent: &Txid) -> Result<Vec<Txid>, StoreError> {
        let sql = "SELECT child_txid FROM node_deleted_children WHERE parent_txid = $1 \
                   ORDER BY child_txid";
        let rows = self
            .transaction()
            .query_all(sql, &[Value::from(parent.as_bytes())], |row| Ok(row.bytes(0)?.to_vec()))?;
        let damaged = || Corrupt::new("marker of a deleted child", "not 32 bytes long");
        rows.iter().map(|row| Ok(Txid::from_slice(row).ok_or_else(damaged)?)).collect()
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

    fn outputs_after(
        &self,
        after: Option<&OutPoint>,
        limit: usize,
    ) -> Result<OutputPage, StoreError> {
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
        let lock = if self.held.borrow().is_some() { FOR_UPDATE } else { "" };
        self.read_state(name, lock)
    }

    fn state_kept(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let lock = self.held.borrow().as_ref().map_or("", Held::keeps_agreed);
        self.read_state(name, lock)
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
