//! Commits whose answer was lost: how the program learns whether they happened.
//!
//! Each connection has a row in `utxokeep_commits`, and every commit moves the number in it in the
//! same transaction. When the answer to a commit is lost, a fresh connection tries to move the row
//! from where it was before. If that works, the commit did not happen and never will: it finds its
//! row moved, and fails. Otherwise the row says that it did happen.
//!
//! # Invariants
//!
//! * In doubt is resolved by a conditional write, never by a read alone: a server that is about to
//!   end still answers reads, and a commit may still be on its way.
//! * The resolution commits a write of its own, also when it found the commit. With a synchronous
//!   standby it therefore waits until the standby has both.

use crate::error::SqlError;
use crate::transaction::Transaction;
use crate::value::Value;
#[cfg(feature = "postgres")]
use std::fmt::Write as _;
#[cfg(feature = "postgres")]
use tokio_rustls::rustls::crypto::aws_lc_rs;

/// Made with the table of migrations; on `PostgreSQL` only.
pub(crate) const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS utxokeep_commits (
    connection TEXT NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    used_at TIMESTAMPTZ NOT NULL
)";

const RESOLVE: &str = "UPDATE utxokeep_commits SET number = $3, used_at = now()
    WHERE connection = $1 AND number = $2";

const FOUND: &str = "SELECT number FROM utxokeep_commits WHERE connection = $1 FOR UPDATE";

/// Makes the resolution wait for what a commit waits for.
const BARRIER: &str = "UPDATE utxokeep_commits SET used_at = now() WHERE connection = $1";

/// The row of one connection. Commits write even numbers, resolutions odd ones.
#[derive(Debug)]
pub(crate) struct Mark {
    connection: String,
    number: i64,
}

/// A commit whose answer was lost.
#[derive(Debug)]
pub(crate) struct Doubt {
    connection: String,
    before: i64,
}

impl Mark {
    #[cfg(feature = "postgres")]
    /// A row that no other connection of any program has.
    pub(crate) fn new() -> Result<Self, SqlError> {
        let mut random = [0; 16];
        let source = aws_lc_rs::default_provider().secure_random;
        source.fill(&mut random).map_err(|_| SqlError::Engine {
            source: "this machine gives no random numbers".into(),
        })?;
        let mut connection = String::with_capacity(2 * random.len());
        for byte in random {
            let _ = write!(connection, "{byte:02x}");
        }
        Ok(Self { connection, number: 0 })
    }

    /// Statements that make the row, and remove rows of connections that are long gone.
    pub(crate) fn registration(&self) -> String {
        format!(
            "DELETE FROM utxokeep_commits WHERE used_at < now() - INTERVAL '7 days'; \
             INSERT INTO utxokeep_commits (connection, number, used_at) VALUES ('{}', 0, now())",
            self.connection
        )
    }

    /// Statements that commit with the number moved. Where it is not what it was, dividing by the
    /// number of rows fails, and with it the commit.
    pub(crate) fn commit(&self) -> String {
        let Self { connection, number } = self;
        format!(
            "WITH moved AS (UPDATE utxokeep_commits SET number = {}, used_at = now() \
             WHERE connection = '{connection}' AND number = {number} RETURNING number) \
             SELECT 1 / count(*) FROM moved; COMMIT",
            number + 2
        )
    }

    pub(crate) fn committed(self) -> Self {
        Self { number: self.number + 2, ..self }
    }

    pub(crate) fn into_doubt(self) -> Doubt {
        Doubt { connection: self.connection, before: self.number }
    }
}

impl Doubt {
    /// Whether the commit happened, once and for all; `None` where nothing is left to tell.
    pub(crate) fn resolve(&self, tx: &mut Transaction<'_>) -> Result<Option<bool>, SqlError> {
        let connection = Value::from(self.connection.as_str());
        let refusal = self.before + 1;
        let parameters = [connection, Value::from(self.before), Value::from(refusal)];
        if tx.execute(RESOLVE, &parameters)? == 1 {
            return Ok(Some(false));
        }
        let found = tx.query_opt(FOUND, &[connection], |row| row.int(0))?;
        tx.execute(BARRIER, &[connection])?;
        Ok(found.and_then(|number| match number - self.before {
            // An earlier attempt, whose own answer was lost.
            1 => Some(false),
            2 => Some(true),
            _ => None,
        }))
    }
}
