//! The short way for blocks of new transactions without conflicts: a few statements for all.
//!
//! It is taken only when nothing has to be decided: no transaction is stored, nobody else wants
//! its inputs, nothing stored spends from it, and its stored parents are published. Everything else goes
//! the long way, one by one.

use rustc_hash::{FxHashMap, FxHashSet};
use utxokeep_core::{
    Height, OutPoint, Txid,
    wallet::{CoinClass, TxState, TxStatus},
};
use utxokeep_sql::{SqlError, Value};

use super::{HOLDS, INSERT_INPUTS};
use crate::{Change, Credits, LedgerError, NewTx, Recorded, rows, session::Session};

const SELECT_STORED: &str =
    "SELECT txid FROM transactions WHERE chain_id = $1 AND wallet_id = $2 AND txid IN";
const CLAIMED_HEAD: &str = "SELECT 1 FROM (VALUES";
/// Joined in this order, because SQLite would read all inputs of the wallet for a list of ids.
const CHILDREN_TAIL: &str = ") AS v CROSS JOIN tx_inputs i WHERE i.prev_txid = v.column1
    AND i.wallet_id = $1 AND i.claim = 1";
const HELD_TAIL: &str = ") AS v CROSS JOIN tx_inputs i WHERE i.prev_txid = v.column1
    AND i.prev_index = v.column2 AND i.wallet_id = $1 AND i.claim = 1";
const WAITING_TAIL: &str = ") AS v CROSS JOIN tx_inputs i WHERE i.prev_txid = v.column1
    AND i.prev_index = v.column2 AND i.wallet_id = $1 AND i.claim = 2";
const PARENTS_HEAD: &str = "SELECT v.column1, v.column2, t.status, u.id, t.is_claimed,
        t.block_height FROM (VALUES";
const PARENTS_TAIL: &str = ") AS v CROSS JOIN transactions t
    LEFT JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
        AND u.output_index = v.column2
    WHERE t.chain_id = $1 AND t.txid = v.column1 AND t.wallet_id = $2";
const SELECT_SCRIPTS: &str = "SELECT script, id FROM addresses
    WHERE wallet_id = $1 AND is_archived = 0 AND script IN";
const INSERT_TXS: &str = "INSERT INTO transactions (wallet_id, id, chain_id, txid, status,
    is_waiting, is_coinbase, block_height, block_position, received_at_us, input_count,
    owned_input_count, output_total, raw_tx, told_depth) VALUES";
const INSERT_COINS: &str = "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount,
    address_id, parent_class, parent_height, parent_coinbase, spent_by_tx_id, spent_input_index)
    VALUES";
const SPEND_HEAD: &str = "UPDATE utxos
    SET spent_by_tx_id = v.column2, spent_input_index = v.column3 FROM (VALUES";
const SPEND_TAIL: &str =
    ") AS v WHERE utxos.wallet_id = $1 AND utxos.id = v.column1 AND utxos.spent_by_tx_id IS NULL";
const SET_USED: &str = "UPDATE addresses SET is_used = 1
    WHERE wallet_id = $1 AND is_used = 0 AND id IN";

/// A transaction of the block and its position.
pub(crate) type Placed<'n> = (&'n NewTx, u32);

/// What is known about the inputs and outputs of a whole batch.
struct Facts {
    /// Stored coins that are spent.
    parents: FxHashMap<OutPoint, i64>,
    addresses: FxHashMap<Vec<u8>, i64>,
    /// Who in the batch spends an output.
    spenders: FxHashMap<OutPoint, (i64, i64)>,
}

