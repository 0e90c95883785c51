//! Runs of the pruner, as every face shows them.

use std::collections::BTreeMap;

use serde::Serialize;
use utxokeep_pruner::{Job, JobState, RunReport};

use crate::ops::{Answer, Lines};

/// What a run did, or would do.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = PrunerReport))]
pub struct PruneReport {
    /// Height it was for.
    pub height: u32,
    /// Whether nothing was changed.
    pub is_dry_run: bool,
    /// Whether it came to its end.
    pub is_complete: bool,
    /// Due records that a verdict was taken over.
    pub examined: u64,
    /// Records deleted.
    pub deleted: u64,
    /// Bytes of what would go; known in a dry run only.
    pub bytes: Option<u64>,
    /// Outputs deleted with the records.
    pub outputs_deleted: Option<u64>,
    /// Markers left on surviving parents.
    pub parents_marked: Option<u64>,
    /// Records kept, by reason.
    pub kept: BTreeMap<String, u64>,
    /// Records that do not decode, and were kept.
    pub unreadable: u64,
    /// Old unmined transactions that were found.
    pub old_unmined: u64,
    /// Their parents that were preserved.
    pub parents_preserved: u64,
    /// Preservations that ended.
    pub preservations_expired: u64,
    /// Attempts after faults of the store.
    pub retries: u64,
    /// Copies of deleted records that became too old.
    pub undo_trimmed: u64,
    /// Milliseconds of each phase.
    pub took_ms: BTreeMap<String, u64>,
}

impl PruneReport {
    /// Describes what a run did, or would do.
    #[must_use]
    pub fn new(report: &RunReport, is_dry_run: bool) -> Self {
        let kept = report.kept.iter().map(|(reason, records)| (reason.name().to_owned(), *records));
        let phases = report.took_ms.iter().map(|(phase, ms)| (phase.name().to_owned(), *ms));
        Self {
            height: report.height.get(),
            is_dry_run,
            is_complete: report.is_complete,
            examined: report.examined,
            deleted: report.deleted,
            bytes: is_dry_run.then_some(report.bytes),
            outputs_deleted: (!is_dry_run).then_some(report.outputs_deleted),
            parents_marked: (!is_dry_run).then_some(report.parents_marked),
            kept: kept.collect(),
            unreadable: report.unreadable,
            old_unmined: report.old_unmined,
            parents_preserved: report.parents_preserved,
            preservations_expired: report.expired,
            retries: report.retries,
            undo_trimmed: report.undo_trimmed,
            took_ms: phases.collect(),
        }
    }
}

impl Answer for PruneReport {
    fn show(&self, lines: &mut Lines) {
        lines.field("height", self.height).field("due", self.examined);
        match self.bytes {
            Some(bytes) => lines
                .field("would be deleted", format_args!("{} ({bytes} bytes)", self.deleted))
                .field("would be kept", self.examined.saturating_sub(self.deleted)),
            None => lines
                .field("deleted", self.deleted)
                .field("kept", self.examined.saturating_sub(self.deleted)),
        };
        for (reason, records) in &self.kept {
            lines.row(format!("  {reason:<16} {records}"));
        }
        let optional = [
            ("unreadable, kept", self.unreadable),
            ("outputs deleted", self.outputs_deleted.unwrap_or(0)),
            ("parents marked", self.parents_marked.unwrap_or(0)),
            ("old unmined", self.old_unmined),
            ("parents preserved", self.parents_preserved),
            ("preservations ended", self.preservations_expired),
            ("attempts again", self.retries),
        ];
        for (label, count) in optional {
            if count > 0 {
                lines.field(label, count);
            }
        }
        if !self.took_ms.is_empty() {
            lines.field("took", format_args!("{} ms", self.took_ms.values().sum::<u64>()));
        }
        if !self.is_complete {
            lines.field("complete", "no; the next run goes on");
        }
    }
}

/// One run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = PrunerJob))]
pub struct PruneJob {
    /// Number of the run; numbers rise.
    pub number: u64,
    /// Height it is for.
    pub height: u32,
    /// `waiting`, `running`, `completed`, `skipped`, `cancelled` or `failed`.
    #[cfg_attr(feature = "schema", schema(example = "completed"))]
    pub state: String,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Why there was none, if it was skipped.
    pub skip_reason: Option<String>,
    /// What went wrong, if it failed.
    pub error: Option<String>,
    /// What it did.
    pub report: Option<PruneReport>,
    /// Files deleted after it; known to the command that ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub files_deleted: Option<u64>,
    /// Files that could not be deleted yet, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub files_waiting: Option<u64>,
}

impl From<&Job> for PruneJob {
    fn from(job: &Job) -> Self {
        let report = match &job.state {
            JobState::Completed(report)
            | JobState::Cancelled(report)
            | JobState::Failed { report, .. } => Some(PruneReport::new(report, false)),
            JobState::Waiting | JobState::Running | JobState::Skipped(_) => None,
        };
        let (skip_reason, error) = match &job.state {
            JobState::Skipped(reason) => (Some(reason.name().to_owned()), None),
            JobState::Failed { error, .. } => (None, Some(error.clone())),
            _ => (None, None),
        };
        Self {
            number: job.number,
            height: job.height.get(),
            state: job.state.name().to_owned(),
            started_ms: job.started_ms,
            ended_ms: job.ended_ms,
            skip_reason,
            error,
            report,
            files_deleted: None,
            files_waiting: None,
        }
    }
}

impl PruneJob {
    /// State, and why.
    #[must_use]
    pub fn outcome(&self) -> String {
        let why = self.skip_reason.as_ref().or(self.error.as_ref());
        why.map_or_else(|| self.state.clone(), |why| format!("{}: {why}", self.state))
    }
}

impl Answer for PruneJob {
    fn show(&self, lines: &mut Lines) {
        match &self.report {
            Some(report) => report.show(lines),
            None => _ = lines.field("height", self.height),
        }
        lines.field("state", self.outcome());
        let files = [("files deleted", self.files_deleted), ("files waiting", self.files_waiting)];
        for (label, count) in files {
            if let Some(count) = count.filter(|count| *count > 0) {
                lines.field(label, count);
            }
        }
    }
}

/// The last runs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = PrunerJobs))]
pub struct PruneJobs {
    /// Runs, newest first.
    pub items: Vec<PruneJob>,
}

impl Answer for PruneJobs {
    fn show(&self, lines: &mut Lines) {
        if self.items.is_empty() {
            lines.row("no run yet");
        }
        for job in &self.items {
            let took = job.ended_ms.map_or_else(
                || "       -".to_owned(),
                |ended| format!("{:>5} ms", ended.saturating_sub(job.started_ms)),
            );
            let done = job.report.as_ref().map_or_else(String::new, |report| {
                format!(", {} of {} deleted", report.deleted, report.examined)
            });
            let (number, height) = (job.number, job.height);
            lines.row(format!("{number:>6}  height {height:>9}  {took}  {}{done}", job.outcome()));
        }
    }
}
