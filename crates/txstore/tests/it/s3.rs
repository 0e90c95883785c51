//! Large bodies in a bucket, on every engine. Runs where `UTXOKEEP_TEST_S3_URL` names one
//! (`s3://BUCKET/PREFIX`, with `AWS_ENDPOINT`, `AWS_ALLOW_HTTP` and credentials beside it); its prefix
//! must be empty.

use std::net::TcpListener;

use object_store::{aws::AmazonS3Builder, prefix::PrefixStore};
use utxokeep_core::{
    Height,
    node::{CreateOptions, NodeError, NodeTx},
};
use utxokeep_kv::{Durability, OpenMode};
use utxokeep_testkit::txstore::seed;
use utxokeep_txstore::{
    Blobs, Fields, NodeStore, PruneStore as _, StoreError, StoreSettings, TxStore, WrongBlobStore,
};

use crate::engines;

const AT: Height = Height::new(5);

fn url() -> Option<String> {
    let url = std::env::var("UTXOKEEP_TEST_S3_URL").ok();
    if url.is_none() {
        eprintln!("skipped: UTXOKEEP_TEST_S3_URL is not set");
    }
    url
}

fn settings() -> StoreSettings {
    StoreSettings::default().with(|settings| settings.inline_body_bytes_max = 100)
}

fn large(name: u8) -> NodeTx {
    seed(name, &[3; 40])
}

fn create(store: &NodeStore, tx: &NodeTx) -> Result<(), StoreError> {
    let items = [(tx.clone(), CreateOptions::default())];
    store.create(&items, AT)?.remove(0).unwrap();
    Ok(())
}

fn body(store: &NodeStore, tx: &NodeTx) -> Option<NodeTx> {
    let found = store.get(&[tx.txid], Fields { body: true, slots: false }).unwrap().remove(0);
    found.and_then(|found| found.body)
}

#[test]
fn bodies_go_to_a_bucket_come_back_and_go_with_their_records() {
    let Some(url) = url() else { return };
    for (engine, opened) in engines::all(settings()) {
        let place = format!("{url}/{engine}");
        let open = || Blobs::open(&place, Durability::Synced, 20_000, OpenMode::Create).unwrap();
        let store = opened.store.with_blobs(open());
        store.claim_blobs(false).unwrap().unwrap();
        let report = || store.check_blobs(i64::MAX, 0, false).unwrap().unwrap();
        assert_eq!((report().files, report().foreign), (0, 0), "{engine}: the prefix is empty");
        create(&store, &large(1)).unwrap();
        create(&store, &seed(2, &[1])).unwrap();
        assert_eq!(body(&store, &large(1)), Some(large(1)), "{engine}");
        assert_eq!((report().files, report().orphans), (1, 0), "{engine}");
        assert!(store.verify().unwrap().is_clean(), "{engine}");
        store.claim_blobs(false).unwrap().unwrap();
        store.delete(&[large(1).txid]).unwrap();
        assert_eq!(report().orphans, 1, "{engine}: the record goes first");
        let done = store.delete_blobs(None, 100).unwrap();
        assert_eq!((done.deleted, done.failed.len()), (1, 0), "{engine}");
        assert_eq!((report().files, store.blobs_waiting(10).unwrap()), (0, 0), "{engine}");

        // A second store must not take the same place.
        let other = engines::memory(settings()).store.with_blobs(open());
        let refused = other.claim_blobs(false).unwrap();
        assert!(matches!(refused, Err(WrongBlobStore::Foreign { .. })), "{engine}: {refused:?}");
    }
}

/// Needs no bucket: nobody listens.
#[test]
fn a_bucket_that_does_not_answer_changes_nothing() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let bucket = AmazonS3Builder::new()
        .with_url("s3://bucket/prefix")
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_access_key_id("nobody")
        .with_secret_access_key("nothing")
        .with_region("nowhere")
        .with_retry(object_store::RetryConfig { max_retries: 0, ..Default::default() })
        .build()
        .unwrap();
    let bucket = std::sync::Arc::new(PrefixStore::new(bucket, "prefix"));
    for (engine, opened) in engines::all(settings()) {
        let blobs = Blobs::on(bucket.clone(), 20_000).unwrap();
        let store = opened.store.with_blobs(blobs);
        let items = [(large(1), CreateOptions::default())];
        let refused = store.create(&items, AT).unwrap().remove(0);
        assert!(matches!(refused, Err(NodeError::Storage { .. })), "{engine}: {refused:?}");
        assert!(store.get(&[large(1).txid], Fields::default()).unwrap()[0].is_none(), "{engine}");
        // Small bodies need no bucket.
        create(&store, &seed(2, &[1])).unwrap();
        assert_eq!(body(&store, &seed(2, &[1])), Some(seed(2, &[1])), "{engine}");
        assert_eq!(
            store.blobs_waiting(10).unwrap(),
            1,
            "{engine}: what may be there is deleted later"
        );
    }
}
