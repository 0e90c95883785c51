//! Files of bodies that are too large for a row: in a directory, or in a bucket.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use object_store::{
    ObjectStore, ObjectStoreExt, aws::AmazonS3Builder, local::LocalFileSystem, memory::InMemory,
    path::Path as Key,
};
use tokio::runtime::Runtime;
use utxokeep_core::{Txid, node::BlobKind};
use utxokeep_kv::Durability;

use crate::error::{BlobUrlError, StoreError};

/// Where large bodies are kept.
#[derive(Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    runtime: Arc<Runtime>,
    timeout: Duration,
}

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

impl Blobs {
    /// Opens a blob store: `file:DIR`, `s3://BUCKET/PREFIX` with the credentials of the
    /// environment (`AWS_…`, `AWS_ENDPOINT` for other makers), or `memory:`.
    pub fn open(url: &str, durability: Durability, timeout_ms: u64) -> Result<Self, BlobUrlError> {
        let refused = |error: object_store::Error| BlobUrlError::Refused {
            url: url.to_owned(),
            reason: error.to_string(),
        };
        let store: Arc<dyn ObjectStore> = match url.split_once(':') {
            Some(("file", dir)) if !dir.is_empty() => {
                let io = |error: std::io::Error| BlobUrlError::Refused {
                    url: url.to_owned(),
                    reason: error.to_string(),
                };
                std::fs::create_dir_all(Path::new(dir)).map_err(io)?;
                let files = LocalFileSystem::new_with_prefix(dir).map_err(refused)?;
                Arc::new(files.with_fsync(durability == Durability::Synced))
            }
            Some(("s3", bucket)) if bucket.starts_with("//") => {
                let builder = AmazonS3Builder::from_env().with_url(url);
                let (_, prefix) = bucket[2..].split_once('/').unwrap_or_default();
                let bucket = builder.build().map_err(refused)?;
                Arc::new(object_store::prefix::PrefixStore::new(bucket, prefix))
            }
            Some(("memory", "")) => Arc::new(InMemory::new()),
            _ => return Err(BlobUrlError::Unknown(url.to_owned())),
        };
        Ok(Self::on(store, timeout_ms)?)
    }

    /// Uses a store of objects that exists.
    pub fn on(store: Arc<dyn ObjectStore>, timeout_ms: u64) -> Result<Self, std::io::Error> {
        // Calls of this store come from ordinary threads; two threads carry what they wait for.
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("blobs").enable_all().build()?;
        let timeout = Duration::from_millis(timeout_ms);
        Ok(Self { store, runtime: Arc::new(runtime), timeout })
    }

    fn wait<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<Option<T>, StoreError> {
        let failed = |reason: String| StoreError::Blob { what, reason };
        let timed = async { tokio::time::timeout(self.timeout, work).await };
        match self.runtime.block_on(timed) {
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
        let missing = || StoreError::Blob { what: "writing", reason: "the place is gone".into() };
        self.wait("writing", self.store.put(&key(txid, kind), bytes.into()))?
            .ok_or_else(missing)?;
        Ok(())
    }

    /// Reads a file.
    pub(crate) fn get(&self, txid: &Txid, kind: BlobKind) -> Result<Option<Vec<u8>>, StoreError> {
        let key = key(txid, kind);
        let bytes = self.wait("reading", async {
            let found = self.store.get(&key).await?;
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
            each(FoundBlob {
                txid: parse(found.location.as_ref()),
                name: found.location.to_string(),
                bytes: found.size,
                written_at_s: found.last_modified.timestamp(),
            });
        }
    }
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
            let blobs = Blobs::open(&url, Durability::Synced, 5_000).unwrap();
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
            let error = Blobs::open(url, Durability::Buffered, 1_000).unwrap_err();
            assert!(error.to_string().contains("file:DIR"), "{error}");
        }
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
