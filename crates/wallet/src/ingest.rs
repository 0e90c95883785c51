//! Recording a transaction. The order of the steps matters: everything is judged before anything
//! is written, and losers let go of their inputs before the winner takes them.

mod ancestors;
mod bulk;
mod bytes;
mod cascade;
mod check;
mod coins;
mod content;
mod rivals;
mod trust;

pub(crate) use cascade::{Loser, RESET_LEASES};
pub(crate) use check::{label as check_label, shape as check_shape};
use rivals::Declared;
use utxokeep_core::{
    OutPoint, Txid,
    wallet::{Event, Evidence, TxState, next},
};
use utxokeep_sql::Value;

use crate::{
    Change, LedgerError, NewTx, RecordOptions, Recorded, Seen, rows,
    session::{Session, StoredTx},
};

const INSERT_TX: &str = "INSERT INTO transactions (wallet_id, id, chain_id, txid, status,
        is_waiting, is_coinbase, block_height, block_position, received_at_us, input_count,
        owned_input_count, output_total, raw_tx)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const UPDATE_TX: &str = "UPDATE transactions
    SET status = $3, is_waiting = $4, block_height = $5, block_position = $6,
        owned_input_count = $7, invalid_reason = NULL, invalidated_by_tx_id = NULL
    WHERE wallet_id = $1 AND id = $2";
const SET_POSITION: &str =
    "UPDATE transactions SET block_position = $3 WHERE wallet_id = $1 AND id = $2";
const INSERT_INPUTS: &str = "INSERT INTO tx_inputs
    (wallet_id, tx_id, input_index, prev_txid, prev_index, claim) VALUES";
const UPDATE_CLAIMS: &str = "UPDATE tx_inputs SET claim = 1 WHERE wallet_id = $1 AND tx_id = $2";

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
        self.record_known(new, stored, seen, options, beyond_tip)
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
        let (event, position) = match seen {
            Seen::Created => (Event::Create, None),
            Seen::Mempool => (Event::Publish, None),
            Seen::Block(block, position) => {
                match self.evidence {
                    Evidence::Claim => self.claim_block(&block, beyond_tip)?,
                    Evidence::Block => self.assert_block(&block)?,
                }
                (Event::Confirm(block.height), Some(position))
            }
        };
        let state = next(stored.map(|stored| stored.state), new.coinbase, event, self.evidence)
            .map_err(|refused| LedgerError::Refused { txid: new.txid, refused })?;
        let unchanged = stored.is_some_and(|stored| stored.state == state && state.is_live());

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
        self.write_credits(new, id, stored.is_some(), &credits, class, state.block())?;
        if stored.is_some() && !unchanged && class.passes_trust() {
            self.raise_trust(id)?;
        }
        if let Some(height) = state.block() {
            self.settle_leases(id, height)?;
        }
        if let Some(owner) = options.owner {
            self.set_payer(id, owner)?;
        }
        if let Some(label) = label {
            self.label_if_none(&new.txid, label)?;
        }
        let mut recorded = Recorded {
            txid: new.txid,
            change: match stored {
                None => Change::Inserted,
                Some(_) if unchanged && !has_new_bytes => Change::Unchanged,
                Some(stored) if stored.state.is_live() => Change::Updated,
                Some(_) => Change::Revived,
            },
            state,
            waiting,
            losers: doomed.losers(),
            failed_descendants: doomed.descendants(),
        };
        for ancestor in revived {
            recorded.losers.extend(ancestor.losers);
            recorded.failed_descendants.extend(ancestor.failed_descendants);
        }
        Ok(recorded)
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
        match (stored.position, stored.state.block(), self.evidence) {
            (Some(known), Some(height), Evidence::Claim) if known != position => {
                Err(LedgerError::PositionMismatch { txid: *txid, height, position: known })
            }
            (known, _, Evidence::Block) if known != Some(position) => {
                let row = [self.id(), Value::from(stored.id), Value::from(position)];
                self.tx.execute(SET_POSITION, &row)?;
                Ok(())
            }
            _ => Ok(()),
        }
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
        if self.network.is_cardano() { txid.to_hex() } else { txid.to_reversed_hex() }
    }

    /// Inserts or updates the row of the transaction and returns its number.
    fn write_tx(&mut self, plan: &Plan<'_>, unchanged: bool) -> Result<i64, LedgerError> {
        let new = plan.new;
        let status = Value::from(plan.state.status().code());
        let height = rows::height_value(plan.state.block());
        let position = Value::from(plan.position);
        if let Some(stored) = plan.stored {
            if !unchanged {
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
                    ],
                )?;
            }
            return Ok(stored.id);
        }
        let id = self.next_tx_id();
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
            ],
        )?;
        Ok(id)
    }

    /// Stores the inputs of a new transaction, or lets a stored one take hold of its inputs.
    fn write_inputs(&mut self, plan: &Plan<'_>, id: i64) -> Result<(), LedgerError> {
        if plan.stored.is_some() {
            if plan.takes_inputs {
                self.tx.execute(UPDATE_CLAIMS, &[self.id(), Value::from(id)])?;
            }
            return Ok(());
        }
        let claim = if plan.waiting { WAITS } else { HOLDS };
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
