//! Checks of what the database cannot hold itself, and of what it holds only while clients let it.
//!
//! Rules over columns are queries that must find nothing. Transactions whose bytes are stored are
//! decoded and compared with their rows, page by page, and so are the scripts of keychains with
//! what their descriptors derive. Foreign keys are looked up although the engine enforces them, and
//! the schema is compared with what the migrations make: a client may have changed it.

mod bytes;
mod derived;
mod fates;
mod guards;
mod keys;
mod outbox;
mod places;
mod references;
mod rules;
mod texts;

use std::collections::BTreeMap;

use utxokeep_core::wallet::WalletId;
use utxokeep_sql::{Dialect, SqlError, Value};

use self::rules::{RESTORE, RULES, Rule, Subject};
use crate::{Ledger, LedgerError, rows, session::Session};

/// Every rule reads all rows of the wallet. Without fresh statistics the planner would expect few
/// and look each one up.
const WHOLE_TABLES: &str = "SET LOCAL enable_nestloop = off";
const SELECT_TX: &str = "SELECT txid FROM transactions WHERE wallet_id = $1 AND id = $2";
const SELECT_OUTPUT: &str = "SELECT t.txid, u.output_index FROM utxos u
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    WHERE u.wallet_id = $1 AND u.id = $2";
const COUNT_TXS: &str = "SELECT COUNT(*) FROM transactions WHERE wallet_id = $1";
/// Checks of the whole file, which SQLite has.
const FILE_CHECKS: [(&str, &str); 2] = [
    ("every foreign key of the file leads to a row", "PRAGMA foreign_key_check"),
    ("the file is well formed", "PRAGMA integrity_check(100)"),
];

/// Rows that a violation names; the others are counted.
const EXAMPLES_MAX: usize = 10;

/// A rule that rows of a wallet break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
    /// How many rows break it.
    pub rows: u64,
    /// The smallest number among them: of a transaction or an output, as the rule says.
    pub first_id: i64,
    /// The first of them, as people name them; the rest is only counted.
    pub examples: Vec<String>,
}

/// What a verification has looked at, and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Transactions of the wallet.
    pub transactions: u64,
    /// Those whose bytes were decoded and compared. The others have no bytes stored, or are of a
    /// chain whose formats the ledger was not given.
    pub decoded: u64,
    /// Scripts of keychains that were derived and compared; none without the formats of the chain.
    pub scripts: u64,
    /// Definitions of the schema that were compared with what the migrations make; none where the
    /// server does not let its user find out, which takes temporary tables on `PostgreSQL`.
    pub definitions: u64,
    /// The rules that are broken.
    pub violations: Vec<Violation>,
}

/// Violations by rule, while they are collected.
#[derive(Debug, Default)]
struct Findings(BTreeMap<&'static str, Violation>);

impl Findings {
    fn add(&mut self, rule: &'static str, remedy: &'static str, id: i64, example: String) {
        let found = self.0.entry(rule).or_insert_with(|| Violation {
            rule,
            remedy,
            rows: 0,
            first_id: id,
            examples: Vec::new(),
        });
        found.rows += 1;
        found.first_id = found.first_id.min(id);
        if found.examples.len() < EXAMPLES_MAX {
            found.examples.push(example);
        }
    }
}

impl Ledger {
    /// Checks every rule on a wallet, on one snapshot. An empty answer is good news.
    pub fn verify(&self, wallet: WalletId) -> Result<Vec<Violation>, LedgerError> {
        Ok(self.verification(wallet)?.violations)
    }

    /// Like [`Ledger::verify`], and says how much was looked at.
    pub fn verification(&self, wallet: WalletId) -> Result<Verification, LedgerError> {
        let expected = self.expected_schema()?;
        self.read_wallet(wallet, |session| {
            let mut findings = Findings::default();
            let codec = self.codec().ok().filter(|_| !session.network.is_cardano());
            let (mut decoded, mut scripts) = (0, 0);
            if let Some(codec) = codec {
                decoded = session.verify_bytes(codec, &mut findings)?;
                scripts = session.verify_scripts(codec, &mut findings)?;
                session.verify_imported(codec, &mut findings)?;
            }
            let definitions = session.verify_schema(expected, &mut findings)?;
            session.verify_owners(&mut findings)?;
            session.verify_labels(&mut findings)?;
            let transactions =
                session.tx.query_one(COUNT_TXS, &[session.id()], |row| rows::sum(row, 0))?;
            match session.tx.dialect() {
                Dialect::Sqlite => session.check_file(&mut findings)?,
                Dialect::Postgres => drop(session.tx.execute(WHOLE_TABLES, &[])?),
            }
            let mut violations = Vec::new();
            let of_keys = keys::KEYS.iter().map(|(.., rule)| rule);
            for rule in RULES
                .iter()
                .chain(fates::FATES)
                .chain(places::PLACES)
                .chain(outbox::OUTBOX)
                .chain(of_keys)
            {
                violations.extend(session.check_rule(rule)?);
            }
            // Labels name outputs by text, so that this rule is no query.
            if let (rows @ 1.., Some(first_id)) = session.wrong_marks()? {
                violations.push(Violation {
                    rule: "a coin is held back exactly while a label says so",
                    remedy: "set the label of the output again, or import the labels again",
                    rows,
                    first_id,
                    examples: vec![session.name_of(Subject::Output, first_id)?],
                });
            }
            violations.extend(findings.0.into_values());
            Ok(Verification { transactions, decoded, scripts, definitions, violations })
        })
    }
}

impl Session<'_, '_> {
    fn check_rule(&mut self, rule: &Rule) -> Result<Option<Violation>, SqlError> {
        let key = [self.id()];
        let read = |row: &utxokeep_sql::Row<'_>| Ok((rows::sum(row, 0)?, row.opt_int(1)?));
        let (rows @ 1.., Some(first_id)) = self.tx.query_one(rule.query, &key, read)? else {
            return Ok(None);
        };
        let examples = vec![self.name_of(rule.subject, first_id)?];
        let Rule { text, remedy, .. } = *rule;
        Ok(Some(Violation { rule: text, remedy, rows, first_id, examples }))
    }

    /// How people name a row, as far as it can be told.
    fn name_of(&mut self, subject: Subject, id: i64) -> Result<String, SqlError> {
        let key = [self.id(), Value::from(id)];
        let named = match subject {
            Subject::Transaction => {
                let txid = self.tx.query_opt(SELECT_TX, &key, |row| rows::txid(row, 0))?;
                txid.map(|txid| format!("transaction {}", self.tx_text(&txid)))
            }
            Subject::Output => {
                let at = self.tx.query_opt(SELECT_OUTPUT, &key, |row| rows::outpoint(row, 0))?;
                at.map(|at| format!("output {}:{}", self.tx_text(at.txid()), at.index()))
            }
            _ => None,
        };
        let kind = match subject {
            Subject::Output => "output number",
            Subject::Transaction => "transaction number",
            Subject::Address => "address",
            Subject::Keychain => "keychain",
            Subject::Block => "block",
            Subject::Wallet => "wallet",
        };
        Ok(named.unwrap_or_else(|| format!("{kind} {id}")))
    }

    /// Lets the engine check the whole file, whatever wallet its rows belong to.
    fn check_file(&mut self, findings: &mut Findings) -> Result<(), SqlError> {
        for (rule, check) in FILE_CHECKS {
            self.tx.query(check, &[], |row| {
                let what = row.opt_text(0)?.unwrap_or_default();
                if what != "ok" {
                    findings.add(rule, RESTORE, 0, what.to_owned());
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
