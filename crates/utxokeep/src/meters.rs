//! Metrics of the engine: what each list is called, and how a recorder learns what they mean.
//!
//! The engine installs no recorder. A program that wants its metrics installs one before it starts
//! the engine, and calls [`describe_all`].

use utxokeep_core::{Metric, MetricKind};

use crate::{
    consumers, follow, mempool, persister, store_follow, store_gauges, stream, wallet_follow,
    wallet_rebroadcast, wallet_upkeep, webhooks,
};

/// Every list of metrics of the engine and its parts, with its title in the documents.
pub const LISTS: &[(&str, &[Metric])] = &[
    ("Chain index", utxokeep_index::METRICS),
    ("Consumers of the chain log", consumers::METRICS),
    ("Block persister", persister::METRICS),
    ("Node store that follows the chain", store_follow::METRICS),
    ("Source that is followed", follow::METRICS),
    ("Change stream", stream::METRICS),
    ("Node store", store_gauges::METRICS),
    ("Calls of the node store", utxokeep_txstore::METRICS),
    ("Pruner", utxokeep_pruner::METRICS),
    ("Wallet ledger that follows", wallet_follow::METRICS),
    ("Mempool that is followed", mempool::METRICS),
    ("Wallet ledger that is served", wallet_upkeep::METRICS),
    ("Payments that are sent again", wallet_rebroadcast::METRICS),
    ("Webhooks of wallets", webhooks::METRICS),
];

/// Tells the recorder that is installed what metrics mean.
pub fn describe(all: &[Metric]) {
    for metric in all {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
}

/// Tells it what every metric of [`LISTS`] means.
pub fn describe_all() {
    for (_, list) in LISTS {
        describe(list);
    }
}
