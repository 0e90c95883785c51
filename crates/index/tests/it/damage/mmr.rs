//! Damage of the Merkle mountain range: of its rows, and of what deltas say of it.

use std::collections::BTreeMap;

use utxokeep_core::{
    BlockDelta, SpentRecord, StoredKey as _,
    mmr::{MmrProof, MmrRule, PlaceKey, Row as NodeRow, RowKey, find_leaf, leaves_of_row},
};
use utxokeep_index::{
    IndexError, MmrError,
    tables::ids::{MMR_NODES, MMR_PLACES},
};

use super::*;
use crate::mmr::RULES;

/// A database with a tree and without a half-pruned block.
fn with_tree(rule: MmrRule) -> Database {
    let database = Database::of(|settings| settings.mmr = Some(rule));
    common::prune_fully(&mut ChainWriter::new(database.index.clone()).unwrap());
    assert_clean(&database.index, "before any damage");
    database
}

/// The check of the tree finds it, whatever the others find.
#[track_caller]
fn assert_found(found: &[String], what: &str) {
    assert!(found.iter().any(|finding| finding.contains("check: \"mmr\"")), "{what}: {found:?}");
}

#[test]
fn a_damaged_missing_or_surplus_row_of_nodes_is_found() {
    for rule in RULES {
        let database = with_tree(rule);
        let rows = database.rows(MMR_NODES);
        let key = |row: &Row| RowKey::read_key(&row.0).unwrap();
        let leaf_rows = rows.iter().filter(|row| key(row).tier == 0).count();
        assert!(rows.len() > leaf_rows, "there are rows above");
        for at in [0, leaf_rows / 2, leaf_rows - 1, leaf_rows, rows.len() - 1] {
            let row = &rows[at];
            let what = format!("{rule} {:?}", key(row));
            for byte in (0..row.1.len()).step_by(row.1.len().div_ceil(30)) {
                assert_found(&database.flipped(MMR_NODES, row, byte), &what);
            }
            assert_found(&database.with(MMR_NODES, &row.0, None), &what);
            assert_found(&database.with(MMR_NODES, &row.0, Some(b"")), &what);
        }
        // A leaf more in a row: that of an output that is spent.
        let spent = rows[..leaf_rows - 1].iter().find_map(|row| {
            let mut nodes = NodeRow::decode(&row.1).unwrap();
            let at = (0..16).find(|at| nodes.node(*at).is_none())?;
            nodes.set(at, Some([9; 32]));
            Some((row.0.clone(), nodes))
        });
        let (spent, nodes) = spent.expect("some outputs are spent");
        let mut bytes = Vec::new();
        nodes.encode_into(&mut bytes);
        assert_found(&database.with(MMR_NODES, &spent, Some(&bytes)), "a leaf that is spent");
        // Beyond the leaves, above every tree, no key at all.
        for key in [
            RowKey { tier: 0, number: key(&rows[leaf_rows - 1]).number + 1 },
            RowKey { tier: 0, number: u64::MAX },
            RowKey { tier: 16, number: 0 },
            RowKey { tier: 200, number: 3 },
        ] {
            let mut row = NodeRow::EMPTY;
            row.set(3, Some([9; 32]));
            let mut bytes = Vec::new();
            row.encode_into(&mut bytes);
            let found = database.with(MMR_NODES, &key.key_bytes(), Some(&bytes));
            assert_found(&found, &format!("{rule} surplus {key:?}"));
        }
        assert_found(&database.with(MMR_NODES, b"short", Some(&rows[0].1)), "short key");
        assert_clean(&database.index, "mended");
    }
}

/// Outputs that somebody may ask the leaf of: the live ones, and those spent inside the window.
fn asked(database: &Database) -> BTreeMap<PlaceKey, Vec<(u32, u32)>> {
    let mut asked: BTreeMap<PlaceKey, Vec<(u32, u32)>> = BTreeMap::new();
    let mut ask = |outpoint: &[u8], record: &UtxoRecord<'_>| {
        let index = OutPoint::from_key(outpoint).unwrap().index();
        let row = PlaceKey::of(record.height, record.tx_index);
        asked.entry(row).or_default().push((record.tx_index, index));
    };
    for (key, value) in database.rows(UNSPENT) {
        ask(&key, &UtxoRecord::decode(&value).unwrap());
    }
    let base = database.index.status().unwrap().undo_base.unwrap();
    for (key, value) in database.rows(SPENT) {
        let spent = SpentRecord::decode(&value).unwrap();
        let record = spent.utxo().unwrap();
        if spent.spent_height > base && record.height < spent.spent_height {
            ask(&key, &record);
        }
    }
    asked
}

