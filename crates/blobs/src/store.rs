//! One place of files.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt as _;
use object_store::{
    ObjectStore, ObjectStoreExt as _, local::LocalFileSystem, memory::InMemory, path::Path as Key,
};
use tokio::runtime::Runtime;
use utxokeep_core::OpenMode;

use crate::error::{BlobError, BlobUrlError};

/// How a place is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobOptions {
    /// Files in a directory are synced, and so is the directory, before a call returns.
    pub durable: bool,
    /// How long one call may take, in milliseconds.
    pub timeout_ms: u64,
    /// Whether a directory may be created.
    pub mode: OpenMode,
    /// The client of a bucket tries again by itself. A caller that counts attempts says no.
    pub client_retries: bool,
}

/// Files by name.
#[derive(Clone)]
pub struct BlobStore {
    pub(crate) store: Arc<dyn ObjectStore>,
    runtime: Arc<OwnRuntime>,
    pub(crate) timeout: Duration,
    /// The directory, where it is one: it can be moved away under a running program.
    dir: Option<PathBuf>,
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

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its name, with the folders that it lies in.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last written, in seconds since 1970.
    pub written_at_s: i64,
}

impl fmt::Debug for BlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobStore({})", self.store)
    }
}

/// Objects below the prefix of `BUCKET/PREFIX`.
#[cfg(feature = "s3")]
fn in_bucket(
    url: &str,
    place: &str,
    options: &BlobOptions,
) -> Result<Arc<dyn ObjectStore>, BlobUrlError> {
    let (_, prefix) = place.split_once('/').unwrap_or_default();
    let mut builder = object_store::aws::AmazonS3Builder::from_env().with_url(url);
    if !options.client_retries {
        let retries = object_store::RetryConfig { max_retries: 0, ..Default::default() };
        builder = builder.with_retry(retries);
    }
    let bucket = builder.build().map_err(|error| BlobUrlError::Refused {
        url: url.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Arc::new(object_store::prefix::PrefixStore::new(bucket, prefix)))
}

#[cfg(not(feature = "s3"))]
fn in_bucket(
    url: &str,
    _place: &str,
    _options: &BlobOptions,
) -> Result<Arc<dyn ObjectStore>, BlobUrlError> {
    let reason = "this build has no S3 client: it was compiled without the feature `s3`";
    Err(BlobUrlError::Refused { url: url.to_owned(), reason: reason.to_owned() })
}

impl BlobStore {
    /// Opens a blob store: `file:DIR`, `s3://BUCKET/PREFIX` with the credentials of the
    /// environment (`AWS_…`, `AWS_ENDPOINT` for other makers), or `memory:`.
    pub fn open(url: &str, options: &BlobOptions) -> Result<Self, BlobUrlError> {
        let refused = |error: object_store::Error| BlobUrlError::Refused {
            url: url.to_owned(),
            reason: error.to_string(),
        };
        let mut place = None;
        let store: Arc<dyn ObjectStore> = match url.split_once(':') {
            // Nothing is there, and nothing may be made. What is empty answers the same.
            Some(("file", dir)) if !options.mode.may_write() && !Path::new(dir).exists() => {
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
                Arc::new(files.with_fsync(options.durable))
            }
            Some(("s3", bucket)) if bucket.starts_with("//") => {
                in_bucket(url, &bucket[2..], options)?
            }
            Some(("memory", "")) => Arc::new(InMemory::new()),
            _ => return Err(BlobUrlError::Unknown(url.to_owned())),
        };
        Ok(Self { dir: place, ..Self::on(store, options.timeout_ms)? })
    }

    /// Uses a store of objects that exists.
    pub fn on(store: Arc<dyn ObjectStore>, timeout_ms: u64) -> Result<Self, std::io::Error> {
        // Calls of this store come from ordinary threads; two threads carry what they wait for.
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("blobs").enable_all().build()?;
        let timeout = Duration::from_millis(timeout_ms);
        Ok(Self { store, runtime: Arc::new(OwnRuntime(Some(runtime))), timeout, dir: None })
    }

    /// Where it is, in words.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.dir {
            Some(dir) => dir.display().to_string(),
            None => self.store.to_string(),
        }
    }

    /// The directory, where it is one.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.0.as_ref().expect("taken only when dropped")
    }

    /// Waits for an answer; `None` when there is no such file.
    fn wait<T>(
        &self,
        what: &'static str,
        name: &str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<Option<T>, BlobError> {
        let failed = |reason| BlobError { what, name: name.to_owned(), reason };
        let timed = async { tokio::time::timeout(self.timeout, work).await };
        match self.runtime().block_on(timed) {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(object_store::Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer in {} ms", self.timeout.as_millis()))),
        }
    }

    /// Writes a file, in place of one of the same name.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError> {
        let key = Key::from(name);
        let gone = || BlobError {
            what: "writing",
            name: name.to_owned(),
            reason: "the place is gone".into(),
        };
        self.wait("writing", name, self.store.put(&key, bytes.into()))?.ok_or_else(gone)?;
        Ok(())
    }

    /// Reads a file; `None` when it is not there.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BlobError> {
        let key = Key::from(name);
        let bytes = self.wait("reading", name, async {
            let found = self.store.get(&key).await?;
            found.bytes().await
        })?;
        Ok(bytes.map(|bytes| bytes.to_vec()))
    }

    /// Deletes a file; answers whether it was there.
    pub fn delete(&self, name: &str) -> Result<bool, BlobError> {
        let key = Key::from(name);
        // Not every store says whether something was there.
        let found = self.wait("deleting", name, async {
            self.store.head(&key).await?;
            self.store.delete(&key).await
        })?;
        Ok(found.is_some())
    }

    /// Hands every file below a folder to `each`, or every file of the place.
    pub fn list(
        &self,
        folder: Option<&str>,
        each: &mut dyn FnMut(FoundFile),
    ) -> Result<(), BlobError> {
        let prefix = folder.map(Key::from);
        let name = folder.unwrap_or_default();
        // The limit holds for each step: a large store takes its time.
        let mut files = self.store.list(prefix.as_ref());
        loop {
            let next = self.wait("listing", name, async { files.next().await.transpose() })?;
            let Some(found) = next.flatten() else { return Ok(()) };
            each(FoundFile {
                name: found.location.to_string(),
                bytes: found.size,
                written_at_s: found.last_modified.timestamp(),
            });
        }
    }

    /// The folders of the place, in order of name.
    pub fn folders(&self) -> Result<Vec<String>, BlobError> {
        let found = self.wait("listing", "", self.store.list_with_delimiter(None))?;
        let prefixes = found.map(|found| found.common_prefixes).unwrap_or_default();
        let mut folders: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        folders.sort_unstable();
        Ok(folders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: BlobOptions = BlobOptions {
        durable: true,
        timeout_ms: 5_000,
        mode: OpenMode::Create,
        client_retries: false,
    };

    #[test]
    fn files_are_written_listed_read_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        for url in [format!("file:{}", dir.path().join("new").display()), "memory:".to_owned()] {
            let store = BlobStore::open(&url, &OPTIONS).unwrap();
            assert_eq!(store.get("a/one").unwrap(), None);
            store.put("a/one", vec![1, 2]).unwrap();
            store.put("a/one", vec![1, 2, 3]).unwrap();
            store.put("b/two", vec![4]).unwrap();
            store.put("mark", vec![5]).unwrap();
            assert_eq!(store.get("a/one").unwrap(), Some(vec![1, 2, 3]));
            let names = |folder| {
                let mut found = Vec::new();
                store.list(folder, &mut |file| found.push((file.name, file.bytes))).unwrap();
                found.sort_unstable();
                found
            };
            assert_eq!(names(Some("b")), [("b/two".to_owned(), 1)]);
            assert_eq!(names(None).len(), 3);
            assert_eq!(store.folders().unwrap(), ["a", "b"]);
            assert!(store.delete("a/one").unwrap());
            assert!(!store.delete("a/one").unwrap(), "gone already");
        }
    }

    #[test]
    fn reading_creates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("none");
        let url = format!("file:{}", place.display());
        let options = BlobOptions { mode: OpenMode::Read, ..OPTIONS };
        let store = BlobStore::open(&url, &options).unwrap();
        assert_eq!(store.get("a").unwrap(), None);
        assert!(store.folders().unwrap().is_empty() && !place.exists());
    }

    #[test]
    fn urls_of_nothing_we_know_are_refused() {
        for url in ["", "file:", "ftp://host/dir", "s3:bucket", "memory:x"] {
            let error = BlobStore::open(url, &OPTIONS).unwrap_err();
            assert!(error.to_string().contains("file:DIR"), "{error}");
        }
    }

    #[cfg(not(feature = "s3"))]
    #[test]
    fn a_bucket_is_refused_where_its_client_is_absent() {
        let told = BlobStore::open("s3://bucket/a", &OPTIONS).unwrap_err().to_string();
        assert!(told.contains("this build has no S3 client"), "{told}");
    }
}
