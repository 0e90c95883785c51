//! Recounting everything while the store is in use: each row against the rows it implies.

mod told;

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Corrupt, Height, OutPoint, Txid,
    node::{
        HeightIndex, NodeTx, OutputRecord, OutputState, REASSIGN_HOLD_BLOCKS, SpendingData,
        TxRecord, utxo_hash,
    },
};

use self::told::Told;
use crate::{agreed::retentions, engine::NodeStore, error::StoreError, facts::Facts};

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
/// The same for the outputs of one transaction.
const PAGE_OUTPUTS: u32 = 1_000;
/// Bodies that are read at a time; they may be large.
const BODIES: usize = 100;

impl NodeStore {
    /// Recounts everything on one state of the store, beside whatever else goes on.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        self.verify_telling(&mut |_| {})
    }

    /// The same, telling now and then how many transactions it has looked at.
    pub fn verify_telling(&self, tell: &mut dyn FnMut(u64)) -> Result<VerifyReport, StoreError> {
        if let Some(damage) = self.backend.file_damage()? {
            return Err(Corrupt::new("database file", damage).into());
        }
        self.read(|facts| {
            let mut report = VerifyReport::default();
            let policy = &self.settings.policy;
            let mut told = Told::new(retentions(facts.view, policy)?, policy);
            check_records(facts, &mut told, &mut report, tell)?;
            check_slots(facts, &mut report)?;
            for index in HeightIndex::ALL {
                check_index(facts, index, &mut report)?;
            }
            Ok(report)
        })
    }
}

/// What is wrong, without the advice to run what found it.
fn in_words(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt(corrupt) => corrupt.to_string(),
        StoreError::BlobMissing(_) => {
            "the file with its body is missing in the blob store".to_owned()
        }
        error => error.to_string(),
    }
}

/// Reads many at once.
pub(crate) type ReadMany<'r, K, T> = dyn Fn(&[K]) -> Result<Vec<T>, StoreError> + 'r;

/// Reads many at once. Where one of them is damaged each is read alone, so that it is told apart.
pub(crate) fn read_each<K, T>(keys: &[K], read: &ReadMany<'_, K, T>) -> Vec<Result<T, StoreError>> {
    match read(keys) {
        Ok(found) => found.into_iter().map(Ok).collect(),
        Err(error) if keys.len() == 1 => vec![Err(error)],
        Err(_) => keys.chunks(1).flat_map(|key| read_each(key, read)).collect(),
    }
}

/// Every record, page by page; one that does not decode is a finding of its own.
fn check_records(
    facts: &Facts<'_>,
    told: &mut Told,
    report: &mut VerifyReport,
    tell: &mut dyn FnMut(u64),
) -> Result<(), StoreError> {
    let mut after: Option<Txid> = None;
    loop {
        let page = facts.view.txids_after(after.as_ref(), PAGE)?;
        let Some(last) = page.last().copied() else { return Ok(()) };
        for ids in page.chunks(BODIES) {
            tell(report.transactions);
            report.transactions += ids.len() as u64;
            let mut records = Vec::with_capacity(ids.len());
            for (txid, found) in ids.iter().zip(read_each(ids, &|ids| facts.view.records(ids))) {
                match found {
                    Ok(found) => records.extend(found.map(|record| (*txid, record))),
                    Err(error) => report.add(*txid, in_words(&error)),
                }
            }
            let bodies = check_bodies(facts, &records, report);
            for (txid, record) in &records {
                let commitments = bodies.get(txid).map(|body| &body.commitments);
                let spenders = check_record(facts, txid, record, commitments, report)?;
                for fault in record.faults(told.retentions) {
                    report.add(*txid, fault.to_string());
                }
                told.check_blocks(txid, record, report);
                told.check_spenders(facts, (txid, record), &spenders, report)?;
            }
            let inputs = bodies.into_iter().flat_map(|(txid, body)| with_child(txid, body.inputs));
            check_inputs(facts, &inputs.collect::<Vec<_>>(), report);
        }
        after = Some(last);
    }
}

/// What the outputs of a transaction commit to, in order.
type Commitments = Vec<[u8; 32]>;

/// What a body says that other rows have to say too.
struct Said {
    commitments: Commitments,
    /// What it spends, if it is on the longest chain: only then it is sure that it does. One that is
    /// not may have been created before it spends, or have had its spends taken back.
    inputs: Vec<OutPoint>,
}

