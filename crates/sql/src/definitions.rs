//! Definitions of a schema: what its migrations make, and what a database has now.
//!
//! There is no second list of what a schema consists of. The migrations are run once more, where
//! nobody sees it: on `SQLite` in memory, on `PostgreSQL` as temporary tables of a transaction that
//! is rolled back. So the engine itself writes both sides of the comparison, in the words of its
//! version.

mod postgres;
mod sqlite;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::database::Database;
use crate::error::SqlError;
use crate::migration::Migration;
use crate::options::Dialect;
use crate::transaction::Transaction;

/// What a definition is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Table,
    View,
    Column,
    Constraint,
    Index,
    Trigger,
    /// A trigger of the engine, which holds up a foreign key, and does not run.
    DisabledTrigger,
    Rule,
    Policy,
    /// A table whose rows show up in another one.
    Child,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Table,
        Self::View,
        Self::Column,
        Self::Constraint,
        Self::Index,
        Self::Trigger,
        Self::DisabledTrigger,
        Self::Rule,
        Self::Policy,
        Self::Child,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
            Self::Column => "column",
            Self::Constraint => "constraint",
            Self::Index => "index",
            Self::Trigger => "trigger",
            Self::DisabledTrigger => "disabled trigger",
            Self::Rule => "rule",
            Self::Policy => "policy",
            Self::Child => "child table",
        }
    }

    fn from_name(name: &str) -> Result<Self, SqlError> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| SqlError::bad_row("the engine lists an unknown kind of definition"))
    }
}

/// A named part of a schema, and the table that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: Kind,
    table: String,
    name: String,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, table, name } = self;
        match kind {
            Kind::Table | Kind::View => write!(f, "{} {name}", kind.name()),
            _ => write!(f, "{} {name} of {table}", kind.name()),
        }
    }
}

/// Tables, columns, constraints, indexes, views and triggers, each in the words of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definitions(BTreeMap<Object, String>);

/// In what a database differs from its migrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// The migrations make it, and the database does not have it.
    Missing,
    /// The database has it in another form.
    Changed,
    /// The database has it, no migration makes it, and it can change or refuse rows.
    Added,
}

/// A part of a schema that is not as its migrations make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFault {
    /// Kind and name.
    pub object: String,
    /// What is wrong with it.
    pub deviation: Deviation,
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.deviation {
            Deviation::Missing => "is missing",
            Deviation::Changed => "is not as the ledger made it",
            Deviation::Added => "was added",
        };
        write!(f, "{} {what}", self.object)
    }
}

impl Definitions {
    /// What `migrations` make on the engine of `database`. `None` where the engine does not let this
    /// user find out: on `PostgreSQL` that takes the right to make temporary tables.
    pub fn expected(
        database: &Database,
        migrations: &[Migration],
    ) -> Result<Option<Self>, SqlError> {
        match database.dialect() {
            Dialect::Sqlite => sqlite::expected(migrations).map(Some),
            Dialect::Postgres => postgres::expected(database, migrations),
        }
    }

    /// What the database has now, whatever made it.
    pub fn stored(tx: &mut Transaction<'_>) -> Result<Self, SqlError> {
        match tx.dialect() {
            Dialect::Sqlite => sqlite::stored(tx),
            Dialect::Postgres => postgres::stored(tx),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In what `stored` differs from these. What somebody added beside them is no fault as long as
    /// it can neither change nor refuse a row: a table, a view, an index that is not unique.
    #[must_use]
    pub fn faults(&self, stored: &Self) -> Vec<SchemaFault> {
        let mut faults = Vec::new();
        let mut add = |object: &Object, deviation| {
            faults.push(SchemaFault { object: object.to_string(), deviation });
        };
        for (object, definition) in &self.0 {
            match stored.0.get(object) {
                None => add(object, Deviation::Missing),
                Some(other) if other != definition => add(object, Deviation::Changed),
                Some(_) => {}
            }
        }
        let tables: BTreeSet<&str> = self.0.keys().map(|object| object.table.as_str()).collect();
        for (object, definition) in &stored.0 {
            let concerns = tables.contains(object.table.as_str())
                || (object.kind == Kind::Trigger && names_any(definition, &tables));
            if concerns && !self.0.contains_key(object) && is_active(object.kind, definition) {
                add(object, Deviation::Added);
            }
        }
        faults
    }
}

/// Whether something that nobody expects can change rows, hide them or refuse them.
fn is_active(kind: Kind, definition: &str) -> bool {
    match kind {
        Kind::Table | Kind::View => false,
        Kind::Index => definition.starts_with("CREATE UNIQUE"),
        _ => true,
    }
}

/// Whether a definition names one of the tables.
fn names_any(definition: &str, tables: &BTreeSet<&str>) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    definition.split(|c| !is_name(c)).any(|word| tables.contains(word))
}
