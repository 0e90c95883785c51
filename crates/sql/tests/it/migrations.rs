//! Schema versions up and down.

use crate::place::{EngineUnderTest, on_both_engines};
use std::thread;
use utxokeep_sql::{
    Database, Migration, MigrationError, MigrationReport, OpenMode, Options, SqlError,
    applied_migrations, migrate_down, migrate_up,
};

on_both_engines!(
    steps_go_up_once_and_down_again,
    a_newer_database_is_refused,
    only_creating_creates_and_reading_does_not_upgrade,
    a_changed_step_is_refused,
    a_step_that_fails_leaves_nothing,
    components_are_apart,
    steps_out_of_order_are_refused,
    programs_that_start_together_take_turns,
);

const STEPS: [Migration; 2] = [
    Migration {
        version: 1,
        name: "coins",
        up: "CREATE TABLE coin (id {bigserial_pk}, txid {bytes} NOT NULL);
             CREATE UNIQUE INDEX coin_by_txid ON coin (txid)",
        down: "DROP TABLE coin",
    },
    Migration {
        version: 2,
        name: "labels",
        up: "CREATE TABLE label (coin BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL) {without_rowid}",
        down: "DROP TABLE label",
    },
];

fn has_table(database: &Database, table: &str) -> bool {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    let count: Result<i64, SqlError> =
        database.read(|tx| tx.query_one(&sql, &[], |row| row.int(0)));
    count.is_ok()
}