#[test]
fn a_damaged_missing_or_surplus_row_of_leaf_numbers_is_found() {
    for rule in RULES {
        let database = with_tree(rule);
        let asked = asked(&database);
        let rows = database.rows(MMR_PLACES);
        let (mut tried, mut hidden) = (0, 0);
        for row in rows.iter().rev().step_by(6) {
            let key = PlaceKey::read_key(&row.0).unwrap();
            let outputs = asked.get(&key).map(Vec::as_slice).unwrap_or_default();
            let leaves = |row: &[u8]| -> Vec<_> {
                outputs.iter().map(|&(tx, index)| find_leaf(row, tx, index).ok()).collect()
            };
            for at in 0..row.1.len() {
                let mut damaged = row.1.clone();
                damaged[at] ^= 1;
                // What it says of an output that is long spent nobody asks.
                if leaves(&damaged) == leaves(&row.1)
                    && leaves_of_row(&damaged) == leaves_of_row(&row.1)
                {
                    hidden += 1;
                    continue;
                }
                let found = database.flipped(MMR_PLACES, row, at);
                assert_found(&found, &format!("{rule} {key:?} byte {at}"));
                tried += 1;
            }
        }
        assert!(tried > 150 && hidden < tried / 4, "{tried} flipped, {hidden} not");
        for at in [0, rows.len() / 2, rows.len() - 1] {
            let (key, value) = &rows[at];
            assert_found(&database.with(MMR_PLACES, key, None), "gone");
            assert_found(&database.with(MMR_PLACES, key, Some(b"?")), "replaced");
            let mut other = key.clone();
            other[7] ^= 0x80;
            assert_found(&database.with(MMR_PLACES, &other, Some(value)), "twice");
        }
        // A row of a block that is not there, whose leaves would be the next ones.
        let leaves = database.index.view().unwrap().mmr_root(None).unwrap().leaves;
        let row = [leaves.to_be_bytes().as_slice(), &[0, 1]].concat();
        let above = PlaceKey { height: Height::new(500), group: 0 };
        let found = database.with(MMR_PLACES, &above.key_bytes(), Some(&row));
        assert!(found.iter().any(|finding| finding.contains("above the tip")), "{found:?}");
        assert_clean(&database.index, "mended");
    }
}

#[test]
fn a_damaged_or_missing_row_of_its_size_and_root_is_found() {
    for rule in RULES {
        let database = with_tree(rule);
        let value = database.place.0.get(UTXO_META, b"mmr").unwrap().unwrap();
        assert_eq!(value.len(), 64);
        let row = (b"mmr".to_vec(), value);
        for at in 0..row.1.len() {
            assert_found(&database.flipped(UTXO_META, &row, at), &format!("{rule} byte {at}"));
        }
        assert_found(&database.with(UTXO_META, b"mmr", Some(b"?")), "replaced");
        assert_found(&database.with(UTXO_META, b"mmr", None), "gone");
        assert_clean(&database.index, "mended");
    }
}

