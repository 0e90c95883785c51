//! Wallets that lack blocks which the ledger has passed, and times of followed blocks.

pub(crate) const UP: &str = "
CREATE TABLE wallet_rescans (
    wallet_id BIGINT NOT NULL,
    from_height BIGINT NOT NULL,
    next_height BIGINT NOT NULL,
    is_requested SMALLINT NOT NULL,
    failed_height BIGINT,
    failed_hash {bytes},
    failed_reason TEXT,
    failed_at_us BIGINT,
    CONSTRAINT wallet_rescans_key PRIMARY KEY (wallet_id),
    CONSTRAINT wallet_rescans_wallet FOREIGN KEY (wallet_id)
        REFERENCES wallets (id) ON DELETE CASCADE,
    CONSTRAINT wallet_rescans_heights CHECK (from_height BETWEEN 0 AND next_height),
    CONSTRAINT wallet_rescans_is_requested CHECK (is_requested IN (0, 1)),
    CONSTRAINT wallet_rescans_has_cause CHECK (is_requested = 1 OR failed_height IS NOT NULL),
    CONSTRAINT wallet_rescans_failed_whole CHECK (
        (failed_height IS NULL) = (failed_hash IS NULL)
        AND (failed_height IS NULL) = (failed_reason IS NULL)
        AND (failed_height IS NULL) = (failed_at_us IS NULL)
    ),
    CONSTRAINT wallet_rescans_failed_hash CHECK (failed_hash IS NULL OR length(failed_hash) = 32)
) {without_rowid};
ALTER TABLE recent_blocks ADD COLUMN time_us BIGINT;
";

pub(crate) const DOWN: &str = "
ALTER TABLE recent_blocks DROP COLUMN time_us;
DROP TABLE wallet_rescans;
";
