//! What is counted while the node store follows the chain.

use metrics::{counter, gauge};
use utxokeep_core::{Height, metric_list};

metric_list! {
    HEIGHT = "utxokeep_store_follow_height", Gauge, "",
        "Height of the newest block that is whole in the node store.";
    LAG = "utxokeep_store_follow_lag_blocks", Gauge, "",
        "Blocks that the chain database has and the node store has not.";
    BLOCKS = "utxokeep_store_follow_blocks_total", Counter, "",
        "Blocks that were put into the node store.";
    TXS = "utxokeep_store_follow_transactions_total", Counter, "",
        "Transactions of these blocks.";
    UNDONE = "utxokeep_store_follow_blocks_undone_total", Counter, "",
        "Blocks that left the chain and were taken off their transactions.";
    CONFLICTS = "utxokeep_store_follow_conflicts_total", Counter, "",
        "Transactions of blocks that won against others of the node store.";
    LOSERS = "utxokeep_store_follow_losers_total", Counter, "",
        "Transactions that became conflicting by that, or because their coinbase left the chain.";
}

pub(super) fn describe() {
    crate::meters::describe(METRICS);
    for name in [UNDONE, CONFLICTS, LOSERS] {
        counter!(name).increment(0);
    }
}

pub(super) fn applied(txs: usize) {
    counter!(BLOCKS).increment(1);
    counter!(TXS).increment(txs as u64);
}

pub(super) fn undone() {
    counter!(UNDONE).increment(1);
}

pub(super) fn conflict(losers: usize) {
    counter!(CONFLICTS).increment(1);
    lost(losers);
}

pub(super) fn lost(losers: usize) {
    counter!(LOSERS).increment(losers as u64);
}

pub(super) fn stands(at: Option<Height>, tip: Option<Height>) {
    let count = |height: Option<Height>| height.map_or(0, |height| u64::from(height.get()) + 1);
    let lag = u32::try_from(count(tip).saturating_sub(count(at))).unwrap_or(u32::MAX);
    gauge!(LAG).set(f64::from(lag));
    gauge!(HEIGHT).set(f64::from(at.unwrap_or_default().get()));
}
