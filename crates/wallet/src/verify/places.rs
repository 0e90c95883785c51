//! Rules about blocks and places in them, and about how far wallets have come: one query each.

use super::rules::{FOLLOW_AGAIN, RESCAN, RESTORE, Rule, Subject};

const ASK_AGAIN: &str = "ask for the rescan again (wallet scan), from below the block of the \
    oldest payment that may be missing";

pub(super) const PLACES: &[Rule] = &[
    Rule {
        text: "a transaction that a block brought has a position in it",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            WHERE t.wallet_id = $1 AND t.is_claimed = 0 AND t.block_position < 0",
    },
    Rule {
        text: "a block that brought transactions was followed, and is not only claimed",
        remedy: FOLLOW_AGAIN,
        subject: Subject::Block,
        query: "SELECT COUNT(*), MIN(b.height) FROM transactions t
            JOIN blocks b ON b.chain_id = t.chain_id AND b.height = t.block_height
            LEFT JOIN wallet_rescans r ON r.wallet_id = t.wallet_id
            WHERE t.wallet_id = $1 AND t.is_claimed = 0 AND b.is_claimed = 1
                AND r.failed_height IS NULL",
    },
    Rule {
        text: "no transaction that a block brought lies above the tip",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            JOIN chains c ON c.id = t.chain_id
            LEFT JOIN wallet_rescans r ON r.wallet_id = t.wallet_id
            WHERE t.wallet_id = $1 AND t.is_claimed = 0 AND r.failed_height IS NULL
                AND t.block_height > COALESCE(c.tip_height, -1)",
    },
    Rule {
        text: "only a coinbase was in an earlier block, which is stored",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            LEFT JOIN blocks b ON b.chain_id = t.chain_id AND b.height = t.earlier_height
            WHERE t.wallet_id = $1 AND (t.earlier_height IS NOT NULL
                    OR t.earlier_position IS NOT NULL)
                AND (t.is_coinbase = 0 OR b.height IS NULL OR t.earlier_position IS NULL
                    OR t.earlier_height >= COALESCE(t.block_height, 0))",
    },
    Rule {
        text: "nothing was paid to a wallet below its birthday",
        remedy: RESTORE,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            JOIN wallets w ON w.id = t.wallet_id
            WHERE t.wallet_id = $1 AND t.block_height < w.birthday_height",
    },
    Rule {
        text: "no block is remembered from below the first that was followed",
        remedy: RESTORE,
        subject: Subject::Block,
        query: "SELECT COUNT(*), MIN(r.height) FROM wallets w
            JOIN chains c ON c.id = w.chain_id
            JOIN recent_blocks r ON r.chain_id = c.id
            WHERE w.id = $1 AND r.height < c.first_height",
    },
    Rule {
        text: "a wallet lacks only blocks that the ledger has passed",
        remedy: ASK_AGAIN,
        subject: Subject::Wallet,
        query: "SELECT COUNT(*), MIN(w.id) FROM wallets w
            JOIN chains c ON c.id = w.chain_id
            JOIN wallet_rescans r ON r.wallet_id = w.id
            WHERE w.id = $1 AND (r.failed_height < r.from_height
                OR (r.next_height > 0 AND r.next_height > COALESCE(c.tip_height, -1)))",
    },
    Rule {
        text: "the edge that payments of a keychain reached lies below its next index",
        remedy: RESTORE,
        subject: Subject::Keychain,
        query: "SELECT COUNT(*), MIN(d.id) FROM descriptors d
            LEFT JOIN descriptor_scripts s ON s.wallet_id = d.wallet_id
                AND s.descriptor_id = d.id AND s.script_index = d.edge_index
            WHERE d.wallet_id = $1 AND d.edge_index IS NOT NULL
                AND (d.edge_index >= d.next_index OR s.script_index IS NULL)",
    },
];
