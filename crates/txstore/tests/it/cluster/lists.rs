//! Lists that are one commit, on a real cluster.

use utxokeep_core::node::{CreateOptions, NodeTx, SpendFlags, SpendStatus};
use utxokeep_records::testing::shared_url_or_skip;
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{NodeStore, RecordFaults, TxStore as _};

use super::{connect, open};
use crate::records::world::{AT, create, record, status};

fn take_list(store: &NodeStore, txs: [&NodeTx; 2]) -> bool {
    let list = txs.map(|tx| (tx.clone(), CreateOptions::default()));
    let answers = store.spend_and_create_list(&list, AT, SpendFlags::default()).unwrap().unwrap();
    answers.iter().all(Result::is_ok)
}

/// Several programs store the same list: the parent is re-created by the others in between.
#[test]
fn a_child_spends_from_a_further_record_of_its_parent_in_the_same_list() {
    let Some(url) = shared_url_or_skip("ack=replica") else { return };
    let faults = RecordFaults::default();
    let store = open(&connect(&url), &faults);
    for round in 0..5_u8 {
        let fund = seed(10 * round + 1, &[1_000]);
        create(&store, &fund).unwrap().unwrap();
        // Four outputs are in a record.
        let parent = spending(10 * round + 2, &[(&fund, 0)], &[9; 13]);
        let child = spending(10 * round + 3, &[(&parent, 4), (&parent, 12)], &[1]);
        let stored: Vec<bool> = std::thread::scope(|scope| {
            let act = |_| {
                let (url, faults, txs) = (&url, &faults, [&parent, &child]);
                scope.spawn(move || take_list(&open(&connect(url), faults), txs))
            };
            let callers: Vec<_> = (0..3).map(act).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert!(stored.iter().any(|is_stored| *is_stored), "round {round}: {stored:?}");
        let outputs = [0, 4, 12].map(|vout| status(&store, &parent, vout));
        assert_eq!(outputs, [SpendStatus::Ok, SpendStatus::Spent, SpendStatus::Spent]);
        assert!(!record(&store, &parent).unwrap().is_creating);
        assert!(record(&store, &child).is_some());
    }
    let report = store.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
