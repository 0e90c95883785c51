//! Engines that this build does not have. No value of theirs exists, so that code for both engines
//! stays one text; opening one is refused.

use std::convert::Infallible;

use crate::error::SqlError;
use crate::pool::Pooled;
use crate::statement::{Chunk, Shape};
use crate::value::{Cell, Row, Value};

#[cfg(not(feature = "postgres"))]
pub(crate) mod postgres;
#[cfg(not(feature = "sqlite"))]
pub(crate) mod sqlite;

/// The refusal of a URL whose engine is missing.
fn refused(engine: &str, feature: &str) -> SqlError {
    SqlError::config(format!(
        "this build has no {engine}: it was compiled without the feature `{feature}`"
    ))
}

/// A connection that cannot be.
pub(crate) struct Connection(Infallible);

/// A row that cannot be.
pub(crate) struct NoRow(Infallible);

impl NoRow {
    pub(crate) fn cell(&self, _index: usize) -> Result<Cell<'_>, SqlError> {
        match self.0 {}
    }
}

impl Pooled for Connection {
    fn is_usable(&self) -> bool {
        match self.0 {}
    }
}

type Each<'e> = &'e mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>;

/// What connections of both engines can do.
impl Connection {
    pub(crate) fn begin<How>(&self, _: How) -> Result<(), SqlError> {
        match self.0 {}
    }

    pub(crate) fn rollback(&self) {
        match self.0 {}
    }

    pub(crate) fn cached_statements(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn execute(&self, _: &Shape<'_>, _: &[Value<'_>]) -> Result<u64, SqlError> {
        match self.0 {}
    }

    pub(crate) fn execute_chunks(
        &self,
        _: &[Chunk<'_, '_>],
        _: &[Value<'_>],
    ) -> Result<u64, SqlError> {
        match self.0 {}
    }

    pub(crate) fn query(
        &self,
        _: &Shape<'_>,
        _: &[Value<'_>],
        _: Each<'_>,
    ) -> Result<(), SqlError> {
        match self.0 {}
    }

    pub(crate) fn query_chunks(
        &self,
        _: &[Chunk<'_, '_>],
        _: &[Value<'_>],
        _: Each<'_>,
    ) -> Result<(), SqlError> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, Options};

    #[test]
    fn a_url_of_an_engine_that_is_absent_is_refused_by_name() {
        let refusal = |url| Database::open(url, &Options::default()).unwrap_err().to_string();
        if cfg!(not(feature = "sqlite")) {
            let told = refusal("sqlite:here.db");
            assert!(told.contains("this build has no SQLite"), "{told}");
        }
        if cfg!(not(feature = "postgres")) {
            let told = refusal("postgres://me:secret@host/name");
            assert!(told.contains("this build has no PostgreSQL"), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
