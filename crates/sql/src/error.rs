//! What can go wrong, in terms a caller can act on, the same for both engines.

use std::error::Error as StdError;

use utxokeep_core::ErrorKind;

/// An error of a driver, kept as the source of ours.
pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// Errors of the relational layer. A statement that failed has changed nothing, and neither has
/// its transaction: it is rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// A URL or an option that cannot be used.
    #[error("the database settings cannot be used: {what}")]
    Config {
        /// What is wrong and what is expected.
        what: String,
    },
    /// The server answers, but cannot do what is needed.
    #[error("the database server cannot be used: {what}")]
    Unsuitable {
        /// What it lacks, and what to do.
        what: String,
    },
    /// The server or file cannot be reached; nothing was changed.
    #[error("the database cannot be reached, nothing was changed: {source}")]
    Unavailable {
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// Another transaction was in the way; the same work may succeed when it is tried again.
    #[error("another transaction was in the way ({reason}), nothing was changed: {source}")]
    Transient {
        /// In which way.
        reason: RetryReason,
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// Another transaction was in the way each time.
    #[error(
        "gave up after {attempts} attempts, nothing was changed; try again when there is less load: {source}"
    )]
    RetriesExhausted {
        /// How often the transaction was tried.
        attempts: u32,
        /// The last obstacle.
        #[source]
        source: Box<SqlError>,
    },
    /// The connection was lost while committing: the changes are either all there or all absent.
    #[error(
        "the connection was lost during commit: read the data to learn whether the changes were stored: {source}"
    )]
    CommitUnknown {
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// A constraint of the schema does not allow the change.
    #[error("{kind} constraint {name:?} does not allow this change: {source}")]
    Constraint {
        /// Kind of constraint.
        kind: ConstraintKind,
        /// `PostgreSQL` gives the constraint's name, `SQLite` that of a check and else the
        /// columns. For "not null" both give `table.column`.
        name: String,
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// A statement ran longer than `statement_timeout_ms` and was stopped.
    #[error("a statement ran longer than {timeout_ms} ms and was stopped, nothing was changed")]
    StatementTimeout {
        /// The limit.
        timeout_ms: u64,
    },
    /// Nobody waits for the answer of a read any more.
    #[error("nobody waits for the answer any more, so that the read was given up")]
    Unwanted,
    /// An earlier statement of this transaction has failed, so that no more can run in it.
    #[error("an earlier statement of the transaction failed; the transaction is rolled back")]
    Aborted,
    /// A column holds another type than the one asked for, or a null.
    #[error("a stored row is damaged: column {index} is {found}, expected {expected}")]
    ColumnType {
        /// Index in the result, from 0.
        index: usize,
        /// What was asked for.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The result has no such column.
    #[error("there is no column {index}, the result has {columns}")]
    ColumnMissing {
        /// Index asked for, from 0.
        index: usize,
        /// How many there are.
        columns: usize,
    },
    /// A call that can never work, such as rows of differing types.
    #[error("wrong use of the database layer: {what}")]
    Usage {
        /// What is wrong.
        what: String,
    },
    /// The file of a database is gone, and its log is not.
    #[error(
        "the database {} is missing or empty, although its log {} is there; nothing was changed: \
         restore both from a copy, or move the log away to begin anew",
        file.display(),
        log.display()
    )]
    LostFile {
        /// The file that is missing.
        file: std::path::PathBuf,
        /// The log beside it.
        log: std::path::PathBuf,
    },
    /// There is no file, or an empty one, where a database was expected.
    #[error("there is no database at {}; nothing was created", file.display())]
    NotFound {
        /// Where it was looked for.
        file: std::path::PathBuf,
    },
    /// A write to a database that was opened for reading.
    #[error("the database is open for reading only; nothing was changed")]
    ReadOnly,
    /// A text that not every engine can store.
    #[error("a text holds a NUL character, which cannot be stored; nothing was changed")]
    NulInText,
    /// A stored row does not decode.
    #[error("a stored row is damaged: {what}")]
    BadRow {
        /// What does not fit.
        what: String,
    },
    /// There is no room for the change.
    #[error("the disk is full, nothing was changed; make room and try again: {source}")]
    DiskFull {
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// The file is damaged or not a database.
    #[error(
        "the database is damaged, restore it from a copy (the runbook says how, under \"Damage\"): \
         {source}"
    )]
    Damaged {
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// The schema in the database does not fit this program.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// Everything else that an engine reports.
    #[error("the database refused, nothing was changed: {source}")]
    Engine {
        /// What the driver said.
        #[source]
        source: Source,
    },
}

