//! Metrics of the pruner: the one list, with Teranode's name for each, and the functions that count.

use metrics::{counter, gauge, histogram};
use utxokeep_core::{
    Height, MetricKind, metric_list,
    node::{ChainReport, Heights, KeepReason, Witness},
};
use utxokeep_txstore::{BlobsDeleted, PastDue};

use crate::{
    backlog::BacklogStatus,
    gate::SkipReason,
    report::{Phase, RunReport},
};

metric_list! {
    PHASE_SECONDS = "utxokeep_pruner_phase_seconds", Histogram,
        "pruner_duration_seconds, utxo_cleanup_batch_duration_seconds",
        "Time of a phase of a run, by phase.";
    SKIPPED = "utxokeep_pruner_skipped_total", Counter, "pruner_skipped_total",
        "Heights without a run, by reason.";
    ERRORS = "utxokeep_pruner_errors_total", Counter,
        "pruner_errors_total, utxo_pruner_batch_query_errors_total, utxo_pruner_parent_update_failures_total",
        "Runs that failed, by phase.";
    INCOMPLETE = "utxokeep_pruner_incomplete_runs_total", Counter, "pruner_incomplete_runs_total",
        "Runs that did not come to their end.";
    EXAMINED = "utxokeep_pruner_records_examined_total", Counter, "",
        "Due records that a verdict was taken over.";
    DELETED = "utxokeep_pruner_records_deleted_total", Counter,
        "pruner_deleting_children_total, utxo_pruner_records_deleted_total, pruner_processed_total",
        "Records deleted.";
    OUTPUTS = "utxokeep_pruner_outputs_deleted_total", Counter, "",
        "Outputs deleted with them.";
    KEPT = "utxokeep_pruner_records_kept_total", Counter,
        "utxo_pruner_records_deleted_skipped_total, utxo_pruner_input_resolution_errors_total (reason body_missing)",
        "Due records that were kept, by reason; one that stays is counted in every run.";
    KEPT_LAST = "utxokeep_pruner_last_run_records_kept", Gauge, "",
        "Due records that the last run kept, by reason.";
    UNREADABLE = "utxokeep_pruner_records_unreadable_total", Counter,
        "utxo_pruner_record_errors_total",
        "Due records that do not decode, and were kept.";
    MARKED = "utxokeep_pruner_parents_marked_total", Counter,
        "pruner_updating_parents_total, utxo_pruner_parents_updated_total",
        "Markers left on surviving parents.";
    PRESERVED = "utxokeep_pruner_parents_preserved_total", Counter, "",
        "Parents of old unmined transactions that were preserved.";
    OLD_UNMINED = "utxokeep_pruner_old_unmined", Gauge, "",
        "Old unmined transactions that the last run found.";
    EXPIRED = "utxokeep_pruner_preservations_expired_total", Counter, "",
        "Preservations that ended.";
    RETRIES = "utxokeep_pruner_retries_total", Counter,
        "utxo_pruner_retry_attempts_total, utxo_pruner_timeout_events_total",
        "Attempts after faults of the store.";
    HEIGHT = "utxokeep_pruner_height", Gauge, "pruner_current_height",
        "Height of the present or last run.";
    COMPLETED_HEIGHT = "utxokeep_pruner_completed_height", Gauge, "pruner_last_completed_height",
        "Newest height that is complete.";
    ACTIVE = "utxokeep_pruner_active", Gauge, "pruner_active",
        "1 while a run goes on.";
    RATE = "utxokeep_pruner_run_records_per_second", Gauge, "pruner_last_run_records_per_second",
        "Records per second that the last run looked at.";
    LAG = "utxokeep_pruner_lag_blocks", Gauge, "pruner_lag_blocks",
        "Blocks asked for and not complete.";
    STATE = "utxokeep_pruner_backlog_state", Gauge, "pruner_backlog_state",
        "0 OK, 1 AT_RISK, 2 BEHIND.";
    HEADROOM = "utxokeep_pruner_headroom_ratio", Gauge, "pruner_headroom_ratio",
        "Time of a run over the time between blocks.";
    PAST_DUE = "utxokeep_pruner_past_due_records", Gauge, "",
        "Records past due, by their least age in blocks; taken when somebody asks for the backlog.";
    BLOBS = "utxokeep_pruner_blobs_total", Counter,
        "pruner_blob_deletion_{processed,not_found,cancelled,errors}_total, utxo_pruner_external_files_deleted_total",
        "Files of deleted bodies, by outcome: deleted, missing, wanted, failed.";
    BLOB_SECONDS = "utxokeep_pruner_blob_seconds", Histogram, "pruner_blob_deletion_duration_seconds",
        "Time of one pass over the queue of files.";
    BLOBS_WAITING = "utxokeep_pruner_blobs_waiting", Gauge,
        "pruner_blob_deletion_pending, pruner_blob_deletion_scheduled_total",
        "Files that could not be deleted yet.";
    NEWEST = "utxokeep_pruner_newest_height", Gauge, "",
        "Newest height of the chain that is believed.";
    HELD_HEIGHT = "utxokeep_pruner_held_height", Gauge, "",
        "Height that one witness reported far above the chain and no second one yet; 0 for none.";
    HELD = "utxokeep_pruner_reports_held_total", Counter, "",
        "Reports of heights far above the chain, by source.";
    LAST_EVENT = "utxokeep_pruner_last_event_seconds", Gauge, "",
        "When the node last reported something, in seconds since 1970; its age is `time()` less this.";
    RESTORED = "utxokeep_pruner_restored_total", Counter, "",
        "Deleted records that were brought back.";
}

