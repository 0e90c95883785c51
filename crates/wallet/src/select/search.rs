//! Branch and bound: a search for coins that pay without change.
//!
//! Each coin is taken or left, in the order of what it adds, largest first. A branch ends when it
//! pays enough, when it pays too much to go without change, when all coins that are left would not
//! be enough, or when it is more wasteful already than the best choice so far. A step costs a few
//! additions, so that many fit into the time of one question to the database.

use utxokeep_core::wallet::{Candidate, Payment, Picked};

/// A coin of the search. Values are thousandths of a unit, so that fees need no rounding.
struct Branch {
    /// Position among the candidates.
    at: usize,
    /// What it adds after paying for its input.
    adds: i128,
    /// What it adds together with all behind it.
    rest: i128,
}

/// The coins taken so far.
#[derive(Default)]
struct Path {
    taken: Vec<usize>,
    sum: i128,
    weight: u64,
}

/// The least wasteful choice that the search met; `None` when it met none.
pub(super) fn branch_and_bound(
    payment: &Payment,
    candidates: &[Candidate],
    coins_max: usize,
    rounds_max: usize,
) -> Option<Picked> {
    let rate = i128::from(payment.fee_rate.get());
    let target = i128::from(payment.value) * 1_000 + i128::from(payment.weight) * rate;
    let change_fee = payment.fee_rate.fee(u64::from(payment.change.output_weight));
    // What is rounded up is less than a virtual byte and a unit.
    let rounding = 4 * rate + 1_000;
    let most = target + i128::from(payment.change.min_value.max(1) + change_fee) * 1_000 + rounding;

    let branches = branches(payment, candidates, most, coins_max);
    let mut path = Path::default();
    let mut next = 0;
    let mut best: Option<Picked> = None;
    for _ in 0..rounds_max {
        let rest = branches.get(next).map_or(0, |branch| branch.rest);
        let mut is_over = path.sum > most || path.sum + rest < target;
        if !is_over && path.sum >= target {
            let chosen = path.taken.iter().map(|taken| branches[*taken].at).collect();
            match payment.complete(candidates, chosen) {
                // What is rounded up is still missing.
                None => {}
                Some(found) if found.change.is_some() => is_over = true,
                Some(found) => {
                    // When fees are low, one more coin may still fit and make it less wasteful.
                    is_over = payment.fee_rate >= payment.long_term_fee_rate;
                    if best.as_ref().is_none_or(|best| found.waste < best.waste) {
                        best = Some(found);
                    }
                }
            }
        }
        is_over |= best.as_ref().is_some_and(|best| path.least_waste(payment) > best.waste);
        if !is_over && next < branches.len() && path.taken.len() < payment.inputs_max {
            path.take(next, &branches[next], candidates);
            next += 1;
        } else if let Some(last) = path.leave(&branches, candidates) {
            // Taking an equal coin in place of the one that is left comes to the same.
            let equals = branches[last..].iter().take_while(|one| one.adds == branches[last].adds);
            next = last + equals.count();
        } else {
            break;
        }
    }
    best
}

impl Path {
    fn take(&mut self, place: usize, branch: &Branch, candidates: &[Candidate]) {
        self.taken.push(place);
        self.sum += branch.adds;
        self.weight += u64::from(candidates[branch.at].weight);
    }

    /// Leaves the coin that was taken last.
    fn leave(&mut self, branches: &[Branch], candidates: &[Candidate]) -> Option<usize> {
        let last = self.taken.pop()?;
        self.sum -= branches[last].adds;
        self.weight -= u64::from(candidates[branches[last].at].weight);
        Some(last)
    }

    /// No choice that goes on from here wastes less. When fees are low, every further input makes
    /// it less wasteful, so that nothing can be said.
    fn least_waste(&self, payment: &Payment) -> i128 {
        if payment.fee_rate <= payment.long_term_fee_rate {
            return i128::MIN;
        }
        i128::from(payment.fee_rate.fee(self.weight))
            - i128::from(payment.long_term_fee_rate.fee(self.weight))
    }
}

