//! The arithmetic of a replacement with a higher fee: which coins it adds, what is left as change.
//!
//! # Invariants
//!
//! * Fee from both sides: at least what is required, and at most that plus the least change that is
//!   made plus the cost of making it.
//! * Coins are only added where their change has a place to go.

use super::{
    select::{Candidate, ChangePolicy, FeeRate},
    weight::{BARE_WEIGHT, count_weight},
};

/// What a replacement keeps of the old transaction, and what it has to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// Number of the inputs that stay.
    pub inputs: usize,
    /// Their weight, without their count.
    pub inputs_weight: u64,
    /// Their sum.
    pub input_total: u64,
    /// Number of the outputs that stay as they are.
    pub payments: usize,
    /// Their weight, without their count.
    pub payments_weight: u64,
    /// Their sum.
    pub payment_total: u64,
    /// What the old transaction and everything that depends on it pay together.
    pub replaced_fees: u64,
    /// What the old transaction pays by itself.
    pub old_fee: u64,
    /// Weight of the old transaction, when it is signed.
    pub old_weight: u64,
    /// What the replacement pays, at least.
    pub fee_rate: FeeRate,
    /// What nodes ask a replacement to pay on top for its own size.
    pub incremental_rate: FeeRate,
    /// Change, when there is a place for it.
    pub change: Option<ChangePolicy>,
    /// More inputs than this are not taken.
    pub inputs_max: usize,
}

/// A replacement that pays enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Funded {
    /// Positions of the coins that are added, in the order they were given.
    pub added: Vec<usize>,
    /// What it pays.
    pub fee: u64,
    /// Amount of its change, if there is any.
    pub change: Option<u64>,
    /// Its weight, when it is signed.
    pub weight: u64,
}

impl Replacement {
    /// The least fee of a replacement with this weight: what was asked for, and what nodes ask for.
    ///
    /// Nodes ask for more than everything it pushes out pays together, and for a better rate than
    /// that of the old transaction. The incremental rate comes on top of both.
    #[must_use]
    pub fn required_fee(&self, weight: u64) -> u64 {
        let on_top = self.incremental_rate.fee(weight);
        let at_old_rate = self.at_old_rate(weight);
        let replaced = self.replaced_fees.max(at_old_rate);
        self.fee_rate.fee(weight).max(replaced.saturating_add(on_top))
    }

    /// What the old transaction would pay at its rate if it had this weight, rounded up.
    fn at_old_rate(&self, weight: u64) -> u64 {
        let [new, old] = [weight, self.old_weight].map(|weight| u128::from(weight.div_ceil(4)));
        let fee = (u128::from(self.old_fee) * new).div_ceil(old.max(1));
        u64::try_from(fee).unwrap_or(u64::MAX)
    }

    /// What one more unit of weight costs, at most.
    #[must_use]
    pub fn marginal_rate(&self) -> FeeRate {
        let old_rate = u32::try_from(self.at_old_rate(4_000)).unwrap_or(u32::MAX).div_ceil(4);
        let above_old = old_rate.saturating_add(self.incremental_rate.get());
        self.fee_rate.max(FeeRate::per_kilo_weight(above_old))
    }

    /// What added coins must bring, besides the fee for their own inputs and for change that is not
    /// needed.
    #[must_use]
    pub fn missing(&self) -> u64 {
        // A transaction that pays nobody has change at least.
        let change = self.change.as_ref().filter(|_| self.payments == 0);
        let required = self.required_fee(self.weight(&[], change));
        let least_change = change.map_or(0, |change| change.min_value.max(1));
        let needed = self.payment_total.saturating_add(required).saturating_add(least_change);
        needed.saturating_sub(self.input_total)
    }

    fn weight(&self, added: &[&Candidate], change: Option<&ChangePolicy>) -> u64 {
        let outputs = self.payments + usize::from(change.is_some());
        let inputs: u64 = added.iter().map(|coin| u64::from(coin.weight)).sum();
        BARE_WEIGHT
            + self.inputs_weight
            + inputs
            + count_weight(self.inputs + added.len())
            + self.payments_weight
            + change.map_or(0, |change| u64::from(change.output_weight))
            + count_weight(outputs)
    }

    /// Completes a replacement with these coins on top; `None` when they do not pay for it.
    fn complete(&self, candidates: &[Candidate], added: &[usize]) -> Option<Funded> {
        let coins: Vec<&Candidate> = added.iter().map(|at| &candidates[*at]).collect();
        let total = coins
            .iter()
            .try_fold(self.input_total, |sum, coin| sum.checked_add(coin.amount.get()))?;
        let left = total.checked_sub(self.payment_total)?;
        let added = added.to_vec();
        if let Some(policy) = &self.change {
            let weight = self.weight(&coins, Some(policy));
            let fee = self.required_fee(weight);
            let change = left.checked_sub(fee).filter(|change| *change >= policy.min_value.max(1));
            if change.is_some() {
                return Some(Funded { added, fee, change, weight });
            }
        }
        let weight = self.weight(&coins, None);
        let is_enough = self.payments > 0 && left >= self.required_fee(weight);
        is_enough.then_some(Funded { added, fee: left, change: None, weight })
    }

