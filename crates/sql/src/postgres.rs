//! `PostgreSQL`: blocking calls over the asynchronous driver, and pipelining where it pays.
//!
//! The driver runs on a small runtime of its own. Callers block on it from their own threads,
//! which therefore must not be running asynchronous tasks.

use crate::doubt::{Doubt, Mark};
use crate::error::{ConstraintKind, RetryReason, SqlError};
use crate::options::{Dialect, Durability, Options};
use crate::pool::{Pool, Pooled};
use crate::server::{self, Promises};
use crate::statement::{Cache, Chunk, Shape};
use crate::tls::{self, Tls};
pub(crate) use crate::url::ServerUrl;
use crate::value::{Kind, Row, RowOf, Value};
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;
pub(crate) use tokio_postgres::Row as PostgresRow;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Statement};
use utxokeep_core::OpenMode;

/// Statements of one call that are under way at once.
const PIPELINE_STATEMENTS_MAX: usize = 8;

/// Rows taken from the driver between two calls of a callback.
const ROWS_PER_TURN_MAX: usize = 256;

/// How much longer than the server's own limit we wait for an answer.
const ANSWER_GRACE: Duration = Duration::from_secs(10);

pub(crate) struct PostgresEngine {
    config: Config,
    tls: Tls,
    options: Options,
    runtime: Arc<OwnRuntime>,
    /// Whether the database has the table that commits are marked in.
    marks: Arc<AtomicBool>,
    /// Settings of every transaction, as statements behind its beginning.
    planning: Arc<OnceLock<String>>,
    pub(crate) promises: Promises,
    pub(crate) pool: Pool<PostgresConnection>,
}

/// The runtime. Dropping it must not wait, because that is refused on asynchronous threads.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("taken only when dropped").block_on(future)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl PostgresEngine {
    pub(crate) fn open(url: ServerUrl, options: Options) -> Result<Self, SqlError> {
        let (mut config, tls) = (url.config, Tls::new(&url.trust)?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("utxokeep-sql")
            .enable_all()
            .build()
            .map_err(|source| SqlError::Unavailable { source: Box::new(source) })?;
        let settings = session_settings(config.get_options().unwrap_or(""), &options);
        config.options(settings);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(ANSWER_GRACE);
        }
        if config.get_application_name().is_none() {
            config.application_name("utxokeep");
        }
        let wait_max = Duration::from_millis(options.busy_timeout_ms);
        let pool = Pool::new(options.connections_max, wait_max);
        let runtime = Arc::new(OwnRuntime(Some(runtime)));
        let (marks, planning) = (Arc::default(), Arc::default());
        let promises = Promises::default();
        let mut engine = Self { config, tls, options, runtime, marks, planning, promises, pool };
        // Shows early whether the server is there.
        let mut lease = engine.pool.take(|| engine.connect())?;
        lease.check_server()?;
        let promises = lease.ask_promises()?;
        if let Some(schema) = &engine.options.schema
            && engine.options.mode == OpenMode::Create
        {
            match lease.batch(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")) {
                // Two programs that start together may both find it missing.
                Err(SqlError::Constraint { .. }) | Ok(()) => {}
                Err(other) => return Err(other),
            }
        }
        drop(lease);
        engine.promises = promises;
        Ok(engine)
    }

    pub(crate) fn connect(&self) -> Result<PostgresConnection, SqlError> {
        let client = self.runtime.block_on(async {
            let (client, connection) = self.config.connect(self.tls.clone()).await?;
            // Ends when the client is dropped; its error reaches the client as well.
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        });
        let client = client.map_err(|failure| match tls::refusal(&failure) {
            Some(what) => SqlError::Unsuitable { what },
            None => match error(failure, 0) {
                SqlError::Engine { source } => SqlError::Unavailable { source },
                other => other,
            },
        })?;
        let timeout_ms = self.options.statement_timeout_ms;
        Ok(PostgresConnection {
            client,
            runtime: Arc::clone(&self.runtime),
            statements: Cache::new(self.options.statement_cache_max),
            timeout_ms,
            // A statement may first wait for a lock.
            answer_within: (timeout_ms > 0).then(|| {
                Duration::from_millis(timeout_ms + self.options.busy_timeout_ms) + ANSWER_GRACE
            }),
            broken: false,
            marks: Arc::clone(&self.marks),
            mark: None,
            planning: Arc::clone(&self.planning),
        })
    }

    /// From now on statements are planned to look rows up in an index. A setting that the server
    /// lacks is left out: one that is only compatible with `PostgreSQL` plans in its own way.
    pub(crate) fn plan_by_index(&self) -> Result<(), SqlError> {
        let mut settings = String::new();
        let mut lease = self.pool.take(|| self.connect())?;
        lease.query(&Shape::plain(server::PLANNING, 0), &[], &mut |row| {
            // Writing to a String cannot fail.
            let _ = write!(settings, "; SET LOCAL {} = off", row.text(0)?);
            Ok(())
        })?;
        lease.statements.clear();
        self.planning.get_or_init(|| settings);
        Ok(())
    }

    /// From now on commits are marked, so that one whose answer is lost can be looked up.
    pub(crate) fn mark_commits(&self) {
        self.marks.store(true, Ordering::Release);
    }
}

