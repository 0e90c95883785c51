//! What the commands over the pruner print.

use std::collections::BTreeMap;

use serde::Serialize;
use utxokeep_core::Txid;

use crate::{
    cli::output::{Human, Lines},
    grpc::proto,
};

/// A word of the contract without what it begins with, in lower case.
fn word(name: &str, prefix: &str) -> String {
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
    height: u32,
    state: String,
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

/// What a pruner is doing.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    ready: bool,
    faults: BTreeMap<String, String>,
    paused: bool,
    trigger: String,
    running: Option<Job>,
    examined: u64,
    deleted: u64,
    pending_height: Option<u32>,
    completed_height: Option<u32>,
    persisted_height: Option<u32>,
    backlog_state: String,
    lag_blocks: u32,
    failed_runs: u32,
    headroom_ratio: Option<f64>,
}

impl Status {
    pub(super) fn new(
        status: proto::PrunerStatusResponse,
        health: proto::PrunerHealthResponse,
    ) -> Self {
        let fault = |one: proto::PrunerDependency| Some((one.name, one.fault?));
        let backlog_state = status.backlog_state().as_str_name();
        Self {
            ready: health.is_ready,
            faults: health.dependencies.into_iter().filter_map(fault).collect(),
            paused: status.is_paused,
            trigger: word(status.trigger().as_str_name(), "PRUNER_TRIGGER_MODE_"),
            backlog_state: word(backlog_state, "PRUNER_BACKLOG_STATE_").to_uppercase(),
            running: status.running.map(Job::from),
            examined: status.examined,
            deleted: status.deleted,
            pending_height: status.pending_height,
            completed_height: status.completed_height,
            persisted_height: status.persisted_height,
            lag_blocks: status.lag_blocks,
            failed_runs: status.failed_runs,
            headroom_ratio: status.headroom_ratio,
        }
    }
}

impl Human for Status {
    fn describe(&self, lines: &mut Lines) {
        lines.field("ready", if self.ready { "yes" } else { "no" });
        for (name, fault) in &self.faults {
            lines.row(format!("  {name}: {fault}"));
        }
        lines.field("paused", if self.paused { "yes" } else { "no" });
        match &self.running {
            Some(job) => lines.field(
                "running",
                format_args!(
                    "height {}, {}: {} looked at, {} deleted",
                    job.height, job.state, self.examined, self.deleted
                ),
            ),
            None => lines.field("running", "no"),
        };
        lines
            .field("started by", &self.trigger)
            .optional("waiting height", self.pending_height)
            .optional("completed height", self.completed_height)
            .optional("persisted height", self.persisted_height)
            .field("backlog", &self.backlog_state)
            .field("lag", format_args!("{} blocks", self.lag_blocks))
            .field("failed runs", self.failed_runs);
        if let Some(ratio) = self.headroom_ratio {
            lines.field("time used", format_args!("{:.0} %", ratio * 100.0));
        }
    }
}

#[derive(Debug, Serialize)]
struct Blocking {
    reason: String,
    child: Option<String>,
    until_height: Option<u32>,
}

/// Why a transaction is still there.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    txid: String,
    height: u32,
    can_be_deleted: bool,
    blocking: Vec<Blocking>,
}

impl Explained {
    pub(super) fn new(txid: Txid, answer: proto::PrunerExplainResponse) -> Self {
        let child = |bytes: Vec<u8>| {
            <[u8; 32]>::try_from(bytes).ok().map(|bytes| Txid::from_bytes(bytes).to_string())
        };
        let one = |fact: proto::PrunerBlocking| Blocking {
            reason: fact.reason,
            child: fact.child.and_then(child),
            until_height: fact.until_height,
        };
        Self {
            txid: txid.to_string(),
            height: answer.height,
            can_be_deleted: answer.can_be_deleted,
            blocking: answer.blocking.into_iter().map(one).collect(),
        }
    }
}

impl Human for Explained {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("transaction", &self.txid)
            .field("asked at", format_args!("height {}", self.height));
        if self.can_be_deleted {
            lines.field("verdict", "can be deleted");
            return;
        }
        lines.field("verdict", "is kept, because:");
        for fact in &self.blocking {
            let child = fact.child.as_ref().map_or_else(String::new, |txid| format!(" {txid}"));
            let until = fact.until_height;
            let until = until.map_or_else(String::new, |height| format!(", until height {height}"));
            lines.row(format!("  {}{child}{until}", fact.reason));
        }
    }
}

#[derive(Debug, Serialize)]
struct Age {
    age_blocks_min: u32,
    records: u64,
}

/// What is past due.
#[derive(Debug, Serialize)]
pub(super) struct Backlog {
    height: u32,
    records: u64,
    oldest_height: Option<u32>,
    ages: Vec<Age>,
}

impl From<proto::PrunerBacklogResponse> for Backlog {
    fn from(answer: proto::PrunerBacklogResponse) -> Self {
        let age = |age: proto::PrunerAge| Age {
            age_blocks_min: age.age_blocks_min,
            records: age.records,
        };
        Self {
            height: answer.height,
            records: answer.records,
            oldest_height: answer.oldest_height,
            ages: answer.ages.into_iter().map(age).collect(),
        }
    }
}

impl Human for Backlog {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("height", self.height)
            .field("past due", self.records)
            .optional("oldest since", self.oldest_height.map(|height| format!("height {height}")));
        for age in &self.ages {
            lines.row(format!("  {:>6} blocks or more  {}", age.age_blocks_min, age.records));
        }
    }
}

/// What came back.
#[derive(Debug, Serialize)]
pub(super) struct Restored {
    pub(super) restored: u64,
}

impl Human for Restored {
    fn describe(&self, lines: &mut Lines) {
        lines.field("restored", self.restored);
    }
}

/// Whether a pruner is paused.
#[derive(Debug, Serialize)]
pub(super) struct Paused {
    pub(super) paused: bool,
}

impl Human for Paused {
    fn describe(&self, lines: &mut Lines) {
        lines.field("paused", if self.paused { "yes" } else { "no" });
    }
}
