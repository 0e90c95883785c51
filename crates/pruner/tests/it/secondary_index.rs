//! On Aerospike records are found by height through a secondary index: without it nothing is pruned.

use std::{sync::Arc, thread::sleep, time::Duration};

use utxokeep_core::{
    Height,
    node::{CreateOptions, MinedBlock, Policy, SpendAndCreate, SpendFlags},
};
use utxokeep_kv::OpenMode;
use utxokeep_pruner::{JobState, Pruner, PrunerSettings};
use utxokeep_records::{AerospikeOptions, AerospikeRecords, testing::AerospikePlace};
use utxokeep_testkit::{
    pruner::{StillClock, reach},
    txstore::{seed, spending},
};
use utxokeep_txstore::{NodeStore, PruneStore, RecordContext, RecordSettings, StoreSettings};

const DUE: u32 = 1_000;

fn open(url: &str) -> NodeStore {
    let port = AerospikeRecords::open(AerospikeOptions::parse(url).unwrap()).unwrap();
    let policy = Policy { coinbase_maturity: 1, ..Policy::default() };
    let settings = StoreSettings::default().with(|settings| settings.policy = policy);
    let records = RecordSettings::default().with(|settings| settings.shards = 8);
    let (port, context) = (Arc::new(port), RecordContext::default());
    NodeStore::on_records(port, settings, records, context, OpenMode::Create).unwrap()
}

#[test]
fn no_run_prunes_before_the_secondary_index_is_ready_and_readiness_says_so() {
    let Some(place) = AerospikePlace::new_or_skip("retry_for_ms=300") else { return };
    let store: Arc<dyn PruneStore> = Arc::new(open(&place.url()));
    let parent = seed(1, &[5, 5]);
    let child = spending(2, &[(&parent, 0)], &[0]);
    for (tx, height) in [(&parent, 5), (&child, 10)] {
        let block = MinedBlock { id: height, height: Height::new(height), subtree: 0 };
        let options = CreateOptions { mined: vec![block], ..CreateOptions::default() };
        let how = SpendAndCreate {
            spend_only: false,
            create_only: tx.inputs.is_empty(),
            flags: SpendFlags::default(),
        };
        store.spend_and_create(tx, Height::new(height), how, &options).unwrap().unwrap();
    }
    reach(store.as_ref(), DUE);
    let clock = Arc::new(StillClock::default());
    let pruner = Pruner::new(Arc::clone(&store), clock, PrunerSettings::default()).unwrap();

    let (index, namespace) = place.index();
    let delete = format!("sindex-delete:namespace={namespace};indexname={index}");
    assert!(place.info(0, &delete).unwrap().eq_ignore_ascii_case("ok"));
    sleep(Duration::from_secs(2));
    let job = pruner.run_at(Height::new(DUE));
    let JobState::Failed { report, error } = &job.state else { panic!("it ran: {job:?}") };
    assert_eq!(report.deleted, 0, "{error}");
    assert!(error.contains("index"), "{error}");
    let health = pruner.health();
    assert!(!health.is_ready(), "{health:?}");

    // Whoever opens the store next makes the index, and waits for it.
    drop(open(&place.url()));
    let job = pruner.run_at(Height::new(DUE));
    let JobState::Completed(report) = &job.state else { panic!("it did not run: {job:?}") };
    assert_eq!(report.deleted, 1);
    assert!(pruner.health().is_ready());
}
