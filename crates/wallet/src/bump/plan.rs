//! The plan of a replacement: facts from the database for the arithmetic of the core.

use utxokeep_core::{
    Txid,
    wallet::{
        Amount, Candidate, ChainCodec, ChangePolicy, Funded, InvalidReason, LockTime, Replacement,
        TxState, count_weight, output_weight, weight_without_inputs,
    },
};
use utxokeep_sql::Value;

use super::{BumpPlan, BumpRequest};
use crate::{
    LedgerError, NewOutput, NextChange, SelectedCoin, SelectionRequest, TxDetail,
    descriptors::{CHANGE_KEYCHAIN, suitable_change},
    ingest::Loser,
    rows,
    session::Session,
};

const SELECT_SPENT: &str = "SELECT p.txid, u.output_index, u.id, u.amount,
        COALESCE(m.script, a.script), a.spend_weight, u.parent_height
    FROM tx_inputs i
    JOIN transactions p ON p.chain_id = $3 AND p.txid = i.prev_txid AND p.wallet_id = i.wallet_id
    JOIN utxos u ON u.wallet_id = p.wallet_id AND u.tx_id = p.id AND u.output_index = i.prev_index
    JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
    LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
    WHERE i.wallet_id = $1 AND i.tx_id = $2 ORDER BY i.input_index";
const SELECT_CHANGE: &str = "SELECT DISTINCT u.output_index
    FROM utxos u
    JOIN descriptor_scripts s ON s.wallet_id = u.wallet_id AND s.address_id = u.address_id
    JOIN descriptors d ON d.wallet_id = s.wallet_id AND d.id = s.descriptor_id
    WHERE u.wallet_id = $1 AND u.tx_id = $2 AND d.keychain = $3";

/// Transactions that one replacement may push out.
const EVICTED_MAX: usize = 100;

/// The old transaction, and what replacing it must pay for.
struct Old {
    id: i64,
    inputs: Vec<SelectedCoin>,
    sequences: Vec<u32>,
    outputs: Vec<NewOutput>,
    change: Option<usize>,
    evicts: Vec<Txid>,
    /// What it pays.
    fee: u64,
    /// What it and all that depends on it pay.
    fees: u64,
    lock_time: LockTime,
    version: u32,
}

/// Where the change of a replacement goes.
struct ChangePlace {
    script: Vec<u8>,
    /// The keychain that hands the script out, when it is new.
    new: Option<NextChange>,
}

impl Session<'_, '_> {
    fn refuse(&self, txid: &Txid, what: &'static str) -> LedgerError {
        LedgerError::NotBumpable { txid: self.network.hash(txid), what }
    }

    pub(crate) fn plan_bump(
        &mut self,
        codec: &dyn ChainCodec,
        txid: &Txid,
        request: &BumpRequest,
    ) -> Result<BumpPlan, LedgerError> {
        let guards = self.guards(request.allow);
        if let Some(script) = &request.change_script {
            guards.check_change_script(script)?;
        }
        self.check_has_all_blocks()?;
        let limit = self.limits.lease_batch_max;
        if request.inputs_max == 0 || request.inputs_max > limit {
            return Err(LedgerError::argument(format!("inputs_max is between 1 and {limit}")));
        }
        self.limits.check_change_min(request.change_min_value)?;
        guards.check_bump_rates(request.fee_rate, request.incremental_rate)?;
        let old = self.old_tx(codec, txid, request)?;
        if old.inputs.len() > request.inputs_max {
            return Err(self.refuse(txid, "it has more inputs than allowed"));
        }
        let (funded, added, place) = self.fund(txid, &old, request)?;
        let plan = old.replaced(*txid, &funded, added, place)?;
        let outputs = plan.outputs.iter();
        guards.check_outputs(outputs.map(|paid| (paid.amount.get(), paid.script.as_slice())))?;
        let spends_unconfirmed = plan.inputs.iter().any(|coin| coin.height.is_none());
        guards.check_weight_of(plan.kept_version, spends_unconfirmed, plan.weight)?;
        guards.check_fee(plan.fee, plan.weight)?;
        Ok(plan)
    }