fn session_settings(given: &str, options: &Options) -> String {
    let mut settings = given.to_owned();
    let commit = match options.durability {
        // The user chose what to wait for, such as remote_apply.
        _ if given.contains("synchronous_commit") => "",
        Durability::Synced => " -c synchronous_commit=on",
        Durability::Relaxed => " -c synchronous_commit=off",
    };
    // Writing to a String cannot fail. A lock timeout of 0 would mean to wait for ever. Statements
    // are prepared once and used for long: planning them anew for each value takes longer than
    // most of them run.
    let _ = write!(
        settings,
        "{commit} -c statement_timeout={} -c lock_timeout={} \
         -c plan_cache_mode=force_generic_plan",
        options.statement_timeout_ms,
        options.busy_timeout_ms.max(1)
    );
    if let Some(schema) = &options.schema {
        let _ = write!(settings, " -c search_path={schema}");
    }
    settings
}

pub(crate) struct PostgresConnection {
    client: Client,
    runtime: Arc<OwnRuntime>,
    statements: Cache<Statement>,
    timeout_ms: u64,
    answer_within: Option<Duration>,
    broken: bool,
    marks: Arc<AtomicBool>,
    mark: Option<Mark>,
    planning: Arc<OnceLock<String>>,
}

impl Pooled for PostgresConnection {
    fn is_usable(&self) -> bool {
        !self.broken && !self.client.is_closed()
    }
}

impl PostgresConnection {
    /// Refuses a server that cannot do what is needed.
    fn check_server(&mut self) -> Result<(), SqlError> {
        let mut answers = [String::new(), String::new()];
        for (question, answer) in server::QUESTIONS.iter().zip(&mut answers) {
            self.query(&Shape::plain(question, 0), &[], &mut |row| {
                row.text(0)?.clone_into(answer);
                Ok(())
            })?;
        }
        // Nobody asks again on this connection.
        self.statements.clear();
        server::refusal(&answers).map_or(Ok(()), |what| Err(SqlError::Unsuitable { what }))
    }

