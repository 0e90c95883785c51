//! Values that go into statements and rows that come out.

use crate::error::SqlError;
use crate::postgres::PostgresRow;
use crate::sqlite::SqliteRow;
#[cfg(feature = "sqlite")]
use rusqlite::types::ValueRef;
#[cfg(feature = "postgres")]
use tokio_postgres::types::{ToSql, Type};

/// A parameter of a statement. Nulls have a type too, because `PostgreSQL` wants one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A 64-bit integer.
    Int(Option<i64>),
    /// Bytes.
    Bytes(Option<&'a [u8]>),
    /// Text.
    Text(Option<&'a str>),
}

/// The type of a [`Value`], part of the key of a prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Int,
    Bytes,
    Text,
}

impl Kind {
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(self) -> Type {
        match self {
            Self::Int => Type::INT8,
            Self::Bytes => Type::BYTEA,
            Self::Text => Type::TEXT,
        }
    }
}

impl Value<'_> {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Int(_) => Kind::Int,
            Self::Bytes(_) => Kind::Bytes,
            Self::Text(_) => Kind::Text,
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn as_postgres(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(value) => value,
            Self::Bytes(value) => value,
            Self::Text(value) => value,
        }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn as_sqlite(&self) -> ValueRef<'_> {
        match self {
            Self::Int(Some(value)) => ValueRef::Integer(*value),
            Self::Bytes(Some(value)) => ValueRef::Blob(value),
            Self::Text(Some(value)) => ValueRef::Text(value.as_bytes()),
            Self::Int(None) | Self::Bytes(None) | Self::Text(None) => ValueRef::Null,
        }
    }
}

macro_rules! value_from {
    ($variant:ident: $($source:ty => $convert:expr),+) => {$(
        impl<'a> From<$source> for Value<'a> {
            fn from(value: $source) -> Self {
                Self::$variant(Some($convert(value)))
            }
        }
        impl<'a> From<Option<$source>> for Value<'a> {
            fn from(value: Option<$source>) -> Self {
                Self::$variant(value.map($convert))
            }
        }
    )+};
}
value_from!(Int: i64 => i64::from, u32 => i64::from, i32 => i64::from, u16 => i64::from, u8 => i64::from, bool => i64::from);
value_from!(Bytes: &'a [u8] => std::convert::identity, &'a Vec<u8> => Vec::as_slice);
value_from!(Text: &'a str => std::convert::identity, &'a String => String::as_str);

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Self::Bytes(Some(value))
    }
}

impl<'a, const N: usize> From<Option<&'a [u8; N]>> for Value<'a> {
    fn from(value: Option<&'a [u8; N]>) -> Self {
        Self::Bytes(value.map(<[u8; N]>::as_slice))
    }
}

/// One row of a result; columns are numbered from 0.
pub struct Row<'r>(pub(crate) RowOf<'r>);

pub(crate) enum RowOf<'r> {
    Sqlite(&'r SqliteRow<'r>),
    Postgres(&'r PostgresRow),
}

/// What a cell holds, whatever the engine.
pub(crate) enum Cell<'r> {
    Null,
    Int(i64),
    Bytes(&'r [u8]),
    Text(&'r str),
}

impl<'r> Row<'r> {
    /// An integer. On `PostgreSQL` booleans and shorter integers count as integers too.
    pub fn int(&self, index: usize) -> Result<i64, SqlError> {
        self.opt_int(index)?.ok_or_else(|| null(index, "an integer"))
    }

    /// An integer or a null.
    pub fn opt_int(&self, index: usize) -> Result<Option<i64>, SqlError> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Int(value) => Ok(Some(value)),
            other => Err(mismatch(index, "an integer", &other)),
        }
    }

    /// Bytes, borrowed from the row.
    pub fn bytes(&self, index: usize) -> Result<&'r [u8], SqlError> {
        self.opt_bytes(index)?.ok_or_else(|| null(index, "bytes"))
    }

    /// Bytes or a null.
    pub fn opt_bytes(&self, index: usize) -> Result<Option<&'r [u8]>, SqlError> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Bytes(value) => Ok(Some(value)),
            other => Err(mismatch(index, "bytes", &other)),
        }
    }

    /// Bytes of exactly this length.
    pub fn array<const N: usize>(&self, index: usize) -> Result<[u8; N], SqlError> {
        let bytes = self.bytes(index)?;
        bytes.try_into().map_err(|_| {
            SqlError::bad_row(format!("column {index} has {} bytes, expected {N}", bytes.len()))
        })
    }

    /// Text, borrowed from the row.
    pub fn text(&self, index: usize) -> Result<&'r str, SqlError> {
        self.opt_text(index)?.ok_or_else(|| null(index, "text"))
    }

    /// Text or a null.
    pub fn opt_text(&self, index: usize) -> Result<Option<&'r str>, SqlError> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Text(value) => Ok(Some(value)),
            other => Err(mismatch(index, "text", &other)),
        }
    }

    fn cell(&self, index: usize) -> Result<Cell<'r>, SqlError> {
        match self.0 {
            RowOf::Sqlite(row) => sqlite_cell(row, index),
            RowOf::Postgres(row) => postgres_cell(row, index),
        }
    }
}

