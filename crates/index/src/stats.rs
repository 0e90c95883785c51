//! What the index counts: one list that is both the metrics and their documentation.

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use utxokeep_core::{Height, MetricKind, Totals, metric_list};

use crate::{mmr::MmrStanding, prune::PruneReport};

metric_list! {
    BLOCKS_APPLIED = "utxokeep_index_blocks_applied_total", Counter, "",
        "Blocks connected.";
    BLOCKS_UNDONE = "utxokeep_index_blocks_rolled_back_total", Counter, "",
        "Blocks disconnected.";
    BLOCKS_REFUSED = "utxokeep_index_blocks_refused_total", Counter, "",
        "Blocks refused because they break a rule.";
    REORGANISATIONS = "utxokeep_index_reorganisations_total", Counter, "",
        "Switches to a branch with more work.";
    CREATED = "utxokeep_index_utxos_created_total", Counter, "",
        "Outputs created, those spent in their own block included.";
    SPENT = "utxokeep_index_utxos_spent_total", Counter, "",
        "Outputs spent.";
    PRUNED = "utxokeep_index_pruned_total", Counter, "",
        "Spent outputs deleted because no allowed rollback needs them.";
    DELTAS_PRUNED = "utxokeep_index_deltas_pruned_total", Counter, "",
        "Block deltas deleted.";
    REVERSALS = "utxokeep_index_rollback_reversals_total", Counter, "",
        "Outputs restored or removed by rollbacks.";
    ROWS = "utxokeep_index_rows_committed_total", Counter, "",
        "Rows written or deleted in committed batches.";
    UNSPENT = "utxokeep_index_unspent", Gauge, "",
        "Outputs in the set at the tip.";
    AMOUNT = "utxokeep_index_unspent_amount", Gauge, "",
        "Sum of their amounts, in the chain's smallest unit.";
    HEIGHT = "utxokeep_index_height", Gauge, "",
        "Height of the last committed block.";
    MISSING_INPUTS = "utxokeep_index_missing_inputs", Gauge, "",
        "Inputs of the chain that spent what the index never saw; 0 in an index that is not \
         partial.";
    ADDRESS_ROWS = "utxokeep_index_address_rows", Gauge, "",
        "Rows of the address index, as estimated by the engine.";
    FLOOR = "utxokeep_index_rollback_floor", Gauge, "",
        "Deepest height that can still become the tip.";
    UNDO_BASE = "utxokeep_index_undo_base", Gauge, "",
        "Undo data exists for every block above this height.";
    PRUNE_DUE = "utxokeep_index_prune_due_blocks", Gauge, "",
        "Blocks whose undo data may be deleted and is still there: it grows while pruning falls \
         behind.";
    MMR_LEAVES = "utxokeep_index_mmr_leaves", Gauge, "",
        "Leaves of the Merkle mountain range, spent ones included.";
    MMR_LIVE_LEAVES = "utxokeep_index_mmr_live_leaves", Gauge, "",
        "Leaves of the Merkle mountain range whose outputs are unspent.";
    MMR_NODES = "utxokeep_index_mmr_nodes", Gauge, "",
        "Hashes that the Merkle mountain range has stored.";
    ROLLBACKS_REFUSED = "utxokeep_index_rollbacks_refused_total", Counter, "",
        "Rollbacks and reorganisations refused because they go below the rollback floor.";
    CONSUMER_LAG = "utxokeep_log_consumer_lag_blocks", Gauge, "",
        "Blocks by which a named consumer of the chain log lies behind the tip, by `consumer`.";
    CONSUMER_ATTACHED = "utxokeep_log_consumer_attached", Gauge, "",
        "1 while undo data that the consumer has not read yet is kept, by `consumer`; 0 once it has \
         fallen too far behind.";
    CONSUMERS_DETACHED = "utxokeep_log_consumers_detached_total", Counter, "",
        "Consumers that fell too far behind and hold nothing back any more, by `consumer`.";
    APPLY_SECONDS = "utxokeep_index_apply_seconds", Histogram, "",
        "Time to connect one block, its commit included.";
    ROLLBACK_SECONDS = "utxokeep_index_rollback_seconds", Histogram, "",
        "Time to disconnect one block.";
    PRUNE_SECONDS = "utxokeep_index_prune_seconds", Histogram, "",
        "Time of one prune pass.";
}

