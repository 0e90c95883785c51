//! A transaction: statements with one text for both engines.

use crate::doubt::Doubt;
use crate::error::SqlError;
use crate::options::Dialect;
use crate::postgres::PostgresConnection;
use crate::sqlite::SqliteConnection;
use crate::statement::{Chunk, List, PARAMETERS_MAX, Shape, chunks};
use crate::value::{Row, Value};

/// How far a write transaction is kept apart from others on `PostgreSQL`. On `SQLite` there is one
/// writer at a time, so that every level is serializable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    #[default]
    ReadCommitted,
    /// All statements see one snapshot; a row changed by others since is a conflict.
    RepeatableRead,
    /// As if transactions had run one after the other.
    Serializable,
}

/// What a transaction is for.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// With [`crate::Options::is_unwanted`].
    Read(fn() -> bool),
    Write(Isolation),
}

/// The connection a transaction runs on.
pub(crate) enum On<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PostgresConnection),
}

/// A running transaction. It ends with the closure it was given to: committed when that returns
/// `Ok`, rolled back on an error and on a panic.
///
/// A statement that fails ends the transaction on both engines: later ones give
/// [`SqlError::Aborted`], and it cannot be committed. Where a conflict is expected, write
/// `ON CONFLICT DO NOTHING` and look at the number of rows. Work that may fail without taking the rest
/// along goes into a [`Transaction::savepoint`].
///
/// Statements are in the subset that both engines understand. Parameters are `$1`, `$2` and so on.
/// Integers are 64 bits; cast sums, as in `CAST(SUM(value) AS BIGINT)`.
pub struct Transaction<'c> {
    on: On<'c>,
    open: bool,
    failed: bool,
    obstacle: Option<SqlError>,
    mode: Mode,
    /// Whether there may be anything to commit.
    wrote: bool,
    /// Savepoints that are open, for their names.
    savepoints: u32,
}

