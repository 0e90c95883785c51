//! Whose payment a transaction is, and indexes that keep expired leases out of the way.

pub(crate) const UP: &str = "
ALTER TABLE transactions ADD COLUMN lease_id {bytes}
    CONSTRAINT transactions_lease_id CHECK (lease_id IS NULL OR length(lease_id) = 32);
CREATE INDEX utxo_leases_held ON utxo_leases (wallet_id, utxo_id) WHERE is_held = 1;
CREATE INDEX utxo_leases_by_end ON utxo_leases (expires_at_us, wallet_id) WHERE is_held = 0;
";

pub(crate) const DOWN: &str = "
DROP INDEX utxo_leases_by_end;
DROP INDEX utxo_leases_held;
ALTER TABLE transactions DROP COLUMN lease_id;
";
