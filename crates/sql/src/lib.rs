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

mod database;
mod definitions;
mod doubt;
mod error;
mod migration;
mod options;
mod pool;
mod postgres;
mod server;
mod sqlite;
mod sqlite_file;
mod statement;
mod tls;
mod transaction;
mod url;
mod value;

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
