//! Bodies that the blob store does not take: their items are refused with a code of their own, nothing
//! of them is stored, and they can be repeated. A transaction of several records is locked before its
//! file is written.

use std::sync::{Arc, Mutex, atomic::Ordering};

use utxokeep_core::{
    Height,
    node::{CreateOptions, NodeError, NodeTx, SpendAndCreate, SpendFlags, SpendStatus, Stored},
};
use utxokeep_records::{MemoryRecords, RecordStore};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{Blobs, Fields, NodeStore, PruneStore as _, StoreSettings, TxStore};

use crate::{
    blob_races::Hooked,
    engines,
    records::{
        cut::{Cut, How},
        world,
    },
};

const AT: Height = Height::new(5);

fn settings() -> StoreSettings {
    StoreSettings::default().with(|settings| settings.inline_body_bytes_max = 100)
}

/// A body in a file, and several records where there are four outputs in one.
fn large(name: u8) -> NodeTx {
    seed(name, &[3; 40])
}

fn with_files(store: NodeStore) -> (NodeStore, Hooked) {
    let hooked = Hooked::default();
    let blobs = Blobs::on(Arc::new(hooked.clone()), 20_000).unwrap();
    (store.with_blobs(blobs), hooked)
}

fn create(store: &NodeStore, txs: &[&NodeTx]) -> Vec<Result<(), NodeError>> {
    let items: Vec<_> = txs.iter().map(|tx| ((*tx).clone(), CreateOptions::default())).collect();
    store.create(&items, AT).unwrap()
}

fn take(store: &NodeStore, tx: &NodeTx) -> Result<Stored, NodeError> {
    let flags = SpendFlags::default();
    let how = SpendAndCreate { spend_only: false, create_only: false, flags };
    store.spend_and_create(tx, AT, how, &CreateOptions::default()).unwrap()
}

fn body(store: &NodeStore, tx: &NodeTx) -> Option<NodeTx> {
    let found = store.get(&[tx.txid], Fields { body: true, slots: false }).unwrap().remove(0);
    found.and_then(|found| found.body)
}

/// Every engine, and records of four outputs in memory and on a cluster.
fn all() -> Vec<(&'static str, engines::Opened)> {
    let port: Arc<dyn RecordStore> = Arc::new(MemoryRecords::new());
    let store = engines::open_records(port, settings(), 4);
    let pages = ("record pages", engines::Opened { store, place: None });
    let cluster = engines::redis(settings()).map(|opened| ("redis", opened));
    engines::all(settings()).into_iter().chain([pages]).chain(cluster).collect()
}

/// K-blob-fail.
#[test]
fn a_body_that_the_blob_store_refuses_is_a_storage_error_and_can_be_repeated() {
    for (engine, opened) in all() {
        let (store, hooked) = with_files(opened.store);
        let (parent, small) = (seed(1, &[9, 9]), seed(2, &[1]));
        create(&store, &[&parent]).remove(0).unwrap();
        hooked.is_full.store(true, Ordering::Relaxed);
        let (one, other) = (large(3), large(4));
        let child = spending(5, &[(&parent, 0)], &[4; 40]);
        let refused = |answer: Option<NodeError>, tx: &NodeTx| {
            let error = answer.unwrap();
            assert!(matches!(&error, NodeError::Storage { txid, .. } if *txid == tx.txid));
            let text = error.to_string();
            assert!(text.contains("full") && text.contains("nothing was changed"), "{text}");
        };
        let mut answers = create(&store, &[&one, &small, &other]);
        refused(answers.pop().unwrap().err(), &other);
        assert_eq!(answers.pop().unwrap(), Ok(()), "{engine}: one without a file is stored");
        refused(answers.pop().unwrap().err(), &one);
        refused(take(&store, &child).err(), &child);
        for tx in [&one, &other, &child] {
            assert_eq!(body(&store, tx), None, "{engine}");
            assert_eq!(store.creation_lock(&tx.txid).unwrap(), None, "{engine}: released");
        }
        assert_eq!(world::status(&store, &parent, 0), SpendStatus::Ok, "{engine}");
        let report = store.verify().unwrap();
        assert!(report.is_clean() && report.transactions == 2, "{engine}: {report:?}");

        hooked.is_full.store(false, Ordering::Relaxed);
        let answers = create(&store, &[&one, &small, &other]);
        let exists = Err(NodeError::Exists(small.txid));
        assert_eq!(answers, [Ok(()), exists, Ok(())], "{engine}: repeated");
        take(&store, &child).unwrap();
        for tx in [&one, &other, &child] {
            assert_eq!(body(&store, tx).as_ref(), Some(tx), "{engine}");
        }
        store.delete_blobs(None, 100).unwrap();
        assert_eq!(store.blobs_waiting(10).unwrap(), 0, "{engine}");
        assert!(store.verify().unwrap().is_clean(), "{engine}: every file is there");
    }
}

