//! `SQLite` keeps the statements that made its tables, views, indexes and triggers.

use std::collections::BTreeMap;

use super::{Definitions, Kind, Object};
use crate::error::SqlError;
use crate::migration::Migration;
#[cfg(feature = "sqlite")]
use crate::options::Dialect;
#[cfg(feature = "sqlite")]
use crate::sqlite;
use crate::transaction::Transaction;

/// The first table of every database, which tells the program that made it.
const FIRST_TABLE: &str = "utxokeep_migrations";
const STRICT: &str = " STRICT";

const SELECT: &str = "SELECT type, tbl_name, name, sql FROM sqlite_schema WHERE sql IS NOT NULL";

#[cfg(not(feature = "sqlite"))]
pub(super) fn expected(_migrations: &[Migration]) -> Result<Definitions, SqlError> {
    unreachable!("no database of an engine that is not built can be open")
}

#[cfg(feature = "sqlite")]
pub(super) fn expected(migrations: &[Migration]) -> Result<Definitions, SqlError> {
    let made = rusqlite::Connection::open_in_memory().map_err(sqlite::error)?;
    for step in migrations {
        made.execute_batch(&Dialect::Sqlite.render(step.up)?).map_err(sqlite::error)?;
    }
    let mut found = BTreeMap::new();
    let mut statement = made.prepare(SELECT).map_err(sqlite::error)?;
    let mut rows = statement.query([]).map_err(sqlite::error)?;
    while let Some(row) = rows.next().map_err(sqlite::error)? {
        let text = |column| row.get::<_, String>(column).map_err(sqlite::error);
        let (object, definition) = read(&text(0)?, &text(1)?, &text(2)?, &text(3)?)?;
        found.insert(object, definition);
    }
    Ok(Definitions(found))
}

pub(super) fn stored(tx: &mut Transaction<'_>) -> Result<Definitions, SqlError> {
    let mut found = BTreeMap::new();
    tx.query(SELECT, &[], |row| {
        let (object, definition) = read(row.text(0)?, row.text(1)?, row.text(2)?, row.text(3)?)?;
        found.insert(object, definition);
        Ok(())
    })?;
    // An older program made tables that are not strict; what it made stays as it is.
    let is_first = |object: &Object| object.kind == Kind::Table && object.name == FIRST_TABLE;
    let first = found.iter().find(|(object, _)| is_first(object));
    if first.is_some_and(|(_, definition)| !definition.ends_with(STRICT)) {
        for (object, definition) in &mut found {
            if object.kind == Kind::Table && !definition.ends_with(STRICT) {
                definition.push_str(STRICT);
            }
        }
    }
    Ok(Definitions(found))
}

fn read(kind: &str, table: &str, name: &str, sql: &str) -> Result<(Object, String), SqlError> {
    let (table, name) = (table.to_owned(), name.to_owned());
    let (mut definition, is_strict) = normalised(sql);
    if is_strict {
        definition.push_str(STRICT);
    }
    Ok((Object { kind: Kind::from_name(kind)?, table, name }, definition))
}

/// A statement without what means nothing: spaces, and quotes around names. A table that an older
/// program made has other words for whole numbers. Whether it is strict is told apart.
fn normalised(sql: &str) -> (String, bool) {
    let mut words: Vec<String> = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (word, behind) = rest.split_at(length);
        rest = behind;
        match word {
            "\"" | "`" => {}
            "BIGINT" | "SMALLINT" => words.push("INT".to_owned()),
            _ if first.is_whitespace() => {}
            _ => words.push(word.to_owned()),
        }
    }
    let is_strict = words.pop_if(|word| word == "STRICT").is_some();
    if is_strict {
        words.pop_if(|word| word == ",");
    }
    (words.join(" "), is_strict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_meaning_is_compared() {
        let same = [
            "CREATE TABLE t (a INT NOT NULL, CHECK (a IN ('b  c')))",
            "CREATE TABLE \"t\"(a BIGINT NOT NULL,\n CHECK (a IN ('b  c'))) STRICT",
        ];
        assert_eq!(normalised(same[0]).0, normalised(same[1]).0);
        assert!(!normalised(same[0]).1 && normalised(same[1]).1);
        let kept = "CREATE TABLE t (a INT) WITHOUT ROWID";
        let strict = normalised("CREATE TABLE t (a INT) WITHOUT ROWID, STRICT");
        assert_eq!((normalised(kept).0, true), strict);
        for other in [
            "CREATE TABLE t (a INT NOT NULL, CHECK (a IN ('b c')))",
            "CREATE TABLE t (a INT, CHECK (a IN ('b  c')))",
        ] {
            assert_ne!(normalised(same[0]).0, normalised(other).0);
        }
    }
}
