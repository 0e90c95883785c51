//! Wall time and CPU time of a stretch of work.

use std::{
    fmt, fs,
    time::{Duration, Instant},
};

/// Ticks per second of the CPU times in `/proc`; fixed at 100 on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running measurement.
pub(crate) struct Clock {
    started: Instant,
    cpu: f64,
}

/// A finished measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    pub(crate) cpu_seconds: f64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), cpu: cpu_seconds() }
    }

    pub(crate) fn stop(&self) -> Took {
        Took { wall: self.started.elapsed(), cpu_seconds: cpu_seconds() - self.cpu }
    }
}

impl Took {
    pub(crate) fn seconds(&self) -> f64 {
        self.wall.as_secs_f64()
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s wall, {:.2} s CPU", self.seconds(), self.cpu_seconds)
    }
}

/// User and system time of all threads of this process.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / TICKS_PER_SECOND
}

/// Most memory this process ever held, in bytes.
pub(crate) fn peak_memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}
