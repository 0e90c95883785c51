//! Recording a transaction. The order of the steps matters: everything is judged before anything
//! is written, and losers let go of their inputs before the winner takes them.

mod ancestors;
mod bulk;
mod bytes;
mod cascade;
mod check;
mod coins;
mod content;
mod place;
mod rivals;
mod trust;

pub(crate) use cascade::{Loser, RESET_LEASES};
pub(crate) use check::{block as check_block, label as check_label, shape as check_shape};
use rivals::Declared;
use utxokeep_core::{
    OutPoint, Txid,
    wallet::{Event, Evidence, TxPlace, TxState, made_anew, next},
};
use utxokeep_sql::Value;

use crate::{
    Change, LedgerError, NewTx, RecordOptions, Recorded, Seen, rows,
    session::{Session, StoredTx},
};

const INSERT_TX: &str = "INSERT INTO transactions (wallet_id, id, chain_id, txid, status,
        is_waiting, is_coinbase, block_height, block_position, received_at_us, input_count,
        owned_input_count, output_total, raw_tx, is_claimed)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
const UPDATE_TX: &str = "UPDATE transactions
    SET status = $3, is_waiting = $4, block_height = $5, block_position = $6,
        owned_input_count = $7, is_claimed = $8, earlier_height = $9, earlier_position = $10,
        invalid_reason = NULL, invalidated_by_tx_id = NULL
    WHERE wallet_id = $1 AND id = $2";
const SET_POSITION: &str = "UPDATE transactions SET block_position = $3, is_claimed = $4
    WHERE wallet_id = $1 AND id = $2";
const SET_EARLIER: &str = "UPDATE transactions SET earlier_height = $3, earlier_position = $4
    WHERE wallet_id = $1 AND id = $2";
const INSERT_INPUTS: &str = "INSERT INTO tx_inputs
    (wallet_id, tx_id, input_index, prev_txid, prev_index, claim) VALUES";
const UPDATE_CLAIMS: &str = "UPDATE tx_inputs SET claim = $3 WHERE wallet_id = $1 AND tx_id = $2";

/// The claim of an input: its transaction holds the output, or waits for it.
const HOLDS: i64 = 1;
const WAITS: i64 = 2;

/// A transaction on its way into the ledger.
struct Plan<'n> {
    new: &'n NewTx,
    stored: Option<StoredTx>,
    state: TxState,
    waiting: bool,
    position: Option<u32>,
    /// Whether it takes hold of its inputs now.
    takes_inputs: bool,
    owned_inputs: i64,
}

impl Session<'_, '_> {
    /// Records one transaction as it was seen.
    pub(crate) fn record(
        &mut self,
        new: &NewTx,
        seen: Seen,
        options: &RecordOptions,
        beyond_tip: bool,
    ) -> Result<Recorded, LedgerError> {
        check::shape(new)?;
        if self.evidence == Evidence::Claim {
            check::within_limits(new, &self.limits)?;
        }
        self.check_bytes(new)?;
        let mut stored = self.stored(&new.txid)?;
        if let Some(known) = stored
            && !self.has_content(&known, new)?
        {
            if self.evidence == Evidence::Claim {
                let what = "it is stored with other inputs or outputs";
                return Err(LedgerError::invalid_tx(what));
            }
            stored = Some(self.rewrite(&known, new)?);
        }
        let mut recorded = self.record_known(new, stored, seen, options, beyond_tip)?;
        if self.evidence == Evidence::Block {
            let phantoms = self.end_phantoms(new.txid, new.outputs.len())?;
            recorded.failed_descendants.extend(phantoms);
        }
        Ok(recorded)
    }

