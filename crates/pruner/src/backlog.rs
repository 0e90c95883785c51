//! Whether runs keep up with the chain: OK, `AT_RISK` or BEHIND.

use std::collections::VecDeque;

use utxokeep_core::Height;

use crate::settings::PrunerSettings;

/// How well runs keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BacklogState {
    /// They do.
    Ok,
    /// They take most of the time between blocks.
    AtRisk,
    /// They do not, or they fail.
    Behind,
}

impl BacklogState {
    /// Its name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::AtRisk => "AT_RISK",
            Self::Behind => "BEHIND",
        }
    }

    /// Its number in metrics.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::AtRisk => 1,
            Self::Behind => 2,
        }
    }
}

/// The state, and what it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogStatus {
    /// The worst of what the other fields say.
    pub state: BacklogState,
    /// Blocks that were asked for and are not done.
    pub lag_blocks: u32,
    /// Runs that failed in a row.
    pub failed_runs: u32,
    /// Time of a run over the time between blocks, once enough of both are known.
    pub headroom_ratio: Option<f64>,
}

/// Watches requests and runs.
#[derive(Debug)]
pub struct BacklogMonitor {
    is_enabled: bool,
    lag_blocks_max: u32,
    failed_runs_max: u32,
    ratio_max: f64,
    window: usize,
    requested: Option<Height>,
    completed: Option<Height>,
    is_suspended: bool,
    failed_runs: u32,
    last_request_ms: Option<u64>,
    intervals_ms: VecDeque<u64>,
    runs_ms: VecDeque<u64>,
}

impl BacklogMonitor {
    /// A monitor that has seen nothing.
    #[must_use]
    pub fn new(settings: &PrunerSettings) -> Self {
        Self {
            is_enabled: settings.backlog_enabled,
            lag_blocks_max: settings.backlog_lag_blocks_max,
            failed_runs_max: settings.backlog_failed_runs_max,
            ratio_max: settings.backlog_headroom_ratio,
            window: settings.backlog_headroom_runs,
            requested: None,
            completed: None,
            is_suspended: false,
            failed_runs: 0,
            last_request_ms: None,
            intervals_ms: VecDeque::new(),
            runs_ms: VecDeque::new(),
        }
    }

    /// A height was asked for.
    pub fn requested(&mut self, height: Height, now_ms: u64) {
        if !self.is_enabled || self.requested.is_some_and(|requested| requested >= height) {
            return;
        }
        // What lies below the first request was never asked of us.
        self.completed.get_or_insert(height.minus(1));
        self.requested = Some(height);
        if let Some(last) = self.last_request_ms.replace(now_ms) {
            push(&mut self.intervals_ms, now_ms.saturating_sub(last), self.window);
        }
    }

    /// A run was skipped: the lag does not count until one starts.
    pub fn skipped(&mut self) {
        self.is_suspended = self.is_enabled;
    }

    /// A run started.
    pub fn started(&mut self) {
        self.is_suspended = false;
    }

    /// A run is complete.
    pub fn completed(&mut self, height: Height, took_ms: u64) {
        if self.is_enabled {
            self.completed = self.completed.max(Some(height));
            self.failed_runs = 0;
            push(&mut self.runs_ms, took_ms, self.window);
        }
    }

    /// A run failed, or did not come to its end.
    pub fn failed(&mut self) {
        if self.is_enabled {
            self.failed_runs = self.failed_runs.saturating_add(1);
        }
    }

    /// The state now.
    #[must_use]
    pub fn status(&self) -> BacklogStatus {
        let heights = self.requested.zip(self.completed);
        let lag_blocks = heights.and_then(|(asked, done)| done.depth_below(asked)).unwrap_or(0);
        let headroom_ratio = self.headroom_ratio();
        let is_lagging =
            !self.is_suspended && self.lag_blocks_max > 0 && lag_blocks > self.lag_blocks_max;
        let is_failing = self.failed_runs_max > 0 && self.failed_runs >= self.failed_runs_max;
        let state = if is_lagging || is_failing {
            BacklogState::Behind
        } else if headroom_ratio.is_some_and(|ratio| ratio >= self.ratio_max) {
            BacklogState::AtRisk
        } else {
            BacklogState::Ok
        };
        BacklogStatus { state, lag_blocks, failed_runs: self.failed_runs, headroom_ratio }
    }