/// Every record has a body with as many outputs as it says. Files are read one by one: they are
/// the large ones. Answers what the bodies say of outputs and inputs.
fn check_bodies(
    facts: &Facts<'_>,
    records: &[(Txid, TxRecord)],
    report: &mut VerifyReport,
) -> BTreeMap<Txid, Said> {
    let mut said = BTreeMap::new();
    let mut check =
        |txid: &Txid, record: &TxRecord, body: Result<Option<NodeTx>, StoreError>| match body {
            Ok(Some(body)) if body.outputs.len() == record.outputs as usize => {
                if body.is_coinbase != record.is_coinbase {
                    report.add(*txid, "only one of it and its body creates coins".to_owned());
                }
                check_reassignments(&body, record, report);
                let commitments =
                    (0..record.outputs).filter_map(|vout| body.utxo_hash(vout)).collect();
                let is_settled = record.settled_height().is_some();
                let inputs = if is_settled { outpoints(&body) } else { Vec::new() };
                said.insert(*txid, Said { commitments, inputs });
            }
            Ok(_) => report.add(
                *txid,
                "its body is missing, in another place than it says, or has other outputs"
                    .to_owned(),
            ),
            Err(error) => report.add(*txid, in_words(&error)),
        };
    let (files, rows): (Vec<_>, Vec<_>) =
        records.iter().partition(|(_, record)| record.blob.is_some());
    for (txid, record) in files {
        let beside = facts.view.bodies(std::slice::from_ref(txid));
        let body = match beside {
            Ok(beside) if beside.iter().flatten().next().is_some() => Ok(None),
            _ => facts.body(txid),
        };
        check(txid, record, body);
    }
    let ids: Vec<Txid> = rows.iter().map(|(txid, _)| *txid).collect();
    for ((txid, record), body) in rows.iter().zip(read_each(&ids, &|ids| facts.view.bodies(ids))) {
        check(txid, record, body);
    }
    said
}

/// Each owner of an output follows the one before, and has the script that was given.
fn check_reassignments(body: &NodeTx, record: &TxRecord, report: &mut VerifyReport) {
    let mut owners: BTreeMap<u32, [u8; 32]> = BTreeMap::new();
    for given in &record.reassignments {
        let before = owners.get(&given.vout).copied().or_else(|| body.utxo_hash(given.vout));
        let output = body.outputs.get(given.vout as usize);
        let new =
            output.map(|output| utxo_hash(&body.txid, given.vout, &given.script, output.satoshis));
        if before != Some(given.old) || new != Some(given.new) {
            let detail = format!("output {} was given to another owner than it says", given.vout);
            report.add(body.txid, detail);
        }
        owners.insert(given.vout, given.new);
    }
}

