//! `SQLite`: one connection writes, others read, in WAL mode so that neither waits for the other.

use crate::error::{ConstraintKind, RetryReason, SqlError};
use crate::options::{Dialect, Durability, Options};
use crate::pool::{Pool, Pooled};
use crate::sqlite_file::{DatabaseTrouble, SqliteFile};
use crate::statement::{Cache, Chunk, Shape};
use crate::value::{Row, RowOf, Value};
pub(crate) use rusqlite::Row as SqliteRow;
use rusqlite::config::DbConfig;
use rusqlite::types::ToSqlOutput;
use rusqlite::{CachedStatement, Connection, OpenFlags, ffi};
use std::fs::OpenOptions;
use std::os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use utxokeep_core::{Found, OpenMode};

/// Virtual machine steps between two looks at the clock: below a millisecond apart.
const STEPS_PER_CLOCK_CHECK: i32 = 20_000;

/// Page cache of the one connection that writes, and of each that reads.
const WRITER_CACHE_KIB: u32 = 256 * 1_024;
const READER_CACHE_KIB: u32 = 8 * 1_024;

/// Pages of 4 KiB in the log before they are moved to the file. Random keys touch many pages, so
/// that moving them seldom saves most of the writes.
const LOG_PAGES_MAX: u32 = 16_384;

pub(crate) struct SqliteEngine {
    file: PathBuf,
    /// Known once it is open.
    known: OnceLock<SqliteFile>,
    options: Options,
    pub(crate) writer: Pool<SqliteConnection>,
    pub(crate) readers: Pool<SqliteConnection>,
}

impl SqliteEngine {
    pub(crate) fn open(file: PathBuf, options: Options) -> Result<Self, SqlError> {
        refuse_lost_file(&file)?;
        let found = if has_bytes(&file) { Found::Current } else { Found::Nothing };
        if options.mode.decide(found).is_err() {
            return Err(SqlError::NotFound { file });
        }
        let wait_max = Duration::from_millis(options.busy_timeout_ms);
        let engine = Self {
            file,
            known: OnceLock::new(),
            writer: Pool::new(1, wait_max),
            readers: Pool::new(options.connections_max - 1, wait_max),
            options,
        };
        // Creates the file if it may, and shows early whether it is a database.
        engine.writer.take(|| engine.connect(true))?;
        let known = SqliteFile::at(&engine.file);
        let known = known.map_err(|error| SqlError::Unavailable { source: Box::new(error) })?;
        engine.known.get_or_init(|| known);
        Ok(engine)
    }

    /// Opens one more connection, to the same file as the first.
    pub(crate) fn connect(&self, writes: bool) -> Result<SqliteConnection, SqlError> {
        if let Some(lost) = self.known.get().and_then(SqliteFile::lost) {
            return Err(SqlError::Unavailable { source: lost.into() });
        }
        SqliteConnection::open(&self.file, writes, &self.options)
    }

    /// Length of the file and its log.
    pub(crate) fn disk_bytes(&self) -> Option<u64> {
        let file = self.file.metadata().ok()?.len();
        let log = log_of(&self.file).metadata().map_or(0, |log| log.len());
        Some(file + log)
    }

    /// Why no writes are taken at present, as far as the file tells.
    pub(crate) fn trouble(&self) -> Option<DatabaseTrouble> {
        self.known.get().and_then(SqliteFile::trouble)
    }
}

/// `SQLite` takes a missing file for a new database and deletes the log beside it, which may hold
/// everything.
fn refuse_lost_file(file: &Path) -> Result<(), SqlError> {
    let log = log_of(file);
    if !has_bytes(file) && has_bytes(&log) {
        return Err(SqlError::LostFile { file: file.to_owned(), log });
    }
    Ok(())
}

fn has_bytes(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
}

/// Of a file that nobody changes while it is open.
const READ_UNCHANGING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_URI);

/// How to open a file on a disk that takes no writes, such as a backup: `SQLite` would want to make
/// a log beside it. Not where there is a log already: somebody may be using it from elsewhere.
fn unchanging(file: &Path) -> Option<String> {
    use std::fmt::Write as _;

    let disk = rustix::fs::statvfs(file).ok()?;
    let takes_no_writes = disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    if !takes_no_writes || log_of(file).exists() {
        return None;
    }
    let mut uri = String::from("file:");
    for byte in std::path::absolute(file).ok()?.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            other => write!(uri, "%{other:02X}").expect("writing to a string does not fail"),
        }
    }
    uri.push_str("?immutable=1");
    Some(uri)
}

/// Where `SQLite` keeps the log of a database.
fn log_of(file: &Path) -> PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