impl Session<'_, '_> {
    /// Records new transactions of one block, parents first. `None` when one of them has to go
    /// the long way; nothing is written then. The row of the block must exist.
    pub(crate) fn record_bulk(
        &mut self,
        batch: &[Placed<'_>],
        height: Height,
    ) -> Result<Option<Vec<Recorded>>, LedgerError> {
        if batch.iter().any(|(new, _)| new.credits != Credits::Watched) {
            return Ok(None);
        }
        let Some(facts) = self.facts(batch, height)? else {
            return Ok(None);
        };
        let Some(spent) = self.write_bulk(batch, height, &facts)? else {
            return Err(LedgerError::damaged("a coin is spent by what holds no input"));
        };
        if self.has_leases()? {
            for spender in spent {
                self.settle_leases(spender, height)?;
            }
        }
        let recorded = |(new, _): &Placed<'_>| Recorded {
            txid: new.txid,
            change: Change::Inserted,
            state: TxState::Confirmed(height),
            waiting: false,
            losers: Vec::new(),
            failed_descendants: Vec::new(),
            is_ours: true,
        };
        Ok(Some(batch.iter().map(recorded).collect()))
    }

    /// Asks for everything at once; `None` when something has to be decided.
    fn facts(&mut self, batch: &[Placed<'_>], height: Height) -> Result<Option<Facts>, SqlError> {
        let txids: FxHashSet<Txid> = batch.iter().map(|(new, _)| new.txid).collect();
        let ids: Vec<Value<'_>> =
            batch.iter().map(|(new, _)| Value::from(new.txid.as_bytes())).collect();
        let mut spenders = FxHashMap::default();
        let mut inputs = Vec::new();
        for (at, (new, _)) in (0i64..).zip(batch) {
            for (index, input) in (0i64..).zip(&new.inputs) {
                if spenders.insert(*input, (at, index)).is_some() {
                    return Ok(None);
                }
                // What the batch makes is not stored yet.
                if !txids.contains(input.txid()) {
                    inputs.push(Value::from(input.txid().as_bytes()));
                    inputs.push(Value::from(input.index()));
                }
            }
        }
        let wallet = [self.id()];
        let in_chain = [Value::from(self.chain), self.id()];
        let mut decide = txids.len() != batch.len();
        let mut found = |_: &utxokeep_sql::Row<'_>| {
            decide = true;
            Ok(())
        };
        self.tx.query_in(SELECT_STORED, "", &in_chain, 1, &ids, &mut found)?;
        self.tx.query_rows(CLAIMED_HEAD, CHILDREN_TAIL, &wallet, 1, &ids, &mut found)?;
        for tail in [HELD_TAIL, WAITING_TAIL] {
            self.tx.query_rows(CLAIMED_HEAD, tail, &wallet, 2, &inputs, &mut found)?;
        }
        if decide {
            return Ok(None);
        }
        let mut parents = FxHashMap::default();
        self.tx.query_rows(PARENTS_HEAD, PARENTS_TAIL, &in_chain, 2, &inputs, |row| {
            decide |= rows::status(row, 2)? != TxStatus::Published;
            // Somebody said that the parent comes later.
            decide |= rows::flag(row, 4)? && rows::height(row, 5)? >= Some(height);
            if let Some(utxo) = row.opt_int(3)? {
                parents.insert(rows::outpoint(row, 0)?, utxo);
            }
            Ok(())
        })?;
        if decide {
            return Ok(None);
        }
        let addresses = self.owners(batch)?;
        Ok(Some(Facts { parents, addresses, spenders }))
    }

