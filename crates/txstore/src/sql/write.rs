//! Writing what the rules decided, a few statements for any number of transactions.

use std::collections::BTreeMap;

use utxokeep_core::{
    OutPoint, Txid,
    node::{
        ChangeSet, MinedBlock, NodeTx, OutputRecord, OutputState, Reassignment, SpendingData,
        TxRecord, body_checksum,
    },
};
use utxokeep_fault::crash_point;
use utxokeep_sql::{Transaction, Value};

use super::rows::{blob, count, from_u64, height};
use crate::error::StoreError;

/// Tables whose rows belong to a transaction.
pub(super) const OF_TRANSACTION: [&str; 6] = [
    "node_inputs",
    "node_outputs",
    "node_block_ids",
    "node_conflicting_children",
    "node_reassignments",
    "node_transactions",
];

/// Records that change, before and behind their rows. A list of values has no statistics: without
/// the `COALESCE`, which changes nothing, `SQLite` takes it for long and walks the whole table.
pub(super) const UPDATE_RECORDS: (&str, &str) = (
    "UPDATE node_transactions SET is_conflicting = v.column2, is_locked = v.column3, \
     utxos = v.column4, spent = v.column5, unmined_since = v.column6, \
     delete_at_height = v.column7, preserve_until = v.column8, blocks = v.column9, \
     conflicting_children = v.column10, reassignments = v.column11, \
     deleted_children = v.column12, spent_at = v.column13, \
     kept_for_child_until = v.column14 FROM (VALUES",
    ") AS v WHERE node_transactions.txid = COALESCE(v.column1, v.column1)",
);

/// Outputs that change, likewise.
pub(super) const UPDATE_SLOTS: (&str, &str) = (
    "UPDATE node_outputs SET utxo_hash = v.column3, spending_data = v.column4, \
     is_frozen = v.column5, spendable_at = v.column6 FROM (VALUES",
    ") AS v WHERE node_outputs.txid = COALESCE(v.column1, v.column1) \
     AND node_outputs.vout = COALESCE(v.column2, v.column2)",
);

/// A record that changed: before, and now.
type Changed<'w> = (&'w Txid, Option<&'w TxRecord>, &'w TxRecord);

/// Writes everything of a call.
pub(super) fn commit(
    transaction: &mut Transaction<'_>,
    writes: &ChangeSet,
) -> Result<(), StoreError> {
    let created: Vec<_> = changed(writes).filter(|(_, before, _)| before.is_none()).collect();
    let updated: Vec<_> = changed(writes).filter(|(_, before, _)| before.is_some()).collect();
    let bodies = writes.bodies.iter().filter_map(|(txid, body)| Some((*txid, body.as_ref()?)));
    let bodies: BTreeMap<Txid, &NodeTx> = bodies.collect();
    insert_records(transaction, &created, &bodies)?;
    crash_point("between_statements");
    insert_inputs(transaction, &bodies)?;
    crash_point("between_statements");
    write_slots(transaction, writes, &created, &bodies)?;
    crash_point("between_statements");
    update_records(transaction, &updated)?;
    crash_point("between_statements");
    write_lists(transaction, &created, &updated)?;
    crash_point("between_statements");
    delete_transactions(transaction, writes)?;
    crash_point("between_statements");
    write_markers(transaction, writes)?;
    crash_point("between_statements");
    write_states(transaction, writes)
}

fn changed(writes: &ChangeSet) -> impl Iterator<Item = Changed<'_>> {
    let records = writes.records.iter();
    records.filter_map(|(txid, before, now)| Some((txid, before.as_ref(), now.as_ref()?)))
}

