//! Every timeline and edge case of safe deletion, on records in memory.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{
    Corrupt,
    node::{
        BlobKind, BodyFiles, CreateOptions, HeightIndex, MinedBlock, MinedInfo, NodeInput,
        NodeOutput, NodeTx, OutputPage, OutputRecord, Policy, PreviousOutput, SpendAndCreate,
        SpendFlags,
    },
};

const WINDOW: u32 = 288;

const NO_RULE: &str = "no rule asks this";

/// Records in memory, changed by whole commits.
#[derive(Default)]
struct Shelf {
    records: BTreeMap<Txid, TxRecord>,
    slots: BTreeMap<OutPoint, OutputRecord>,
    bodies: BTreeMap<Txid, NodeTx>,
    markers: BTreeSet<(Txid, Txid)>,
}

impl NodeReads for Shelf {
    type Error = Corrupt;

    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, Corrupt> {
        Ok(txids.iter().map(|txid| self.records.get(txid).cloned()).collect())
    }

    fn outputs_at(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<OutputRecord>>, Corrupt> {
        Ok(outpoints.iter().map(|outpoint| self.slots.get(outpoint).copied()).collect())
    }

    fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, Corrupt> {
        Ok(txids.iter().map(|txid| self.bodies.get(txid).cloned()).collect())
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, Corrupt> {
        Ok(self.markers.contains(&(*parent, *child)))
    }

    fn deleted_children(&self, _: &Txid) -> Result<Vec<Txid>, Corrupt> {
        unreachable!("{NO_RULE}")
    }

    fn by_height(
        &self,
        _: HeightIndex,
        _: Height,
        _: Option<(Height, Txid)>,
        _: usize,
    ) -> Result<Vec<(Height, Txid)>, Corrupt> {
        unreachable!("{NO_RULE}")
    }

    fn is_indexed(&self, _: HeightIndex, _: Height, _: &Txid) -> Result<bool, Corrupt> {
        unreachable!("{NO_RULE}")
    }

    fn txids_after(&self, _: Option<&Txid>, _: usize) -> Result<Vec<Txid>, Corrupt> {
        unreachable!("{NO_RULE}")
    }

    fn outputs_after(&self, _: Option<&OutPoint>, _: usize) -> Result<OutputPage, Corrupt> {
        unreachable!("{NO_RULE}")
    }

    fn state(&self, _: &str) -> Result<Option<Vec<u8>>, Corrupt> {
        unreachable!("{NO_RULE}")
    }

    fn state_kept(&self, _: &str) -> Result<Option<Vec<u8>>, Corrupt> {
        unreachable!("{NO_RULE}")
    }

    fn states(
        &self,
        _: &str,
        _: Option<&str>,
        _: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Corrupt> {
        unreachable!("{NO_RULE}")
    }
}

/// Every body is beside its record.
struct NoFiles;

impl BodyFiles for NoFiles {
    type Error = Corrupt;

    fn read(&self, _: &Txid, _: BlobKind) -> Result<Vec<u8>, Corrupt> {
        unreachable!("no record names a file")
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

fn at(height: u32) -> Height {
    Height::new(height)
}

fn id(name: u8) -> Txid {
    Txid::from_bytes([name; 32])
}

/// A transaction with `outputs` outputs that spends outputs of others.
fn tx(name: u8, spends: &[(u8, u32)], outputs: u32) -> NodeTx {
    let input = |&(parent, vout): &(u8, u32)| NodeInput {
        outpoint: OutPoint::new(id(parent), vout),
        script: Vec::new(),
        sequence: 0,
        previous: Some(PreviousOutput { satoshis: 5, script: vec![0x51] }),
    };
    NodeTx {
        txid: id(name),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: spends.iter().map(input).collect(),
        outputs: (0..outputs).map(|_| NodeOutput { satoshis: 5, script: vec![0x51] }).collect(),
    }
}

impl Shelf {
    fn change<T>(&mut self, work: impl FnOnce(&mut Workspace<'_, Self>) -> T) -> T {
        let (answer, changes) = {
            let mut workspace = Workspace::new(self, &NoFiles, Policy::default());
            let answer = work(&mut workspace);
            (answer, workspace.into_changes())
        };
        for (txid, _, now) in changes.records {
            if now.is_none() {
                self.markers.retain(|(parent, _)| *parent != txid);
            }
            put(&mut self.records, txid, now);
        }
        for (outpoint, now) in changes.slots {
            put(&mut self.slots, outpoint, now);
        }
        for (txid, now) in changes.bodies {
            put(&mut self.bodies, txid, now);
        }
        self.markers.extend(changes.markers);
        for pair in &changes.unmarked {
            self.markers.remove(pair);
        }
        answer
    }

    /// Stores a transaction and spends its inputs; in a block if `mined` says so.
    fn store(&mut self, tx: &NodeTx, height: u32, mined: Option<u32>) {
        let block = |height| MinedBlock { id: height, height: at(height), subtree: 0 };
        let mined = mined.map(block).into_iter().collect();
        let options = CreateOptions { mined, ..CreateOptions::default() };
        let (spend_only, create_only) = (false, tx.inputs.is_empty());
        let how = SpendAndCreate { spend_only, create_only, flags: SpendFlags::default() };
        self.change(|w| w.spend_and_create(tx, at(height), how, &options)).unwrap().unwrap();
    }

    fn mine(&mut self, name: u8, height: u32, unset: bool) {
        let info = MinedInfo {
            block: MinedBlock { id: height, height: at(height), subtree: 0 },
            on_longest_chain: true,
            unset,
            unmined_since: at(height),
        };
        self.change(|w| w.set_mined(&id(name), &info)).unwrap().unwrap();
    }

    fn spends(&self) -> Spends {
        let of = |body: &NodeTx| body.spends().map(|input| input.outpoint).collect();
        self.bodies.iter().map(|(txid, body)| (*txid, of(body))).collect()
    }

    fn prune_by(&mut self, names: &[u8], rules: &PruneRules) -> Vec<Pruned> {
        let txids: Vec<Txid> = names.iter().map(|name| id(*name)).collect();
        let spends = self.spends();
        self.change(|w| w.prune(&txids, &spends, rules)).unwrap()
    }

    /// Why a record was kept at a height, if it was.
    fn prune(&mut self, name: u8, height: u32) -> Option<KeepReason> {
        match self.prune_by(&[name], &PruneRules::at(at(height), WINDOW)).remove(0) {
            Pruned::Deleted { .. } => {
                assert!(!self.records.contains_key(&id(name)));
                assert!(self.slots.keys().all(|outpoint| *outpoint.txid() != id(name)));
                assert!(!self.bodies.contains_key(&id(name)));
                None
            }
            Pruned::Kept { reason, .. } => {
                assert!(reason == KeepReason::Missing || self.records.contains_key(&id(name)));
                Some(reason)
            }
        }
    }

    fn explain(&mut self, name: u8, height: u32) -> Vec<(KeepReason, Option<u32>)> {
        let spends = self.spends();
        let rules = PruneRules::at(at(height), WINDOW);
        let found = self.change(|w| w.explain(&id(name), &spends, &rules)).unwrap();
        found.iter().map(|b| (b.reason, b.until.map(Height::get))).collect()
    }
}

/// A parent of block 900 whose outputs are spent at 1000, one child each, unmined.
fn family(children: u8) -> Shelf {
    let mut shelf = Shelf::default();
    shelf.store(&tx(1, &[], u32::from(children)), 900, Some(900));
    for child in 0..children {
        shelf.store(&tx(10 + child, &[(1, u32::from(child))], 1), 1_000, None);
    }
    assert_eq!(shelf.records[&id(1)].delete_at, Some(at(1_288)));
    shelf
}

use KeepReason::{
    BodyMissing, ChildMissing, ChildUnknown, ChildUnmined, ChildYoung, Locked, Missing, NotDue,
    OutputUnspent, Preserved, Unmined,
};

/// The timeline of heights 1000, 1288 and 1289.
#[test]
fn a_parent_goes_a_whole_window_after_its_child_was_mined() {
    let mut shelf = family(1);
    shelf.mine(10, 1_001, false);
    assert_eq!(shelf.prune(1, 1_287), Some(NotDue));
    assert_eq!(shelf.prune(1, 1_288), Some(ChildYoung), "a difference of 287 keeps");
    assert_eq!(shelf.explain(1, 1_288), [(ChildYoung, Some(1_289))]);
    assert_eq!(shelf.prune(1, 1_289), None, "a difference of 288 deletes");
    assert_eq!(shelf.prune(1, 1_289), Some(Missing), "the second time nothing is there");
}

/// Scenario A.
#[test]
fn a_parent_stays_while_its_child_waits_in_block_assembly() {
    let mut shelf = family(1);
    for (height, kept) in [(1_200, NotDue), (1_288, ChildUnmined), (1_300, ChildUnmined)] {
        assert_eq!(shelf.prune(1, height), Some(kept));
    }
}

/// Scenario B.
#[test]
fn a_parent_stays_when_its_child_leaves_the_chain_after_the_retention() {
    let mut shelf = family(1);
    shelf.mine(10, 1_100, false);
    assert_eq!(shelf.prune(1, 1_288), Some(ChildYoung));
    shelf.mine(10, 1_100, true);
    assert_eq!(shelf.prune(1, 1_300), Some(ChildUnmined), "the child can be validated again");
}

/// Edge case 1.
#[test]
fn a_child_that_is_never_mined_keeps_its_parent_for_ever() {
    let mut shelf = family(1);
    for height in [1_288, 1_500, 2_000, u32::MAX] {
        assert_eq!(shelf.prune(1, height), Some(ChildUnmined));
    }
    assert_eq!(shelf.explain(1, 2_000), [(ChildUnmined, None)]);
}

/// Edge case 2.
#[test]
fn a_child_that_is_mined_late_starts_the_window_then() {
    let mut shelf = family(1);
    assert_eq!(shelf.prune(1, 1_288), Some(ChildUnmined));
    shelf.mine(10, 1_500, false);
    assert_eq!(shelf.prune(1, 1_787), Some(ChildYoung));
    assert_eq!(shelf.prune(1, 1_788), None);
}

/// Edge case 3.
#[test]
fn a_child_that_is_mined_again_starts_the_window_anew() {
    let mut shelf = family(1);
    shelf.mine(10, 1_100, false);
    shelf.mine(10, 1_100, true);
    assert_eq!(shelf.prune(1, 1_288), Some(ChildUnmined));
    shelf.mine(10, 1_300, false);
    assert_eq!(shelf.prune(1, 1_587), Some(ChildYoung));
    assert_eq!(shelf.prune(1, 1_588), None);
}

/// Edge case 4.
#[test]
fn a_parent_is_safe_also_when_nothing_was_preserved_before_a_restart() {
    let mut shelf = family(1);
    // Nothing was preserved before the shutdown at 1400; the first thing after it is a deletion.
    assert_eq!(shelf.records[&id(1)].preserve_until, None);
    assert_eq!(shelf.prune(1, 1_500), Some(ChildUnmined));
}

#[test]
fn every_child_is_looked_at_not_only_the_last() {
    let mut shelf = Shelf::default();
    shelf.store(&tx(1, &[], 2), 90, Some(90));
    shelf.store(&tx(10, &[(1, 0)], 1), 100, Some(100));
    shelf.store(&tx(11, &[(1, 1)], 1), 200, Some(200));
    shelf.mine(10, 100, true);
    assert_eq!(shelf.prune(1, 488), Some(ChildUnmined), "A is off the chain, B is stable");
    shelf.mine(10, 300, false);
    assert_eq!(shelf.prune(1, 500), Some(ChildYoung));
    assert_eq!(shelf.prune(1, 588), None);
}

#[test]
fn a_child_in_two_blocks_counts_from_the_higher() {
    let mut shelf = family(1);
    shelf.mine(10, 1_001, false);
    shelf.mine(10, 1_200, false);
    assert_eq!(shelf.prune(1, 1_289), Some(ChildYoung));
    assert_eq!(shelf.prune(1, 1_488), None);
}

#[test]
fn a_missing_child_keeps_its_parent_unless_a_marker_proves_its_deletion() {
    let mut shelf = family(2);
    for child in [10, 11] {
        shelf.mine(child, 1_001, false);
    }
    shelf.change(|w| w.delete(&id(10))).unwrap();
    assert_eq!(shelf.prune(1, 3_000), Some(ChildMissing));
    shelf.markers.insert((id(1), id(10)));
    shelf.records.get_mut(&id(1)).unwrap().deleted_children = 1;
    assert_eq!(shelf.prune(1, 3_000), None, "the marker proves it");
}

#[test]
fn a_conflicting_record_goes_though_unspent_unless_a_live_child_needs_it() {
    let mut shelf = Shelf::default();
    shelf.store(&tx(1, &[], 1), 10, Some(10));
    shelf.store(&tx(2, &[(1, 0)], 2), 20, None);
    shelf.store(&tx(3, &[(2, 0)], 1), 20, None);
    shelf.change(|w| w.set_conflicting(&id(2), true, at(30))).unwrap().unwrap();
    assert_eq!(shelf.prune(2, 400), Some(ChildUnmined), "3 is alive and names it");
    shelf.change(|w| w.set_conflicting(&id(3), true, at(30))).unwrap().unwrap();
    assert_eq!(shelf.records[&id(1)].conflicting_children, [id(2)]);
    assert_eq!(shelf.prune(2, 400), None);
    assert!(shelf.markers.is_empty(), "it was never mined");
    assert_eq!(shelf.records[&id(1)].conflicting_children, []);
}

#[test]
fn preserved_locked_unmined_unspent_and_miscounted_records_stay() {
    let mut shelf = family(1);
    shelf.mine(10, 1_001, false);
    let fine = shelf.records[&id(1)].clone();
    let mut kept = |change: &dyn Fn(&mut TxRecord)| {
        let mut record = fine.clone();
        change(&mut record);
        shelf.records.insert(id(1), record);
        shelf.prune(1, 2_000)
    };
    assert_eq!(kept(&|r| r.preserve_until = Some(at(1))), Some(Preserved), "due or not");
    assert_eq!(kept(&|r| r.is_locked = true), Some(Locked));
    assert_eq!(kept(&|r| r.unmined_since = Some(at(5))), Some(Unmined));
    assert_eq!(kept(&|r| r.spent = 0), Some(OutputUnspent));
    assert_eq!(kept(&|r| r.delete_at = None), Some(NotDue));
    shelf.records.insert(id(1), fine);
    let outpoint = OutPoint::new(id(1), 0);
    let slot = shelf.slots[&outpoint];
    shelf.slots.insert(outpoint, OutputRecord::new(slot.hash));
    assert_eq!(shelf.prune(1, 2_000), Some(OutputUnspent), "the record says spent, it is not");
}

#[test]
fn what_contradicts_itself_or_cannot_be_read_keeps() {
    let mut shelf = family(1);
    shelf.mine(10, 1_001, false);
    shelf.records.get_mut(&id(10)).unwrap().blocks.clear();
    assert_eq!(shelf.prune(1, 2_000), Some(ChildUnknown));
    shelf.mine(10, 1_001, false);
    let body = shelf.bodies.remove(&id(1)).unwrap();
    assert_eq!(shelf.prune(1, 2_000), Some(BodyMissing), "no parents, no markers");
    shelf.bodies.insert(id(1), body);
    assert_eq!(shelf.prune(1, 2_000), None);
}

/// 1 has a live output, 2 spends it at 1, 3 spends all of 2; everything is mined at 10.
fn grandchild() -> Shelf {
    let mut shelf = Shelf::default();
    shelf.store(&tx(1, &[], 2), 10, Some(10));
    shelf.store(&tx(2, &[(1, 1)], 1), 10, Some(10));
    shelf.store(&tx(3, &[(2, 0)], 1), 10, Some(10));
    shelf
}

#[test]
fn only_the_spender_leaves_a_marker_and_only_with_a_parent_that_stays() {
    let mut shelf = grandchild();
    assert_eq!(shelf.prune(2, 300), None);
    assert_eq!(shelf.markers, BTreeSet::from([(id(1), id(2))]));
    assert_eq!(shelf.records[&id(1)].deleted_children, 1);
    // A parent that goes in the same pass gets none, and a parent that is gone is not made anew.
    shelf.store(&tx(4, &[(1, 0)], 1), 20, Some(20));
    shelf.store(&tx(5, &[(4, 0)], 1), 20, Some(20));
    let rules = PruneRules::at(at(400), WINDOW);
    let both = shelf.prune_by(&[1, 4], &rules);
    assert!(both.iter().all(|one| matches!(one, Pruned::Deleted { parents_marked: 0, .. })));
    assert!(shelf.markers.is_empty() && !shelf.records.contains_key(&id(1)));
    // Of two that name the same output only the one that spends it leaves a marker.
    let mut shelf = grandchild();
    let mut rival = tx(6, &[(1, 1)], 1);
    rival.outputs[0] = NodeOutput { satoshis: 0, script: vec![0x6a] };
    let block = MinedBlock { id: 1, height: at(10), subtree: 0 };
    let options = CreateOptions { mined: vec![block], ..CreateOptions::default() };
    shelf.change(|w| w.create(&rival, at(10), &options)).unwrap().unwrap();
    assert_eq!(shelf.prune(6, 300), None);
    assert!(shelf.markers.is_empty(), "2 is the spender, not 6");
}

#[test]
fn a_child_that_was_pruned_is_refused_when_it_comes_again() {
    let mut shelf = grandchild();
    assert_eq!(shelf.prune(2, 300), None);
    let how =
        SpendAndCreate { spend_only: false, create_only: false, flags: SpendFlags::default() };
    let again = tx(2, &[(1, 1)], 1);
    let answer =
        shelf.change(|w| w.spend_and_create(&again, at(301), how, &CreateOptions::default()));
    assert!(answer.unwrap().is_err());
}

#[test]
fn explain_names_everything_and_agrees_with_the_verdict() {
    let mut shelf = family(2);
    shelf.mine(10, 1_200, false);
    assert_eq!(
        shelf.explain(1, 1_000),
        [(NotDue, Some(1_288)), (ChildYoung, Some(1_488)), (ChildUnmined, None)]
    );
    shelf.change(|w| w.preserve(&id(1), at(2_000))).unwrap();
    assert_eq!(
        shelf.explain(1, 1_300),
        [(Preserved, Some(2_288)), (ChildYoung, Some(1_488)), (ChildUnmined, None)]
    );
    assert_eq!(shelf.explain(10, 1_300), [(OutputUnspent, None)]);
    assert_eq!(shelf.explain(99, 1_300), [(Missing, None)]);
    let mut names: Vec<_> = KeepReason::ALL.iter().map(|reason| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KeepReason::ALL.len(), "names are unique");
}

#[test]
fn undo_brings_back_all_of_it_and_takes_markers_away() {
    let mut shelf = grandchild();
    let before = (shelf.records.clone(), shelf.slots.clone(), shelf.bodies.clone());
    let rules = PruneRules::at(at(300), WINDOW).with_undo();
    let mut pruned = shelf.prune_by(&[2], &rules);
    let Pruned::Deleted { undo: Some(undo), parents_marked: 1, .. } = pruned.remove(0) else {
        panic!("it goes, with an undo");
    };
    let bytes = undo.encode();
    assert_eq!(Undo::decode(id(2), &bytes).as_ref(), Ok(undo.as_ref()));
    for cut in 0..bytes.len() {
        assert!(Undo::decode(id(2), &bytes[..cut]).is_err());
    }
    assert!(shelf.change(|w| w.restore(&id(2), &undo, at(500))).unwrap().unwrap());
    assert!(!shelf.change(|w| w.restore(&id(2), &undo, at(500))).unwrap().unwrap(), "it is there");
    let restored = shelf.records.get_mut(&id(2)).unwrap();
    assert_eq!((restored.delete_at, restored.preserve_until), (None, Some(at(500))));
    (restored.delete_at, restored.preserve_until) = (Some(at(298)), None);
    assert_eq!((shelf.records, shelf.slots, shelf.bodies), before);
    assert!(shelf.markers.is_empty());
}

#[test]
fn undo_of_a_parent_remembers_children_that_went_after_it() {
    let mut shelf = grandchild();
    shelf.store(&tx(4, &[(3, 0)], 1), 10, Some(10));
    let rules = PruneRules::at(at(300), WINDOW).with_undo();
    let Pruned::Deleted { undo: Some(undo), .. } = shelf.prune_by(&[2], &rules).remove(0) else {
        panic!("it goes, with an undo");
    };
    assert_eq!(shelf.prune(3, 300), None);
    assert!(shelf.change(|w| w.restore(&id(2), &undo, at(500))).unwrap().unwrap());
    assert!(shelf.markers.contains(&(id(2), id(3))), "3 must not come back as new");
    assert_eq!(shelf.records[&id(2)].deleted_children, 1);
}

#[test]
fn every_check_that_is_left_out_lets_something_wrong_go() {
    for check in Check::ALL {
        let mut shelf = family(1);
        shelf.mine(10, 1_001, false);
        let (parent, child) = (id(1), id(10));
        let mut height = 2_000;
        match check {
            Check::Due => height = 1_287 + 2,
            Check::Preserved => {
                shelf.change(|w| w.preserve(&parent, at(9_000))).unwrap();
            }
            Check::Eligible => shelf.mine(1, 900, true),
            Check::Outputs => {
                let slot = shelf.slots[&OutPoint::new(parent, 0)];
                shelf.slots.insert(OutPoint::new(parent, 0), OutputRecord::new(slot.hash));
            }
            Check::ChildUnmined => shelf.mine(10, 1_001, true),
            Check::ChildStable => height = 1_288,
            Check::ChildMissing => drop(shelf.change(|w| w.delete(&child))),
            Check::Marker => {
                let mut shelf = grandchild();
                let rules = PruneRules::at(at(300), WINDOW).unsafe_without(check);
                shelf.prune_by(&[2], &rules);
                assert!(shelf.markers.is_empty());
                continue;
            }
        }
        if check == Check::Due {
            shelf.records.get_mut(&parent).unwrap().delete_at = Some(at(5_000));
        }
        assert!(shelf.prune(1, height).is_some(), "{check:?} keeps");
        let rules = PruneRules::at(at(height), WINDOW).unsafe_without(check);
        let pruned = shelf.prune_by(&[1], &rules).remove(0);
        assert!(matches!(pruned, Pruned::Deleted { .. }), "{check:?} alone kept it: {pruned:?}");
    }
}
