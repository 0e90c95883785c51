//! Trust of transactions in no block, kept beside their coins.
//!
//! Such a transaction is trusted when all its inputs are coins of the wallet and each of these is
//! confirmed or trusted itself. So trust looks at all ancestors in no block, while every row only
//! depends on the rows right before it. What changes is carried on to descendants by a work list
//! with a limit, in the transaction that caused it; reading never walks.
//!
//! Trust only rises when something confirms, is published or gets a parent, and only falls when
//! blocks leave the chain. One direction at a time means that no row changes twice.

use utxokeep_core::wallet::{CoinClass, TxState};
use utxokeep_sql::{SqlError, Value};

use crate::{LedgerError, session::Session};

const SELECT_DOUBT: &str = "SELECT 1 FROM utxos
    WHERE wallet_id = $1 AND spent_by_tx_id = $2 AND parent_class < 3 LIMIT 1";
const SELECT_RISING: &str = "SELECT DISTINCT s.id FROM utxos u
    CROSS JOIN transactions s CROSS JOIN utxos o
    WHERE u.wallet_id = $1 AND s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        AND s.status = 1 AND s.block_height IS NULL AND s.input_count = s.owned_input_count
        AND o.wallet_id = s.wallet_id AND o.tx_id = s.id AND o.parent_class = 2
        AND NOT EXISTS (SELECT 1 FROM utxos p WHERE p.wallet_id = s.wallet_id
            AND p.spent_by_tx_id = s.id AND p.parent_class < 3)
        AND u.tx_id IN";
const SELECT_FALLING: &str = "SELECT DISTINCT o.tx_id FROM utxos u CROSS JOIN utxos o
    WHERE u.wallet_id = $1 AND o.wallet_id = u.wallet_id AND o.tx_id = u.spent_by_tx_id
        AND o.parent_class = 3 AND u.tx_id IN";
const RAISE: &str = "UPDATE utxos SET parent_class = 3
    WHERE wallet_id = $1 AND parent_class = 2 AND tx_id IN";
const LOWER: &str = "UPDATE utxos SET parent_class = 2
    WHERE wallet_id = $1 AND parent_class = 3 AND tx_id IN";

impl Session<'_, '_> {
    /// The class of what a transaction pays. It must have taken hold of its inputs already, if it
    /// does; `all_own` says whether all of them are coins of the wallet.
    pub(super) fn class_of(
        &mut self,
        id: i64,
        state: TxState,
        waiting: bool,
        all_own: bool,
    ) -> Result<CoinClass, SqlError> {
        let mut trusted = all_own;
        if trusted && state == TxState::Unconfirmed {
            let key = [self.id(), Value::from(id)];
            trusted = self.tx.query_opt(SELECT_DOUBT, &key, |_| Ok(()))?.is_none();
        }
        Ok(CoinClass::of(state, waiting, trusted))
    }

    /// Carries on that `id` has become trusted or confirmed.
    pub(super) fn raise_trust(&mut self, id: i64) -> Result<(), LedgerError> {
        self.carry_trust(SELECT_RISING, RAISE, vec![id])
    }

    /// Carries on that `doubtful` are not trusted any more.
    pub(crate) fn lower_trust(&mut self, doubtful: Vec<i64>) -> Result<(), LedgerError> {
        self.carry_trust(SELECT_FALLING, LOWER, doubtful)
    }

    fn carry_trust(
        &mut self,
        select: &str,
        update: &str,
        start: Vec<i64>,
    ) -> Result<(), LedgerError> {
        let rows_max = self.cascade_txs_max();
        let fixed = [self.id()];
        let mut frontier = start;
        let mut changed = 0;
        while !frontier.is_empty() {
            let keys: Vec<Value<'_>> = frontier.iter().map(|id| Value::from(*id)).collect();
            let mut next = Vec::new();
            self.tx.query_in(select, "", &fixed, 1, &keys, |row| {
                next.push(row.int(0)?);
                Ok(())
            })?;
            // A list of keys may be sent in parts, and two parts may find the same child.
            next.sort_unstable();
            next.dedup();
            changed += next.len();
            if changed > rows_max {
                return Err(LedgerError::CascadeTooLarge { rows_max });
            }
            let keys: Vec<Value<'_>> = next.iter().map(|id| Value::from(*id)).collect();
            self.tx.execute_in(update, "", &fixed, 1, &keys)?;
            frontier = next;
        }
        Ok(())
    }
}