/// Tells the installed recorder what the metrics mean. Counters that were never touched are not
/// shown; those that an alarm hangs on start at 0.
pub fn describe_metrics() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
    for name in [BLOCKS_REFUSED, REORGANISATIONS, BLOCKS_UNDONE, ROLLBACKS_REFUSED] {
        counter!(name).increment(0);
    }
}

pub(crate) fn connected(created: usize, spent: usize, took: Duration) {
    counter!(BLOCKS_APPLIED).increment(1);
    counter!(CREATED).increment(created as u64);
    counter!(SPENT).increment(spent as u64);
    histogram!(APPLY_SECONDS).record(took.as_secs_f64());
}

pub(crate) fn committed(rows: usize) {
    counter!(ROWS).increment(rows as u64);
}

/// Where the database stands. Read from one snapshot whenever somebody asks, so that it is right
/// from the start, and after a rollback.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    pub(crate) height: Height,
    pub(crate) totals: Totals,
    pub(crate) missing_inputs: u64,
    pub(crate) address_rows: u64,
    pub(crate) floor: Height,
    pub(crate) undo_base: Height,
    pub(crate) prune_due_blocks: u32,
    pub(crate) mmr: Option<MmrStanding>,
}

/// Gauges are doubles: above 2^53 the amount is rounded.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn sampled(standing: &Standing) {
    gauge!(HEIGHT).set(f64::from(standing.height.get()));
    gauge!(UNSPENT).set(standing.totals.txouts as f64);
    gauge!(AMOUNT).set(standing.totals.total_amount as f64);
    gauge!(MISSING_INPUTS).set(standing.missing_inputs as f64);
    gauge!(ADDRESS_ROWS).set(standing.address_rows as f64);
    gauge!(FLOOR).set(f64::from(standing.floor.get()));
    gauge!(UNDO_BASE).set(f64::from(standing.undo_base.get()));
    gauge!(PRUNE_DUE).set(f64::from(standing.prune_due_blocks));
    if let Some(mmr) = &standing.mmr {
        gauge!(MMR_LEAVES).set(mmr.leaves as f64);
        gauge!(MMR_LIVE_LEAVES).set(mmr.live_leaves as f64);
        gauge!(MMR_NODES).set(mmr.nodes as f64);
    }
}

/// Where a named consumer of the log stands.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn consumer_stands(name: &str, lag_blocks: u64, is_attached: bool) {
    gauge!(CONSUMER_LAG, "consumer" => name.to_owned()).set(lag_blocks as f64);
    gauge!(CONSUMER_ATTACHED, "consumer" => name.to_owned()).set(f64::from(u8::from(is_attached)));
}

pub(crate) fn consumer_detached(name: &str) {
    counter!(CONSUMERS_DETACHED, "consumer" => name.to_owned()).increment(1);
}

pub(crate) fn rolled_back(reversals: usize, took: Duration) {
    counter!(BLOCKS_UNDONE).increment(1);
    counter!(REVERSALS).increment(reversals as u64);
    histogram!(ROLLBACK_SECONDS).record(took.as_secs_f64());
}

pub(crate) fn pruned(report: &PruneReport, took: Duration) {
    counter!(PRUNED).increment(report.spent_deleted as u64);
    counter!(DELTAS_PRUNED).increment(report.deltas_deleted as u64);
    histogram!(PRUNE_SECONDS).record(took.as_secs_f64());
}

pub(crate) fn rollback_refused() {
    counter!(ROLLBACKS_REFUSED).increment(1);
}

pub(crate) fn refused() {
    counter!(BLOCKS_REFUSED).increment(1);
}

pub(crate) fn reorganised() {
    counter!(REORGANISATIONS).increment(1);
}
