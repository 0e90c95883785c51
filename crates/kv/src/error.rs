//! What can go wrong below the tables.

use std::path::PathBuf;

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
    /// The tables on disk are not the ones asked for.
    #[error("the database has table {name}, which this configuration does not open")]
    UnexpectedTable {
        /// Name of the table.
        name: String,
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
    pub(crate) fn engine(
        op: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Engine { op, source: source.into() }
    }
}
