//! Ancestors of what a block holds must be in the chain too, whatever became of them here.
//!
//! Their own blocks may lie before the start of the ledger, or before the wallet watched them. So
//! they come back as published, at a height that only a scan can tell. A coinbase cannot be outside of
//! a block: one that was only ever claimed, and whose claim was wrong, is forgotten.

use std::collections::BTreeSet;

use utxokeep_core::{OutPoint, Txid, wallet::parents_first};
use utxokeep_sql::Value;

use crate::{LedgerError, NewTx, Recorded, Seen, rows, session::Session};

/// Not published: given up, replaced, lost, or never sent.
const PARENTS_HEAD: &str = "SELECT t.id, t.txid, t.is_coinbase FROM (VALUES";
const PARENTS_TAIL: &str = ") AS v CROSS JOIN transactions t
    WHERE t.chain_id = $1 AND t.txid = v.column1 AND t.wallet_id = $2
        AND (t.status IN (0, 2, 3) OR (t.status = 4 AND t.is_claimed = 1))";
const SELECT_INPUTS: &str = "SELECT prev_txid, prev_index FROM tx_inputs
    WHERE wallet_id = $1 AND tx_id = $2 ORDER BY input_index";

impl Session<'_, '_> {
    /// Publishes every stored ancestor of `new` that is not published; whoever took their inputs
    /// loses them. Walks up until it meets what is published or not stored.
    pub(super) fn revive_ancestors(&mut self, new: &NewTx) -> Result<Vec<Recorded>, LedgerError> {
        let mut family: Vec<(Txid, Vec<Txid>)> = Vec::new();
        let mut known = BTreeSet::new();
        let mut frontier: BTreeSet<Txid> = new.inputs.iter().map(|input| *input.txid()).collect();
        while !frontier.is_empty() {
            let mut found = Vec::new();
            let keys: Vec<Value<'_>> =
                frontier.iter().map(|txid| Value::from(txid.as_bytes())).collect();
            let fixed = [Value::from(self.chain), self.id()];
            self.tx.query_rows(PARENTS_HEAD, PARENTS_TAIL, &fixed, 1, &keys, |row| {
                found.push((row.int(0)?, rows::txid(row, 1)?, rows::flag(row, 2)?));
                Ok(())
            })?;
            frontier.clear();
            found.sort_unstable();
            for (id, txid, is_coinbase) in found {
                if is_coinbase {
                    self.touch(&[id])?;
                    self.remove(&[id])?;
                } else if known.insert(txid) {
                    let inputs = self.inputs_of(id)?;
                    let parents: Vec<Txid> = inputs.iter().map(|input| *input.txid()).collect();
                    frontier.extend(parents.iter().filter(|parent| !known.contains(*parent)));
                    family.push((txid, parents));
                }
            }
        }
        let order = parents_first(&family);
        order.into_iter().map(|at| self.record_stored(&family[at].0, Seen::Mempool)).collect()
    }

    /// What a stored transaction spends, in order.
    pub(crate) fn inputs_of(&mut self, id: i64) -> Result<Vec<OutPoint>, LedgerError> {
        let key = [self.id(), Value::from(id)];
        Ok(self.tx.query_all(SELECT_INPUTS, &key, |row| rows::outpoint(row, 0))?)
    }
}
