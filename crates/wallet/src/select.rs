//! Coin selection, and selecting and leasing in one transaction.
//!
//! A wallet may have millions of coins; a selection looks at a small window of them, loaded
//! through indexes: large ones, old ones, some near the amount, some at random.

mod closed;
mod search;
mod window;

use utxokeep_core::{
    Height, OutPoint,
    wallet::{
        AllowedGuards, Amount, AmountTooLarge, Candidate, ChangePolicy, FeeRate, LockTime,
        Maturity, Micros, Payment, PaymentGuards, Picked, WalletId, count_weight, draw_in_order,
        shuffled, weight_without_inputs,
    },
};
use utxokeep_fault::crash_point;

pub(crate) use self::closed::ClosedCoins;
use self::window::Reach;
use crate::{BalanceQuery, LeaseTerms, Ledger, LedgerError, NewOutput, session::Session};

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
    /// What is paid, without change. Empty when only the sum is known.
    pub outputs: Vec<NewOutput>,
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
    /// Lock time that the transaction asks for. Coins whose descriptor needs one that is not of the
    /// same kind, height or time, are left out.
    pub lock_time: LockTime,
    /// Guards that must not refuse the payment. With `not_yet_valid` coins are taken too whose
    /// descriptor does not open them yet.
    pub allow: AllowedGuards,
}

impl SelectionRequest {
    /// A payment of these outputs at `fee_rate`, with the usual choices for everything else.
    pub fn paying(
        outputs: Vec<NewOutput>,
        fee_rate: FeeRate,
        seed: u64,
    ) -> Result<Self, AmountTooLarge> {
        let value = Amount::new(sum_of(&outputs))?;
        let scripts = outputs.iter().map(|output| output.script.as_slice());
        let base_weight = u32::try_from(weight_without_inputs(scripts, 0)).unwrap_or(u32::MAX);
        Ok(Self { outputs, base_weight, ..Self::new(value, fee_rate, seed) })
    }

    /// A payment of `value` at `fee_rate`, with the usual choices for everything else: one output
    /// to a native segwit key, one confirmation, least waste.
    #[must_use]
    pub fn new(value: Amount, fee_rate: FeeRate, seed: u64) -> Self {
        Self {
            outputs: Vec::new(),
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
            lock_time: LockTime::Height(0),
            allow: AllowedGuards::NONE,
        }
    }

    fn payment(&self) -> Payment {
        // One output more may need a longer count.
        let outputs = self.outputs.len();
        let longer = count_weight(outputs + 1) - count_weight(outputs);
        let longer = u32::try_from(longer).unwrap_or(0);
        let output_weight = self.change.output_weight.saturating_add(longer);
        Payment {
            value: self.value.get(),
            weight: self.base_weight,
            fee_rate: self.fee_rate,
            long_term_fee_rate: self.long_term_fee_rate,
            change: ChangePolicy { output_weight, ..self.change },
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
    /// Its block, if it is in one.
    pub height: Option<Height>,
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
    /// Weight of the transaction, when it is signed.
    pub weight: u64,
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
        self.read_wallet_at(wallet, now, |session| session.select(request))
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
        self.write_wallet(wallet, now, |session| session.select_and_lease(request, terms))
    }

    pub(crate) fn check_request(&self, request: &SelectionRequest) -> Result<(), LedgerError> {
        let limit = self.limits.lease_batch_max;
        if request.inputs_max == 0 || request.inputs_max > limit {
            return Err(LedgerError::argument(format!("inputs_max is between 1 and {limit}")));
        }
        self.limits.check_change_min(request.change.min_value)?;
        if request.exclude.len() > limit {
            return Err(LedgerError::argument(format!("at most {limit} outputs are excluded")));
        }
        if request.value == Amount::ZERO && request.outputs.is_empty() {
            return Err(LedgerError::argument("a payment is larger than nothing"));
        }
        if !request.outputs.is_empty() && sum_of(&request.outputs) != request.value.get() {
            return Err(LedgerError::argument("the value is the sum of the outputs"));
        }
        Ok(())
    }
}

impl Session<'_, '_> {
    /// The guards of a payment. They are about transactions of Bitcoin; the ledger builds none on
    /// other chains, where fees follow other rules.
    pub(crate) fn guards(&self, allow: AllowedGuards) -> PaymentGuards {
        let allow = if self.network.is_cardano() { AllowedGuards::ALL } else { allow };
        PaymentGuards { limits: self.limits.payment, allow }
    }

