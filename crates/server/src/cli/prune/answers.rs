//! What the commands over the pruner print in answer to questions.

use std::collections::BTreeMap;

use serde::Serialize;
use utxokeep_core::Txid;

use crate::{
    cli::output::{Human, Lines},
    grpc::proto,
    pruner_runs::{Job, Waits, word},
};

/// What a pruner is doing.
#[derive(Debug, Serialize)]
pub(super) struct PrintedPrunerStatus {
    ready: bool,
    faults: BTreeMap<String, String>,
    paused: bool,
    trigger: String,
    running: Option<Job>,
    last_run: Option<Job>,
    examined: u64,
    deleted: u64,
    pending_height: Option<u32>,
    waits_for: Vec<Waits>,
    completed_height: Option<u32>,
    persisted_height: Option<u32>,
    newest_height: Option<u32>,
    held_height: Option<u32>,
    held_source: Option<String>,
    last_event_ms: Option<u64>,
    backlog_state: String,
    lag_blocks: u32,
    failed_runs: u32,
    headroom_ratio: Option<f64>,
}

impl PrintedPrunerStatus {
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
            last_run: status.last.map(Job::from),
            examined: status.examined,
            deleted: status.deleted,
            pending_height: status.pending_height,
            waits_for: status.waits_for.into_iter().map(Waits::from).collect(),
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
}

impl Human for PrintedPrunerStatus {
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
        for Waits { reason, detail } in &self.waits_for {
            lines.field("waits for", format_args!("{reason}: {detail}"));
        }
        if let Some(job) = &self.last_run {
            lines.field("last run", format_args!("height {}, {}", job.height, job.state));
        }
        lines
            .field("started by", &self.trigger)
            .optional("newest height", self.newest_height)
            .optional("held height", self.held_height)
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

/// What is known of the chain after somebody confirmed a height.
#[derive(Debug, Serialize)]
pub(super) struct Confirmed {
    newest_height: Option<u32>,
    held_height: Option<u32>,
}

impl From<proto::PrunerConfirmHeightResponse> for Confirmed {
    fn from(answer: proto::PrunerConfirmHeightResponse) -> Self {
        Self { newest_height: answer.newest_height, held_height: answer.held_height }
    }
}

impl Human for Confirmed {
    fn describe(&self, lines: &mut Lines) {
        lines
            .optional("newest height", self.newest_height)
            .optional("held height", self.held_height);
    }
}

/// There is no persister any more.
#[derive(Debug, Serialize)]
pub(super) struct PersisterForgotten {
    pub(super) persister: bool,
}

impl Human for PersisterForgotten {
    fn describe(&self, lines: &mut Lines) {
        lines.field("persister", "none");
    }
}

/// The node reports no marks and no block assembly any more.
#[derive(Debug, Serialize)]
pub(super) struct NodeStateForgotten {
    pub(super) mined_set: bool,
    pub(super) assembly: bool,
}

impl Human for NodeStateForgotten {
    fn describe(&self, lines: &mut Lines) {
        lines.field("marks", "none").field("block assembly", "none");
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

/// What is kept.
#[derive(Debug, Serialize)]
pub(super) struct Preserved {
    pub(super) preserved: u64,
}

impl Human for Preserved {
    fn describe(&self, lines: &mut Lines) {
        lines.field("preserved", self.preserved);
    }
}

/// What came back, and what did not.
#[derive(Debug, Serialize)]
#[allow(clippy::struct_field_names, reason = "the answer's words are those of the contract")]
pub(super) struct Restored {
    pub(super) restored: u64,
    pub(super) refused: u64,
    /// The first of those that were refused.
    pub(super) inputs: Vec<LostInput>,
}

/// An input that a transaction would have to share if it came back.
#[derive(Debug, Serialize)]
pub(super) struct LostInput {
    txid: String,
    vin: u32,
    reason: String,
}

impl Restored {
    pub(super) fn new(answer: proto::PrunerRestoreResponse) -> Self {
        let proto::PrunerRestoreResponse { restored, refused, errors } = answer;
        let lost = |error: proto::Error| {
            let id = Txid::from_slice(&error.txid).map(|txid| txid.to_string()).unwrap_or_default();
            error.inputs.into_iter().map(move |input| LostInput {
                txid: id.clone(),
                vin: input.vin,
                reason: input.error.map(|error| error.message).unwrap_or_default(),
            })
        };
        Self { restored, refused, inputs: errors.into_iter().flat_map(lost).collect() }
    }
}

impl Human for Restored {
    fn describe(&self, lines: &mut Lines) {
        lines.field("restored", self.restored);
        if self.refused > 0 {
            lines.field("refused", self.refused);
        }
        for LostInput { txid, vin, reason } in &self.inputs {
            lines.field("not restored", format_args!("{txid}: input {vin}: {reason}"));
        }
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
