//! Coin selection: what a payment costs, what is left as change, and how wasteful a choice is.
//!
//! Sizes are in weight units, a quarter of a virtual byte. Candidates come in as a short list; the
//! ledger loads them through its indexes.

use crate::types::Height;

use super::types::Amount;

/// Units of fee for a thousand weight units. One satoshi per virtual byte is 250.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeeRate(u32);

impl FeeRate {
    /// A rate per thousand weight units.
    #[must_use]
    pub const fn per_kilo_weight(units: u32) -> Self {
        Self(units)
    }

    /// A rate per virtual byte; saturates.
    #[must_use]
    pub const fn per_vbyte(units: u32) -> Self {
        Self(units.saturating_mul(250))
    }

    /// The number per thousand weight units.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The fee of a whole transaction: its weight is rounded up to virtual bytes, the fee too.
    #[must_use]
    pub fn fee(self, weight: u64) -> u64 {
        let whole_vbytes = weight.div_ceil(4).saturating_mul(4);
        whole_vbytes.saturating_mul(u64::from(self.0)).div_ceil(1000)
    }
}

/// When change is made, and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangePolicy {
    /// Weight of the change output.
    pub output_weight: u32,
    /// Weight of the input that will spend it one day.
    pub spend_weight: u32,
    /// Less than this is dust and goes to the fee.
    pub min_value: u64,
}

impl Default for ChangePolicy {
    /// Change to a native segwit key, with the usual dust limit of 294.
    fn default() -> Self {
        Self { output_weight: 31 * 4, spend_weight: 272, min_value: 294 }
    }
}

/// What coins are selected for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    /// Sum of the outputs, without change.
    pub value: u64,
    /// Weight of the transaction without inputs and change.
    pub weight: u32,
    /// What the transaction pays.
    pub fee_rate: FeeRate,
    /// What spending a coin is expected to cost one day; tells when spending many now is a waste.
    pub long_term_fee_rate: FeeRate,
    /// When change is made.
    pub change: ChangePolicy,
    /// More inputs than this are not taken.
    pub inputs_max: usize,
}

/// A coin that may be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Number of the coin in the ledger.
    pub id: i64,
    /// In the smallest unit of the chain; the cost of its input is not taken off.
    pub amount: Amount,
    /// Weight of the input that spends it.
    pub weight: u32,
    /// Its block, if it is in one.
    pub height: Option<Height>,
}

impl Candidate {
    /// What the coin adds after paying for its own input.
    #[must_use]
    pub fn effective_value(&self, rate: FeeRate) -> i128 {
        i128::from(self.amount.get()) - i128::from(rate.fee(u64::from(self.weight)))
    }
}

/// A choice of coins that pays for the payment and its fee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked {
    /// Positions in the list of candidates, ascending.
    pub chosen: Vec<usize>,
    /// Sum of the inputs.
    pub input_total: u64,
    /// What the transaction pays as fee.
    pub fee: u64,
    /// Amount of the change output, if there is one.
    pub change: Option<u64>,
    /// Weight of the transaction, when it is signed.
    pub weight: u64,
    /// See [`waste`].
    pub waste: i128,
}

impl Payment {
    fn inputs_weight(candidates: &[Candidate], chosen: &[usize]) -> u64 {
        let inputs: u64 = chosen.iter().map(|at| u64::from(candidates[*at].weight)).sum();
        // From 253 inputs on their number takes two bytes more.
        if chosen.len() > 252 { inputs + 8 } else { inputs }
    }

    /// Completes a choice with fee and change; `None` when it does not pay for the payment.
    #[must_use]
    pub fn complete(&self, candidates: &[Candidate], mut chosen: Vec<usize>) -> Option<Picked> {
        chosen.sort_unstable();
        chosen.dedup();
        if chosen.is_empty() || chosen.len() > self.inputs_max {
            return None;
        }
        let input_total: u64 = chosen
            .iter()
            .try_fold(0u64, |sum, at| sum.checked_add(candidates[*at].amount.get()))?;
        let weight = u64::from(self.weight) + Self::inputs_weight(candidates, &chosen);
        let least_fee = self.fee_rate.fee(weight);
        let left = input_total.checked_sub(self.value)?.checked_sub(least_fee)?;
        let weight_with_change = weight + u64::from(self.change.output_weight);
        let fee_with_change = self.fee_rate.fee(weight_with_change);
        let change = left
            .checked_sub(fee_with_change - least_fee)
            .filter(|change| *change >= self.change.min_value.max(1));
        let weight = if change.is_some() { weight_with_change } else { weight };
        let fee = input_total - self.value - change.unwrap_or(0);
        let waste = waste(self, candidates, &chosen, fee, change.is_some());
        Some(Picked { chosen, input_total, fee, change, weight, waste })
    }
}

