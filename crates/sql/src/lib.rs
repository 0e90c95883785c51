//! Relational pool, transactions, retry and migrations, with one API for `SQLite` and `PostgreSQL`.
//!
//! Every statement is written once, in the subset that both engines understand; the drivers stay
//! behind this crate. Calls block and must come from threads that may wait, see [`Database`].
//!
//! # Invariants
//!
//! * A transaction is committed as a whole or has changed nothing. A commit whose answer was lost
//!   is looked up on a fresh connection, on any of the hosts of the URL. Only where none answers
//!   does [`SqlError::CommitUnknown`] leave open which; it is never run again by itself.
//! * The number of connections, prepared statements, parameters per statement, attempts, and the
//!   time of each wait are bounded.

#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "parts of the code serve an engine that is not built")
)]

#[cfg(not(all(feature = "postgres", feature = "sqlite")))]
mod absent;
mod database;
mod definitions;
mod doubt;
mod error;
mod migration;
mod options;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod sqlite_file;
mod statement;
#[cfg(feature = "postgres")]
mod tls;
mod transaction;
#[cfg(feature = "postgres")]
mod url;
mod value;

#[cfg(not(feature = "postgres"))]
use absent::postgres;
#[cfg(not(feature = "sqlite"))]
use absent::sqlite;
pub use database::{Database, RETRIES_METRIC, RETRIES_METRIC_HELP};
pub use definitions::{Definitions, Deviation, SchemaFault};
pub use error::{ConstraintKind, MigrationError, RetryReason, SqlError};
pub use migration::{
    AppliedMigration, Migration, MigrationReport, applied_migrations, migrate_down, migrate_up,
};
pub use options::{Dialect, Durability, Options};
pub use server::Promises;
pub use sqlite_file::DatabaseTrouble;
pub use transaction::{Isolation, Transaction};
pub use utxokeep_core::OpenMode;
pub use value::{Row, Value};
