//! A database: transactions as closures that are run again when others were in the way.

use crate::doubt::Doubt;
use crate::error::SqlError;
use crate::options::{Dialect, Location, Options};
use crate::pool::{Lease, Pool, Pooled};
use crate::postgres::{PostgresConnection, PostgresEngine};
use crate::server::Promises;
use crate::sqlite::{SqliteConnection, SqliteEngine};
use crate::sqlite_file::DatabaseTrouble;
use crate::transaction::{Isolation, Mode, On, Transaction};
use crate::value::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use utxokeep_core::OpenMode;

/// Counter of attempts that were repeated, with the labels `engine` and `reason`.
pub const RETRIES_METRIC: &str = "utxokeep_sql_retries_total";

/// What [`RETRIES_METRIC`] says.
pub const RETRIES_METRIC_HELP: &str =
    "Transactions run again because others were in the way, by engine and reason.";

/// Longest wait between two attempts.
const RETRY_WAIT_MS_MAX: u64 = 2_000;

/// Wait between two looks at what became of a commit.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// What a table takes on disk, with its indexes.
const TABLE_BYTES: &str = "SELECT pg_total_relation_size(CAST(CAST($1 AS TEXT) AS regclass))";

/// A database on either engine; clones share its connections.
///
/// Calls block. They must come from threads that may wait: plain ones, or those of a runtime's
/// `spawn_blocking`, never from an asynchronous task. A closure must not open a transaction on the
/// same database: it would wait for itself.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    mode: OpenMode,
    retries_max: u32,
    is_unwanted: fn() -> bool,
    retry_base_ms: u64,
    doubt_wait: Duration,
    /// Counts waits, so that each is of another length.
    waits: AtomicU64,
    retries: AtomicU64,
}

enum Engine {
    Sqlite(Box<SqliteEngine>),
    Postgres(Box<PostgresEngine>),
}

/// What one attempt came to.
enum Attempt<T, E> {
    Done(Result<T, E>),
    Again(SqlError),
    /// The answer to its commit was lost; this is what it would have come to.
    InDoubt(T, SqlError, Doubt),
}

