//! Coin selection, and selecting and leasing in one transaction.
//!
//! A wallet may have millions of coins; a selection looks at a small window of them, loaded
//! through indexes: large ones, old ones, some near the amount, some at random.

mod search;
mod window;

use utxokeep_core::{
    OutPoint,
    wallet::{
        Amount, Candidate, ChangePolicy, FeeRate, Maturity, Micros, Payment, Picked, WalletId,
        draw_in_order, shuffled,
    },
};

use self::window::Reach;
use crate::{BalanceQuery, LeaseTerms, Ledger, LedgerError, crash, session::Session};

/// How coins are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// All of those below; the choice with the least waste wins.
    #[default]
    LeastWaste,
    /// Large coins first: few inputs.
    LargestFirst,
    /// Old coins first; coins in no block come last.
    OldestFirst,
    /// Coins in a random order.
    SingleRandomDraw,
    /// A search for a choice without change; large coins first when there is none.
    BranchAndBound,
}

/// What coins are wanted for, and which may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectionRequest {
    /// Sum of the outputs to pay.
    pub value: Amount,
    /// Weight of the transaction without inputs and change.
    pub base_weight: u32,
    /// What the transaction pays.
    pub fee_rate: FeeRate,
    /// What spending a coin is expected to cost one day.
    pub long_term_fee_rate: FeeRate,
    /// When change is made.
    pub change: ChangePolicy,
    /// How to choose.
    pub algorithm: Algorithm,
    /// Decides what is random.
    pub seed: u64,
    /// Confirmations that a coin needs; 0 also allows own change in no block.
    pub min_confirmations: u32,
    /// When coinbase outputs may be used.
    pub maturity: Maturity,
    /// Also use what others paid in transactions without a block.
    pub allow_untrusted: bool,
    /// Also use outputs of transactions that were not sent yet.
    pub allow_pending: bool,
    /// Outputs that must not be used.
    pub exclude: Vec<OutPoint>,
    /// More inputs than this are not taken.
    pub inputs_max: usize,
}

impl SelectionRequest {
    /// A payment of `value` at `fee_rate`, with the usual choices for everything else: one output
    /// to a native segwit key, one confirmation, least waste.
    #[must_use]
    pub fn new(value: Amount, fee_rate: FeeRate, seed: u64) -> Self {
        Self {
            value,
            base_weight: 42 + 31 * 4,
            fee_rate,
            long_term_fee_rate: FeeRate::per_vbyte(10),
            change: ChangePolicy::default(),
            algorithm: Algorithm::LeastWaste,
            seed,
            min_confirmations: 1,
            maturity: Maturity::STANDARD,
            allow_untrusted: false,
            allow_pending: false,
            exclude: Vec::new(),
            inputs_max: 250,
        }
    }

    fn payment(&self) -> Payment {
        Payment {
            value: self.value.get(),
            weight: self.base_weight,
            fee_rate: self.fee_rate,
            long_term_fee_rate: self.long_term_fee_rate,
            change: self.change,
            inputs_max: self.inputs_max,
        }
    }
}

/// A coin that was selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedCoin {
    /// Number in the wallet.
    pub id: i64,
    /// The output.
    pub outpoint: OutPoint,
    /// Its amount.
    pub amount: Amount,
    /// Its script.
    pub script: Vec<u8>,
    /// Weight of the input that spends it.
    pub weight: u32,
}

/// A selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The coins, by number.
    pub coins: Vec<SelectedCoin>,
    /// Their sum.
    pub input_total: u64,
    /// What the transaction pays as fee.
    pub fee: u64,
    /// Amount of the change output, if there is one.
    pub change: Option<u64>,
    /// How much worse than ideal the choice is; see `utxokeep_core::wallet::waste`.
    pub waste: i128,
    /// What found it.
    pub algorithm: Algorithm,
    /// When the leases end; `None` when nothing was leased.
    pub leased_until: Option<Micros>,
}

impl Ledger {
    /// Selects coins without leasing them: what [`Ledger::select_and_lease`] would choose now.
    pub fn select(
        &self,
        wallet: WalletId,
        request: &SelectionRequest,
        now: Micros,
    ) -> Result<Selection, LedgerError> {
        self.check_request(request)?;
        self.read_wallet(wallet, |session| {
            session.now = now;
            session.select(request)
        })
    }

    /// Selects coins and leases them, in one transaction behind the lock of the wallet: no other
    /// caller gets the same coins, and all of them or none are leased.
    pub fn select_and_lease(
        &self,
        wallet: WalletId,
        request: &SelectionRequest,
        terms: &LeaseTerms,
        now: Micros,
    ) -> Result<Selection, LedgerError> {
        self.check_request(request)?;
        terms.check()?;
        self.write_wallet(wallet, now, |session| {
            let mut selection = session.select(request)?;
            crash::point("after_select");
            let coins: Vec<(i64, OutPoint)> =
                selection.coins.iter().map(|coin| (coin.id, coin.outpoint)).collect();
            selection.leased_until = Some(session.lease(&coins, terms)?);
            Ok(selection)
        })
    }

