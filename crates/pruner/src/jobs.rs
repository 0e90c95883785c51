//! What was run, newest first, as far back as the limit allows.

mod codec;

use std::collections::VecDeque;

use utxokeep_core::Height;

use crate::{gate::SkipReason, report::RunReport};

/// What became of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum JobState {
    /// It waits at the gate.
    Waiting,
    /// It goes on.
    Running,
    /// It came to its end.
    Completed(RunReport),
    /// It was skipped.
    Skipped(SkipReason),
    /// It stopped before its end because somebody asked, or its time was over.
    Cancelled(RunReport),
    /// It failed.
    Failed {
        /// What was done before.
        report: RunReport,
        /// Why it failed.
        error: String,
    },
}

impl JobState {
    /// Its name in answers.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Completed(_) => "completed",
            Self::Skipped(_) => "skipped",
            Self::Cancelled(_) => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }

    pub(crate) const fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its number, counted from 1 for the store.
    pub number: u64,
    /// Height it is for.
    pub height: Height,
    /// When it started, by the service's clock.
    pub started_ms: u64,
    /// When it was over.
    pub ended_ms: Option<u64>,
    /// What became of it.
    pub state: JobState,
}

/// Runs of this program that the store does not have: the present one, and those it did not take.
#[derive(Debug)]
pub struct JobHistory {
    jobs: VecDeque<Job>,
    next: u64,
    max: usize,
}

impl JobHistory {
    /// An empty history that remembers at most `max` runs; they are numbered behind `last`.
    #[must_use]
    pub fn after(last: u64, max: usize) -> Self {
        Self { jobs: VecDeque::new(), next: last + 1, max: max.max(1) }
    }

    /// Remembers a new run; answers its number.
    pub fn start(&mut self, height: Height, now_ms: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.jobs.len() == self.max {
            self.jobs.pop_back();
        }
        let (started_ms, ended_ms, state) = (now_ms, None, JobState::Waiting);
        self.jobs.push_front(Job { number, height, started_ms, ended_ms, state });
        number
    }

    /// A run is in another state; answers it as it is now.
    pub fn set(&mut self, number: u64, state: JobState, now_ms: u64) -> Option<Job> {
        let job = self.jobs.iter_mut().find(|job| job.number == number)?;
        job.ended_ms = state.is_over().then_some(now_ms);
        job.state = state;
        Some(job.clone())
    }

    /// The store has a run, under a number of its own: other programs may have run meanwhile.
    pub fn stored(&mut self, number: u64, as_number: u64) {
        self.jobs.retain(|job| job.number != number);
        self.next = self.next.max(as_number + 1);
    }

    /// The newest of them.
    pub fn newest(&self, limit: usize) -> Vec<Job> {
        self.jobs.iter().take(limit).cloned().collect()
    }

    /// All of them, newest first.
    pub fn not_stored(&self) -> Vec<Job> {
        self.newest(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_store_lacks_is_remembered_here() {
        let mut history = JobHistory::after(7, 3);
        for height in 1..=5 {
            let number = history.start(Height::new(height), 10);
            let job = history.set(number, JobState::Completed(RunReport::default()), 20).unwrap();
            assert_eq!((job.number, job.ended_ms), (7 + u64::from(height), Some(20)));
        }
        let heights = |history: &JobHistory| -> Vec<u32> {
            history.not_stored().iter().map(|job| job.height.get()).collect()
        };
        assert_eq!(heights(&history), [5, 4, 3], "bounded, newest first");
        assert_eq!(history.set(8, JobState::Running, 30), None, "forgotten");
        history.stored(11, 40);
        assert_eq!(heights(&history), [5, 3]);
        assert_eq!(history.start(Height::new(6), 50), 41, "behind those of other programs");
    }
}
