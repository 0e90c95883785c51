//! Addresses that were added by hand, and stay watched whatever becomes of descriptors.

pub(crate) const UP: &str = "
ALTER TABLE addresses ADD COLUMN is_imported SMALLINT NOT NULL DEFAULT 0;
UPDATE addresses SET is_imported = 1 WHERE NOT EXISTS (SELECT 1 FROM descriptor_scripts s
    WHERE s.wallet_id = addresses.wallet_id AND s.address_id = addresses.id);
";

pub(crate) const DOWN: &str = "
ALTER TABLE addresses DROP COLUMN is_imported;
";
