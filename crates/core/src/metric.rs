//! What a metric is: one list in each crate that counts is both its metrics and their documentation.

/// Kind of a metric, in the words of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution of durations.
    Histogram,
}

impl MetricKind {
    /// Its name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric and what it means.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name as Prometheus sees it.
    pub name: &'static str,
    /// How Prometheus treats its samples.
    pub kind: MetricKind,
    /// Meaning and labels, in one sentence.
    pub help: &'static str,
    /// Teranode's names for it, without their prefix `teranode_`; empty where it has none.
    pub teranode: &'static str,
}

/// Declares the metrics of a crate: a constant with the name of each, and `METRICS` with all.
#[macro_export]
macro_rules! metric_list {
    ($($const:ident = $name:literal, $kind:ident, $teranode:literal, $help:literal;)+) => {
        $(const $const: &str = $name;)+
        /// Every metric of this crate.
        pub const METRICS: &[$crate::Metric] = &[$($crate::Metric {
            name: $name,
            kind: $crate::MetricKind::$kind,
            help: $help,
            teranode: $teranode,
        }),+];
    };
}
