//! Archiving wallets and keychains: they are not followed any more, and nothing of them is lost.
//!
//! An archived wallet takes no transactions, addresses, leases or payments; its history stays
//! readable, its labels can be set, and it can be pruned. The scripts of an archived keychain are
//! not watched; coins that it still has are the wallet's as before.
//!
//! # Invariants
//!
//! * The first block that was not looked at is remembered, and moves down with rollbacks. So
//!   whoever restores is told from where to scan.

use utxokeep_core::{
    Height,
    wallet::{ArchiveBlocker, ArchiveFacts, Micros, WalletId, check_archive},
};
use utxokeep_sql::{SqlError, Transaction, Value};

use crate::{Ledger, LedgerError, rows, session::Session};

const WALLET_COINS: &str = "SELECT COUNT(*) FROM utxos
    WHERE wallet_id = $1 AND spent_by_tx_id IS NULL AND parent_class > 0";
const WALLET_UNCONFIRMED: &str = "SELECT COUNT(*) FROM transactions
    WHERE wallet_id = $1 AND block_height IS NULL AND status < 2";
const WALLET_LEASES: &str = "SELECT COUNT(*) FROM utxo_leases
    WHERE wallet_id = $1 AND (expires_at_us > $2 OR is_held = 1)";
const KEYCHAIN_COINS: &str = "SELECT COUNT(*) FROM descriptor_scripts s
    JOIN utxos u ON u.wallet_id = s.wallet_id AND u.address_id = s.address_id
    WHERE s.wallet_id = $1 AND s.descriptor_id = $2
        AND u.spent_by_tx_id IS NULL AND u.parent_class > 0";
const KEYCHAIN_UNCONFIRMED: &str = "SELECT COUNT(*) FROM transactions t
    WHERE t.wallet_id = $1 AND t.block_height IS NULL AND t.status < 2
        AND EXISTS (SELECT 1 FROM utxos u JOIN descriptor_scripts s
            ON s.wallet_id = u.wallet_id AND s.address_id = u.address_id
            WHERE u.wallet_id = t.wallet_id AND s.descriptor_id = $2
                AND (u.tx_id = t.id OR u.spent_by_tx_id = t.id))";
const KEYCHAIN_LEASES: &str = "SELECT COUNT(*) FROM utxo_leases l
    JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
    JOIN descriptor_scripts s ON s.wallet_id = u.wallet_id AND s.address_id = u.address_id
    WHERE l.wallet_id = $1 AND s.descriptor_id = $3
        AND (l.expires_at_us > $2 OR l.is_held = 1)";
const ARCHIVE_WALLET: &str =
    "UPDATE wallets SET archived_at_us = $2, unseen_from_height = $3 WHERE id = $1";
const ARCHIVE_KEYCHAIN: &str = "UPDATE descriptors
    SET archived_at_us = $3, unseen_from_height = $4 WHERE wallet_id = $1 AND id = $2";
const FORGET_SCRIPTS: &str = "UPDATE addresses SET is_archived = 1
    WHERE wallet_id = $1 AND is_imported = 0 AND id IN (SELECT s.address_id
        FROM descriptor_scripts s WHERE s.wallet_id = $1 AND s.descriptor_id = $2)
        AND id NOT IN (SELECT s.address_id FROM descriptor_scripts s
            JOIN descriptors d ON d.wallet_id = s.wallet_id AND d.id = s.descriptor_id
            WHERE s.wallet_id = $1 AND d.archived_at_us IS NULL)";
const WATCH_SCRIPTS: &str = "UPDATE addresses SET is_archived = 0
    WHERE wallet_id = $1 AND id IN (SELECT s.address_id FROM descriptor_scripts s
        WHERE s.wallet_id = $1 AND s.descriptor_id = $2)";
const SELECT_HIGHEST_USED: &str = "SELECT MAX(s.script_index) FROM descriptor_scripts s
    JOIN addresses a ON a.wallet_id = s.wallet_id AND a.id = s.address_id
    WHERE s.wallet_id = $1 AND s.descriptor_id = $2 AND a.is_used = 1";
const SELECT_WALLET_UNSEEN: &str = "SELECT unseen_from_height FROM wallets w WHERE w.id = $1";
const SELECT_KEYCHAIN_UNSEEN: &str =
    "SELECT unseen_from_height FROM descriptors WHERE wallet_id = $1 AND id = $2";
const REWIND_WALLETS: &str = "UPDATE wallets SET unseen_from_height = $2
    WHERE chain_id = $1 AND unseen_from_height > $2";
const REWIND_KEYCHAINS: &str = "UPDATE descriptors SET unseen_from_height = $2
    WHERE unseen_from_height > $2
        AND wallet_id IN (SELECT w.id FROM wallets w WHERE w.chain_id = $1)";

impl Ledger {
    /// Archives a wallet: it is not followed any more, and takes nothing. Refused while it has
    /// coins, live transactions in no block or leases that are not allowed by name. Archiving it
    /// again changes nothing.
    pub fn archive_wallet(
        &self,
        wallet: WalletId,
        allow: &[ArchiveBlocker],
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet_even_archived(wallet, now, |session| {
            if session.is_archived {
                return Ok(());
            }
            let key = session.id();
            let lease_now = Value::from(session.lease_now()?.get());
            let facts = ArchiveFacts {
                coins: session.count(WALLET_COINS, &[key])?,
                unconfirmed: session.count(WALLET_UNCONFIRMED, &[key])?,
                leases: session.count(WALLET_LEASES, &[key, lease_now])?,
            };
            check_archive(facts, allow)?;
            let unseen = rows::height_value(session.next_height());
            session.tx.execute(ARCHIVE_WALLET, &[key, Value::from(now.get()), unseen])?;
            Ok(())
        })
    }

