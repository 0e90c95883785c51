//! Many rows and many keys with few statements.

use crate::place::{EngineUnderTest, on_both_engines};
use std::collections::BTreeMap;
use utxokeep_sql::{Database, Options, SqlError, Value};

on_both_engines!(
    any_number_of_rows_goes_in_and_comes_out_by_key,
    keys_of_two_columns_find_and_delete_their_rows,
    rows_that_exist_are_updated_by_the_tail,
    a_list_of_values_can_be_joined,
    rows_that_do_not_fit_together_are_refused,
    a_failure_in_the_middle_of_many_statements_is_the_one_reported,
    statements_stay_within_the_cache,
    statements_asked_together_run_in_order,
);

const TABLE: &str = "CREATE TABLE t (
    a BIGINT NOT NULL, b {bytes} NOT NULL, c TEXT, PRIMARY KEY (a, b)) {without_rowid}";
const INSERT: &str = "INSERT INTO t (a, b, c) VALUES";

/// Rows (i, bytes of i, text or null).
struct Rows(Vec<(i64, [u8; 8], Option<String>)>);

impl Rows {
    fn new(count: i64) -> Self {
        let text = |i: i64| (i % 3 != 0).then(|| format!("text {i}"));
        Self((0..count).map(|i| (i, i.to_be_bytes(), text(i))).collect())
    }

    fn values(&self) -> Vec<Value<'_>> {
        self.0.iter().flat_map(|(a, b, c)| [(*a).into(), b.into(), c.as_deref().into()]).collect()
    }
}

fn count(database: &Database) -> i64 {
    let rows: Result<i64, SqlError> =
        database.read(|tx| tx.query_one("SELECT COUNT(*) FROM t", &[], |row| row.int(0)));
    rows.unwrap()
}

fn any_number_of_rows_goes_in_and_comes_out_by_key(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    for rows in [0, 1, 1_000, 5_000] {
        let rows = Rows::new(rows);
        let keys: Vec<Value<'_>> = rows.0.iter().map(|(a, _, _)| (*a).into()).collect();
        let mut found = BTreeMap::new();
        let changed: Result<(u64, u64), SqlError> = database.write(|tx| {
            found.clear();
            let inserted = tx.insert_rows(INSERT, "", 3, &rows.values())?;
            tx.query_in("SELECT a, b, c FROM t WHERE a IN", "", &[], 1, &keys, |row| {
                let content = (row.array(1)?, row.opt_text(2)?.map(str::to_owned));
                assert!(found.insert(row.int(0)?, content).is_none(), "a row came twice");
                Ok(())
            })?;
            let deleted = tx.execute_in("DELETE FROM t WHERE a IN", "", &[], 1, &keys)?;
            Ok((inserted, deleted))
        });
        let expected = rows.0.len() as u64;
        assert_eq!(changed.unwrap(), (expected, expected));
        let expected: BTreeMap<_, _> =
            rows.0.iter().map(|(a, b, c)| (*a, (*b, c.clone()))).collect();
        assert_eq!(found, expected);
        assert_eq!(count(&database), 0);
    }
}

fn keys_of_two_columns_find_and_delete_their_rows(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let rows = Rows::new(1_000);
    let pairs = |wrong: bool| -> Vec<Value<'_>> {
        let shift = usize::from(wrong);
        let others = rows.0.iter().cycle().skip(shift);
        let pairs = rows.0.iter().zip(others).take(700);
        pairs.flat_map(|((a, _, _), (_, b, _))| [Value::from(*a), Value::from(b)]).collect()
    };
    let outcome: Result<(), SqlError> = database.write(|tx| {
        tx.insert_rows(INSERT, "", 3, &rows.values())?;
        let head = "SELECT a FROM t WHERE a >= $1 AND (a, b) IN";
        let tail = " AND a < $2 ORDER BY a";
        let fixed = [Value::from(10_i64), Value::from(600_i64)];
        let mut found = Vec::new();
        tx.query_in(head, tail, &fixed, 2, &pairs(false), |row| {
            found.push(row.int(0)?);
            Ok(())
        })?;
        assert_eq!(found, (10..600).collect::<Vec<_>>());
        let delete = "DELETE FROM t WHERE (a, b) IN";
        assert_eq!(tx.execute_in(delete, "", &[], 2, &pairs(true))?, 0, "both columns count");
        assert_eq!(tx.execute_in(delete, "", &[], 2, &pairs(false))?, 700);
        Ok(())
    });
    outcome.unwrap();
    assert_eq!(count(&database), 300);
}

