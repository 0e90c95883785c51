//! Numbers that all programs over a store have in common, changed at the worst moment; and the same
//! with the guard against it left out, which has to show.

use std::sync::Arc;

use utxokeep_core::{Txid, node::PruneRules};
use utxokeep_txstore::{Agreement, Fields, ProofFault, StoreError};

use super::{HEIGHT, faulty::Faulty, put, table, tx};

/// Somebody changes a number after the verdict over a parent and before the commit; answers whether
/// the parent is still there.
fn changed_after_the_verdict(fault: Option<ProofFault>, name: &'static str) -> bool {
    let kv = Faulty::new();
    let store = kv.store_with(fault);
    put(store.as_ref(), &tx(1, &[], 2), 10, true);
    put(store.as_ref(), &tx(2, &[(1, 0)], 1), 10, true);
    put(store.as_ref(), &tx(3, &[(2, 0)], 1), 10, true);
    let [grandparent, parent] = [1, 2].map(|name| Txid::from_bytes([name; 32]));
    let (records, other) = (table("tx_records"), Arc::downgrade(&store));
    let mut is_done = false;
    // Pruning the parent reads the grandparent after the verdict.
    kv.on_read(move |table, key| {
        if !is_done && table == records && key == grandparent.as_bytes() {
            is_done = true;
            let change = Agreement::Change { now_ms: 7 };
            other.upgrade().unwrap().agree(&[(name, 400)], change).unwrap().unwrap();
        }
    });
    let answer = store.prune(&[parent], &PruneRules::at(HEIGHT, 288));
    kv.heal_reads();
    let is_there = store.get(&[parent], Fields::default()).unwrap()[0].is_some();
    let is_refused = matches!(answer, Err(StoreError::Disagreement(found)) if found.name == name);
    assert_eq!(is_there, is_refused, "{name}: the answer is the truth");
    is_there
}

#[test]
fn a_number_changed_between_verdict_and_commit_and_nothing_goes_by_the_old_one() {
    for name in ["safety_window_blocks", "retention_blocks", "unmined_retention_blocks"] {
        assert!(changed_after_the_verdict(None, name), "{name}");
        // The same without the look at the commit: this test finds out.
        assert!(!changed_after_the_verdict(Some(ProofFault::AgreedNotKept), name), "{name}");
    }
}
