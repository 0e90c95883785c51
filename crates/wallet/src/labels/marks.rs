//! Coins that selection leaves alone: those that a label holds back, and those whose script is not
//! the one of their address.
//!
//! Labels name outputs by text and may come before or after them. The mark is kept beside the
//! coin, so that a selection asks for a row and reads no text.

use rustc_hash::FxHashMap;
use utxokeep_core::{
    OutPoint, Txid,
    wallet::{Micros, WalletId},
};
use utxokeep_sql::{Database, Row, SqlError, Value};

use crate::{LedgerError, Limits, session::Session};

const SELECT_ANY: &str = "SELECT 1 FROM labels WHERE wallet_id = $1 AND spendable = 0 LIMIT 1";
const SELECT_AMONG: &str =
    "SELECT ref FROM labels WHERE wallet_id = $1 AND spendable = 0 AND ref IN";
const SELECT_WISH: &str = "SELECT 1 FROM labels
    WHERE wallet_id = $1 AND kind = 'output' AND ref = $2 AND spendable = 0";
const SELECT_PAGE: &str = "SELECT ref FROM labels
    WHERE wallet_id = $1 AND spendable = 0 AND ref > $2 ORDER BY ref LIMIT $3";
const SELECT_WALLETS: &str = "SELECT DISTINCT wallet_id FROM labels WHERE spendable = 0";
const MARK_SCRIPT: &str = "INSERT INTO utxo_marks (wallet_id, utxo_id, is_unspendable, script)
    VALUES ($1, $2, 0, $3)";
const MARK: &str = "INSERT INTO utxo_marks (wallet_id, utxo_id, is_unspendable)
    VALUES ($1, $2, 1)
    ON CONFLICT (wallet_id, utxo_id) DO UPDATE SET is_unspendable = 1";
const UNMARK: &str = "DELETE FROM utxo_marks
    WHERE wallet_id = $1 AND utxo_id = $2 AND script IS NULL";
const UNMARK_KEEPING_SCRIPT: &str = "UPDATE utxo_marks SET is_unspendable = 0
    WHERE wallet_id = $1 AND utxo_id = $2";
const SELECT_MARKED: &str = "SELECT utxo_id FROM utxo_marks
    WHERE wallet_id = $1 AND is_unspendable = 1 AND utxo_id = $2";
const COUNT_MARKED: &str =
    "SELECT COUNT(*), MIN(utxo_id) FROM utxo_marks WHERE wallet_id = $1 AND is_unspendable = 1";

/// Labels that are read at once.
const PAGE_ROWS: i64 = 500;

impl Session<'_, '_> {
    /// The output that the text of a label names, in the way the chain's own tools write it.
    pub(super) fn outpoint_of(&self, text: &str) -> Option<OutPoint> {
        let (txid, index) = text.split_once(':')?;
        let txid = if self.network.is_cardano() {
            Txid::from_hex(txid)
        } else {
            Txid::from_reversed_hex(txid)
        };
        Some(OutPoint::new(txid.ok()?, index.parse().ok()?))
    }

    /// The text that names an output in labels.
    pub(super) fn output_text(&self, outpoint: &OutPoint) -> String {
        format!("{}:{}", self.tx_text(outpoint.txid()), outpoint.index())
    }

    /// Notes that the script of a coin is not the one of its address.
    pub(crate) fn mark_script(&mut self, utxo: i64, script: &[u8]) -> Result<(), SqlError> {
        let row = [self.id(), Value::from(utxo), Value::from(script)];
        self.tx.execute(MARK_SCRIPT, &row)?;
        Ok(())
    }