pub(crate) struct SqliteConnection {
    connection: Connection,
    texts: Cache<Arc<str>>,
    deadline: Arc<Deadline>,
    timeout_ms: u64,
}

impl Pooled for SqliteConnection {
    fn is_usable(&self) -> bool {
        self.connection.is_autocommit()
    }
}

impl SqliteConnection {
    fn open(file: &Path, writes: bool, options: &Options) -> Result<Self, SqlError> {
        // One that only reads is opened for writing too: it has to read the log, and whoever closes
        // a database last removes the files beside it, which takes that right.
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if options.mode == OpenMode::Create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
            // Who owns what is nobody else's business. The files beside it get the same rights. Where
            // this fails, opening fails as well and says why.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        }
        // What a killed program left in its log is read there. The last that closes a database moves
        // it to the file, which is to write.
        let keeps_log = !options.mode.may_write() && has_bytes(&log_of(file));
        let mut connection = match unchanging(file).filter(|_| !options.mode.may_write()) {
            Some(uri) => Connection::open_with_flags(uri, READ_UNCHANGING),
            None => Connection::open_with_flags(file, flags),
        }
        .map_err(error)?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keeps_log)
            .map_err(error)?;
        connection.busy_timeout(Duration::from_millis(options.busy_timeout_ms)).map_err(error)?;
        let synchronous = match options.durability {
            Durability::Synced => "FULL",
            Durability::Relaxed => "OFF",
        };
        let (query_only, cache_kib) =
            if writes { ("OFF", WRITER_CACHE_KIB) } else { ("ON", READER_CACHE_KIB) };
        // The mode is a part of the file, and a file that exists may be of another program.
        let journal =
            if options.mode == OpenMode::Create { "PRAGMA journal_mode = WAL;" } else { "" };
        let query_only = if options.mode.may_write() { query_only } else { "ON" };
        connection
            .execute_batch(&format!(
                "{journal} PRAGMA synchronous = {synchronous};
                 PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;
                 PRAGMA cache_size = -{cache_kib}; PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX};
                 PRAGMA query_only = {query_only}"
            ))
            .map_err(error)?;
        // A plan must not depend on the values of parameters: the engine would make it anew for each
        // value, which takes longer than most statements run.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(error)?;
        connection.set_prepared_statement_cache_capacity(options.statement_cache_max);
        let deadline = Arc::new(Deadline::new());
        if options.statement_timeout_ms > 0 {
            let watched = Arc::clone(&deadline);
            let is_unwanted = if writes { || false } else { options.is_unwanted };
            let must_end = move || watched.has_passed() || is_unwanted();
            connection.progress_handler(STEPS_PER_CLOCK_CHECK, Some(must_end)).map_err(error)?;
        }
        let texts = Cache::new(options.statement_cache_max);
        Ok(Self { connection, texts, deadline, timeout_ms: options.statement_timeout_ms })
    }

    pub(crate) fn begin(&mut self, writes: bool) -> Result<(), SqlError> {
        self.batch(if writes { "BEGIN IMMEDIATE" } else { "BEGIN DEFERRED" })
    }

    /// A disk that fails while committing leaves open whether the commit is there after a crash.
    pub(crate) fn commit(&mut self) -> Result<(), SqlError> {
        self.deadline.clear();
        self.connection.execute_batch("COMMIT").map_err(|failure| match failure.sqlite_error() {
            Some(code) if code.extended_code & 0xff == ffi::SQLITE_IOERR => {
                SqlError::CommitUnknown { source: Box::new(failure) }
            }
            _ => error(failure),
        })
    }

    /// Some errors have ended the transaction already; then there is nothing left to do.
    pub(crate) fn rollback(&mut self) {
        self.deadline.clear();
        if !self.connection.is_autocommit() {
            // When it fails the connection stays inside a transaction and leaves the pool.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), SqlError> {
        self.deadline.start(self.timeout_ms);
        self.connection.execute_batch(sql).map_err(|failure| error_within(failure, self.timeout_ms))
    }

    pub(crate) fn execute(
        &mut self,
        shape: &Shape<'_>,
        parameters: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        self.execute_bound(shape, parameters.iter())
    }

    pub(crate) fn execute_chunks(
        &mut self,
        chunks: &[Chunk<'_, '_>],
        fixed: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        chunks.iter().try_fold(0, |sum, chunk| {
            Ok(sum + self.execute_bound(&chunk.shape, chunk.parameters(fixed))?)
        })
    }

    pub(crate) fn query(
        &mut self,
        shape: &Shape<'_>,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        self.query_bound(shape, parameters.iter(), each)
    }

    pub(crate) fn query_chunks(
        &mut self,
        chunks: &[Chunk<'_, '_>],
        fixed: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        chunks
            .iter()
            .try_for_each(|chunk| self.query_bound(&chunk.shape, chunk.parameters(fixed), each))
    }

    pub(crate) fn cached_statements(&self) -> usize {
        self.texts.len()
    }

    fn execute_bound<'v>(
        &mut self,
        shape: &Shape<'_>,
        parameters: impl Iterator<Item = &'v Value<'v>>,
    ) -> Result<u64, SqlError> {
        let timeout_ms = self.timeout_ms;
        let mut statement = self.prepare(shape)?;
        bind(&mut statement, parameters)
            .and_then(|()| statement.raw_execute())
            .map(|rows| rows as u64)
            .map_err(|failure| error_within(failure, timeout_ms))
    }

    fn query_bound<'v>(
        &mut self,
        shape: &Shape<'_>,
        parameters: impl Iterator<Item = &'v Value<'v>>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let timeout_ms = self.timeout_ms;
        let failed = |failure| error_within(failure, timeout_ms);
        let mut statement = self.prepare(shape)?;
        bind(&mut statement, parameters).map_err(failed)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            each(&Row(RowOf::Sqlite(row)))?;
        }
        Ok(())
    }

    fn prepare(&mut self, shape: &Shape<'_>) -> Result<CachedStatement<'_>, SqlError> {
        let text = if let Some(text) = self.texts.get(shape, &[]) {
            text
        } else {
            let text = Arc::<str>::from(shape.text(Dialect::Sqlite)?);
            self.texts.put(shape, &[], Arc::clone(&text));
            text
        };
        self.deadline.start(self.timeout_ms);
        self.connection.prepare_cached(&text).map_err(error)
    }
}