    /// Takes a wallet out of the archive. Returns the first block that has to be scanned for it, if
    /// the ledger has passed any meanwhile.
    pub fn restore_wallet(
        &self,
        wallet: WalletId,
        now: Micros,
    ) -> Result<Option<Height>, LedgerError> {
        self.write_wallet_even_archived(wallet, now, |session| {
            if !session.is_archived {
                return Ok(None);
            }
            let key = session.id();
            let unseen =
                session.tx.query_one(SELECT_WALLET_UNSEEN, &[key], |row| rows::height(row, 0))?;
            let nothing = Value::from(None::<i64>);
            session.tx.execute(ARCHIVE_WALLET, &[key, nothing, nothing])?;
            session.look_at_unseen(unseen)
        })
    }

    /// Archives a keychain: its scripts are not watched any more, and it hands out no address.
    /// Refused while it has coins, live transactions in no block or leases that are not allowed by
    /// name.
    pub fn archive_descriptor(
        &self,
        wallet: WalletId,
        descriptor: i64,
        allow: &[ArchiveBlocker],
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet(wallet, now, |session| {
            if session.descriptor(descriptor)?.archived_at.is_some() {
                return Ok(());
            }
            let (wallet, id) = (session.id(), Value::from(descriptor));
            let lease_now = Value::from(session.lease_now()?.get());
            let facts = ArchiveFacts {
                coins: session.count(KEYCHAIN_COINS, &[wallet, id])?,
                unconfirmed: session.count(KEYCHAIN_UNCONFIRMED, &[wallet, id])?,
                leases: session.count(KEYCHAIN_LEASES, &[wallet, lease_now, id])?,
            };
            check_archive(facts, allow)?;
            let unseen = rows::height_value(session.next_height());
            session.tx.execute(ARCHIVE_KEYCHAIN, &[wallet, id, Value::from(now.get()), unseen])?;
            session.tx.execute(FORGET_SCRIPTS, &[wallet, id])?;
            Ok(())
        })
    }

    /// Takes a keychain out of the archive. Returns the first block that has to be scanned for it,
    /// if the ledger has passed any meanwhile.
    pub fn restore_descriptor(
        &self,
        wallet: WalletId,
        descriptor: i64,
        now: Micros,
    ) -> Result<Option<Height>, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            if session.descriptor(descriptor)?.archived_at.is_none() {
                return Ok(None);
            }
            let key = [session.id(), Value::from(descriptor)];
            let unseen =
                session.tx.query_one(SELECT_KEYCHAIN_UNSEEN, &key, |row| rows::height(row, 0))?;
            let nothing = Value::from(None::<i64>);
            session.tx.execute(ARCHIVE_KEYCHAIN, &[key[0], key[1], nothing, nothing])?;
            session.tx.execute(WATCH_SCRIPTS, &key)?;
            // Scripts that were added by hand too may have been paid meanwhile.
            let used = session.tx.query_one(SELECT_HIGHEST_USED, &key, |row| row.opt_int(0))?;
            let used = used.and_then(|index| u32::try_from(index).ok());
            let mut keychain = session.descriptor(descriptor)?;
            if let Some(index) = used.filter(|index| *index >= keychain.next_index) {
                session.derive_ahead(self.codec()?, &mut keychain, index + 1)?;
            }
            session.look_at_unseen(unseen)
        })
    }
}

impl Session<'_, '_> {
    fn count(&mut self, statement: &str, key: &[Value<'_>]) -> Result<u64, SqlError> {
        self.tx.query_one(statement, key, |row| rows::sum(row, 0))
    }

    /// The last block that an archived wallet has looked at.
    pub(crate) fn archived_height(&mut self) -> Result<Option<Height>, SqlError> {
        if !self.is_archived {
            return Ok(None);
        }
        let key = [self.id()];
        let unseen = self.tx.query_one(SELECT_WALLET_UNSEEN, &key, |row| rows::height(row, 0))?;
        Ok(unseen.and_then(Height::parent))
    }

    /// The first block that is not looked at from now on; `None` before the first of the ledger.
    fn next_height(&self) -> Option<Height> {
        self.tip_height().map(|tip| tip.plus(1))
    }

    /// Asks for a rescan of blocks that were not looked at, and answers where it begins. Whoever
    /// restores may forget what was said, and without those blocks a balance is wrong, so nothing is
    /// paid until then.
    fn look_at_unseen(&mut self, unseen: Option<Height>) -> Result<Option<Height>, LedgerError> {
        let from = self.unseen(unseen)?;
        if let Some(from) = from {
            self.rescan_restored(from)?;
        }
        Ok(from)
    }

    /// From where to scan when blocks from `unseen` on were not looked at, or none at all.
    fn unseen(&mut self, unseen: Option<Height>) -> Result<Option<Height>, SqlError> {
        match unseen {
            None => self.scan_from(),
            Some(unseen) => Ok(self.tip_height().filter(|tip| unseen <= *tip).map(|_| unseen)),
        }
    }
}

/// Blocks from `height` on leave the chain: what comes in their place was not looked at either.
pub(crate) fn rewind(tx: &mut Transaction<'_>, chain: i64, height: Height) -> Result<(), SqlError> {
    let key = [Value::from(chain), Value::from(height.get())];
    tx.execute(REWIND_WALLETS, &key)?;
    tx.execute(REWIND_KEYCHAINS, &key)?;
    Ok(())
}
