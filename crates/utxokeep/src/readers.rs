//! Files of databases that more users of this machine can read than their owner.

use std::{fs, os::unix::fs::PermissionsExt as _};

/// Warns of a database in a file that other users of this machine may read. It is left as it is:
/// whoever shares it with a group means to.
pub(crate) fn warn_of_readers(engine: &str, place: &str) {
    if engine != "sqlite" {
        return;
    }
    let mode = fs::metadata(place).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        tracing::warn!(
            file = place,
            mode = format_args!("{:o}", mode & 0o777),
            "other users of this machine may read the database; chmod 600 keeps it from them"
        );
    }
}
