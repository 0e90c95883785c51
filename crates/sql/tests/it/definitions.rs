//! A schema is compared with what its migrations make.

use crate::place::{EngineUnderTest, on_both_engines};
use utxokeep_sql::{
    Database, Definitions, Dialect, Migration, Options, SqlError, migrate_down, migrate_up,
};

on_both_engines!(
    a_migrated_schema_is_as_its_migrations_make_it,
    what_weakens_a_schema_is_found,
    what_changes_no_row_is_no_fault,
    a_schema_that_went_down_and_up_again_is_the_same,
    finding_out_leaves_nothing_behind,
);

const STEPS: [Migration; 2] = [
    Migration {
        version: 1,
        name: "coins",
        up: "CREATE TABLE owner (id {bigserial_pk}, name TEXT NOT NULL);
             CREATE TABLE coin (
                 id BIGINT NOT NULL,
                 owner BIGINT NOT NULL,
                 amount BIGINT NOT NULL,
                 CONSTRAINT coin_key PRIMARY KEY (id),
                 CONSTRAINT coin_owner FOREIGN KEY (owner) REFERENCES owner (id) ON DELETE RESTRICT,
                 CONSTRAINT coin_amount CHECK (amount BETWEEN 0 AND 100)
             ) {without_rowid};
             CREATE UNIQUE INDEX coin_once ON coin (owner, amount) WHERE amount > 5;
             CREATE INDEX coin_by_amount ON coin (amount);
             CREATE VIEW rich AS SELECT c.id FROM coin c WHERE c.amount > 50",
        down: "DROP VIEW rich; DROP TABLE coin; DROP TABLE owner",
    },
    Migration {
        version: 2,
        name: "labels",
        up: "ALTER TABLE coin ADD COLUMN label {bytes}
                 CONSTRAINT coin_label CHECK (label IS NULL OR length(label) = 3);
             CREATE TABLE new_names (owner BIGINT NOT NULL, name TEXT NOT NULL DEFAULT '');
             INSERT INTO new_names (owner, name) SELECT o.id, o.name FROM owner o;
             ALTER TABLE new_names RENAME TO names",
        down: "DROP TABLE names; ALTER TABLE coin DROP COLUMN label",
    },
];

/// Texts of the changes on each engine, and what is said about each.
type Change = (&'static str, &'static str, &'static [&'static str]);

const WEAKER: &[Change] = &[
    ("DROP INDEX coin_once", "DROP INDEX coin_once", &["index coin_once of coin is missing"]),
    (
        "DROP INDEX coin_once; CREATE INDEX coin_once ON coin (owner, amount) WHERE amount > 5",
        "DROP INDEX coin_once; CREATE INDEX coin_once ON coin (owner, amount) WHERE amount > 5",
        &["index coin_once of coin is not as the ledger made it"],
    ),
    (
        "DROP INDEX coin_once; CREATE UNIQUE INDEX coin_once ON coin (owner, amount) WHERE amount > 6",
        "DROP INDEX coin_once; CREATE UNIQUE INDEX coin_once ON coin (owner, amount) WHERE amount > 6",
        &["index coin_once of coin is not as the ledger made it"],
    ),
    (
        "CREATE UNIQUE INDEX refuses ON coin (owner)",
        "CREATE UNIQUE INDEX refuses ON coin (owner)",
        &["index refuses of coin was added"],
    ),
    (
        "DROP VIEW rich; CREATE VIEW rich AS SELECT c.id FROM coin c",
        "CREATE OR REPLACE VIEW rich AS SELECT c.id FROM coin c",
        &["view rich is not as the ledger made it"],
    ),
    (
        "CREATE TRIGGER robs AFTER INSERT ON coin BEGIN UPDATE coin SET amount = 0 WHERE id = 1; END",
        "CREATE FUNCTION robs() RETURNS trigger AS 'BEGIN NEW.amount := 0; RETURN NEW; END'
             LANGUAGE plpgsql;
         CREATE TRIGGER robs BEFORE INSERT ON coin FOR EACH ROW EXECUTE FUNCTION robs()",
        &["trigger robs of coin was added"],
    ),
    (
        "CREATE TABLE mine (a INT);
         CREATE TRIGGER far AFTER INSERT ON mine BEGIN DELETE FROM coin WHERE id = 1; END",
        "CREATE RULE far AS ON INSERT TO coin DO INSTEAD NOTHING",
        &["trigger far of mine was added", "rule far of coin was added"],
    ),
    (
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'AND 100', 'AND 999') WHERE name = 'coin'",
        "ALTER TABLE coin DROP CONSTRAINT coin_amount;
         ALTER TABLE coin ADD CONSTRAINT coin_amount CHECK (amount BETWEEN 0 AND 999)",
        &[
            "table coin is not as the ledger made it",
            "constraint coin_amount of coin is not as the ledger made it",
        ],
    ),
    (
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'amount INT NOT NULL', 'amount INT')
             WHERE name = 'coin'",
        "ALTER TABLE coin ALTER COLUMN amount DROP NOT NULL",
        &[
            "table coin is not as the ledger made it",
            "column amount of coin is not as the ledger made it",
        ],
    ),
    (
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, ' STRICT', '') WHERE name = 'names'",
        "ALTER TABLE names ALTER COLUMN owner TYPE NUMERIC",
        &[
            "table names is not as the ledger made it",
            "column owner of names is not as the ledger made it",
        ],
    ),
];