    fn check_request(&self, request: &SelectionRequest) -> Result<(), LedgerError> {
        let limit = self.limits.lease_batch_max;
        if request.inputs_max == 0 || request.inputs_max > limit {
            return Err(LedgerError::argument(format!("inputs_max is between 1 and {limit}")));
        }
        if request.exclude.len() > limit {
            return Err(LedgerError::argument(format!("at most {limit} outputs are excluded")));
        }
        if request.value == Amount::ZERO {
            return Err(LedgerError::argument("a payment is larger than nothing"));
        }
        Ok(())
    }
}

impl Session<'_, '_> {
    pub(crate) fn select(&mut self, request: &SelectionRequest) -> Result<Selection, LedgerError> {
        self.check_has_all_blocks()?;
        let payment = request.payment();
        let reach = match request.algorithm {
            Algorithm::LargestFirst => Reach::Largest,
            Algorithm::OldestFirst => Reach::Oldest,
            _ => Reach::Mixed,
        };
        let coins = self.window(request, reach)?;
        let mut found = self.choose(request, &payment, &coins, request.algorithm);
        let mut window = coins;
        if found.is_none() && reach == Reach::Mixed {
            // The window does not hold enough; only many large coins together may do.
            window = self.window(request, Reach::Largest)?;
            found = self.choose(request, &payment, &window, Algorithm::LargestFirst);
        }
        match found {
            None => Err(self.shortfall(request, &payment)?),
            Some((picked, algorithm)) => self.answer(&window, &picked, algorithm),
        }
    }

    fn choose(
        &self,
        request: &SelectionRequest,
        payment: &Payment,
        candidates: &[Candidate],
        algorithm: Algorithm,
    ) -> Option<(Picked, Algorithm)> {
        let by = |key: &dyn Fn(&Candidate) -> (u64, i64)| {
            let mut order: Vec<usize> = (0..candidates.len()).collect();
            order.sort_by_key(|at| key(&candidates[*at]));
            order
        };
        let run = |algorithm| match algorithm {
            Algorithm::LeastWaste => None,
            Algorithm::LargestFirst => {
                let order = by(&|coin| (u64::MAX - coin.amount.get(), coin.id));
                draw_in_order(payment, candidates, order)
            }
            Algorithm::OldestFirst => {
                let age = |coin: &Candidate| coin.height.map_or(u64::MAX, |h| h.get().into());
                let order = by(&|coin| (age(coin), coin.id));
                draw_in_order(payment, candidates, order)
            }
            Algorithm::SingleRandomDraw => {
                draw_in_order(payment, candidates, shuffled(candidates.len(), request.seed))
            }
            Algorithm::BranchAndBound => {
                let limits = &self.limits;
                search::branch_and_bound(
                    payment,
                    candidates,
                    limits.selection_search_coins_max,
                    limits.selection_rounds_max,
                )
            }
        };
        let all = [
            Algorithm::BranchAndBound,
            Algorithm::LargestFirst,
            Algorithm::OldestFirst,
            Algorithm::SingleRandomDraw,
        ];
        let wanted = |each: &Algorithm| algorithm == Algorithm::LeastWaste || *each == algorithm;
        all.into_iter()
            .filter(wanted)
            .filter_map(|each| run(each).map(|picked| (picked, each)))
            .min_by_key(|(picked, _)| (picked.waste, picked.chosen.len()))
    }

    /// Why there is no selection, with what the wallet has.
    fn shortfall(
        &mut self,
        request: &SelectionRequest,
        payment: &Payment,
    ) -> Result<LedgerError, LedgerError> {
        let query = BalanceQuery { maturity: request.maturity, ..BalanceQuery::default() };
        let balance = self.balance(&query, self.now)?;
        let available = self.eligible_sum(request)?;
        let needed = payment.value + payment.fee_rate.fee(u64::from(payment.weight));
        if available >= needed {
            let inputs_max = request.inputs_max;
            return Ok(LedgerError::TooManyInputs { needed, available, inputs_max });
        }
        let leased = balance.leased_spendable;
        let held_back = balance.held_back;
        let counted = available + leased + balance.immature + held_back;
        Ok(LedgerError::InsufficientFunds {
            needed,
            available,
            leased,
            immature: balance.immature,
            held_back,
            pending: balance.total().saturating_sub(counted),
        })
    }

    /// Completes a choice with what only the coins in it have to say.
    fn answer(
        &mut self,
        window: &[Candidate],
        picked: &Picked,
        algorithm: Algorithm,
    ) -> Result<Selection, LedgerError> {
        // The window is in the order of numbers, and so is what was picked of it.
        let picks: Vec<&Candidate> = picked.chosen.iter().map(|at| &window[*at]).collect();
        let ids: Vec<i64> = picks.iter().map(|coin| coin.id).collect();
        let coins = picks.into_iter().zip(self.chosen(&ids)?).map(|(coin, chosen)| SelectedCoin {
            id: chosen.id,
            outpoint: chosen.outpoint,
            amount: coin.amount,
            script: chosen.script,
            weight: coin.weight,
        });
        Ok(Selection {
            coins: coins.collect(),
            input_total: picked.input_total,
            fee: picked.fee,
            change: picked.change,
            waste: picked.waste,
            algorithm,
            leased_until: None,
        })
    }
}
