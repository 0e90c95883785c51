//! From the configuration to the settings of the pruner.

use std::num::NonZeroU32;

use utxokeep_pruner::{PrunerSettings, TriggerMode};

use crate::config::{PrunerConfig, PrunerTrigger};

/// What the pruner is started with.
#[must_use]
pub fn settings(config: &PrunerConfig) -> PrunerSettings {
    let rows = |count: NonZeroU32| count.get() as usize;
    PrunerSettings::default().with(|settings| {
        settings.trigger = match config.trigger {
            PrunerTrigger::Auto => TriggerMode::Auto,
            PrunerTrigger::BlockMined => TriggerMode::BlockMined,
            PrunerTrigger::BlockPersisted => TriggerMode::BlockPersisted,
        };
        settings.safety_window_blocks = config.safety_window_blocks;
        settings.unmined_retention_blocks = config.unmined_retention_blocks;
        settings.parent_preservation_blocks = config.parent_preservation_blocks;
        settings.min_height = config.min_height;
        settings.skip_during_catch_up = config.skip_during_catch_up;
        settings.requires_mined_set = config.requires_mined_set;
        settings.requires_assembly_state = config.requires_assembly_state;
        settings.event_age_secs_max = config.event_age_secs_max;
        settings.mined_set_wait_ms = config.mined_set_wait_ms.into();
        settings.assembly_wait_ms = config.assembly_wait_ms.into();
        settings.gate_poll_ms = config.gate_poll_ms.get().into();
        settings.chunk_rows = rows(config.chunk_rows);
        settings.parallel_chunks = rows(config.parallel_chunks);
        settings.retry_max = config.retry_max;
        settings.retry_wait_ms = config.retry_wait_ms.into();
        settings.run_time_max_ms = config.run_time_max_ms.into();
        settings.progress_log_ms = config.progress_log_ms.into();
        settings.skip_preserve_parents = config.skip_preserve_parents;
        settings.skip_expire_preservations = config.skip_expire_preservations;
        settings.skip_deletions = config.skip_deletions;
        settings.skip_blob_deletions = config.skip_blob_deletions;
        settings.blob_batch_rows = rows(config.blob_batch_rows);
        settings.undo_blocks = config.undo_blocks;
        settings.restored_preservation_blocks = config.restored_preservation_blocks;
        settings.job_history_max = rows(config.job_history_max);
        settings.backlog_enabled = config.backlog_enabled;
        settings.backlog_lag_blocks_max = config.backlog_lag_blocks_max;
        settings.backlog_failed_runs_max = config.backlog_failed_runs_max;
        settings.backlog_headroom_ratio = f64::from(config.backlog_headroom_percent.get()) / 100.0;
        settings.backlog_headroom_runs = rows(config.backlog_headroom_runs);
        settings.backlog_fails_readiness = config.backlog_fails_readiness;
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn defaults_are_those_of_the_pruner() {
        assert_eq!(settings(&PrunerConfig::default()), PrunerSettings::default());
    }

    #[test]
    fn every_setting_reaches_the_pruner() {
        let default = PrunerSettings::default();
        let fields = |settings: &PrunerSettings| -> Vec<String> {
            let text = format!("{settings:#?}");
            text.lines().filter(|line| line.contains(": ")).map(str::to_owned).collect()
        };
        let text = "[pruner]\ntrigger = \"block_persisted\"\nsafety_window_blocks = 20\n\
            unmined_retention_blocks = 10\nparent_preservation_blocks = 30\nmin_height = 5\n\
            requires_mined_set = true\nrequires_assembly_state = true\n\
            event_age_secs_max = 18\nskip_during_catch_up = true\nmined_set_wait_ms = 1\nassembly_wait_ms = 2\n\
            gate_poll_ms = 3\nchunk_rows = 4\nparallel_chunks = 5\nretry_max = 6\n\
            retry_wait_ms = 7\nrun_time_max_ms = 8\nprogress_log_ms = 9\n\
            skip_preserve_parents = true\nskip_expire_preservations = true\n\
            skip_deletions = true\nskip_blob_deletions = true\nblob_batch_rows = 11\n\
            undo_blocks = 12\nrestored_preservation_blocks = 13\njob_history_max = 14\n\
            backlog_enabled = false\nbacklog_lag_blocks_max = 15\nbacklog_failed_runs_max = 16\n\
            backlog_headroom_percent = 50\nbacklog_headroom_runs = 17\n\
            backlog_fails_readiness = false";
        let text = format!("[txstore]\nheight_jump_blocks_max = 5\n{text}");
        let config = Config::parse(&text, "test.toml").unwrap();
        let changed = settings(&config.pruner);
        for (ours, default) in fields(&changed).iter().zip(fields(&default)) {
            assert_ne!(*ours, default, "it does not reach the pruner");
        }
    }

    #[test]
    fn settings_are_checked_against_each_other() {
        for (text, named) in [
            ("[txstore]\nheight_jump_blocks_max = 288", "height_jump_blocks_max"),
            ("[txstore]\nunmined_retention_blocks = 143", "txstore.unmined_retention_blocks"),
            ("[txstore]\nbatch_items_max = 100", "chunk_rows"),
            ("[txstore]\nretention_blocks = 100", "txstore.retention_blocks"),
        ] {
            let error = Config::parse(text, "test.toml").unwrap_err().to_string();
            assert!(error.starts_with("test.toml: ") && error.contains(named), "{error}");
        }
        assert!(Config::parse("[txstore]\nretention_blocks = 0", "test.toml").is_ok());
    }

    #[test]
    fn windows_that_cannot_work_are_refused_with_the_file() {
        let error = Config::parse("[pruner]\nsafety_window_blocks = 100", "test.toml").unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("test.toml: [pruner] unmined_retention_blocks (144)"), "{error}");
    }
}
