//! Wallets and keychains that are not followed any more.

pub(crate) const UP: &str = "
ALTER TABLE wallets ADD COLUMN archived_at_us BIGINT;
ALTER TABLE wallets ADD COLUMN unseen_from_height BIGINT;
ALTER TABLE descriptors ADD COLUMN archived_at_us BIGINT;
ALTER TABLE descriptors ADD COLUMN unseen_from_height BIGINT;
ALTER TABLE addresses ADD COLUMN is_archived SMALLINT NOT NULL DEFAULT 0;
";

pub(crate) const DOWN: &str = "
ALTER TABLE addresses DROP COLUMN is_archived;
ALTER TABLE descriptors DROP COLUMN unseen_from_height;
ALTER TABLE descriptors DROP COLUMN archived_at_us;
ALTER TABLE wallets DROP COLUMN unseen_from_height;
ALTER TABLE wallets DROP COLUMN archived_at_us;
";
