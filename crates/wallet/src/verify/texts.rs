//! Texts that the caller gave and gets back: documents of pruned transactions and answers to
//! repeated requests. Only the caller can tell whether they are whole.

use utxokeep_core::{Txid, wallet::WalletId};
use utxokeep_sql::Value;

use super::{Findings, Violation, rules::RESTORE};
use crate::{Ledger, LedgerError, rows, session::Session};

const SELECT_DOCUMENTS: &str = "SELECT id, txid, document FROM pruned_transactions
    WHERE wallet_id = $1 AND id > $2 ORDER BY id LIMIT $3";
const SELECT_ANSWERS: &str = "SELECT request_key, answer FROM idempotency_keys
    WHERE wallet_id = $1 AND request_key > $2 ORDER BY request_key LIMIT $3";

/// Rows of a page.
const PAGE_ROWS: i64 = 500;

const DOCUMENT: &str = "the archived document of a pruned transaction can be read, and is of it";
const ANSWER: &str = "the stored answer to a request can be read";
const FORGET_KEY: &str = "a repeated request with this key cannot be answered: look in the history \
    whether it happened, and send it again with another key only if it did not";

impl Ledger {
    /// Shows every stored document and answer to the caller, and reports those that it cannot read.
    /// A document comes with the transaction that it is of.
    pub fn verify_texts(
        &self,
        wallet: WalletId,
        can_read: impl Fn(Option<Txid>, &str) -> bool,
    ) -> Result<Vec<Violation>, LedgerError> {
        self.read_wallet(wallet, |session| {
            let mut findings = Findings::default();
            session.verify_texts(&can_read, &mut findings)?;
            Ok(findings.0.into_values().collect())
        })
    }
}

impl Session<'_, '_> {
    fn verify_texts(
        &mut self,
        can_read: &dyn Fn(Option<Txid>, &str) -> bool,
        findings: &mut Findings,
    ) -> Result<(), LedgerError> {
        let mut after = 0;
        loop {
            let key = [self.id(), Value::from(after), Value::from(PAGE_ROWS)];
            let page = self.tx.query_all(SELECT_DOCUMENTS, &key, |row| {
                let txid = rows::txid(row, 1)?;
                Ok((row.int(0)?, txid, can_read(Some(txid), row.text(2)?)))
            })?;
            let Some((last, ..)) = page.last() else { break };
            after = *last;
            for (id, txid, _) in page.iter().filter(|(.., is_read)| !is_read) {
                let example = format!("transaction {}", self.tx_text(txid));
                findings.add(DOCUMENT, RESTORE, *id, example);
            }
        }
        let mut after = String::new();
        loop {
            let key = [self.id(), Value::from(&after), Value::from(PAGE_ROWS)];
            let page = self.tx.query_all(SELECT_ANSWERS, &key, |row| {
                let is_read = can_read(None, row.text(1)?);
                Ok((row.text(0)?.to_owned(), is_read))
            })?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            for (name, _) in page.iter().filter(|(_, is_read)| !is_read) {
                findings.add(ANSWER, FORGET_KEY, 0, format!("key {name}"));
            }
        }
        Ok(())
    }
}