    /// Records a transaction whose stored inputs and outputs, if any, are those of `new`.
    pub(crate) fn record_known(
        &mut self,
        new: &NewTx,
        stored: Option<StoredTx>,
        seen: Seen,
        options: &RecordOptions,
        beyond_tip: bool,
    ) -> Result<Recorded, LedgerError> {
        let label = self.checked_label(options)?;
        let credits = self.resolve_credits(new)?;
        let (event, position) = self.event_of(seen, beyond_tip)?;
        if let Some(recorded) = self.note_repeated(new, stored.as_ref(), event, position)? {
            return Ok(recorded);
        }
        let before = stored.map(|stored| stored.state);
        let before = if options.is_new_payment { made_anew(before) } else { before };
        let state = next(before, new.coinbase, event, self.evidence).map_err(|refused| {
            LedgerError::Refused { txid: self.network.hash(new.txid), refused }
        })?;
        let unchanged = stored.is_some_and(|stored| stored.state == state && state.is_live());

        if let Some(height) = state.block().filter(|_| matches!(event, Event::Confirm(_))) {
            self.check_place(new, stored.as_ref(), TxPlace { height, position })?;
        }
        if unchanged {
            self.keep_position(&new.txid, stored.as_ref(), position)?;
        }
        let mut revived = Vec::new();
        if self.evidence == Evidence::Block && !unchanged && position.is_some() {
            revived = self.revive_ancestors(new)?;
        }

        let mut losers = Vec::new();
        let mut waiting = stored.is_some_and(|stored| stored.waiting && unchanged);
        if !unchanged {
            let declared = Declared::of(options, stored.as_ref());
            let judged = self.judge(new, stored.map(|stored| stored.id), state, declared)?;
            waiting = judged.waits;
            losers = judged.losers;
        }
        let doomed = self.cascade(losers, stored.map(|stored| stored.id))?;
        let holds = stored.is_some_and(|stored| stored.state.is_live() && !stored.waiting);
        let mut plan = Plan {
            new,
            stored,
            state,
            waiting,
            position,
            takes_inputs: !holds && !waiting,
            owned_inputs: stored.map_or(0, |stored| stored.owned_inputs),
        };
        let parents = if holds || unchanged { Vec::new() } else { self.parents(new, &doomed)? };
        if !(holds || unchanged) {
            plan.owned_inputs = i64::try_from(parents.len()).unwrap_or(i64::MAX);
        }
        let id = self.write_tx(&plan, unchanged)?;
        let has_new_bytes = match stored {
            Some(stored) => self.keep_bytes(id, stored.state, event, new.raw.as_deref())?,
            None => false,
        };
        self.invalidate(&doomed, id)?;
        if waiting && !unchanged {
            self.link_waiting(new, id)?;
        }
        self.write_inputs(&plan, id)?;
        if plan.takes_inputs {
            self.claim(new, id, &parents)?;
        }
        let all_own = is_all_own(new, plan.owned_inputs);
        let class = self.class_of(id, state, waiting, all_own)?;
        if stored.is_some() && !unchanged {
            self.set_class(id, class, state.block())?;
        }
        let has_new_coins =
            self.write_credits(new, id, stored.is_some(), &credits, class, state.block())?;
        if stored.is_some() && !unchanged && class.passes_trust() {
            self.raise_trust(id)?;
        }
        if let Some(height) = state.block() {
            self.settle_leases(id, height)?;
        }
        if let Some(owner) = options.owner {
            let was_dead = stored.is_some_and(|stored| !stored.state.is_live());
            self.set_payer(id, owner, was_dead)?;
        }
        if let Some(label) = label {
            self.label_if_none(&new.txid, label)?;
        }
        let mut recorded = Recorded {
            txid: new.txid,
            change: match stored {
                None => Change::Inserted,
                Some(_) if unchanged && !has_new_bytes && !has_new_coins => Change::Unchanged,
                Some(stored) if stored.state.is_live() => Change::Updated,
                Some(_) => Change::Revived,
            },
            state,
            waiting,
            losers: doomed.losers(),
            failed_descendants: doomed.descendants(),
            is_ours: stored.is_some() || plan.owned_inputs > 0 || !credits.is_empty(),
        };
        for ancestor in revived {
            recorded.losers.extend(ancestor.losers);
            recorded.failed_descendants.extend(ancestor.failed_descendants);
        }
        Ok(recorded)
    }

    /// What was seen, as an event. Its block is checked, or written down.
    fn event_of(
        &mut self,
        seen: Seen,
        beyond_tip: bool,
    ) -> Result<(Event, Option<u32>), LedgerError> {
        Ok(match seen {
            Seen::Created => (Event::Create, None),
            Seen::Mempool => (Event::Publish, None),
            Seen::Block(block, position) => {
                match self.evidence {
                    Evidence::Claim => self.claim_block(&block, beyond_tip)?,
                    Evidence::Block => self.assert_block(&block)?,
                }
                (Event::Confirm(block.height), position)
            }
        })
    }

