//! Coins of a transaction: what it pays to the wallet, and which coins of the wallet it spends.

use rustc_hash::FxHashMap;
use utxokeep_core::{
    Height, OutPoint,
    wallet::{Amount, CoinClass, TxState, is_paid},
};
use utxokeep_sql::{SqlError, Value};

use super::cascade::Doomed;
use crate::{Credits, LedgerError, NewTx, rows, session::Session};

const SELECT_SCRIPTS: &str = "SELECT script, id FROM addresses
    WHERE wallet_id = $1 AND is_archived = 0 AND script IN";
const SELECT_PARENTS: &str = "SELECT v.column1, v.column2, t.id, t.status, u.id, u.parent_class
    FROM (VALUES";
const SELECT_PARENTS_TAIL: &str = ") AS v CROSS JOIN transactions t
    LEFT JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
        AND u.output_index = v.column2
    WHERE t.chain_id = $1 AND t.txid = v.column1 AND t.wallet_id = $2";
const CLAIM_COIN: &str = "UPDATE utxos SET spent_by_tx_id = $3, spent_input_index = $4
    WHERE wallet_id = $1 AND id = $2 AND spent_by_tx_id IS NULL";
const SELECT_OUTPUTS: &str = "SELECT output_index, address_id FROM utxos
    WHERE wallet_id = $1 AND tx_id = $2";
const INSERT_COINS: &str = "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount,
    address_id, parent_class, parent_height, parent_coinbase) VALUES";
const SET_USED: &str = "UPDATE addresses SET is_used = 1
    WHERE wallet_id = $1 AND is_used = 0 AND id IN";
const SET_CLASS: &str = "UPDATE utxos SET parent_class = $3, parent_height = $4
    WHERE wallet_id = $1 AND tx_id = $2";
const SELECT_CHILDREN: &str = "SELECT i.tx_id, i.input_index, i.prev_index
    FROM tx_inputs i WHERE i.prev_txid = $2 AND i.wallet_id = $1 AND i.claim = 1";
const SPEND_OUTPUT: &str = "UPDATE utxos SET spent_by_tx_id = $4, spent_input_index = $5
    WHERE wallet_id = $1 AND tx_id = $2 AND output_index = $3 AND spent_by_tx_id IS NULL";
const COUNT_OWNED: &str = "UPDATE transactions SET owned_input_count = owned_input_count + 1
    WHERE wallet_id = $1 AND id = $2
    RETURNING status, block_height, input_count, owned_input_count";
const DROP_LEASES: &str = "DELETE FROM utxo_leases WHERE wallet_id = $1
    AND (hold_confirmations IS NULL OR (is_held = 0 AND expires_at_us <= $3))
    AND utxo_id IN (SELECT id FROM utxos WHERE wallet_id = $1 AND spent_by_tx_id = $2)";
const HOLD_LEASES: &str = "UPDATE utxo_leases SET is_held = 1, spent_height = $3
    WHERE wallet_id = $1 AND hold_confirmations IS NOT NULL
    AND utxo_id IN (SELECT id FROM utxos WHERE wallet_id = $1 AND spent_by_tx_id = $2)";

/// An output to credit, and the address it pays.
pub(super) struct Credit {
    index: u32,
    amount: Amount,
    address: i64,
    /// The script of the output, when it is not that of the address.
    script: Option<Vec<u8>>,
}

/// A coin of the wallet that an input spends.
pub(super) struct Parent {
    utxo: i64,
    input_index: i64,
}

