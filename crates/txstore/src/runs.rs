//! The last runs of the pruner, in its own bytes: they survive a restart, and every program over
//! the store sees them.

use utxokeep_core::{
    Height,
    node::{ChainReport, Heights},
};

use crate::{
    engine::NodeStore,
    error::StoreError,
    heights::{HEIGHTS, read_heights},
};

const RUN: &str = "run/";

/// Runs beyond the limit that are forgotten with each new one, after the limit was lowered.
const FORGOTTEN_MAX: usize = 100;

/// The newest comes first.
fn run_name(number: u64) -> String {
    format!("{RUN}{:020}", u64::MAX - number)
}

fn run_number(name: &str) -> Option<u64> {
    Some(u64::MAX - name.strip_prefix(RUN)?.parse::<u64>().ok()?)
}

/// A run of the pruner that is over.
#[derive(Debug, Clone, Copy)]
pub struct EndedRun<'r> {
    /// What became of it, in bytes of the pruner.
    pub bytes: &'r [u8],
    /// Runs that are remembered, this one included.
    pub runs_max: u64,
    /// The height that it completed.
    pub completed: Option<Height>,
    /// Now, in milliseconds.
    pub now_ms: u64,
}

impl NodeStore {
    /// Remembers a run, and that it completed a height, in one commit; answers its number.
    pub(crate) fn store_run(&self, run: EndedRun<'_>) -> Result<(u64, Heights), StoreError> {
        let EndedRun { bytes, runs_max, completed, now_ms } = run;
        let jump_max = self.settings.policy.height_jump_blocks_max;
        self.change_states(|view| {
            let newest = view.states(RUN, None, 1)?;
            let newest = newest.first().and_then(|(name, _)| run_number(name));
            let number = newest.unwrap_or(0) + 1;
            let mut states = vec![(run_name(number), Some(bytes.to_vec()))];
            let oldest = run_name((number + 1).saturating_sub(runs_max.max(1)));
            let forgotten = view.states(RUN, Some(&oldest), FORGOTTEN_MAX)?;
            states.extend(forgotten.into_iter().map(|(name, _)| (name, None)));
            let before = read_heights(view)?;
            let mut heights = before;
            if let Some(height) = completed {
                // A height that was completed is never held.
                let _ = heights.take(ChainReport::Completed(height), Some(now_ms), jump_max);
            }
            if heights != before {
                states.push((HEIGHTS.to_owned(), Some(heights.encode())));
            }
            Ok(((number, heights), states))
        })
    }

    /// The last runs with their numbers, newest first.
    pub(crate) fn stored_runs(&self, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let found = self.read(|facts| facts.view.states(RUN, None, limit))?;
        let numbered = |(name, run): (String, Vec<u8>)| Some((run_number(&name)?, run));
        Ok(found.into_iter().filter_map(numbered).collect())
    }
}