    /// The position of a transaction that stays in its block: a block corrects it, a claim must not
    /// contradict it.
    fn keep_position(
        &mut self,
        txid: &Txid,
        stored: Option<&StoredTx>,
        position: Option<u32>,
    ) -> Result<(), LedgerError> {
        let (Some(stored), Some(position)) = (stored, position) else { return Ok(()) };
        let is_claim = self.evidence == Evidence::Claim;
        match (stored.position, stored.state.block()) {
            (Some(known), Some(height)) if is_claim && known != position => {
                let txid = self.network.hash(txid);
                Err(LedgerError::PositionMismatch { txid, height, position: known })
            }
            (known, _) if known != Some(position) || (stored.claimed && !is_claim) => {
                let claimed = Value::from(stored.claimed && is_claim);
                let row = [self.id(), Value::from(stored.id), Value::from(position), claimed];
                self.tx.execute(SET_POSITION, &row)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A coinbase that two blocks hold counts from the later one on, and is back in the earlier one
    /// when that leaves the chain. A scan may find the earlier one last.
    fn note_repeated(
        &mut self,
        new: &NewTx,
        stored: Option<&StoredTx>,
        event: Event,
        position: Option<u32>,
    ) -> Result<Option<Recorded>, LedgerError> {
        let (Some(stored), Event::Confirm(height), Evidence::Block, true) =
            (stored, event, self.evidence, new.coinbase)
        else {
            return Ok(None);
        };
        let is_later = stored.state.block().is_some_and(|later| later > height);
        if stored.claimed || !is_later {
            return Ok(None);
        }
        let place = [Value::from(height.get()), rows::position_value(true, position)];
        self.tx.execute(SET_EARLIER, &[self.id(), Value::from(stored.id), place[0], place[1]])?;
        Ok(Some(Recorded {
            txid: new.txid,
            change: Change::Unchanged,
            state: stored.state,
            waiting: false,
            losers: Vec::new(),
            failed_descendants: Vec::new(),
            is_ours: true,
        }))
    }

    fn checked_label<'o>(
        &self,
        options: &'o RecordOptions,
    ) -> Result<Option<&'o str>, LedgerError> {
        let label = options.label.as_deref().filter(|label| !label.is_empty());
        if let Some(label) = label {
            check::label(label, &self.limits)?;
        }
        Ok(label)
    }

    /// Text form of a transaction id, as the chain's own tools print it.
    pub(crate) fn tx_text(&self, txid: &Txid) -> String {
        self.network.hash(txid).to_string()
    }

    /// Inserts or updates the row of the transaction and returns its number.
    fn write_tx(&mut self, plan: &Plan<'_>, unchanged: bool) -> Result<i64, LedgerError> {
        let new = plan.new;
        let status = Value::from(plan.state.status().code());
        let height = rows::height_value(plan.state.block());
        let position = rows::position_value(plan.state.block().is_some(), plan.position);
        let claimed = Value::from(plan.state.block().is_some() && self.evidence == Evidence::Claim);
        if let Some(stored) = plan.stored {
            if !unchanged {
                self.touch(&[stored.id])?;
                let earlier = self.earlier_place(&stored, plan);
                self.tx.execute(
                    UPDATE_TX,
                    &[
                        self.id(),
                        Value::from(stored.id),
                        status,
                        Value::from(plan.waiting),
                        height,
                        position,
                        Value::from(plan.owned_inputs),
                        claimed,
                        rows::height_value(earlier.map(|place| place.height)),
                        rows::position_value(
                            earlier.is_some(),
                            earlier.and_then(|place| place.position),
                        ),
                    ],
                )?;
            }
            return Ok(stored.id);
        }
        let id = self.next_tx_id()?;
        self.note_new(id);
        let total: i64 = new.outputs.iter().map(|output| output.amount.to_column()).sum();
        self.tx.execute(
            INSERT_TX,
            &[
                self.id(),
                Value::from(id),
                Value::from(self.chain),
                Value::from(new.txid.as_bytes()),
                status,
                Value::from(plan.waiting),
                Value::from(new.coinbase),
                height,
                position,
                Value::from(self.now.get()),
                Value::from(i64::try_from(new.inputs.len()).unwrap_or(i64::MAX)),
                Value::from(plan.owned_inputs),
                Value::from(total),
                Value::from(new.raw.as_deref()),
                claimed,
            ],
        )?;
        Ok(id)
    }

    /// Where a coinbase stays if the block leaves the chain that repeats it.
    fn earlier_place(&self, stored: &StoredTx, plan: &Plan<'_>) -> Option<TxPlace> {
        let is_fact = self.evidence == Evidence::Block && plan.new.coinbase && !stored.claimed;
        let height = stored.state.block().filter(|_| is_fact)?;
        (Some(height) < plan.state.block()).then_some(TxPlace { height, position: stored.position })
    }

    /// Stores the inputs of a new transaction, or lets a stored one take hold of its inputs or wait
    /// for them again.
    fn write_inputs(&mut self, plan: &Plan<'_>, id: i64) -> Result<(), LedgerError> {
        let claim = if plan.waiting { WAITS } else { HOLDS };
        if let Some(stored) = plan.stored {
            if plan.takes_inputs || (plan.waiting && !stored.waiting) {
                let row = [self.id(), Value::from(id), Value::from(claim)];
                self.tx.execute(UPDATE_CLAIMS, &row)?;
            }
            return Ok(());
        }
        let values = self.input_rows(id, &plan.new.inputs, claim);
        self.tx.insert_rows(INSERT_INPUTS, "", 6, &values)?;
        Ok(())
    }

    /// Rows for [`INSERT_INPUTS`].
    fn input_rows<'i>(&self, id: i64, inputs: &'i [OutPoint], claim: i64) -> Vec<Value<'i>> {
        let mut values = Vec::with_capacity(inputs.len() * 6);
        for (index, input) in (0i64..).zip(inputs) {
            values.extend([
                self.id(),
                Value::from(id),
                Value::from(index),
                Value::from(input.txid().as_bytes()),
                Value::from(input.index()),
                Value::from(claim),
            ]);
        }
        values
    }
}

fn is_all_own(new: &NewTx, owned_inputs: i64) -> bool {
    !new.inputs.is_empty() && i64::try_from(new.inputs.len()) == Ok(owned_inputs)
}
