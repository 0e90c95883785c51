//! Recounting everything while the store is in use: each row against the rows it implies.

use utxokeep_core::{
    OutPoint, Txid,
    node::{SlotState, Source, decode_record, decode_slot},
};
use utxokeep_kv::{Kv, Read, Scan, TableId};

use crate::{
    error::StoreError,
    kv::{KvTxStore, Rows, index_rows},
    tables::{DUE, PRESERVED, RECORDS, SLOTS, UNMINED, from_height_key, height_key},
};

/// Findings beyond this many are counted, not listed.
const FINDINGS_MAX: usize = 100;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The transaction it is about.
    pub txid: Txid,
    /// What is wrong.
    pub detail: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// The first findings.
    pub findings: Vec<Finding>,
    /// How many there are in all.
    pub findings_total: u64,
    /// Transactions that were checked.
    pub transactions: u64,
    /// Outputs that were checked.
    pub outputs: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.findings_total == 0
    }

    fn add(&mut self, txid: Txid, detail: String) {
        self.findings_total += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { txid, detail });
        }
    }
}

impl<K: Kv> KvTxStore<K> {
    /// Recounts everything in one snapshot, beside whatever else goes on.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        let snapshot = self.kv.snapshot();
        let mut report = VerifyReport::default();
        let mut txids = Vec::new();
        visit(&snapshot, RECORDS, &mut |key, _| txids.extend(Txid::from_slice(key)))?;
        for txid in &txids {
            check_record(&snapshot, txid, &mut report)?;
        }
        check_slots(&snapshot, &mut report)?;
        for table in [DUE, UNMINED, PRESERVED] {
            check_index(&snapshot, table, &mut report)?;
        }
        Ok(report)
    }
}

fn visit(
    read: &dyn Read,
    table: TableId,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), StoreError> {
    let all =
        Scan { from: &[], until: None, reverse: false, limit: usize::MAX, within_prefix: false };
    read.scan(table, &all, &mut |key, value| {
        each(key, value);
        true
    })?;
    Ok(())
}

/// A record has a body, and as many outputs, spent and unspent, as it says.
fn check_record(read: &dyn Read, txid: &Txid, report: &mut VerifyReport) -> Result<(), StoreError> {
    report.transactions += 1;
    let Some(bytes) = read.get(RECORDS, txid.as_bytes())? else { return Ok(()) };
    let record = match decode_record(&bytes) {
        Ok(record) => record,
        Err(error) => {
            report.add(*txid, error.to_string());
            return Ok(());
        }
    };
    let rows = Rows(read);
    match rows.body(txid) {
        Ok(Some(body)) if body.outputs.len() == record.outputs as usize => {}
        Ok(_) => report.add(*txid, "its body is missing or has other outputs".to_owned()),
        Err(error) => report.add(*txid, error.to_string()),
    }
    let (mut utxos, mut spent) = (0, 0);
    for vout in 0..record.outputs {
        let outpoint = OutPoint::new(*txid, vout);
        match rows.slot(&outpoint) {
            Ok(None) => {}
            Ok(Some(slot)) => {
                utxos += 1;
                spent += u32::from(matches!(slot.state, SlotState::Spent(_)));
            }
            Err(error) => report.add(*txid, format!("output {vout}: {error}")),
        }
    }
    let reassigned = u32::try_from(record.reassignments.len()).unwrap_or(u32::MAX);
    if (utxos + reassigned, spent) != (record.utxos, record.spent) {
        let (says, has) = ((record.utxos, record.spent), (utxos + reassigned, spent));
        report.add(*txid, format!("it says (outputs, spent) {says:?}, counted are {has:?}"));
    }
    for (table, height) in index_rows(&record) {
        if let Some(height) = height
            && read.get(table, &height_key(height, txid))?.is_none()
        {
            report.add(*txid, format!("its row at height {height} is missing in an index"));
        }
    }
    Ok(())
}

/// Every output belongs to a record, and a spent one to a spender that is or was there.
fn check_slots(read: &dyn Read, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut outputs = Vec::new();
    visit(read, SLOTS, &mut |key, value| {
        if let Some(outpoint) = OutPoint::from_key(key) {
            outputs.push((outpoint, decode_slot(value).ok().and_then(|slot| slot.spent_by())));
        }
    })?;
    let rows = Rows(read);
    for (outpoint, by) in outputs {
        report.outputs += 1;
        let parent = outpoint.txid();
        if read.get(RECORDS, parent.as_bytes())?.is_none() {
            report.add(*parent, format!("output {} has no transaction", outpoint.index()));
        }
        if let Some(by) = by
            && read.get(RECORDS, by.txid.as_bytes())?.is_none()
            && !rows.is_deleted_child(parent, &by.txid)?
        {
            let detail = format!("output {} is spent by {}, unknown", outpoint.index(), by.txid);
            report.add(*parent, detail);
        }
    }
    Ok(())
}

/// Every row of an index is that of a record.
fn check_index(
    read: &dyn Read,
    table: TableId,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    visit(read, table, &mut |key, _| rows.extend(from_height_key(key)))?;
    for (height, txid) in rows {
        let record = Rows(read).record(&txid).ok().flatten();
        let is_right =
            record.is_some_and(|record| index_rows(&record).contains(&(table, Some(height))));
        if !is_right {
            report.add(txid, format!("an index has it at height {height}, its record does not"));
        }
    }
    Ok(())
}
