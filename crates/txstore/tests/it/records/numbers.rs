//! Numbers that all programs have in common are compared by every write, without a round of its own.

use std::sync::Arc;

use utxokeep_core::{
    Height, Txid,
    node::{CreateOptions, NodeOutput, NodeTx, Policy},
};
use utxokeep_kv::OpenMode;
use utxokeep_records::{MemoryRecords, RecordStore, bench::Recorder};
use utxokeep_txstore::{
    Agreement, NodeStore, PruneStore as _, RecordContext, RecordFault, RecordSettings, StoreError,
    StoreOpenError, StoreSettings, TxStore as _,
};

const AT: Height = Height::new(10);

fn open(port: Arc<dyn RecordStore>, retention_blocks: u32, agreement: Agreement) -> NodeStore {
    let context = RecordContext::default();
    try_open(port, retention_blocks, agreement, context).unwrap()
}

fn try_open(
    port: Arc<dyn RecordStore>,
    retention_blocks: u32,
    agreement: Agreement,
    context: RecordContext,
) -> Result<NodeStore, StoreOpenError> {
    let policy = Policy { retention_blocks, ..Policy::default() };
    let settings = StoreSettings::default().with(|settings| {
        settings.policy = policy;
        settings.agreement = agreement;
    });
    let records = RecordSettings::default().with(|settings| settings.shards = 4);
    NodeStore::on_records(port, settings, records, context, OpenMode::Create)
}

fn tx(number: u8) -> (NodeTx, CreateOptions) {
    let tx = NodeTx {
        txid: Txid::from_bytes([number; 32]),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: Vec::new(),
        outputs: vec![NodeOutput { satoshis: 5, script: vec![1] }],
    };
    (tx, CreateOptions { may_lack_previous: true, ..CreateOptions::default() })
}

/// Transactions in every shard.
fn create(store: &NodeStore, first: u8) -> Result<(), StoreError> {
    for shard in 0..4 {
        let made = store.create(&[tx(shard * 64 + first)], AT)?;
        assert!(made.iter().all(Result::is_ok), "{made:?}");
    }
    Ok(())
}

const CHANGE: Agreement = Agreement::Change { now_ms: 7 };

#[test]
fn a_program_that_has_the_old_numbers_writes_nothing_once_another_has_changed_them() {
    let port: Arc<dyn RecordStore> = Arc::new(MemoryRecords::new());
    let old = open(Arc::clone(&port), 288, Agreement::Compare);
    create(&old, 1).unwrap();
    let new = open(Arc::clone(&port), 1_000, CHANGE);
    for shard in 0..4 {
        let error = old.create(&[tx(shard * 64 + 2)], AT).unwrap_err();
        assert!(matches!(error, StoreError::Disagreement(_)), "{error}");
        assert!(error.to_string().contains("retention_blocks = 1000"), "{error}");
    }
    create(&new, 2).unwrap();
    // The new program vouches for its numbers by now; that must not help the old one.
    assert!(matches!(create(&old, 3), Err(StoreError::Disagreement(_))));
    old.agree(&[("retention_blocks", 288)], CHANGE).unwrap().unwrap();
    create(&old, 3).unwrap();
    assert!(matches!(create(&new, 4), Err(StoreError::Disagreement(_))));
}

/// The guard removed: stamps that vouch for the old numbers stay while these change.
#[test]
fn without_marks_a_program_that_has_the_old_numbers_writes_on() {
    let port: Arc<dyn RecordStore> = Arc::new(MemoryRecords::new());
    let old = open(Arc::clone(&port), 288, Agreement::Compare);
    create(&old, 1).unwrap();
    let context = RecordContext::default();
    context.faults.plant(RecordFault::NumbersNotMarked);
    try_open(port, 1_000, CHANGE, context).unwrap();
    create(&old, 2).unwrap();
}

#[test]
fn a_write_of_one_record_is_one_read_and_one_write() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryRecords::new())));
    let store = open(Arc::clone(&recorder) as Arc<dyn RecordStore>, 288, Agreement::Compare);
    create(&store, 1).unwrap();
    let (made, trace) = recorder.record(|| store.create(&[tx(2)], AT));
    made.unwrap()[0].clone().unwrap();
    let size = trace.size();
    assert_eq!((size.rounds, size.writes, size.barriers), (2, 1, 1), "{trace:?}");
    assert_eq!(size.reads, 2, "the record, and the stamp of its shard: {trace:?}");
}
