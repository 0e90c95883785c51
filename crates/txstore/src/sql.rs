//! Relational tables below the node store: `SQLite`, or `PostgreSQL`.
//!
//! The same rules decide; the tables hold what they decided in columns that others can query. A
//! write reads each record under its row lock (`SQLite` has one writer anyway), so that what it saw
//! holds until it commits.

#[cfg(test)]
mod plans;
mod read;
mod rows;
mod schema;
mod statements;
mod write;

use std::cell::RefCell;

use utxokeep_kv::crash_point;
use utxokeep_sql::{ConstraintKind, Database, Dialect, migrate_up};

pub use self::schema::{COMPONENT, MIGRATIONS};
use self::{
    read::SqlView,
    statements::{LOCK_SETTLED_ALONE, SETTLED_KEY},
    write::commit,
};
use crate::{
    backend::{Backend, ReadWork, Touched, WriteWork, Writes},
    engine::{NodeStore, Settings},
    error::{OpenError, StoreError},
};

/// How often a call is run again because somebody else stored the same transaction meanwhile.
const CREATED_MEANWHILE_MAX: usize = 10;

/// Relational tables.
#[derive(Debug)]
struct SqlBackend {
    database: Database,
}

impl NodeStore {
    /// A store on a relational database, whose tables are made or brought up to date. `now_us` is
    /// the time, in microseconds, that the database remembers for it.
    pub fn on_sql(database: Database, settings: Settings, now_us: i64) -> Result<Self, OpenError> {
        migrate_up(&database, COMPONENT, MIGRATIONS, now_us).map_err(StoreError::from)?;
        Ok(Self::new(Box::new(SqlBackend { database }), settings))
    }
}

impl Backend for SqlBackend {
    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError> {
        self.database.read(|transaction| {
            let transaction = RefCell::new(transaction);
            work(&SqlView { transaction, lock: "", is_shared: false })
        })
    }

    fn write(&self, _touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError> {
        let (lock, is_shared) = match self.database.dialect() {
            Dialect::Sqlite => ("", false),
            Dialect::Postgres => (" FOR UPDATE", true),
        };
        let mut attempts = 0;
        loop {
            let outcome = self.database.write(|transaction| {
                let reborrowed = RefCell::new(&mut *transaction);
                let view = SqlView { transaction: reborrowed, lock, is_shared };
                let writes: Writes = work(&view)?;
                if is_shared && writes.unsettles() {
                    transaction.query_opt(LOCK_SETTLED_ALONE, &[SETTLED_KEY], |_| Ok(()))?;
                }
                commit(transaction, &writes)?;
                crash_point("before_commit");
                Ok(())
            });
            attempts += 1;
            match outcome {
                // A row that is not there cannot be locked: the second to insert it starts again,
                // and finds it.
                Err(StoreError::Sql(error))
                    if error.is_constraint(ConstraintKind::Unique)
                        && attempts < CREATED_MEANWHILE_MAX => {}
                outcome => {
                    crash_point("after_commit");
                    return outcome;
                }
            }
        }
    }

    fn engine(&self) -> &'static str {
        self.database.dialect().name()
    }
}
