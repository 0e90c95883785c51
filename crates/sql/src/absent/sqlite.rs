//! A build without `SQLite`.

use std::convert::Infallible;
use std::path::PathBuf;

use super::Connection;
use crate::error::SqlError;
use crate::options::Options;
use crate::pool::Pool;
use crate::sqlite_file::DatabaseTrouble;
use crate::value::Cell;

/// Rows of `SQLite` borrow from their statement.
pub(crate) type SqliteRow<'r> = Borrowed<&'r super::NoRow>;

pub(crate) struct Borrowed<R>(R);

impl<'r> SqliteRow<'r> {
    pub(crate) fn cell(&self, index: usize) -> Result<Cell<'r>, SqlError> {
        self.0.cell(index)
    }
}

pub(crate) struct SqliteEngine {
    pub(crate) writer: Pool<SqliteConnection>,
    pub(crate) readers: Pool<SqliteConnection>,
    never: Infallible,
}

impl SqliteEngine {
    pub(crate) fn open(_file: PathBuf, _options: Options) -> Result<Self, SqlError> {
        Err(super::refused("SQLite", "sqlite"))
    }

    pub(crate) fn connect(&self, _writes: bool) -> Result<SqliteConnection, SqlError> {
        match self.never {}
    }

    pub(crate) fn disk_bytes(&self) -> Option<u64> {
        match self.never {}
    }

    pub(crate) fn trouble(&self) -> Option<DatabaseTrouble> {
        match self.never {}
    }
}

pub(crate) struct SqliteConnection(Connection);

impl std::ops::Deref for SqliteConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl crate::pool::Pooled for SqliteConnection {
    fn is_usable(&self) -> bool {
        self.0.is_usable()
    }
}

impl SqliteConnection {
    pub(crate) fn batch(&self, _sql: &str) -> Result<(), SqlError> {
        match self.0.0 {}
    }

    pub(crate) fn commit(&self) -> Result<(), SqlError> {
        match self.0.0 {}
    }
}