/// The coins to search among, largest first. Those that add more than `most` never fit; of the
/// others the largest are the most useful.
fn branches(
    payment: &Payment,
    candidates: &[Candidate],
    most: i128,
    coins_max: usize,
) -> Vec<Branch> {
    let rate = i128::from(payment.fee_rate.get());
    let adds =
        |coin: &Candidate| i128::from(coin.amount.get()) * 1_000 - i128::from(coin.weight) * rate;
    let mut branches: Vec<Branch> = candidates
        .iter()
        .enumerate()
        .map(|(at, coin)| Branch { at, adds: adds(coin), rest: 0 })
        .filter(|branch| branch.adds > 0 && branch.adds <= most)
        .collect();
    branches.sort_by_key(|one| (std::cmp::Reverse(one.adds), candidates[one.at].weight));
    branches.truncate(coins_max);
    let mut rest = 0;
    for branch in branches.iter_mut().rev() {
        rest += branch.adds;
        branch.rest = rest;
    }
    branches
}

#[cfg(test)]
mod tests {
    use utxokeep_core::wallet::{Amount, ChangePolicy, FeeRate};

    use super::*;

    fn coins(amounts: impl IntoIterator<Item = u64>) -> Vec<Candidate> {
        let coin = |(id, amount)| Candidate {
            id,
            amount: Amount::new(amount).unwrap(),
            weight: 272,
            height: None,
        };
        (0..).zip(amounts).map(coin).collect()
    }

    fn payment(value: u64, rate: u32) -> Payment {
        Payment {
            value,
            weight: 42 + 124,
            fee_rate: FeeRate::per_vbyte(rate),
            long_term_fee_rate: FeeRate::per_vbyte(10),
            change: ChangePolicy::default(),
            inputs_max: 250,
        }
    }

    /// Tries every set of coins.
    fn least_waste_without_change(payment: &Payment, candidates: &[Candidate]) -> Option<i128> {
        let sets = (1_u32..1 << candidates.len()).map(|bits| {
            (0..candidates.len()).filter(|at| bits & (1 << at) != 0).collect::<Vec<_>>()
        });
        let found = sets.filter_map(|set| payment.complete(candidates, set));
        found.filter(|found| found.change.is_none()).map(|found| found.waste).min()
    }

    #[test]
    fn finds_what_trying_every_set_finds() {
        let mut found_some = 0;
        for seed in 0..60_u64 {
            let amount = |at: u64| {
                let mixed = (seed * 31 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                2_000 + mixed % 60_000
            };
            let coins = coins((0..12).map(amount));
            for rate in [1, 10, 25] {
                let payment = payment(80_000 + seed * 777, rate);
                let best = least_waste_without_change(&payment, &coins);
                let found = branch_and_bound(&payment, &coins, 12, usize::MAX);
                assert_eq!(found.map(|found| found.waste), best, "seed {seed}, rate {rate}");
                found_some += u32::from(best.is_some());
            }
        }
        assert!(found_some > 50, "only {found_some} searches could find anything");
    }

    #[test]
    fn stops_after_its_rounds() {
        let coins = coins((0..60).map(|at| 10_000 + at * 97));
        let started = std::time::Instant::now();
        branch_and_bound(&payment(299_999, 5), &coins, 60, 1_000);
        assert!(started.elapsed() < std::time::Duration::from_secs(1));
    }

    #[test]
    fn takes_no_more_inputs_than_allowed() {
        let coins = coins([10_000; 20]);
        let mut payment = payment(90_000, 5);
        assert!(branch_and_bound(&payment, &coins, 20, 10_000).is_none());
        payment.value = 10 * (10_000 - 340) - 210;
        let found = branch_and_bound(&payment, &coins, 20, 10_000).unwrap();
        assert_eq!((found.chosen.len(), found.change), (10, None));
        payment.inputs_max = 9;
        assert!(branch_and_bound(&payment, &coins, 20, 10_000).is_none());
    }
}
