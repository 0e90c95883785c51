//! Every field of a record is changed, one value at a time.

use std::collections::BTreeMap;

use utxokeep_core::{
    Height, Txid,
    node::{BlobKind, TxRecord},
};

use crate::tampering::world::{World, worlds};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema.md");

/// How much of what was changed in a field was noticed, or refused by the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    All,
    InPart,
    Nothing,
}

/// What docs/schema.md says that `tx verify` cannot see on an engine, or not always.
pub(crate) fn documented(engine: &str) -> BTreeMap<String, Seen> {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let (_, table) = text.split_once("<!-- not checked -->").unwrap();
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    let mut listed = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let seen = match cells[2] {
            "never" => Seen::Nothing,
            "in part, in SQL" if engine == "rocksdb" => Seen::All,
            "in part" | "in part, in SQL" => Seen::InPart,
            other => panic!("{other}: {line}"),
        };
        assert!(cells[3].len() > 10, "without a reason: {line}");
        for name in cells[1].split(", ") {
            let name = name.trim_matches('`').to_owned();
            assert!(listed.insert(name.clone(), seen).is_none(), "{name} twice");
        }
    }
    listed
}

fn heights(height: Option<Height>) -> Vec<Option<Height>> {
    match height {
        Some(height) => {
            let others = [height.plus(1), height.minus(1), height.plus(100_000)];
            others.into_iter().map(Some).chain([None]).collect()
        }
        None => [1, 1_300].map(|height| Some(Height::new(height))).to_vec(),
    }
}

fn numbers(number: u32) -> Vec<u32> {
    [number.checked_add(1), number.checked_sub(1)].into_iter().flatten().collect()
}

/// A record with each of these values in a field.
fn each<T>(record: &TxRecord, values: Vec<T>, set: impl Fn(&mut TxRecord, T)) -> Vec<TxRecord> {
    let one = |value| {
        let mut changed = record.clone();
        set(&mut changed, value);
        changed
    };
    values.into_iter().map(one).collect()
}

/// Every field by its name, and what it can be changed to. A new field does not compile before it is
/// here.
fn changes(record: &TxRecord) -> Vec<(&'static str, Vec<TxRecord>)> {
    let TxRecord {
        is_coinbase,
        is_conflicting,
        is_locked,
        spendable_at,
        outputs,
        utxos,
        spent,
        spent_at,
        blocks,
        unmined_since,
        created_at_ms,
        delete_at,
        preserve_until,
        kept_for_child_until,
        conflicting_children,
        reassignments: _,
        deleted_children,
        blob,
        file_checksum,
        // It only keeps outputs from being spent, and whoever creates or mines it again clears it.
        is_creating: _,
    } = record;
    let kinds = [None, Some(BlobKind::Tx), Some(BlobKind::Outputs)];
    let other_kinds = kinds.into_iter().filter(|kind| kind != blob).collect();
    let checksums = file_checksum.map(|sum| vec![Some(sum ^ 1)]).unwrap_or_default();
    let mut all = vec![
        ("is_coinbase", each(record, vec![!is_coinbase], |r, v| r.is_coinbase = v)),
        ("is_conflicting", each(record, vec![!is_conflicting], |r, v| r.is_conflicting = v)),
        ("is_locked", each(record, vec![!is_locked], |r, v| r.is_locked = v)),
        ("spendable_at", each(record, heights(*spendable_at), |r, v| r.spendable_at = v)),
        ("outputs", each(record, numbers(*outputs), |r, v| r.outputs = v)),
        ("utxos", each(record, numbers(*utxos), |r, v| r.utxos = v)),
        ("spent", each(record, numbers(*spent), |r, v| r.spent = v)),
        ("spent_at", each(record, heights(*spent_at), |r, v| r.spent_at = v)),
        ("unmined_since", each(record, heights(*unmined_since), |r, v| r.unmined_since = v)),
        ("created_at_ms", each(record, vec![created_at_ms + 1], |r, v| r.created_at_ms = v)),
        ("delete_at", each(record, heights(*delete_at), |r, v| r.delete_at = v)),
        ("preserve_until", each(record, heights(*preserve_until), |r, v| r.preserve_until = v)),
        (
            "kept_for_child_until",
            each(record, heights(*kept_for_child_until), |r, v| r.kept_for_child_until = v),
        ),
        (
            "deleted_children",
            each(record, numbers(*deleted_children), |r, v| r.deleted_children = v),
        ),
        ("blob", each(record, other_kinds, |r, v| r.blob = v)),
        ("file_checksum", each(record, checksums, |r, v| r.file_checksum = v)),
    ];
    if let Some(block) = blocks.first() {
        let (ids, subtrees) = (numbers(block.id), numbers(block.subtree));
        let at = [block.height.plus(1), block.height.minus(1), block.height.plus(100_000)].to_vec();
        all.extend([
            ("blocks.id", each(record, ids, |r, v| r.blocks[0].id = v)),
            ("blocks.height", each(record, at, |r, v| r.blocks[0].height = v)),
            ("blocks.subtree", each(record, subtrees, |r, v| r.blocks[0].subtree = v)),
            ("blocks", each(record, vec![()], |r, ()| r.blocks.clear())),
        ]);
    }
    if !conflicting_children.is_empty() {
        let other = Txid::from_bytes([0xee; 32]);
        let lists = vec![vec![], vec![other]];
        all.push(("conflicting_children", each(record, lists, |r, v| r.conflicting_children = v)));
    }
    all.extend(changed_owners(record));
    all
}

