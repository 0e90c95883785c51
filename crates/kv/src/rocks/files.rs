//! Whether the files of an open database are still where they were.
//!
//! RocksDB holds its files open and does not notice that they were deleted, until it is opened
//! again without them. Whatever is written meanwhile is lost with the process.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rocksdb::{DB, properties::MIN_LOG_NUMBER_TO_KEEP};

use super::place;

/// Listing all tables takes some milliseconds per thousand, so it is not done with every look.
const TABLES_EVERY: Duration = Duration::from_secs(4);

/// The file that RocksDB locks.
const LOCK: &str = "LOCK";

/// The files of a database, as they were last seen.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    /// Device and inode of the directory; none where it could not be looked at.
    identity: Option<(u64, u64)>,
    /// A copy that is only read may have none.
    has_lock: bool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    logs: BTreeSet<u64>,
    tables_at: Option<Instant>,
    /// What was found to be lost; it does not come back.
    lost: Option<String>,
}

impl Files {
    /// Of a database that was just opened.
    pub(super) fn of(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            identity: identity(dir).ok(),
            has_lock: !is_gone(&dir.join(LOCK)),
            seen: Mutex::default(),
        }
    }

    /// Says which file was deleted, exchanged or moved away while `db` has it in use. `newest_log`
    /// is the log of the newest write, 0 for none. A file that cannot be looked at may be there.
    pub(super) fn lost(&self, db: &DB, newest_log: u64) -> Option<String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.lost.is_none() {
            seen.lost = self.look(db, newest_log, &mut seen);
        }
        seen.lost.clone()
    }

    fn look(&self, db: &DB, newest_log: u64, seen: &mut Seen) -> Option<String> {
        let dir = self.dir.display();
        let gone = |what: &str| {
            format!("files of the database at {dir} were deleted or moved away, among them {what}")
        };
        match identity(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!(
                    "the files of the database at {dir} were deleted or moved away"
                ));
            }
            Ok(found) if self.identity.is_some_and(|opened| opened != found) => {
                return Some(format!("the directory of the database at {dir} was exchanged"));
            }
            _ => {}
        }
        if let Some(file) = self.lost_head() {
            return Some(gone(&file));
        }
        // Without it another process would take the database for free, and write to it too.
        if self.has_lock && is_gone(&self.dir.join(LOCK)) {
            return Some(gone(LOCK));
        }
        let logs = place::logs(&self.dir).ok()?;
        seen.logs.insert(newest_log);
        if let Some(log) = seen.logs.iter().find(|log| self.is_lost_log(db, **log)) {
            return Some(gone(&place::log_name(*log)));
        }
        seen.logs = logs.into_iter().map(|(log, _)| log).collect();
        if seen.tables_at.is_none_or(|at| at.elapsed() >= TABLES_EVERY) {
            let table = self.lost_table(db);
            seen.tables_at = Some(Instant::now());
            return table.map(|table| gone(&table));
        }
        None
    }

    /// `CURRENT`, or the manifest that it names.
    fn lost_head(&self) -> Option<String> {
        let current = || fs::read_to_string(self.dir.join("CURRENT"));
        let manifest = match current() {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some("CURRENT".to_owned());
            }
            Err(_) => return None,
        };
        // A new manifest takes the place of an old one by and by.
        let is_lost = is_gone(&self.dir.join(manifest.trim_end()))
            && current().is_ok_and(|again| again == manifest);
        is_lost.then(|| manifest.trim_end().to_owned())
    }

    /// Whether a log is gone that RocksDB did not delete: it keeps those from a number on.
    fn is_lost_log(&self, db: &DB, log: u64) -> bool {
        let is_needed = || {
            let kept = db.property_int_value(MIN_LOG_NUMBER_TO_KEEP).ok().flatten();
            kept.is_some_and(|kept| log >= kept)
        };
        log != 0 && is_gone(&self.dir.join(place::log_name(log))) && is_needed()
    }

    fn lost_table(&self, db: &DB) -> Option<String> {
        let live = || {
            let files = db.live_files().unwrap_or_default().into_iter();
            files.map(|file| file.name.trim_start_matches('/').to_owned())
        };
        let is_missing = |name: &String| is_gone(&self.dir.join(name));
        let missing: BTreeSet<String> = live().filter(is_missing).collect();
        // One that was merged into others meanwhile is gone for good reason.
        if missing.is_empty() { None } else { live().find(|name| missing.contains(name)) }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = path.metadata()?;
    Ok((found.dev(), found.ino()))
}

fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
