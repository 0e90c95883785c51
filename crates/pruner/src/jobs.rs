//! What was run, newest first, as far back as the limit allows.

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

    const fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its number, counted from 1 since the start.
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

/// The last runs.
#[derive(Debug)]
pub struct JobHistory {
    jobs: VecDeque<Job>,
    next: u64,
    max: usize,
}

impl JobHistory {
    /// An empty history that remembers at most `max` runs.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { jobs: VecDeque::new(), next: 1, max: max.max(1) }
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

    /// A run is in another state.
    pub fn set(&mut self, number: u64, state: JobState, now_ms: u64) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.number == number) {
            job.ended_ms = state.is_over().then_some(now_ms);
            job.state = state;
        }
    }

    /// The last runs, newest first.
    pub fn newest(&self, limit: usize) -> Vec<Job> {
        self.jobs.iter().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_bounded_and_newest_first() {
        let mut history = JobHistory::new(3);
        for height in 1..=5 {
            let number = history.start(Height::new(height), 10);
            history.set(number, JobState::Completed(RunReport::default()), 20);
        }
        let heights: Vec<u32> = history.newest(9).iter().map(|job| job.height.get()).collect();
        assert_eq!(heights, [5, 4, 3]);
        assert_eq!(history.newest(1)[0].ended_ms, Some(20));
        history.set(1, JobState::Running, 30);
        assert_eq!(history.newest(9).len(), 3, "one that is forgotten stays forgotten");
    }
}
