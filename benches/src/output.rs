//! The only place that prints.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::time::Duration;

pub(crate) fn line(text: &str) {
    println!("{text}");
}

pub(crate) fn heading(text: &str) {
    println!("\n== {text}");
}

pub(crate) fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

pub(crate) fn per_second(count: u64, seconds: f64) -> String {
    let rate = count as f64 / seconds;
    if rate >= 10_000.0 { format!("{:.0} k/s", rate / 1e3) } else { format!("{rate:.0} /s") }
}

pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    part / whole
}

pub(crate) fn per(bytes: u64, count: u64) -> f64 {
    bytes as f64 / count.max(1) as f64
}

/// Median, 99th percentile and worst of a sample.
pub(crate) fn percentiles(mut sample: Vec<Duration>) -> String {
    if sample.is_empty() {
        return "no sample".to_owned();
    }
    sample.sort_unstable();
    let at = |permille: usize| sample[(sample.len() - 1) * permille / 1_000];
    format!("p50 {:.3?}, p99 {:.3?}, max {:.3?}", at(500), at(990), at(1_000))
}

pub(crate) fn per_change(micros: f64, changes: usize) -> f64 {
    micros / changes.max(1) as f64
}