/// Tells the recorder what each metric means.
pub(crate) fn describe() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
}

pub(crate) fn skipped(reason: SkipReason) {
    counter!(SKIPPED, "reason" => reason.name()).increment(1);
}

pub(crate) fn failed(phase: Phase) {
    counter!(ERRORS, "phase" => phase.name()).increment(1);
}

pub(crate) fn started(height: Height) {
    gauge!(ACTIVE).set(1.0);
    gauge!(HEIGHT).set(f64::from(height.get()));
}

/// A run is over, complete or not.
#[allow(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) fn ended(report: &RunReport) {
    gauge!(ACTIVE).set(0.0);
    for (phase, ms) in &report.took_ms {
        histogram!(PHASE_SECONDS, "phase" => phase.name()).record(*ms as f64 / 1e3);
    }
    counter!(EXAMINED).increment(report.examined);
    counter!(DELETED).increment(report.deleted);
    counter!(OUTPUTS).increment(report.outputs_deleted);
    counter!(MARKED).increment(report.parents_marked);
    counter!(PRESERVED).increment(report.parents_preserved);
    counter!(EXPIRED).increment(report.expired);
    counter!(RETRIES).increment(report.retries);
    counter!(UNREADABLE).increment(report.unreadable);
    gauge!(OLD_UNMINED).set(report.old_unmined as f64);
    for reason in KeepReason::ALL {
        let count = report.kept.get(reason).copied().unwrap_or(0);
        counter!(KEPT, "reason" => reason.name()).increment(count);
        gauge!(KEPT_LAST, "reason" => reason.name()).set(count as f64);
    }
    if !report.is_complete {
        counter!(INCOMPLETE).increment(1);
    }
    let seconds = report.took_ms.get(&Phase::Delete).map_or(0.0, |ms| *ms as f64 / 1e3);
    gauge!(RATE).set(if seconds > 0.0 { report.examined as f64 / seconds } else { 0.0 });
}

/// A report was held.
pub(crate) fn held(report: &ChainReport) {
    let source = match report {
        ChainReport::Newest(sighting) => sighting.by,
        _ => Witness::Persister,
    };
    counter!(HELD, "source" => source.name()).increment(1);
}

/// Where the chain is.
#[allow(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) fn heights(heights: &Heights) {
    let height = |height: Option<Height>| f64::from(height.map_or(0, Height::get));
    gauge!(NEWEST).set(height(heights.newest()));
    gauge!(HELD_HEIGHT).set(height(heights.held().map(|held| held.height)));
    gauge!(COMPLETED_HEIGHT).set(height(heights.completed()));
    if let Some(ms) = heights.heard_ms() {
        gauge!(LAST_EVENT).set(ms as f64 / 1e3);
    }
}

pub(crate) fn backlog(status: &BacklogStatus) {
    gauge!(LAG).set(f64::from(status.lag_blocks));
    gauge!(STATE).set(f64::from(status.state.number()));
    gauge!(HEADROOM).set(status.headroom_ratio.unwrap_or(0.0));
}

#[allow(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) fn past_due(found: &PastDue) {
    for (age, count) in &found.by_age {
        gauge!(PAST_DUE, "age_blocks_min" => age.to_string()).set(*count as f64);
    }
}

#[allow(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) fn blobs(done: &BlobsDeleted, took_ms: u64) {
    let failed = done.failed.len() as u64;
    for (outcome, count) in [
        ("deleted", done.deleted),
        ("missing", done.missing),
        ("wanted", done.wanted),
        ("failed", failed),
    ] {
        counter!(BLOBS, "outcome" => outcome).increment(count);
    }
    histogram!(BLOB_SECONDS).record(took_ms as f64 / 1e3);
    gauge!(BLOBS_WAITING).set(failed as f64);
}

pub(crate) fn restored(count: u64) {
    counter!(RESTORED).increment(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_teranodes_have_one_here() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        let theirs: String = METRICS.iter().map(|metric| metric.teranode).collect();
        for name in ["duration_seconds", "skipped_total", "errors_total", "lag_blocks", "active"] {
            assert!(theirs.contains(name), "{name}");
        }
    }
}