impl Database {
    /// Opens `sqlite:FILE` or `postgres://user:password@host/name`.
    ///
    /// A `SQLite` file is created when it is missing and [`Options::mode`] allows it. Connections to `PostgreSQL` are encrypted
    /// where the server can, and `sslmode` in the URL insists on it: `require`, `verify-ca` and
    /// `verify-full`, with `sslrootcert=FILE`. A URL may name several hosts, separated by commas;
    /// with `target_session_attrs=read-write` the one that takes writes is used. A server that
    /// lacks something is refused with [`SqlError::Unsuitable`].
    pub fn open(url: &str, options: &Options) -> Result<Self, SqlError> {
        let location = Location::parse(url)?;
        options.check(location.dialect())?;
        let engine = match location {
            Location::Sqlite(file) => {
                Engine::Sqlite(Box::new(SqliteEngine::open(file, options.clone())?))
            }
            Location::Postgres(url) => {
                Engine::Postgres(Box::new(PostgresEngine::open(*url, options.clone())?))
            }
        };
        let inner = Inner {
            engine,
            mode: options.mode,
            retries_max: options.retries_max,
            is_unwanted: options.is_unwanted,
            retry_base_ms: options.retry_base_ms,
            doubt_wait: Duration::from_millis(options.commit_doubt_wait_ms),
            waits: AtomicU64::new(u64::from(std::process::id())),
            retries: AtomicU64::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How it was opened.
    pub fn mode(&self) -> OpenMode {
        self.inner.mode
    }

    /// Which engine this is.
    pub fn dialect(&self) -> Dialect {
        match self.inner.engine {
            Engine::Sqlite(_) => Dialect::Sqlite,
            Engine::Postgres(_) => Dialect::Postgres,
        }
    }

    /// What the server says an answered commit survives; `None` on `SQLite`.
    pub fn promises(&self) -> Option<&Promises> {
        match &self.inner.engine {
            Engine::Sqlite(_) => None,
            Engine::Postgres(engine) => Some(&engine.promises),
        }
    }

    /// Why it takes no writes at present, as far as can be told without writing: the file of a
    /// `SQLite` database is gone, or its disk is full. Of a server nothing is known.
    pub fn trouble(&self) -> Option<DatabaseTrouble> {
        match &self.inner.engine {
            Engine::Sqlite(engine) => engine.trouble(),
            Engine::Postgres(_) => None,
        }
    }

    /// What tables take on disk: on `PostgreSQL` these, with their indexes; on `SQLite` the whole file
    /// and its log. `None` from a server that does not tell.
    pub fn disk_bytes(&self, tables: &[&str]) -> Result<Option<u64>, SqlError> {
        let Engine::Sqlite(engine) = &self.inner.engine else {
            let bytes = self.read(|tx| {
                let mut bytes = 0;
                for table in tables {
                    let name = [Value::from(*table)];
                    bytes += tx.query_one(TABLE_BYTES, &name, |row| row.int(0))?.unsigned_abs();
                }
                Ok(bytes)
            });
            return match bytes {
                Ok(bytes) => Ok(Some(bytes)),
                // Other servers that speak its language have no such function.
                Err(SqlError::Engine { .. }) => Ok(None),
                Err(error) => Err(error),
            };
        };
        Ok(engine.disk_bytes())
    }

    /// How often transactions were run again because others were in the way, since it was opened.
    pub fn retries(&self) -> u64 {
        self.inner.retries.load(Ordering::Relaxed)
    }

    /// Runs `body` in a write transaction at [`Isolation::ReadCommitted`] and commits it.
    ///
    /// `body` runs again from the start when other transactions were in the way, so it must not
    /// change anything outside of the transaction that a second run would change again.
    pub fn write<T, E: From<SqlError>>(
        &self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write_at(Isolation::ReadCommitted, body)
    }

    /// Like [`Database::write`], at another isolation level.
    pub fn write_at<T, E: From<SqlError>>(
        &self,
        isolation: Isolation,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.inner.mode.may_write() {
            return Err(SqlError::ReadOnly.into());
        }
        self.repeat(Mode::Write(isolation), body)
    }

    /// Runs `body` in a write transaction that it always ends with an error, so that nothing is
    /// changed, however the database was opened.
    pub(crate) fn rehearse<E: From<SqlError>>(
        &self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<std::convert::Infallible, E>,
    ) -> Result<std::convert::Infallible, E> {
        self.repeat(Mode::Write(Isolation::ReadCommitted), body)
    }

    /// Runs `body` on one snapshot, which is taken by its first statement. Writes are refused.
    pub fn read<T, E: From<SqlError>>(
        &self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.repeat(Mode::Read(self.inner.is_unwanted), body)
    }

    fn repeat<T, E: From<SqlError>>(
        &self,
        mode: Mode,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut attempts = 1;
        loop {
            let obstacle = match self.attempt(mode, &mut body) {
                Attempt::Done(outcome) => return outcome,
                Attempt::Again(obstacle) => obstacle,
                Attempt::InDoubt(value, error, doubt) => match self.resolve(&doubt) {
                    Some(true) => return Ok(value),
                    // It has not changed anything, and never will.
                    Some(false) => error,
                    None => return Err(error.into()),
                },
            };
            if attempts > self.inner.retries_max {
                let source = Box::new(obstacle);
                return Err(SqlError::RetriesExhausted { attempts, source }.into());
            }
            let reason = obstacle.retry_reason().map_or("connection", |reason| reason.name());
            let engine = self.dialect().name();
            self.inner.retries.fetch_add(1, Ordering::Relaxed);
            metrics::counter!(RETRIES_METRIC, "engine" => engine, "reason" => reason).increment(1);
            std::thread::sleep(self.wait(attempts));
            attempts += 1;
        }
    }

    /// Whether a commit happened whose answer was lost; `None` where no server tells in time.
    fn resolve(&self, doubt: &Doubt) -> Option<bool> {
        let until = Instant::now() + self.inner.doubt_wait;
        let mode = Mode::Write(Isolation::ReadCommitted);
        loop {
            if let Attempt::Done(Ok(answer)) = self.attempt(mode, &mut |tx| doubt.resolve(tx)) {
                return answer;
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(DOUBT_PAUSE);
        }
    }

    /// Makes the statements of this database look rows up by an index. For callers all of whose
    /// statements do: `PostgreSQL` plans a statement once, and on a database that is new and empty
    /// it plans to read whole tables, which then grow. The settings hold for each transaction, not
    /// for the session. `SQLite` needs none.
    pub fn plan_by_index(&self) -> Result<(), SqlError> {
        match &self.inner.engine {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(engine) => engine.plan_by_index(),
        }
    }

    /// From now on a commit whose answer is lost is looked up: the table for it is there.
    pub(crate) fn mark_commits(&self) {
        if let Engine::Postgres(engine) = &self.inner.engine {
            engine.mark_commits();
        }
    }

    fn attempt<T, E: From<SqlError>>(
        &self,
        mode: Mode,
        body: &mut impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Attempt<T, E> {
        match &self.inner.engine {
            Engine::Sqlite(engine) => {
                let writes = matches!(mode, Mode::Write(_));
                let pool = if writes { &engine.writer } else { &engine.readers };
                on_lease(pool, || engine.connect(writes), sqlite, mode, body)
            }
            Engine::Postgres(engine) => {
                on_lease(&engine.pool, || engine.connect(), postgres, mode, body)
            }
        }
    }

    /// Doubles with each attempt. Half of it is spread out, so that those who met once do not
    /// meet again.
    fn wait(&self, attempt: u32) -> Duration {
        let doubled = self.inner.retry_base_ms.saturating_mul(1 << (attempt - 1).min(16));
        let whole_us = doubled.min(RETRY_WAIT_MS_MAX) * 1_000;
        let spread = scatter(self.inner.waits.fetch_add(1, Ordering::Relaxed));
        Duration::from_micros(whole_us / 2 + spread % (whole_us / 2 + 1))
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("dialect", &self.dialect()).finish_non_exhaustive()
    }
}

fn sqlite(connection: &mut SqliteConnection) -> On<'_> {
    On::Sqlite(connection)
}

fn postgres(connection: &mut PostgresConnection) -> On<'_> {
    On::Postgres(connection)
}

fn on_lease<C: Pooled, T, E: From<SqlError>>(
    pool: &Pool<C>,
    open: impl Fn() -> Result<C, SqlError>,
    on: for<'c> fn(&'c mut C) -> On<'c>,
    mode: Mode,
    body: &mut impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
) -> Attempt<T, E> {
    loop {
        let mut lease: Lease<'_, C> = match pool.take(&open) {
            Ok(lease) => lease,
            Err(error) => return ended(error),
        };
        let idle_before = !lease.is_fresh();
        let begun = Transaction::begin(on(&mut lease), mode);
        match begun {
            Ok(transaction) => return run(transaction, body),
            // An idle connection may have been cut off, for instance by a restart of the server.
            // It does not go back to the pool, so this ends with a fresh one.
            Err(SqlError::Unavailable { .. }) if idle_before => {}
            Err(error) => return ended(error),
        }
    }
}

fn run<T, E: From<SqlError>>(
    mut transaction: Transaction<'_>,
    body: &mut impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
) -> Attempt<T, E> {
    let outcome = body(&mut transaction);
    if let Some(obstacle) = transaction.take_obstacle() {
        return Attempt::Again(obstacle);
    }
    match outcome {
        Err(error) => Attempt::Done(Err(error)),
        Ok(value) => match transaction.commit() {
            Ok(()) => Attempt::Done(Ok(value)),
            Err((error, Some(doubt))) => Attempt::InDoubt(value, error, doubt),
            Err((error, None)) => ended(error),
        },
    }
}

fn ended<T, E: From<SqlError>>(error: SqlError) -> Attempt<T, E> {
    if error.is_transient() { Attempt::Again(error) } else { Attempt::Done(Err(error.into())) }
}

/// Spreads a counter over all 64 bits; neighbours come out far apart.
fn scatter(counter: u64) -> u64 {
    let mut bits = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    bits ^ (bits >> 32)
}
