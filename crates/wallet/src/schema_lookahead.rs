//! Keychains whose edge was reached, and where the ledger's view of a chain starts.

pub(crate) const UP: &str = "
ALTER TABLE descriptors ADD COLUMN edge_index BIGINT;
ALTER TABLE chains ADD COLUMN first_height BIGINT;
CREATE INDEX descriptors_near_edge ON descriptors (wallet_id, id) WHERE edge_index IS NOT NULL;
";

pub(crate) const DOWN: &str = "
DROP INDEX descriptors_near_edge;
ALTER TABLE chains DROP COLUMN first_height;
ALTER TABLE descriptors DROP COLUMN edge_index;
";
