//! From the types of the pruner to messages. The command line shows the same messages.

use std::collections::BTreeMap;

use utxokeep_core::{
    Height, Txid,
    node::{Blocking, Heights, KeepReason, Waiting},
};
use utxokeep_pruner::{
    BacklogState, Health, Job, JobState, Phase, PrunerError, PrunerStatus, RunReport, SkipReason,
    TriggerMode,
};
use utxokeep_txstore::{PastDue, RestoredHeight};

use super::{proto, refusal, to_proto::txid};

pub(crate) fn health(health: &Health) -> proto::PrunerHealthResponse {
    let dependencies = health.dependencies.iter().map(|dependency| proto::PrunerDependency {
        name: dependency.name.to_owned(),
        fault: dependency.fault.clone(),
    });
    proto::PrunerHealthResponse {
        is_ready: health.is_ready(),
        dependencies: dependencies.collect(),
        waits_for: health.waits_for.iter().map(waiting).collect(),
    }
}

/// What came back of a height, and what did not.
pub(crate) fn restored(done: &RestoredHeight) -> proto::PrunerRestoreResponse {
    let errors =
        done.named.iter().map(|(of, error)| proto::Error { txid: txid(of), ..refusal::of(error) });
    proto::PrunerRestoreResponse {
        restored: done.restored,
        refused: done.refused,
        errors: errors.collect(),
    }
}

/// The same for one transaction.
pub(crate) fn restored_one(
    txid: &Txid,
    answer: Result<bool, PrunerError>,
) -> Result<proto::PrunerRestoreResponse, PrunerError> {
    let done = match answer {
        Err(PrunerError::NotRestored(error)) => {
            RestoredHeight { restored: 0, refused: 1, named: vec![(*txid, error)] }
        }
        answer => RestoredHeight { restored: answer?.into(), ..RestoredHeight::default() },
    };
    Ok(restored(&done))
}

fn waiting(one: &Waiting) -> proto::PrunerWaiting {
    proto::PrunerWaiting { reason: one.name().to_owned(), detail: one.to_string() }
}

pub(crate) fn status(status: &PrunerStatus, mode: TriggerMode) -> proto::PrunerStatusResponse {
    let trigger = match mode {
        TriggerMode::Auto => proto::PrunerTriggerMode::Auto,
        TriggerMode::BlockMined => proto::PrunerTriggerMode::BlockMined,
        TriggerMode::BlockPersisted => proto::PrunerTriggerMode::BlockPersisted,
    };
    let backlog_state = match status.backlog.state {
        BacklogState::Ok => proto::PrunerBacklogState::Ok,
        BacklogState::AtRisk => proto::PrunerBacklogState::AtRisk,
        BacklogState::Behind => proto::PrunerBacklogState::Behind,
    };
    let (examined, deleted) = status.progress;
    let (heights, held) = (&status.heights, status.heights.held());
    proto::PrunerStatusResponse {
        is_paused: status.is_paused,
        trigger: trigger.into(),
        running: status.running.as_ref().map(job),
        last: status.last.as_ref().map(job),
        examined,
        deleted,
        pending_height: status.pending.map(Height::get),
        completed_height: heights.completed().map(Height::get),
        persisted_height: heights.persisted().map(Height::get),
        newest_height: heights.newest().map(Height::get),
        held_height: held.map(|held| held.height.get()),
        held_source: held.map(|held| held.by.name().to_owned()),
        last_event_ms: heights.heard_ms(),
        backlog_state: backlog_state.into(),
        lag_blocks: status.backlog.lag_blocks,
        failed_runs: status.backlog.failed_runs,
        headroom_ratio: status.backlog.headroom_ratio,
        waits_for: status.waits_for.iter().map(waiting).collect(),
    }
}

/// What the pruner knows of the chain after somebody confirmed a height.
pub(crate) fn confirmed(heights: &Heights) -> proto::PrunerConfirmHeightResponse {
    proto::PrunerConfirmHeightResponse {
        newest_height: heights.newest().map(Height::get),
        held_height: heights.held().map(|held| held.height.get()),
    }
}

pub(crate) fn job(job: &Job) -> proto::PrunerJob {
    use proto::PrunerJobState as State;
    let nothing = (None::<SkipReason>, None::<&String>, None::<&RunReport>);
    let (state, (skipped, error, done)) = match &job.state {
        JobState::Waiting => (State::Waiting, nothing),
        JobState::Running => (State::Running, nothing),
        JobState::Completed(report) => (State::Completed, (None, None, Some(report))),
        JobState::Skipped(reason) => (State::Skipped, (Some(*reason), None, None)),
        JobState::Cancelled(report) => (State::Cancelled, (None, None, Some(report))),
        JobState::Failed { report, error } => (State::Failed, (None, Some(error), Some(report))),
    };
    proto::PrunerJob {
        number: job.number,
        height: job.height.get(),
        state: state.into(),
        started_ms: job.started_ms,
        ended_ms: job.ended_ms,
        skip_reason: skipped.map(|reason| reason.name().to_owned()),
        error: error.cloned(),
        report: done.map(report),
    }
}

fn kept(kept: &BTreeMap<KeepReason, u64>) -> Vec<proto::PrunerKept> {
    let one = |(reason, records): (&KeepReason, &u64)| proto::PrunerKept {
        reason: reason.name().to_owned(),
        records: *records,
    };
    kept.iter().map(one).collect()
}

pub(crate) fn report(report: &RunReport) -> proto::PrunerReport {
    let phase = |(phase, took_ms): (&Phase, &u64)| proto::PrunerPhase {
        name: phase.name().to_owned(),
        took_ms: *took_ms,
    };
    proto::PrunerReport {
        height: report.height.get(),
        is_complete: report.is_complete,
        old_unmined: report.old_unmined,
        parents_preserved: report.parents_preserved,
        expired: report.expired,
        examined: report.examined,
        deleted: report.deleted,
        outputs_deleted: report.outputs_deleted,
        bytes: report.bytes,
        parents_marked: report.parents_marked,
        kept: kept(&report.kept),
        unreadable: report.unreadable,
        retries: report.retries,
        undo_trimmed: report.undo_trimmed,
        phases: report.took_ms.iter().map(phase).collect(),
    }
}

pub(crate) fn explained(height: Height, facts: &[Blocking]) -> proto::PrunerExplainResponse {
    let one = |fact: &Blocking| proto::PrunerBlocking {
        reason: fact.reason.name().to_owned(),
        child: fact.child.as_ref().map(txid),
        until_height: fact.until.map(Height::get),
    };
    proto::PrunerExplainResponse {
        height: height.get(),
        can_be_deleted: facts.is_empty(),
        blocking: facts.iter().map(one).collect(),
    }
}

pub(crate) fn backlog(height: Height, found: &PastDue) -> proto::PrunerBacklogResponse {
    let one = |(age_blocks_min, records): &(u32, u64)| proto::PrunerAge {
        age_blocks_min: *age_blocks_min,
        records: *records,
    };
    proto::PrunerBacklogResponse {
        height: height.get(),
        records: found.total,
        oldest_height: found.oldest.map(Height::get),
        ages: found.by_age.iter().map(one).collect(),
    }
}
