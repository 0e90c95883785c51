//! Stores over the same records, and what must hold of them.

use std::sync::Arc;

use utxokeep_core::{
    Height, OutPoint,
    node::{
        CreateOptions, NodeError, NodeTx, SpendAndCreate, SpendFlags, SpendStatus, Stored, TxRecord,
    },
};
use utxokeep_kv::OpenMode;
use utxokeep_records::{MemoryRecords, ReadCell, RecordStore, Versions};
use utxokeep_txstore::{
    Fields, NodeStore, RecordContext, RecordFault, RecordFaults, RecordSettings, StoreError,
    StoreSettings, TxStore,
};

use crate::records::cut::Cut;

pub(crate) const AT: Height = Height::new(5);

/// Outputs in a record: few, so that transactions have pages.
pub(crate) const PER_RECORD: u32 = 3;

pub(crate) fn settings() -> RecordSettings {
    RecordSettings::default().with(|settings| {
        settings.shards = 4;
        settings.outputs_per_record = PER_RECORD;
        settings.call_deadline_ms = 1_000;
        settings.wait_ms_max = 3_000;
        settings.clock_refresh_ms = 0;
    })
}

/// A store over the records, as a program of its own.
pub(crate) fn open(records: &Arc<MemoryRecords>, seed: u64) -> NodeStore {
    try_open(Cut::never(records), seed, None).unwrap()
}

pub(crate) fn try_open(
    port: Arc<dyn RecordStore>,
    seed: u64,
    fault: Option<RecordFault>,
) -> Result<NodeStore, utxokeep_txstore::StoreOpenError> {
    let faults = RecordFaults::default();
    if let Some(fault) = fault {
        faults.plant(fault);
    }
    let context = RecordContext {
        versions: Arc::new(Versions::seeded(seed)),
        hostname: format!("host-{seed}"),
        process_id: u32::try_from(seed).unwrap(),
        faults,
    };
    NodeStore::on_records(port, StoreSettings::default(), settings(), context, OpenMode::Create)
}

/// Records with a store over them.
pub(crate) fn fresh(seed: u64) -> (Arc<MemoryRecords>, NodeStore) {
    let records = Arc::new(MemoryRecords::new());
    records.set_now_ms(1_000_000);
    let store = open(&records, seed);
    (records, store)
}

pub(crate) fn create(store: &NodeStore, tx: &NodeTx) -> Result<Result<(), NodeError>, StoreError> {
    let items = [(tx.clone(), CreateOptions::default())];
    store.create(&items, AT).map(|mut answers| answers.remove(0))
}

pub(crate) fn take(
    store: &NodeStore,
    tx: &NodeTx,
) -> Result<Result<Stored, NodeError>, StoreError> {
    let flags = SpendFlags::default();
    let how = SpendAndCreate { spend_only: false, create_only: false, flags };
    store.spend_and_create(tx, AT, how, &CreateOptions::default())
}

pub(crate) fn record(store: &NodeStore, tx: &NodeTx) -> Option<TxRecord> {
    let found = store.get(&[tx.txid], Fields::default()).unwrap().remove(0);
    found.map(|found| found.record)
}

pub(crate) fn status(store: &NodeStore, tx: &NodeTx, vout: u32) -> SpendStatus {
    let output = [(OutPoint::new(tx.txid, vout), None)];
    store.spend_views(&output, AT).unwrap().remove(0).unwrap().status
}

/// Status of every output, each once.
pub(crate) fn statuses(store: &NodeStore, tx: &NodeTx) -> Vec<SpendStatus> {
    let count = u32::try_from(tx.outputs.len()).unwrap();
    let mut found: Vec<_> = (0..count).map(|vout| status(store, tx, vout)).collect();
    found.dedup();
    found
}

/// Nothing is staged, pending, locked or marked, and recounting finds nothing wrong.
pub(crate) fn assert_settled(records: &MemoryRecords, store: &NodeStore) {
    // Aborted calls are remembered for a while, and locks held.
    records.advance_ms(2 * settings().aborted_ttl_ms);
    let keys = records.keys();
    for key in &keys {
        let cell = records.read(&[ReadCell::all(key.clone())]).unwrap().remove(0).unwrap();
        // A staging whose call was aborted by another is void, and goes with the next visit.
        if let Some(staging) = cell.get(b"s") {
            let status = [b"t".as_slice(), &staging[2..22]].concat();
            assert!(keys.iter().all(|key| key.name != status), "{key} is staged");
        }
        assert!(cell.get(b"g").is_none(), "{key} is marked");
        assert_ne!(key.name[0], b't', "{key} is left");
    }
    let report = store.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
