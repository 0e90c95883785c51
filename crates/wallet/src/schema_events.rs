//! Wallet events, numbered for each wallet, and the webhooks that they are sent to.

pub(crate) const UP: &str = "
ALTER TABLE wallets ADD COLUMN next_event_id BIGINT NOT NULL DEFAULT 1;
ALTER TABLE wallets ADD COLUMN first_event_id BIGINT NOT NULL DEFAULT 1
    CONSTRAINT wallets_events CHECK (first_event_id BETWEEN 1 AND next_event_id);
ALTER TABLE wallets ADD COLUMN events_from_tx_id BIGINT NOT NULL DEFAULT 1;
ALTER TABLE wallets ADD COLUMN next_webhook_id BIGINT NOT NULL DEFAULT 1;
UPDATE wallets SET events_from_tx_id = next_tx_id;
ALTER TABLE transactions ADD COLUMN told_depth BIGINT NOT NULL DEFAULT 0
    CONSTRAINT transactions_told_depth CHECK (told_depth >= 0);
CREATE TABLE wallet_events (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    kind SMALLINT NOT NULL,
    at_us BIGINT NOT NULL,
    txid {bytes} NOT NULL,
    tx_status SMALLINT,
    block_height BIGINT,
    block_hash {bytes},
    confirmations BIGINT,
    reason SMALLINT,
    by_txid {bytes},
    output_index BIGINT,
    lease_id {bytes},
    expired_at_us BIGINT,
    CONSTRAINT wallet_events_key PRIMARY KEY (wallet_id, id),
    CONSTRAINT wallet_events_wallet FOREIGN KEY (wallet_id)
        REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT wallet_events_id CHECK (id >= 1),
    CONSTRAINT wallet_events_kind CHECK (kind BETWEEN 1 AND 8),
    CONSTRAINT wallet_events_txid CHECK (length(txid) = 32),
    CONSTRAINT wallet_events_status CHECK (
        (kind >= 7) = (tx_status IS NULL)
        AND (tx_status IS NULL OR tx_status = CASE kind WHEN 1 THEN 0 WHEN 2 THEN 1 WHEN 3 THEN 1
            WHEN 5 THEN 2 WHEN 6 THEN 3 ELSE tx_status END)
        AND (kind <> 4 OR tx_status IN (1, 4))
    ),
    CONSTRAINT wallet_events_block CHECK (
        (kind IN (3, 4)) = (block_height IS NOT NULL)
        AND (block_hash IS NULL OR (block_height IS NOT NULL AND length(block_hash) = 32))
    ),
    CONSTRAINT wallet_events_confirmations CHECK (
        (kind = 3) = (confirmations IS NOT NULL) AND (confirmations IS NULL OR confirmations >= 1)
    ),
    CONSTRAINT wallet_events_reason CHECK (
        (kind IN (5, 6)) = (reason IS NOT NULL) AND (reason IS NULL OR reason BETWEEN 1 AND 4)
    ),
    CONSTRAINT wallet_events_by CHECK (
        by_txid IS NULL OR (reason IS NOT NULL AND length(by_txid) = 32)
    ),
    CONSTRAINT wallet_events_lease CHECK (
        (kind = 8) = (output_index IS NOT NULL) AND (kind = 8) = (lease_id IS NOT NULL)
        AND (kind = 8) = (expired_at_us IS NOT NULL)
        AND (lease_id IS NULL OR length(lease_id) = 32)
    )
) {without_rowid};
CREATE TABLE wallet_webhooks (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at_us BIGINT NOT NULL,
    state SMALLINT NOT NULL,
    next_event_id BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    failing_since_us BIGINT,
    next_attempt_us BIGINT NOT NULL,
    last_attempt_us BIGINT,
    last_delivered_us BIGINT,
    last_error TEXT,
    holder {bytes},
    held_until_us BIGINT,
    CONSTRAINT wallet_webhooks_key PRIMARY KEY (wallet_id, id),
    CONSTRAINT wallet_webhooks_wallet FOREIGN KEY (wallet_id)
        REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT wallet_webhooks_url CHECK (length(url) BETWEEN 1 AND 2000),
    CONSTRAINT wallet_webhooks_secret CHECK (length(secret) BETWEEN 32 AND 200),
    CONSTRAINT wallet_webhooks_state CHECK (state BETWEEN 0 AND 2),
    CONSTRAINT wallet_webhooks_next_event CHECK (next_event_id >= 1),
    CONSTRAINT wallet_webhooks_failing CHECK (
        failures >= 0 AND (failures = 0) = (failing_since_us IS NULL)
    ),
    CONSTRAINT wallet_webhooks_holder CHECK (
        (holder IS NULL) = (held_until_us IS NULL) AND (holder IS NULL OR length(holder) = 16)
    )
) {without_rowid};
";

pub(crate) const DOWN: &str = "
DROP TABLE wallet_webhooks;
DROP TABLE wallet_events;
ALTER TABLE transactions DROP COLUMN told_depth;
ALTER TABLE wallets DROP COLUMN next_webhook_id;
ALTER TABLE wallets DROP COLUMN events_from_tx_id;
ALTER TABLE wallets DROP COLUMN first_event_id;
ALTER TABLE wallets DROP COLUMN next_event_id;
";