/// How much a choice costs more than waiting would: inputs that are spent now rather than at the
/// long-term rate, plus the cost of change, or what the fee gets on top when there is none.
#[must_use]
pub fn waste(
    payment: &Payment,
    candidates: &[Candidate],
    chosen: &[usize],
    fee: u64,
    has_change: bool,
) -> i128 {
    let inputs = Payment::inputs_weight(candidates, chosen);
    let timing = i128::from(payment.fee_rate.fee(inputs))
        - i128::from(payment.long_term_fee_rate.fee(inputs));
    let rest = if has_change {
        payment.change.cost(payment.fee_rate)
            + payment.long_term_fee_rate.fee(u64::from(payment.change.spend_weight))
    } else {
        fee - payment.fee_rate.fee(u64::from(payment.weight) + inputs)
    };
    timing + i128::from(rest)
}

/// Takes candidates in the order given until the payment is covered. Coins that cost more than
/// they add are left out. `None` when all of them, or `inputs_max` of them, are not enough.
#[must_use]
pub fn draw_in_order(
    payment: &Payment,
    candidates: &[Candidate],
    order: impl IntoIterator<Item = usize>,
) -> Option<Picked> {
    let mut chosen = Vec::new();
    let mut missing =
        i128::from(payment.value) + i128::from(payment.fee_rate.fee(u64::from(payment.weight)));
    for at in order {
        let adds = candidates[at].effective_value(payment.fee_rate);
        if adds <= 0 {
            continue;
        }
        if chosen.len() == payment.inputs_max {
            return None;
        }
        chosen.push(at);
        missing -= adds;
        if missing <= 0
            && let Some(picked) = payment.complete(candidates, chosen.clone())
        {
            return Some(picked);
        }
    }
    None
}

/// The numbers `0..count` in an order that only `seed` decides.
#[must_use]
pub fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut order: Vec<usize> = (0..count).collect();
    for end in (1..count).rev() {
        let bound = u64::try_from(end).unwrap_or(u64::MAX).saturating_add(1);
        let at = usize::try_from(random() % bound).unwrap_or(0);
        order.swap(end, at);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn payment(value: u64) -> Payment {
        Payment {
            value,
            weight: 42 + 124,
            fee_rate: FeeRate::per_vbyte(2),
            long_term_fee_rate: FeeRate::per_vbyte(5),
            change: ChangePolicy::default(),
            inputs_max: 3,
        }
    }

    #[test]
    fn fees_round_up_twice() {
        assert_eq!(FeeRate::per_vbyte(1).fee(561), 141);
        assert_eq!(FeeRate::per_kilo_weight(1).fee(1), 1);
        assert_eq!(FeeRate::per_vbyte(0).fee(561), 0);
    }

    #[test]
    fn nothing_is_lost_between_inputs_outputs_fee_and_change() {
        let coins = coins(&[10_000, 3_000, 7_000]);
        for value in [1, 5_000, 9_000, 9_400, 9_700, 12_000, 19_000] {
            let picked = draw_in_order(&payment(value), &coins, 0..3).unwrap();
            assert_eq!(picked.input_total, value + picked.fee + picked.change.unwrap_or(0));
            assert!(picked.change.is_none_or(|change| change >= 294));
        }
        assert_eq!(draw_in_order(&payment(19_900), &coins, 0..3), None);
    }

    #[test]
    fn what_would_be_dust_goes_to_the_fee() {
        // One input: 438 weight units, 110 virtual bytes, 220 of fee.
        let coins = coins(&[10_000]);
        let picked = payment(9_500).complete(&coins, vec![0]).unwrap();
        assert_eq!((picked.fee, picked.change), (500, None));
        let exact = payment(9_780).complete(&coins, vec![0]).unwrap();
        assert_eq!((exact.fee, exact.change), (220, None));
        assert_eq!(payment(9_781).complete(&coins, vec![0]), None);
    }

    #[test]
    fn coins_that_cost_more_than_they_add_are_left_out() {
        let coins = coins(&[100, 136, 5_000]);
        let picked = draw_in_order(&payment(1_000), &coins, 0..3).unwrap();
        assert_eq!(picked.chosen, [2]);
    }

    #[test]
    fn the_number_of_inputs_is_limited() {
        let coins = coins(&[1_000; 5]);
        assert_eq!(draw_in_order(&payment(3_000), &coins, 0..5), None);
        assert_eq!(payment(1).complete(&coins, vec![]), None);
    }

    #[test]
    fn cheap_times_make_many_inputs_less_wasteful() {
        let coins = coins(&[10_000, 5_000, 5_200]);
        let one = payment(9_780).complete(&coins, vec![0]).unwrap();
        let two = payment(9_780).complete(&coins, vec![1, 2]).unwrap();
        // 2 now against 5 later: 204 saved for each input.
        assert_eq!(one.waste, -204);
        assert_eq!(two.waste, -408 + 64);
    }

    #[test]
    fn a_seed_decides_the_order() {
        assert_eq!(shuffled(50, 7), shuffled(50, 7));
        assert_ne!(shuffled(50, 7), shuffled(50, 8));
        let mut sorted = shuffled(50, 7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert!(shuffled(0, 1).is_empty());
    }
}
