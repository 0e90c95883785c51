//! Parts of a transaction that fail alone.

use crate::place::{EngineUnderTest, on_both_engines};
use utxokeep_sql::{Database, SqlError, Transaction};

on_both_engines!(
    a_failed_statement_undoes_its_savepoint_only,
    an_error_of_the_caller_undoes_its_savepoint_only,
    an_inner_savepoint_fails_alone,
    an_outer_savepoint_takes_inner_ones_along,
    a_failure_that_was_overlooked_undoes_the_savepoint,
    a_savepoint_after_a_failure_does_not_start,
);

const TABLE: &str = "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY);
    INSERT INTO t (id) VALUES (1)";

fn insert(tx: &mut Transaction<'_>, id: i64) -> Result<(), SqlError> {
    tx.execute("INSERT INTO t (id) VALUES ($1)", &[id.into()]).map(|_| ())
}

fn ids(database: &Database) -> Vec<i64> {
    let found: Result<_, SqlError> =
        database.read(|tx| tx.query_all("SELECT id FROM t ORDER BY id", &[], |row| row.int(0)));
    found.unwrap()
}

fn write(database: &Database, body: impl FnMut(&mut Transaction<'_>) -> Result<(), SqlError>) {
    database.write(body).unwrap();
}

fn a_failed_statement_undoes_its_savepoint_only(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    write(&database, |tx| {
        insert(tx, 2)?;
        let failed = tx.savepoint(|tx| {
            insert(tx, 3)?;
            insert(tx, 1)
        });
        assert!(matches!(failed, Err(SqlError::Constraint { .. })), "{failed:?}");
        insert(tx, 4)?;
        tx.savepoint(|tx| insert(tx, 5))
    });
    assert_eq!(ids(&database), [1, 2, 4, 5]);
}

fn an_error_of_the_caller_undoes_its_savepoint_only(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    write(&database, |tx| {
        let refused: Result<(), SqlError> = tx.savepoint(|tx| {
            insert(tx, 2)?;
            Err(SqlError::bad_row("the caller's reason"))
        });
        assert!(matches!(refused, Err(SqlError::BadRow { .. })));
        insert(tx, 3)
    });
    assert_eq!(ids(&database), [1, 3]);
}

fn an_inner_savepoint_fails_alone(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    write(&database, |tx| {
        tx.savepoint(|tx| {
            insert(tx, 2)?;
            tx.savepoint(|tx| insert(tx, 1)).unwrap_err();
            insert(tx, 3)
        })
    });
    assert_eq!(ids(&database), [1, 2, 3]);
}

fn an_outer_savepoint_takes_inner_ones_along(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    write(&database, |tx| {
        let failed = tx.savepoint(|tx| {
            tx.savepoint(|tx| insert(tx, 2))?;
            insert(tx, 1)
        });
        failed.unwrap_err();
        insert(tx, 3)
    });
    assert_eq!(ids(&database), [1, 3]);
}

fn a_failure_that_was_overlooked_undoes_the_savepoint(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    write(&database, |tx| {
        let overlooked = tx.savepoint(|tx| {
            insert(tx, 2)?;
            let _ = insert(tx, 1);
            Ok(())
        });
        assert!(matches!(overlooked, Err(SqlError::Aborted)), "{overlooked:?}");
        insert(tx, 3)
    });
    assert_eq!(ids(&database), [1, 3]);
}

fn a_savepoint_after_a_failure_does_not_start(place: &EngineUnderTest) {
    let database = place.with_tables(TABLE);
    let outcome: Result<(), SqlError> = database.write(|tx| {
        insert(tx, 1).unwrap_err();
        let refused = tx.savepoint(|tx| insert(tx, 2));
        assert!(matches!(refused, Err(SqlError::Aborted)), "{refused:?}");
        Ok(())
    });
    assert!(matches!(outcome, Err(SqlError::Aborted)));
    assert_eq!(ids(&database), [1]);
}
