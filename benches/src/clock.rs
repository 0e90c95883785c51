//! Wall time and CPU time of a stretch of work.

use std::{
    fmt, fs,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// A running measurement.
pub(crate) struct Clock {
    started: Instant,
    cpu: f64,
}

/// A finished measurement.
#[derive(Debug, Clone, Copy, Default)]
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

impl std::ops::AddAssign for Took {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu_seconds += other.cpu_seconds;
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s wall, {:.2} s CPU", self.seconds(), self.cpu_seconds)
    }
}

/// User and system time of all threads of this process, those that have ended included.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let whole = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    (Duration::from_secs(whole) + Duration::from_nanos(nanos)).as_secs_f64()
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
