//! A build without `PostgreSQL`.

use std::convert::Infallible;

use super::Connection;
use crate::doubt::Doubt;
use crate::error::SqlError;
use crate::options::Options;
use crate::pool::Pool;
use crate::server::Promises;
use crate::statement::Shape;
use crate::value::{Row, Value};

pub(crate) use super::NoRow as PostgresRow;

/// The place of a server, which nothing can connect to.
pub(crate) struct ServerUrl(Infallible);

impl ServerUrl {
    pub(crate) fn parse(_url: &str) -> Result<Self, SqlError> {
        Err(super::refused("PostgreSQL", "postgres"))
    }
}

pub(crate) struct PostgresEngine {
    pub(crate) promises: Promises,
    pub(crate) pool: Pool<PostgresConnection>,
    never: Infallible,
}

impl PostgresEngine {
    pub(crate) fn open(url: ServerUrl, _options: Options) -> Result<Self, SqlError> {
        match url.0 {}
    }

    pub(crate) fn connect(&self) -> Result<PostgresConnection, SqlError> {
        match self.never {}
    }

    pub(crate) fn plan_by_index(&self) -> Result<(), SqlError> {
        match self.never {}
    }

    pub(crate) fn mark_commits(&self) {
        match self.never {}
    }
}

pub(crate) struct PostgresConnection(Connection);

impl std::ops::Deref for PostgresConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl crate::pool::Pooled for PostgresConnection {
    fn is_usable(&self) -> bool {
        self.0.is_usable()
    }
}

impl PostgresConnection {
    pub(crate) fn register(&self) -> Result<(), SqlError> {
        match self.0.0 {}
    }

    pub(crate) fn control(&self, _sql: &str) -> Result<(), SqlError> {
        match self.0.0 {}
    }

    pub(crate) fn definitions(&self, _sql: &str) -> Result<(), SqlError> {
        match self.0.0 {}
    }

    pub(crate) fn commit(&self, _wrote: bool) -> Result<(), (SqlError, Option<Doubt>)> {
        match self.0.0 {}
    }

    pub(crate) fn query_together(
        &self,
        _statements: &[(&Shape<'_>, &[Value<'_>])],
        _each: &mut dyn FnMut(usize, &Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        match self.0.0 {}
    }
}

pub(crate) fn is_not_allowed(_error: &SqlError) -> bool {
    false
}
