//! What lies in the directory of a database, looked at before RocksDB is let near it.
//!
//! RocksDB takes a directory without `CURRENT` for an empty one, makes a new database in it and
//! deletes every file that the new one does not know. A file that got lost would cost all others.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, fcntl_lock},
    io::Errno,
};

use super::note;
use crate::KvError;

/// The file that names the newest manifest; without it RocksDB sees no database.
const CURRENT: &str = "CURRENT";
/// The manifest of a creation that was cut short: opening for the first time writes a second one.
const FIRST_MANIFEST: &str = "MANIFEST-000001";

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DirectoryContents {
    /// No database, or what is left of a creation that was cut short before its first row.
    Vacant,
    /// A database.
    Database,
    /// A database without a single log, which was opened before. There is always one from then on.
    WithoutLog {
        /// A file that shows that it was opened.
        beside: String,
    },
}

/// Where a database is open, or may be made: one without a log is refused.
pub(super) fn look_for_logs(dir: &Path) -> Result<DirectoryContents, KvError> {
    match look(dir)? {
        DirectoryContents::WithoutLog { beside } => Err(KvError::LostFile {
            path: dir.to_owned(),
            file: "the newest .log".to_owned(),
            beside,
            way_on: "restore the directory from a copy; or let `chain recover` or `tx recover` open it \
                     without the writes that were in the log",
        }),
        place => Ok(place),
    }
}

/// Looks into `dir` and changes nothing. Refuses remains of a database that lost a file.
pub(super) fn look(dir: &Path) -> Result<DirectoryContents, KvError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(DirectoryContents::Vacant);
        }
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
        way_on: "restore the directory from a copy, or move it away to begin anew",
    };
    let note = note::find(dir)?;
    let has_claim = note.as_ref().is_some_and(|note| note.claimed().log != 0);
    let is_claim = |name: &str| has_claim && note.as_ref().is_some_and(|note| note.name == name);
    if names.iter().any(|name| name == CURRENT) {
        if let Some(note) = &note {
            note.refuse_other_manifest(dir)?;
        }
        if names.iter().any(|name| is_log(name)) {
            return Ok(DirectoryContents::Database);
        }
        // A first opening writes CURRENT, then the log, then OPTIONS, and only then takes rows. From
        // then on there is always a log: a new one is made before an old one goes.
        let is_opened =
            |name: &&String| is_table(name) || name.starts_with("OPTIONS-") || is_claim(name);
        return Ok(match names.iter().find(is_opened) {
            Some(beside) => DirectoryContents::WithoutLog { beside: beside.clone() },
            None => DirectoryContents::Vacant,
        });
    }
    let is_remains = |name: &&String| {
        is_log(name)
            || is_table(name)
            || (name.starts_with("MANIFEST-") && *name != FIRST_MANIFEST)
            || is_claim(name)
    };
    match names.iter().find(is_remains) {
        Some(beside) => Err(lost(CURRENT, beside)),
        None => Ok(DirectoryContents::Vacant),
    }
}

fn is_table(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "sst")
}

/// Write-ahead logs have numbers for names; RocksDB's log for people is called `LOG`.
fn is_log(name: &str) -> bool {
    log_number(name).is_some()
}

/// Number of the log of this name.
pub(super) fn log_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".log")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok()).flatten()
}

/// Name of the log of this number.
pub(super) fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// The logs in `dir` with their numbers, oldest first.
pub(super) fn logs(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(number) = log_number(&entry.file_name().to_string_lossy()) {
            logs.push((number, entry.path()));
        }
    }
    logs.sort_unstable();
    Ok(logs)
}

/// The files of tables in `dir`, by name.
pub(super) fn tables(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut tables = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_table(&name) {
            tables.insert(name);
        }
    }
    Ok(tables)
}

/// Keeps other processes away from a database that RocksDB does not have open.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Option<File>,
}

/// Takes the lock that RocksDB takes. This process must not have the database open: the lock of a
/// process ends with the first file that it closes.
pub(super) fn lock(dir: &Path) -> Result<Lock, KvError> {
    let file = match OpenOptions::new().read(true).write(true).open(dir.join("LOCK")) {
        Ok(file) => file,
        // Nobody has opened it here, as in a copy.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lock { _file: None }),
        Err(error) => return Err(KvError::engine("locking the database", error)),
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock { _file: Some(file) }),
        Err(Errno::AGAIN | Errno::ACCESS) => Err(KvError::InUse { path: dir.to_owned() }),
        Err(error) => Err(KvError::engine("locking the database", error)),
    }
}
