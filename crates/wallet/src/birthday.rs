//! Birthdays of wallets: below that block nothing was paid to the wallet, so a scan starts there. One
//! that a payment contradicts moves down to it.

use utxokeep_core::{
    Height,
    wallet::{BirthdayAboveTip, Micros, WalletId, check_birthday, scan_from},
};
use utxokeep_sql::{SqlError, Transaction, Value};

use crate::{Ledger, LedgerError, archive, rows, session::Session};

const SELECT_START: &str = "SELECT w.birthday_height, c.first_height
    FROM wallets w JOIN chains c ON c.id = w.chain_id WHERE w.id = $1";
const UPDATE: &str = "UPDATE wallets SET birthday_height = $2 WHERE id = $1";
const SELECT_OLDEST: &str = "SELECT MIN(block_height) FROM transactions WHERE wallet_id = $1";
const REWIND: &str = "UPDATE wallets SET birthday_height =
        (SELECT MAX(b.height) FROM blocks b WHERE b.chain_id = $1 AND b.height < $2)
    WHERE chain_id = $1 AND birthday_height >= $2";

impl Ledger {
    /// From where blocks have to be scanned for scripts that the wallet watches from now on;
    /// `None` when the ledger has passed no block that could pay them.
    pub fn scan_from(&self, wallet: WalletId) -> Result<Option<Height>, LedgerError> {
        self.read_wallet(wallet, |session| Ok(session.scan_from()?))
    }

    /// Where a rescan starts when nobody says where: where an earlier one stopped, at the block since
    /// which the wallet has not all, at its birthday, or at the first block of the ledger.
    pub fn rescan_start(&self, wallet: WalletId) -> Result<Height, LedgerError> {
        self.read_wallet(wallet, |session| {
            let standing = session.standing()?;
            let lacks = standing.rescan.map(|rescan| rescan.next);
            let lacks = lacks.or(standing.set_aside.map(|aside| aside.height));
            if let Some(start) = lacks.or(session.scan_from()?) {
                return Ok(start);
            }
            let birthday = session.birthday;
            if let (Some(birthday), Some(tip)) = (birthday, session.tip_height()) {
                return Err(BirthdayAboveTip { birthday, tip }.into());
            }
            Err(LedgerError::BlockNotFound { height: birthday.unwrap_or(Height::GENESIS) })
        })
    }

    /// The birthday of a wallet, if one was set.
    pub fn birthday(&self, wallet: WalletId) -> Result<Option<Height>, LedgerError> {
        self.read_wallet(wallet, |session| Ok(session.birthday))
    }

    /// Sets the birthday of a wallet, or clears it. When blocks from there on leave the chain it
    /// moves down to the highest block that is still stored, or is cleared. One above the tip, or
    /// above a transaction of the wallet, is refused.
    pub fn set_birthday(
        &self,
        wallet: WalletId,
        height: Option<Height>,
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet(wallet, now, |session| {
            check_birthday(height, session.tip_height())?;
            let paid =
                session.tx.query_one(SELECT_OLDEST, &[session.id()], |row| rows::height(row, 0))?;
            if let Some((paid, height)) = paid.zip(height).filter(|(paid, height)| paid < height) {
                return Err(LedgerError::argument(format!(
                    "the wallet has a transaction in block {paid}, below {height}; its birthday is \
                     {paid} at most"
                )));
            }
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

    /// Moves the birthday down to a block that pays the wallet or spends from it: whoever set it
    /// was wrong, and a scan that started there would miss coins.
    pub(crate) fn lower_birthday(&mut self, height: Height) -> Result<(), SqlError> {
        if self.birthday.is_some_and(|birthday| height < birthday) {
            let row = [self.id(), Value::from(height.get())];
            self.tx.execute(UPDATE, &row)?;
            self.birthday = Some(height);
        }
        Ok(())
    }
}

/// Moves birthdays down when blocks from `height` on leave the chain, and what archived wallets have
/// not seen.
pub(crate) fn rewind(tx: &mut Transaction<'_>, chain: i64, height: Height) -> Result<(), SqlError> {
    tx.execute(REWIND, &[Value::from(chain), Value::from(height.get())])?;
    archive::rewind(tx, chain, height)
}
