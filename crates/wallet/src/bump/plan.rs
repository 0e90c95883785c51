//! The arithmetic of a replacement.

use utxokeep_core::{
    Txid,
    wallet::{
        Amount, ChainCodec, ChangePolicy, InvalidReason, TxState, count_weight, output_weight,
        weight_without_inputs,
    },
};
use utxokeep_sql::Value;

use super::{BumpPlan, BumpRequest};
use crate::{
    Algorithm, LedgerError, NewOutput, SelectedCoin, SelectionRequest, TxDetail,
    descriptors::CHANGE_KEYCHAIN, ingest::Loser, rows, session::Session,
};

const SELECT_SPENT: &str = "SELECT p.txid, u.output_index, u.id, u.amount,
        COALESCE(m.script, a.script), a.spend_weight
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
    inputs: Vec<SelectedCoin>,
    outputs: Vec<NewOutput>,
    change: Option<usize>,
    evicts: Vec<Txid>,
    /// What it and all that depends on it pay.
    fees: u64,
}

impl Session<'_, '_> {
    pub(super) fn plan_bump(
        &mut self,
        codec: &dyn ChainCodec,
        txid: &Txid,
        request: &BumpRequest,
    ) -> Result<BumpPlan, LedgerError> {
        self.check_has_all_blocks()?;
        let old = self.old_tx(codec, txid, request)?;
        if old.inputs.len() > request.inputs_max {
            return Err(refuse(txid, "it has more inputs than allowed"));
        }
        let draft = Draft::new(&old, request);
        let (added, change) = match draft.funding() {
            Funding::OldCoins { change } => (Vec::new(), change),
            Funding::MoreCoins => self.more_coins(txid, &draft, request)?,
        };
        let mut outputs = old.outputs.clone();
        let mut change_at = None;
        if let Some(at) = old.change {
            match change {
                Some(left) => {
                    outputs[at].amount = Amount::new(left)?;
                    change_at = Some(at);
                }
                None => drop(outputs.remove(at)),
            }
        }
        let kept_inputs = old.inputs.len();
        let inputs = [old.inputs, added].concat();
        let paid_in: u64 = inputs.iter().map(|coin| coin.amount.get()).sum();
        let paid_out: u64 = outputs.iter().map(|output| output.amount.get()).sum();
        let weight = weight_of(&inputs, &outputs);
        let fee = paid_in.saturating_sub(paid_out);
        if outputs.is_empty() || fee < required(request, old.fees, weight) {
            return Err(refuse(txid, "its coins do not pay for the higher fee"));
        }
        Ok(BumpPlan {
            replaces: *txid,
            evicts: old.evicts,
            inputs,
            kept_inputs,
            outputs,
            change: change_at,
            replaced_fees: old.fees,
            fee,
            weight,
        })
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
            return Err(refuse(txid, "only a live transaction in no block can be replaced"));
        }
        let Some(own_fee) = detail.summary.fee else {
            return Err(refuse(txid, "not all of its inputs belong to the wallet"));
        };
        let Some(raw) = &detail.raw else {
            return Err(refuse(txid, "its bytes are not stored; record it with them"));
        };
        let outputs = codec
            .decode_tx(self.network, raw)?
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
            })
        })?;
        let loser = Loser { id: stored.id, txid: *txid, reason: InvalidReason::Replaced };
        let evicts = self.cascade(vec![loser], None)?.descendants();
        if evicts.len() >= EVICTED_MAX {
            return Err(refuse(txid, "too many transactions depend on it"));
        }
        let mut fees = own_fee;
        for child in &evicts {
            let fee = self.detail(child)?.summary.fee;
            fees += fee.ok_or_else(|| refuse(txid, "the fee of one that spends it is unknown"))?;
        }
        Ok(Old { inputs, outputs, change, evicts, fees })
    }

    /// Which output is change: as told, or the one to a change keychain.
    fn change_of(
        &mut self,
        txid: &Txid,
        id: i64,
        detail: &TxDetail,
        request: &BumpRequest,
    ) -> Result<Option<usize>, LedgerError> {
        let index = match request.change {
            Some(index) if detail.outputs.iter().any(|(own, _)| *own == index) => Some(index),
            Some(_) => return Err(refuse(txid, "the output named as change is not the wallet's")),
            None => {
                let key = [self.id(), Value::from(id), Value::from(CHANGE_KEYCHAIN)];
                let found = self.tx.query_all(SELECT_CHANGE, &key, |row| rows::u32_at(row, 0))?;
                if let [only] = found[..] { Some(only) } else { None }
            }
        };
        Ok(index.map(|index| usize::try_from(index).unwrap_or(usize::MAX)))
    }

    /// Selects confirmed coins for what is missing.
    fn more_coins(
        &mut self,
        txid: &Txid,
        draft: &Draft<'_>,
        request: &BumpRequest,
    ) -> Result<(Vec<SelectedCoin>, Option<u64>), LedgerError> {
        let room = request.inputs_max - draft.old.inputs.len();
        if room == 0 {
            return Err(refuse(txid, "it has as many inputs as allowed already"));
        }
        let rate = request.fee_rate.max(request.incremental_rate);
        let missing = draft.missing().max(1);
        let mut selection = SelectionRequest::new(Amount::new(missing)?, rate, request.seed);
        selection.base_weight = 0;
        selection.algorithm = Algorithm::LargestFirst;
        selection.inputs_max = room.min(self.limits.lease_batch_max);
        selection.change = ChangePolicy {
            output_weight: u32::try_from(draft.change_weight).unwrap_or(u32::MAX),
            min_value: draft.change_min,
            ..ChangePolicy::default()
        };
        let selected = self.select(&selection)?;
        Ok((selected.coins, selected.change))
    }
}

