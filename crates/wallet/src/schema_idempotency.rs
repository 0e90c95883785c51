//! Answers to requests that may be sent twice.

pub(crate) const UP: &str = "
CREATE TABLE idempotency_keys (
    wallet_id BIGINT NOT NULL,
    request_key TEXT NOT NULL,
    request_digest {bytes} NOT NULL,
    answer TEXT NOT NULL,
    created_at_us BIGINT NOT NULL,
    CONSTRAINT idempotency_keys_key PRIMARY KEY (wallet_id, request_key),
    CONSTRAINT idempotency_keys_wallet FOREIGN KEY (wallet_id)
        REFERENCES wallets (id) ON DELETE CASCADE,
    CONSTRAINT idempotency_keys_request_key CHECK (length(request_key) BETWEEN 1 AND 200),
    CONSTRAINT idempotency_keys_digest CHECK (length(request_digest) = 32)
) {without_rowid};
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at_us);
";

pub(crate) const DOWN: &str = "
DROP TABLE idempotency_keys;
";