    /// The replacement with the old coins alone; `None` when it needs more.
    #[must_use]
    pub fn with_old_coins(&self) -> Option<Funded> {
        self.complete(&[], &[])
    }

    /// The replacement with as few added coins as possible, and among those the smallest last one
    /// that is enough. `None` when all of them, or as many as allowed, do not pay for it, and when
    /// there is no place for change.
    #[must_use]
    pub fn with_more_coins(&self, candidates: &[Candidate]) -> Option<Funded> {
        self.change?;
        let room = self.inputs_max.saturating_sub(self.inputs);
        let mut smallest: Vec<usize> = (0..candidates.len()).collect();
        smallest.sort_by_key(|at| (candidates[*at].amount, candidates[*at].id));
        let complete_with = |kept: &[usize]| {
            let others = smallest.iter().filter(|at| !kept.contains(at));
            others.into_iter().find_map(|at| self.complete(candidates, &[kept, &[*at]].concat()))
        };
        if room == 0 {
            return None;
        }
        if let Some(with_one) = complete_with(&[]) {
            return Some(with_one);
        }
        let adds = |at: &usize| candidates[*at].effective_value(self.marginal_rate());
        let mut largest: Vec<usize> = smallest.iter().copied().filter(|at| adds(at) > 0).collect();
        largest.sort_by_key(|at| (std::cmp::Reverse(adds(at)), candidates[*at].id));
        let fewest = (2..=room.min(largest.len()))
            .find(|count| self.complete(candidates, &largest[..*count]).is_some())?;
        complete_with(&largest[..fewest - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wallet::{Amount, output_weight};

    fn coins(amounts: &[u64]) -> Vec<Candidate> {
        (0i64..)
            .zip(amounts)
            .map(|(id, amount)| Candidate {
                id,
                amount: Amount::new(*amount).unwrap(),
                weight: 272,
                height: None,
            })
            .collect()
    }

    /// One input, one payment, nothing left over but a fee of 110.
    fn changeless() -> Replacement {
        Replacement {
            inputs: 1,
            inputs_weight: 272,
            input_total: 100_110,
            payments: 1,
            payments_weight: 124,
            payment_total: 100_000,
            replaced_fees: 110,
            old_fee: 110,
            old_weight: 42 + 272 + 124,
            fee_rate: FeeRate::per_vbyte(20),
            incremental_rate: FeeRate::per_vbyte(1),
            change: Some(ChangePolicy::default()),
            inputs_max: 250,
        }
    }

    #[test]
    fn the_smallest_coin_that_is_enough_is_added_and_brings_change() {
        let coins = coins(&[5_000_000_000, 900, 20_000, 30_000]);
        let funded = changeless().with_more_coins(&coins).unwrap();
        assert_eq!(funded.added, [2]);
        // 178 virtual bytes for two inputs, 31 for change.
        assert_eq!(funded.weight, 42 + 2 * 272 + 2 * 124);
        assert_eq!(funded.fee, 20 * funded.weight.div_ceil(4));
        assert_eq!(funded.change, Some(100_110 + 20_000 - 100_000 - funded.fee));
    }

    #[test]
    fn a_bump_never_lowers_the_fee_rate() {
        // 110 virtual bytes at 50 each; one more input and change make it nearly twice as long.
        let dear = Replacement {
            input_total: 105_500,
            replaced_fees: 5_500,
            old_fee: 5_500,
            fee_rate: FeeRate::per_vbyte(0),
            ..changeless()
        };
        for asked in [0, 10, 49, 50] {
            let replacement = Replacement { fee_rate: FeeRate::per_vbyte(asked), ..dear };
            let funded = replacement.with_more_coins(&coins(&[20_000])).unwrap();
            let vbytes = funded.weight.div_ceil(4);
            assert_eq!(funded.fee, 51 * vbytes, "the old rate and the incremental one");
        }
    }

    #[test]
    fn without_a_place_for_change_no_coin_is_added() {
        let nowhere = Replacement { change: None, ..changeless() };
        assert_eq!(nowhere.with_old_coins(), None);
        assert_eq!(nowhere.with_more_coins(&coins(&[5_000_000_000])), None);
    }

    /// What is missing is what one more coin has to bring, and not a unit less.
    #[test]
    fn a_shortage_is_as_large_as_the_coin_that_ends_it() {
        let only_change = Replacement {
            payments: 0,
            payments_weight: 0,
            payment_total: 0,
            input_total: 2_000,
            replaced_fees: 110,
            ..changeless()
        };
        for short in [changeless(), only_change] {
            assert_eq!(short.with_old_coins(), None);
            // The input of one more coin, without the rounding of two fees.
            let exact = short.missing() + short.fee_rate.fee(272);
            let enough = |amount| short.with_more_coins(&coins(&[amount])).is_some();
            assert!(enough(exact + 20) && !enough(exact - 21), "{short:?}: {exact}");
            assert!(short.missing() > 400, "{short:?}");
        }
    }

    #[test]
    fn as_few_coins_as_possible_are_added() {
        let coins = coins(&[3_000, 2_900, 2_500, 2_800, 2_400, 1_370]);
        let funded = changeless().with_more_coins(&coins).unwrap();
        // One coin is not enough. Of two, the second is the smallest that is.
        assert_eq!(funded.added, [0, 4]);
        let few = Replacement { inputs_max: funded.added.len(), ..changeless() };
        assert_eq!(few.with_more_coins(&coins), None, "one input is kept");
    }

    /// A number that the seed decides, below `end`.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % end
        }

        fn one<T: Copy>(&mut self, of: &[T]) -> T {
            of[usize::try_from(self.below(of.len() as u64)).unwrap()]
        }
    }

    /// Fees stay between what is required and that plus dust and the cost of change, on every path.
    #[test]
    fn a_fee_is_bounded_from_both_sides() {
        let mut paths = [0u32; 5];
        for seed in 0..20_000 {
            let mut random = Random(seed);
            let script = vec![0; random.one(&[22, 23, 25, 34])];
            let has_old_change = random.below(2) == 0;
            let old_change = if has_old_change { random.below(20_000) } else { 0 };
            let policy = ChangePolicy::to(&script, None);
            let weights = [230, 272, 364, 592];
            let inputs = 1 + usize::try_from(random.below(4)).unwrap();
            let payments =
                usize::try_from(random.below(4)).unwrap().max(usize::from(!has_old_change));
            let payment_total = payments as u64 * (1_000 + random.below(1_000_000));
            let old_fee = random.below(3_000);
            let replacement = Replacement {
                inputs,
                inputs_weight: (0..inputs).map(|_| u64::from(random.one(&weights))).sum(),
                input_total: payment_total + old_change + old_fee,
                payments,
                payments_weight: payments as u64 * output_weight(&[0; 22]),
                payment_total,
                replaced_fees: old_fee + random.one(&[0, 0, 40_000]),
                old_fee,
                old_weight: 42 + inputs as u64 * random.one(&[230, 272, 592]),
                fee_rate: FeeRate::per_kilo_weight(u32::try_from(random.below(30_000)).unwrap()),
                incremental_rate: FeeRate::per_vbyte(u32::try_from(1 + random.below(5)).unwrap()),
                change: (has_old_change || random.below(4) > 0).then_some(policy),
                inputs_max: inputs + usize::try_from(random.below(8)).unwrap(),
            };
            let count = random.below(30);
            let largest = random.one(&[20_000, 30_000, 500_000, 5_000_000_000]);
            let amounts: Vec<u64> = (0..count).map(|_| 1 + random.below(largest)).collect();
            let mut coins = coins(&amounts);
            for coin in &mut coins {
                coin.weight = random.one(&weights);
            }
            let old = replacement.with_old_coins();
            let Some(funded) = old.or_else(|| replacement.with_more_coins(&coins)) else {
                paths[0] += 1;
                continue;
            };
            let added: u64 = funded.added.iter().map(|at| coins[*at].amount.get()).sum();
            let change = funded.change.unwrap_or(0);
            assert_eq!(replacement.input_total + added, payment_total + funded.fee + change);
            let required = replacement.required_fee(funded.weight);
            let cost = policy.cost(replacement.marginal_rate());
            assert!(funded.fee >= required, "seed {seed}: {funded:?}");
            assert!(funded.fee <= required + policy.min_value + cost, "seed {seed}: {funded:?}");
            assert!(funded.change.is_none_or(|change| change >= policy.min_value));
            assert!(funded.added.is_empty() || replacement.change.is_some());
            assert!(replacement.inputs + funded.added.len() <= replacement.inputs_max);
            if let [only] = funded.added[..] {
                let smaller = (0..coins.len()).filter(|at| coins[*at].amount < coins[only].amount);
                let is_enough = |at: usize| replacement.complete(&coins, &[at]).is_some();
                assert!(!smaller.into_iter().any(is_enough), "seed {seed}: {funded:?}");
            }
            let path = match (funded.added.len(), funded.change) {
                (0, Some(_)) => 1,
                (0, None) => 2,
                (1, _) => 3,
                _ => 4,
            };
            paths[path] += 1;
        }
        assert!(paths.iter().all(|count| *count > 100), "{paths:?}");
    }
}