impl Session<'_, '_> {
    /// Which outputs belong to the wallet.
    pub(super) fn resolve_credits(&mut self, new: &NewTx) -> Result<Vec<Credit>, LedgerError> {
        let outputs = || (0u32..).zip(&new.outputs);
        // Which outputs are meant, by which script their owner is found, and whether it must be.
        let (wanted, must): (Vec<(u32, &[u8])>, bool) = match &new.credits {
            Credits::Watched => (
                outputs().map(|(index, output)| (index, output.script.as_slice())).collect(),
                false,
            ),
            Credits::Exactly(indexes) => {
                let listed = outputs().filter(|(index, _)| indexes.contains(index));
                (listed.map(|(index, output)| (index, output.script.as_slice())).collect(), true)
            }
            Credits::To(owners) => {
                (owners.iter().map(|(index, owner)| (*index, owner.as_slice())).collect(), true)
            }
        };
        let mut scripts: Vec<&[u8]> = wanted.iter().map(|(_, script)| *script).collect();
        scripts.sort_unstable();
        scripts.dedup();
        let keys: Vec<Value<'_>> = scripts.into_iter().map(Value::from).collect();
        let mut owners: FxHashMap<Vec<u8>, i64> = FxHashMap::default();
        let fixed = [self.id()];
        self.tx.query_in(SELECT_SCRIPTS, "", &fixed, 1, &keys, |row| {
            owners.insert(row.bytes(0)?.to_vec(), row.int(1)?);
            Ok(())
        })?;
        let mut credits = Vec::new();
        for (index, owner) in wanted {
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            let output = new.outputs.get(at).ok_or(LedgerError::NotPaid { index })?;
            match owners.get(owner) {
                Some(_) if !is_paid(&output.script, owner) => {
                    return Err(LedgerError::NotPaid { index });
                }
                Some(address) => {
                    let script = (output.script != owner).then(|| output.script.clone());
                    credits.push(Credit {
                        index,
                        amount: output.amount,
                        address: *address,
                        script,
                    });
                }
                None if must => return Err(LedgerError::AddressNotFound { index }),
                None => {}
            }
        }
        Ok(credits)
    }

    /// Coins of the wallet that `new` spends. A parent that is stored must be live.
    pub(super) fn parents(
        &mut self,
        new: &NewTx,
        doomed: &Doomed,
    ) -> Result<Vec<Parent>, LedgerError> {
        let positions: FxHashMap<OutPoint, i64> = new.inputs.iter().copied().zip(0i64..).collect();
        let keys: Vec<Value<'_>> = new
            .inputs
            .iter()
            .flat_map(|input| [Value::from(input.txid().as_bytes()), Value::from(input.index())])
            .collect();
        let fixed = [Value::from(self.chain), self.id()];
        let mut parents = Vec::new();
        let (mut invalid, network) = (None, self.network);
        self.tx.query_rows(SELECT_PARENTS, SELECT_PARENTS_TAIL, &fixed, 2, &keys, |row| {
            let outpoint = rows::outpoint(row, 0)?;
            let status = rows::status(row, 3)?;
            if !status.is_live() || doomed.contains(row.int(2)?) {
                let outpoint = network.outpoint(&outpoint);
                invalid = Some(LedgerError::InvalidParent { outpoint, status });
            }
            if let Some(utxo) = row.opt_int(4)? {
                let input_index = positions.get(&outpoint).copied();
                let input_index = input_index.ok_or_else(|| rows::bad("an unknown parent"))?;
                parents.push(Parent { utxo, input_index });
            }
            Ok(())
        })?;
        invalid.map_or(Ok(parents), Err)
    }

    /// Points coins at the input that spends them.
    pub(super) fn claim(
        &mut self,
        new: &NewTx,
        id: i64,
        parents: &[Parent],
    ) -> Result<(), LedgerError> {
        for parent in parents {
            let row = [self.wallet, parent.utxo, id, parent.input_index].map(Value::from);
            if self.tx.execute(CLAIM_COIN, &row)? != 1 {
                return Err(LedgerError::damaged(format!(
                    "a coin that {} spends has a spender that holds no input",
                    self.network.hash(new.txid)
                )));
            }
        }
        Ok(())
    }

