//! Commit, rollback, constraints, snapshots.

use crate::place::{EngineUnderTest, on_both_engines};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use utxokeep_sql::{ConstraintKind, Database, Options, SqlError};

on_both_engines!(
    constraints_are_told_apart,
    an_error_takes_everything_back,
    a_panic_takes_everything_back,
    a_failed_statement_ends_the_transaction,
    a_read_sees_one_snapshot,
    a_read_cannot_write,
    a_callback_may_stop_a_query,
    a_callback_may_use_the_database,
    a_statement_that_runs_too_long_is_stopped,
    a_read_that_nobody_waits_for_ends_and_a_write_does_not,
    errors_of_the_caller_pass_through,
);

const TABLES: &str = "CREATE TABLE parent (id BIGINT NOT NULL PRIMARY KEY);
    CREATE TABLE t (
        id BIGINT NOT NULL PRIMARY KEY,
        parent BIGINT REFERENCES parent (id),
        amount BIGINT NOT NULL,
        CONSTRAINT amount_is_positive CHECK (amount > 0));
    INSERT INTO t (id, amount) VALUES (1, 10)";
const INSERT: &str = "INSERT INTO t (id, amount) VALUES ($1, 5)";

fn ids(database: &Database) -> Vec<i64> {
    let found: Result<_, SqlError> =
        database.read(|tx| tx.query_all("SELECT id FROM t ORDER BY id", &[], |row| row.int(0)));
    found.unwrap()
}

fn constraints_are_told_apart(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let cases = [
        (ConstraintKind::Unique, "INSERT INTO t (id, amount) VALUES (1, 1)", None),
        (ConstraintKind::ForeignKey, "INSERT INTO t (id, parent, amount) VALUES (2, 9, 1)", None),
        (
            ConstraintKind::Check,
            "INSERT INTO t (id, amount) VALUES (2, 0)",
            Some("amount_is_positive"),
        ),
        (ConstraintKind::NotNull, "INSERT INTO t (id) VALUES (2)", Some("t.amount")),
    ];
    for (kind, sql, expected_name) in cases {
        let outcome: Result<u64, SqlError> = database.write(|tx| tx.execute(sql, &[]));
        let error = outcome.unwrap_err();
        assert!(error.is_constraint(kind), "{sql}: {error:?}");
        if let (Some(expected), SqlError::Constraint { name, .. }) = (expected_name, &error) {
            assert_eq!(name, expected);
        }
    }
    assert_eq!(ids(&database), [1]);
}

fn an_error_takes_everything_back(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let outcome: Result<(), SqlError> = database.write(|tx| {
        tx.execute(INSERT, &[2_i64.into()])?;
        Err(SqlError::bad_row("the caller's reason"))
    });
    assert!(matches!(outcome, Err(SqlError::BadRow { .. })));
    assert_eq!(ids(&database), [1]);
}

fn a_panic_takes_everything_back(place: &EngineUnderTest) {
    let options = Options::default().with(|settings| settings.busy_timeout_ms = 500);
    place.with_tables(TABLES);
    let database = place.open_with(&options);
    for _ in 0..3 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _: Result<(), SqlError> = database.write(|tx| {
                tx.execute(INSERT, &[2_i64.into()])?;
                panic!("on purpose");
            });
        }));
        assert!(caught.is_err());
    }
    assert_eq!(ids(&database), [1]);
    let after: Result<u64, SqlError> = database.write(|tx| tx.execute(INSERT, &[3_i64.into()]));
    assert_eq!(after.unwrap(), 1, "no lock was left behind");
}

fn a_failed_statement_ends_the_transaction(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let outcome: Result<(), SqlError> = database.write(|tx| {
        tx.execute(INSERT, &[2_i64.into()])?;
        tx.execute(INSERT, &[1_i64.into()]).unwrap_err();
        let next = tx.execute(INSERT, &[3_i64.into()]);
        assert!(matches!(next, Err(SqlError::Aborted)), "{next:?}");
        Ok(())
    });
    assert!(matches!(outcome, Err(SqlError::Aborted)), "{outcome:?}");
    assert_eq!(ids(&database), [1]);
}

fn a_read_sees_one_snapshot(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let seen: Result<_, SqlError> = database.read(|tx| {
        let count = "SELECT COUNT(*) FROM t";
        let before = tx.query_one(count, &[], |row| row.int(0))?;
        database.write(|other| other.execute(INSERT, &[2_i64.into()]))?;
        Ok((before, tx.query_one(count, &[], |row| row.int(0))?))
    });
    assert_eq!(seen.unwrap(), (1, 1));
    assert_eq!(ids(&database), [1, 2]);
}

fn a_read_cannot_write(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let outcome: Result<u64, SqlError> = database.read(|tx| tx.execute(INSERT, &[2_i64.into()]));
    assert!(matches!(outcome, Err(SqlError::Engine { .. })), "{outcome:?}");
    assert_eq!(ids(&database), [1]);
}