    /// What an answered commit survives; nothing is known of a server that does not say.
    fn ask_promises(&mut self) -> Result<Promises, SqlError> {
        let mut found = Promises::default();
        let asked = self.query(&Shape::plain(server::PROMISES, 0), &[], &mut |row| {
            found = Promises {
                version: row.text(0)?.to_owned(),
                synchronous_commit: row.text(1)?.to_owned(),
                synchronous_standbys: row.text(2)?.to_owned(),
                fsync: row.text(3)?.to_owned(),
            };
            Ok(())
        });
        self.statements.clear();
        match asked {
            Err(error @ SqlError::Unavailable { .. }) => Err(error),
            _ => Ok(found),
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self, how: &str) -> Result<(), SqlError> {
        match self.planning.get() {
            Some(settings) => self.batch(&format!("{how}{settings}")),
            None => self.batch(how),
        }
    }

    /// Runs text that divides a transaction.
    pub(crate) fn control(&mut self, sql: &str) -> Result<(), SqlError> {
        self.batch(sql)
    }

    /// Makes the row in which commits of this connection are marked, before the first of them.
    pub(crate) fn register(&mut self) -> Result<(), SqlError> {
        if self.mark.is_none() && self.marks.load(Ordering::Acquire) {
            let mark = Mark::new()?;
            self.batch(&mark.registration())?;
            self.mark = Some(mark);
        }
        Ok(())
    }

    /// Anything but a clear answer of the server leaves open what became of the commit.
    pub(crate) fn commit(&mut self, wrote: bool) -> Result<(), (SqlError, Option<Doubt>)> {
        let Some(mark) = self.mark.take_if(|_| wrote) else {
            return self.batch("COMMIT").map_err(|error| (self.unknown(error), None));
        };
        match self.batch(&mark.commit()) {
            Ok(()) => {
                self.mark = Some(mark.committed());
                Ok(())
            }
            // Its row is gone or was moved: another connection took this one for lost. The next
            // transaction makes a row anew.
            Err(SqlError::Constraint { source, .. }) if is_division_by_zero(&source) => {
                let reason = RetryReason::Serialization;
                Err((SqlError::Transient { reason, source }, None))
            }
            Err(error) => match self.unknown(error) {
                error @ SqlError::CommitUnknown { .. } => Err((error, Some(mark.into_doubt()))),
                error => {
                    self.mark = Some(mark);
                    Err((error, None))
                }
            },
        }
    }

    /// What an error of a commit says about its outcome.
    fn unknown(&self, error: SqlError) -> SqlError {
        match error {
            SqlError::Unavailable { source } => SqlError::CommitUnknown { source },
            SqlError::Engine { source } if self.client.is_closed() => {
                SqlError::CommitUnknown { source }
            }
            error => error,
        }
    }

    pub(crate) fn rollback(&mut self) {
        if self.is_usable() && self.batch("ROLLBACK").is_err() {
            self.broken = true;
        }
    }

    /// Runs text without parameters. It may change tables, so prepared statements are dropped.
    pub(crate) fn definitions(&mut self, sql: &str) -> Result<(), SqlError> {
        self.statements.clear();
        self.batch(sql)
    }

    pub(crate) fn execute(
        &mut self,
        shape: &Shape<'_>,
        parameters: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        let statement = self.prepare(shape, parameters.iter())?;
        let parameters = parameters.iter().map(Value::as_postgres);
        let (runtime, call) = (&self.runtime, self.client.execute_raw(&statement, parameters));
        let outcome = runtime.block_on(within(self.answer_within, call));
        self.settle(outcome)
    }

    pub(crate) fn execute_chunks(
        &mut self,
        chunks: &[Chunk<'_, '_>],
        fixed: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        let mut sum = 0;
        for window in chunks.chunks(PIPELINE_STATEMENTS_MAX) {
            let statements = self.prepare_chunks(window, fixed)?;
            let calls = window.iter().zip(&statements).map(|(chunk, statement)| {
                let parameters: Vec<_> = chunk.parameters(fixed).map(Value::as_postgres).collect();
                self.client.execute_raw(statement, parameters)
            });
            let answers = within(self.answer_within, async { Ok(join_all(calls).await) });
            let answers = self.runtime.block_on(answers);
            // In order: what fails after the first failure fails because of it.
            for answer in self.settle(answers)? {
                sum += self.settle(answer.map_err(Failure::Driver))?;
            }
        }
        Ok(sum)
    }

    pub(crate) fn query(
        &mut self,
        shape: &Shape<'_>,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let statement = self.prepare(shape, parameters.iter())?;
        let parameters = parameters.iter().map(Value::as_postgres);
        let call = self.client.query_raw(&statement, parameters);
        let outcome = self.runtime.block_on(within(self.answer_within, call));
        let mut rows = pin!(self.settle(outcome)?.ready_chunks(ROWS_PER_TURN_MAX));
        // The callback runs outside of the runtime, so that it may use a database as well.
        loop {
            let next = async { Ok(rows.next().await) };
            let outcome = self.runtime.block_on(within(self.answer_within, next));
            let Some(turn) = self.settle(outcome)? else {
                return Ok(());
            };
            for row in turn {
                let row = self.settle(row.map_err(Failure::Driver))?;
                each(&Row(RowOf::Postgres(&row)))?;
            }
        }
    }

    pub(crate) fn query_together(
        &mut self,
        statements: &[(&Shape<'_>, &[Value<'_>])],
        each: &mut dyn FnMut(usize, &Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut prepared = Vec::with_capacity(statements.len());
        for (shape, parameters) in statements {
            prepared.push(self.prepare(shape, parameters.iter())?);
        }
        let calls = statements.iter().zip(&prepared).map(|((_, parameters), statement)| {
            let call = self.client.query_raw(statement, parameters.iter().map(Value::as_postgres));
            async { call.await?.try_collect::<Vec<_>>().await }
        });
        let answers = within(self.answer_within, async { Ok(join_all(calls).await) });
        let answers = self.runtime.block_on(answers);
        // In order: what fails after the first failure fails because of it.
        for (at, answer) in self.settle(answers)?.into_iter().enumerate() {
            for row in &self.settle(answer.map_err(Failure::Driver))? {
                each(at, &Row(RowOf::Postgres(row)))?;
            }
        }
        Ok(())
    }

    pub(crate) fn query_chunks(
        &mut self,
        chunks: &[Chunk<'_, '_>],
        fixed: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        for window in chunks.chunks(PIPELINE_STATEMENTS_MAX) {
            let statements = self.prepare_chunks(window, fixed)?;
            let calls = window.iter().zip(&statements).map(|(chunk, statement)| {
                let parameters: Vec<_> = chunk.parameters(fixed).map(Value::as_postgres).collect();
                let call = self.client.query_raw(statement, parameters);
                async { call.await?.try_collect::<Vec<_>>().await }
            });
            let answers = within(self.answer_within, async { Ok(join_all(calls).await) });
            let answers = self.runtime.block_on(answers);
            for answer in self.settle(answers)? {
                for row in &self.settle(answer.map_err(Failure::Driver))? {
                    each(&Row(RowOf::Postgres(row)))?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn cached_statements(&self) -> usize {
        self.statements.len()
    }

    fn batch(&mut self, sql: &str) -> Result<(), SqlError> {
        let call = self.client.batch_execute(sql);
        let outcome = self.runtime.block_on(within(self.answer_within, call));
        self.settle(outcome)
    }

    fn prepare_chunks(
        &mut self,
        chunks: &[Chunk<'_, '_>],
        fixed: &[Value<'_>],
    ) -> Result<Vec<Statement>, SqlError> {
        chunks
            .iter()
            .map(|chunk| {
                let one_row = chunk.shape.fixed + chunk.shape.columns;
                self.prepare(&chunk.shape, chunk.parameters(fixed).take(one_row))
            })
            .collect()
    }

    /// The statement for a shape; `sample` are the fixed parameters and those of one row.
    fn prepare<'v>(
        &mut self,
        shape: &Shape<'_>,
        sample: impl Iterator<Item = &'v Value<'v>>,
    ) -> Result<Statement, SqlError> {
        let kinds: Vec<Kind> = sample.map(Value::kind).collect();
        if let Some(statement) = self.statements.get(shape, &kinds) {
            return Ok(statement);
        }
        let (fixed, row) = kinds.split_at(shape.fixed.min(kinds.len()));
        let rows = std::iter::repeat_n(row, shape.rows).flatten();
        let types: Vec<_> = fixed.iter().chain(rows).map(|kind| kind.postgres()).collect();
        let text = shape.text(Dialect::Postgres)?;
        let call = self.client.prepare_typed(&text, &types);
        let outcome = self.runtime.block_on(within(self.answer_within, call));
        let statement = self.settle(outcome)?;
        self.statements.put(shape, &kinds, statement.clone());
        Ok(statement)
    }

    /// Turns a driver's answer into ours; a connection that is lost or silent is given up.
    fn settle<T>(&mut self, outcome: Result<T, Failure>) -> Result<T, SqlError> {
        outcome.map_err(|failure| {
            let error = match failure {
                Failure::Driver(failure) => error(failure, self.timeout_ms),
                Failure::Silence => {
                    SqlError::Unavailable { source: "the server does not answer".into() }
                }
            };
            self.broken |= matches!(error, SqlError::Unavailable { .. });
            error
        })
    }
}

enum Failure {
    Driver(tokio_postgres::Error),
    Silence,
}

async fn within<T>(
    limit: Option<Duration>,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    let Some(limit) = limit else {
        return call.await.map_err(Failure::Driver);
    };
    match tokio::time::timeout(limit, call).await {
        Ok(outcome) => outcome.map_err(Failure::Driver),
        Err(_) => Err(Failure::Silence),
    }
}

fn error(failure: tokio_postgres::Error, timeout_ms: u64) -> SqlError {
    let Some(code) = failure.code().cloned() else {
        let source = Box::new(failure);
        // Without an answer of the server: the connection is gone or could not be made.
        let lost = source.is_closed() || std::error::Error::source(&*source).is_some_and(is_io);
        return if lost { SqlError::Unavailable { source } } else { SqlError::Engine { source } };
    };
    let reason = if code == SqlState::T_R_SERIALIZATION_FAILURE {
        Some(RetryReason::Serialization)
    } else if code == SqlState::T_R_DEADLOCK_DETECTED {
        Some(RetryReason::Deadlock)
    } else if code == SqlState::LOCK_NOT_AVAILABLE {
        Some(RetryReason::Busy)
    } else {
        None
    };
    if let Some(reason) = reason {
        return SqlError::Transient { reason, source: with_details(failure) };
    }
    if code == SqlState::QUERY_CANCELED {
        return SqlError::StatementTimeout { timeout_ms };
    }
    match code.code().get(..2) {
        // Values that do not fit, and what triggers refuse, are refused rows as well.
        Some("22" | "23" | "P0") => constraint(&code, failure),
        Some("08") => SqlError::Unavailable { source: with_details(failure) },
        Some("57") if code.code().starts_with("57P") => {
            SqlError::Unavailable { source: with_details(failure) }
        }
        Some("XX") if code == SqlState::DATA_CORRUPTED || code == SqlState::INDEX_CORRUPTED => {
            SqlError::Damaged { source: with_details(failure) }
        }
        _ => SqlError::Engine { source: with_details(failure) },
    }
}

fn is_division_by_zero(source: &crate::error::Source) -> bool {
    let answer = source.downcast_ref::<tokio_postgres::error::DbError>();
    answer.is_some_and(|answer| *answer.code() == SqlState::DIVISION_BY_ZERO)
}

/// Whether the server lacks nothing but leave for this user.
pub(crate) fn is_not_allowed(error: &SqlError) -> bool {
    let SqlError::Engine { source } = error else { return false };
    let answer = source.downcast_ref::<tokio_postgres::error::DbError>();
    answer.is_some_and(|answer| *answer.code() == SqlState::INSUFFICIENT_PRIVILEGE)
}

fn is_io(source: &(dyn std::error::Error + 'static)) -> bool {
    source.is::<std::io::Error>()
}

/// The driver's own text for an answer of the server is "db error"; the answer says more.
fn with_details(failure: tokio_postgres::Error) -> crate::error::Source {
    match failure.as_db_error() {
        Some(answer) => Box::new(answer.clone()),
        None => Box::new(failure),
    }
}

fn constraint(code: &SqlState, failure: tokio_postgres::Error) -> SqlError {
    let kind = match code.code() {
        "23505" => ConstraintKind::Unique,
        "23503" => ConstraintKind::ForeignKey,
        "23514" => ConstraintKind::Check,
        "23502" => ConstraintKind::NotNull,
        _ => ConstraintKind::Other,
    };
    let name = failure.as_db_error().map_or_else(String::new, |answer| {
        match (answer.constraint(), answer.table(), answer.column()) {
            (Some(name), _, _) => name.to_owned(),
            (None, Some(table), Some(column)) => format!("{table}.{column}"),
            _ => String::new(),
        }
    });
    SqlError::Constraint { kind, name, source: with_details(failure) }
}
