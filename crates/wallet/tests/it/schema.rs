//! The schema: up and down on both engines, and as `docs/sql.md` says.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_sql::{Database, Dialect, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::{MIGRATIONS, Micros, migrate, unmigrate};

const DOCUMENT: &str = include_str!("../../../../docs/sql.md");

/// Type and whether null is allowed, by table and column.
type Columns = BTreeMap<(String, String), (String, String)>;

fn on_both(test: impl Fn(&Database)) {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("wallet.db").display());
    test(&Database::open(&url, &Options::default()).unwrap());
    if let Some(database) = TestDatabase::create_or_skip() {
        test(&Database::open(database.url(), &Options::default()).unwrap());
    }
}

fn documented() -> Columns {
    let mut columns = Columns::new();
    let mut table = String::new();
    for line in DOCUMENT.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.trim_matches('`').clone_into(&mut table);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", name, kind, null, _, _, ""] = cells[..]
            && name.starts_with('`')
        {
            let name = name.trim_matches('`').to_owned();
            columns.insert((table.clone(), name), (kind.to_owned(), null.to_owned()));
        }
    }
    columns
}

fn documented_indexes() -> BTreeSet<String> {
    let section = DOCUMENT.split("## Indexes").nth(1).unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("| `"));
    names.map(|rest| rest.split('`').next().unwrap().to_owned()).collect()
}

const SQLITE_COLUMNS: &str = "SELECT m.name, c.name, c.type,
        CASE WHEN m.type = 'view' THEN '-' WHEN c.\"notnull\" = 1 OR c.pk > 0 THEN 'no'
            ELSE 'yes' END
    FROM sqlite_master m CROSS JOIN pragma_table_info(m.name) c
    WHERE m.type IN ('table', 'view') AND m.name <> 'utxokeep_migrations'
        AND m.name NOT LIKE 'sqlite_%'";
const POSTGRES_COLUMNS: &str = "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT),
        CAST(c.data_type AS TEXT),
        CASE WHEN t.table_type = 'VIEW' THEN '-' WHEN c.is_nullable = 'NO' THEN 'no'
            ELSE 'yes' END
    FROM information_schema.columns c
    JOIN information_schema.tables t USING (table_schema, table_name)
    WHERE c.table_schema = current_schema() AND c.table_name NOT LIKE 'utxokeep%'";
const SQLITE_INDEXES: &str = "SELECT name FROM sqlite_master
    WHERE type = 'index' AND name NOT LIKE 'sqlite_%'";
const POSTGRES_INDEXES: &str = "SELECT CAST(i.indexname AS TEXT) FROM pg_indexes i
    WHERE i.schemaname = current_schema() AND i.tablename NOT LIKE 'utxokeep%'
        AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname)";

fn migrated(database: &Database) -> Columns {
    let statement = match database.dialect() {
        Dialect::Sqlite => SQLITE_COLUMNS,
        Dialect::Postgres => POSTGRES_COLUMNS,
    };
    let rows = database.read(|tx| {
        tx.query_all(statement, &[], |row| {
            let kind = match row.text(2)?.to_ascii_lowercase().as_str() {
                "bigint" | "smallint" | "integer" | "int" => "integer",
                "blob" | "bytea" => "bytes",
                "text" => "text",
                other => panic!("no type of the document: {other}"),
            };
            let name = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
            Ok((name, (kind.to_owned(), row.text(3)?.to_owned())))
        })
    });
    rows.map_err(|error: utxokeep_sql::SqlError| error).unwrap().into_iter().collect()
}

fn indexes(database: &Database) -> BTreeSet<String> {
    let statement = match database.dialect() {
        Dialect::Sqlite => SQLITE_INDEXES,
        Dialect::Postgres => POSTGRES_INDEXES,
    };
    let names = database
        .read(|tx| tx.query_all(statement, &[], |row| Ok(row.text(0)?.to_owned())))
        .map_err(|error: utxokeep_sql::SqlError| error);
    names.unwrap().into_iter().collect()
}

#[test]
fn the_document_lists_every_column_and_index() {
    on_both(|database| {
        migrate(database, Micros::new(1)).unwrap();
        assert_eq!(migrated(database), documented(), "{:?}", database.dialect());
        assert_eq!(indexes(database), documented_indexes(), "{:?}", database.dialect());
    });
}

#[test]
fn every_table_of_sqlite_is_strict() {
    on_both(|database| {
        migrate(database, Micros::new(1)).unwrap();
        if database.dialect() == Dialect::Postgres {
            return;
        }
        let statement = "SELECT name, strict FROM pragma_table_list
            WHERE type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite_%'";
        let read = |row: &utxokeep_sql::Row<'_>| Ok((row.text(0)?.to_owned(), row.int(1)?));
        let tables = database.read(|tx| tx.query_all(statement, &[], read));
        let tables = tables.map_err(|error: utxokeep_sql::SqlError| error).unwrap();
        assert!(tables.len() > 15, "{tables:?}");
        assert!(tables.iter().all(|(_, strict)| *strict == 1), "{tables:?}");
    });
}

/// S128.
#[test]
fn every_migration_goes_up_and_down_and_up() {
    on_both(|database| {
        let newest = migrate(database, Micros::new(1)).unwrap().to;
        assert_eq!(Some(newest), MIGRATIONS.last().map(|step| step.version));
        let whole = migrated(database);
        for version in (0..newest).rev() {
            assert_eq!(unmigrate(database, version).unwrap().to, version);
        }
        assert!(migrated(database).is_empty() && indexes(database).is_empty());
        migrate(database, Micros::new(2)).unwrap();
        assert_eq!(migrated(database), whole);
        // A second run finds nothing to do.
        assert_eq!(migrate(database, Micros::new(3)).unwrap().from, newest);
    });
}
