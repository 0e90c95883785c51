//! Recounting everything while the store is in use: each row against the rows it implies.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{SlotState, Source as _, TxRecord},
};

use crate::{backend::HeightIndex, engine::NodeStore, error::StoreError, facts::Facts};

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

/// Rows that are checked at a time.
const PAGE: usize = 1_000;

impl NodeStore {
    /// Recounts everything on one state of the store, beside whatever else goes on.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        self.read(|facts| {
            let mut report = VerifyReport::default();
            check_records(facts, &mut report)?;
            check_slots(facts, &mut report)?;
            for index in HeightIndex::ALL {
                check_index(facts, index, &mut report)?;
            }
            Ok(report)
        })
    }
}

/// Every record, page by page; one that does not decode is a finding of its own.
fn check_records(facts: &Facts<'_>, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut after: Option<Txid> = None;
    loop {
        let page = facts.view.txids_after(after.as_ref(), PAGE)?;
        let Some(last) = page.last().copied() else { return Ok(()) };
        for txid in &page {
            report.transactions += 1;
            match facts.record(txid) {
                Ok(Some(record)) => check_record(facts, txid, &record, report)?,
                Ok(None) => {}
                Err(error) => report.add(*txid, error.to_string()),
            }
        }
        after = Some(last);
    }
}

/// A record has a body, and as many outputs, spent and unspent, as it says.
fn check_record(
    facts: &Facts<'_>,
    txid: &Txid,
    record: &TxRecord,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    match facts.body(txid) {
        Ok(Some(body)) if body.outputs.len() == record.outputs as usize => {}
        Ok(_) => report.add(*txid, "its body is missing or has other outputs".to_owned()),
        Err(error) => report.add(*txid, error.to_string()),
    }
    let (mut utxos, mut spent) = (0, 0);
    for vout in 0..record.outputs {
        match facts.slot(&OutPoint::new(*txid, vout)) {
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
    for index in HeightIndex::ALL {
        if let Some(height) = index.of(record)
            && !facts.view.is_indexed(index, height, txid)?
        {
            report.add(*txid, format!("its row at height {height} is missing in an index"));
        }
    }
    Ok(())
}

/// Every output belongs to a record, and a spent one to a spender that is or was there.
fn check_slots(facts: &Facts<'_>, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut after: Option<OutPoint> = None;
    loop {
        let page = facts.view.slots_after(after.as_ref(), PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (outpoint, slot) in page {
            report.outputs += 1;
            let parent = outpoint.txid();
            if is_absent(facts, parent) {
                report.add(*parent, format!("output {} has no transaction", outpoint.index()));
            }
            // One that does not decode was reported with its record.
            let by = slot.ok().and_then(|slot| slot.spent_by());
            if let Some(by) = by
                && is_absent(facts, &by.txid)
                && !facts.is_deleted_child(parent, &by.txid)?
            {
                let detail =
                    format!("output {} is spent by {}, unknown", outpoint.index(), by.txid);
                report.add(*parent, detail);
            }
        }
    }
}

fn is_absent(facts: &Facts<'_>, txid: &Txid) -> bool {
    matches!(facts.record(txid), Ok(None))
}

/// Every row of an index is that of a record.
fn check_index(
    facts: &Facts<'_>,
    index: HeightIndex,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = facts.view.by_height(index, Height::new(u32::MAX), after, PAGE)?;
        let Some(last) = page.last().copied() else { return Ok(()) };
        after = Some(last);
        for (height, txid) in page {
            let record = facts.record(&txid).ok().flatten();
            if record.is_none_or(|record| index.of(&record) != Some(height)) {
                let detail = format!("an index has it at height {height}, its record does not");
                report.add(txid, detail);
            }
        }
    }
}
