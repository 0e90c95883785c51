//! Files of deleted bodies: their deletion waits in a queue that survives crashes, and is tried
//! again until it works. One that is gone already is done.

use utxokeep_txstore::{BlobsDeleted, PruneStore, StoreError};

use crate::{clock::Clock, control::Control, metrics};

/// Works through the queue once, `batch_rows` at a time.
pub fn delete_blobs(
    store: &dyn PruneStore,
    clock: &dyn Clock,
    control: &Control,
    batch_rows: usize,
) -> Result<BlobsDeleted, StoreError> {
    let started = clock.now_ms();
    let mut done = BlobsDeleted::default();
    let mut after: Option<String> = None;
    loop {
        let page = store.delete_blobs(after.as_deref(), batch_rows)?;
        done.deleted += page.deleted;
        done.missing += page.missing;
        done.wanted += page.wanted;
        done.failed.extend(page.failed);
        after = page.next;
        if after.is_none() || control.is_cancelled() {
            break;
        }
    }
    done.next = after;
    if done.deleted == 0 && done.missing > 1 {
        let missing = done.missing;
        tracing::warn!(missing, "no file was where it should be; is the blob store the right one?");
    }
    for (txid, reason) in done.failed.iter().take(10) {
        tracing::warn!(%txid, reason, "a file could not be deleted; it will be tried again");
    }
    metrics::blobs(&done, clock.now_ms().saturating_sub(started));
    Ok(done)
}