#[test]
fn a_transaction_of_several_records_is_locked_before_its_file_is_written() {
    for (engine, opened) in
        all().into_iter().filter(|(engine, _)| ["record pages", "redis"].contains(engine))
    {
        let (store, hooked) = with_files(opened.store);
        let store = Arc::new(store);
        for tx in [large(1), spending(2, &[(&large(1), 0)], &[4; 40])] {
            let seen = Arc::new(Mutex::new(None));
            let hook = {
                let (store, tx, seen) = (Arc::clone(&store), tx.clone(), Arc::clone(&seen));
                move || {
                    let lock = store.creation_lock(&tx.txid).unwrap();
                    // Whoever comes meanwhile is told that it exists, and writes no file.
                    let second = create(&store, &[&tx]).remove(0);
                    *seen.lock().unwrap() = Some((lock, second));
                }
            };
            *hooked.next.lock().unwrap() = Some(Box::new(hook));
            if tx.inputs.is_empty() {
                create(&store, &[&tx]).remove(0).unwrap();
            } else {
                take(&store, &tx).unwrap();
            }
            let (lock, second) = seen.lock().unwrap().take().unwrap();
            assert_eq!(lock.map(|lock| lock.expected_recs), Some(10), "{engine}");
            assert_eq!(second, Err(NodeError::Exists(tx.txid)), "{engine}");
            assert_eq!(store.creation_lock(&tx.txid).unwrap(), None, "{engine}");
            assert_eq!(body(&store, &tx), Some(tx), "{engine}");
        }
        assert_eq!(store.blobs_waiting(10).unwrap(), 0, "{engine}");
    }
}

/// A creator that dies at any step, its file included: the next one stores the transaction with its
/// file, and what was left of the first is found and deleted.
#[test]
fn a_creator_that_dies_at_any_step_leaves_no_file_that_nobody_finds() {
    let tx = large(1);
    for writes in 0..300 {
        let (records, _) = world::fresh(1);
        let hooked = Hooked::default();
        let open = |port: Arc<dyn RecordStore>| {
            let blobs = Blobs::on(Arc::new(hooked.clone()), 20_000).unwrap();
            let store = engines::open_records_with(port, settings(), world::settings());
            store.map(|store| store.with_blobs(blobs))
        };
        let alive = open(Cut::never(&records)).unwrap();
        let port = Cut::new(&records, writes, How::Dies);
        let Ok(dying) = open(Arc::clone(&port) as Arc<dyn RecordStore>) else { continue };
        let items = [(tx.clone(), CreateOptions::default())];
        let answer = dying.create(&items, AT);
        if !port.is_over() {
            assert!(answer.unwrap().remove(0).is_ok() && writes > 20, "{writes} steps");
            return;
        }
        records.advance_ms(301_000);
        let stored = body(&alive, &tx).is_some();
        let again = create(&alive, &[&tx]).remove(0);
        assert_eq!(again.is_ok(), !stored, "step {writes}");
        assert_eq!(body(&alive, &tx), Some(tx.clone()), "step {writes}");
        alive.delete_blobs(None, 100).unwrap();
        assert_eq!(body(&alive, &tx), Some(tx.clone()), "step {writes}: its file stays");
        alive.end_unfinished(100).unwrap();
        assert_eq!(alive.delete(&[tx.txid]).unwrap(), 1);
        alive.delete_blobs(None, 100).unwrap();
        let files = alive.check_blobs(0, 0, false).unwrap().unwrap().files;
        assert_eq!(files, 0, "step {writes}: nothing is left");
    }
    panic!("a creation takes more than 300 steps");
}
