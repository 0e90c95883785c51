//! What `docs/schema.md` says of the tables is what there is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use utxokeep_sql::{Database, Options, migrate_down, migrate_up};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{FORMAT_VERSION, SQL_COMPONENT, SQL_MIGRATIONS, TABLES};

const PAGE: &str = include_str!("../../../docs/schema.md");

/// Columns by table, in order.
type Columns = BTreeMap<String, Vec<String>>;

/// Rows of the first table below a heading, cell by cell.
fn table_below(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// The names in backquotes.
fn names(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn documented() -> Columns {
    let rows = table_below("Node store in SQL");
    rows.iter().map(|row| (names(&row[0]).remove(0), names(&row[1]))).collect()
}

fn columns(database: &Database) -> Columns {
    let sql = match database.dialect() {
        utxokeep_sql::Dialect::Sqlite => {
            "SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c \
             WHERE m.type = 'table' AND m.name LIKE 'node%' ORDER BY m.name, c.cid"
        }
        utxokeep_sql::Dialect::Postgres => {
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) \
             FROM information_schema.columns WHERE table_schema = current_schema() \
             AND table_name LIKE 'node%' ORDER BY table_name, ordinal_position"
        }
    };
    let read = |row: &utxokeep_sql::Row<'_>| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()));
    let rows = database.read(|transaction| transaction.query_all(sql, &[], read)).unwrap();
    let mut columns = Columns::new();
    for (table, column) in rows {
        columns.entry(table).or_default().push(column);
    }
    columns
}

fn check(url: &str) {
    let database = Database::open(url, &Options::default()).unwrap();
    migrate_up(&database, SQL_COMPONENT, SQL_MIGRATIONS, 0).unwrap();
    assert_eq!(columns(&database), documented());
    migrate_down(&database, SQL_COMPONENT, SQL_MIGRATIONS, 0).unwrap();
    assert_eq!(columns(&database), Columns::new(), "the way back leaves nothing");
    migrate_up(&database, SQL_COMPONENT, SQL_MIGRATIONS, 0).unwrap();
    assert_eq!(columns(&database), documented());
}

#[test]
fn the_tables_of_sqlite_are_those_of_the_page() {
    let dir = tempfile::tempdir().unwrap();
    check(&format!("sqlite:{}", dir.path().join("db").display()));
}

#[test]
fn the_tables_of_postgres_are_those_of_the_page() {
    if let Some(database) = TestDatabase::create_or_skip() {
        check(database.url());
    }
}

#[test]
fn the_key_value_tables_are_those_of_the_page() {
    let rows = table_below("Node store tables (key-value)");
    let documented: Vec<_> = rows.iter().map(|row| names(&row[1]).remove(0)).collect();
    let tables: Vec<_> = TABLES.iter().map(|table| table.name).collect();
    assert_eq!(tables, documented);
    let ids: Vec<_> = rows.iter().map(|row| row[0].parse::<usize>().unwrap()).collect();
    assert_eq!(ids, (0..TABLES.len()).collect::<Vec<_>>());
    assert!(PAGE.contains(&format!("a database of their own, format version {FORMAT_VERSION}.")));
}
