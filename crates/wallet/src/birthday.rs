//! Birthdays of wallets: below that block nothing was paid to the wallet, so a scan starts there.

use utxokeep_core::{
    Height,
    wallet::{Micros, WalletId, scan_from},
};
use utxokeep_sql::{SqlError, Transaction, Value};

use crate::{Ledger, LedgerError, archive, rows, session::Session};

const SELECT: &str = "SELECT birthday_height FROM wallets WHERE id = $1";
const SELECT_START: &str = "SELECT w.birthday_height, c.first_height
    FROM wallets w JOIN chains c ON c.id = w.chain_id WHERE w.id = $1";
const UPDATE: &str = "UPDATE wallets SET birthday_height = $2 WHERE id = $1";
const REWIND: &str = "UPDATE wallets SET birthday_height =
        (SELECT MAX(b.height) FROM blocks b WHERE b.chain_id = $1 AND b.height < $2)
    WHERE chain_id = $1 AND birthday_height >= $2";

impl Ledger {
    /// From where blocks have to be scanned for scripts that the wallet watches from now on;
    /// `None` when the ledger has passed no block that could pay them.
    pub fn scan_from(&self, wallet: WalletId) -> Result<Option<Height>, LedgerError> {
        self.read_wallet(wallet, |session| Ok(session.scan_from()?))
    }

    /// The birthday of a wallet, if one was set.
    pub fn birthday(&self, wallet: WalletId) -> Result<Option<Height>, LedgerError> {
        self.read_wallet(wallet, |session| {
            let key = [session.id()];
            Ok(session.tx.query_one(SELECT, &key, |row| rows::height(row, 0))?)
        })
    }

    /// Sets the birthday of a wallet, or clears it. When blocks from there on leave the chain it
    /// moves down to the highest block that is still stored, or is cleared.
    pub fn set_birthday(
        &self,
        wallet: WalletId,
        height: Option<Height>,
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet(wallet, now, |session| {
            let row = [session.id(), rows::height_value(height)];
            session.tx.execute(UPDATE, &row)?;
            Ok(())
        })
    }
}

impl Session<'_, '_> {
    pub(crate) fn scan_from(&mut self) -> Result<Option<Height>, SqlError> {
        let (birthday, first_block) = self.tx.query_one(SELECT_START, &[self.id()], |row| {
            Ok((rows::height(row, 0)?, rows::height(row, 1)?))
        })?;
        Ok(scan_from(self.tip_height(), birthday, first_block))
    }
}

/// Moves birthdays down when blocks from `height` on leave the chain, and what archived wallets have
/// not seen.
pub(crate) fn rewind(tx: &mut Transaction<'_>, chain: i64, height: Height) -> Result<(), SqlError> {
    tx.execute(REWIND, &[Value::from(chain), Value::from(height.get())])?;
    archive::rewind(tx, chain, height)
}
