//! Migration 17: what this ledger gave to a node, so that it can be given again.

pub(crate) const UP: &str = "
ALTER TABLE transactions ADD COLUMN sent_at_us BIGINT;
CREATE INDEX transactions_sent ON transactions (wallet_id, id)
    WHERE sent_at_us IS NOT NULL AND block_height IS NULL;
";

pub(crate) const DOWN: &str = "
DROP INDEX transactions_sent;
ALTER TABLE transactions DROP COLUMN sent_at_us;
";