#[cfg(not(feature = "sqlite"))]
fn sqlite_cell<'r>(row: &'r SqliteRow<'r>, index: usize) -> Result<Cell<'r>, SqlError> {
    row.cell(index)
}

#[cfg(feature = "sqlite")]
fn sqlite_cell<'r>(row: &'r SqliteRow<'r>, index: usize) -> Result<Cell<'r>, SqlError> {
    let Ok(value) = row.get_ref(index) else {
        return Err(SqlError::ColumnMissing { index, columns: row.as_ref().column_count() });
    };
    match value {
        ValueRef::Null => Ok(Cell::Null),
        ValueRef::Integer(value) => Ok(Cell::Int(value)),
        ValueRef::Blob(value) => Ok(Cell::Bytes(value)),
        ValueRef::Text(value) => std::str::from_utf8(value)
            .map(Cell::Text)
            .map_err(|_| SqlError::bad_row(format!("column {index} is not UTF-8 text"))),
        ValueRef::Real(_) => Err(unsupported(index, "a floating point number")),
    }
}

#[cfg(not(feature = "postgres"))]
fn postgres_cell(row: &PostgresRow, index: usize) -> Result<Cell<'_>, SqlError> {
    row.cell(index)
}

#[cfg(feature = "postgres")]
fn postgres_cell(row: &PostgresRow, index: usize) -> Result<Cell<'_>, SqlError> {
    let Some(column) = row.columns().get(index) else {
        return Err(SqlError::ColumnMissing { index, columns: row.len() });
    };
    let type_ = column.type_();
    let cell = if *type_ == Type::INT8 {
        row.try_get::<_, Option<i64>>(index).map(|value| value.map(Cell::Int))
    } else if *type_ == Type::BYTEA {
        row.try_get::<_, Option<&[u8]>>(index).map(|value| value.map(Cell::Bytes))
    } else if [Type::TEXT, Type::VARCHAR, Type::NAME].contains(type_) {
        row.try_get::<_, Option<&str>>(index).map(|value| value.map(Cell::Text))
    } else if *type_ == Type::INT4 {
        row.try_get::<_, Option<i32>>(index).map(|value| value.map(|int| Cell::Int(int.into())))
    } else if *type_ == Type::INT2 {
        row.try_get::<_, Option<i16>>(index).map(|value| value.map(|int| Cell::Int(int.into())))
    } else if *type_ == Type::BOOL {
        row.try_get::<_, Option<bool>>(index).map(|value| value.map(|bit| Cell::Int(bit.into())))
    } else {
        return Err(unsupported(index, type_.name()));
    };
    match cell {
        Ok(cell) => Ok(cell.unwrap_or(Cell::Null)),
        Err(error) => Err(SqlError::bad_row(format!("column {index}: {error}"))),
    }
}

fn null(index: usize, expected: &'static str) -> SqlError {
    SqlError::ColumnType { index, expected, found: "null".to_owned() }
}

fn unsupported(index: usize, found: &str) -> SqlError {
    SqlError::ColumnType { index, expected: "an integer, bytes or text", found: found.to_owned() }
}

fn mismatch(index: usize, expected: &'static str, found: &Cell<'_>) -> SqlError {
    let found = match found {
        Cell::Null => "null",
        Cell::Int(_) => "an integer",
        Cell::Bytes(_) => "bytes",
        Cell::Text(_) => "text",
    };
    SqlError::ColumnType { index, expected, found: found.to_owned() }
}