fn bind<'v>(
    statement: &mut CachedStatement<'_>,
    parameters: impl Iterator<Item = &'v Value<'v>>,
) -> rusqlite::Result<()> {
    for (index, parameter) in (1_usize..).zip(parameters) {
        statement.raw_bind_parameter(index, ToSqlOutput::Borrowed(parameter.as_sqlite()))?;
    }
    Ok(())
}

/// When the running statement must end, in milliseconds since the connection was opened; 0 is
/// never.
struct Deadline {
    opened: Instant,
    at_ms: AtomicU64,
}

impl Deadline {
    fn new() -> Self {
        Self { opened: Instant::now(), at_ms: AtomicU64::new(0) }
    }

    fn start(&self, timeout_ms: u64) {
        let at_ms = if timeout_ms == 0 { 0 } else { self.now_ms() + timeout_ms };
        self.at_ms.store(at_ms, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.at_ms.store(0, Ordering::Relaxed);
    }

    fn has_passed(&self) -> bool {
        let at_ms = self.at_ms.load(Ordering::Relaxed);
        at_ms != 0 && self.now_ms() > at_ms
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }
}

pub(crate) fn error(failure: rusqlite::Error) -> SqlError {
    error_within(failure, 0)
}

fn error_within(failure: rusqlite::Error, timeout_ms: u64) -> SqlError {
    let extended = match &failure {
        rusqlite::Error::SqliteFailure(code, _) => code.extended_code,
        _ => return SqlError::Engine { source: Box::new(failure) },
    };
    match extended & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => {
            let snapshot = extended == ffi::SQLITE_BUSY_SNAPSHOT;
            let reason = if snapshot { RetryReason::Serialization } else { RetryReason::Busy };
            SqlError::Transient { reason, source: Box::new(failure) }
        }
        ffi::SQLITE_CONSTRAINT | ffi::SQLITE_MISMATCH => constraint(extended, failure),
        ffi::SQLITE_INTERRUPT => SqlError::StatementTimeout { timeout_ms },
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => SqlError::Damaged { source: Box::new(failure) },
        ffi::SQLITE_FULL => SqlError::DiskFull { source: Box::new(failure) },
        ffi::SQLITE_CANTOPEN => SqlError::Unavailable { source: Box::new(failure) },
        _ => SqlError::Engine { source: Box::new(failure) },
    }
}

fn constraint(extended: i32, failure: rusqlite::Error) -> SqlError {
    let kind = match extended {
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID => ConstraintKind::Unique,
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ConstraintKind::ForeignKey,
        ffi::SQLITE_CONSTRAINT_CHECK => ConstraintKind::Check,
        ffi::SQLITE_CONSTRAINT_NOTNULL => ConstraintKind::NotNull,
        _ => ConstraintKind::Other,
    };
    let message = failure.to_string();
    let name = message.split_once(" failed: ").map_or("", |(_, name)| name).to_owned();
    SqlError::Constraint { kind, name, source: Box::new(failure) }
}