    /// Adds the outputs that are not there yet, and links children that were stored before. Answers
    /// whether there were any.
    pub(super) fn write_credits(
        &mut self,
        new: &NewTx,
        id: i64,
        was_stored: bool,
        credits: &[Credit],
        class: CoinClass,
        height: Option<Height>,
    ) -> Result<bool, LedgerError> {
        let stored = if was_stored { self.stored_outputs(id)? } else { FxHashMap::default() };
        let mut missing: Vec<&Credit> = Vec::new();
        for credit in credits {
            match stored.get(&credit.index) {
                None => missing.push(credit),
                Some(address) if *address == credit.address => {}
                Some(_) => {
                    return Err(LedgerError::invalid_tx(format!(
                        "output {} is credited to another address already",
                        credit.index
                    )));
                }
            }
        }
        if missing.is_empty() {
            return Ok(false);
        }
        let mut values = Vec::with_capacity(missing.len() * 9);
        let mut made = Vec::with_capacity(missing.len());
        for credit in &missing {
            let utxo = self.next_utxo_id()?;
            made.push((OutPoint::new(new.txid, credit.index), utxo));
            values.extend([
                self.id(),
                Value::from(utxo),
                Value::from(id),
                Value::from(credit.index),
                Value::from(credit.amount.to_column()),
                Value::from(credit.address),
                Value::from(class.code()),
                rows::height_value(height),
                Value::from(new.coinbase),
            ]);
        }
        self.tx.insert_rows(INSERT_COINS, "", 9, &values)?;
        let addresses: Vec<Value<'_>> =
            missing.iter().map(|credit| Value::from(credit.address)).collect();
        let fixed = [self.id()];
        self.tx.execute_in(SET_USED, "", &fixed, 1, &addresses)?;
        for (credit, (_, utxo)) in missing.iter().zip(&made) {
            if let Some(script) = &credit.script {
                self.mark_script(*utxo, script)?;
            }
        }
        self.mark_held_back(&made)?;
        self.link_children(new, id, &missing)?;
        Ok(true)
    }

    fn stored_outputs(&mut self, id: i64) -> Result<FxHashMap<u32, i64>, SqlError> {
        let mut stored = FxHashMap::default();
        let key = [self.id(), Value::from(id)];
        self.tx.query(SELECT_OUTPUTS, &key, |row| {
            stored.insert(rows::u32_at(row, 0)?, row.int(1)?);
            Ok(())
        })?;
        Ok(stored)
    }

    /// A child may be recorded before its parent. Of the transactions that spend one output at
    /// most one holds it, so there is nothing left to decide.
    fn link_children(
        &mut self,
        new: &NewTx,
        id: i64,
        credits: &[&Credit],
    ) -> Result<(), LedgerError> {
        let key = [self.id(), Value::from(new.txid.as_bytes())];
        let children = self.tx.query_all(SELECT_CHILDREN, &key, |row| {
            Ok((row.int(0)?, row.int(1)?, rows::u32_at(row, 2)?))
        })?;
        for (child, input_index, output) in children {
            if credits.iter().all(|credit| credit.index != output) {
                continue;
            }
            let row = [self.wallet, id, i64::from(output), child, input_index].map(Value::from);
            self.tx.execute(SPEND_OUTPUT, &row)?;
            let (state, all_own) =
                self.tx.query_one(COUNT_OWNED, &[self.id(), Value::from(child)], |row| {
                    Ok((rows::state(row, 0, 1)?, row.int(2)? == row.int(3)?))
                })?;
            if self.class_of(child, state, false, all_own)? == CoinClass::Trusted {
                self.set_class(child, CoinClass::Trusted, None)?;
                self.raise_trust(child)?;
            }
            if let TxState::Confirmed(height) = state {
                self.settle_leases(child, height)?;
            }
        }
        Ok(())
    }

    /// Copies class and height of a transaction to its outputs.
    pub(crate) fn set_class(
        &mut self,
        id: i64,
        class: CoinClass,
        height: Option<Height>,
    ) -> Result<(), SqlError> {
        let row =
            [self.id(), Value::from(id), Value::from(class.code()), rows::height_value(height)];
        self.tx.execute(SET_CLASS, &row)?;
        Ok(())
    }

    /// A confirmed spend ends the leases of what it spends; those that are held until it is deep
    /// enough stop looking at the clock, unless they have expired by then.
    pub(super) fn settle_leases(&mut self, id: i64, height: Height) -> Result<(), SqlError> {
        if !self.has_leases()? {
            return Ok(());
        }
        let key = [self.id(), Value::from(id)];
        let now = Value::from(self.lease_now()?.get());
        self.tx.execute(DROP_LEASES, &[key[0], key[1], now])?;
        self.tx.execute(HOLD_LEASES, &[key[0], key[1], Value::from(height.get())])?;
        Ok(())
    }
}
