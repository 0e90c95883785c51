//! Files of bodies that are too large for a row: in a directory, or in a bucket.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use object_store::{
    ObjectStore, ObjectStoreExt, local::LocalFileSystem, memory::InMemory, path::Path as Key,
};
use tokio::runtime::Runtime;
use utxokeep_core::{Corrupt, Txid, node::BlobKind};
use utxokeep_kv::{Durability, OpenMode};

use crate::error::{BlobUrlError, StoreError};

/// Where large bodies are kept.
#[derive(Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    runtime: Arc<OwnRuntime>,
    timeout: Duration,
    /// The directory, where it is one: it can be moved away under a running program.
    dir: Option<PathBuf>,
    /// The number that the place must have, once it is known to be the right one.
    claimed: Arc<Mutex<Option<[u8; 16]>>>,
}

/// The runtime. Dropping it must not wait, because that is refused on asynchronous threads.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Length of the file by which a directory is tried out.
const PROBE_BYTES: usize = 64 * 1024;

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBlob {
    /// Transaction that its name says; `None` for a file that is none of ours.
    pub txid: Option<(Txid, BlobKind)>,
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last written, in seconds since 1970.
    pub written_at_s: i64,
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blobs({})", self.store)
    }
}

/// Objects below the prefix of `BUCKET/PREFIX`.
#[cfg(feature = "s3")]
fn in_bucket(url: &str, place: &str) -> Result<Arc<dyn ObjectStore>, BlobUrlError> {
    let (_, prefix) = place.split_once('/').unwrap_or_default();
    let builder = object_store::aws::AmazonS3Builder::from_env().with_url(url);
    let bucket = builder.build().map_err(|error| BlobUrlError::Refused {
        url: url.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Arc::new(object_store::prefix::PrefixStore::new(bucket, prefix)))
}

#[cfg(not(feature = "s3"))]
fn in_bucket(url: &str, _place: &str) -> Result<Arc<dyn ObjectStore>, BlobUrlError> {
    let reason = "this build has no S3 client: it was compiled without the feature `s3`";
    Err(BlobUrlError::Refused { url: url.to_owned(), reason: reason.to_owned() })
}

impl Blobs {
    /// Opens a blob store: `file:DIR`, `s3://BUCKET/PREFIX` with the credentials of the
    /// environment (`AWS_…`, `AWS_ENDPOINT` for other makers), or `memory:`.
    pub fn open(
        url: &str,
        durability: Durability,
        timeout_ms: u64,
        mode: OpenMode,
    ) -> Result<Self, BlobUrlError> {
        let refused = |error: object_store::Error| BlobUrlError::Refused {
            url: url.to_owned(),
            reason: error.to_string(),
        };
        let mut place = None;
        let store: Arc<dyn ObjectStore> = match url.split_once(':') {
            // Nothing is there, and nothing may be made. What is empty answers the same.
            Some(("file", dir)) if !mode.may_write() && !Path::new(dir).exists() => {
                place = Some(PathBuf::from(dir));
                Arc::new(InMemory::new())
            }
            Some(("file", dir)) if !dir.is_empty() => {
                let io = |error: std::io::Error| BlobUrlError::Refused {
                    url: url.to_owned(),
                    reason: error.to_string(),
                };
                fs::create_dir_all(Path::new(dir)).map_err(io)?;
                // Another working directory later must not mean another place.
                place = Some(fs::canonicalize(dir).map_err(io)?);
                let files = LocalFileSystem::new_with_prefix(dir).map_err(refused)?;
                Arc::new(files.with_fsync(durability == Durability::Synced))
            }
            Some(("s3", bucket)) if bucket.starts_with("//") => in_bucket(url, &bucket[2..])?,
            Some(("memory", "")) => Arc::new(InMemory::new()),
            _ => return Err(BlobUrlError::Unknown(url.to_owned())),
        };
        Ok(Self { dir: place, ..Self::on(store, timeout_ms)? })
    }

    /// Uses a store of objects that exists.
    pub fn on(store: Arc<dyn ObjectStore>, timeout_ms: u64) -> Result<Self, std::io::Error> {
        // Calls of this store come from ordinary threads; two threads carry what they wait for.
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("blobs").enable_all().build()?;
        let timeout = Duration::from_millis(timeout_ms);
        let (runtime, claimed) = (Arc::new(OwnRuntime(Some(runtime))), Arc::default());
        Ok(Self { store, runtime, timeout, dir: None, claimed })
    }

    /// Where it is, in words.
    pub(crate) fn place(&self) -> String {
        match &self.dir {
            Some(dir) => dir.display().to_string(),
            None => self.store.to_string(),
        }
    }

    /// Name of the file by which a place is known again.
    pub(crate) const MARK: &str = "utxokeep-blob-store";

    /// The number of the store that the place belongs to, if it belongs to one.
    pub(crate) fn mark(&self) -> Result<Option<[u8; 16]>, StoreError> {
        let Some(bytes) = self.read(&Key::from(Self::MARK))? else { return Ok(None) };
        let damaged = || Corrupt::new("mark of the blob store", "not 32 hexadecimal digits");
        Ok(Some(parse_mark(&bytes).ok_or_else(damaged)?))
    }

    /// From now on the place must have this number whenever a file is written or deleted.
    pub(crate) fn expect(&self, number: [u8; 16]) {
        *self.claimed.lock().unwrap_or_else(PoisonError::into_inner) = Some(number);
    }

    /// What is wrong with the place, if it is a directory that was moved away, is not mounted any
    /// more, or was exchanged since it was claimed.
    pub(crate) fn fault(&self) -> Option<String> {
        let claimed = *self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(dir), Some(number)) = (&self.dir, claimed) else { return None };
        let what = match fs::read(dir.join(Self::MARK)) {
            Ok(bytes) if parse_mark(&bytes) == Some(number) => return None,
            Ok(_) => "says another number".to_owned(),
            Err(error) => format!("cannot be read ({error})"),
        };
        Some(format!(
            "{} is not the blob store any more: its file {} {what}. It was moved, or is not mounted; \
             put it back",
            dir.display(),
            Self::MARK
        ))
    }

    /// Why no file can be written, found out by trying. A directory gets a file that is deleted at once;
    /// of a bucket, where each file costs, the mark is read.
    pub(crate) fn probe(&self) -> Option<String> {
        let Some(dir) = &self.dir else {
            let asked = self.mark().err()?;
            return Some(format!("{} does not answer: {asked}", self.place()));
        };
        // Files of such names are not listed.
        let file = dir.join(format!("utxokeep-health#{}", std::process::id()));
        let written = fs::write(&file, vec![0; PROBE_BYTES]);
        // What was written in part goes as well.
        let removed = fs::remove_file(&file);
        let error = written.and(removed).err()?;
        Some(format!(
            "no file can be written to the blob store {}: {error}; make room, or make it writable. \
             Spends, and transactions with small bodies, go on",
            dir.display()
        ))
    }

    fn check_place(&self, what: &'static str) -> Result<(), StoreError> {
        self.fault().map_or(Ok(()), |reason| Err(StoreError::Blob { what, reason }))
    }

    /// Says which store the place belongs to.
    pub(crate) fn put_mark(&self, number: &[u8; 16]) -> Result<(), StoreError> {
        let text = format!("{:032x}\n", u128::from_be_bytes(*number));
        self.write(&Key::from(Self::MARK), text.into_bytes())
    }

    fn wait<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<Option<T>, StoreError> {
        let failed = |reason: String| StoreError::Blob { what, reason };
        let timed = async { tokio::time::timeout(self.timeout, work).await };
        let runtime = self.runtime.0.as_ref().expect("taken only when dropped");
        match runtime.block_on(timed) {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(object_store::Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer in {} ms", self.timeout.as_millis()))),
        }
    }

    /// Writes a file. One that is there already is written again: it holds the same.
    pub(crate) fn put(
        &self,
        txid: &Txid,
        kind: BlobKind,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        self.check_place("writing")?;
        self.write(&key(txid, kind), bytes)?;
        // It may have been moved meanwhile, and the file have made the directory anew.
        self.check_place("writing")
    }

    fn write(&self, key: &Key, bytes: Vec<u8>) -> Result<(), StoreError> {
        let missing = || StoreError::Blob { what: "writing", reason: "the place is gone".into() };
        self.wait("writing", self.store.put(key, bytes.into()))?.ok_or_else(missing)?;
        Ok(())
    }

    /// Reads a file.
    pub(crate) fn get(&self, txid: &Txid, kind: BlobKind) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(&key(txid, kind))
    }

    fn read(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let bytes = self.wait("reading", async {
            let found = self.store.get(key).await?;
            found.bytes().await
        })?;
        Ok(bytes.map(|bytes| bytes.to_vec()))
    }

    /// Deletes a file; answers whether it was there.
    pub fn delete(&self, txid: &Txid, kind: BlobKind) -> Result<bool, StoreError> {
        self.delete_named(key(txid, kind).as_ref())
    }

    /// Deletes a file by its name.
    pub(crate) fn delete_named(&self, name: &str) -> Result<bool, StoreError> {
        // A file that is not in the wrong place is not gone.
        self.check_place("deleting")?;
        let key = Key::from(name);
        // Not every store says whether something was there.
        let found = self.wait("deleting", async {
            self.store.head(&key).await?;
            self.store.delete(&key).await
        })?;
        Ok(found.is_some())
    }

    /// Hands every file to `each`.
    pub(crate) fn list(&self, each: &mut dyn FnMut(FoundBlob)) -> Result<(), StoreError> {
        use futures_util::StreamExt as _;
        // The limit holds for each step: a large store takes its time.
        let mut files = self.store.list(None);
        loop {
            let next = self.wait("listing", async { files.next().await.transpose() })?.flatten();
            let Some(found) = next else { return Ok(()) };
            if found.location.as_ref() == Self::MARK {
                continue;
            }
            each(FoundBlob {
                txid: parse(found.location.as_ref()),
                name: found.location.to_string(),
                bytes: found.size,
                written_at_s: found.last_modified.timestamp(),
            });
        }
    }
}

