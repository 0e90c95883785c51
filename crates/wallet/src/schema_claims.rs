//! What somebody claims about blocks, told apart from what the ledger followed, and coinbases that
//! are in two blocks.

pub(crate) const UP: &str = "
ALTER TABLE blocks ADD COLUMN is_claimed SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE transactions ADD COLUMN is_claimed SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE transactions ADD COLUMN earlier_height BIGINT;
ALTER TABLE transactions ADD COLUMN earlier_position BIGINT;
";

pub(crate) const DOWN: &str = "
ALTER TABLE transactions DROP COLUMN earlier_position;
ALTER TABLE transactions DROP COLUMN earlier_height;
ALTER TABLE transactions DROP COLUMN is_claimed;
ALTER TABLE blocks DROP COLUMN is_claimed;
";
