//! Labels that several wallets have for one transaction, kept apart by their origin.

/// A label that is written in another case than its only name gets that name, unless it is taken.
pub(crate) const UP: &str = "
CREATE TABLE labels_by_origin (
    wallet_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    origin TEXT NOT NULL DEFAULT '',
    label TEXT NOT NULL,
    spendable SMALLINT,
    CONSTRAINT labels_one_per_origin PRIMARY KEY (wallet_id, kind, ref, origin),
    CONSTRAINT labels_wallet FOREIGN KEY (wallet_id) REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT labels_kind CHECK (kind IN ('tx', 'addr', 'pubkey', 'input', 'output', 'xpub')),
    CONSTRAINT labels_origin CHECK (length(origin) <= 1000),
    CONSTRAINT labels_spendable CHECK (
        spendable IS NULL OR (kind = 'output' AND spendable IN (0, 1))
    )
) {without_rowid};

INSERT INTO labels_by_origin (wallet_id, kind, ref, origin, label, spendable)
SELECT l.wallet_id, l.kind,
    CASE WHEN l.kind IN ('tx', 'pubkey', 'input') AND NOT EXISTS (
            SELECT 1 FROM labels o
            WHERE o.wallet_id = l.wallet_id AND o.kind = l.kind AND o.ref <> l.ref
                AND lower(o.ref) = lower(l.ref))
        THEN lower(l.ref) ELSE l.ref END,
    COALESCE(l.origin, ''), l.label, l.spendable
FROM labels l;

DROP TABLE labels;
ALTER TABLE labels_by_origin RENAME TO labels;
CREATE INDEX labels_unspendable ON labels (wallet_id, ref) WHERE spendable = 0;
";

/// Of several labels of a transaction the one without an origin stays, or the first.
pub(crate) const DOWN: &str = "
CREATE TABLE labels_by_ref (
    wallet_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    label TEXT NOT NULL,
    origin TEXT,
    spendable SMALLINT,
    CONSTRAINT labels_key PRIMARY KEY (wallet_id, kind, ref),
    CONSTRAINT labels_wallet FOREIGN KEY (wallet_id) REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT labels_kind CHECK (kind IN ('tx', 'addr', 'pubkey', 'input', 'output', 'xpub')),
    CONSTRAINT labels_label CHECK (length(label) <= 500),
    CONSTRAINT labels_spendable CHECK (
        spendable IS NULL OR (kind = 'output' AND spendable IN (0, 1))
    )
) {without_rowid};

INSERT INTO labels_by_ref (wallet_id, kind, ref, label, origin, spendable)
SELECT l.wallet_id, l.kind, l.ref, substr(l.label, 1, 500),
    CASE WHEN l.origin = '' THEN NULL ELSE l.origin END, l.spendable
FROM labels l
WHERE l.origin = (SELECT MIN(o.origin) FROM labels o
    WHERE o.wallet_id = l.wallet_id AND o.kind = l.kind AND o.ref = l.ref);

DROP TABLE labels;
ALTER TABLE labels_by_ref RENAME TO labels;
CREATE INDEX labels_unspendable ON labels (wallet_id, ref) WHERE spendable = 0;
";