fn rows_that_exist_are_updated_by_the_tail(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let (few, many) = (Rows::new(10), Rows::new(100));
    let upsert = " ON CONFLICT (a, b) DO UPDATE SET c = 'updated'";
    let updated: Result<i64, SqlError> = database.write(|tx| {
        tx.insert_rows(INSERT, upsert, 3, &few.values())?;
        assert_eq!(tx.insert_rows(INSERT, upsert, 3, &many.values())?, 100);
        tx.query_one("SELECT COUNT(*) FROM t WHERE c = 'updated'", &[], |row| row.int(0))
    });
    assert_eq!(updated.unwrap(), 10);
    let ignored: Result<u64, SqlError> =
        database.write(|tx| tx.insert_rows(INSERT, " ON CONFLICT DO NOTHING", 3, &many.values()));
    assert_eq!(ignored.unwrap(), 0);
}

fn a_list_of_values_can_be_joined(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let rows = Rows::new(600);
    let news: Vec<String> = (0..600).map(|i| format!("new {i}")).collect();
    let pairs: Vec<Value<'_>> =
        rows.0.iter().zip(&news).flat_map(|((a, _, _), new)| [(*a).into(), new.into()]).collect();
    let outcome: Result<(), SqlError> = database.write(|tx| {
        tx.insert_rows(INSERT, "", 3, &rows.values())?;
        let head = "UPDATE t SET c = v.column2 FROM (VALUES";
        let tail = ") AS v WHERE t.a = v.column1 AND t.a <> $1";
        assert_eq!(tx.execute_rows(head, tail, &[7_i64.into()], 2, &pairs)?, 599);
        let mut equal = 0;
        let head = "SELECT t.c, v.column2 FROM (VALUES";
        let tail = ") AS v JOIN t ON t.a = v.column1";
        tx.query_rows(head, tail, &[], 2, &pairs, |row| {
            equal += usize::from(row.opt_text(0)? == Some(row.text(1)?));
            Ok(())
        })?;
        assert_eq!(equal, 599);
        Ok(())
    });
    outcome.unwrap();
}

fn rows_that_do_not_fit_together_are_refused(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let uneven = [Value::from(1_i64), Value::from(b"x"), Value::Text(None), Value::from(2_i64)];
    let mixed = [Value::from(1_i64), Value::from("text")];
    let outcome: Result<(), SqlError> = database.write(|tx| {
        let refused = tx.insert_rows(INSERT, "", 3, &uneven);
        assert!(matches!(refused, Err(SqlError::Usage { .. })), "{refused:?}");
        let refused = tx.execute_in("DELETE FROM t WHERE a IN", "", &[], 1, &mixed);
        assert!(matches!(refused, Err(SqlError::Usage { .. })), "{refused:?}");
        Ok(())
    });
    outcome.unwrap();
}

fn a_failure_in_the_middle_of_many_statements_is_the_one_reported(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let mut rows = Rows::new(5_000);
    rows.0[3_000] = rows.0[2_999].clone();
    let outcome: Result<u64, SqlError> =
        database.write(|tx| tx.insert_rows(INSERT, "", 3, &rows.values()));
    assert!(matches!(outcome, Err(SqlError::Constraint { .. })), "{outcome:?}");
    assert_eq!(count(&database), 0);
}

fn statements_stay_within_the_cache(place: &EngineUnderTest) {
    place.with_tables(TABLE);
    let database =
        place.open_with(&Options::default().with(|settings| settings.statement_cache_max = 8));
    let cached: Result<usize, SqlError> = database.write(|tx| {
        for rows in 0..100 {
            tx.insert_rows(INSERT, " ON CONFLICT DO NOTHING", 3, &Rows::new(rows).values())?;
        }
        assert!(tx.cached_statements() <= 3, "sizes 64, 8 and 1");
        for number in 0..50_i64 {
            let sql = format!("SELECT {number} FROM t WHERE a = $1");
            for _ in 0..2 {
                assert_eq!(tx.query_one(&sql, &[number.into()], |row| row.int(0))?, number);
            }
        }
        Ok(tx.cached_statements())
    });
    assert_eq!(cached.unwrap(), 8);
}

fn statements_asked_together_run_in_order(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let insert = "INSERT INTO t (a, b) VALUES ($1, $2) RETURNING a";
    let (bytes, key) = ([7_u8; 8], [Value::from(5_i64)]);
    let row = [key[0], Value::from(&bytes)];
    let read = "SELECT b FROM t WHERE a = $1";
    let mut met = Vec::new();
    let outcome: Result<(), SqlError> = database.write(|tx| {
        met.clear();
        tx.query_together(&[(read, &key), (insert, &row), (read, &key)], |at, _| {
            met.push(at);
            Ok(())
        })
    });
    outcome.unwrap();
    // The first finds nothing yet, the last finds what was inserted.
    assert_eq!(met, [1, 2]);

    let again: Result<(), SqlError> =
        database.write(|tx| tx.query_together(&[(insert, &row), (read, &key)], |_, _| Ok(())));
    assert!(matches!(again, Err(SqlError::Constraint { .. })), "{again:?}");
    assert_eq!(count(&database), 1);
}
