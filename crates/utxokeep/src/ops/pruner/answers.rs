//! What a pruner says about itself and its work.

use std::collections::BTreeMap;

use serde::Serialize;
use utxokeep_core::{Height, node::Waiting};
use utxokeep_pruner::{Health, PrunerStatus, TriggerMode};
use utxokeep_txstore::PastDue;

use super::PruneJob;
use crate::ops::{Answer, Lines};

/// One thing that keeps the next run of the pruner from starting.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PrunerWaiting {
    /// A word with a stable meaning.
    #[cfg_attr(feature = "schema", schema(example = "persister_behind"))]
    pub reason: String,
    /// The same in a sentence, with heights, and what helps.
    pub detail: String,
}

impl From<&Waiting> for PrunerWaiting {
    fn from(one: &Waiting) -> Self {
        Self { reason: one.name().to_owned(), detail: one.to_string() }
    }
}

/// What a pruner is doing, and whether it keeps up.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = PrunerStatus))]
pub struct PrunerStatusAnswer {
    /// Whether everything it needs is there.
    pub is_ready: bool,
    /// What is wrong, by the name of the thing it needs.
    pub faults: BTreeMap<String, String>,
    /// Whether an operator paused it.
    pub is_paused: bool,
    /// What starts a run: `auto`, `block_mined` or `block_persisted`.
    pub trigger: String,
    /// The run that goes on.
    pub running: Option<PruneJob>,
    /// The last run that is over, also one from before a restart.
    pub last: Option<PruneJob>,
    /// Records that the present run has looked at.
    pub examined: u64,
    /// Records that the present run has deleted.
    pub deleted: u64,
    /// Height that waits for a run.
    pub pending_height: Option<u32>,
    /// What keeps the next run from starting.
    pub waits_for: Vec<PrunerWaiting>,
    /// Height up to which everything is done.
    pub completed_height: Option<u32>,
    /// Height up to which a persister has written everything.
    pub persisted_height: Option<u32>,
    /// Height of the chain, as two witnesses agree.
    pub newest_height: Option<u32>,
    /// A height that only one witness reported.
    pub held_height: Option<u32>,
    /// The witness that reported it.
    pub held_source: Option<String>,
    /// When the node was last heard from, in milliseconds since 1970.
    pub last_event_ms: Option<u64>,
    /// `OK`, `AT_RISK` or `BEHIND`.
    #[cfg_attr(feature = "schema", schema(example = "OK"))]
    pub backlog_state: String,
    /// Blocks that were asked for and are not done.
    pub lag_blocks: u32,
    /// Runs that failed in a row.
    pub failed_runs: u32,
    /// Time of a run over the time between blocks, once enough of both are known.
    pub headroom_ratio: Option<f64>,
}

impl PrunerStatusAnswer {
    pub(super) fn new(status: &PrunerStatus, trigger: TriggerMode, health: &Health) -> Self {
        let (heights, held) = (&status.heights, status.heights.held());
        let faults = health.dependencies.iter();
        let faults = faults.filter_map(|one| Some((one.name.to_owned(), one.fault.clone()?)));
        let (examined, deleted) = status.progress;
        Self {
            is_ready: health.is_ready(),
            faults: faults.collect(),
            is_paused: status.is_paused,
            trigger: trigger.name().to_owned(),
            running: status.running.as_ref().map(PruneJob::from),
            last: status.last.as_ref().map(PruneJob::from),
            examined,
            deleted,
            pending_height: status.pending.map(Height::get),
            waits_for: status.waits_for.iter().map(PrunerWaiting::from).collect(),
            completed_height: heights.completed().map(Height::get),
            persisted_height: heights.persisted().map(Height::get),
            newest_height: heights.newest().map(Height::get),
            held_height: held.map(|held| held.height.get()),
            held_source: held.map(|held| held.by.name().to_owned()),
            last_event_ms: heights.heard_ms(),
            backlog_state: status.backlog.state.name().to_owned(),
            lag_blocks: status.backlog.lag_blocks,
            failed_runs: status.backlog.failed_runs,
            headroom_ratio: status.backlog.headroom_ratio,
        }
    }
}

impl Answer for PrunerStatusAnswer {
    fn show(&self, lines: &mut Lines) {
        let yes = |is: bool| if is { "yes" } else { "no" };
        lines.field("ready", yes(self.is_ready));
        for (name, fault) in &self.faults {
            lines.row(format!("  {name}: {fault}"));
        }
        lines.field("paused", yes(self.is_paused));
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
        for PrunerWaiting { reason, detail } in &self.waits_for {
            lines.field("waits for", format_args!("{reason}: {detail}"));
        }
        if let Some(job) = &self.last {
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

/// Records of an age.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BacklogAge {
    /// Blocks since they were due, at least.
    pub age_blocks_min: u32,
    /// How many they are.
    pub records: u64,
}

/// What is past due.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = PrunerBacklog))]
pub struct BacklogAnswer {
    /// Height that the answer is for.
    pub height: u32,
    /// Records that are past due.
    pub records: u64,
    /// Height since which the oldest is due.
    pub oldest_height: Option<u32>,
    /// The same by age.
    pub ages: Vec<BacklogAge>,
}

impl BacklogAnswer {
    pub(super) fn new(height: Height, found: &PastDue) -> Self {
        let ages = found.by_age.iter();
        let ages = ages.map(|&(age_blocks_min, records)| BacklogAge { age_blocks_min, records });
        Self {
            height: height.get(),
            records: found.total,
            oldest_height: found.oldest.map(Height::get),
            ages: ages.collect(),
        }
    }
}

impl Answer for BacklogAnswer {
    fn show(&self, lines: &mut Lines) {
        lines
            .field("height", self.height)
            .field("past due", self.records)
            .optional("oldest since", self.oldest_height.map(|height| format!("height {height}")));
        for age in &self.ages {
            lines.row(format!("  {:>6} blocks or more  {}", age.age_blocks_min, age.records));
        }
    }
}
