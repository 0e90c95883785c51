//! What was pruned, waiting to be kept elsewhere.
//!
//! # Invariants
//!
//! * A row gets its number under the lock of its wallet, and no number is given twice. So whoever
//!   has read all rows up to a number has read all that there will ever be up to it.

use utxokeep_core::{
    Txid,
    wallet::{Micros, WalletId},
};
use utxokeep_sql::{SqlError, Value};

use crate::{Ledger, LedgerError, TxDetail, rows, session::Session};

const TAKE_NUMBERS: &str = "UPDATE wallets SET next_pruned_id = next_pruned_id + $2
    WHERE id = $1 RETURNING next_pruned_id";
const INSERT: &str = "INSERT INTO pruned_transactions (wallet_id, id, txid, document) VALUES";
const SELECT_PAGE: &str = "SELECT id, txid, document FROM pruned_transactions
    WHERE wallet_id = $1 AND id > $2 ORDER BY id LIMIT $3";
const COUNT: &str = "SELECT COUNT(*) FROM pruned_transactions WHERE wallet_id = $1";
const SELECT_NEXT: &str = "SELECT next_pruned_id FROM wallets WHERE id = $1";
const DELETE: &str = "DELETE FROM pruned_transactions WHERE wallet_id = $1 AND id <= $2";

/// A transaction that was pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedRow {
    /// Its place in the archive; later rows have higher ones.
    pub id: i64,
    /// The transaction.
    pub txid: Txid,
    /// What was written of it.
    pub document: String,
}

impl Ledger {
    /// What was pruned and not acknowledged, behind a number, in the order it was pruned.
    pub fn pruned(
        &self,
        wallet: WalletId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<PrunedRow>, LedgerError> {
        let limit = self.page(limit);
        self.read_wallet(wallet, |session| {
            let key = [session.id(), Value::from(after), limit];
            Ok(session.tx.query_all(SELECT_PAGE, &key, |row| {
                Ok(PrunedRow {
                    id: row.int(0)?,
                    txid: rows::txid(row, 1)?,
                    document: row.text(2)?.to_owned(),
                })
            })?)
        })
    }

    /// How many rows wait in the archive.
    pub fn pruned_count(&self, wallet: WalletId) -> Result<u64, LedgerError> {
        self.read_wallet(wallet, |session| {
            let wallet = [session.id()];
            Ok(session.tx.query_one(COUNT, &wallet, |row| rows::sum(row, 0))?)
        })
    }

    /// Removes rows of the archive up to a number: they are kept elsewhere. Returns how many. A number
    /// that was never given is refused: nobody can have read up to it.
    pub fn acknowledge_pruned(
        &self,
        wallet: WalletId,
        up_to: i64,
        now: Micros,
    ) -> Result<u64, LedgerError> {
        self.write_wallet_even_archived(wallet, now, |session| {
            let wallet = [session.id()];
            let next = session.tx.query_one(SELECT_NEXT, &wallet, |row| row.int(0))?;
            if !(1..next).contains(&up_to) {
                return Err(LedgerError::argument(format!(
                    "{up_to} is not the number of a pruned transaction; acknowledge the highest \
                     that was read"
                )));
            }
            let key = [session.id(), Value::from(up_to)];
            Ok(session.tx.execute(DELETE, &key)?)
        })
    }
}

impl Session<'_, '_> {
    pub(super) fn archive_pruned(
        &mut self,
        gone: &[TxDetail],
        write: &dyn Fn(&TxDetail) -> String,
    ) -> Result<(), SqlError> {
        if gone.is_empty() {
            return Ok(());
        }
        let count = i64::try_from(gone.len()).unwrap_or(i64::MAX);
        let numbers = [self.id(), Value::from(count)];
        let next = self.tx.query_one(TAKE_NUMBERS, &numbers, |row| row.int(0))?;
        let documents: Vec<String> = gone.iter().map(write).collect();
        let mut values = Vec::with_capacity(gone.len() * 4);
        for ((id, detail), document) in (next - count..).zip(gone).zip(&documents) {
            let txid = Value::from(detail.summary.txid.as_bytes());
            values.extend([self.id(), Value::from(id), txid, Value::from(document)]);
        }
        self.tx.insert_rows(INSERT, "", 4, &values)?;
        Ok(())
    }
}
