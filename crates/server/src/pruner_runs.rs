//! Runs of the pruner as every face shows them.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use utxokeep_proto::v1 as proto;

/// A word of the contract without what it begins with, in lower case.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// One thing that keeps the next run of the pruner from starting.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PrunerWaiting)]
pub(crate) struct Waits {
    /// A word with a stable meaning.
    #[schema(example = "persister_behind")]
    pub(crate) reason: String,
    /// The same in a sentence, with heights, and what helps.
    pub(crate) detail: String,
}

impl From<proto::PrunerWaiting> for Waits {
    fn from(one: proto::PrunerWaiting) -> Self {
        Self { reason: one.reason, detail: one.detail }
    }
}

/// What a run did, or would do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PrunerReport)]
pub(crate) struct Report {
    /// Its height.
    pub(crate) height: u32,
    /// Nothing was changed.
    pub(crate) dry_run: bool,
    /// It came to its end.
    pub(crate) complete: bool,
    /// Due records that a verdict was taken over.
    pub(crate) examined: u64,
    /// Records deleted.
    pub(crate) deleted: u64,
    /// Known in a dry run only.
    pub(crate) bytes: Option<u64>,
    /// Outputs deleted with them.
    pub(crate) outputs_deleted: Option<u64>,
    /// Markers left on surviving parents.
    pub(crate) parents_marked: Option<u64>,
    /// Records kept, by reason.
    pub(crate) kept: BTreeMap<String, u64>,
    /// Records that do not decode, and were kept.
    pub(crate) unreadable: u64,
    /// Old unmined transactions that were found.
    pub(crate) old_unmined: u64,
    /// Their parents that were preserved.
    pub(crate) parents_preserved: u64,
    /// Preservations that ended.
    pub(crate) preservations_expired: u64,
    /// Attempts after faults of the store.
    pub(crate) retries: u64,
    /// Copies of deleted records that became too old.
    pub(crate) undo_trimmed: u64,
    /// How long each phase took.
    pub(crate) took_ms: BTreeMap<String, u64>,
}

impl Report {
    pub(crate) fn new(report: proto::PrunerReport, dry_run: bool) -> Self {
        let kept = report.kept.into_iter().map(|kept| (kept.reason, kept.records));
        let phases = report.phases.into_iter().map(|phase| (phase.name, phase.took_ms));
        Self {
            height: report.height,
            dry_run,
            complete: report.is_complete,
            examined: report.examined,
            deleted: report.deleted,
            bytes: dry_run.then_some(report.bytes),
            outputs_deleted: (!dry_run).then_some(report.outputs_deleted),
            parents_marked: (!dry_run).then_some(report.parents_marked),
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

/// One run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PrunerJob)]
pub(crate) struct Job {
    /// Its number; they rise.
    pub(crate) number: u64,
    /// Its height.
    pub(crate) height: u32,
    /// `waiting`, `running`, `completed`, `skipped`, `cancelled` or `failed`.
    pub(crate) state: String,
    /// When it started, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// When it ended.
    pub(crate) ended_ms: Option<u64>,
    /// Why there was none, if it was skipped.
    pub(crate) skip_reason: Option<String>,
    /// What went wrong, if it failed.
    pub(crate) error: Option<String>,
    /// What it did.
    pub(crate) report: Option<Report>,
    /// Files deleted after it; known to the command line only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files_deleted: Option<u64>,
    /// Files that could not be deleted yet, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files_waiting: Option<u64>,
}

impl From<proto::PrunerJob> for Job {
    fn from(job: proto::PrunerJob) -> Self {
        Self {
            number: job.number,
            height: job.height,
            state: word(job.state().as_str_name(), "PRUNER_JOB_STATE_"),
            started_ms: job.started_ms,
            ended_ms: job.ended_ms,
            skip_reason: job.skip_reason,
            error: job.error,
            report: job.report.map(|report| Report::new(report, false)),
            files_deleted: None,
            files_waiting: None,
        }
    }
}

impl Job {
    /// State, and why.
    pub(crate) fn outcome(&self) -> String {
        let why = self.skip_reason.as_ref().or(self.error.as_ref());
        why.map_or_else(|| self.state.clone(), |why| format!("{}: {why}", self.state))
    }
}

/// The last runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PrunerJobs)]
pub(crate) struct Jobs {
    /// Newest first.
    pub(crate) jobs: Vec<Job>,
}

impl From<proto::PrunerJobsResponse> for Jobs {
    fn from(answer: proto::PrunerJobsResponse) -> Self {
        Self { jobs: answer.jobs.into_iter().map(Job::from).collect() }
    }
}