/// A record has as many outputs, spent and unspent, as it says, with the amounts and scripts of its
/// body, and is found by its heights. Answers those that spend them.
fn check_record(
    facts: &Facts<'_>,
    txid: &Txid,
    record: &TxRecord,
    commitments: Option<&Commitments>,
    report: &mut VerifyReport,
) -> Result<BTreeSet<Txid>, StoreError> {
    let (mut utxos, mut spent, mut spenders) = (0, 0, BTreeSet::new());
    for from in (0..record.outputs).step_by(PAGE_OUTPUTS as usize) {
        let until = from.saturating_add(PAGE_OUTPUTS).min(record.outputs);
        let outputs: Vec<_> = (from..until).map(|vout| OutPoint::new(*txid, vout)).collect();
        let slots = read_each(&outputs, &|outputs| facts.view.outputs_at(outputs));
        for (vout, slot) in (from..until).zip(slots) {
            match slot {
                Ok(None) => {}
                Ok(Some(slot)) => {
                    utxos += 1;
                    let expected = commitment(record, commitments, vout);
                    if expected.is_some_and(|expected| expected != slot.hash) {
                        let detail = "has another amount or script than its body says";
                        report.add(*txid, format!("output {vout} {detail}"));
                    }
                    if slot.spendable_at != hold_of(record, vout) {
                        let detail = "waits for another height than its last owner says";
                        report.add(*txid, format!("output {vout} {detail}"));
                    }
                    spent += u32::from(matches!(slot.state, OutputState::Spent(_)));
                    spenders.extend(slot.spent_by().map(|by| by.txid));
                }
                Err(error) => report.add(*txid, format!("output {vout}: {}", in_words(&error))),
            }
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
    Ok(spenders)
}

/// Height until which an output that was given to another owner has to wait.
fn hold_of(record: &TxRecord, vout: u32) -> Option<u32> {
    let given = record.reassignments.iter().rev().find(|given| given.vout == vout)?;
    Some(given.height.plus(REASSIGN_HOLD_BLOCKS).get())
}

/// What an output commits to: its body says, unless it was given to another owner.
fn commitment(record: &TxRecord, commitments: Option<&Commitments>, vout: u32) -> Option<[u8; 32]> {
    let given = record.reassignments.iter().rev().find(|given| given.vout == vout);
    given.map(|given| given.new).or_else(|| commitments?.get(vout as usize).copied())
}

/// Every output belongs to a record, and a spent one to a spender that is or was there.
fn check_slots(facts: &Facts<'_>, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut after: Option<OutPoint> = None;
    loop {
        let page = facts.view.outputs_after(after.as_ref(), PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        let spenders =
            page.iter().filter_map(|(_, slot)| Some(slot.as_ref().ok()?.spent_by()?.txid));
        let absent = absent(facts, page.iter().map(|(at, _)| *at.txid()).chain(spenders));
        let mut spends = Vec::new();
        for (outpoint, slot) in page {
            report.outputs += 1;
            let parent = outpoint.txid();
            if absent.contains(parent) {
                report.add(*parent, format!("output {} has no transaction", outpoint.index()));
            }
            // One that does not decode was reported with its record.
            let Some(by) = slot.ok().and_then(|slot| slot.spent_by()) else { continue };
            if !absent.contains(&by.txid) {
                spends.push((outpoint, by));
            } else if !facts.view.is_deleted_child(parent, &by.txid)? {
                let detail =
                    format!("output {} is spent by {}, unknown", outpoint.index(), by.txid);
                report.add(*parent, detail);
            }
        }
        check_spends(facts, &spends, report);
    }
}

/// A spender that is there has the output as the input that the output names.
fn check_spends(facts: &Facts<'_>, spends: &[(OutPoint, SpendingData)], report: &mut VerifyReport) {
    let ids: BTreeSet<Txid> = spends.iter().map(|(_, by)| by.txid).collect();
    let ids: Vec<Txid> = ids.into_iter().collect();
    let mut inputs = BTreeMap::new();
    for (txid, found) in ids.iter().zip(read_each(&ids, &|ids| facts.view.spends(ids))) {
        let found = match found {
            // Its body is in a file.
            Ok(None) => facts.body(txid).map(|body| body.map(|body| outpoints(&body))),
            found => found,
        };
        // A body that is missing or does not decode was reported with its record.
        if let Ok(Some(found)) = found {
            inputs.insert(*txid, found);
        }
    }
    for (outpoint, by) in spends {
        let Some(inputs) = inputs.get(&by.txid) else { continue };
        if inputs.get(by.vin as usize) != Some(outpoint) {
            let (vout, spender, vin) = (outpoint.index(), by.txid, by.vin);
            let what = if inputs.contains(outpoint) {
                format!("which spends it with another input than {vin}")
            } else {
                "which has no such input".to_owned()
            };
            report.add(*outpoint.txid(), format!("output {vout} is spent by {spender}, {what}"));
        }
    }
}

/// What each input of a transaction spends, and what the output has to say of it.
fn with_child(txid: Txid, inputs: Vec<OutPoint>) -> impl Iterator<Item = (OutPoint, SpendingData)> {
    (0..).zip(inputs).map(move |(vin, outpoint)| (outpoint, SpendingData { txid, vin }))
}

/// An output that a transaction of the longest chain spends says so, if its transaction is there.
fn check_inputs(facts: &Facts<'_>, inputs: &[(OutPoint, SpendingData)], report: &mut VerifyReport) {
    for page in inputs.chunks(PAGE) {
        let parents = absent(facts, page.iter().map(|(outpoint, _)| *outpoint.txid()));
        let page: Vec<_> = page.iter().filter(|(at, _)| !parents.contains(at.txid())).collect();
        let outputs: Vec<OutPoint> = page.iter().map(|(outpoint, _)| *outpoint).collect();
        let slots = read_each(&outputs, &|outputs| facts.view.outputs_at(outputs));
        for ((outpoint, by), slot) in page.into_iter().zip(slots) {
            // One that does not decode was reported with its record.
            let Ok(slot) = slot else { continue };
            let spent_by = slot.as_ref().and_then(OutputRecord::spent_by);
            if spent_by == Some(*by) {
                continue;
            }
            let what = match (&slot, spent_by) {
                (None, _) => "which its transaction does not have".to_owned(),
                (_, Some(SpendingData { txid, vin })) => {
                    format!("which is marked as spent by input {vin} of {txid}")
                }
                _ => "which is not marked as spent".to_owned(),
            };
            report.add(by.txid, format!("input {} spends {outpoint}, {what}", by.vin));
        }
    }
}

fn outpoints(body: &NodeTx) -> Vec<OutPoint> {
    body.spends().map(|input| input.outpoint).collect()
}

/// Those of the transactions that are not there. One that does not decode is.
fn absent(facts: &Facts<'_>, txids: impl Iterator<Item = Txid>) -> BTreeSet<Txid> {
    let ids: BTreeSet<Txid> = txids.collect();
    let ids: Vec<Txid> = ids.into_iter().collect();
    let records = read_each(&ids, &|ids| facts.view.records(ids));
    let found = ids.iter().zip(records).filter(|(_, record)| matches!(record, Ok(None)));
    found.map(|(txid, _)| *txid).collect()
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
        let ids: Vec<Txid> = page.iter().map(|(_, txid)| *txid).collect();
        let records = read_each(&ids, &|ids| facts.view.records(ids));
        for ((height, txid), record) in page.into_iter().zip(records) {
            let record = record.ok().flatten();
            if record.is_none_or(|record| index.of(&record) != Some(height)) {
                let detail = format!("an index has it at height {height}, its record does not");
                report.add(txid, detail);
            }
        }
    }
}