    pub(crate) fn select_and_lease(
        &mut self,
        request: &SelectionRequest,
        terms: &LeaseTerms,
    ) -> Result<Selection, LedgerError> {
        let mut selection = self.select(request)?;
        crash_point("after_select");
        let coins: Vec<(i64, OutPoint)> =
            selection.coins.iter().map(|coin| (coin.id, coin.outpoint)).collect();
        selection.leased_until = Some(self.lease(&coins, terms)?);
        Ok(selection)
    }

    pub(crate) fn select(&mut self, request: &SelectionRequest) -> Result<Selection, LedgerError> {
        self.check_has_all_blocks()?;
        let guards = self.guards(request.allow);
        guards.check_rate(request.fee_rate)?;
        if request.outputs.is_empty() {
            guards.check_value(request.value.get())?;
        }
        let outputs = request.outputs.iter();
        guards.check_outputs(outputs.map(|paid| (paid.amount.get(), paid.script.as_slice())))?;
        let payment = request.payment();
        // Of several ways to leave coins out the least wasteful one is taken.
        let mut best: Option<(Vec<Candidate>, Picked, Algorithm)> = None;
        for closed in self.closed_coins(request)? {
            let found = self.search(request, &payment, &closed)?;
            best = [best, found].into_iter().flatten().min_by_key(|(_, picked, _)| picked.waste);
        }
        let Some((window, picked, algorithm)) = best else {
            return Err(self.shortfall(request)?);
        };
        guards.check_weight(picked.weight)?;
        guards.check_fee(picked.fee, picked.weight)?;
        self.answer(&window, &picked, algorithm)
    }

    /// The coins that were looked at, and the choice among them.
    fn search(
        &mut self,
        request: &SelectionRequest,
        payment: &Payment,
        closed: &ClosedCoins,
    ) -> Result<Option<(Vec<Candidate>, Picked, Algorithm)>, LedgerError> {
        let reach = match request.algorithm {
            Algorithm::LargestFirst => Reach::Largest,
            Algorithm::OldestFirst => Reach::Oldest,
            _ => Reach::Mixed,
        };
        let mut window = self.window(request, closed, reach)?;
        let mut found = self.choose(request, payment, &window, request.algorithm);
        if found.is_none() && reach == Reach::Mixed {
            // The window does not hold enough; only many large coins together may do.
            window = self.window(request, closed, Reach::Largest)?;
            found = self.choose(request, payment, &window, Algorithm::LargestFirst);
        }
        Ok(found.map(|(picked, algorithm)| (window, picked, algorithm)))
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
    pub(crate) fn shortfall(
        &mut self,
        request: &SelectionRequest,
    ) -> Result<LedgerError, LedgerError> {
        let payment = request.payment();
        let query = BalanceQuery { maturity: request.maturity, ..BalanceQuery::default() };
        let balance = self.balance(&query)?;
        let mut eligible = None;
        for closed in self.closed_coins(request)? {
            let sums = self.eligible(request, &closed)?;
            eligible = eligible.into_iter().chain([sums]).max_by_key(|sums| sums.economic);
        }
        let eligible = eligible.unwrap_or_default();
        let with_locked = self.eligible(request, &ClosedCoins::default())?;
        let locked = with_locked.total().saturating_sub(eligible.total());
        let available = eligible.economic;
        let needed = payment
            .value
            .saturating_add(payment.fee_rate.fee(u64::from(payment.weight)))
            .saturating_add(eligible.economic_inputs_fee);
        if available >= needed {
            let inputs_max = request.inputs_max;
            return Ok(LedgerError::TooManyInputs { needed, available, inputs_max });
        }
        let leased = balance.leased_spendable;
        let (immature, held_back) = (balance.immature, balance.held_back);
        let (uneconomic, excluded) = (eligible.uneconomic, eligible.excluded);
        let counted = eligible.total() + locked + leased + immature + held_back;
        Ok(LedgerError::InsufficientFunds {
            needed,
            available,
            uneconomic,
            excluded,
            leased,
            immature,
            held_back,
            locked,
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
        let picks: Vec<&Candidate> = picked.chosen.iter().map(|at| &window[*at]).collect();
        Ok(Selection {
            coins: self.selected(&picks)?,
            input_total: picked.input_total,
            fee: picked.fee,
            change: picked.change,
            weight: picked.weight,
            waste: picked.waste,
            algorithm,
            leased_until: None,
        })
    }
}

fn sum_of(outputs: &[NewOutput]) -> u64 {
    outputs.iter().fold(0, |sum, output| sum.saturating_add(output.amount.get()))
}
