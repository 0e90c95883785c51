//! Files of bodies that are too large for a row: in a directory, or in a bucket.

use std::{
    fs,
    sync::{Arc, Mutex, PoisonError},
};

use object_store::ObjectStore;
use utxokeep_blobs::{BlobError, BlobOptions, BlobStore, BlobUrlError};
use utxokeep_core::{Corrupt, Txid, node::BlobKind};
use utxokeep_kv::{Durability, OpenMode};

use crate::error::StoreError;

/// Where large bodies are kept.
#[derive(Debug, Clone)]
pub struct Blobs {
    store: BlobStore,
    /// The number that the place must have, once it is known to be the right one.
    claimed: Arc<Mutex<Option<[u8; 16]>>>,
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

impl From<BlobError> for StoreError {
    fn from(BlobError { what, reason, .. }: BlobError) -> Self {
        Self::Blob { what, reason }
    }
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
        let durable = durability == Durability::Synced;
        let options = BlobOptions { durable, timeout_ms, mode, client_retries: true };
        Ok(Self { store: BlobStore::open(url, &options)?, claimed: Arc::default() })
    }

    /// Uses a store of objects that exists.
    pub fn on(store: Arc<dyn ObjectStore>, timeout_ms: u64) -> Result<Self, std::io::Error> {
        Ok(Self { store: BlobStore::on(store, timeout_ms)?, claimed: Arc::default() })
    }

    /// Where it is, in words.
    pub(crate) fn place(&self) -> String {
        self.store.place()
    }

    /// Name of the file by which a place is known again.
    pub(crate) const MARK: &str = "utxokeep-blob-store";

    /// The number of the store that the place belongs to, if it belongs to one.
    pub(crate) fn mark(&self) -> Result<Option<[u8; 16]>, StoreError> {
        let Some(bytes) = self.store.get(Self::MARK)? else { return Ok(None) };
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
        let (Some(dir), Some(number)) = (self.store.dir(), claimed) else { return None };
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
        let Some(dir) = self.store.dir() else {
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
        Ok(self.store.put(Self::MARK, text.into_bytes())?)
    }

    /// Writes a file. One that is there already is written again: it holds the same.
    pub(crate) fn put(
        &self,
        txid: &Txid,
        kind: BlobKind,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        self.check_place("writing")?;
        self.store.put(&key(txid, kind), bytes)?;
        // It may have been moved meanwhile, and the file have made the directory anew.
        self.check_place("writing")
    }

    /// Reads a file.
    pub(crate) fn get(&self, txid: &Txid, kind: BlobKind) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.store.get(&key(txid, kind))?)
    }

    /// Deletes a file; answers whether it was there.
    pub fn delete(&self, txid: &Txid, kind: BlobKind) -> Result<bool, StoreError> {
        self.delete_named(&key(txid, kind))
    }

    /// Deletes a file by its name.
    pub(crate) fn delete_named(&self, name: &str) -> Result<bool, StoreError> {
        // A file that is not in the wrong place is not gone.
        self.check_place("deleting")?;
        Ok(self.store.delete(name)?)
    }

    /// Hands every file to `each`.
    pub(crate) fn list(&self, each: &mut dyn FnMut(FoundBlob)) -> Result<(), StoreError> {
        self.store.list(None, &mut |found| {
            if found.name != Self::MARK {
                each(FoundBlob {
                    txid: parse(&found.name),
                    name: found.name,
                    bytes: found.bytes,
                    written_at_s: found.written_at_s,
                });
            }
        })?;
        Ok(())
    }
}

fn parse_mark(bytes: &[u8]) -> Option<[u8; 16]> {
    let hex = std::str::from_utf8(bytes).ok()?.trim_ascii_end();
    u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes)
}

/// Directories by the first byte keep each of them small.
fn key(txid: &Txid, kind: BlobKind) -> String {
    let name = txid.to_reversed_hex();
    format!("{}/{name}.{}", &name[..2], kind.extension())
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
    fn other_files_are_not_taken_for_ours() {
        let name = named(1).to_reversed_hex();
        assert_eq!(parse(&format!("01/{name}.tx")), Some((named(1), BlobKind::Tx)));
        for other in ["readme", "01/readme.tx", &format!("02/{name}.tx"), &format!("01/{name}.gz")]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
