//! Bytes of stored transactions: a block's are the real ones, signed ones are better than unsigned,
//! and those that were seen better than those that were only made.

use utxokeep_core::wallet::{DecodedTx, Event, Evidence, TxState};
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

    /// Keeps the better bytes of a stored transaction, which was in `state` before `event`. Returns
    /// whether they are new.
    pub(super) fn keep_bytes(
        &mut self,
        id: i64,
        state: TxState,
        event: Event,
        new: Option<&[u8]>,
    ) -> Result<bool, LedgerError> {
        let Some(new) = new else { return Ok(false) };
        let key = [self.id(), Value::from(id)];
        let stored =
            self.tx.query_one(SELECT_RAW, &key, |row| Ok(row.opt_bytes(0)?.map(<[u8]>::to_vec)))?;
        let is_better = match (stored, self.evidence) {
            (Some(stored), _) if stored == new => false,
            (None, _) | (Some(_), Evidence::Block) => true,
            (Some(stored), Evidence::Claim) => match (self.decoded(new), self.decoded(&stored)) {
                (Some(new), Some(stored)) => new.is_better_than(&stored, event, state),
                (new, _) => new.is_some(),
            },
        };
        if is_better {
            self.tx.execute(SET_RAW, &[key[0], key[1], Value::from(new)])?;
        }
        Ok(is_better)
    }

    /// The transaction, if its bytes can be read.
    fn decoded(&self, raw: &[u8]) -> Option<DecodedTx> {
        self.codec.as_ref().and_then(|codec| codec.decode_tx(self.network, raw).ok())
    }
}