fn a_callback_may_stop_a_query(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let numbers = "WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL
        SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n";
    let mut rows = 0;
    let outcome: Result<(), SqlError> = database.read(|tx| {
        tx.query(numbers, &[], |_| {
            rows += 1;
            if rows == 1_000 { Err(SqlError::bad_row("enough")) } else { Ok(()) }
        })
    });
    assert!(matches!(outcome, Err(SqlError::BadRow { .. })), "{outcome:?}");
    assert_eq!(rows, 1_000);
    let sum: Result<i64, SqlError> = database.read(|tx| {
        let mut sum = 0;
        tx.query(numbers, &[], |row| {
            sum += row.int(0)?;
            Ok(())
        })?;
        Ok(sum)
    });
    assert_eq!(sum.unwrap(), 5_000_050_000, "the connection is as good as before");
}

fn a_callback_may_use_the_database(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let mut seen = Vec::new();
    let outcome: Result<(), SqlError> = database.write(|tx| {
        tx.query("SELECT id FROM t", &[], |_| {
            seen = ids(&database);
            Ok(())
        })
    });
    outcome.unwrap();
    assert_eq!(seen, [1]);
}

fn a_statement_that_runs_too_long_is_stopped(place: &EngineUnderTest) {
    let database =
        place.open_with(&Options::default().with(|settings| settings.statement_timeout_ms = 100));
    let outcome: Result<i64, SqlError> = database.read(|tx| {
        let endless = "WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL
            SELECT i + 1 FROM n WHERE i < 100000000000) SELECT COUNT(*) FROM n";
        tx.query_one(endless, &[], |row| row.int(0))
    });
    assert!(matches!(outcome, Err(SqlError::StatementTimeout { timeout_ms: 100 })), "{outcome:?}");
    let after: Result<i64, SqlError> =
        database.read(|tx| tx.query_one("SELECT 1", &[], |row| row.int(0)));
    assert_eq!(after.unwrap(), 1);
}

thread_local! {
    /// Looks after which nobody waits any more.
    static LOOKS: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn is_unwanted() -> bool {
    LOOKS.set(LOOKS.get().saturating_sub(1));
    LOOKS.get() == 0
}

fn a_read_that_nobody_waits_for_ends_and_a_write_does_not(place: &EngineUnderTest) {
    let database =
        place.open_with(&Options::default().with(|settings| settings.is_unwanted = is_unwanted));
    let create: Result<(), SqlError> = database.write(|tx| tx.execute_batch(TABLES));
    create.unwrap();
    let mut statements = 0;
    let outcome: Result<(), SqlError> = database.read(|tx| {
        LOOKS.set(4);
        loop {
            tx.query_one("SELECT 1", &[], |row| row.int(0))?;
            statements += 1;
        }
    });
    assert!(matches!(outcome, Err(SqlError::Unwanted)), "{outcome:?}");
    assert_eq!(statements, 3);
    let outcome: Result<u64, SqlError> = database.write(|tx| {
        LOOKS.set(1);
        tx.execute("INSERT INTO t (id, amount) VALUES (77, 5)", &[])
    });
    LOOKS.set(usize::MAX);
    assert_eq!(outcome.unwrap(), 1);
    if place.is_file() {
        let outcome: Result<i64, SqlError> = database.read(|tx| {
            LOOKS.set(10);
            let endless = "WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL
                SELECT i + 1 FROM n WHERE i < 100000000000) SELECT COUNT(*) FROM n";
            tx.query_one(endless, &[], |row| row.int(0))
        });
        // It may be asked once more after the statement was stopped.
        assert!(matches!(outcome, Err(SqlError::Unwanted)), "{outcome:?}");
    }
}

#[derive(Debug)]
enum Own {
    Sql(#[allow(dead_code, reason = "shown when the test fails")] SqlError),
    Refused,
}

impl From<SqlError> for Own {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

fn errors_of_the_caller_pass_through(place: &EngineUnderTest) {
    let database = place.with_tables(TABLES);
    let outcome: Result<(), Own> = database.write(|tx| {
        tx.execute(INSERT, &[2_i64.into()])?;
        Err(Own::Refused)
    });
    assert!(matches!(outcome, Err(Own::Refused)), "{outcome:?}");
    assert_eq!(ids(&database), [1]);
}

#[test]
fn a_connection_lost_before_commit_is_an_unknown_outcome_and_not_repeated() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let database = place.with_tables(TABLES);
    let mut runs = 0;
    let outcome: Result<(), SqlError> = database.write(|tx| {
        runs += 1;
        tx.execute(INSERT, &[2_i64.into()])?;
        place.server().cut_connections().unwrap();
        Ok(())
    });
    assert!(matches!(outcome, Err(SqlError::CommitUnknown { .. })), "{outcome:?}");
    assert_eq!(runs, 1);
    assert_eq!(ids(&database), [1]);
}

#[test]
fn idle_connections_that_were_cut_are_replaced() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let database = place.with_tables(TABLES);
    place.server().cut_connections().unwrap();
    let outcome: Result<u64, SqlError> = database.write(|tx| tx.execute(INSERT, &[2_i64.into()]));
    assert_eq!(outcome.unwrap(), 1);
}