fn insert_records(
    transaction: &mut Transaction<'_>,
    created: &[Changed<'_>],
    bodies: &BTreeMap<Txid, &NodeTx>,
) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for (txid, _, record) in created {
        let body = bodies.get(*txid);
        rows.extend([
            Value::from(txid.as_bytes()),
            Value::from(body.map(|body| body.version)),
            Value::from(body.map(|body| body.lock_time)),
            body.and_then(|body| body.fee()).map_or(Value::Int(None), from_u64),
            Value::from(record.is_coinbase),
            Value::from(blob(record.blob)),
            height(record.spendable_at),
            Value::from(record.outputs),
            from_u64(record.created_at_ms),
            Value::from(body.map(|body| body_checksum(body)).or(record.file_checksum)),
        ]);
        rows.extend(mutable(record));
    }
    let head = "INSERT INTO node_transactions (txid, version, lock_time, fee, is_coinbase, blob, \
                spendable_at, outputs, created_at_ms, body_checksum, is_conflicting, is_locked, utxos, spent, \
                unmined_since, delete_at_height, preserve_until, blocks, conflicting_children, \
                reassignments, deleted_children, spent_at, kept_for_child_until) VALUES";
    transaction.insert_rows(head, "", 23, &rows)?;
    Ok(())
}

/// Columns that change while a record is there.
fn mutable(record: &TxRecord) -> [Value<'static>; 13] {
    [
        Value::from(record.is_conflicting),
        Value::from(record.is_locked),
        Value::from(record.utxos),
        Value::from(record.spent),
        height(record.unmined_since),
        height(record.delete_at),
        height(record.preserve_until),
        count(record.blocks.len()),
        count(record.conflicting_children.len()),
        count(record.reassignments.len()),
        Value::from(record.deleted_children),
        height(record.spent_at),
        height(record.kept_for_child_until),
    ]
}

fn update_records(
    transaction: &mut Transaction<'_>,
    updated: &[Changed<'_>],
) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for (txid, _, record) in updated {
        rows.push(Value::from(txid.as_bytes()));
        rows.extend(mutable(record));
    }
    let (head, tail) = UPDATE_RECORDS;
    transaction.execute_rows(head, tail, &[], 14, &rows)?;
    Ok(())
}

fn insert_inputs(
    transaction: &mut Transaction<'_>,
    bodies: &BTreeMap<Txid, &NodeTx>,
) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for (txid, body) in bodies {
        for (vin, input) in (0u32..).zip(&body.inputs) {
            let previous = input.previous.as_ref();
            rows.extend([
                Value::from(txid.as_bytes()),
                Value::from(vin),
                Value::from(input.outpoint.txid().as_bytes()),
                Value::from(input.outpoint.index()),
                previous.map_or(Value::Int(None), |previous| from_u64(previous.satoshis)),
                Value::from(previous.map(|previous| &previous.script)),
                Value::from(&input.script),
                Value::from(input.sequence),
            ]);
        }
    }
    let head = "INSERT INTO node_inputs (txid, vin, previous_txid, previous_vout, \
                previous_satoshis, previous_script, script, sequence) VALUES";
    transaction.insert_rows(head, "", 8, &rows)?;
    Ok(())
}

/// An output record in columns: commitment, spender, frozen, hold.
struct SlotRow {
    outpoint: OutPoint,
    hash: Option<[u8; 32]>,
    spent_by: Option<[u8; SpendingData::LEN]>,
    is_frozen: bool,
    spendable_at: Option<u32>,
}

impl SlotRow {
    fn new(outpoint: OutPoint, slot: Option<&OutputRecord>) -> Self {
        Self {
            outpoint,
            hash: slot.map(|slot| slot.hash),
            spent_by: slot.and_then(OutputRecord::spent_by).map(SpendingData::to_bytes),
            is_frozen: slot.is_some_and(|slot| slot.state == OutputState::Frozen),
            spendable_at: slot.and_then(|slot| slot.spendable_at),
        }
    }

    fn values(&self) -> [Value<'_>; 6] {
        [
            Value::from(self.outpoint.txid().as_bytes()),
            Value::from(self.outpoint.index()),
            Value::from(self.hash.as_ref()),
            Value::from(self.spent_by.as_ref()),
            Value::from(self.is_frozen),
            Value::from(self.spendable_at),
        ]
    }
}

