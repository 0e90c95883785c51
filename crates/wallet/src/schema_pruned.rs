//! What was pruned, until somebody says that it was kept elsewhere.

pub(crate) const UP: &str = "
ALTER TABLE wallets ADD COLUMN next_pruned_id BIGINT NOT NULL DEFAULT 1;
CREATE TABLE pruned_transactions (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    txid {bytes} NOT NULL,
    document TEXT NOT NULL,
    CONSTRAINT pruned_transactions_key PRIMARY KEY (wallet_id, id),
    CONSTRAINT pruned_transactions_wallet FOREIGN KEY (wallet_id)
        REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT pruned_transactions_txid CHECK (length(txid) = 32)
) {without_rowid};
";

pub(crate) const DOWN: &str = "
DROP TABLE pruned_transactions;
ALTER TABLE wallets DROP COLUMN next_pruned_id;
";
