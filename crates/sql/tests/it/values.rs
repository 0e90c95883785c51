//! Values in, rows out, and what is refused.

use crate::place::{EngineUnderTest, on_both_engines};
use utxokeep_sql::{Database, Options, SqlError, Value};

on_both_engines!(
    values_come_back_as_they_went_in,
    nulls_have_a_type_and_stay_null,
    another_type_or_column_is_a_typed_error,
    a_wrong_number_of_parameters_is_refused,
    truth_values_and_counts_are_integers,
    a_plan_names_the_index,
    a_text_with_nul_is_refused_alike,
    a_column_takes_only_its_own_type,
);

const TABLE: &str = "CREATE TABLE t (i BIGINT, b {bytes}, t TEXT)";
const INSERT: &str = "INSERT INTO t (i, b, t) VALUES ($1, $2, $3)";
const SELECT: &str = "SELECT i, b, t FROM t";

fn values_come_back_as_they_went_in(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let all_bytes: Vec<u8> = (0..=255).collect();
    let rows: [(i64, &[u8], &str); 3] =
        [(i64::MIN, b"", ""), (i64::MAX, &all_bytes, "grün $1 'quoted'"), (0, &[0], "?1")];
    for (int, bytes, text) in rows {
        let found = database
            .write(|tx| {
                tx.execute("DELETE FROM t", &[])?;
                tx.execute(INSERT, &[int.into(), bytes.into(), text.into()])?;
                tx.query_one(SELECT, &[], |row| {
                    Ok((row.int(0)?, row.bytes(1)?.to_vec(), row.text(2)?.to_owned()))
                })
            })
            .map_err(|error: SqlError| error.to_string());
        assert_eq!(found, Ok((int, bytes.to_vec(), text.to_owned())));
    }
}

fn nulls_have_a_type_and_stay_null(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let nulls = [Value::Int(None), Value::Bytes(None), Value::Text(None)];
    let found = database.write(|tx| {
        tx.execute(INSERT, &nulls)?;
        tx.query_one(SELECT, &[], |row| {
            assert!(matches!(row.int(0), Err(SqlError::ColumnType { index: 0, .. })));
            Ok((row.opt_int(0)?, row.opt_bytes(1)?.is_none(), row.opt_text(2)?.is_none()))
        })
    });
    assert_eq!(found.map_err(|error: SqlError| error.to_string()), Ok((None, true, true)));
}

