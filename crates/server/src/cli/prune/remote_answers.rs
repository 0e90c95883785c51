//! Answers of a pruner that runs elsewhere, in the words of the operations.

use std::sync::{Mutex, MutexGuard, PoisonError};

use utxokeep::ops::{
    pruner::{
        BacklogAge, BacklogAnswer, PruneJob, PruneJobs, PruneReport, PrunerReadError, PrunerReads,
        PrunerStatusAnswer, PrunerWaiting,
    },
    transactions::{Explanation, KeptFor},
};
use utxokeep_core::{Height, Txid};

use super::remote::Remote;
use crate::{cli::CliError, grpc::proto};

/// A running pruner that is asked the questions of the table.
pub(in crate::cli) struct RemoteReads(Mutex<Remote>);

impl RemoteReads {
    pub(in crate::cli) fn new(remote: Remote) -> Self {
        Self(Mutex::new(remote))
    }

    fn remote(&self) -> MutexGuard<'_, Remote> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<CliError> for PrunerReadError {
    fn from(error: CliError) -> Self {
        Self::Elsewhere { kind: error.kind(), message: error.to_string() }
    }
}

impl PrunerReads for RemoteReads {
    fn status(&self) -> Result<PrunerStatusAnswer, PrunerReadError> {
        let mut remote = self.remote();
        let health = remote.health(proto::PrunerHealthRequest {})?;
        Ok(status(remote.status(proto::PrunerStatusRequest {})?, health))
    }

    fn jobs(&self, runs_max: u32) -> Result<PruneJobs, PrunerReadError> {
        let answer = self.remote().jobs(proto::PrunerJobsRequest { limit: runs_max })?;
        Ok(PruneJobs { items: answer.jobs.into_iter().map(job).collect() })
    }

    fn dry_run(&self, height: Option<Height>) -> Result<PruneReport, PrunerReadError> {
        let request = proto::PrunerDryRunRequest { height: height.map(Height::get) };
        let answer = self.remote().dry_run(request)?;
        Ok(report(answer.report.unwrap_or_default(), true))
    }

    fn backlog(&self, height: Option<Height>) -> Result<BacklogAnswer, PrunerReadError> {
        let request = proto::PrunerBacklogRequest { height: height.map(Height::get) };
        let answer = self.remote().backlog(request)?;
        let ages = answer.ages.into_iter();
        let ages =
            ages.map(|age| BacklogAge { age_blocks_min: age.age_blocks_min, records: age.records });
        Ok(BacklogAnswer {
            height: answer.height,
            records: answer.records,
            oldest_height: answer.oldest_height,
            ages: ages.collect(),
        })
    }

    fn explain(&self, txid: &Txid, height: Option<Height>) -> Result<Explanation, PrunerReadError> {
        let answer = self.remote().explain(proto::PrunerExplainRequest {
            txid: txid.as_bytes().to_vec(),
            height: height.map(Height::get),
        })?;
        let blocking = answer.blocking.into_iter().map(|fact| KeptFor {
            reason: fact.reason,
            child: fact.child.and_then(|id| Txid::from_slice(&id)).map(|txid| txid.to_string()),
            until_height: fact.until_height,
        });
        Ok(Explanation {
            tx_hash: txid.to_string(),
            height: answer.height,
            can_be_deleted: answer.can_be_deleted,
            blocking: blocking.collect(),
        })
    }
}

/// A word of the contract without what it begins with, in lower case.
fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

fn status(
    status: proto::PrunerStatusResponse,
    health: proto::PrunerHealthResponse,
) -> PrunerStatusAnswer {
    let fault = |one: proto::PrunerDependency| Some((one.name, one.fault?));
    let backlog_state = status.backlog_state().as_str_name();
    let waits_for = status.waits_for.iter();
    let waits_for = waits_for
        .map(|one| PrunerWaiting { reason: one.reason.clone(), detail: one.detail.clone() });
    PrunerStatusAnswer {
        is_ready: health.is_ready,
        faults: health.dependencies.into_iter().filter_map(fault).collect(),
        is_paused: status.is_paused,
        trigger: word(status.trigger().as_str_name(), "PRUNER_TRIGGER_MODE_"),
        backlog_state: word(backlog_state, "PRUNER_BACKLOG_STATE_").to_uppercase(),
        waits_for: waits_for.collect(),
        running: status.running.map(job),
        last: status.last.map(job),
        examined: status.examined,
        deleted: status.deleted,
        pending_height: status.pending_height,
        completed_height: status.completed_height,
        persisted_height: status.persisted_height,
        newest_height: status.newest_height,
        held_height: status.held_height,
        held_source: status.held_source,
        last_event_ms: status.last_event_ms,
        lag_blocks: status.lag_blocks,
        failed_runs: status.failed_runs,
        headroom_ratio: status.headroom_ratio,
    }
}

pub(super) fn job(job: proto::PrunerJob) -> PruneJob {
    PruneJob {
        number: job.number,
        height: job.height,
        state: word(job.state().as_str_name(), "PRUNER_JOB_STATE_"),
        started_ms: job.started_ms,
        ended_ms: job.ended_ms,
        skip_reason: job.skip_reason,
        error: job.error,
        report: job.report.map(|done| report(done, false)),
        files_deleted: None,
        files_waiting: None,
    }
}

fn report(report: proto::PrunerReport, is_dry_run: bool) -> PruneReport {
    let kept = report.kept.into_iter().map(|kept| (kept.reason, kept.records));
    let phases = report.phases.into_iter().map(|phase| (phase.name, phase.took_ms));
    PruneReport {
        height: report.height,
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
