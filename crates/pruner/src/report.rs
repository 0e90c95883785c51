//! What a run did, and why one failed.

use std::{collections::BTreeMap, fmt};

use utxokeep_core::{ErrorKind, Height, node::KeepReason};
use utxokeep_txstore::StoreError;

/// A phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// 1: parents of old unmined transactions are preserved.
    PreserveParents,
    /// 1b: preservations whose height has come end.
    ExpirePreservations,
    /// 2: what is due is verified and deleted.
    Delete,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Self; 3] = [Self::PreserveParents, Self::ExpirePreservations, Self::Delete];

    /// Its name in metrics and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreserveParents => "preserve_parents",
            Self::ExpirePreservations => "expire_preservations",
            Self::Delete => "delete",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a run did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    /// Height it was for.
    pub height: Height,
    /// Old unmined transactions that were found.
    pub old_unmined: u64,
    /// Parents of theirs that are preserved now.
    pub parents_preserved: u64,
    /// Preservations that ended.
    pub expired: u64,
    /// Records that were looked at because they were due.
    pub examined: u64,
    /// Records that went.
    pub deleted: u64,
    /// Outputs that went with them.
    pub outputs_deleted: u64,
    /// Bytes of what would go; known in a dry run only.
    pub bytes: u64,
    /// Markers left on surviving parents.
    pub parents_marked: u64,
    /// Records that stay, by reason.
    pub kept: BTreeMap<KeepReason, u64>,
    /// Records that could not be read, and stay.
    pub unreadable: u64,
    /// Attempts after faults that passed.
    pub retries: u64,
    /// Deleted records that can no longer be restored.
    pub undo_trimmed: u64,
    /// Whether everything due was looked at.
    pub is_complete: bool,
    /// Milliseconds of each phase.
    pub took_ms: BTreeMap<Phase, u64>,
}

impl RunReport {
    /// Milliseconds of all phases.
    #[must_use]
    pub fn total_ms(&self) -> u64 {
        self.took_ms.values().sum()
    }

    pub(crate) fn keep(&mut self, reason: KeepReason) {
        *self.kept.entry(reason).or_default() += 1;
    }

    /// Adds what another part of the run did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.examined += other.examined;
        self.deleted += other.deleted;
        self.outputs_deleted += other.outputs_deleted;
        self.bytes += other.bytes;
        self.parents_marked += other.parents_marked;
        self.unreadable += other.unreadable;
        self.retries += other.retries;
        for (reason, count) in &other.kept {
            *self.kept.entry(*reason).or_default() += count;
        }
    }
}

/// A run that failed. What it deleted before stays deleted; the next run goes on.
#[derive(Debug, thiserror::Error)]
#[error("phase {phase} failed after {attempts} attempts: {source}")]
pub struct RunError {
    /// The phase that was at work; later ones did not start.
    pub phase: Phase,
    /// How often it was tried.
    pub attempts: u32,
    /// The answer of the store to the last attempt.
    #[source]
    pub source: StoreError,
    /// What was done before.
    pub report: Box<RunReport>,
}

impl RunError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.source.kind()
    }
}