fn refusal<T: std::fmt::Debug>(outcome: Result<T, SqlError>) -> MigrationError {
    match outcome {
        Err(SqlError::Migration(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn steps_go_up_once_and_down_again(place: &EngineUnderTest) {
    let database = place.open();
    let up = |steps: &[Migration], now_us| migrate_up(&database, "wallet", steps, now_us).unwrap();
    assert_eq!(up(&STEPS[..1], 11), MigrationReport { from: 0, to: 1 });
    assert_eq!(up(&STEPS, 22), MigrationReport { from: 1, to: 2 });
    assert_eq!(up(&STEPS, 33), MigrationReport { from: 2, to: 2 });

    let applied = applied_migrations(&database, "wallet").unwrap();
    let brief: Vec<_> =
        applied.iter().map(|step| (step.version, &*step.name, step.applied_at_us)).collect();
    assert_eq!(brief, [(1, "coins", 11), (2, "labels", 22)]);

    let id: Result<i64, SqlError> = database.write(|tx| {
        let insert = "INSERT INTO coin (txid) VALUES ($1) RETURNING id";
        tx.query_one(insert, &[b"abc".into()], |row| row.int(0))
    });
    assert_eq!(id.unwrap(), 1);

    let down = |to| migrate_down(&database, "wallet", &STEPS, to).unwrap();
    assert_eq!(down(1), MigrationReport { from: 2, to: 1 });
    assert!(has_table(&database, "coin") && !has_table(&database, "label"));
    assert_eq!(down(0), MigrationReport { from: 1, to: 0 });
    assert!(!has_table(&database, "coin"));
    assert_eq!(up(&STEPS, 44), MigrationReport { from: 0, to: 2 });

    let above = refusal(migrate_down(&database, "wallet", &STEPS, 3));
    assert!(matches!(above, MigrationError::TargetAbove { found: 2, target: 3, .. }), "{above:?}");
}

fn a_newer_database_is_refused(place: &EngineUnderTest) {
    let database = place.open();
    migrate_up(&database, "wallet", &STEPS, 0).unwrap();
    let expected = MigrationError::Newer { component: "wallet".to_owned(), found: 2, known: 1 };
    assert_eq!(refusal(migrate_up(&database, "wallet", &STEPS[..1], 0)), expected);
    assert_eq!(refusal(migrate_down(&database, "wallet", &STEPS[..1], 0)), expected);
    assert!(has_table(&database, "coin") && has_table(&database, "label"));
}

fn a_changed_step_is_refused(place: &EngineUnderTest) {
    let database = place.open();
    migrate_up(&database, "wallet", &STEPS[..1], 0).unwrap();
    let mut steps = STEPS;
    steps[0].up = "CREATE TABLE coin (id {bigserial_pk})";
    let expected = MigrationError::Changed { component: "wallet".to_owned(), version: 1 };
    assert_eq!(refusal(migrate_up(&database, "wallet", &steps, 0)), expected);
    assert!(!has_table(&database, "label"));
}

fn a_step_that_fails_leaves_nothing(place: &EngineUnderTest) {
    let database = place.open();
    let mut steps = STEPS;
    steps[1].up = "CREATE TABLE label (name TEXT); CREATE TABLE coin (again BIGINT)";
    migrate_up(&database, "wallet", &steps, 0).unwrap_err();
    assert!(!has_table(&database, "coin") && !has_table(&database, "label"));
    assert_eq!(applied_migrations(&database, "wallet").unwrap(), []);
}

fn only_creating_creates_and_reading_does_not_upgrade(place: &EngineUnderTest) {
    let mode = |mode| Options::default().with(|settings| settings.mode = mode);
    let opened = |how| -> Result<MigrationReport, SqlError> {
        migrate_up(&Database::open(place.url(), &mode(how))?, "wallet", &STEPS, 0)
    };
    for how in [OpenMode::Read, OpenMode::Existing] {
        let error = opened(how).unwrap_err();
        assert!(error.is_missing(), "{how:?}: {error:?}");
    }
    // Tables of another part are not ours.
    migrate_up(&place.open(), "node", &STEPS[..1], 0).unwrap();
    for how in [OpenMode::Read, OpenMode::Existing] {
        let missing = MigrationError::Missing { component: "wallet".to_owned() };
        assert_eq!(refusal(opened(how)), missing);
    }
    migrate_down(&place.open(), "node", &STEPS[..1], 0).unwrap();

    migrate_up(&place.open(), "wallet", &STEPS[..1], 0).unwrap();
    let outdated = MigrationError::Outdated { component: "wallet".to_owned(), found: 1, known: 2 };
    assert_eq!(refusal(opened(OpenMode::Read)), outdated);
    assert!(!has_table(&place.open(), "label"));
    assert_eq!(opened(OpenMode::Existing).unwrap(), MigrationReport { from: 1, to: 2 });
    assert_eq!(opened(OpenMode::Read).unwrap(), MigrationReport { from: 2, to: 2 });

    let reader = place.open_with(&mode(OpenMode::Read));
    let written: Result<u64, SqlError> =
        reader.write(|tx| tx.execute("INSERT INTO label (name) VALUES ('x')", &[]));
    assert!(matches!(written, Err(SqlError::ReadOnly)), "{written:?}");
}

fn components_are_apart(place: &EngineUnderTest) {
    let database = place.open();
    migrate_up(&database, "node", &STEPS[..1], 0).unwrap();
    let other = Migration { version: 1, ..STEPS[1] };
    assert_eq!(
        migrate_up(&database, "wallet", &[other], 0).unwrap(),
        MigrationReport { from: 0, to: 1 }
    );
    migrate_down(&database, "wallet", &[other], 0).unwrap();
    assert!(has_table(&database, "coin") && !has_table(&database, "label"));
}

fn steps_out_of_order_are_refused(place: &EngineUnderTest) {
    let database = place.open();
    let gap = refusal(migrate_up(&database, "wallet", &STEPS[1..], 0));
    assert_eq!(gap, MigrationError::Gap { component: "wallet".to_owned(), version: 2 });
}

fn programs_that_start_together_take_turns(place: &EngineUnderTest) {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| migrate_up(&place.open(), "wallet", &STEPS, 0).unwrap());
        }
    });
    assert_eq!(applied_migrations(&place.open(), "wallet").unwrap().len(), 2);
}
