//! What is counted while the mempool is looked at.

use metrics::{counter, gauge};
use utxokeep_core::metric_list;
use utxokeep_wallet::MempoolApplied;

metric_list! {
    TRANSACTIONS = "utxokeep_mempool_transactions", Gauge, "",
        "Transactions that the mempool of the followed node held when it was last listed.";
    KEPT_BYTES = "utxokeep_mempool_kept_bytes", Gauge, "",
        "Bytes of them that are kept in memory.";
    RECORDED = "utxokeep_mempool_recorded_total", Counter, "",
        "Transactions of the mempool that wallets recorded or changed, over all wallets.";
    EVICTED = "utxokeep_mempool_evicted_total", Counter, "",
        "Transactions that wallets gave up because the mempool dropped them, over all wallets.";
    REFUSED = "utxokeep_mempool_refused_total", Counter, "",
        "Attempts to tell a wallet of a transaction that it did not take; the log says why.";
}

/// Tells the recorder what each metric means.
pub(super) fn describe() {
    crate::meters::describe(METRICS);
    // A counter that was never touched is not shown; these start at 0.
    counter!(RECORDED).increment(0);
    counter!(EVICTED).increment(0);
    counter!(REFUSED).increment(0);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float, and exact far enough")]
pub(super) fn looked(listed: usize, kept_bytes: usize, applied: &MempoolApplied) {
    use utxokeep_wallet::Change;
    gauge!(TRANSACTIONS).set(listed as f64);
    gauge!(KEPT_BYTES).set(kept_bytes as f64);
    let recorded = applied.recorded.values().flatten();
    let changed = recorded.filter(|recorded| recorded.change != Change::Unchanged).count();
    counter!(RECORDED).increment(changed as u64);
    let evicted: usize = applied.evicted.values().map(Vec::len).sum();
    counter!(EVICTED).increment(evicted as u64);
    counter!(REFUSED).increment(applied.refused.len() as u64);
}
