//! Bodies in files, on every engine: named after their kind, read back as they were, and a file
//! that cannot be written or is gone is a typed error.

use std::{collections::BTreeSet, fs, path::Path};

use utxokeep_core::{
    Height, OutPoint,
    node::{
        BlobKind, CreateOptions, NodeError, NodeTx, SpendAndCreate, SpendFlags, SpendStatus, Stored,
    },
};
use utxokeep_kv::{Durability, OpenMode};
use utxokeep_testkit::{
    pruner::reach,
    txstore::{coinbase, seed, spending},
};
use utxokeep_txstore::{
    Amount, Blobs, Fields, NodeStore, PruneStore, StoreError, StoreSettings, StoredTx, TxStore,
};

use crate::engines;

const AT: Height = Height::new(5);

/// Every body of more than a few outputs goes to a file.
fn settings() -> StoreSettings {
    StoreSettings::default().with(|settings| settings.inline_body_bytes_max = 100)
}

fn large(name: u8) -> NodeTx {
    seed(name, &[3; 40])
}

fn with_files(store: NodeStore, dir: &Path) -> NodeStore {
    let url = format!("file:{}", dir.display());
    store.with_blobs(Blobs::open(&url, Durability::Buffered, 5_000, OpenMode::Create).unwrap())
}

fn create(store: &dyn TxStore, tx: &NodeTx) -> Result<Result<(), NodeError>, StoreError> {
    let items = [(tx.clone(), CreateOptions::default())];
    store.create(&items, AT).map(|mut answers| answers.remove(0))
}

fn sac(store: &dyn TxStore, tx: &NodeTx) -> Result<Result<Stored, NodeError>, StoreError> {
    let flags = SpendFlags::default();
    let how = SpendAndCreate { spend_only: false, create_only: false, flags };
    store.spend_and_create(tx, AT, how, &CreateOptions::default())
}

fn get(store: &dyn TxStore, tx: &NodeTx) -> Result<Option<StoredTx>, StoreError> {
    let fields = Fields { body: true, slots: true };
    store.get(&[tx.txid], fields).map(|mut found| found.remove(0))
}

fn status(store: &dyn TxStore, tx: &NodeTx) -> SpendStatus {
    let output = [(OutPoint::new(tx.txid, 0), None)];
    store.spend_views(&output, AT).unwrap().remove(0).unwrap().status
}

/// Names of the files below a directory.
fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.sort_unstable();
    found
}

/// A directory that is not mounted any more looks like an empty one: what is written there is gone
/// when the real one comes back.
#[test]
fn a_directory_that_is_moved_away_takes_no_bodies_until_it_is_back() {
    for (engine, opened) in engines::all(settings()) {
        let root = tempfile::tempdir().unwrap();
        let (place, away) = (root.path().join("place"), root.path().join("away"));
        let store = with_files(opened.store, &place);
        store.claim_blobs(false).unwrap().unwrap();
        let (first, second) = (large(1), large(2));
        create(&store, &first).unwrap().unwrap();
        assert!(store.trouble().is_none(), "{engine}");
        fs::rename(&place, &away).unwrap();
        for is_there in [false, true] {
            if is_there {
                // Somebody made the directory, without what belongs into it.
                fs::create_dir(&place).unwrap();
            }
            let refused = create(&store, &second).unwrap().unwrap_err();
            let text = refused.to_string();
            for part in ["utxokeep-blob-store", "put it back", "nothing was changed"] {
                assert!(text.contains(part), "{engine}: {text}");
            }
            assert!(matches!(refused, NodeError::Storage { .. }), "{engine}");
            assert_eq!(place.exists(), is_there, "{engine}: it is not made anew");
            assert!(get(&store, &second).unwrap().is_none(), "{engine}");
            assert!(store.trouble().unwrap().reason.contains("put it back"), "{engine}");
            create(&store, &seed(if is_there { 7 } else { 8 }, &[1])).unwrap().unwrap();
        }
        assert!(files(&place).is_empty(), "{engine}");
        // What waits for its deletion waits on: it is not gone.
        assert_eq!(store.delete(&[first.txid]).unwrap(), 1, "{engine}");
        assert_eq!(store.delete_blobs(None, 9).unwrap().missing, 0, "{engine}");
        fs::remove_dir(&place).unwrap();
        fs::rename(&away, &place).unwrap();
        assert!(store.trouble().is_none(), "{engine}");
        create(&store, &second).unwrap().unwrap();
        assert!(get(&store, &second).unwrap().is_some(), "{engine}");
        assert_eq!(store.delete_blobs(None, 9).unwrap().deleted, 1, "{engine}");
    }
}