#[test]
fn whatever_a_delta_says_wrongly_of_the_tree_is_found() {
    type Change = fn(&mut BlockDelta);
    let changes: [(&str, Change); 13] = [
        ("left out", |delta| delta.mmr = None),
        ("a leaf more before", |delta| delta.mmr.as_mut().unwrap().leaves_before += 1),
        ("many leaves before", |delta| delta.mmr.as_mut().unwrap().leaves_before |= 1 << 60),
        ("a leaf less appended", |delta| delta.mmr.as_mut().unwrap().inserts -= 1),
        ("a leaf appended too early", |delta| {
            let mmr = delta.mmr.as_mut().unwrap();
            (mmr.leaves_before, mmr.inserts) = (mmr.leaves_before - 1, mmr.inserts + 1);
        }),
        ("another leaf deleted", |delta| delta.mmr.as_mut().unwrap().deletes[0] ^= 1),
        ("deleted leaves in another order", |delta| delta.mmr.as_mut().unwrap().deletes.swap(0, 1)),
        ("a deleted leaf less", |delta| {
            delta.mmr.as_mut().unwrap().deletes.pop();
        }),
        ("a deleted leaf more", |delta| delta.mmr.as_mut().unwrap().deletes.push(1)),
        ("another peak", |delta| delta.mmr.as_mut().unwrap().peaks_before[0][31] ^= 1),
        ("a peak less", |delta| {
            delta.mmr.as_mut().unwrap().peaks_before.pop();
        }),
        ("a peak more", |delta| delta.mmr.as_mut().unwrap().peaks_before.push([0; 32])),
        ("another root", |delta| delta.mmr.as_mut().unwrap().root[0] ^= 1),
    ];
    for rule in RULES {
        let database = with_tree(rule);
        let has_two = |row: &&Row| {
            let delta = BlockDelta::decode(&row.1).unwrap();
            delta.mmr.is_some_and(|mmr| mmr.deletes.len() > 1)
        };
        let rows = database.rows(DELTA);
        let rows: Vec<_> = rows.iter().filter(has_two).collect();
        for (key, value) in [rows[0], rows[rows.len() / 2], rows[rows.len() - 1]] {
            for (what, change) in changes {
                let mut delta = BlockDelta::decode(value).unwrap();
                change(&mut delta);
                let found = database.with(DELTA, key, Some(&delta.encode()));
                assert_found(&found, &format!("{rule} {what}"));
            }
        }
        assert_clean(&database.index, "mended");
    }
}

/// However much is wrong, the report and its memory are bounded.
#[test]
fn findings_of_the_tree_are_listed_up_to_a_limit_and_counted_beyond() {
    let database = with_tree(MmrRule::Tombstone);
    for table in [MMR_NODES, MMR_PLACES] {
        for (key, _) in database.rows(table) {
            database.put(table, &key, None);
        }
    }
    let report = database.index.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.findings.len(), 100);
    assert!(report.findings_total > 120, "{}", report.findings_total);
}

/// A proof is checked before it is answered.
#[test]
fn a_damaged_tree_gives_no_proof() {
    for rule in RULES {
        let database = with_tree(rule);
        let prove = |at: Option<Height>, outpoint| -> Result<Option<MmrProof>, MmrError> {
            let view = database.index.view().unwrap();
            match rule {
                MmrRule::Tombstone => view.mmr_proof(outpoint, at, None).map(Some),
                MmrRule::Utreexo => view.forest_proof(outpoint, at, None).map(|_| None),
            }
        };
        let tip = database.index.status().unwrap().tip.unwrap().height;
        // Of a block below the window, so that no row of its own is touched by going back.
        let rows = database.rows(UNSPENT);
        let old = |row: &&Row| UtxoRecord::decode(&row.1).unwrap().height.get() < 60;
        let outpoint = OutPoint::from_key(&rows.iter().find(old).unwrap().0).unwrap();
        let is_damage = |result: Result<Option<MmrProof>, MmrError>, what: &str| {
            let is_it = matches!(
                &result,
                Err(MmrError::Store(IndexError::Corrupt(_) | IndexError::MissingRow { .. }))
            );
            assert!(is_it, "{rule} {what}: {result:?}");
        };
        for at in [None, Some(tip.minus(3))] {
            prove(at, outpoint).unwrap();
        }
        for (table, ways) in [(MMR_NODES, 2), (MMR_PLACES, 1)] {
            let rows = database.rows(table);
            for (key, value) in &rows {
                let mut damaged = value.clone();
                // A hash of each row; the first leaf of each row.
                let at = if ways == 2 { damaged.len() - 1 } else { 3 };
                damaged[at] ^= 1;
                database.put(table, key, Some(&damaged));
            }
            is_damage(prove(None, outpoint), "at the tip");
            is_damage(prove(Some(tip.minus(3)), outpoint), "before");
            for (key, value) in &rows {
                database.put(table, key, Some(value));
            }
        }
        assert_clean(&database.index, "mended");
        prove(None, outpoint).unwrap();
    }
}
