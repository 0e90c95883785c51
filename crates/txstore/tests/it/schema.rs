//! What `docs/schema.md` says of the tables is what there is.

use std::collections::BTreeMap;

use utxokeep_core::{Height, Txid};
use utxokeep_kv::{
    Batch, Durability, Kv as _, OpenMode, Read as _, RocksKv, RocksOptions, TableId,
};
use utxokeep_sql::{Database, Options, migrate_down, migrate_up};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{
    BlockState, FORMAT_VERSION, Fields, NodeStore, SQL_COMPONENT, SQL_MIGRATIONS, StoreSettings,
    TABLES, TxStore as _,
};

const PAGE: &str = include_str!("../../../../docs/schema.md");

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

/// A record as programs wrote it before format 2: mined, its one output spent, due at 300.
const OF_FORMAT_1: &[u8] =
    &[0xa7, 0, 0, 1, 1, 2, 1, 3, 1, 4, 5, 7, 0x19, 1, 0x2c, 9, 0x81, 0x83, 1, 10, 2];

fn table(name: &str) -> TableId {
    let id = TABLES.iter().position(|table| table.name == name).unwrap();
    TableId(u8::try_from(id).unwrap())
}

#[test]
fn a_store_of_format_1_is_upgraded_and_one_of_a_newer_program_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let raw = || {
        RocksKv::open(dir.path(), TABLES, RocksOptions::within(16 << 20), OpenMode::Create).unwrap()
    };
    let open = || NodeStore::on_kv(raw(), StoreSettings::default(), Durability::Buffered);
    let txid = Txid::from_bytes([7; 32]);
    let put = |rows: &[(&str, &[u8], &[u8])]| {
        let mut batch = Batch::new();
        for (name, key, value) in rows {
            batch.put(table(name), key, value);
        }
        raw().commit(batch, Durability::Synced).unwrap();
    };
    put(&[
        ("tx_meta", b"format", &1u64.to_be_bytes()),
        ("tx_records", txid.as_bytes(), OF_FORMAT_1),
    ]);
    let read = || {
        let options = RocksOptions::within(16 << 20);
        let kv = RocksKv::open(dir.path(), TABLES, options, OpenMode::Read).unwrap();
        NodeStore::on_kv(kv, StoreSettings::default(), Durability::Buffered)
    };
    let error = read().unwrap_err().to_string();
    assert!(error.contains("has format 1 and this program writes"), "{error}");
    assert_eq!(raw().get(table("tx_meta"), b"format").unwrap().unwrap(), 1u64.to_be_bytes());
    let found = open().unwrap().get(&[txid], Fields::default()).unwrap().remove(0).unwrap();
    let record = found.record;
    assert_eq!((record.delete_at, record.spent_at), (Some(Height::new(300)), None));
    let format = raw().get(table("tx_meta"), b"format").unwrap().unwrap();
    assert_eq!(format, FORMAT_VERSION.to_be_bytes(), "older programs refuse it from now on");

    assert!(read().unwrap().get(&[txid], Fields::default()).unwrap().remove(0).is_some());

    let newer = FORMAT_VERSION + 1;
    put(&[("tx_meta", b"format", &newer.to_be_bytes())]);
    let error = open().unwrap_err().to_string();
    let expected = format!("has format {newer}, this program knows {FORMAT_VERSION}; use a newer");
    assert!(error.contains(&expected), "{error}");
}

fn check_steps(url: &str) {
    let database = || Database::open(url, &Options::default()).unwrap();
    let open = || NodeStore::on_sql(database(), StoreSettings::default(), 0);
    let state = BlockState { height: Height::new(7), median_time: 8 };
    open().unwrap().set_block_state(state).unwrap().unwrap();
    migrate_down(&database(), SQL_COMPONENT, SQL_MIGRATIONS, 4).unwrap();
    assert_eq!(open().unwrap().block_state().unwrap(), Some(state), "an older one is upgraded");
    // What a program says that knows no step beyond the fourth.
    let older = migrate_up(&database(), SQL_COMPONENT, &SQL_MIGRATIONS[..4], 0);
    let error = older.unwrap_err().to_string();
    assert!(error.contains("is at version 6, this program knows up to 4"), "{error}");
}

#[test]
fn databases_of_older_steps_are_upgraded_and_older_programs_refuse_newer_ones() {
    let dir = tempfile::tempdir().unwrap();
    check_steps(&format!("sqlite:{}", dir.path().join("db").display()));
    if let Some(database) = TestDatabase::create_or_skip() {
        check_steps(database.url());
    }
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
