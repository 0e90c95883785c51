//! What selections are worth, beside the time they take; and what `bdk_coin_select` finds when it
//! is given every coin of the wallet.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bdk_coin_select::{
    Candidate as Input, ChangePolicy, CoinSelector, DrainWeights, Target, TargetFee, TargetOutputs,
    metrics::LowestFee,
};
use utxokeep_core::wallet::{Candidate, Payment, Picked};
use utxokeep_wallet::{Algorithm, Amount, Coin, CoinQuery, FeeRate, Maturity, SelectionRequest};

use super::{
    leases::values,
    made::{Made, NOW},
};
use crate::output;

/// Payments of each measurement.
const PAYMENTS: u64 = 40;
/// Weight of an input that spends one of the made coins.
const INPUT_WEIGHT: u32 = 272;
/// Weight that `bdk_coin_select` adds by itself.
const FIXED_WEIGHT: u32 = 42;
/// Rounds that it may take; it stops earlier when it has proved that nothing is better.
const ROUNDS_MAX: usize = 100_000;
/// Above this many coins its search takes seconds and gigabytes, so that it is not asked to.
const SEARCH_COINS_MAX: usize = 110;

/// Sums over selections.
#[derive(Default)]
struct Sums {
    found: u32,
    fee: u64,
    waste: i128,
    inputs: usize,
    with_change: u32,
    took: Vec<Duration>,
}

impl Sums {
    fn add(&mut self, fee: u64, waste: i128, inputs: usize, has_change: bool, took: Duration) {
        self.found += 1;
        self.fee += fee;
        self.waste += waste;
        self.inputs += inputs;
        self.with_change += u32::from(has_change);
        self.took.push(took);
    }

    fn show(self, what: &str) {
        let count = self.found.max(1);
        let inputs = f64::from(u32::try_from(self.inputs).unwrap_or(u32::MAX));
        output::line(&format!(
            "{what}: {} found, mean fee {}, waste {}, inputs {:.1}, with change {}; {}",
            self.found,
            self.fee / u64::from(count),
            self.waste / i128::from(count),
            inputs / f64::from(count),
            self.with_change,
            output::percentiles(self.took)
        ));
    }
}

pub(super) fn measure(dir: &Path) -> anyhow::Result<()> {
    output::heading("coin selection: quality beside time, SQLite, nothing is written");
    for coins in [50, 10_000] {
        let url = format!("sqlite:{}", dir.join(format!("quality-{coins}.db")).display());
        let mut made = Made::new(&url, 10)?;
        for _ in 0..10 {
            let (block, txs) = made.next_block(coins / 10, 2);
            made.apply(&block, &txs)?;
        }
        for fee_rate in [5, 100] {
            measure_rate(&made, fee_rate)?;
        }
    }
    Ok(())
}

fn measure_rate(made: &Made, fee_rate: u32) -> anyhow::Result<()> {
    let requests: Vec<SelectionRequest> = (0..)
        .zip(values(PAYMENTS))
        .map(|(seed, value)| {
            let value = Amount::new(value.max(10_000))?;
            let mut request = SelectionRequest::new(value, FeeRate::per_vbyte(fee_rate), seed);
            request.maturity = Maturity::blocks_above(0);
            Ok(request)
        })
        .collect::<anyhow::Result<_>>()?;
    let coins = all_coins(made)?;
    let what = format!("{} coins, {fee_rate} per virtual byte", coins.len());
    for (name, algorithm) in [
        ("largest first", Algorithm::LargestFirst),
        ("oldest first", Algorithm::OldestFirst),
        ("random draw", Algorithm::SingleRandomDraw),
        ("branch and bound", Algorithm::BranchAndBound),
        ("least waste of all", Algorithm::LeastWaste),
    ] {
        let mut sums = Sums::default();
        for request in &requests {
            let request = SelectionRequest { algorithm, ..request.clone() };
            let started = Instant::now();
            let Ok(found) = made.ledger.select(made.wallet, &request, NOW) else { continue };
            let took = started.elapsed();
            sums.add(found.fee, found.waste, found.coins.len(), found.change.is_some(), took);
        }
        sums.show(&format!("{what}, {name}"));
    }
    let mut sums = Sums::default();
    for request in &requests {
        let started = Instant::now();
        let Some(found) = peer(request, &coins) else { continue };
        let took = started.elapsed();
        sums.add(found.fee, found.waste, found.chosen.len(), found.change.is_some(), took);
    }
    let way = if coins.len() > SEARCH_COINS_MAX { "best value first" } else { "lowest fee search" };
    sums.show(&format!("{what}, bdk_coin_select on all coins in memory, {way}"));
    Ok(())
}

fn all_coins(made: &Made) -> anyhow::Result<Vec<Candidate>> {
    let mut coins: Vec<Coin> = Vec::new();
    loop {
        let after = coins.last().map(|coin| (coin.amount, coin.outpoint));
        let query = CoinQuery { after, ..CoinQuery::default() };
        let page = made.ledger.coins(made.wallet, &query, NOW)?;
        if page.is_empty() {
            break;
        }
        coins.extend(page);
    }
    let candidate = |coin: Coin| Candidate {
        id: coin.id,
        amount: coin.amount,
        weight: INPUT_WEIGHT,
        height: coin.height,
    };
    Ok(coins.into_iter().map(candidate).collect())
}

/// What `bdk_coin_select` would choose, measured with our rules.
fn peer(request: &SelectionRequest, coins: &[Candidate]) -> Option<Picked> {
    let rate = |rate: FeeRate| {
        let per_vbyte = u16::try_from(rate.get() / 250).unwrap_or(u16::MAX);
        bdk_coin_select::FeeRate::from_sat_per_vb(f32::from(per_vbyte))
    };
    let inputs: Vec<Input> = coins
        .iter()
        .map(|coin| Input {
            value: coin.amount.get(),
            weight: u64::from(coin.weight),
            input_count: 1,
            is_segwit: true,
        })
        .collect();
    let target = Target {
        fee: TargetFee::from_feerate(rate(request.fee_rate)),
        outputs: TargetOutputs {
            value_sum: request.value.get(),
            weight_sum: u64::from(request.base_weight - FIXED_WEIGHT),
            n_outputs: 1,
        },
    };
    let drain = DrainWeights {
        output_weight: u64::from(request.change.output_weight),
        spend_weight: u64::from(request.change.spend_weight),
        n_outputs: 1,
    };
    let change_policy = ChangePolicy::min_value(drain, request.change.min_value);
    let long_term_feerate = rate(request.long_term_fee_rate);
    let mut selector = CoinSelector::new(&inputs);
    if coins.len() > SEARCH_COINS_MAX {
        selector.sort_candidates_by_descending_value_pwu();
        selector.select_until_target_met(target).ok()?;
    } else {
        let metric = LowestFee { target, long_term_feerate, change_policy };
        selector.run_bnb(metric, ROUNDS_MAX).ok()?;
    }
    let payment = Payment {
        value: request.value.get(),
        weight: request.base_weight,
        fee_rate: request.fee_rate,
        long_term_fee_rate: request.long_term_fee_rate,
        change: request.change,
        inputs_max: coins.len(),
    };
    payment.complete(coins, selector.selected_indices().iter().copied().collect())
}
