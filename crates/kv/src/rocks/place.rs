//! What lies in the directory of a database, looked at before RocksDB is let near it.
//!
//! RocksDB takes a directory without `CURRENT` for an empty one, makes a new database in it and
//! deletes every file that the new one does not know. A file that got lost would cost all others.

use std::{fs, path::Path};

use crate::KvError;

/// The file that names the newest manifest; without it RocksDB sees no database.
const CURRENT: &str = "CURRENT";
/// The manifest of a creation that was cut short: opening for the first time writes a second one.
const FIRST_MANIFEST: &str = "MANIFEST-000001";

/// What a directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// No database, or what is left of a creation that was cut short before its first row.
    Vacant,
    /// A database.
    Database,
}

/// Looks into `dir` and changes nothing. Refuses remains of a database that lost a file.
pub(super) fn look(dir: &Path) -> Result<Place, KvError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Place::Vacant),
        Err(error) => return Err(KvError::engine("looking into the database directory", error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry =
            entry.map_err(|error| KvError::engine("looking into the database directory", error))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    let lost = |file: &str, beside: &str| KvError::LostFile {
        path: dir.to_owned(),
        file: file.to_owned(),
        beside: beside.to_owned(),
    };
    if names.iter().any(|name| name == CURRENT) {
        if names.iter().any(|name| is_log(name)) {
            return Ok(Place::Database);
        }
        // A first opening writes CURRENT, then the log, then OPTIONS, and only then takes rows. From
        // then on there is always a log: a new one is made before an old one goes.
        return match names.iter().find(|name| is_table(name) || name.starts_with("OPTIONS-")) {
            Some(beside) => Err(lost("the newest .log", beside)),
            None => Ok(Place::Vacant),
        };
    }
    let is_remains = |name: &&String| {
        is_log(name) || is_table(name) || (name.starts_with("MANIFEST-") && *name != FIRST_MANIFEST)
    };
    match names.iter().find(is_remains) {
        Some(beside) => Err(lost(CURRENT, beside)),
        None => Ok(Place::Vacant),
    }
}

fn is_table(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "sst")
}

/// Write-ahead logs have numbers for names; RocksDB's log for people is called `LOG`.
pub(super) fn is_log(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}
