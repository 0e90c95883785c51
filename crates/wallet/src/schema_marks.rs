//! Marks of single coins, birthdays of wallets, and trust that looks at ancestors.

/// The step that brings them.
pub(crate) const VERSION: u32 = 3;

pub(crate) const UP: &str = "
CREATE TABLE utxo_marks (
    wallet_id BIGINT NOT NULL,
    utxo_id BIGINT NOT NULL,
    is_unspendable SMALLINT NOT NULL,
    script {bytes},
    CONSTRAINT utxo_marks_key PRIMARY KEY (wallet_id, utxo_id),
    CONSTRAINT utxo_marks_utxo FOREIGN KEY (wallet_id, utxo_id)
        REFERENCES utxos (wallet_id, id) ON DELETE CASCADE,
    CONSTRAINT utxo_marks_is_unspendable CHECK (is_unspendable IN (0, 1)),
    CONSTRAINT utxo_marks_not_empty CHECK (is_unspendable = 1 OR script IS NOT NULL),
    CONSTRAINT utxo_marks_script CHECK (script IS NULL OR length(script) BETWEEN 1 AND 1000)
) {without_rowid};
CREATE INDEX labels_unspendable ON labels (wallet_id, ref) WHERE spendable = 0;
ALTER TABLE wallets ADD COLUMN birthday_height BIGINT;
ALTER TABLE descriptors ADD COLUMN skipped_count BIGINT NOT NULL DEFAULT 0;

WITH RECURSIVE doubtful (wallet_id, tx_id) AS (
    SELECT u.wallet_id, u.spent_by_tx_id FROM utxos u
    WHERE u.spent_by_tx_id IS NOT NULL AND u.parent_class < 3
    UNION
    SELECT u.wallet_id, u.spent_by_tx_id FROM doubtful d
    JOIN utxos u ON u.wallet_id = d.wallet_id AND u.tx_id = d.tx_id
    WHERE u.spent_by_tx_id IS NOT NULL AND u.parent_class < 4
)
UPDATE utxos SET parent_class = 2
WHERE parent_class = 3 AND (wallet_id, tx_id) IN (SELECT wallet_id, tx_id FROM doubtful);
";

pub(crate) const DOWN: &str = "
ALTER TABLE descriptors DROP COLUMN skipped_count;
ALTER TABLE wallets DROP COLUMN birthday_height;
DROP INDEX labels_unspendable;
DROP TABLE utxo_marks;
";
