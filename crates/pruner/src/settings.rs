//! Every setting of the pruner, with its default.

use utxokeep_core::node::{GateRules, Said};

use crate::trigger::TriggerMode;

/// How the pruner works. Lengths of time are in milliseconds, depths in blocks.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[non_exhaustive]
pub struct PrunerSettings {
    /// Which event starts a run.
    pub trigger: TriggerMode,
    /// Blocks that must lie above a child before its parent goes. As long as the retention.
    pub safety_window_blocks: u32,
    /// Age from which an unmined transaction has its parents preserved.
    pub unmined_retention_blocks: u32,
    /// How long those parents are preserved; 0 leaves phase 1 out.
    pub parent_preservation_blocks: u32,
    /// Heights up to this one are not pruned at; 0 for all.
    pub min_height: u32,
    /// Skip while the node says that it is catching up.
    pub skip_during_catch_up: bool,
    /// Wait for the marks of a node that has never reported any.
    pub requires_mined_set: bool,
    /// Wait for the block assembly of a node that has never reported it.
    pub requires_assembly_state: bool,
    /// Longest time without a report of the node before the chain counts as lost; 0 for any.
    pub event_age_secs_max: u32,
    /// Longest wait for the block to be marked as mined.
    pub mined_set_wait_ms: u64,
    /// Longest wait for block assembly to run and to have reached the height.
    pub assembly_wait_ms: u64,
    /// Pause between two questions to the node.
    pub gate_poll_ms: u64,
    /// Records of one commit.
    pub chunk_rows: usize,
    /// Chunks that are worked on at the same time.
    pub parallel_chunks: usize,
    /// Attempts for a chunk after a fault that may pass.
    pub retry_max: u32,
    /// Wait before the first such attempt; doubles each time.
    pub retry_wait_ms: u64,
    /// Longest run; the next one goes on where it stopped. 0 for no limit.
    pub run_time_max_ms: u64,
    /// Pause between two lines of progress in the log; 0 for none.
    pub progress_log_ms: u64,
    /// Leave out phase 1.
    pub skip_preserve_parents: bool,
    /// Leave out phase 1b: preservations never end.
    pub skip_expire_preservations: bool,
    /// Leave out phase 2: nothing is deleted.
    pub skip_deletions: bool,
    /// Leave files of deleted bodies where they are.
    pub skip_blob_deletions: bool,
    /// Files that are deleted before the queue is asked again.
    pub blob_batch_rows: usize,
    /// Blocks for which deleted records can be restored; 0 keeps nothing.
    pub undo_blocks: u32,
    /// How long a restored record is preserved.
    pub restored_preservation_blocks: u32,
    /// Runs that are remembered.
    pub job_history_max: usize,
    /// Watch whether runs keep up.
    pub backlog_enabled: bool,
    /// Blocks that may be asked for and not done; 0 for any number.
    pub backlog_lag_blocks_max: u32,
    /// Failed runs in a row that may be; 0 for any number.
    pub backlog_failed_runs_max: u32,
    /// Share of the time between blocks that runs may take before they are at risk.
    pub backlog_headroom_ratio: f64,
    /// Runs over which that share is taken.
    pub backlog_headroom_runs: usize,
    /// Not ready while behind.
    pub backlog_fails_readiness: bool,
}

impl PrunerSettings {
    /// The same with changes, for callers outside of this crate:
    /// `PrunerSettings::default().with(|settings| settings.chunk_rows = 256)`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Default for PrunerSettings {
    fn default() -> Self {
        Self {
            trigger: TriggerMode::Auto,
            safety_window_blocks: 288,
            unmined_retention_blocks: 144,
            parent_preservation_blocks: 1_440,
            min_height: 0,
            skip_during_catch_up: false,
            requires_mined_set: false,
            requires_assembly_state: false,
            event_age_secs_max: 21_600,
            mined_set_wait_ms: 600_000,
            assembly_wait_ms: 600_000,
            gate_poll_ms: 500,
            chunk_rows: 64,
            parallel_chunks: 2,
            retry_max: 10,
            retry_wait_ms: 100,
            run_time_max_ms: 600_000,
            progress_log_ms: 30_000,
            skip_preserve_parents: false,
            skip_expire_preservations: false,
            skip_deletions: false,
            skip_blob_deletions: false,
            blob_batch_rows: 1_000,
            undo_blocks: 0,
            restored_preservation_blocks: 1_440,
            job_history_max: 1_000,
            backlog_enabled: true,
            backlog_lag_blocks_max: 3,
            backlog_failed_runs_max: 2,
            backlog_headroom_ratio: 0.8,
            backlog_headroom_runs: 6,
            backlog_fails_readiness: true,
        }
    }
}

/// Settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A number is out of its range.
    #[error("[pruner] {name} must be at least {min}")]
    TooSmall {
        /// Key in the section `[pruner]`.
        name: &'static str,
        /// Its least value.
        min: u64,
    },
    /// Parents would be let go before their children are old enough to be seen.
    #[error(
        "[pruner] unmined_retention_blocks ({unmined}) must be below safety_window_blocks \
         ({window}), and that below parent_preservation_blocks ({preservation})"
    )]
    Order {
        /// `unmined_retention_blocks`.
        unmined: u32,
        /// `safety_window_blocks`.
        window: u32,
        /// `parent_preservation_blocks`.
        preservation: u32,
    },
}

impl PrunerSettings {
    /// Numbers that every pruner of a store must have in common.
    #[must_use]
    pub fn agreed(&self) -> [(&'static str, u32); 1] {
        [("safety_window_blocks", self.safety_window_blocks)]
    }

    /// What the gate asks of the node. `height_jump_blocks_max` belongs to the store, `since` to the
    /// service.
    #[must_use]
    pub fn gate_rules(&self, height_jump_blocks_max: u32, since: Option<Said>) -> GateRules {
        GateRules {
            needs_persister: self.trigger.needs_persister(),
            requires_mined_set: self.requires_mined_set,
            requires_assembly_state: self.requires_assembly_state,
            skip_during_catch_up: self.skip_during_catch_up,
            min_height: self.min_height,
            height_jump_blocks_max,
            since,
        }
    }

    /// Refuses settings that cannot work.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (name, value) in [
            ("chunk_rows", self.chunk_rows),
            ("parallel_chunks", self.parallel_chunks),
            ("blob_batch_rows", self.blob_batch_rows),
            ("job_history_max", self.job_history_max),
            ("backlog_headroom_runs", self.backlog_headroom_runs),
        ] {
            if value == 0 {
                return Err(SettingsError::TooSmall { name, min: 1 });
            }
        }
        if self.gate_poll_ms == 0 {
            return Err(SettingsError::TooSmall { name: "gate_poll_ms", min: 1 });
        }
        let (unmined, window) = (self.unmined_retention_blocks, self.safety_window_blocks);
        let preservation = self.parent_preservation_blocks;
        if unmined >= window || (preservation > 0 && window >= preservation) {
            return Err(SettingsError::Order { unmined, window, preservation });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_work_and_impossible_ones_are_refused() {
        let fine = PrunerSettings::default();
        assert_eq!(fine.check(), Ok(()));
        let off = PrunerSettings { parent_preservation_blocks: 0, ..fine.clone() };
        assert_eq!(off.check(), Ok(()), "phase 1 may be left out");
        for wrong in [
            PrunerSettings { chunk_rows: 0, ..fine.clone() },
            PrunerSettings { gate_poll_ms: 0, ..fine.clone() },
            PrunerSettings { unmined_retention_blocks: 288, ..fine.clone() },
            PrunerSettings { parent_preservation_blocks: 288, ..fine },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
