//! What is counted while the ledger follows.

use metrics::{counter, gauge};
use utxokeep_core::{Height, metric_list};
use utxokeep_wallet::{FollowReport, WorseBranch};

metric_list! {
    HEIGHT = "utxokeep_wallet_follow_height", Gauge, "",
        "Height of the last block that the ledger has applied.";
    LAG = "utxokeep_wallet_follow_lag_blocks", Gauge, "",
        "Blocks that the chain database has and the ledger has not.";
    CHAIN_LACKS = "utxokeep_wallet_follow_chain_lacks_blocks", Gauge, "",
        "Blocks that the ledger has and the chain database has not, on the same branch: another \
         follower is ahead, and the ledger waits for this one.";
    WORSE_BRANCH = "utxokeep_wallet_follow_worse_branch_blocks", Gauge, "",
        "Blocks of the ledger above the last one that the chain database shares, while that is on \
         another branch which is not better: the ledger keeps its own, and waits.";
    APPLIED = "utxokeep_wallet_follow_blocks_applied_total", Counter, "",
        "Blocks that the ledger applied.";
    UNDONE = "utxokeep_wallet_follow_blocks_undone_total", Counter, "",
        "Blocks that the ledger took back, because they left the chain.";
    RECORDED = "utxokeep_wallet_follow_transactions_total", Counter, "",
        "Transactions that blocks brought, over all wallets.";
    RESCANNED = "utxokeep_wallet_rescan_blocks_total", Counter, "",
        "Blocks that rescans of single wallets have looked at.";
    SET_ASIDE = "utxokeep_wallets_set_aside", Gauge, "",
        "Wallets that could not take a block, get no more of them, and want a rescan.";
    RESCANS = "utxokeep_wallet_rescans", Gauge, "",
        "Wallets that are being scanned, or wait for that.";
    NEAR_EDGE = "utxokeep_wallet_descriptors_near_edge", Gauge, "",
        "Descriptors of which a payment came near the end of what is watched, so that others may \
         have been missed; `wallet descriptor list` says what to do.";
    FAILURES = "utxokeep_wallet_follow_failures_total", Counter, "",
        "Attempts to go on that failed, by reason: missing_body, wrong_body, no_common_block, \
         chain_behind, rescan, database, ledger, chain.";
}

/// Tells the recorder what each metric means.
pub(super) fn describe() {
    crate::meters::describe(METRICS);
    // A counter that was never touched is not shown; these start at 0.
    counter!(APPLIED).increment(0);
    counter!(UNDONE).increment(0);
    counter!(RESCANNED).increment(0);
}

pub(super) fn did(report: &FollowReport) {
    counter!(APPLIED).increment(report.applied);
    counter!(UNDONE).increment(report.undone);
    counter!(RECORDED).increment(report.recorded);
}

pub(super) fn stands(ledger: Option<Height>, chain: Option<Height>) {
    let height = |height: Option<Height>| height.map_or(0, |height| i64::from(height.get()) + 1);
    let lag = u32::try_from(height(chain) - height(ledger)).unwrap_or(0);
    gauge!(LAG).set(f64::from(lag));
    gauge!(HEIGHT).set(f64::from(ledger.unwrap_or_default().get()));
}

pub(super) fn chain_lacks(blocks: u64) {
    gauge!(CHAIN_LACKS).set(f64::from(u32::try_from(blocks).unwrap_or(u32::MAX)));
}

pub(super) fn worse_branch(branch: Option<WorseBranch>) {
    let blocks = branch.map_or(0, |branch| {
        let first = branch.shared.map_or(0, |shared| shared.get() + 1);
        (branch.ledger.get() + 1).saturating_sub(first)
    });
    gauge!(WORSE_BRANCH).set(f64::from(blocks));
}

pub(super) fn rescanned() {
    counter!(RESCANNED).increment(1);
}

pub(super) fn lagging(set_aside: usize, rescans: usize) {
    let count = |wallets| f64::from(u32::try_from(wallets).unwrap_or(u32::MAX));
    gauge!(SET_ASIDE).set(count(set_aside));
    gauge!(RESCANS).set(count(rescans));
}

pub(super) fn near_edge(descriptors: usize) {
    gauge!(NEAR_EDGE).set(f64::from(u32::try_from(descriptors).unwrap_or(u32::MAX)));
}

pub(super) fn failed(reason: &'static str) {
    counter!(FAILURES, "reason" => reason).increment(1);
}
