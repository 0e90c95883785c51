//! Files of large bodies are written while no transaction is open, and never vanish under a record.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use futures_util::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use utxokeep_core::{
    Height,
    node::{CreateOptions, NodeError, NodeTx},
};
use utxokeep_testkit::txstore::seed;
use utxokeep_txstore::{
    Blobs, Fields, NodeStore, ProofFault, PruneStore as _, StoreError, StoreSettings, TxStore,
};

use crate::engines;

const AT: Height = Height::new(5);

pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// A place for files where something happens right after the next file was written.
#[derive(Default, Clone)]
pub(crate) struct Hooked {
    files: Arc<InMemory>,
    pub(crate) next: Arc<Mutex<Option<Hook>>>,
    /// No file is taken.
    pub(crate) is_full: Arc<AtomicBool>,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooked")
    }
}

impl fmt::Display for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hooked")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Hooked {
    async fn put_opts(&self, at: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(object_store::Error::Generic { store: "hooked", source: "full".into() });
        }
        let written = self.files.put_opts(at, bytes, how).await;
        let hook = self.next.lock().unwrap().take();
        if let Some(hook) = hook {
            // On a thread of its own, because it uses the store in turn.
            thread::spawn(hook).join().unwrap();
        }
        written
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        self.files.get_opts(at, how).await
    }

    fn delete_stream(
        &self,
        which: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(which)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, how).await
    }
}

fn settings() -> StoreSettings {
    StoreSettings::default().with(|settings| settings.inline_body_bytes_max = 100)
}

fn large(name: u8) -> NodeTx {
    seed(name, &[3; 40])
}

fn create(store: &NodeStore, tx: &NodeTx) -> std::result::Result<(), NodeError> {
    let items = [(tx.clone(), CreateOptions::default())];
    store.create(&items, AT).unwrap().remove(0)
}

fn body(store: &NodeStore, tx: &NodeTx) -> std::result::Result<Option<NodeTx>, StoreError> {
    let found = store.get(&[tx.txid], Fields { body: true, slots: false })?.remove(0);
    Ok(found.and_then(|found| found.body))
}

fn files(store: &NodeStore) -> u64 {
    store.check_blobs(0, 0, false).unwrap().unwrap().files
}

/// Every engine with such a place, which is handed out too; `change` plants a mistake.
fn all(
    change: impl Fn(NodeStore) -> NodeStore,
) -> Vec<(&'static str, Arc<NodeStore>, Hooked, impl Sized)> {
    let opened = engines::all(settings()).into_iter().map(|(engine, opened)| {
        let hooked = Hooked::default();
        let blobs = Blobs::on(Arc::new(hooked.clone()), 20_000).unwrap();
        let store = change(opened.store.with_blobs(blobs));
        (engine, Arc::new(store), hooked, opened.place)
    });
    opened.collect()
}

/// Does something to the store right after the next file was written.
fn meanwhile(store: &Arc<NodeStore>, hooked: &Hooked, work: fn(&NodeStore)) {
    let store = Arc::clone(store);
    *hooked.next.lock().unwrap() = Some(Box::new(move || work(&store)));
}

/// Removes every file that waits for it.
fn delete_files(store: &NodeStore) {
    let done = store.delete_blobs(None, 100).unwrap();
    assert!(done.failed.is_empty());
}

#[test]
fn others_write_while_a_file_is_written() {
    for (engine, store, hooked, _place) in all(|store| store) {
        meanwhile(&store, &hooked, |store| {
            create(store, &seed(2, &[1])).unwrap();
            // Also the very same transaction, which then finds its file written already.
            assert_eq!(create(store, &large(1)), Ok(()));
        });
        let exists = NodeError::Exists(large(1).txid);
        assert_eq!(create(&store, &large(1)), Err(exists), "{engine}: it lost the race");
        assert!(hooked.next.lock().unwrap().is_none(), "{engine}: a file was written");
        assert_eq!(body(&store, &large(1)).unwrap(), Some(large(1)), "{engine}");
        delete_files(&store);
        assert_eq!(body(&store, &large(1)).unwrap(), Some(large(1)), "{engine}");
        assert_eq!(store.blobs_waiting(10).unwrap(), 0, "{engine}: nothing is left of the race");
    }
}

/// Stores a transaction whose file waits to be deleted, which happens at the worst moment.
fn deleted_at_the_worst_moment(store: &Arc<NodeStore>, hooked: &Hooked, how: fn(&NodeStore)) {
    create(store, &large(1)).unwrap();
    store.delete(&[large(1).txid]).unwrap();
    assert_eq!((store.blobs_waiting(10).unwrap(), files(store)), (1, 1));
    meanwhile(store, hooked, how);
    create(store, &large(1)).unwrap();
}

