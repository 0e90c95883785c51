//! What can go wrong below the tables.

use std::path::PathBuf;

use utxokeep_core::ErrorKind;

/// Errors a key-value engine can produce.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// Another process has the database open.
    #[error(
        "the database at {path} is in use by another process; stop it, or ask its REST API",
        path = path.display()
    )]
    InUse {
        /// Directory of the database.
        path: PathBuf,
    },
    /// There is no database where one was expected.
    #[error("there is no database at {path}", path = path.display())]
    NotFound {
        /// Directory that was looked at.
        path: PathBuf,
    },
    /// The database lacks a table of this version, and was opened for reading.
    #[error(
        "the database at {path} is of an older version: it has no table {table}; nothing was changed: \
         `utxokeep serve`, or any command that writes to it, brings it up to date",
        path = path.display()
    )]
    Outdated {
        /// Directory of the database.
        path: PathBuf,
        /// The table that is missing.
        table: &'static str,
    },
    /// A write to a database that was opened for reading.
    #[error("the database is open for reading only; nothing was changed")]
    ReadOnly,
    /// The tables on disk are not the ones asked for.
    #[error("the database has table {name}, which this configuration does not open")]
    UnexpectedTable {
        /// Name of the table.
        name: String,
    },
    /// A file of the database is not there. Making a new database would delete the others.
    #[error(
        "the database at {path} has lost a file: {file} is missing, although {beside} is there; \
         nothing was changed: {way_on} (see \"Damage\" in docs/runbook.md)",
        path = path.display()
    )]
    LostFile {
        /// Directory of the database.
        path: PathBuf,
        /// What is missing.
        file: String,
        /// A file that shows that there was a database.
        beside: String,
        /// What an operator can do.
        way_on: &'static str,
    },
    /// The directory holds files of two states of a database, as when an older backup was copied over
    /// a newer one. What lies between the two would be missing.
    #[error(
        "the directory {path} holds files of two states of a database: {first} and {second}; nothing \
         was changed: put the files of one copy, and no others, into an empty directory (see \
         \"Damage\" in docs/runbook.md)",
        path = path.display()
    )]
    Mixed {
        /// Directory of the database.
        path: PathBuf,
        /// A file of the one.
        first: String,
        /// A file of the other.
        second: String,
    },
    /// The manifest, which lists tables and files, is shorter than it was.
    #[error(
        "the database at {path} is damaged: its manifest {file} has {bytes} of {noted_bytes} bytes; \
         nothing was changed: restore the directory from a copy, or build it anew (see \"Damage\" in \
         docs/runbook.md)",
        path = path.display()
    )]
    CutManifest {
        /// Directory of the database.
        path: PathBuf,
        /// Name of the manifest.
        file: String,
        /// How long it is.
        bytes: u64,
        /// How long it was at least.
        noted_bytes: u64,
    },
    /// A table of the database is not listed any more, as when its manifest was cut.
    #[error(
        "the database at {path} is damaged: its manifest does not list table {table}; nothing was \
         changed: restore the directory from a copy, or build it anew (see \"Damage\" in \
         docs/runbook.md)",
        path = path.display()
    )]
    LostTable {
        /// Directory of the database.
        path: PathBuf,
        /// Name of the table.
        table: &'static str,
    },
    /// Nobody waits for the answer of a read any more.
    #[error("nobody waits for the answer any more, so that the read was given up")]
    Unwanted,
    /// The write-ahead log cannot be read to its end.
    #[error(
        "the log {file} of the database at {path} is damaged at byte {offset}: {what}; {rows} writes \
         behind it can be counted and nothing was changed: `chain recover` and `tx recover` list what \
         would be lost, and open the database without it (see \"Damage\" in docs/runbook.md)",
        path = path.display()
    )]
    LogDamaged {
        /// Directory of the database.
        path: PathBuf,
        /// Name of the log.
        file: String,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
        /// Writes of single rows behind it, as far as they can be counted.
        rows: u64,
    },
    /// The engine found damage in a file that it had written whole.
    #[error(
        "{op} failed, because the database is damaged; restore it from a copy or build it anew (see \
         \"Damage\" in docs/runbook.md)"
    )]
    Damaged {
        /// Operation that was attempted.
        op: &'static str,
        /// What the engine found.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no room for a write. The same write goes through when there is.
    #[error("{op} failed, because the disk is full; nothing was changed: make room and try again")]
    DiskFull {
        /// Operation that was attempted.
        op: &'static str,
        /// What the engine says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A row failed to decode.
    #[error("table {table}: corrupt row: {detail}")]
    Corrupt {
        /// Table the row came from.
        table: &'static str,
        /// The decoder's complaint.
        detail: String,
    },
    /// An earlier write failed; only reopening can tell what is durable.
    #[error("the store stopped accepting writes after an earlier failure; restart to recover")]
    Poisoned,
    /// The engine reported an error of its own.
    #[error("{op} failed")]
    Engine {
        /// Operation that was attempted.
        op: &'static str,
        /// The engine's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl KvError {
    #[cfg(feature = "rocksdb")]
    pub(crate) fn engine(
        op: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Engine { op, source: source.into() }
    }

    /// An error of the operating system at a file of this crate.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn io(op: &'static str, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::StorageFull {
            Self::DiskFull { op, source: source.into() }
        } else {
            Self::engine(op, source)
        }
    }

    /// An error of RocksDB, sorted by whether the data or the world around it is at fault.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn rocks(op: &'static str, source: rocksdb::Error) -> Self {
        let is_damage = source.kind() == rocksdb::ErrorKind::Corruption
            // A table or manifest that is listed and not there.
            || (source.kind() == rocksdb::ErrorKind::IOError
                && source.as_ref().ends_with(": No such file or directory"));
        if is_damage {
            Self::Damaged { op, source: source.into() }
        } else {
            Self::engine(op, source)
        }
    }

    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::InUse { .. } => ErrorKind::NotReady,
            Self::NotFound { .. } | Self::Outdated { .. } | Self::UnexpectedTable { .. } => {
                ErrorKind::Refused
            }
            Self::LostFile { .. }
            | Self::Mixed { .. }
            | Self::CutManifest { .. }
            | Self::LostTable { .. }
            | Self::LogDamaged { .. }
            | Self::Damaged { .. }
            | Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::DiskFull { .. } => ErrorKind::Unavailable,
            Self::Unwanted => ErrorKind::Cancelled,
            Self::ReadOnly | Self::Poisoned | Self::Engine { .. } => ErrorKind::Failed,
        }
    }

    /// Whether what is stored is damaged, so that only a copy or building anew helps.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self.kind(), ErrorKind::Corrupt)
    }
}
