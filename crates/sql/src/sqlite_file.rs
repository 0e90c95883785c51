//! The file of a `SQLite` database while a program has it open: whether it is still there, and
//! whether there is room to write.

use std::{
    fs::{self, DirEntry, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// With less room than this a transaction of ordinary size may fail.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// Why a database takes no writes at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseTrouble {
    /// What is wrong, and what to do.
    pub reason: String,
    /// Whether it ends by itself once its cause is gone. Otherwise the program has to be started
    /// again.
    pub passes: bool,
}

/// An open file, by which it is known again.
pub(crate) struct SqliteFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SqliteFile {
    /// Remembers the file that is at `path` now.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&path.metadata()?) })
    }

    /// Says so when the path leads to no file any more, or to another one. What is written then
    /// is lost as soon as the program ends.
    pub(crate) fn lost(&self) -> Option<String> {
        let what = match self.path.metadata() {
            Ok(found) if identity(&found) == self.identity => return self.lost_log(),
            Ok(_) => "was exchanged",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
            // A file that cannot be looked at may still be there.
            Err(_) => return None,
        };
        Some(format!("the file of the database {} {what} while it was in use", self.path.display()))
    }

    /// Says so when the log was deleted while this process has it open: what is committed then goes
    /// into a file without a name. `SQLite` itself closes the log before it deletes it.
    fn lost_log(&self) -> Option<String> {
        let file = self.path.canonicalize().ok()?;
        let mut deleted = file.into_os_string();
        deleted.push("-wal (deleted)");
        let is_open = |entry: io::Result<DirEntry>| {
            entry.and_then(|entry| entry.path().read_link()).is_ok_and(|target| target == deleted)
        };
        // Only Linux lists what a process has open.
        fs::read_dir("/proc/self/fd").ok()?.any(is_open).then(|| {
            let path = self.path.display();
            format!("the log of the database {path} was deleted while it was in use")
        })
    }

    pub(crate) fn trouble(&self) -> Option<DatabaseTrouble> {
        if let Some(reason) = self.lost() {
            return Some(DatabaseTrouble { reason, passes: false });
        }
        let disk = rustix::fs::statvfs(&self.path).ok()?;
        let is_full = disk.f_bavail.saturating_mul(disk.f_frsize) < FREE_BYTES_MIN;
        is_full.then(|| DatabaseTrouble {
            reason: "the disk is full: make room".to_owned(),
            passes: true,
        })
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_deleted_while_it_is_open_is_noticed_and_one_that_is_closed_is_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("ledger.db");
        let open = || {
            let connection = rusqlite::Connection::open(&path).unwrap();
            connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").unwrap();
            connection
        };
        let connection = open();
        let file = SqliteFile::at(&path).unwrap();
        assert_eq!(file.trouble(), None);
        drop(connection);
        assert_eq!(file.trouble(), None, "the last that closes it deletes the log");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        std::fs::remove_file(dir.path().join("ledger.db-wal")).unwrap();
        let gone = file.trouble().unwrap();
        assert!(gone.reason.contains("log") && !gone.passes, "{gone:?}");
    }

    #[test]
    fn a_file_that_was_deleted_or_exchanged_is_noticed() {
        let dir = tempfile::TempDir::new().unwrap();
        let (path, aside) = (dir.path().join("ledger.db"), dir.path().join("aside"));
        std::fs::write(&path, b"first").unwrap();
        let file = SqliteFile::at(&path).unwrap();
        assert_eq!(file.trouble(), None);
        std::fs::rename(&path, &aside).unwrap();
        let gone = file.trouble().unwrap();
        assert!(gone.reason.contains("deleted") && !gone.passes, "{gone:?}");
        std::fs::write(&path, b"second").unwrap();
        let other = file.trouble().unwrap();
        assert!(other.reason.contains("exchanged") && !other.passes, "{other:?}");
        std::fs::rename(&aside, &path).unwrap();
        assert_eq!(file.trouble(), None);
    }
}
