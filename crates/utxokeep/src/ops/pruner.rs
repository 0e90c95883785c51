//! Operations on the pruner. All of them read.
//!
//! # Invariants
//!
//! * A pruner of this program and one that is asked over the network answer with the same types.

mod answers;
mod error;
mod reads;
mod runs;

use std::sync::Arc;

use utxokeep_core::{Height, Txid};
use utxokeep_pruner::Pruner;

use super::{Part, Visitor, transactions::Explanation};
use crate::pruning::Pruning;

pub use answers::{BacklogAge, BacklogAnswer, PrunerStatusAnswer, PrunerWaiting};
pub use error::PrunerReadError;
pub use reads::{
    Backlog, DryRun, Explain, HeightRequest, Jobs, RunsRequest, ShowStatus as ShowPrunerStatus,
};
pub use runs::{PruneJob, PruneJobs, PruneReport};

/// Shows every operation of the pruner to a visitor.
pub fn operations(visitor: &mut impl Visitor<PrunerPart>) {
    visitor.operation::<reads::ShowStatus>();
    visitor.operation::<reads::Jobs>();
    visitor.operation::<reads::DryRun>();
    visitor.operation::<reads::Backlog>();
    visitor.operation::<reads::Explain>();
}

const TAG: &str = "pruner";

/// What a pruner can be asked. Implemented by the pruner itself, and by a client of one that runs
/// elsewhere.
pub trait PrunerReads: Send + Sync {
    /// What it is doing, and whether it keeps up.
    fn status(&self) -> Result<PrunerStatusAnswer, PrunerReadError>;
    /// Its last runs, newest first.
    fn jobs(&self, runs_max: u32) -> Result<PruneJobs, PrunerReadError>;
    /// What a run would do. Changes nothing.
    fn dry_run(&self, height: Option<Height>) -> Result<PruneReport, PrunerReadError>;
    /// What is past due.
    fn backlog(&self, height: Option<Height>) -> Result<BacklogAnswer, PrunerReadError>;
    /// What keeps a transaction; an unknown one is an error.
    fn explain(&self, txid: &Txid, height: Option<Height>) -> Result<Explanation, PrunerReadError>;
}

/// A pruner to ask; clones are the same.
#[derive(Clone)]
pub struct PrunerPart(Arc<dyn PrunerReads>);

impl std::fmt::Debug for PrunerPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrunerPart")
    }
}

impl Part for PrunerPart {
    type Error = PrunerReadError;
}

impl PrunerPart {
    /// Asks this one.
    #[must_use]
    pub fn new(pruner: Arc<dyn PrunerReads>) -> Self {
        Self(pruner)
    }
}

impl PrunerReads for Pruning {
    fn status(&self) -> Result<PrunerStatusAnswer, PrunerReadError> {
        PrunerReads::status(self.pruner())
    }

    fn jobs(&self, runs_max: u32) -> Result<PruneJobs, PrunerReadError> {
        PrunerReads::jobs(self.pruner(), runs_max)
    }

    fn dry_run(&self, height: Option<Height>) -> Result<PruneReport, PrunerReadError> {
        PrunerReads::dry_run(self.pruner(), height)
    }

    fn backlog(&self, height: Option<Height>) -> Result<BacklogAnswer, PrunerReadError> {
        PrunerReads::backlog(self.pruner(), height)
    }

    fn explain(&self, txid: &Txid, height: Option<Height>) -> Result<Explanation, PrunerReadError> {
        PrunerReads::explain(self.pruner(), txid, height)
    }
}

impl PrunerReads for Pruner {
    fn status(&self) -> Result<PrunerStatusAnswer, PrunerReadError> {
        let status = Self::status(self)?;
        Ok(PrunerStatusAnswer::new(&status, self.settings().trigger, &self.health()))
    }

    fn jobs(&self, runs_max: u32) -> Result<PruneJobs, PrunerReadError> {
        let jobs = Self::jobs(self, usize::try_from(runs_max).unwrap_or(usize::MAX))?;
        Ok(PruneJobs { items: jobs.iter().map(PruneJob::from).collect() })
    }

    fn dry_run(&self, height: Option<Height>) -> Result<PruneReport, PrunerReadError> {
        Ok(PruneReport::new(&Self::dry_run(self, height)?, true))
    }

    fn backlog(&self, height: Option<Height>) -> Result<BacklogAnswer, PrunerReadError> {
        let height = self.height(height)?;
        Ok(BacklogAnswer::new(height, &Self::backlog(self, Some(height))?))
    }

    fn explain(&self, txid: &Txid, height: Option<Height>) -> Result<Explanation, PrunerReadError> {
        let height = self.height(height)?;
        let facts = Self::explain(self, txid, Some(height))?;
        Ok(Explanation::new(txid, height, &facts))
    }
}
