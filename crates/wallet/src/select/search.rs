//! Branch and bound, on a window that is small enough for it.

use bdk_coin_select::{
    Candidate as Input, ChangePolicy, CoinSelector, DrainWeights, FeeRate, Target, TargetFee,
    TargetOutputs, metrics::LowestFee,
};
use utxokeep_core::wallet::{Candidate, Payment, Picked};

/// Weight that the search adds by itself: version and lock time, the numbers of inputs and
/// outputs, and the marker of segwit.
const FIXED_WEIGHT: u64 = 32 + 4 + 4 + 2;

/// Searches for a choice with low fees. The search computes in 32-bit floats, so that its choice is
/// completed and checked with integers here.
pub(super) fn branch_and_bound(
    payment: &Payment,
    candidates: &[Candidate],
    coins_max: usize,
    rounds_max: usize,
) -> Option<Picked> {
    let useful = promising(payment, candidates, coins_max);
    let inputs: Vec<Input> = useful
        .iter()
        .map(|at| Input {
            value: candidates[*at].amount.get(),
            weight: u64::from(candidates[*at].weight),
            input_count: 1,
            is_segwit: true,
        })
        .collect();
    let target = Target {
        fee: TargetFee::from_feerate(rate(payment.fee_rate.get())),
        outputs: TargetOutputs {
            value_sum: payment.value,
            weight_sum: u64::from(payment.weight).saturating_sub(FIXED_WEIGHT),
            n_outputs: 1,
        },
    };
    let drain = DrainWeights {
        output_weight: u64::from(payment.change.output_weight),
        spend_weight: u64::from(payment.change.spend_weight),
        n_outputs: 1,
    };
    let metric = LowestFee {
        target,
        long_term_feerate: rate(payment.long_term_fee_rate.get()),
        change_policy: ChangePolicy::min_value(drain, payment.change.min_value),
    };
    let mut selector = CoinSelector::new(&inputs);
    if !selector.is_selection_possible(target) {
        return None;
    }
    selector.run_bnb(metric, rounds_max).ok()?;
    let chosen = selector.selected_indices().iter().map(|at| useful[*at]).collect();
    payment.complete(candidates, chosen)
}

/// The coins to search among, by position. Each round costs more than their number squared, so
/// there are few: half of them near the amount, the others spread over all sizes.
fn promising(payment: &Payment, candidates: &[Candidate], coins_max: usize) -> Vec<usize> {
    let mut useful: Vec<usize> = (0..candidates.len())
        .filter(|at| candidates[*at].effective_value(payment.fee_rate) > 0)
        .collect();
    useful.sort_by_key(|at| candidates[*at].amount.get().abs_diff(payment.value));
    if useful.len() <= coins_max {
        return useful;
    }
    let mut spread = useful.split_off(coins_max / 2);
    spread.sort_by_key(|at| candidates[*at].amount);
    let step = spread.len().div_ceil(coins_max - useful.len());
    useful.extend(spread.into_iter().step_by(step.max(1)));
    useful
}

#[expect(clippy::cast_precision_loss, reason = "the search computes in 32-bit floats")]
fn rate(per_kilo_weight: u32) -> FeeRate {
    FeeRate::from_sat_per_wu(per_kilo_weight as f32 / 1000.0)
}
