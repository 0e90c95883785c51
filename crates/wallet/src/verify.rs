//! Checks of what the database cannot hold itself: every rule is a query that must find nothing.

use utxokeep_core::wallet::WalletId;
use utxokeep_sql::Dialect;

use crate::{Ledger, LedgerError, rows};

/// Every rule reads all rows of the wallet. Without fresh statistics the planner would expect few
/// and look each one up.
const WHOLE_TABLES: &str = "SET LOCAL enable_nestloop = off";

/// A rule that rows of a wallet break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// How many rows break it.
    pub rows: u64,
    /// The smallest number among them: of a transaction or an output, as the rule says.
    pub first_id: i64,
}

/// Rules and the query that finds what breaks them: how many rows, and the smallest number.
const RULES: &[(&str, &str)] = &[
    (
        "an output is spent by a live transaction that holds its inputs",
        "SELECT COUNT(*), MIN(u.id) FROM utxos u
         JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
         WHERE u.wallet_id = $1 AND (s.status > 1 OR s.is_waiting = 1)",
    ),
    (
        "the input that spends an output names that output",
        "SELECT COUNT(*), MIN(u.id) FROM utxos u
         JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
         JOIN tx_inputs i ON i.wallet_id = u.wallet_id AND i.tx_id = u.spent_by_tx_id
             AND i.input_index = u.spent_input_index
         WHERE u.wallet_id = $1 AND (i.prev_txid <> t.txid OR i.prev_index <> u.output_index)",
    ),
    (
        "an output that a live transaction holds is marked as spent by it",
        "SELECT COUNT(*), MIN(u.id) FROM utxos u
         JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
         JOIN tx_inputs i ON i.prev_txid = t.txid AND i.prev_index = u.output_index
             AND i.wallet_id = u.wallet_id AND i.claim = 1
         WHERE u.wallet_id = $1 AND (u.spent_by_tx_id IS NULL OR u.spent_by_tx_id <> i.tx_id)",
    ),
    (
        "class, height and coinbase flag of an output are those of its transaction",
        "SELECT COUNT(*), MIN(u.id) FROM utxos u
         JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
         LEFT JOIN (SELECT DISTINCT spent_by_tx_id AS tx_id FROM utxos
             WHERE wallet_id = $1 AND spent_by_tx_id IS NOT NULL
                 AND parent_class < 3) d ON d.tx_id = t.id
         WHERE u.wallet_id = $1 AND (u.parent_coinbase <> t.is_coinbase
             OR COALESCE(u.parent_height, -1) <> COALESCE(t.block_height, -1)
             OR u.parent_class <> CASE
                 WHEN t.status > 1 OR t.is_waiting = 1 THEN 0
                 WHEN t.status = 0 THEN 1
                 WHEN t.block_height IS NOT NULL THEN 4
                 WHEN t.input_count = t.owned_input_count AND d.tx_id IS NULL THEN 3
                 ELSE 2 END)",
    ),
    (
        "inputs are held by live transactions, and wait with those that wait",
        "SELECT COUNT(*), MIN(i.tx_id) FROM tx_inputs i
         JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
         WHERE i.wallet_id = $1 AND i.claim <> CASE
             WHEN t.status > 1 THEN 0 WHEN t.is_waiting = 1 THEN 2 ELSE 1 END",
    ),
    (
        "a live transaction spends from live transactions only",
        "SELECT COUNT(*), MIN(i.tx_id) FROM tx_inputs i
         JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id AND t.status <= 1
         JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
             AND p.wallet_id = i.wallet_id
         WHERE i.wallet_id = $1 AND p.status > 1",
    ),
    (
        "all inputs of a transaction are stored",
        "SELECT COUNT(*), MIN(t.id) FROM transactions t
         LEFT JOIN (SELECT tx_id, COUNT(*) AS inputs FROM tx_inputs
             WHERE wallet_id = $1 GROUP BY tx_id) i ON i.tx_id = t.id
         WHERE t.wallet_id = $1 AND t.input_count <> COALESCE(i.inputs, 0)",
    ),
    (
        "the number of own inputs of a live transaction is right",
        "SELECT COUNT(*), MIN(t.id) FROM transactions t
         LEFT JOIN (SELECT spent_by_tx_id, COUNT(*) AS coins FROM utxos
             WHERE wallet_id = $1 AND spent_by_tx_id IS NOT NULL
             GROUP BY spent_by_tx_id) u ON u.spent_by_tx_id = t.id
         WHERE t.wallet_id = $1 AND t.status <= 1 AND t.is_waiting = 0
             AND t.owned_input_count <> COALESCE(u.coins, 0)",
    ),
    (
        "a replaced transaction names what replaced it",
        "SELECT COUNT(*), MIN(t.id) FROM transactions t
         WHERE t.wallet_id = $1 AND t.status = 2 AND NOT EXISTS (SELECT 1 FROM tx_replacements r
             WHERE r.wallet_id = t.wallet_id AND r.replaced_tx_id = t.id)",
    ),
    (
        "a lease knows the block that spends its output",
        "SELECT COUNT(*), MIN(l.utxo_id) FROM utxo_leases l
         JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
         LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
         WHERE l.wallet_id = $1 AND (COALESCE(l.spent_height, -1) <> COALESCE(s.block_height, -1)
             OR (l.hold_confirmations IS NULL AND s.block_height IS NOT NULL))",
    ),
    (
        "an address with outputs is marked as used",
        "SELECT COUNT(*), MIN(a.id) FROM addresses a
         WHERE a.wallet_id = $1 AND a.is_used = 0 AND EXISTS (SELECT 1 FROM utxos u
             WHERE u.wallet_id = a.wallet_id AND u.address_id = a.id)",
    ),
    (
        "all scripts of a keychain below its count are watched, and no others",
        "SELECT COUNT(*), MIN(d.id) FROM descriptors d
         LEFT JOIN (SELECT descriptor_id, COUNT(*) AS scripts, MAX(script_index) AS highest
             FROM descriptor_scripts WHERE wallet_id = $1
             GROUP BY descriptor_id) s ON s.descriptor_id = d.id
         WHERE d.wallet_id = $1
             AND (d.derived_count - d.skipped_count <> COALESCE(s.scripts, 0)
                 OR d.derived_count <= COALESCE(s.highest, -1))",
    ),
    (
        "a script of a keychain that was paid is not handed out again",
        "SELECT COUNT(*), MIN(d.id) FROM descriptors d
         JOIN descriptor_scripts s ON s.wallet_id = d.wallet_id AND s.descriptor_id = d.id
         JOIN addresses a ON a.wallet_id = s.wallet_id AND a.id = s.address_id
         WHERE d.wallet_id = $1 AND a.is_used = 1 AND s.script_index >= d.next_index",
    ),
    (
        "numbers of rows are below the next number of the wallet",
        "SELECT COUNT(*), MIN(w.id) FROM wallets w WHERE w.id = $1 AND (
             w.next_tx_id <= COALESCE((SELECT MAX(t.id) FROM transactions t
                 WHERE t.wallet_id = w.id), 0)
             OR w.next_utxo_id <= COALESCE((SELECT MAX(u.id) FROM utxos u
                 WHERE u.wallet_id = w.id), 0)
             OR w.next_address_id <= COALESCE((SELECT MAX(a.id) FROM addresses a
                 WHERE a.wallet_id = w.id), 0))",
    ),
];

impl Ledger {
    /// Checks every rule on a wallet, on one snapshot. An empty answer is good news.
    pub fn verify(&self, wallet: WalletId) -> Result<Vec<Violation>, LedgerError> {
        self.read_wallet(wallet, |session| {
            if session.tx.dialect() == Dialect::Postgres {
                session.tx.execute(WHOLE_TABLES, &[])?;
            }
            let mut violations = Vec::new();
            for (rule, query) in RULES {
                let key = [session.id()];
                let found = session
                    .tx
                    .query_one(query, &key, |row| Ok((rows::sum(row, 0)?, row.opt_int(1)?)))?;
                if let (rows @ 1.., Some(first_id)) = found {
                    violations.push(Violation { rule, rows, first_id });
                }
            }
            // Labels name outputs by text, so that this rule is no query.
            if let (rows @ 1.., Some(first_id)) = session.wrong_marks()? {
                let rule = "a coin is held back exactly while a label says so";
                violations.push(Violation { rule, rows, first_id });
            }
            Ok(violations)
        })
    }
}