/// What gauges show, on every engine; the work for it is bounded, which `sample.rs` is about.
#[test]
fn a_store_says_about_how_much_it_holds() {
    for (engine, opened) in engines::all(settings()) {
        let dir = tempfile::tempdir().unwrap();
        let store = with_files(opened.store, dir.path());
        let sample = || store.sample().unwrap().unwrap();
        let exact = |count| Amount { count, is_exact: true };
        let before = sample();
        assert_eq!((before.records, before.due, before.files), (exact(0), exact(0), exact(0)));
        let (parent, child) = (large(1), spending(2, &[(&seed(3, &[9]), 0)], &[4]));
        for tx in [&parent, &child, &seed(3, &[9])] {
            create(&store, tx).unwrap().unwrap();
        }
        let sampled = sample();
        assert_eq!((sampled.records, sampled.files), (exact(3), exact(1)), "{engine}");
        assert!(sampled.bytes.unwrap() > 0, "{engine}");
        // Conflicting, and so due after the retention.
        store.set_conflicting(&[child.txid], true, AT).unwrap().remove(0).unwrap();
        for (height, due) in [(AT.plus(287), 0), (AT.plus(288), 1)] {
            reach(&store, height.get());
            assert_eq!(sample().due, exact(due), "{engine}");
        }
    }
}

