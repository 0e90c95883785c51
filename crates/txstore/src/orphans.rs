//! Files of the blob store that no record names: left by a crash between writing the file and the
//! commit, or by a deletion that was not finished.

use utxokeep_core::{
    Txid,
    node::{BlobKind, ChangeSet},
};

use crate::{
    admit::Asks,
    backend::Touched,
    engine::NodeStore,
    error::StoreError,
    facts::Facts,
    files::{file_row, waits},
    prune::BlobsDeleted,
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
            if is_repair && self.remove_orphan(&txid, kind)? {
                report.removed += 1;
            }
        }
        Ok(Some(report))
    }

    /// Removes a file: its row first says that it waits for that, so that a call which is about to
    /// name it notices.
    fn remove_orphan(&self, txid: &Txid, kind: BlobKind) -> Result<bool, StoreError> {
        self.commit(Asks::Place, &Touched::Only(vec![*txid]), &mut |view| {
            let facts = self.facts(view);
            let is_named = is_named(&facts, txid, kind)?;
            let states = if is_named { Vec::new() } else { vec![waits(txid, kind)] };
            Ok(ChangeSet::of_states(states))
        })?;
        let mut done = BlobsDeleted::default();
        self.delete_blob(&file_row(txid, kind), &mut done)?;
        match done.failed.pop() {
            Some((_, reason)) => Err(StoreError::Blob { what: "deleting", reason }),
            None => Ok(done.deleted > 0),
        }
    }
}

/// Whether a record says that its body is in this file.
fn is_named(facts: &Facts<'_>, txid: &Txid, kind: BlobKind) -> Result<bool, StoreError> {
    Ok(facts.record(txid)?.is_some_and(|record| record.blob == Some(kind)))
}
