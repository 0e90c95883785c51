//! Transactions in each other's way: waiting, running again, giving up.

use crate::place::{EngineUnderTest, on_both_engines};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use utxokeep_sql::{Database, Isolation, Options, RetryReason, SqlError, Transaction};

on_both_engines!(
    a_lock_that_stays_is_given_up_after_the_last_attempt,
    a_lock_that_goes_is_waited_out,
    no_increment_is_lost,
    all_connections_in_use_is_busy,
);

const TABLE: &str = "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
    INSERT INTO t (id, n) VALUES (1, 0), (2, 0)";
const INCREMENT: &str = "UPDATE t SET n = n + 1 WHERE id = $1";

fn increment(tx: &mut Transaction<'_>, id: i64) -> Result<u64, SqlError> {
    tx.execute(INCREMENT, &[id.into()])
}

fn sum(database: &Database) -> i64 {
    let sum: Result<i64, SqlError> = database
        .read(|tx| tx.query_one("SELECT CAST(SUM(n) AS BIGINT) FROM t", &[], |row| row.int(0)));
    sum.unwrap()
}

/// Holds the lock on row 1 from another pool until the returned function is called.
fn while_locked<T>(place: &EngineUnderTest, work: impl FnOnce(Box<dyn Fn() + Send>) -> T) -> T {
    let holder = place.open();
    let (locked, is_locked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let outcome: Result<(), SqlError> = holder.write(|tx| {
                increment(tx, 1)?;
                locked.send(()).unwrap();
                let _ = released.recv();
                Ok(())
            });
            outcome.unwrap();
        });
        is_locked.recv().unwrap();
        work(Box::new(move || {
            let _ = release.send(());
        }))
    })
}

fn a_lock_that_stays_is_given_up_after_the_last_attempt(place: &EngineUnderTest) {
    place.with_tables(TABLE);
    let options = Options::default().with(|settings| {
        settings.busy_timeout_ms = 50;
        settings.retries_max = 2;
        settings.retry_base_ms = 1;
    });
    let database = place.open_with(&options);
    let started = Instant::now();
    let outcome: Result<u64, SqlError> = while_locked(place, |release| {
        let outcome = database.write(|tx| increment(tx, 1));
        release();
        outcome
    });
    let Err(SqlError::RetriesExhausted { attempts: 3, source }) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(matches!(*source, SqlError::Transient { reason: RetryReason::Busy, .. }), "{source:?}");
    assert!(started.elapsed() >= Duration::from_millis(150), "each attempt waits its time");
    assert_eq!(sum(&database), 1, "only the holder's change");
}

fn a_lock_that_goes_is_waited_out(place: &EngineUnderTest) {
    place.with_tables(TABLE);
    let database = place.open_with(&Options::default().with(|settings| {
        settings.busy_timeout_ms = 20;
        settings.retries_max = 100;
        settings.retry_base_ms = 1;
    }));
    while_locked(place, |release| {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| database.write(|tx| increment(tx, 1)));
            thread::sleep(Duration::from_millis(120));
            release();
            let outcome: Result<u64, SqlError> = waiting.join().unwrap();
            assert_eq!(outcome.unwrap(), 1);
        });
    });
    assert_eq!(sum(&database), 2);
}

fn no_increment_is_lost(place: &EngineUnderTest) {
    place.with_tables(TABLE);
    let database = place.open_with(&Options::default().with(|settings| settings.retries_max = 50));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let outcome: Result<u64, SqlError> =
                        database.write_at(Isolation::Serializable, |tx| {
                            let read = "SELECT n FROM t WHERE id = 1";
                            let n = tx.query_one(read, &[], |row| row.int(0))?;
                            tx.execute("UPDATE t SET n = $1 WHERE id = 1", &[(n + 1).into()])
                        });
                    assert_eq!(outcome.unwrap(), 1);
                }
            });
        }
    });
    assert_eq!(sum(&database), 100);
}

