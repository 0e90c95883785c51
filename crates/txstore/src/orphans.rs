//! Files of the blob store that no record names: left by a crash between writing the file and the
//! commit, or by a deletion that was not finished.

use utxokeep_core::{
    Txid,
    node::{BlobKind, Source as _},
};

use crate::{
    backend::{Touched, Writes},
    blobs::{Blobs, FoundBlob},
    engine::{NodeStore, blob_delete_name},
    error::StoreError,
    facts::Facts,
};

/// What a look through the blob store found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobReport {
    /// Files of this store.
    pub files: u64,
    /// Files that are none of ours; they are never touched.
    pub foreign: u64,
    /// Files without a record that are too young to say: somebody may be about to commit.
    pub young: u64,
    /// Files without a record.
    pub orphans: u64,
    /// Their length together.
    pub orphan_bytes: u64,
    /// How many of them were removed.
    pub removed: u64,
}

impl NodeStore {
    /// Looks for files that no record names, and removes them if `is_repair`. A file counts only
    /// once it is `age_min_s` old: until then its record may be on the way. `None` without a blob
    /// store.
    pub fn check_blobs(
        &self,
        now_s: i64,
        age_min_s: i64,
        is_repair: bool,
    ) -> Result<Option<BlobReport>, StoreError> {
        let Some(blobs) = &self.blobs else { return Ok(None) };
        let (mut report, mut ours) = (BlobReport::default(), Vec::new());
        blobs.list(&mut |found| match found.txid {
            Some((txid, kind)) => ours.push((txid, kind, found)),
            None => report.foreign += 1,
        })?;
        report.files = ours.len() as u64;
        for (txid, kind, found) in ours {
            if self.read(|facts| is_named(facts, &txid, kind))? {
                continue;
            }
            if now_s.saturating_sub(found.written_at_s) < age_min_s {
                report.young += 1;
                continue;
            }
            report.orphans += 1;
            report.orphan_bytes += found.bytes;
            if is_repair && self.remove_orphan(blobs, &txid, kind, &found)? {
                report.removed += 1;
            }
        }
        Ok(Some(report))
    }

    /// Removes a file while nobody can store its transaction.
    fn remove_orphan(
        &self,
        blobs: &Blobs,
        txid: &Txid,
        kind: BlobKind,
        found: &FoundBlob,
    ) -> Result<bool, StoreError> {
        let mut is_removed = false;
        self.backend.write(&Touched::Only(vec![*txid]), &mut |view| {
            let facts = Facts { view, blobs: Some(blobs) };
            if is_named(&facts, txid, kind)? {
                return Ok(Writes::default());
            }
            is_removed = blobs.delete_named(&found.name)?;
            let states = vec![(blob_delete_name(txid, kind), None)];
            Ok(Writes { states, ..Writes::default() })
        })?;
        Ok(is_removed)
    }
}

/// Whether a record says that its body is in this file.
fn is_named(facts: &Facts<'_>, txid: &Txid, kind: BlobKind) -> Result<bool, StoreError> {
    Ok(facts.record(txid)?.is_some_and(|record| record.blob == Some(kind)))
}