/// As `tx verify --repair-blobs` does, which takes every file without a record for left behind.
fn repair(store: &NodeStore) {
    store.check_blobs(i64::MAX, 0, true).unwrap();
}

#[test]
fn a_file_never_vanishes_under_a_record() {
    for how in [delete_files, repair] {
        for (engine, store, hooked, _place) in all(|store| store) {
            deleted_at_the_worst_moment(&store, &hooked, how);
            assert_eq!(body(&store, &large(1)).unwrap(), Some(large(1)), "{engine}");
            delete_files(&store);
            assert_eq!(body(&store, &large(1)).unwrap(), Some(large(1)), "{engine}");
            assert_eq!((store.blobs_waiting(10).unwrap(), files(&store)), (0, 1), "{engine}");
        }
    }
}

/// The twin: without the rows of files, the record is there and its file is not.
#[test]
fn without_the_rows_of_files_one_vanishes() {
    for (engine, store, hooked, _place) in
        all(|store| store.unsafe_with(ProofFault::FileRowsIgnored))
    {
        deleted_at_the_worst_moment(&store, &hooked, delete_files);
        let missing = body(&store, &large(1));
        assert!(matches!(missing, Err(StoreError::BlobMissing(_))), "{engine}: {missing:?}");
    }
}

/// A store whose clock is set by hand, with a file that a writer announced and wrote, and then died.
fn left_behind(store: NodeStore, hooked: &Hooked) -> (NodeStore, Arc<Mutex<Instant>>) {
    let clock = Arc::new(Mutex::new(Instant::now()));
    let read = Arc::clone(&clock);
    let store = store.with_clock(move || *read.lock().unwrap());
    *hooked.next.lock().unwrap() = Some(Box::new(|| panic!("the writer dies")));
    let died = catch_unwind(AssertUnwindSafe(|| create(&store, &large(1))));
    assert!(died.is_err());
    assert_eq!((store.blobs_waiting(10).unwrap(), files(&store)), (1, 1), "its row is left");
    // Somebody looks for the first time.
    delete_files(&store);
    (store, clock)
}

const QUARTER: Duration = Duration::from_secs(15 * 60);

#[test]
fn a_file_of_a_writer_that_died_goes_after_a_quarter_of_an_hour() {
    for (engine, opened) in engines::all(settings()) {
        let hooked = Hooked::default();
        let blobs = Blobs::on(Arc::new(hooked.clone()), 20_000).unwrap();
        let (store, clock) = left_behind(opened.store.with_blobs(blobs), &hooked);
        let start = *clock.lock().unwrap();
        for (passed, expected) in [
            (Duration::ZERO, (1, 1)),
            (Duration::from_millis(15 * 60 * 1_000 - 1), (1, 1)),
            (QUARTER, (0, 0)),
        ] {
            *clock.lock().unwrap() = start + passed;
            delete_files(&store);
            let found = (store.blobs_waiting(10).unwrap(), files(&store));
            assert_eq!(found, expected, "{engine} after {passed:?}");
        }
        create(&store, &large(1)).unwrap();
        assert_eq!(body(&store, &large(1)).unwrap(), Some(large(1)), "{engine}");
    }
}

#[test]
fn a_file_that_somebody_else_named_meanwhile_stays() {
    for (engine, opened) in engines::all(settings()) {
        let hooked = Hooked::default();
        let blobs = Blobs::on(Arc::new(hooked.clone()), 20_000).unwrap();
        let (store, clock) = left_behind(opened.store.with_blobs(blobs), &hooked);
        create(&store, &large(1)).unwrap();
        *clock.lock().unwrap() += QUARTER * 2;
        delete_files(&store);
        assert_eq!(body(&store, &large(1)).unwrap(), Some(large(1)), "{engine}");
        assert_eq!((store.blobs_waiting(10).unwrap(), files(&store)), (0, 1), "{engine}");
    }
}

#[test]
fn a_file_that_went_with_another_record_is_written_again() {
    for (engine, store, hooked, _place) in all(|store| store) {
        // Somebody else stores the same transaction, deletes it, and the file goes with it.
        meanwhile(&store, &hooked, |store| {
            assert_eq!(create(store, &large(1)), Ok(()));
            assert_eq!(store.delete(&[large(1).txid]).unwrap(), 1);
            delete_files(store);
        });
        create(&store, &large(1)).unwrap();
        assert_eq!(body(&store, &large(1)).unwrap(), Some(large(1)), "{engine}");
        store.delete(&[large(1).txid]).unwrap();
        delete_files(&store);
        assert_eq!((store.blobs_waiting(10).unwrap(), files(&store)), (0, 0), "{engine}");
    }
}