fn all_connections_in_use_is_busy(place: &EngineUnderTest) {
    place.with_tables(TABLE);
    let database = place.open_with(&Options::default().with(|settings| {
        settings.connections_max = 2;
        settings.busy_timeout_ms = 20;
        settings.retries_max = 0;
    }));
    let outcome: Result<i64, SqlError> = database.read(|_| {
        database.read(|_| database.read(|tx| tx.query_one("SELECT 1", &[], |row| row.int(0))))
    });
    assert!(matches!(outcome, Err(SqlError::RetriesExhausted { attempts: 1, .. })), "{outcome:?}");
    assert_eq!(sum(&database), 0, "connections went back");
}

/// The body of a transaction, which calls the function to meet the other one.
type Body<'a> = &'a (dyn Fn(&mut Transaction<'_>, &dyn Fn()) -> Result<(), SqlError> + Sync);

/// Runs two transactions so that their first runs overlap, and counts all runs.
fn overlap(isolation: Isolation, database: &Database, bodies: [Body<'_>; 2]) -> u32 {
    let meeting = Barrier::new(2);
    let runs = AtomicU32::new(0);
    thread::scope(|scope| {
        for body in bodies {
            scope.spawn(|| {
                let first_run = AtomicU32::new(1);
                let meet = || {
                    if first_run.swap(0, Ordering::SeqCst) == 1 {
                        meeting.wait();
                    }
                };
                let outcome = database.write_at(isolation, |tx| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    body(tx, &meet)
                });
                outcome.unwrap();
            });
        }
    });
    runs.into_inner()
}

#[test]
fn of_two_transactions_that_cannot_be_put_in_order_one_runs_again() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let database = place.with_tables(TABLE);
    // Each reads what the other writes, so one of them must see the other's change.
    let read_and_write = |tx: &mut Transaction<'_>, meet: &dyn Fn(), read: i64, write: i64| {
        let sql = "SELECT n FROM t WHERE id = $1";
        let n = tx.query_one(sql, &[read.into()], |row| row.int(0))?;
        meet();
        tx.execute("UPDATE t SET n = $1 WHERE id = $2", &[(n + 1).into(), write.into()])?;
        Ok(())
    };
    let runs = overlap(
        Isolation::Serializable,
        &database,
        [&|tx, meet| read_and_write(tx, meet, 1, 2), &|tx, meet| read_and_write(tx, meet, 2, 1)],
    );
    assert_eq!(runs, 3);
    assert_eq!(sum(&database), 3, "one after the other: 0 + 1, then 1 + 1");
}

#[test]
fn of_two_transactions_that_wait_for_each_other_one_runs_again() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let database = place.with_tables(TABLE);
    let both = |tx: &mut Transaction<'_>, meet: &dyn Fn(), ids: [i64; 2]| {
        increment(tx, ids[0])?;
        meet();
        increment(tx, ids[1])?;
        Ok(())
    };
    let runs = overlap(
        Isolation::ReadCommitted,
        &database,
        [&|tx, meet| both(tx, meet, [1, 2]), &|tx, meet| both(tx, meet, [2, 1])],
    );
    assert_eq!(runs, 3);
    assert_eq!(sum(&database), 4);
}

#[test]
fn a_deadlock_inside_a_savepoint_runs_everything_again() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let database = place.with_tables(TABLE);
    let both = |tx: &mut Transaction<'_>, meet: &dyn Fn(), ids: [i64; 2]| {
        increment(tx, ids[0])?;
        meet();
        // Whoever looks away from it does not commit half of the work.
        let _ = tx.savepoint(|tx| increment(tx, ids[1]));
        Ok(())
    };
    let runs = overlap(
        Isolation::ReadCommitted,
        &database,
        [&|tx, meet| both(tx, meet, [1, 2]), &|tx, meet| both(tx, meet, [2, 1])],
    );
    assert_eq!(runs, 3);
    assert_eq!(sum(&database), 4);
}
