//! `SQLite` keeps the statements that made its tables, views, indexes and triggers.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::{Definitions, Kind, Object};
use crate::error::SqlError;
use crate::migration::Migration;
use crate::options::Dialect;
use crate::sqlite;
use crate::transaction::Transaction;

const SELECT: &str = "SELECT type, tbl_name, name, sql FROM sqlite_schema WHERE sql IS NOT NULL";

pub(super) fn expected(migrations: &[Migration]) -> Result<Definitions, SqlError> {
    let made = Connection::open_in_memory().map_err(sqlite::error)?;
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
    Ok(Definitions(found))
}

fn read(kind: &str, table: &str, name: &str, sql: &str) -> Result<(Object, String), SqlError> {
    let (table, name) = (table.to_owned(), name.to_owned());
    Ok((Object { kind: Kind::from_name(kind)?, table, name }, normalised(sql)))
}

/// A statement without what means nothing: spaces, and quotes around names. A table that an older
/// program made has other words for whole numbers and is not strict; it holds the same rows.
fn normalised(sql: &str) -> String {
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
    if words.last().is_some_and(|word| word == "STRICT") {
        words.pop();
        words.pop_if(|word| word == ",");
    }
    words.join(" ")
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
        assert_eq!(normalised(same[0]), normalised(same[1]));
        let kept = "CREATE TABLE t (a INT) WITHOUT ROWID";
        assert_eq!(normalised(kept), normalised("CREATE TABLE t (a INT) WITHOUT ROWID, STRICT"));
        for other in [
            "CREATE TABLE t (a INT NOT NULL, CHECK (a IN ('b c')))",
            "CREATE TABLE t (a INT, CHECK (a IN ('b  c')))",
        ] {
            assert_ne!(normalised(same[0]), normalised(other));
        }
    }
}