    /// Known only over a full window, and never by dividing by nothing.
    fn headroom_ratio(&self) -> Option<f64> {
        let is_full = self.runs_ms.len() == self.window && self.intervals_ms.len() == self.window;
        let interval = mean(&self.intervals_ms).filter(|_| is_full)?;
        Some(mean(&self.runs_ms)? / interval).filter(|ratio| ratio.is_finite())
    }
}

fn push(window: &mut VecDeque<u64>, value: u64, max: usize) {
    if window.len() == max {
        window.pop_front();
    }
    window.push_back(value);
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds of a run")]
fn mean(values: &VecDeque<u64>) -> Option<f64> {
    let sum: u64 = values.iter().sum();
    (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(height: u32) -> Height {
        Height::new(height)
    }

    fn monitor() -> BacklogMonitor {
        BacklogMonitor::new(&PrunerSettings::default())
    }

    /// Asks for `heights` blocks, one each `interval_ms`; each run takes `run_ms`.
    fn steady(monitor: &mut BacklogMonitor, heights: u32, interval_ms: u64, run_ms: u64) {
        for height in 1..=heights {
            monitor.requested(at(height), u64::from(height) * interval_ms);
            monitor.started();
            monitor.completed(at(height), run_ms);
        }
    }

    #[test]
    fn runs_that_take_most_of_an_interval_are_at_risk_once_the_window_is_full() {
        let mut healthy = monitor();
        steady(&mut healthy, 20, 1_000, 100);
        assert_eq!(healthy.status().state, BacklogState::Ok);
        let mut slow = monitor();
        steady(&mut slow, 6, 1_000, 900);
        assert_eq!(slow.status().state, BacklogState::Ok, "five intervals are no window");
        let mut slow = monitor();
        steady(&mut slow, 7, 1_000, 900);
        assert_eq!(slow.status().state, BacklogState::AtRisk);
        let mut exact = monitor();
        steady(&mut exact, 7, 1_000, 800);
        assert_eq!(exact.status().state, BacklogState::AtRisk, "the ratio itself is at risk");
    }

    #[test]
    fn a_lag_of_3_blocks_is_fine_and_4_are_behind() {
        let mut monitor = monitor();
        steady(&mut monitor, 1, 1_000, 1);
        monitor.requested(at(4), 0);
        assert_eq!((monitor.status().state, monitor.status().lag_blocks), (BacklogState::Ok, 3));
        monitor.requested(at(5), 0);
        assert_eq!(monitor.status().state, BacklogState::Behind);
        monitor.skipped();
        assert_eq!(monitor.status().state, BacklogState::Ok, "a skip suspends the lag");
        monitor.started();
        assert_eq!(monitor.status().state, BacklogState::Behind);
    }

    #[test]
    fn two_failures_in_a_row_are_behind_whatever_else_holds() {
        let mut monitor = monitor();
        steady(&mut monitor, 7, 1_000, 900);
        monitor.failed();
        assert_eq!(monitor.status().state, BacklogState::AtRisk);
        monitor.failed();
        monitor.skipped();
        assert_eq!(monitor.status().state, BacklogState::Behind, "it goes before AT_RISK");
        monitor.completed(at(8), 1);
        assert_ne!(monitor.status().state, BacklogState::Behind);
    }

    #[test]
    fn blocks_before_the_start_are_not_owed_and_a_monitor_that_is_off_is_fine() {
        let mut seeded = monitor();
        seeded.requested(at(900_000), 0);
        assert_eq!(seeded.status().lag_blocks, 1, "blocks before the start are not owed");
        seeded.completed(at(900_005), 1);
        assert_eq!(seeded.status().lag_blocks, 0);
        seeded.requested(at(5), 0);
        assert_eq!(seeded.status().lag_blocks, 0, "requests never go back");
        let mut zero = monitor();
        steady(&mut zero, 9, 0, 5);
        assert_eq!(zero.status().headroom_ratio, None);
        let settings = PrunerSettings { backlog_enabled: false, ..PrunerSettings::default() };
        let mut off = BacklogMonitor::new(&settings);
        off.requested(at(1), 0);
        off.requested(at(100), 0);
        off.failed();
        off.failed();
        assert_eq!(off.status().state, BacklogState::Ok);
    }
}
