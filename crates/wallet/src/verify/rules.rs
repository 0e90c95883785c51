//! Rules that are one query each: how many rows break them, and the smallest number among those.

/// What the number of a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Output,
    Transaction,
    Address,
    Keychain,
    Block,
    Wallet,
}

/// A rule that rows of a wallet must keep.
pub(super) struct Rule {
    pub(super) text: &'static str,
    pub(super) remedy: &'static str,
    pub(super) subject: Subject,
    /// Counts the rows that break it, and finds the smallest number among them.
    pub(super) query: &'static str,
}

pub(super) const RESCAN: &str = "take a copy of the ledger, then scan the wallet again from below \
    the block of the first row (wallet scan); if it stays, restore the ledger from a copy";
pub(super) const RESTORE: &str = "somebody changed the database by hand, or it is damaged: restore \
    the ledger from a copy, then let it follow the chain again";
const FREE_LEASE: &str = "end the lease with its owner (wallet lease release), and take it anew";
const TAKE_BACK: &str = "somebody claimed what no chain can have: take the claim back (wallet \
    unconfirm), or scan the wallet again from below its block";
pub(super) const FOLLOW_AGAIN: &str = "roll the ledger back to below this height (wallet disconnect) and let \
    it follow the chain again";

/// Rules about coins, inputs, addresses and followed blocks. Those about rows that are missing are in
/// `keys`, those about ended transactions in `fates`, those about places and progress in `places`.
pub(super) const RULES: &[Rule] = &[
    Rule {
        text: "an output is spent by a live transaction that holds its inputs",
        remedy: RESCAN,
        subject: Subject::Output,
        query: "SELECT COUNT(*), MIN(u.id) FROM utxos u
            JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
            WHERE u.wallet_id = $1 AND (s.status > 1 OR s.is_waiting = 1)",
    },
    Rule {
        text: "the input that spends an output names that output",
        remedy: RESCAN,
        subject: Subject::Output,
        query: "SELECT COUNT(*), MIN(u.id) FROM utxos u
            JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
            JOIN tx_inputs i ON i.wallet_id = u.wallet_id AND i.tx_id = u.spent_by_tx_id
                AND i.input_index = u.spent_input_index
            WHERE u.wallet_id = $1 AND (i.prev_txid <> t.txid OR i.prev_index <> u.output_index)",
    },
    Rule {
        text: "an output that a live transaction holds is marked as spent by it",
        remedy: RESCAN,
        subject: Subject::Output,
        query: "SELECT COUNT(*), MIN(u.id) FROM utxos u
            JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
            JOIN tx_inputs i ON i.prev_txid = t.txid AND i.prev_index = u.output_index
                AND i.wallet_id = u.wallet_id AND i.claim = 1
            WHERE u.wallet_id = $1 AND (u.spent_by_tx_id IS NULL OR u.spent_by_tx_id <> i.tx_id)",
    },
    Rule {
        text: "class, height and coinbase flag of an output are those of its transaction",
        remedy: RESCAN,
        subject: Subject::Output,
        query: "SELECT COUNT(*), MIN(u.id) FROM utxos u
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
    },
    Rule {
        text: "inputs are held by live transactions, and wait with those that wait",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(i.tx_id) FROM tx_inputs i
            JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
            WHERE i.wallet_id = $1 AND i.claim <> CASE
                WHEN t.status > 1 THEN 0 WHEN t.is_waiting = 1 THEN 2 ELSE 1 END",
    },
    Rule {
        text: "a live transaction spends from live transactions only",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(i.tx_id) FROM tx_inputs i
            JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id AND t.status <= 1
            JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
                AND p.wallet_id = i.wallet_id
            WHERE i.wallet_id = $1 AND p.status > 1",
    },
    Rule {
        text: "all inputs of a transaction are stored",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            LEFT JOIN (SELECT tx_id, COUNT(*) AS inputs FROM tx_inputs
                WHERE wallet_id = $1 GROUP BY tx_id) i ON i.tx_id = t.id
            WHERE t.wallet_id = $1 AND t.input_count <> COALESCE(i.inputs, 0)",
    },
    Rule {
        text: "the number of own inputs of a live transaction is right",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            LEFT JOIN (SELECT spent_by_tx_id, COUNT(*) AS coins FROM utxos
                WHERE wallet_id = $1 AND spent_by_tx_id IS NOT NULL
                GROUP BY spent_by_tx_id) u ON u.spent_by_tx_id = t.id
            WHERE t.wallet_id = $1 AND t.status <= 1 AND t.is_waiting = 0
                AND t.owned_input_count <> COALESCE(u.coins, 0)",
    },
    Rule {
        text: "a lease knows the block that spends its output",
        remedy: FREE_LEASE,
        subject: Subject::Output,
        query: "SELECT COUNT(*), MIN(l.utxo_id) FROM utxo_leases l
            JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
            LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
            WHERE l.wallet_id = $1 AND (COALESCE(l.spent_height, -1) <> COALESCE(s.block_height, -1)
                OR (l.hold_confirmations IS NULL AND s.block_height IS NOT NULL))",
    },
    Rule {
        text: "an address with outputs is marked as used",
        remedy: RESTORE,
        subject: Subject::Address,
        query: "SELECT COUNT(*), MIN(a.id) FROM addresses a
            WHERE a.wallet_id = $1 AND a.is_used = 0 AND EXISTS (SELECT 1 FROM utxos u
                WHERE u.wallet_id = a.wallet_id AND u.address_id = a.id)",
    },
    Rule {
        text: "all scripts of a keychain below its count are watched, and no others",
        remedy: RESTORE,
        subject: Subject::Keychain,
        query: "SELECT COUNT(*), MIN(d.id) FROM descriptors d
            LEFT JOIN (SELECT descriptor_id, COUNT(*) AS scripts, MAX(script_index) AS highest
                FROM descriptor_scripts WHERE wallet_id = $1
                GROUP BY descriptor_id) s ON s.descriptor_id = d.id
            WHERE d.wallet_id = $1
                AND (d.derived_count - d.skipped_count <> COALESCE(s.scripts, 0)
                    OR d.derived_count <= COALESCE(s.highest, -1))",
    },
    Rule {
        text: "a script of a keychain that was paid is not handed out again",
        remedy: RESTORE,
        subject: Subject::Keychain,
        query: "SELECT COUNT(*), MIN(d.id) FROM descriptors d
            JOIN descriptor_scripts s ON s.wallet_id = d.wallet_id AND s.descriptor_id = d.id
            JOIN addresses a ON a.wallet_id = s.wallet_id AND a.id = s.address_id
            WHERE d.wallet_id = $1 AND d.archived_at_us IS NULL AND a.is_used = 1
                AND s.script_index >= d.next_index",
    },
    Rule {
        text: "numbers of rows are below the next number of the wallet",
        remedy: RESTORE,
        subject: Subject::Wallet,
        query: "SELECT COUNT(*), MIN(w.id) FROM wallets w WHERE w.id = $1 AND (
                w.next_tx_id <= COALESCE((SELECT MAX(t.id) FROM transactions t
                    WHERE t.wallet_id = w.id), 0)
                OR w.next_utxo_id <= COALESCE((SELECT MAX(u.id) FROM utxos u
                    WHERE u.wallet_id = w.id), 0)
                OR w.next_address_id <= COALESCE((SELECT MAX(a.id) FROM addresses a
                    WHERE a.wallet_id = w.id), 0))",
    },
    Rule {
        text: "no transaction that spends a coinbase is in the same block",
        remedy: TAKE_BACK,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM tx_inputs i
            JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
            JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
                AND p.wallet_id = i.wallet_id
            WHERE i.wallet_id = $1 AND p.is_coinbase = 1 AND p.block_height = t.block_height",
    },
    Rule {
        text: "a transaction is not before one of its block that it spends from",
        remedy: TAKE_BACK,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM tx_inputs i
            JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
            JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
                AND p.wallet_id = i.wallet_id
            WHERE i.wallet_id = $1 AND (t.is_claimed = 1 OR p.is_claimed = 1)
                AND p.block_height = t.block_height AND t.block_position >= 0
                AND p.block_position >= t.block_position",
    },
    Rule {
        text: "only a coinbase is claimed at position 0 of a block",
        remedy: TAKE_BACK,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            JOIN chains c ON c.id = t.chain_id
            WHERE t.wallet_id = $1 AND t.is_claimed = 1 AND t.is_coinbase = 0
                AND t.block_position = 0 AND c.chain = 'bitcoin'",
    },
    Rule {
        text: "no two transactions are at one position of a block",
        remedy: TAKE_BACK,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(same.id) FROM (SELECT MAX(t.id) AS id FROM transactions t
            WHERE t.wallet_id = $1 AND t.block_position >= 0
            GROUP BY t.block_height, t.block_position HAVING COUNT(*) > 1) same",
    },
    Rule {
        text: "a transaction is not in an earlier block than one it spends from",
        remedy: TAKE_BACK,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM tx_inputs i
            JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
            JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
                AND p.wallet_id = i.wallet_id
            WHERE i.wallet_id = $1 AND p.block_height > t.block_height",
    },
    Rule {
        text: "all wallets have a transaction in the same block",
        remedy: RESCAN,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            JOIN transactions o ON o.chain_id = t.chain_id AND o.txid = t.txid
                AND o.wallet_id <> t.wallet_id
            WHERE t.wallet_id = $1 AND t.block_height <> o.block_height",
    },
    Rule {
        text: "a stored block is the one that was followed",
        remedy: FOLLOW_AGAIN,
        subject: Subject::Block,
        query: "SELECT COUNT(*), MIN(b.height) FROM wallets w
            JOIN blocks b ON b.chain_id = w.chain_id
            JOIN recent_blocks r ON r.chain_id = b.chain_id AND r.height = b.height
            WHERE w.id = $1 AND b.hash <> r.hash AND EXISTS (SELECT 1 FROM transactions t
                WHERE t.wallet_id = $1 AND t.block_height = b.height)",
    },
    Rule {
        text: "the tip is the block that is stored and remembered at its height",
        remedy: FOLLOW_AGAIN,
        subject: Subject::Block,
        query: "SELECT COUNT(*), MIN(c.tip_height) FROM wallets w
            JOIN chains c ON c.id = w.chain_id
            LEFT JOIN blocks b ON b.chain_id = c.id AND b.height = c.tip_height
            LEFT JOIN recent_blocks r ON r.chain_id = c.id AND r.height = c.tip_height
            WHERE w.id = $1 AND (b.hash <> c.tip_hash OR r.hash <> c.tip_hash)",
    },
    Rule {
        text: "no block that is remembered lies above the tip",
        remedy: FOLLOW_AGAIN,
        subject: Subject::Block,
        query: "SELECT COUNT(*), MIN(r.height) FROM wallets w
            JOIN chains c ON c.id = w.chain_id
            JOIN recent_blocks r ON r.chain_id = c.id
            WHERE w.id = $1 AND r.height > COALESCE(c.tip_height, -1)",
    },
    Rule {
        text: "the blocks below the tip are remembered without a gap, the tip among them",
        remedy: FOLLOW_AGAIN,
        subject: Subject::Block,
        query: "SELECT COUNT(*), MIN(c.tip_height) FROM wallets w
            JOIN chains c ON c.id = w.chain_id
            LEFT JOIN (SELECT chain_id, COUNT(*) AS kept, MIN(height) AS lowest,
                MAX(height) AS highest FROM recent_blocks GROUP BY chain_id) r
                ON r.chain_id = c.id
            WHERE w.id = $1 AND c.tip_height IS NOT NULL
                AND (r.highest <> c.tip_height OR r.kept <> r.highest - r.lowest + 1
                    OR (r.kept IS NULL AND NOT EXISTS (SELECT 1 FROM blocks b
                        WHERE b.chain_id = c.id AND b.height = c.tip_height
                            AND b.is_claimed = 0)))",
    },
    Rule {
        text: "a remembered block has the time that is stored with its transactions",
        remedy: FOLLOW_AGAIN,
        subject: Subject::Block,
        query: "SELECT COUNT(*), MIN(b.height) FROM wallets w
            JOIN blocks b ON b.chain_id = w.chain_id
            JOIN recent_blocks r ON r.chain_id = b.chain_id AND r.height = b.height
                AND r.hash = b.hash
            WHERE w.id = $1 AND b.time_us <> r.time_us",
    },
    Rule {
        text: "every address belongs to a keychain or was added by hand",
        remedy: RESTORE,
        subject: Subject::Address,
        query: "SELECT COUNT(*), MIN(a.id) FROM addresses a
            WHERE a.wallet_id = $1 AND a.is_imported = 0 AND NOT EXISTS (SELECT 1
                FROM descriptor_scripts s
                WHERE s.wallet_id = a.wallet_id AND s.address_id = a.id)",
    },
    Rule {
        text: "an address is watched exactly while its keychain is followed or somebody added it",
        remedy: RESTORE,
        subject: Subject::Address,
        query: "SELECT COUNT(*), MIN(a.id) FROM addresses a
            LEFT JOIN (SELECT DISTINCT s.address_id FROM descriptor_scripts s
                JOIN descriptors d ON d.wallet_id = s.wallet_id AND d.id = s.descriptor_id
                WHERE s.wallet_id = $1 AND d.archived_at_us IS NULL) f ON f.address_id = a.id
            WHERE a.wallet_id = $1 AND a.is_archived <> CASE
                WHEN a.is_imported = 1 OR f.address_id IS NOT NULL THEN 0 ELSE 1 END",
    },
    Rule {
        text: "a keychain watches as far ahead as its lookahead says",
        remedy: RESTORE,
        subject: Subject::Keychain,
        query: "SELECT COUNT(*), MIN(d.id) FROM descriptors d
            WHERE d.wallet_id = $1 AND d.derived_count <> CASE WHEN d.is_ranged = 0 THEN 1
                WHEN d.next_index + d.lookahead > 2147483648 THEN 2147483648
                ELSE d.next_index + d.lookahead END",
    },
    Rule {
        text: "only what is archived has blocks that were not looked at, none above the next",
        remedy: RESTORE,
        subject: Subject::Wallet,
        query: "SELECT COUNT(*), MIN(w.id) FROM wallets w
            JOIN chains c ON c.id = w.chain_id
            LEFT JOIN descriptors d ON d.wallet_id = w.id
            WHERE w.id = $1 AND (
                (w.archived_at_us IS NULL AND w.unseen_from_height IS NOT NULL)
                OR (d.archived_at_us IS NULL AND d.unseen_from_height IS NOT NULL)
                OR w.unseen_from_height > COALESCE(c.tip_height, -1) + 1
                OR d.unseen_from_height > COALESCE(c.tip_height, -1) + 1)",
    },
    Rule {
        text: "a transaction belongs to the chain of its wallet",
        remedy: RESTORE,
        subject: Subject::Transaction,
        query: "SELECT COUNT(*), MIN(t.id) FROM transactions t
            JOIN wallets w ON w.id = t.wallet_id
            WHERE t.wallet_id = $1 AND t.chain_id <> w.chain_id",
    },
    Rule {
        text: "blocks that the wallet was pruned from are a range below the tip",
        remedy: RESTORE,
        subject: Subject::Wallet,
        query: "SELECT COUNT(*), MIN(w.id) FROM wallets w JOIN chains c ON c.id = w.chain_id
            WHERE w.id = $1 AND (w.pruned_to_height > c.tip_height
                OR (w.pruned_from_height IS NULL) <> (w.pruned_to_height IS NULL)
                OR w.pruned_from_height > w.pruned_to_height)",
    },
];