    /// Holds new coins back whose labels were there first.
    pub(crate) fn mark_held_back(&mut self, made: &[(OutPoint, i64)]) -> Result<(), SqlError> {
        let wallet = [self.id()];
        let any = match self.has_held_back {
            Some(known) => known,
            None => self.tx.query_opt(SELECT_ANY, &wallet, |_| Ok(()))?.is_some(),
        };
        self.has_held_back = Some(any);
        if !any {
            return Ok(());
        }
        let names: FxHashMap<String, i64> =
            made.iter().map(|(outpoint, utxo)| (self.output_text(outpoint), *utxo)).collect();
        let mut texts: Vec<&String> = names.keys().collect();
        texts.sort_unstable();
        let keys: Vec<Value<'_>> = texts.into_iter().map(Value::from).collect();
        let mut marked = Vec::new();
        self.tx.query_in(SELECT_AMONG, "", &wallet, 1, &keys, |row| {
            marked.extend(names.get(row.text(0)?).copied());
            Ok(())
        })?;
        for utxo in marked {
            self.tx.execute(MARK, &[wallet[0], Value::from(utxo)])?;
        }
        Ok(())
    }

    /// Brings the mark of an output in line with its label.
    pub(super) fn follow_label(
        &mut self,
        outpoint: Option<OutPoint>,
        reference: &str,
    ) -> Result<(), LedgerError> {
        let Some(outpoint) = outpoint else { return Ok(()) };
        self.has_held_back = None;
        let Some(utxo) = self.coin_id(&outpoint)? else { return Ok(()) };
        let wish = [self.id(), Value::from(reference)];
        let key = [self.id(), Value::from(utxo)];
        if self.tx.query_opt(SELECT_WISH, &wish, |_| Ok(()))?.is_some() {
            self.tx.execute(MARK, &key)?;
        } else {
            self.tx.execute(UNMARK, &key)?;
            self.tx.execute(UNMARK_KEEPING_SCRIPT, &key)?;
        }
        Ok(())
    }

    /// Goes through the coins that labels hold back, by label.
    fn each_held_back(
        &mut self,
        mut each: impl FnMut(&mut Self, i64) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut after = String::new();
        loop {
            let key = [self.id(), Value::from(&after), Value::from(PAGE_ROWS)];
            let page = self.tx.query_all(SELECT_PAGE, &key, |row| Ok(row.text(0)?.to_owned()))?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(last);
            for text in page {
                let outpoint = self.outpoint_of(&text);
                if let Some(utxo) = outpoint.map(|at| self.coin_id(&at)).transpose()?.flatten() {
                    each(self, utxo)?;
                }
            }
        }
    }

    /// How many coins are marked although no label says so, or not marked although one does, and
    /// the smallest number among them, as far as it is known.
    pub(crate) fn wrong_marks(&mut self) -> Result<(u64, Option<i64>), SqlError> {
        let (mut right, mut missing, mut first) = (0u64, 0u64, None);
        self.each_held_back(|session, utxo| {
            let key = [session.id(), Value::from(utxo)];
            if session.tx.query_opt(SELECT_MARKED, &key, |_| Ok(()))?.is_some() {
                right += 1;
            } else {
                missing += 1;
                first = Some(first.map_or(utxo, |first: i64| first.min(utxo)));
            }
            Ok(())
        })?;
        let read = |row: &Row<'_>| Ok((crate::rows::sum(row, 0)?, row.opt_int(1)?));
        let (marked, first_marked) = self.tx.query_one(COUNT_MARKED, &[self.id()], read)?;
        let surplus = marked.saturating_sub(right);
        let first = if surplus > 0 { first.or(first_marked) } else { first };
        Ok((surplus + missing, first))
    }
}

/// Marks the coins of all wallets whose labels are older than marks are.
pub(crate) fn mark_by_labels(database: &Database) -> Result<(), SqlError> {
    let wallets = database.read(|tx| tx.query_all(SELECT_WALLETS, &[], |row| row.int(0)))?;
    for wallet in wallets {
        let (wallet, now) = (WalletId::new(wallet), Micros::default());
        let marked = database.write(|tx| {
            let mut session = Session::lock(tx, Limits::default(), wallet, now)?;
            session.each_held_back(|session, utxo| {
                session.tx.execute(MARK, &[session.id(), Value::from(utxo)])?;
                Ok(())
            })?;
            Ok::<(), LedgerError>(())
        });
        match marked {
            Ok(()) => {}
            Err(LedgerError::Sql(error)) => return Err(error),
            Err(other) => return Err(SqlError::bad_row(other.to_string())),
        }
    }
    Ok(())
}
