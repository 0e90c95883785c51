//! Rules about wallet events: one query each.

use super::rules::{RESTORE, Rule, Subject};

const READ_ANEW: &str = "a program changed the ledger without telling of it: stop programs of \
    other versions, let readers of events read the state of the wallet anew, and report this";

pub(super) const OUTBOX: &[Rule] = &[
    Rule {
        text: "wallet events are numbered without a gap, from the oldest kept to the newest",
        remedy: RESTORE,
        subject: Subject::Wallet,
        query: "SELECT COUNT(*), MIN(w.id) FROM wallets w
            LEFT JOIN (SELECT wallet_id, COUNT(*) AS kept, MIN(id) AS lowest, MAX(id) AS highest
                FROM wallet_events WHERE wallet_id = $1 GROUP BY wallet_id) e
                ON e.wallet_id = w.id
            WHERE w.id = $1 AND (COALESCE(e.kept, 0) <> w.next_event_id - w.first_event_id
                OR COALESCE(e.lowest, w.first_event_id) <> w.first_event_id
                OR COALESCE(e.highest, w.next_event_id - 1) <> w.next_event_id - 1)",
    },
    Rule {
        text: "the newest event of a transaction tells its state",
        remedy: READ_ANEW,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            JOIN (SELECT txid, MAX(id) AS newest FROM wallet_events
                WHERE wallet_id = $1 AND kind <> 8 GROUP BY txid) n ON n.txid = t.txid
            JOIN wallet_events e ON e.wallet_id = t.wallet_id AND e.id = n.newest
            WHERE t.wallet_id = $1 AND (COALESCE(e.tx_status, -1) <> t.status
                OR COALESCE(t.block_height, -1) <> CASE WHEN e.kind = 3 THEN e.block_height
                    ELSE -1 END)",
    },
    Rule {
        text: "a transaction has an event, unless it is older than events or they were forgotten",
        remedy: READ_ANEW,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            JOIN wallets w ON w.id = t.wallet_id AND w.first_event_id = 1
            WHERE t.wallet_id = $1 AND t.id >= w.events_from_tx_id
                AND t.txid NOT IN (SELECT e.txid FROM wallet_events e WHERE e.wallet_id = $1)",
    },
    Rule {
        text: "a depth is told of transactions in a block only, and as the newest event says",
        remedy: READ_ANEW,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            LEFT JOIN (SELECT txid, MAX(id) AS newest FROM wallet_events
                WHERE wallet_id = $1 AND kind = 3 GROUP BY txid) n ON n.txid = t.txid
            LEFT JOIN wallet_events e ON e.wallet_id = t.wallet_id AND e.id = n.newest
            WHERE t.wallet_id = $1 AND ((t.told_depth > 0 AND t.block_height IS NULL)
                OR (t.block_height IS NOT NULL AND e.block_height = t.block_height
                    AND e.confirmations <> t.told_depth))",
    },
    Rule {
        text: "a webhook waits for an event of its wallet",
        remedy: "remove the webhook and add it again",
        subject: Subject::Wallet,
        query: "SELECT COUNT(*), MIN(h.wallet_id) FROM wallet_webhooks h
            JOIN wallets w ON w.id = h.wallet_id
            WHERE h.wallet_id = $1 AND (h.next_event_id > w.next_event_id
                OR h.id >= w.next_webhook_id)",
    },
];