/// Where the higher fee comes from.
enum Funding {
    /// The old inputs pay for everything; this is left as change.
    OldCoins { change: Option<u64> },
    /// More inputs are needed.
    MoreCoins,
}

/// Sums of a replacement with the old inputs and payments.
struct Draft<'o> {
    old: &'o Old,
    request: &'o BumpRequest,
    paid_in: u64,
    /// Sum of the outputs without change.
    payments: u64,
    has_payments: bool,
    /// Weight without change.
    weight: u64,
    change_weight: u64,
    /// Less change than this is left out; never less than nodes relay.
    change_min: u64,
}

impl<'o> Draft<'o> {
    fn new(old: &'o Old, request: &'o BumpRequest) -> Self {
        let change = old.change.and_then(|at| old.outputs.get(at));
        let change_weight = change.map_or(0, |change| output_weight(&change.script));
        let dust = |change: &NewOutput| ChangePolicy::to(&change.script, None).min_value;
        let all: u64 = old.outputs.iter().map(|output| output.amount.get()).sum();
        Self {
            old,
            request,
            paid_in: old.inputs.iter().map(|coin| coin.amount.get()).sum(),
            payments: all - change.map_or(0, |change| change.amount.get()),
            has_payments: old.outputs.len() > usize::from(change.is_some()),
            weight: weight_of(&old.inputs, &old.outputs) - change_weight,
            change_weight,
            change_min: change
                .map_or(u64::MAX, |change| request.change_min_value.max(dust(change))),
        }
    }

    fn funding(&self) -> Funding {
        let left = self.paid_in.saturating_sub(self.payments);
        let fee = required(self.request, self.old.fees, self.weight + self.change_weight);
        let change = left.checked_sub(fee).filter(|change| *change >= self.change_min);
        let least = required(self.request, self.old.fees, self.weight);
        if change.is_some() || (self.has_payments && left >= least) {
            Funding::OldCoins { change }
        } else {
            Funding::MoreCoins
        }
    }

    /// What other coins must bring, besides the fee for their own inputs and for change.
    fn missing(&self) -> u64 {
        let needed = self.payments + required(self.request, self.old.fees, self.weight);
        needed.saturating_sub(self.paid_in)
    }
}

/// The least fee of a replacement with this weight.
fn required(request: &BumpRequest, replaced_fees: u64, weight: u64) -> u64 {
    let on_top = request.incremental_rate.fee(weight);
    request.fee_rate.fee(weight).max(replaced_fees.saturating_add(on_top))
}

fn weight_of(inputs: &[SelectedCoin], outputs: &[NewOutput]) -> u64 {
    let inputs_weight: u64 = inputs.iter().map(|coin| u64::from(coin.weight)).sum();
    let scripts = outputs.iter().map(|output| output.script.as_slice());
    weight_without_inputs(scripts, 0) + inputs_weight + count_weight(inputs.len())
}

fn refuse(txid: &Txid, what: &'static str) -> LedgerError {
    LedgerError::NotBumpable { txid: *txid, what }
}