    /// Finds what pays for the replacement: old change first, then more coins.
    fn fund(
        &mut self,
        txid: &Txid,
        old: &Old,
        request: &BumpRequest,
    ) -> Result<(Funded, Vec<SelectedCoin>, Option<ChangePlace>), LedgerError> {
        let old_script = old.change.map(|at| old.outputs[at].script.clone());
        let script = request.change_script.clone().or(old_script);
        let mut place = script.map(|script| ChangePlace { script, new: None });
        let with_old = old.change.and(place.as_ref());
        if let Some(funded) = old.replacement(request, with_old).with_old_coins() {
            return Ok((funded, Vec::new(), place));
        }
        if place.is_none() {
            let all = self.next_change()?;
            let inputs = old.inputs.iter().map(|coin| coin.script.as_slice());
            let new = suitable_change(&all, inputs).ok_or(LedgerError::NoChangePlace)?;
            place = Some(ChangePlace { script: new.script.clone(), new: Some(new.clone()) });
        }
        if old.inputs.len() >= request.inputs_max {
            return Err(self.refuse(txid, "it has as many inputs as allowed already"));
        }
        let replacement = old.replacement(request, place.as_ref());
        let missing = Amount::new(replacement.missing())?;
        let rate = replacement.marginal_rate();
        let selection = SelectionRequest {
            base_weight: 0,
            maturity: request.maturity,
            inputs_max: request.inputs_max - old.inputs.len(),
            lock_time: old.lock_time,
            allow: request.allow,
            ..SelectionRequest::new(missing, rate, 0)
        };
        for closed in self.closed_coins(&selection)? {
            let mut candidates = self.coins_to_add(&selection, &closed)?;
            if let Some(owner) = request.owner.or(request.lease_of) {
                let owners = [owner, request.lease_of.unwrap_or(owner)];
                let held = self.coins_held_for_replacement(&selection, &closed, old.id, owners)?;
                let kept = |coin: &Candidate| old.inputs.iter().any(|input| input.id == coin.id);
                candidates.extend(held.into_iter().filter(|coin| !kept(coin)));
            }
            if let Some(funded) = replacement.with_more_coins(&candidates) {
                let added: Vec<_> = funded.added.iter().map(|at| &candidates[*at]).collect();
                let added = self.selected(&added)?;
                return Ok((funded, added, place));
            }
        }
        Err(self.shortfall(&selection)?)
    }

    fn old_tx(
        &mut self,
        codec: &dyn ChainCodec,
        txid: &Txid,
        request: &BumpRequest,
    ) -> Result<Old, LedgerError> {
        let detail = self.detail(txid)?;
        let stored = self.known(txid)?;
        if !matches!(stored.state, TxState::Pending | TxState::Unconfirmed) || stored.waiting {
            return Err(self.refuse(txid, "only a live transaction in no block can be replaced"));
        }
        let Some(own_fee) = detail.summary.fee else {
            return Err(self.refuse(txid, "not all of its inputs belong to the wallet"));
        };
        let Some(raw) = &detail.raw else {
            return Err(self.refuse(txid, "its bytes are not stored; record it with them"));
        };
        let decoded = codec.decode_tx(self.network, raw)?;
        let outputs = decoded
            .outputs
            .into_iter()
            .map(|(value, script)| Ok(NewOutput { amount: Amount::new(value)?, script }))
            .collect::<Result<Vec<_>, LedgerError>>()?;
        let change = self.change_of(txid, stored.id, &detail, request)?;
        let key = [self.id(), Value::from(stored.id), Value::from(self.chain)];
        let inputs = self.tx.query_all(SELECT_SPENT, &key, |row| {
            Ok(SelectedCoin {
                outpoint: rows::outpoint(row, 0)?,
                id: row.int(2)?,
                amount: rows::amount(row, 3)?,
                script: row.bytes(4)?.to_vec(),
                weight: rows::u32_at(row, 5)?,
                height: rows::height(row, 6)?,
            })
        })?;
        if !inputs.iter().map(|coin| &coin.outpoint).eq(&decoded.inputs) {
            return Err(
                self.refuse(txid, "its stored bytes spend other outputs than the ledger says")
            );
        }
        let loser = Loser { id: stored.id, txid: *txid, reason: InvalidReason::Replaced };
        let evicts = self.cascade(vec![loser], None)?.descendants();
        if evicts.len() >= EVICTED_MAX {
            return Err(self.refuse(txid, "too many transactions depend on it"));
        }
        let mut fees = own_fee;
        for child in &evicts {
            let fee = self.detail(child)?.summary.fee;
            fees +=
                fee.ok_or_else(|| self.refuse(txid, "the fee of one that spends it is unknown"))?;
        }
        Ok(Old {
            id: stored.id,
            inputs,
            sequences: decoded.sequences,
            outputs,
            change,
            evicts,
            fee: own_fee,
            fees,
            lock_time: LockTime::from_number(decoded.lock_time),
            version: decoded.version,
        })
    }