/// Outputs of new transactions are inserted with amount and script; others change in place.
fn write_slots(
    transaction: &mut Transaction<'_>,
    writes: &ChangeSet,
    created: &[Changed<'_>],
    bodies: &BTreeMap<Txid, &NodeTx>,
) -> Result<(), StoreError> {
    let is_new = |txid: &Txid| created.binary_search_by_key(&txid, |(id, ..)| *id).is_ok();
    let written = writes.slots.iter().filter_map(|(at, slot)| Some((*at, slot.as_ref()?)));
    let slots: BTreeMap<OutPoint, &OutputRecord> = written.collect();
    let (mut new, mut old) = (Vec::new(), Vec::new());
    for (txid, body) in bodies {
        for (vout, output) in (0u32..).zip(&body.outputs) {
            let outpoint = OutPoint::new(*txid, vout);
            new.push((SlotRow::new(outpoint, slots.get(&outpoint).copied()), Some(output)));
        }
    }
    for (outpoint, slot) in &slots {
        let row = SlotRow::new(*outpoint, Some(slot));
        if !is_new(outpoint.txid()) {
            old.push(row);
        } else if !bodies.contains_key(outpoint.txid()) {
            // Amount and script are in the file with the body.
            new.push((row, None));
        }
    }
    let mut rows = Vec::with_capacity(new.len() * 8);
    for (row, output) in &new {
        rows.extend(row.values());
        rows.push(output.map_or(Value::Int(None), |output| from_u64(output.satoshis)));
        rows.push(Value::from(output.map(|output| &output.script)));
    }
    let head = "INSERT INTO node_outputs (txid, vout, utxo_hash, spending_data, is_frozen, \
                spendable_at, satoshis, script) VALUES";
    transaction.insert_rows(head, "", 8, &rows)?;
    let rows: Vec<_> = old.iter().flat_map(SlotRow::values).collect();
    let (head, tail) = UPDATE_SLOTS;
    transaction.execute_rows(head, tail, &[], 6, &rows)?;
    Ok(())
}

/// Lists of a record are short: one that changed is written anew.
fn write_lists(
    transaction: &mut Transaction<'_>,
    created: &[Changed<'_>],
    updated: &[Changed<'_>],
) -> Result<(), StoreError> {
    let all = || created.iter().chain(updated);
    let blocks = |record: &TxRecord| record.blocks.clone();
    let head = "INSERT INTO node_block_ids (txid, position, block_id, block_height, subtree_idx) \
                VALUES";
    replace(transaction, all(), "node_block_ids", head, 3, blocks, |block: &MinedBlock| {
        vec![Value::from(block.id), Value::from(block.height.get()), Value::from(block.subtree)]
    })?;
    let children = |record: &TxRecord| record.conflicting_children.clone();
    let head = "INSERT INTO node_conflicting_children (txid, position, child_txid) VALUES";
    let table = "node_conflicting_children";
    replace(transaction, all(), table, head, 1, children, |child: &Txid| {
        vec![Value::from(child.as_bytes())]
    })?;
    let changes = |record: &TxRecord| record.reassignments.clone();
    let head = "INSERT INTO node_reassignments (txid, position, vout, old_hash, new_hash, \
                script, height) VALUES";
    let table = "node_reassignments";
    replace(transaction, all(), table, head, 5, changes, |change: &Reassignment| {
        vec![
            Value::from(change.vout),
            Value::from(&change.old),
            Value::from(&change.new),
            Value::from(&change.script),
            Value::from(change.height.get()),
        ]
    })
}

fn replace<'w, T: PartialEq>(
    transaction: &mut Transaction<'_>,
    records: impl Iterator<Item = &'w Changed<'w>>,
    table: &str,
    head: &str,
    columns: usize,
    list: impl Fn(&TxRecord) -> Vec<T>,
    values: impl Fn(&T) -> Vec<Value<'_>>,
) -> Result<(), StoreError> {
    let (mut stale, mut lists) = (Vec::new(), Vec::new());
    for (txid, before, now) in records {
        let (old, new) = (before.map(&list).unwrap_or_default(), list(now));
        if old != new {
            if !old.is_empty() {
                stale.push(Value::from(txid.as_bytes()));
            }
            lists.push((txid, new));
        }
    }
    let delete = format!("DELETE FROM {table} WHERE txid IN");
    transaction.execute_in(&delete, "", &[], 1, &stale)?;
    let mut rows = Vec::new();
    for (txid, list) in &lists {
        for (position, item) in (0u32..).zip(list) {
            rows.extend([Value::from(txid.as_bytes()), Value::from(position)]);
            rows.extend(values(item));
        }
    }
    transaction.insert_rows(head, "", columns + 2, &rows)?;
    Ok(())
}

fn delete_transactions(
    transaction: &mut Transaction<'_>,
    writes: &ChangeSet,
) -> Result<(), StoreError> {
    let gone: Vec<_> = writes.records.iter().filter(|(.., now)| now.is_none()).collect();
    for table in OF_TRANSACTION {
        // Most records have no conflicts and were given to nobody else.
        let has_rows = |record: &TxRecord| match table {
            "node_block_ids" => !record.blocks.is_empty(),
            "node_conflicting_children" => !record.conflicting_children.is_empty(),
            "node_reassignments" => !record.reassignments.is_empty(),
            _ => true,
        };
        let with_rows = gone.iter().filter(|(_, before, _)| before.as_ref().is_none_or(has_rows));
        let keys: Vec<_> = with_rows.map(|(txid, ..)| Value::from(txid.as_bytes())).collect();
        let delete = format!("DELETE FROM {table} WHERE txid IN");
        transaction.execute_in(&delete, "", &[], 1, &keys)?;
    }
    // Markers of a parent that goes are of no use to anybody.
    let marked = gone
        .iter()
        .filter(|(_, before, _)| before.as_ref().is_some_and(|before| before.deleted_children > 0));
    let keys: Vec<_> = marked.map(|(txid, ..)| Value::from(txid.as_bytes())).collect();
    let delete = "DELETE FROM node_deleted_children WHERE parent_txid IN";
    transaction.execute_in(delete, "", &[], 1, &keys)?;
    Ok(())
}

fn write_markers(transaction: &mut Transaction<'_>, writes: &ChangeSet) -> Result<(), StoreError> {
    fn values(markers: &[(Txid, Txid)]) -> Vec<Value<'_>> {
        let both = markers.iter().flat_map(|(parent, child)| [parent, child]);
        both.map(|txid| Value::from(txid.as_bytes())).collect()
    }
    let head = "INSERT INTO node_deleted_children (parent_txid, child_txid) VALUES";
    let tail = " ON CONFLICT (parent_txid, child_txid) DO NOTHING";
    transaction.insert_rows(head, tail, 2, &values(&writes.markers))?;
    let head = "DELETE FROM node_deleted_children WHERE (parent_txid, child_txid) IN";
    transaction.execute_in(head, "", &[], 2, &values(&writes.unmarked))?;
    Ok(())
}

fn write_states(transaction: &mut Transaction<'_>, writes: &ChangeSet) -> Result<(), StoreError> {
    let (mut put, mut gone) = (Vec::new(), Vec::new());
    for (name, value) in &writes.states {
        match value {
            Some(value) => put.extend([Value::from(name.as_bytes()), Value::from(value)]),
            None => gone.push(Value::from(name.as_bytes())),
        }
    }
    let head = "INSERT INTO node_state (name, value) VALUES";
    let tail = " ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    transaction.insert_rows(head, tail, 2, &put)?;
    transaction.execute_in("DELETE FROM node_state WHERE name IN", "", &[], 1, &gone)?;
    Ok(())
}
