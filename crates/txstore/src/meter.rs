//! What the node store counts, whatever its engine. Names are ours; the list says what Teranode calls
//! each.

use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use utxokeep_core::metric_list;

use crate::error::StoreError;

metric_list! {
    CREATED = "utxokeep_txstore_create_batch_items", Histogram, "utxo_create_batch_size",
        "Transactions in one call that stores some, in items.";
    BLOB_SECONDS = "utxokeep_txstore_blob_write_seconds", Histogram, "utxo_create_external",
        "Time to write one body to the blob store, by outcome: written or failed.";
    ERRORS = "utxokeep_txstore_errors_total", Counter, "utxo_store_errors",
        "Calls that failed below the rules, by error: engine, records, blob, blob_missing, in_progress, \
         contended, commit_unknown, corrupt, disagreement, too_many_items.";
    LOCKS = "utxokeep_txstore_creation_locks_total", Counter, "",
        "Creation locks of transactions with several records, by outcome: taken, released, held_by_other, \
         expired (its time was over before it could be released).";
    COMPLETED = "utxokeep_txstore_creations_completed_total", Counter, "",
        "Transactions with several records whose creation came to its end, by how: at once, or later \
         (an earlier attempt had left records).";
    NOT_CLEARED = "utxokeep_txstore_creations_not_cleared_total", Counter, "",
        "Transactions with several records that are stored and still say creating, because the mark \
         could not be cleared; creating them again or mining them clears it.";
    ATTEMPTS_LOST = "utxokeep_txstore_attempts_lost_total", Counter, "",
        "Attempts to commit that were decided again because others changed a record meanwhile; on a \
         cluster only.";
    CALLS_ENDED = "utxokeep_txstore_calls_ended_total", Counter, "",
        "Calls over several records that their program had left, and that were finished or taken back.";
}

/// A call stores so many transactions.
pub(crate) fn creating(items: usize) {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let items = items as f64;
    histogram!(CREATED).record(items);
}

/// Notes an error that ended a call.
pub(crate) fn noted<T>(outcome: Result<T, StoreError>) -> Result<T, StoreError> {
    outcome.inspect_err(|error| counter!(ERRORS, "error" => name(error)).increment(1))
}

/// Notes how long a body took to its blob store.
pub(crate) fn blob_written(begin: Instant, outcome: &Result<(), StoreError>) {
    let seconds = begin.elapsed().max(Duration::from_nanos(1)).as_secs_f64();
    let outcome = if outcome.is_ok() { "written" } else { "failed" };
    histogram!(BLOB_SECONDS, "outcome" => outcome).record(seconds);
}

pub(crate) fn creation_lock(outcome: &'static str) {
    counter!(LOCKS, "outcome" => outcome).increment(1);
}

pub(crate) fn creation_completed(how: &'static str) {
    counter!(COMPLETED, "how" => how).increment(1);
}

pub(crate) fn creation_not_cleared() {
    counter!(NOT_CLEARED).increment(1);
}

pub(crate) fn attempts_lost(count: usize) {
    if count > 0 {
        counter!(ATTEMPTS_LOST).increment(count as u64);
    }
}

pub(crate) fn calls_ended(count: u64) {
    if count > 0 {
        counter!(CALLS_ENDED).increment(count);
    }
}

const fn name(error: &StoreError) -> &'static str {
    match error {
        StoreError::Kv(_) | StoreError::Sql(_) => "engine",
        StoreError::Records(_) => "records",
        StoreError::InProgress => "in_progress",
        StoreError::CommitUnknown { .. } => "commit_unknown",
        StoreError::Contended => "contended",
        StoreError::Blob { .. } | StoreError::NoBlobStore(_) => "blob",
        StoreError::BlobMissing(_) => "blob_missing",
        StoreError::Corrupt(_) | StoreError::PageMissing { .. } => "corrupt",
        StoreError::Disagreement(_) => "disagreement",
        StoreError::TooManyItems { .. } => "too_many_items",
        StoreError::MovedAway { .. } => "moved_away",
    }
}
