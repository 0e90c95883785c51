//! What the pruner keeps in its store beside the records, so that every service of the store sees
//! it, and sees it again after a restart: what is known of the chain, the last runs, a pause.

use utxokeep_core::{
    Height,
    node::{ChainReport, Heights, Taken},
};
use utxokeep_txstore::{PruneStore, StoreError, StoreReads};

/// There while no run may start; its value is empty.
const PAUSED: &str = "pruner_paused";

/// What names of runs start with.
const RUN: &str = "run/";

/// Runs beyond the limit that are forgotten with each new one, after the limit was lowered.
const FORGOTTEN_MAX: usize = 100;

fn read<T>(
    store: &(impl PruneStore + ?Sized),
    read: impl Fn(&StoreReads<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut answer = None;
    store.read_states(&mut |states| {
        answer = Some(read(states)?);
        Ok(())
    })?;
    Ok(answer.expect("the store ran the read"))
}

/// What a store knows of its chain.
pub trait ChainState {
    /// What is known now.
    fn heights(&self) -> Result<Heights, StoreError>;

    /// Takes what others say of the chain, in one commit; answers what became of each report, and
    /// what is known then.
    fn report(
        &self,
        reports: &[ChainReport],
        now_ms: u64,
    ) -> Result<(Vec<Taken>, Heights), StoreError>;
}

impl<S: PruneStore + ?Sized> ChainState for S {
    fn heights(&self) -> Result<Heights, StoreError> {
        read(self, |states| Heights::read(states))
    }

    fn report(
        &self,
        reports: &[ChainReport],
        now_ms: u64,
    ) -> Result<(Vec<Taken>, Heights), StoreError> {
        let jump_max = self.policy().height_jump_blocks_max;
        let mut answer = (Vec::new(), Heights::default());
        self.update_states(&mut |states| {
            let done = Heights::take_all(states, reports, Some(now_ms), jump_max)?;
            answer = (done.taken, done.heights);
            Ok(done.state.into_iter().collect())
        })?;
        Ok(answer)
    }
}

/// Whether somebody asked for no run to start.
pub(crate) fn is_paused(store: &dyn PruneStore) -> Result<bool, StoreError> {
    read(store, |states| Ok(states.state(PAUSED)?.is_some()))
}

/// Asks for no run to start, or lets runs start again.
pub(crate) fn set_paused(store: &dyn PruneStore, is_paused: bool) -> Result<(), StoreError> {
    let value = is_paused.then(Vec::new);
    store.update_states(&mut |_| Ok(vec![(PAUSED.to_owned(), value.clone())]))
}

/// The newest comes first.
fn run_name(number: u64) -> String {
    format!("{RUN}{:020}", u64::MAX - number)
}

fn run_number(name: &str) -> Option<u64> {
    Some(u64::MAX - name.strip_prefix(RUN)?.parse::<u64>().ok()?)
}

/// A run of the pruner that is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRun<'r> {
    /// What became of it.
    pub(crate) bytes: &'r [u8],
    /// Runs that are remembered, this one included.
    pub(crate) runs_max: u64,
    /// The height that it completed.
    pub(crate) completed: Option<Height>,
    pub(crate) now_ms: u64,
}

/// Remembers a run, and that it completed a height, in one commit. Answers its number, counted from
/// 1, and what is known of the chain.
pub(crate) fn remember_run(
    store: &dyn PruneStore,
    run: EndedRun<'_>,
) -> Result<(u64, Heights), StoreError> {
    let EndedRun { bytes, runs_max, completed, now_ms } = run;
    let jump_max = store.policy().height_jump_blocks_max;
    let completed: Vec<_> = completed.map(ChainReport::Completed).into_iter().collect();
    let mut answer = (0, Heights::default());
    store.update_states(&mut |states| {
        let newest = states.states(RUN, None, 1)?;
        let newest = newest.first().and_then(|(name, _)| run_number(name));
        let number = newest.unwrap_or(0) + 1;
        let mut changed = vec![(run_name(number), Some(bytes.to_vec()))];
        let oldest = run_name((number + 1).saturating_sub(runs_max.max(1)));
        let forgotten = states.states(RUN, Some(&oldest), FORGOTTEN_MAX)?;
        changed.extend(forgotten.into_iter().map(|(name, _)| (name, None)));
        // A height that was completed is never held.
        let taken = Heights::take_all(states, &completed, Some(now_ms), jump_max)?;
        changed.extend(taken.state);
        answer = (number, taken.heights);
        Ok(changed)
    })?;
    Ok(answer)
}

/// The last runs with their numbers, newest first.
pub(crate) fn last_runs(
    store: &dyn PruneStore,
    limit: usize,
) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
    let found = read(store, |states| states.states(RUN, None, limit))?;
    let numbered = |(name, run): (String, Vec<u8>)| Some((run_number(&name)?, run));
    Ok(found.into_iter().filter_map(numbered).collect())
}