/// What only `PostgreSQL` can do.
const WEAKER_ON_POSTGRES: &[(&str, &str)] = &[
    (
        "ALTER TABLE coin DROP CONSTRAINT coin_amount;
         ALTER TABLE coin ADD CONSTRAINT coin_amount CHECK (amount BETWEEN 0 AND 100) NOT VALID",
        "constraint coin_amount of coin is not as the ledger made it",
    ),
    ("ALTER TABLE coin DROP CONSTRAINT coin_owner", "constraint coin_owner of coin is missing"),
    ("ALTER TABLE coin DISABLE TRIGGER ALL", "disabled trigger"),
    ("ALTER TABLE coin ENABLE ROW LEVEL SECURITY", "table coin is not as the ledger made it"),
    ("CREATE POLICY blind ON coin USING (false)", "policy blind of coin was added"),
    ("CREATE TABLE fake () INHERITS (names)", "child table fake of names was added"),
    ("ALTER TABLE names SET UNLOGGED", "table names is not as the ledger made it"),
    ("ALTER TABLE names ALTER COLUMN name SET DEFAULT 'x'", "column name of names is not as"),
    ("ALTER TABLE names ALTER COLUMN owner TYPE INTEGER", "column owner of names is not as"),
    (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'coin_once'::regclass",
        "coin_once",
    ),
];

/// Additions that an operator may make.
const HARMLESS: &[(&str, &str)] = &[
    (
        "CREATE INDEX mine ON coin (owner)",
        "CREATE INDEX mine ON coin (owner) WITH (fillfactor = 50)",
    ),
    ("ANALYZE", "COMMENT ON TABLE coin IS 'coins'; ANALYZE coin"),
    (
        "CREATE TABLE other (a INT); CREATE VIEW poor AS SELECT id FROM coin",
        "CREATE TABLE other (a INT); CREATE VIEW poor AS SELECT id FROM coin",
    ),
    (
        "CREATE TRIGGER own AFTER INSERT ON other BEGIN DELETE FROM other; END",
        "ALTER INDEX coin_once SET (fillfactor = 70); ALTER TABLE coin SET (fillfactor = 70)",
    ),
    // As an older program made every table.
    (
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(replace(sql, ', STRICT', ''), ' STRICT', '')
             WHERE type = 'table'",
        "ANALYZE coin",
    ),
];

fn migrated(place: &EngineUnderTest) -> Database {
    let database = place.open();
    migrate_up(&database, "wallet", &STEPS, 1).unwrap();
    database
}

fn expected(database: &Database) -> Definitions {
    Definitions::expected(database, &STEPS).unwrap().unwrap()
}

fn faults(database: &Database) -> Vec<String> {
    let stored = database.read(Definitions::stored).map_err(|error: SqlError| error).unwrap();
    expected(database).faults(&stored).iter().map(ToString::to_string).collect()
}

/// Changes the schema as a client of its own, which may do what the program never does.
fn change(place: &EngineUnderTest, database: &Database, sql: &str) {
    match database.dialect() {
        Dialect::Sqlite => {
            let file = place.url().strip_prefix("sqlite:").unwrap();
            rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
        }
        Dialect::Postgres => database.write(|tx| tx.execute_batch(sql)).unwrap(),
    }
}

