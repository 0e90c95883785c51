//! Work of the newest blocks, by which branches are compared.

pub(crate) const UP: &str = "
ALTER TABLE recent_blocks ADD COLUMN work {bytes}
    CONSTRAINT recent_blocks_work CHECK (work IS NULL OR length(work) = 32);
";

pub(crate) const DOWN: &str = "
ALTER TABLE recent_blocks DROP COLUMN work;
";