impl<'c> Transaction<'c> {
    pub(crate) fn begin(mut on: On<'c>, mode: Mode) -> Result<Self, SqlError> {
        match &mut on {
            On::Sqlite(connection) => connection.begin(matches!(mode, Mode::Write(_)))?,
            On::Postgres(connection) => {
                if matches!(mode, Mode::Write(_)) {
                    connection.register()?;
                }
                connection.begin(match mode {
                    Mode::Read(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                    Mode::Write(Isolation::ReadCommitted) => "BEGIN ISOLATION LEVEL READ COMMITTED",
                    Mode::Write(Isolation::RepeatableRead) => {
                        "BEGIN ISOLATION LEVEL REPEATABLE READ"
                    }
                    Mode::Write(Isolation::Serializable) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
                })?;
            }
        }
        let (failed, wrote, savepoints) = (false, false, 0);
        Ok(Self { on, open: true, failed, obstacle: None, mode, wrote, savepoints })
    }

    /// Which engine this runs on.
    pub fn dialect(&self) -> Dialect {
        match self.on {
            On::Sqlite(_) => Dialect::Sqlite,
            On::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs one statement and returns how many rows it changed.
    pub fn execute(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<u64, SqlError> {
        let shape = plain(sql, parameters)?;
        // A setting of the transaction changes nothing, and a snapshot may need one.
        self.wrote |= !sql.trim_start().starts_with("SET LOCAL ");
        self.run(|on| match on {
            On::Sqlite(connection) => connection.execute(&shape, parameters),
            On::Postgres(connection) => connection.execute(&shape, parameters),
        })
    }

    /// Runs one statement and hands each row to `each` as it arrives.
    pub fn query(
        &mut self,
        sql: &str,
        parameters: &[Value<'_>],
        mut each: impl FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let shape = plain(sql, parameters)?;
        self.wrote |= writes(sql);
        self.run(|on| match on {
            On::Sqlite(connection) => connection.query(&shape, parameters, &mut each),
            On::Postgres(connection) => connection.query(&shape, parameters, &mut each),
        })
    }

    /// Runs several statements in the order given, and hands each row to `each` with the place of
    /// its statement. `PostgreSQL` gets them together, so that they cost one wait.
    pub fn query_together(
        &mut self,
        statements: &[(&str, &[Value<'_>])],
        mut each: impl FnMut(usize, &Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let shapes = statements.iter().map(|(sql, parameters)| plain(sql, parameters));
        let shapes = shapes.collect::<Result<Vec<_>, _>>()?;
        self.wrote |= statements.iter().any(|(sql, _)| writes(sql));
        let both: Vec<_> =
            shapes.iter().zip(statements).map(|(shape, (_, of))| (shape, *of)).collect();
        self.run(|on| match on {
            On::Sqlite(connection) => (0..).zip(&both).try_for_each(|(at, (shape, parameters))| {
                connection.query(shape, parameters, &mut |row| each(at, row))
            }),
            On::Postgres(connection) => connection.query_together(&both, &mut each),
        })
    }

    /// The first row, if there is one.
    pub fn query_opt<T>(
        &mut self,
        sql: &str,
        parameters: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<Option<T>, SqlError> {
        let mut first = None;
        self.query(sql, parameters, |row| {
            if first.is_none() {
                first = Some(read(row)?);
            }
            Ok(())
        })?;
        Ok(first)
    }

    /// The first row; none at all is an error.
    pub fn query_one<T>(
        &mut self,
        sql: &str,
        parameters: &[Value<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.query_opt(sql, parameters, read)?
            .ok_or_else(|| SqlError::bad_row("a row that must be there is missing"))
    }

    /// All rows. Write a `LIMIT`: nothing else bounds the result.
    pub fn query_all<T>(
        &mut self,
        sql: &str,
        parameters: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        let mut all = Vec::new();
        self.query(sql, parameters, |row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Runs several statements without parameters, such as table definitions, in which the words
    /// of [`Dialect::render`] are filled in.
    pub fn execute_batch(&mut self, sql: &str) -> Result<(), SqlError> {
        let sql = self.dialect().render(sql)?;
        self.wrote = true;
        self.run(|on| match on {
            On::Sqlite(connection) => connection.batch(&sql),
            On::Postgres(connection) => connection.definitions(&sql),
        })
    }

    /// Writes any number of rows with few statements. `rows` holds the values row after row.
    ///
    /// `head` ends with the word VALUES, `tail` is empty or starts with a space:
    /// `INSERT INTO t (a, b) VALUES` and ` ON CONFLICT (a) DO UPDATE SET b = excluded.b`.
    pub fn insert_rows(
        &mut self,
        head: &str,
        tail: &str,
        columns: usize,
        rows: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        self.execute_rows(head, tail, &[], columns, rows)
    }

    /// Like [`Transaction::insert_rows`], for any statement with a list of values. `fixed` are the
    /// parameters `$1` and so on of head and tail.
    ///
    /// Both engines name the columns of a list `column1`, `column2`: head
    /// `UPDATE t SET b = v.column2 FROM (VALUES` and tail `) AS v WHERE t.a = v.column1`.
    pub fn execute_rows(
        &mut self,
        head: &str,
        tail: &str,
        fixed: &[Value<'_>],
        columns: usize,
        rows: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        let chunks = chunks(listed(List::Values, head, tail, fixed, columns), rows)?;
        self.execute_chunks(&chunks, fixed)
    }

    /// Like [`Transaction::execute_rows`], for results: `SELECT … FROM (VALUES` and
    /// `) AS v JOIN t ON t.a = v.column1`. Rows are handed out chunk by chunk; an order holds
    /// within a chunk only.
    pub fn query_rows(
        &mut self,
        head: &str,
        tail: &str,
        fixed: &[Value<'_>],
        columns: usize,
        rows: &[Value<'_>],
        each: impl FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let chunks = chunks(listed(List::Values, head, tail, fixed, columns), rows)?;
        self.query_chunks(&chunks, fixed, each)
    }

    /// Runs a statement for any number of keys. `head` ends with the word IN:
    /// `DELETE FROM t WHERE (a, b) IN`. Parameters of head and tail are `fixed`.
    pub fn execute_in(
        &mut self,
        head: &str,
        tail: &str,
        fixed: &[Value<'_>],
        columns: usize,
        keys: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        let chunks = chunks(listed(List::In, head, tail, fixed, columns), keys)?;
        self.execute_chunks(&chunks, fixed)
    }

    /// Like [`Transaction::execute_in`], for results: `SELECT a, b, c FROM t WHERE (a, b) IN`.
    /// A key that is given twice may give its rows twice.
    pub fn query_in(
        &mut self,
        head: &str,
        tail: &str,
        fixed: &[Value<'_>],
        columns: usize,
        keys: &[Value<'_>],
        each: impl FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let chunks = chunks(listed(List::In, head, tail, fixed, columns), keys)?;
        self.query_chunks(&chunks, fixed, each)
    }

    /// Runs `body` so that its failure undoes only what it did: on an error the transaction is as it
    /// was before, and goes on. They may be nested.
    ///
    /// Two kinds of failure end the whole transaction all the same: one that another transaction
    /// caused, because then everything is run again, and a connection that is lost.
    pub fn savepoint<T, E: From<SqlError>>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let name = format!("savepoint_{}", self.savepoints);
        self.control(&format!("SAVEPOINT {name}"))?;
        self.savepoints += 1;
        let outcome = body(self);
        self.savepoints -= 1;
        let outcome = match outcome {
            // The body looked away from a failure; what it believes to have done is not there.
            Ok(_) if self.failed => Err(SqlError::Aborted.into()),
            outcome => outcome,
        };
        if outcome.is_ok() {
            self.control(&format!("RELEASE SAVEPOINT {name}"))?;
        } else if self.obstacle.is_none() {
            self.failed = false;
            self.control(&format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}"))?;
        }
        outcome
    }

    fn control(&mut self, sql: &str) -> Result<(), SqlError> {
        self.run(|on| match on {
            On::Sqlite(connection) => connection.batch(sql),
            On::Postgres(connection) => connection.control(sql),
        })
    }

    /// The engine's plan for a statement, a line per step. For tests that pin plans.
    pub fn explain(
        &mut self,
        sql: &str,
        parameters: &[Value<'_>],
    ) -> Result<Vec<String>, SqlError> {
        let (words, column) = match self.dialect() {
            Dialect::Sqlite => ("EXPLAIN QUERY PLAN", 3),
            Dialect::Postgres => ("EXPLAIN", 0),
        };
        self.query_all(&format!("{words} {sql}"), parameters, |row| {
            Ok(row.text(column)?.to_owned())
        })
    }

    /// How many statements this connection holds prepared.
    pub fn cached_statements(&self) -> usize {
        match &self.on {
            On::Sqlite(connection) => connection.cached_statements(),
            On::Postgres(connection) => connection.cached_statements(),
        }
    }

    /// What was in the way, if the transaction should be run again because of it.
    pub(crate) fn take_obstacle(&mut self) -> Option<SqlError> {
        self.obstacle.take()
    }

    /// Commits. An outcome that is unknown comes with what it takes to look it up, if it can be.
    pub(crate) fn commit(mut self) -> Result<(), (SqlError, Option<Doubt>)> {
        if self.failed {
            return Err((SqlError::Aborted, None));
        }
        let outcome = match &mut self.on {
            On::Sqlite(connection) => connection.commit().map_err(|error| (error, None)),
            // A read has nothing to mark, whatever its statements look like.
            On::Postgres(connection) => {
                connection.commit(self.wrote && matches!(self.mode, Mode::Write(_)))
            }
        };
        self.open = outcome.is_err();
        outcome
    }

    fn execute_chunks(
        &mut self,
        chunks: &[Chunk<'_, '_>],
        fixed: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        refuse_nul_in(chunks, fixed)?;
        self.wrote = true;
        self.run(|on| match on {
            On::Sqlite(connection) => connection.execute_chunks(chunks, fixed),
            On::Postgres(connection) => connection.execute_chunks(chunks, fixed),
        })
    }

    fn query_chunks(
        &mut self,
        chunks: &[Chunk<'_, '_>],
        fixed: &[Value<'_>],
        mut each: impl FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        refuse_nul_in(chunks, fixed)?;
        self.wrote |= chunks.iter().any(|chunk| writes(chunk.shape.head));
        self.run(|on| match on {
            On::Sqlite(connection) => connection.query_chunks(chunks, fixed, &mut each),
            On::Postgres(connection) => connection.query_chunks(chunks, fixed, &mut each),
        })
    }

    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut On<'c>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        if self.failed {
            return Err(SqlError::Aborted);
        }
        let is_unwanted = || matches!(self.mode, Mode::Read(is_unwanted) if is_unwanted());
        let outcome = if is_unwanted() {
            Err(SqlError::Unwanted)
        } else {
            match work(&mut self.on) {
                Err(SqlError::StatementTimeout { .. }) if is_unwanted() => Err(SqlError::Unwanted),
                outcome => outcome,
            }
        };
        if let Err(error) = &outcome {
            self.failed = true;
            // The error itself goes to the caller, who may turn it into one of their own.
            self.obstacle = error.repeat_transient();
        }
        outcome
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.open {
            match &mut self.on {
                On::Sqlite(connection) => connection.rollback(),
                On::Postgres(connection) => connection.rollback(),
            }
        }
    }
}

/// Whether a statement that gives rows may change some as well.
fn writes(sql: &str) -> bool {
    !sql.trim_start().starts_with("SELECT")
}

fn plain<'a>(sql: &'a str, parameters: &[Value<'_>]) -> Result<Shape<'a>, SqlError> {
    if parameters.len() > PARAMETERS_MAX {
        return Err(SqlError::usage("a statement has more parameters than allowed"));
    }
    refuse_nul(parameters)?;
    Ok(Shape::plain(sql, parameters.len()))
}

/// `PostgreSQL` cannot store it, and what one engine cannot store none does.
fn refuse_nul(values: &[Value<'_>]) -> Result<(), SqlError> {
    let has_nul =
        |value: &Value<'_>| matches!(value, Value::Text(Some(text)) if text.contains('\0'));
    if values.iter().any(has_nul) { Err(SqlError::NulInText) } else { Ok(()) }
}

fn refuse_nul_in(chunks: &[Chunk<'_, '_>], fixed: &[Value<'_>]) -> Result<(), SqlError> {
    refuse_nul(fixed)?;
    chunks.iter().try_for_each(|chunk| refuse_nul(chunk.rows))
}

fn listed<'a>(
    list: List,
    head: &'a str,
    tail: &'a str,
    fixed: &[Value<'_>],
    columns: usize,
) -> Shape<'a> {
    Shape { head, tail, list, fixed: fixed.len(), columns, rows: 0 }
}
