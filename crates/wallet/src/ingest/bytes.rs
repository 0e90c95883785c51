//! Bytes of stored transactions: a block's are the real ones, signed ones are better than unsigned.

use utxokeep_core::wallet::Evidence;
use utxokeep_sql::Value;

use crate::{LedgerError, NewTx, session::Session};

const SELECT_RAW: &str = "SELECT raw_tx FROM transactions WHERE wallet_id = $1 AND id = $2";
const SET_RAW: &str = "UPDATE transactions SET raw_tx = $3 WHERE wallet_id = $1 AND id = $2";

impl Session<'_, '_> {
    /// Refuses bytes that are of another transaction, where they can be read. A block was read by
    /// its follower, and its transactions with it.
    pub(super) fn check_bytes(&self, new: &NewTx) -> Result<(), LedgerError> {
        let (Some(raw), Evidence::Claim) = (&new.raw, self.evidence) else { return Ok(()) };
        let Some(codec) = self.codec.as_ref().filter(|_| !self.network.is_cardano()) else {
            return Ok(());
        };
        let tx = codec.decode_tx(self.network, raw).map_err(|error| {
            LedgerError::invalid_tx(format!("its bytes cannot be read: {error}"))
        })?;
        if tx.txid != new.txid {
            let other = self.tx_text(&tx.txid);
            return Err(LedgerError::invalid_tx(format!("its bytes are of transaction {other}")));
        }
        Ok(())
    }

    /// Keeps the better bytes of a stored transaction.
    pub(super) fn keep_bytes(&mut self, id: i64, new: Option<&[u8]>) -> Result<(), LedgerError> {
        let Some(new) = new else { return Ok(()) };
        let key = [self.id(), Value::from(id)];
        let stored =
            self.tx.query_one(SELECT_RAW, &key, |row| Ok(row.opt_bytes(0)?.map(<[u8]>::to_vec)))?;
        let is_better = match (stored, self.evidence) {
            (None, _) => true,
            (Some(stored), Evidence::Block) => stored != new,
            (Some(stored), Evidence::Claim) => {
                self.signed_inputs(new) > self.signed_inputs(&stored)
            }
        };
        if is_better {
            self.tx.execute(SET_RAW, &[key[0], key[1], Value::from(new)])?;
        }
        Ok(())
    }

    /// How many inputs are signed, as far as the bytes can be read.
    fn signed_inputs(&self, raw: &[u8]) -> usize {
        let decoded = self.codec.as_ref().and_then(|codec| codec.decode_tx(self.network, raw).ok());
        decoded.map_or(0, |tx| tx.signed_inputs)
    }
}
