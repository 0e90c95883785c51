//! The ends of leases: released by their owner, or with a payment that is given up.

use utxokeep_core::{
    OutPoint, Txid,
    wallet::{InputLease, LeaseEnd, LeaseId, Micros, WalletId},
};
use utxokeep_sql::{SqlError, Value};

use crate::{Ledger, LedgerError, rows, session::Session};

const DELETE_LEASES: &str = "DELETE FROM utxo_leases WHERE wallet_id = $1 AND utxo_id IN";
const DELETE_OF: &str = "DELETE FROM utxo_leases WHERE wallet_id = $1 AND lease_id = $2
    AND (expires_at_us > $3 OR is_held = 1)";
const HAND_BACK: &str =
    "UPDATE utxo_leases SET lease_id = $3 WHERE wallet_id = $1 AND utxo_id = $2";
const SET_PAYER: &str = "UPDATE transactions SET lease_id = $3
    WHERE wallet_id = $1 AND id = $2 AND (lease_id IS NULL OR $4 = 1)";
/// Raising a fee may have moved leases to another owner, or back.
const SELECT_PAYERS: &str = "SELECT t.lease_id FROM transactions t
    WHERE t.wallet_id = $1 AND t.lease_id IS NOT NULL AND (t.id = $2
        OR (t.status > 1 AND t.id IN (SELECT r.replacement_tx_id FROM tx_replacements r
                WHERE r.wallet_id = $1 AND r.replaced_tx_id = $2
            UNION ALL SELECT o.replaced_tx_id FROM tx_replacements o
                WHERE o.wallet_id = $1 AND o.replacement_tx_id = $2)))";
const SELECT_INPUT_LEASES: &str = "SELECT l.utxo_id, l.lease_id, l.is_held, h.tx_id, s.lease_id,
        CASE WHEN EXISTS (SELECT 1 FROM tx_inputs w WHERE w.prev_txid = i.prev_txid
                AND w.prev_index = i.prev_index AND w.wallet_id = i.wallet_id AND w.claim = 2
                AND w.tx_id <> i.tx_id)
            THEN 1 ELSE 0 END
    FROM tx_inputs i
    JOIN transactions p ON p.chain_id = $3 AND p.txid = i.prev_txid AND p.wallet_id = i.wallet_id
    JOIN utxos u ON u.wallet_id = p.wallet_id AND u.tx_id = p.id AND u.output_index = i.prev_index
    JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
    LEFT JOIN tx_inputs h ON h.prev_txid = i.prev_txid AND h.prev_index = i.prev_index
        AND h.wallet_id = i.wallet_id AND h.claim = 1 AND h.tx_id <> i.tx_id
    LEFT JOIN transactions s ON s.wallet_id = h.wallet_id AND s.id = h.tx_id
    WHERE i.wallet_id = $1 AND i.tx_id = $2 ORDER BY l.utxo_id";

/// What giving a transaction up came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Abandoned {
    /// Transactions that depended on it, and failed with it.
    pub descendants: Vec<Txid>,
    /// Leases on inputs that ended with it.
    pub released_leases: u64,
}

impl Ledger {
    /// Ends a lease, and says whether there was one: a lease that is gone or expired is none.
    /// Only the owner may.
    pub fn release_lease(
        &self,
        wallet: WalletId,
        owner: &LeaseId,
        outpoint: &OutPoint,
        now: Micros,
    ) -> Result<bool, LedgerError> {
        self.write_wallet(wallet, now, |session| session.release(owner, outpoint))
    }

    /// Ends every active lease of an owner in a wallet; returns how many. Those that have expired
    /// stay until [`Ledger::clean_leases`] removes them, which tells of their end.
    pub fn release_all(
        &self,
        wallet: WalletId,
        owner: &LeaseId,
        now: Micros,
    ) -> Result<u64, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            let now = Value::from(session.lease_now()?.get());
            let key = [session.id(), Value::from(owner.as_bytes())];
            Ok(session.tx.execute(DELETE_OF, &[key[0], key[1], now])?)
        })
    }
}

impl Session<'_, '_> {
    fn release(&mut self, owner: &LeaseId, outpoint: &OutPoint) -> Result<bool, LedgerError> {
        let not_found = LedgerError::UtxoNotFound(self.network.outpoint(outpoint));
        let Some(coin) = self.coin(outpoint)? else { return Err(not_found) };
        let now = self.lease_now()?;
        let lease = self.stored_lease(coin.id)?.filter(|lease| lease.is_active(now));
        match lease {
            None if !coin.is_current => Err(not_found),
            Some(lease) if !lease.is_held && !coin.is_live => Err(not_found),
            None => Ok(false),
            Some(lease) if lease.owner != *owner => {
                Err(LedgerError::NotLeaseOwner { outpoint: self.network.outpoint(outpoint) })
            }
            Some(_) => {
                let key = [Value::from(coin.id)];
                self.tx.execute_in(DELETE_LEASES, "", &[self.id()], 1, &key)?;
                Ok(true)
            }
        }
    }

    /// Notes whose payment a transaction is. Who is noted already stays, unless the transaction
    /// `was_dead` and is made anew.
    pub(crate) fn set_payer(
        &mut self,
        tx: i64,
        owner: LeaseId,
        was_dead: bool,
    ) -> Result<(), SqlError> {
        let owner = Value::from(owner.as_bytes());
        let row = [self.id(), Value::from(tx), owner, Value::from(i64::from(was_dead))];
        self.tx.execute(SET_PAYER, &row)?;
        Ok(())
    }

    /// Ends the leases that were taken for a payment which is given up, or for replacements of it
    /// that are dead too; returns how many. Those that a bump took from a payment which goes on
    /// return to the owner of that one.
    pub(crate) fn release_inputs(&mut self, tx: i64) -> Result<u64, SqlError> {
        let key = [self.id(), Value::from(tx), Value::from(self.chain)];
        let payers = self
            .tx
            .query_all(SELECT_PAYERS, &key[..2], |row| Ok(LeaseId::from_bytes(row.array(0)?)))?;
        if payers.is_empty() {
            return Ok(0);
        }
        let leases = self.tx.query_all(SELECT_INPUT_LEASES, &key, |row| {
            let spender = row.opt_bytes(4)?.map(|_| row.array(4)).transpose()?;
            let lease = InputLease {
                owner: LeaseId::from_bytes(row.array(1)?),
                is_held: rows::flag(row, 2)?,
                is_spent: row.opt_int(3)?.is_some(),
                spender: spender.map(LeaseId::from_bytes),
                is_awaited: rows::flag(row, 5)?,
            };
            Ok((row.int(0)?, lease))
        })?;
        let mut ended = Vec::new();
        for (utxo, lease) in leases {
            match lease.after(&payers) {
                LeaseEnd::Stays => {}
                LeaseEnd::Ends => ended.push(Value::from(utxo)),
                LeaseEnd::GoesTo(owner) => {
                    let row = [self.id(), Value::from(utxo), Value::from(owner.as_bytes())];
                    self.tx.execute(HAND_BACK, &row)?;
                }
            }
        }
        self.tx.execute_in(DELETE_LEASES, "", &[self.id()], 1, &ended)
    }
}