impl SqlError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Config { .. } | Self::NulInText => ErrorKind::Invalid,
            Self::Unavailable { .. }
            | Self::Transient { .. }
            | Self::RetriesExhausted { .. }
            | Self::CommitUnknown { .. }
            | Self::DiskFull { .. }
            | Self::StatementTimeout { .. } => ErrorKind::Unavailable,
            Self::Damaged { .. }
            | Self::BadRow { .. }
            | Self::ColumnType { .. }
            | Self::LostFile { .. } => ErrorKind::Corrupt,
            Self::NotFound { .. } | Self::Migration(_) => ErrorKind::Refused,
            Self::Unwanted => ErrorKind::Cancelled,
            Self::Unsuitable { .. }
            | Self::Constraint { .. }
            | Self::Aborted
            | Self::ColumnMissing { .. }
            | Self::Usage { .. }
            | Self::ReadOnly
            | Self::Engine { .. } => ErrorKind::Failed,
        }
    }

    /// Whether what is stored is damaged, so that only a copy helps.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self.kind(), ErrorKind::Corrupt)
    }

    /// Whether the same transaction may succeed when it is run again.
    pub fn is_transient(&self) -> bool {
        self.retry_reason().is_some()
    }

    /// Whether a database, or what belongs in it, is not there.
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::Migration(MigrationError::Missing { .. }))
    }

    /// Whether a constraint of this kind refused the change.
    pub fn is_constraint(&self, wanted: ConstraintKind) -> bool {
        matches!(self, Self::Constraint { kind, .. } if *kind == wanted)
    }

    /// A stored row that the caller cannot decode.
    pub fn bad_row(what: impl Into<String>) -> Self {
        Self::BadRow { what: what.into() }
    }

    pub(crate) fn retry_reason(&self) -> Option<RetryReason> {
        match self {
            Self::Transient { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// A second [`SqlError::Transient`] that says the same.
    pub(crate) fn repeat_transient(&self) -> Option<Self> {
        match self {
            Self::Transient { reason, source } => {
                Some(Self::Transient { reason: *reason, source: source.to_string().into() })
            }
            _ => None,
        }
    }

    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self::Config { what: what.into() }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage { what: what.into() }
    }
}

/// Why a transaction is run again; a label of `utxokeep_sql_retries_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryReason {
    /// A lock or a connection was not free in time.
    Busy,
    /// Two transactions could not be put in an order.
    Serialization,
    /// Two transactions waited for each other.
    Deadlock,
}

impl RetryReason {
    /// The name used in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Serialization => "serialization",
            Self::Deadlock => "deadlock",
        }
    }
}

impl std::fmt::Display for RetryReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Kinds of constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstraintKind {
    /// Unique index or primary key.
    Unique,
    /// Foreign key.
    ForeignKey,
    /// Check.
    Check,
    /// Not null.
    NotNull,
    /// Any other: a trigger refuses, or a value does not fit into its column.
    Other,
}

impl std::fmt::Display for ConstraintKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unique => "unique",
            Self::ForeignKey => "foreign key",
            Self::Check => "check",
            Self::NotNull => "not null",
            Self::Other => "other",
        })
    }
}

/// Why a schema was not brought to the version of the program. Nothing was changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MigrationError {
    /// The database was written by a newer program.
    #[error(
        "the schema of {component} is at version {found}, this program knows up to {known}: use a newer program"
    )]
    Newer {
        /// Part of the schema.
        component: String,
        /// Version in the database.
        found: u32,
        /// Highest version in the program.
        known: u32,
    },
    /// A migration was applied with another text than the program has now.
    #[error(
        "migration {version} of {component} differs from the one that was applied: use the program that wrote the database"
    )]
    Changed {
        /// Part of the schema.
        component: String,
        /// Version of the migration.
        version: u32,
    },
    /// Versions must count up from 1 without gaps, in the program and in the database.
    #[error(
        "the migrations of {component} do not count up from 1 without gaps, at version {version}"
    )]
    Gap {
        /// Part of the schema.
        component: String,
        /// Version that is out of order.
        version: u32,
    },
    /// The database has none of the tables, and was not opened to create them.
    #[error("the database has no tables of {component}; nothing was created")]
    Missing {
        /// Part of the schema.
        component: String,
    },
    /// The database lacks steps, and was opened for reading.
    #[error(
        "the schema of {component} is at version {found} and this program needs {known}; nothing was \
         changed: `utxokeep serve`, or any command that writes to it, brings it up to date"
    )]
    Outdated {
        /// Part of the schema.
        component: String,
        /// Version in the database.
        found: u32,
        /// Version that the program needs.
        known: u32,
    },
    /// The version to go down to is above the present one.
    #[error("the schema of {component} is at version {found}, below the target {target}")]
    TargetAbove {
        /// Part of the schema.
        component: String,
        /// Version in the database.
        found: u32,
        /// Version asked for.
        target: u32,
    },
}