    /// Which output is change: as told, or the only one to a change keychain. Where several go
    /// there, each may be a payment, and all stay.
    fn change_of(
        &mut self,
        txid: &Txid,
        id: i64,
        detail: &TxDetail,
        request: &BumpRequest,
    ) -> Result<Option<usize>, LedgerError> {
        let index = match request.change {
            Some(index) if detail.outputs.iter().any(|(own, _)| *own == index) => Some(index),
            Some(_) => {
                return Err(self.refuse(txid, "the output named as change is not the wallet's"));
            }
            None => {
                let key = [self.id(), Value::from(id), Value::from(CHANGE_KEYCHAIN)];
                let found = self.tx.query_all(SELECT_CHANGE, &key, |row| rows::u32_at(row, 0))?;
                if let [only] = found[..] { Some(only) } else { None }
            }
        };
        Ok(index.map(|index| usize::try_from(index).unwrap_or(usize::MAX)))
    }
}

impl Old {
    /// Its weight, when it is signed.
    fn weight(&self) -> u64 {
        let scripts = self.outputs.iter().map(|output| output.script.as_slice());
        let inputs: u64 = self.inputs.iter().map(|coin| u64::from(coin.weight)).sum();
        weight_without_inputs(scripts, 0) + inputs + count_weight(self.inputs.len())
    }

    /// The arithmetic of replacing it, with change to this place.
    fn replacement(&self, request: &BumpRequest, place: Option<&ChangePlace>) -> Replacement {
        let is_payment = |(at, output)| (Some(at) != self.change).then_some(output);
        let payments: Vec<&NewOutput> =
            self.outputs.iter().enumerate().filter_map(is_payment).collect();
        let change = place.map(|place| {
            let spend_weight = place.new.as_ref().map(|new| new.spend_weight);
            let policy = ChangePolicy::to(&place.script, spend_weight);
            ChangePolicy { min_value: policy.min_value.max(request.change_min_value), ..policy }
        });
        Replacement {
            inputs: self.inputs.len(),
            inputs_weight: self.inputs.iter().map(|coin| u64::from(coin.weight)).sum(),
            input_total: self.inputs.iter().map(|coin| coin.amount.get()).sum(),
            payments: payments.len(),
            payments_weight: payments.iter().map(|output| output_weight(&output.script)).sum(),
            payment_total: payments.iter().map(|output| output.amount.get()).sum(),
            replaced_fees: self.fees,
            old_fee: self.fee,
            old_weight: self.weight(),
            fee_rate: request.fee_rate,
            incremental_rate: request.incremental_rate,
            change,
            inputs_max: request.inputs_max,
        }
    }

    /// The replacement with everything in its place: change where it was, new change behind all.
    fn replaced(
        self,
        txid: Txid,
        funded: &Funded,
        added: Vec<SelectedCoin>,
        place: Option<ChangePlace>,
    ) -> Result<BumpPlan, LedgerError> {
        let mut outputs = self.outputs;
        let (mut change, mut new_change) = (None, None);
        match (funded.change, place) {
            (Some(left), Some(place)) => {
                let output = NewOutput { amount: Amount::new(left)?, script: place.script };
                change = Some(self.change.unwrap_or(outputs.len()));
                match self.change {
                    Some(at) => outputs[at] = output,
                    None => outputs.push(output),
                }
                new_change = place.new;
            }
            _ => drop(self.change.map(|at| outputs.remove(at))),
        }
        Ok(BumpPlan {
            replaces: txid,
            evicts: self.evicts,
            kept_inputs: self.inputs.len(),
            inputs: [self.inputs, added].concat(),
            kept_sequences: self.sequences,
            kept_lock_time: self.lock_time,
            kept_version: self.version,
            outputs,
            change,
            new_change,
            replaced_fees: self.fees,
            fee: funded.fee,
            weight: funded.weight,
        })
    }
}