    fn owners(&mut self, batch: &[Placed<'_>]) -> Result<FxHashMap<Vec<u8>, i64>, SqlError> {
        let outputs = batch.iter().flat_map(|(new, _)| &new.outputs);
        let mut scripts: Vec<&[u8]> = outputs.map(|output| output.script.as_slice()).collect();
        scripts.sort_unstable();
        scripts.dedup();
        let keys: Vec<Value<'_>> = scripts.into_iter().map(Value::from).collect();
        let mut owners = FxHashMap::default();
        let fixed = [self.id()];
        self.tx.query_in(SELECT_SCRIPTS, "", &fixed, 1, &keys, |row| {
            owners.insert(row.bytes(0)?.to_vec(), row.int(1)?);
            Ok(())
        })?;
        Ok(owners)
    }

    /// Writes all rows. Returns who spends stored coins; `None` when a coin was not free.
    fn write_bulk(
        &mut self,
        batch: &[Placed<'_>],
        height: Height,
        facts: &Facts,
    ) -> Result<Option<Vec<i64>>, SqlError> {
        let ids: Vec<i64> = batch.iter().map(|_| self.next_tx_id()).collect::<Result<_, _>>()?;
        let id_of = |at: i64| usize::try_from(at).ok().and_then(|at| ids.get(at)).copied();
        let in_batch: FxHashMap<Txid, &NewTx> =
            batch.iter().map(|(new, _)| (new.txid, *new)).collect();
        let is_own = |input: &OutPoint| {
            let made = in_batch.get(input.txid()).and_then(|parent| {
                parent.outputs.get(usize::try_from(input.index()).unwrap_or(usize::MAX))
            });
            facts.parents.contains_key(input)
                || made.is_some_and(|output| facts.addresses.contains_key(&output.script))
        };
        let (mut txs, mut inputs, mut coins) = (Vec::new(), Vec::new(), Vec::new());
        let (mut spends, mut used, mut spent) = (Vec::new(), FxHashSet::default(), Vec::new());
        let mut made = Vec::new();
        let told = self.limits.event_depths.deepest_reached(height, self.tip_after());
        let hash = self.known_block.filter(|block| block.height == height).map(|block| block.hash);
        let int = |count: usize| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        for ((new, position), id) in batch.iter().zip(&ids) {
            let total: i64 = new.outputs.iter().map(|output| output.amount.to_column()).sum();
            let owned = new.inputs.iter().filter(|input| is_own(input)).count();
            txs.extend([
                self.id(),
                Value::from(*id),
                Value::from(self.chain),
                Value::from(new.txid.as_bytes()),
                Value::from(TxStatus::Published.code()),
                Value::from(false),
                Value::from(new.coinbase),
                Value::from(height.get()),
                Value::from(*position),
                Value::from(self.now.get()),
                int(new.inputs.len()),
                int(owned),
                Value::from(total),
                Value::from(new.raw.as_deref()),
                Value::from(told),
            ]);
            self.note_new_in_block((*id, new.txid), (height, hash), told);
            inputs.extend(self.input_rows(*id, &new.inputs, HOLDS));
            for (index, input) in (0i64..).zip(&new.inputs) {
                if let Some(utxo) = facts.parents.get(input) {
                    spends.extend([Value::from(*utxo), Value::from(*id), Value::from(index)]);
                    spent.push(*id);
                }
            }
            for (index, output) in (0u32..).zip(&new.outputs) {
                let Some(address) = facts.addresses.get(&output.script) else {
                    continue;
                };
                used.insert(*address);
                let outpoint = OutPoint::new(new.txid, index);
                let spender = facts.spenders.get(&outpoint);
                let utxo = self.next_utxo_id()?;
                made.push((outpoint, utxo));
                coins.extend([
                    self.id(),
                    Value::from(utxo),
                    Value::from(*id),
                    Value::from(index),
                    Value::from(output.amount.to_column()),
                    Value::from(*address),
                    Value::from(CoinClass::Confirmed.code()),
                    Value::from(height.get()),
                    Value::from(new.coinbase),
                    Value::from(spender.and_then(|(at, _)| id_of(*at))),
                    Value::from(spender.map(|(_, index)| *index)),
                ]);
            }
        }
        self.tx.insert_rows(INSERT_TXS, "", 15, &txs)?;
        self.tx.insert_rows(INSERT_INPUTS, "", 6, &inputs)?;
        self.tx.insert_rows(INSERT_COINS, "", 11, &coins)?;
        self.mark_held_back(&made)?;
        let wallet = [self.id()];
        let changed = self.tx.execute_rows(SPEND_HEAD, SPEND_TAIL, &wallet, 3, &spends)?;
        let mut used: Vec<i64> = used.into_iter().collect();
        used.sort_unstable();
        let used: Vec<Value<'_>> = used.into_iter().map(Value::from).collect();
        self.tx.execute_in(SET_USED, "", &wallet, 1, &used)?;
        spent.dedup();
        let expected = u64::try_from(spends.len() / 3).unwrap_or(u64::MAX);
        Ok((changed == expected).then_some(spent))
    }
}