#[test]
fn bodies_come_back_from_files_that_are_named_after_their_kind() {
    for (engine, opened) in engines::all(settings()) {
        let dir = tempfile::tempdir().unwrap();
        let store = with_files(opened.store, dir.path());
        let parent = large(1);
        create(&store, &parent).unwrap().unwrap();
        let child = spending(2, &[(&parent, 0), (&parent, 7)], &[4; 40]);
        sac(&store, &child).unwrap().unwrap();
        let mut bare = spending(3, &[(&parent, 1)], &[4; 40]);
        bare.inputs[0].previous = None;
        let options = CreateOptions { may_lack_previous: true, ..CreateOptions::default() };
        store.create(&[(bare.clone(), options)], AT).unwrap().remove(0).unwrap();
        let coin = coinbase(4, &[5; 40]);
        create(&store, &coin).unwrap().unwrap();
        let small = seed(5, &[1]);
        create(&store, &small).unwrap().unwrap();
        for (tx, blob) in [
            (&parent, Some(BlobKind::Outputs)),
            (&child, Some(BlobKind::Tx)),
            (&bare, Some(BlobKind::Tx)),
            (&coin, Some(BlobKind::Tx)),
            (&small, None),
        ] {
            let stored = get(&store, tx).unwrap().unwrap();
            assert_eq!((stored.record.blob, stored.body.as_ref()), (blob, Some(tx)), "{engine}");
        }
        let name = |tx: &NodeTx, kind| format!("{}.{kind}", tx.txid.to_reversed_hex());
        let mut expected = vec![
            name(&parent, "outputs"),
            name(&child, "tx"),
            name(&bare, "tx"),
            name(&coin, "tx"),
        ];
        expected.sort_unstable();
        assert_eq!(files(dir.path()), expected, "{engine}");
        assert_eq!(status(&store, &parent), SpendStatus::Spent, "{engine}");
        assert!(store.verify().unwrap().is_clean(), "{engine}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    for (engine, opened) in engines::all(settings()) {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("blobs");
        let store = with_files(opened.store, &place);
        let parent = seed(1, &[5, 5]);
        create(&store, &parent).unwrap().unwrap();
        // Where the directory was, there is a file now.
        fs::remove_dir_all(&place).unwrap();
        fs::write(&place, "in the way").unwrap();

        let child = spending(2, &[(&parent, 0)], &[4; 40]);
        let small = spending(4, &[(&parent, 1)], &[1]);
        let grandchild = spending(5, &[(&child, 0)], &[1]);
        let list = [&small, &child, &grandchild].map(|tx| (tx.clone(), CreateOptions::default()));
        let answers = store.spend_and_create_list(&list, AT, SpendFlags::default());
        let mut answers = answers.unwrap().unwrap();
        assert_eq!(answers.pop().unwrap(), Err(NodeError::ParentFailed(child.txid)), "{engine}");
        for error in [
            create(&store, &large(3)).unwrap().unwrap_err(),
            sac(&store, &child).unwrap().unwrap_err(),
            answers.pop().unwrap().unwrap_err(),
        ] {
            assert!(matches!(error, NodeError::Storage { .. }), "{engine}: {error:?}");
            assert!(error.to_string().contains("nothing was changed"), "{engine}: {error}");
        }
        assert!(answers.pop().unwrap().is_ok(), "{engine}: one that needs no file is stored");
        for tx in [&large(3), &child, &grandchild] {
            assert_eq!(get(&store, tx).unwrap(), None, "{engine}");
            assert_eq!(status(&store, tx), SpendStatus::NotFound, "{engine}");
        }
        assert_eq!(status(&store, &parent), SpendStatus::Ok, "{engine}: no parent names it");
        let unmined = store.unmined(Height::new(1_000), None, 10).unwrap();
        let stored = BTreeSet::from([(AT, parent.txid), (AT, small.txid)]);
        assert_eq!(BTreeSet::from_iter(unmined), stored, "{engine}: no index has it");
        assert!(store.verify().unwrap().is_clean(), "{engine}");

        fs::remove_file(&place).unwrap();
        sac(&store, &child).unwrap().unwrap();
        assert_eq!(get(&store, &child).unwrap().unwrap().body, Some(child), "{engine}");
    }
}

#[test]
fn a_file_that_is_gone_or_damaged_is_an_error() {
    for (engine, opened) in engines::all(settings()) {
        let dir = tempfile::tempdir().unwrap();
        let store = with_files(opened.store, dir.path());
        let tx = large(1);
        create(&store, &tx).unwrap().unwrap();
        let name = tx.txid.to_reversed_hex();
        let file = dir.path().join(&name[..2]).join(format!("{name}.outputs"));
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let error = get(&store, &tx).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{engine}: {error:?}");
        fs::remove_file(&file).unwrap();
        let error = get(&store, &tx).unwrap_err();
        assert!(
            matches!(error, StoreError::BlobMissing(id) if id == tx.txid),
            "{engine}: {error:?}"
        );
        let report = store.verify().unwrap();
        assert!(!report.is_clean(), "{engine}: it is found");
        let detail = &report.findings[0].detail;
        assert!(detail.contains("is missing") && !detail.contains("tx verify"), "{detail}");
        // Spending needs no body.
        let spend = spending(2, &[(&tx, 0)], &[1]);
        sac(&store, &spend).unwrap().unwrap();
        // Deleting neither: what is left to do for the file is nothing.
        assert_eq!(store.delete(&[tx.txid]).unwrap(), 1, "{engine}");
        assert_eq!(get(&store, &tx).unwrap(), None, "{engine}");
    }
}

#[test]
fn an_amount_or_script_that_was_changed_in_a_file_is_found_and_never_served() {
    for (engine, opened) in engines::all(settings()) {
        let dir = tempfile::tempdir().unwrap();
        let store = with_files(opened.store, dir.path());
        let tx = large(1);
        create(&store, &tx).unwrap().unwrap();
        assert!(store.verify().unwrap().is_clean(), "{engine}");
        let name = tx.txid.to_reversed_hex();
        let file = dir.path().join(&name[..2]).join(format!("{name}.outputs"));
        let bytes = fs::read(&file).unwrap();
        let mut unread = 0;
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            fs::write(&file, &flipped).unwrap();
            // Version and lock time of a transaction are in no output.
            unread += u32::from(store.verify().unwrap().is_clean());
            if let Ok(found) = get(&store, &tx) {
                let outputs = found.unwrap().body.unwrap().outputs;
                assert_eq!(outputs, tx.outputs, "{engine}: byte {at} is served");
            }
        }
        assert!(unread <= 16, "{engine}: {unread} of {} flips pass", bytes.len());
        fs::write(&file, &bytes).unwrap();
        assert!(store.verify().unwrap().is_clean(), "{engine}");
    }
}

#[test]
fn a_body_in_a_file_needs_a_blob_store() {
    let dir = tempfile::tempdir().unwrap();
    let (files_in, db) = (dir.path().join("blobs"), dir.path().join("db"));
    let tx = large(1);
    let store = engines::open_rocksdb(&db, settings(), Durability::Buffered);
    let store = with_files(store, &files_in);
    create(&store, &tx).unwrap().unwrap();
    drop(store);
    let store = engines::open_rocksdb(&db, settings(), Durability::Buffered);
    let error = get(&store, &tx).unwrap_err();
    assert!(matches!(error, StoreError::NoBlobStore(id) if id == tx.txid), "{error:?}");
    assert!(error.to_string().contains("[txstore] blobs"), "{error}");
}
