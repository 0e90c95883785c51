//! Taking blocks back, for one wallet.

use utxokeep_core::{
    Height,
    wallet::{CoinClass, TxState},
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
        self.tx.execute(DETACH_TXS, &key)?;
        for (id, txid) in coinbases {
            self.end(id, txid, TxState::Orphaned)?;
        }
        Ok(())
    }
}
