//! Taking blocks back, for one wallet.

use utxokeep_core::{
    Height,
    wallet::{CoinClass, Refused, TxState},
};
use utxokeep_sql::Value;

use crate::{LedgerError, rows, session::Session};

const SELECT_COINBASES: &str = "SELECT id, txid FROM transactions
    WHERE wallet_id = $1 AND block_height >= $2 AND is_coinbase = 1 ORDER BY id";
const RESET_LEASES: &str = "UPDATE utxo_leases SET spent_height = NULL
    WHERE wallet_id = $1 AND spent_height >= $2";
const DETACH_COINS: &str = "UPDATE utxos SET parent_class = $3, parent_height = NULL
    WHERE wallet_id = $1 AND tx_id IN (
        SELECT id FROM transactions WHERE wallet_id = $1 AND block_height >= $2
            AND is_coinbase = 0 AND (input_count = owned_input_count) = ($4 = 1))";
const SELECT_DOUBTFUL: &str = "SELECT DISTINCT u.tx_id FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
    WHERE t.wallet_id = $1 AND t.block_height >= $2 AND t.is_coinbase = 0
        AND u.parent_class < 3 AND u.spent_by_tx_id IS NOT NULL";
const SELECT_DOUBTFUL_PARENTS: &str = "SELECT DISTINCT u.tx_id FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.spent_by_tx_id = t.id
    WHERE t.wallet_id = $1 AND t.block_height >= $2 AND t.is_coinbase = 0
        AND u.parent_class < 3";
const DETACH_TXS: &str = "UPDATE transactions SET block_height = NULL, block_position = NULL
    WHERE wallet_id = $1 AND block_height >= $2 AND is_coinbase = 0";

impl Session<'_, '_> {
    /// Takes this wallet's transactions out of all blocks from `height` on. Payments come first,
    /// so that what spends from a coinbase is unconfirmed when the coinbase ends.
    pub(super) fn detach_from(&mut self, height: Height) -> Result<(), LedgerError> {
        let key = [self.id(), Value::from(height.get())];
        let coinbases = self
            .tx
            .query_all(SELECT_COINBASES, &key, |row| Ok((row.int(0)?, rows::txid(row, 1)?)))?;
        self.tx.execute(RESET_LEASES, &key)?;
        for (class, trusted) in [(CoinClass::Trusted, 1i64), (CoinClass::Untrusted, 0)] {
            let row = [key[0], key[1], Value::from(class.code()), Value::from(trusted)];
            self.tx.execute(DETACH_COINS, &row)?;
        }
        // Whoever spends from these is not trusted any more; they may lie in no block already.
        let mut doubtful = self.tx.query_all(SELECT_DOUBTFUL, &key, |row| row.int(0))?;
        doubtful.extend(self.tx.query_all(SELECT_DOUBTFUL_PARENTS, &key, |row| row.int(0))?);
        doubtful.sort_unstable();
        doubtful.dedup();
        let detached = self.tx.execute(DETACH_TXS, &key)?;
        self.lower_trust(doubtful, usize::try_from(detached).unwrap_or(usize::MAX))?;
        for (id, coinbase) in coinbases {
            self.end(id, coinbase, TxState::Orphaned).map_err(|error| match error {
                LedgerError::Refused { txid: spender, refused: Refused::Confirmed(height) } => {
                    LedgerError::SpentBelow { coinbase, spender, height }
                }
                other => other,
            })?;
        }
        Ok(())
    }
}
