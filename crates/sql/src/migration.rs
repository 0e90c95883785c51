//! Schema versions: numbered steps up and down, in one transaction, for each part of the schema.
//!
//! This is our own because refinery has no way down and pins a rusqlite version of its own.
//!
//! Steps are texts for both engines with the words of [`Dialect::render`]. What was applied is
//! kept in `utxokeep_migrations` with a checksum of the step, so that a program never works on a
//! schema that it does not know.

use crate::database::Database;
use crate::doubt;
use crate::error::{MigrationError, SqlError};
use crate::options::Dialect;
use crate::transaction::Transaction;
use crate::value::Value;
use sha2::{Digest, Sha256};
use utxokeep_core::{Found, NotOpened, OpenMode};

/// One step of a schema. Steps count up from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Version that the step leads to.
    pub version: u32,
    /// What it does, in a few words.
    pub name: &'static str,
    /// Statements that make the step. Never changed once released.
    pub up: &'static str,
    /// Statements that take it back.
    pub down: &'static str,
}

/// A step that a database has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    /// Version that the step led to.
    pub version: u32,
    /// Its name when it was applied.
    pub name: String,
    /// Checksum of its statements.
    pub checksum: Vec<u8>,
    /// When it was applied, in microseconds since 1970.
    pub applied_at_us: i64,
}

/// Versions before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    /// Version before; 0 is an empty schema.
    pub from: u32,
    /// Version now.
    pub to: u32,
}

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS utxokeep_migrations (
    component TEXT NOT NULL,
    version BIGINT NOT NULL,
    name TEXT NOT NULL,
    checksum {bytes} NOT NULL,
    applied_at_us BIGINT NOT NULL,
    PRIMARY KEY (component, version)
)";

const HAS_TABLE_SQLITE: &str =
    "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'utxokeep_migrations'";
const HAS_TABLE_POSTGRES: &str = "SELECT 1 WHERE to_regclass('utxokeep_migrations') IS NOT NULL";

const SELECT_APPLIED: &str = "SELECT version, name, checksum, applied_at_us
    FROM utxokeep_migrations WHERE component = $1 ORDER BY version";

const INSERT_APPLIED: &str = "INSERT INTO utxokeep_migrations
    (component, version, name, checksum, applied_at_us) VALUES ($1, $2, $3, $4, $5)";

const DELETE_APPLIED: &str =
    "DELETE FROM utxokeep_migrations WHERE component = $1 AND version = $2";

/// Its row is locked until a migration ends, so that programs that start together take turns.
/// `SQLite` has one writer anyway.
const INSERT_TURN: &str = "INSERT INTO utxokeep_migrations
    (component, version, name, checksum, applied_at_us)
    VALUES ('', 0, 'locked by whoever migrates', '', 0) ON CONFLICT (component, version) DO NOTHING";

const TAKE_TURN: &str =
    "SELECT version FROM utxokeep_migrations WHERE component = '' AND version = 0 FOR UPDATE";

/// How often tables are made anew because another program made them at the same moment.
const CREATED_MEANWHILE_MAX: usize = 5;

/// Brings `component` up to the newest of `migrations`; does nothing when it is there. A database
/// that was not opened to be created, or to be changed, is refused where that would be needed.
pub fn migrate_up(
    database: &Database,
    component: &str,
    migrations: &[Migration],
    now_us: i64,
) -> Result<MigrationReport, SqlError> {
    check_order(component, migrations)?;
    if let Some(version) = usable_version(database, component, migrations)? {
        return Ok(MigrationReport { from: version, to: version });
    }
    create(database)?;
    database.write(|tx| {
        let from = prepare(tx, component, migrations)?;
        for step in migrations.iter().filter(|step| step.version > from) {
            tx.execute_batch(step.up)?;
            let sum = checksum(step);
            tx.execute(
                INSERT_APPLIED,
                &[
                    Value::from(component),
                    Value::from(step.version),
                    Value::from(step.name),
                    Value::from(&sum),
                    Value::from(now_us),
                ],
            )?;
        }
        let to = migrations.last().map_or(from, |step| step.version);
        Ok(MigrationReport { from, to })
    })
}

/// Version of a database that may not be changed, or not be created, and need not; `None` if there are
/// steps to be taken, or commits to be marked.
fn usable_version(
    database: &Database,
    component: &str,
    migrations: &[Migration],
) -> Result<Option<u32>, SqlError> {
    let mode = database.mode();
    if mode == OpenMode::Create {
        return Ok(None);
    }
    let applied = applied_migrations(database, component)?;
    let found = known_version(&applied, component, migrations)?;
    let known = migrations.last().map_or(0, |step| step.version);
    let state = match found {
        0 => Found::Nothing,
        older if older < known => Found::Older,
        _ => Found::Current,
    };
    let component = component.to_owned();
    match mode.decide(state) {
        Err(NotOpened::Missing) => Err(MigrationError::Missing { component }.into()),
        Err(NotOpened::Outdated) => {
            Err(MigrationError::Outdated { component, found, known }.into())
        }
        Ok(_) => Ok(Some(found).filter(|_| !mode.may_write())),
    }
}

