//! Wallets that were restored and have not looked at the blocks that passed meanwhile.

pub(crate) const UP: &str = "
ALTER TABLE wallet_rescans ADD COLUMN restored_at_us BIGINT;
";

pub(crate) const DOWN: &str = "
ALTER TABLE wallet_rescans DROP COLUMN restored_at_us;
";