fn parse_mark(bytes: &[u8]) -> Option<[u8; 16]> {
    let hex = std::str::from_utf8(bytes).ok()?.trim_ascii_end();
    u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes)
}

/// Directories by the first byte keep each of them small.
fn key(txid: &Txid, kind: BlobKind) -> Key {
    let name = txid.to_reversed_hex();
    Key::from(format!("{}/{name}.{}", &name[..2], kind.extension()))
}

fn parse(name: &str) -> Option<(Txid, BlobKind)> {
    let (dir, file) = name.split_once('/')?;
    let (txid, extension) = file.split_once('.')?;
    let kind = BlobKind::ALL.into_iter().find(|kind| kind.extension() == extension)?;
    let txid = Txid::from_reversed_hex(txid).ok().filter(|_| file.starts_with(dir))?;
    Some((txid, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(byte: u8) -> Txid {
        Txid::from_bytes([byte; 32])
    }

    #[test]
    fn files_are_written_listed_read_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        for url in [format!("file:{}", dir.path().join("new").display()), "memory:".to_owned()] {
            let blobs = Blobs::open(&url, Durability::Synced, 5_000, OpenMode::Create).unwrap();
            assert_eq!(blobs.get(&named(1), BlobKind::Tx).unwrap(), None);
            blobs.put(&named(1), BlobKind::Tx, vec![1, 2]).unwrap();
            blobs.put(&named(1), BlobKind::Tx, vec![1, 2]).unwrap();
            blobs.put(&named(2), BlobKind::Outputs, vec![3]).unwrap();
            assert_eq!(blobs.get(&named(1), BlobKind::Tx).unwrap(), Some(vec![1, 2]));
            let mut found = Vec::new();
            blobs.list(&mut |blob| found.extend(blob.txid)).unwrap();
            found.sort_unstable();
            assert_eq!(found, [(named(1), BlobKind::Tx), (named(2), BlobKind::Outputs)]);
            assert!(blobs.delete(&named(1), BlobKind::Tx).unwrap());
            assert!(!blobs.delete(&named(1), BlobKind::Tx).unwrap(), "gone already");
        }
    }

    #[test]
    fn urls_of_nothing_we_know_are_refused() {
        for url in ["", "file:", "ftp://host/dir", "s3:bucket", "memory:x"] {
            let error =
                Blobs::open(url, Durability::Buffered, 1_000, OpenMode::Create).unwrap_err();
            assert!(error.to_string().contains("file:DIR"), "{error}");
        }
    }

    #[cfg(not(feature = "s3"))]
    #[test]
    fn a_bucket_is_refused_where_its_client_is_absent() {
        let opened = Blobs::open("s3://bucket/a", Durability::Synced, 1_000, OpenMode::Create);
        let told = opened.unwrap_err().to_string();
        assert!(told.contains("this build has no S3 client"), "{told}");
    }

    #[test]
    fn other_files_are_not_taken_for_ours() {
        let name = named(1).to_reversed_hex();
        assert_eq!(parse(&format!("01/{name}.tx")), Some((named(1), BlobKind::Tx)));
        for other in ["readme", "01/readme.tx", &format!("02/{name}.tx"), &format!("01/{name}.gz")]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
