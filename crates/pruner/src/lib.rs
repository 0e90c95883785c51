//! Safe deletion: takes records away when nothing can need them any more, and says why it keeps
//! the others.
//!
//! [`Pruner`] is the service: a trigger that keeps one height waiting, a gate that waits for the
//! node, and runs of three phases. The verdict is [`utxokeep_core::node`]'s, taken by the store at
//! the moment of deletion; nothing here decides that a record may go.
//!
//! # Invariants
//!
//! * One run at a time, for the newest height that is safe: where the chain is, and what a persister
//!   has reached, is [`utxokeep_core::node::Heights`], which the store remembers.
//! * Phase 1 (preserve parents of old unmined transactions), 1b (end preservations), 2 (delete): a
//!   failure stops the run, and the height is not counted as done.
//! * Every run, skip and kept record has a reason with a stable name.
//! * No clock but [`Clock`], no network, no threads but the service's own.

mod backlog;
mod blobs;
mod clock;
mod control;
mod gate;
mod health;
mod jobs;
mod metrics;
mod report;
mod run;
mod service;
mod settings;
mod state;
mod trigger;

pub use backlog::{BacklogMonitor, BacklogState, BacklogStatus};
pub use blobs::delete_blobs;
pub use clock::{Clock, MonotonicClock};
pub use control::Control;
pub use gate::{AskNode, SkipReason, wait_at_gate};
pub use health::{Dependency, Health};
pub use jobs::{Job, JobHistory, JobState};
pub use metrics::METRICS;
pub use report::{Phase, RunError, RunReport};
pub use run::{Run, rehearse};
pub use service::{Pruner, PrunerError, PrunerStatus, Reported};
pub use settings::{PrunerSettings, SettingsError};
pub use state::ChainState;
pub use trigger::{Trigger, TriggerMode};