fn changed_owners(record: &TxRecord) -> Vec<(&'static str, Vec<TxRecord>)> {
    let Some(given) = record.reassignments.first() else { return Vec::new() };
    let at = vec![given.height.plus(1), given.height.minus(1)];
    let vouts = numbers(given.vout);
    vec![
        ("reassignments.vout", each(record, vouts, |r, v| r.reassignments[0].vout = v)),
        ("reassignments.old", each(record, vec![[7; 32]], |r, v| r.reassignments[0].old = v)),
        ("reassignments.new", each(record, vec![[7; 32]], |r, v| r.reassignments[0].new = v)),
        ("reassignments.script", each(record, vec![vec![7]], |r, v| r.reassignments[0].script = v)),
        ("reassignments.height", each(record, at, |r, v| r.reassignments[0].height = v)),
        ("reassignments", each(record, vec![()], |r, ()| r.reassignments.clear())),
    ]
}

/// What was noticed of each field.
fn seen(world: &World) -> BTreeMap<&'static str, Vec<(String, bool)>> {
    let mut seen: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for tx in &world.txs {
        let record = world.record(&tx.txid);
        for (field, changed) in changes(&record) {
            for changed in changed {
                let is_taken = world.put_record(&tx.txid, &changed);
                let is_seen = !is_taken || !world.store.verify().unwrap().is_clean();
                let what = format!("{}: {:?} -> {:?}", tx.txid, record, changed);
                seen.entry(field).or_default().push((what, is_seen));
                assert!(world.put_record(&tx.txid, &record));
            }
        }
    }
    assert!(world.store.verify().unwrap().is_clean(), "everything is as it was");
    seen
}

#[test]
fn every_field_of_a_record_is_checked_or_documented() {
    let mut wrong = Vec::new();
    for world in worlds() {
        let documented = documented(world.engine);
        for (field, changes) in seen(&world) {
            let noticed = changes.iter().filter(|(_, is_seen)| *is_seen).count();
            let found = match noticed {
                0 => Seen::Nothing,
                all if all == changes.len() => Seen::All,
                _ => Seen::InPart,
            };
            let expected = documented.get(field).copied().unwrap_or(Seen::All);
            if found != expected {
                let missed = changes.iter().find(|(_, is_seen)| !is_seen).map(|(what, _)| what);
                wrong.push(format!(
                    "{} {field}: {found:?}, documented is {expected:?}; not seen is {missed:?}",
                    world.engine
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