fn another_type_or_column_is_a_typed_error(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let row: [Value<'_>; 3] = [5_i64.into(), b"abc".into(), "text".into()];
    let outcome: Result<(), SqlError> = database.write(|tx| {
        tx.execute(INSERT, &row)?;
        tx.query(SELECT, &[], |row| {
            assert!(matches!(row.text(0), Err(SqlError::ColumnType { index: 0, .. })));
            assert!(matches!(row.int(1), Err(SqlError::ColumnType { index: 1, .. })));
            assert!(matches!(row.bytes(2), Err(SqlError::ColumnType { index: 2, .. })));
            assert!(matches!(row.int(3), Err(SqlError::ColumnMissing { index: 3, columns: 3 })));
            assert!(matches!(row.array::<4>(1), Err(SqlError::BadRow { .. })));
            assert_eq!(&row.array::<3>(1)?, b"abc");
            Ok(())
        })
    });
    outcome.unwrap();
}

fn a_wrong_number_of_parameters_is_refused(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    for parameters in [&[][..], &[Value::from(1_i64), Value::from(2_i64)]] {
        let outcome: Result<u64, SqlError> =
            database.write(|tx| tx.execute("DELETE FROM t WHERE i = $1", parameters));
        assert!(matches!(outcome, Err(SqlError::Usage { .. })), "{outcome:?}");
    }
}

fn truth_values_and_counts_are_integers(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let found: Result<_, SqlError> = database.read(|tx| {
        tx.query_one("SELECT EXISTS (SELECT 1 FROM t), COUNT(*), 7 FROM t", &[], |row| {
            Ok((row.int(0)?, row.int(1)?, row.int(2)?))
        })
    });
    assert_eq!(found.unwrap(), (0, 0, 7));
}

fn a_plan_names_the_index(place: &EngineUnderTest) {
    let database =
        place.with_tables("CREATE TABLE k (a BIGINT NOT NULL); CREATE INDEX k_by_a ON k (a)");
    let plan: Result<_, SqlError> = database.write(|tx| {
        let keys: Vec<Value<'_>> = (0..5_000_i64).map(Value::from).collect();
        tx.insert_rows("INSERT INTO k (a) VALUES", "", 1, &keys)?;
        tx.explain("SELECT a FROM k WHERE a = $1", &[1_i64.into()])
    });
    let plan = plan.unwrap();
    assert!(plan.iter().any(|line| line.contains("k_by_a")), "{plan:?}");
}

#[test]
fn urls_and_options_that_cannot_work_are_refused_with_a_reason() {
    let refused = |url: &str, options: &Options| match Database::open(url, options) {
        Err(SqlError::Config { what }) => what,
        other => panic!("{url}: {other:?}"),
    };
    let options = Options::default();
    for url in ["", "sqlite:", "sqlite::memory:", "mysql://x", "postgres://u:secret@h:port/x"] {
        assert!(!refused(url, &options).contains("secret"));
    }
    let named = Options::default().with(|settings| settings.schema = Some("s".to_owned()));
    refused("sqlite:never-created.db", &named);
    let injected = Options::default().with(|settings| settings.schema = Some("s; DROP".to_owned()));
    refused("postgres://nobody@localhost/x", &injected);
    let single = Options::default().with(|settings| settings.connections_max = 1);
    refused("sqlite:never-created.db", &single);
}

#[test]
fn a_file_that_is_no_database_is_reported_and_left_alone() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("notes.txt");
    let text = "not a database, but long enough to be taken for one. ".repeat(50);
    std::fs::write(&file, &text).unwrap();
    let outcome = Database::open(&format!("sqlite:{}", file.display()), &Options::default());
    assert!(matches!(outcome, Err(SqlError::Damaged { .. })), "{outcome:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_server_that_is_not_there_is_unavailable() {
    let directory = tempfile::TempDir::new().unwrap();
    let host = directory.path().display().to_string().replace('/', "%2F");
    let outcome = Database::open(&format!("postgres://nobody@{host}/x"), &Options::default());
    assert!(matches!(outcome, Err(SqlError::Unavailable { .. })), "{outcome:?}");
}

#[test]
fn schemas_of_one_server_do_not_see_each_other() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let in_schema = |name: &str| {
        let options = Options::default().with(|settings| settings.schema = Some(name.to_owned()));
        place.open_with(&options)
    };
    let (one, two) = (in_schema("one"), in_schema("two"));
    for database in [&one, &two] {
        database.write(|tx| tx.execute_batch(TABLE)).unwrap();
    }
    one.write(|tx| tx.execute("INSERT INTO t (i) VALUES (1)", &[])).unwrap();
    let rows = |database: &Database| -> Result<i64, SqlError> {
        database.read(|tx| tx.query_one("SELECT COUNT(*) FROM t", &[], |row| row.int(0)))
    };
    assert_eq!((rows(&one).unwrap(), rows(&two).unwrap()), (1, 0));
}

fn a_text_with_nul_is_refused_alike(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let row: [Value<'_>; 3] = [5_i64.into(), b"a\0b".into(), "a\0b".into()];
    let refused = |outcome: Result<u64, SqlError>| {
        assert!(matches!(outcome, Err(SqlError::NulInText)), "{outcome:?}");
    };
    refused(database.write(|tx| tx.execute(INSERT, &row)));
    refused(database.write(|tx| tx.insert_rows("INSERT INTO t (i, b, t)", "", 3, &row)));
    let found = database.write(|tx| tx.query_one("SELECT count(*) FROM t", &[], |row| row.int(0)));
    assert_eq!(found.map_err(|error: SqlError| error.to_string()), Ok(0));
}

fn a_column_takes_only_its_own_type(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let row: [Value<'_>; 3] = ["five".into(), b"abc".into(), "text".into()];
    let outcome: Result<u64, SqlError> = database.write(|tx| tx.execute(INSERT, &row));
    assert!(outcome.is_err(), "{outcome:?}");
}
