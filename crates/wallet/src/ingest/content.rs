//! What a stored transaction spends and pays, compared with what a block says.
//!
//! A transaction may be recorded from its parts, without bytes that prove them. Its id cannot tell;
//! the block that holds it can.

use utxokeep_core::wallet::{InvalidReason, TxState, is_paid};
use utxokeep_sql::Value;

use super::INSERT_INPUTS;
use crate::{
    LedgerError, NewTx, rows,
    session::{Session, StoredTx},
};

const SELECT_TOTAL: &str = "SELECT output_total FROM transactions WHERE wallet_id = $1 AND id = $2";
const SELECT_COINS: &str = "SELECT u.output_index, u.amount, a.script
    FROM utxos u JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
    WHERE u.wallet_id = $1 AND u.tx_id = $2";
const DELETE_INPUTS: &str = "DELETE FROM tx_inputs WHERE wallet_id = $1 AND tx_id = $2";
const UNCOUNT_INPUTS: &str = "UPDATE transactions SET owned_input_count = owned_input_count -
        (SELECT COUNT(*) FROM utxos u WHERE u.wallet_id = $1 AND u.tx_id = $2
            AND u.spent_by_tx_id = transactions.id)
    WHERE wallet_id = $1 AND id IN (SELECT spent_by_tx_id FROM utxos
        WHERE wallet_id = $1 AND tx_id = $2 AND spent_by_tx_id IS NOT NULL)";
const DELETE_COINS: &str = "DELETE FROM utxos WHERE wallet_id = $1 AND tx_id = $2";
const RESET_TX: &str = "UPDATE transactions
    SET status = $3, is_waiting = 0, is_coinbase = $4, block_height = NULL, block_position = NULL,
        input_count = $5, owned_input_count = 0, output_total = $6, invalid_reason = $7,
        invalidated_by_tx_id = NULL, raw_tx = NULL, is_claimed = 0, earlier_height = NULL,
        earlier_position = NULL
    WHERE wallet_id = $1 AND id = $2";

/// The claim of an input whose transaction holds nothing.
const FREE: i64 = 0;

impl Session<'_, '_> {
    /// Whether what is stored of a transaction is what `new` says. Outputs that are not the
    /// wallet's are not stored; their sum is.
    pub(super) fn has_content(
        &mut self,
        stored: &StoredTx,
        new: &NewTx,
    ) -> Result<bool, LedgerError> {
        let total: i64 = new.outputs.iter().map(|output| output.amount.to_column()).sum();
        let key = [self.id(), Value::from(stored.id)];
        if stored.coinbase != new.coinbase
            || self.tx.query_one(SELECT_TOTAL, &key, |row| row.int(0))? != total
            || self.inputs_of(stored.id)? != new.inputs
        {
            return Ok(false);
        }
        let mut is_same = true;
        self.tx.query(SELECT_COINS, &key, |row| {
            let at = usize::try_from(row.int(0)?).unwrap_or(usize::MAX);
            let (amount, script) = (rows::amount(row, 1)?, row.bytes(2)?);
            is_same &= new
                .outputs
                .get(at)
                .is_some_and(|output| output.amount == amount && is_paid(&output.script, script));
            Ok(())
        })?;
        Ok(is_same)
    }

    /// Forgets what was claimed about the inputs and outputs of a transaction, and stores the
    /// inputs of `new`. It is not live afterwards, so that recording it takes its inputs anew and
    /// links whatever spends from it. Leases on coins that it never paid go with them.
    pub(super) fn rewrite(
        &mut self,
        stored: &StoredTx,
        new: &NewTx,
    ) -> Result<StoredTx, LedgerError> {
        let key = [self.id(), Value::from(stored.id)];
        self.lower_trust(vec![stored.id])?;
        self.let_go(std::iter::once(stored.id))?;
        self.tx.execute(UNCOUNT_INPUTS, &key)?;
        for statement in [DELETE_COINS, DELETE_INPUTS] {
            self.tx.execute(statement, &key)?;
        }
        let state = if new.coinbase { TxState::Orphaned } else { TxState::Failed };
        let reason = (!new.coinbase).then_some(InvalidReason::Abandoned.code());
        let total: i64 = new.outputs.iter().map(|output| output.amount.to_column()).sum();
        self.tx.execute(
            RESET_TX,
            &[
                key[0],
                key[1],
                Value::from(state.status().code()),
                Value::from(new.coinbase),
                Value::from(i64::try_from(new.inputs.len()).unwrap_or(i64::MAX)),
                Value::from(total),
                Value::from(reason),
            ],
        )?;
        let rows = self.input_rows(stored.id, &new.inputs, FREE);
        self.tx.insert_rows(INSERT_INPUTS, "", 6, &rows)?;
        let coinbase = new.coinbase;
        Ok(StoredTx {
            state,
            coinbase,
            waiting: false,
            owned_inputs: 0,
            position: None,
            claimed: false,
            ..*stored
        })
    }
}
