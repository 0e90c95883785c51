//! Rules about transactions that ended, or wait, and about what was pruned: one query each.

use super::rules::{RESCAN, RESTORE, Rule, Subject};

const MAKE_AGAIN: &str = "it can never be published: give it up (wallet abandon) and make it \
    again, or restore the ledger from a copy";

pub(super) const FATES: &[Rule] = &[
    Rule {
        text: "a transaction whose inputs were taken names the one that took them",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            LEFT JOIN tx_replacements r ON r.wallet_id = t.wallet_id AND r.replaced_tx_id = t.id
                AND r.replacement_tx_id = t.invalidated_by_tx_id
            WHERE t.wallet_id = $1 AND t.invalid_reason IN (1, 2) AND r.wallet_id IS NULL",
    },
    Rule {
        text: "a replacement spends an output that the replaced transaction spends",
        remedy: RESTORE,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(r.replacement_tx_id) FROM tx_replacements r
            WHERE r.wallet_id = $1 AND NOT EXISTS (SELECT 1 FROM tx_inputs o
                JOIN tx_inputs n ON n.wallet_id = o.wallet_id AND n.prev_txid = o.prev_txid
                    AND n.prev_index = o.prev_index
                WHERE o.wallet_id = r.wallet_id AND o.tx_id = r.replaced_tx_id
                    AND n.tx_id = r.replacement_tx_id)",
    },
    Rule {
        text: "a replacement that waits knows what it replaces",
        remedy: MAKE_AGAIN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            WHERE t.wallet_id = $1 AND t.is_waiting = 1
                AND NOT EXISTS (SELECT 1 FROM tx_replacements r
                    WHERE r.wallet_id = t.wallet_id AND r.replacement_tx_id = t.id)
                AND EXISTS (SELECT 1 FROM tx_inputs i
                    JOIN tx_inputs h ON h.wallet_id = i.wallet_id AND h.prev_txid = i.prev_txid
                        AND h.prev_index = i.prev_index AND h.claim = 1
                    WHERE i.wallet_id = t.wallet_id AND i.tx_id = t.id)",
    },
    Rule {
        text: "only a transaction that lost its inputs or a parent names what ended it",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            WHERE t.wallet_id = $1 AND t.invalidated_by_tx_id IS NOT NULL
                AND COALESCE(t.invalid_reason, 3) = 3",
    },
    Rule {
        text: "pruned transactions are numbered without a gap, up to the last number given",
        remedy: RESTORE,
        subject: Subject::Wallet,
        query: "SELECT COUNT(*), MIN(w.id) FROM wallets w
            JOIN (SELECT wallet_id, COUNT(*) AS kept, MIN(id) AS lowest, MAX(id) AS highest
                FROM pruned_transactions WHERE wallet_id = $1 GROUP BY wallet_id) p
                ON p.wallet_id = w.id
            WHERE w.id = $1 AND (p.highest <> w.next_pruned_id - 1 OR p.lowest < 1
                OR p.kept <> p.highest - p.lowest + 1)",
    },
];