fn of(dialect: Dialect, sqlite: &'static str, postgres: &'static str) -> &'static str {
    if dialect == Dialect::Sqlite { sqlite } else { postgres }
}

fn a_migrated_schema_is_as_its_migrations_make_it(place: &EngineUnderTest) {
    let database = migrated(place);
    assert!(expected(&database).len() >= 6);
    assert_eq!(faults(&database), Vec::<String>::new());
    migrate_down(&database, "wallet", &STEPS, 1).unwrap();
    assert!(!faults(&database).is_empty(), "a step is missing");
}

fn what_weakens_a_schema_is_found(place: &EngineUnderTest) {
    let database = migrated(place);
    let dialect = database.dialect();
    let again = || {
        migrate_down(&database, "wallet", &STEPS, 0).unwrap();
        migrate_up(&database, "wallet", &STEPS, 1).unwrap();
    };
    for (sqlite, postgres, said) in WEAKER {
        let sql = of(dialect, sqlite, postgres);
        change(place, &database, sql);
        let found = faults(&database);
        assert!(found.iter().any(|fault| said.contains(&fault.as_str())), "{sql}: {found:?}");
        again();
    }
    if dialect == Dialect::Postgres {
        for (sql, said) in WEAKER_ON_POSTGRES {
            change(place, &database, sql);
            let found = faults(&database);
            assert!(found.iter().any(|fault| fault.contains(said)), "{sql}: {found:?}");
            change(place, &database, "DROP TABLE IF EXISTS fake");
            again();
        }
    }
}

fn what_changes_no_row_is_no_fault(place: &EngineUnderTest) {
    let database = migrated(place);
    for (sqlite, postgres) in HARMLESS {
        let sql = of(database.dialect(), sqlite, postgres);
        change(place, &database, sql);
        assert_eq!(faults(&database), Vec::<String>::new(), "{sql}");
    }
}

fn a_schema_that_went_down_and_up_again_is_the_same(place: &EngineUnderTest) {
    let database = migrated(place);
    for version in [1, 0, 1] {
        migrate_down(&database, "wallet", &STEPS, version.min(1)).unwrap();
        migrate_up(&database, "wallet", &STEPS, 1).unwrap();
        assert_eq!(faults(&database), Vec::<String>::new());
    }
}

fn finding_out_leaves_nothing_behind(place: &EngineUnderTest) {
    let database = migrated(place);
    database.write(|tx| tx.execute("INSERT INTO owner (name) VALUES ('me')", &[])).unwrap();
    drop(expected(&database));
    let read = |sql: &'static str| -> Result<i64, SqlError> {
        database.read(|tx| tx.query_one(sql, &[], |row| row.int(0)))
    };
    // The statements of this connection mean the real tables again.
    assert_eq!(read("SELECT COUNT(*) FROM owner").unwrap(), 1);
    if database.dialect() == Dialect::Postgres {
        let left = "SELECT COUNT(*) FROM pg_class c WHERE c.relname = 'coin'";
        assert_eq!(read(left).unwrap(), 1);
    }
}

/// Without the right to make temporary tables nothing is compared, and nobody is told otherwise.
#[test]
fn a_user_that_may_not_find_out_is_told_so() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let owner = migrated(&place);
    let name = place.url().rsplit('/').next().unwrap().split('?').next().unwrap();
    let role = format!("limited_{name}");
    let grants = format!(
        "REVOKE TEMPORARY ON DATABASE \"{name}\" FROM PUBLIC; CREATE ROLE \"{role}\";
         GRANT ALL ON SCHEMA public TO \"{role}\"; GRANT ALL ON ALL TABLES IN SCHEMA public TO \"{role}\""
    );
    owner.write(|tx| tx.execute_batch(&grants)).unwrap();
    let separator = if place.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20role%3D{role}", place.url());
    let limited = Database::open(&url, &Options::default()).unwrap();
    assert_eq!(Definitions::expected(&limited, &STEPS).unwrap(), None);
    let drop_role = format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\"");
    owner.write(|tx| tx.execute_batch(&drop_role)).unwrap();
}
