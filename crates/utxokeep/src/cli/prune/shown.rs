//! What the commands over the pruner print of runs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    cli::output::{Human, Lines},
    grpc::proto,
};

/// A word of the contract without what it begins with, in lower case.
pub(super) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// What a run did, or would do.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    height: u32,
    dry_run: bool,
    complete: bool,
    examined: u64,
    deleted: u64,
    /// Known in a dry run only.
    bytes: Option<u64>,
    outputs_deleted: Option<u64>,
    parents_marked: Option<u64>,
    kept: BTreeMap<String, u64>,
    unreadable: u64,
    old_unmined: u64,
    parents_preserved: u64,
    preservations_expired: u64,
    retries: u64,
    undo_trimmed: u64,
    took_ms: BTreeMap<String, u64>,
}

impl Report {
    pub(super) fn new(report: proto::PrunerReport, dry_run: bool) -> Self {
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

impl Human for Report {
    fn describe(&self, lines: &mut Lines) {
        lines.field("height", self.height).field("due", self.examined);
        match self.bytes {
            Some(bytes) => lines
                .field("would be deleted", format_args!("{} ({bytes} bytes)", self.deleted))
                .field("would be kept", self.examined - self.deleted),
            None => {
                lines.field("deleted", self.deleted).field("kept", self.examined - self.deleted)
            }
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
        if !self.complete {
            lines.field("complete", "no; the next run goes on");
        }
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Job {
    number: u64,
    pub(super) height: u32,
    pub(super) state: String,
    started_ms: u64,
    ended_ms: Option<u64>,
    skip_reason: Option<String>,
    error: Option<String>,
    report: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files_deleted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files_waiting: Option<u64>,
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
    fn outcome(&self) -> String {
        let why = self.skip_reason.as_ref().or(self.error.as_ref());
        why.map_or_else(|| self.state.clone(), |why| format!("{}: {why}", self.state))
    }
}

impl Human for Job {
    fn describe(&self, lines: &mut Lines) {
        match &self.report {
            Some(report) => report.describe(lines),
            None => {
                lines.field("height", self.height);
            }
        }
        lines.field("state", self.outcome());
        for (label, count) in
            [("files deleted", self.files_deleted), ("files waiting", self.files_waiting)]
        {
            if let Some(count) = count.filter(|count| *count > 0) {
                lines.field(label, count);
            }
        }
    }
}

/// The last runs.
#[derive(Debug, Serialize)]
pub(super) struct Jobs {
    jobs: Vec<Job>,
}

impl From<proto::PrunerJobsResponse> for Jobs {
    fn from(answer: proto::PrunerJobsResponse) -> Self {
        Self { jobs: answer.jobs.into_iter().map(Job::from).collect() }
    }
}

impl Human for Jobs {
    fn describe(&self, lines: &mut Lines) {
        if self.jobs.is_empty() {
            lines.row("no run yet");
        }
        for job in &self.jobs {
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