/// Takes `component` down to `to_version`, newest step first; 0 takes everything back.
pub fn migrate_down(
    database: &Database,
    component: &str,
    migrations: &[Migration],
    to_version: u32,
) -> Result<MigrationReport, SqlError> {
    check_order(component, migrations)?;
    create(database)?;
    database.write(|tx| {
        let from = prepare(tx, component, migrations)?;
        if to_version > from {
            let component = component.to_owned();
            let above = MigrationError::TargetAbove { component, found: from, target: to_version };
            return Err(above.into());
        }
        let undo = |step: &&Migration| step.version > to_version && step.version <= from;
        for step in migrations.iter().rev().filter(undo) {
            tx.execute_batch(step.down)?;
            tx.execute(DELETE_APPLIED, &[Value::from(component), Value::from(step.version)])?;
        }
        Ok(MigrationReport { from, to: to_version })
    })
}

/// The steps that `component` has in this database, oldest first.
pub fn applied_migrations(
    database: &Database,
    component: &str,
) -> Result<Vec<AppliedMigration>, SqlError> {
    database.read(|tx| {
        let has_table = match tx.dialect() {
            Dialect::Sqlite => HAS_TABLE_SQLITE,
            Dialect::Postgres => HAS_TABLE_POSTGRES,
        };
        match tx.query_opt(has_table, &[], |_| Ok(()))? {
            Some(()) => read_applied(tx, component),
            None => Ok(Vec::new()),
        }
    })
}

/// Version of the database, once it is sure that the program knows every step in it.
fn prepare(
    tx: &mut Transaction<'_>,
    component: &str,
    migrations: &[Migration],
) -> Result<u32, SqlError> {
    if tx.dialect() == Dialect::Postgres {
        tx.query(TAKE_TURN, &[], |_| Ok(()))?;
    }
    known_version(&read_applied(tx, component)?, component, migrations)
}

/// The same, of the steps that it has.
fn known_version(
    applied: &[AppliedMigration],
    component: &str,
    migrations: &[Migration],
) -> Result<u32, SqlError> {
    let found = applied.last().map_or(0, |step| step.version);
    let known = migrations.last().map_or(0, |step| step.version);
    let component = component.to_owned();
    if found > known {
        return Err(MigrationError::Newer { component, found, known }.into());
    }
    for (expected, (step, present)) in (1..).zip(migrations.iter().zip(applied)) {
        let version = present.version;
        if version != expected {
            return Err(MigrationError::Gap { component, version }.into());
        }
        if checksum(step) != present.checksum.as_slice() {
            return Err(MigrationError::Changed { component, version }.into());
        }
    }
    Ok(found)
}

/// Makes the tables of this crate, where they are missing.
fn create(database: &Database) -> Result<(), SqlError> {
    let make = || {
        database.write(|tx| {
            tx.execute_batch(CREATE_TABLE)?;
            if tx.dialect() == Dialect::Postgres {
                tx.execute_batch(doubt::CREATE_TABLE)?;
                tx.execute(INSERT_TURN, &[])?;
            }
            Ok::<_, SqlError>(())
        })
    };
    let mut attempts = 1;
    loop {
        match make() {
            // PostgreSQL does not make "IF NOT EXISTS" wait for another program that makes it.
            Err(SqlError::Constraint { .. } | SqlError::Engine { .. })
                if attempts < CREATED_MEANWHILE_MAX =>
            {
                attempts += 1;
            }
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    database.mark_commits();
    Ok(())
}

fn read_applied(
    tx: &mut Transaction<'_>,
    component: &str,
) -> Result<Vec<AppliedMigration>, SqlError> {
    tx.query_all(SELECT_APPLIED, &[Value::from(component)], |row| {
        Ok(AppliedMigration {
            version: u32::try_from(row.int(0)?)
                .map_err(|_| SqlError::bad_row("a migration has a version out of range"))?,
            name: row.text(1)?.to_owned(),
            checksum: row.bytes(2)?.to_vec(),
            applied_at_us: row.int(3)?,
        })
    })
}

fn check_order(component: &str, migrations: &[Migration]) -> Result<(), SqlError> {
    match (1..).zip(migrations).find(|(expected, step)| step.version != *expected) {
        None => Ok(()),
        Some((_, step)) => {
            let component = component.to_owned();
            Err(MigrationError::Gap { component, version: step.version }.into())
        }
    }
}

fn checksum(step: &Migration) -> [u8; 32] {
    Sha256::digest(step.up).into()
}
