//! Relational tables below the node store: `SQLite`, or `PostgreSQL`.
//!
//! The same rules decide; the tables hold what they decided in columns that others can query.
//!
//! # Invariants
//!
//! * A write sees records that stay as they are until it commits. `SQLite` has one writer; on
//!   `PostgreSQL` every record is locked by its row ([`held`]).
//! * Locks are taken in one order, so that transactions never wait in a circle: rows of records by
//!   ascending id, all of them before anything is read; then numbers that all programs have in common,
//!   shared; then new rows by ascending id; last the generation of unsettled records.

mod held;
#[cfg(test)]
mod plans;
mod read;
mod rows;
mod schema;
mod statements;
mod write;

use utxokeep_core::Txid;
use utxokeep_fault::crash_point;
use utxokeep_kv::{OpenMode, Trouble};
use utxokeep_sql::{ConstraintKind, Database, Dialect, SqlError, Transaction, Value, migrate_up};

pub use self::schema::{COMPONENT, MIGRATIONS};
use self::{
    held::Held,
    read::SqlView,
    statements::{GENERATION_SHARED, LOCK_STATES, MAKE_STATES_LOCK, NEXT_GENERATION, STATES_LOCK},
    write::commit,
};
use crate::{
    backend::{Backend, ReadWork, Touched, WriteWork},
    engine::{NodeStore, StoreSettings},
    error::{StoreError, StoreOpenError},
    faults::{Planted, ProofFault},
    heights::WHOLE_STORE,
};

/// How often a call is run again because another one stored the same transaction meanwhile.
const CREATED_MEANWHILE_MAX: usize = 10;

/// How often a call relies on children being settled without locking them. After that it locks
/// them, so that a long reorganisation cannot hold it up for ever.
const OVERTAKEN_MAX: usize = 5;

/// Looks at every page of a file, and at every index.
const FILE_CHECK: &str = "PRAGMA integrity_check(10)";

/// Relational tables.
#[derive(Debug)]
struct SqlBackend {
    database: Database,
    planted: Planted,
}

impl NodeStore {
    /// A store on a relational database, whose tables are created or brought up to date as far as the
    /// database was opened for that. `now_us` is the time, in microseconds, that the database
    /// remembers for it.
    pub fn on_sql(
        database: Database,
        settings: StoreSettings,
        now_us: i64,
    ) -> Result<Self, StoreOpenError> {
        migrate_up(&database, COMPONENT, MIGRATIONS, now_us).map_err(StoreError::from)?;
        database.plan_by_index().map_err(StoreError::from)?;
        let planted = Planted::default();
        let backend = SqlBackend { database, planted: planted.clone() };
        Self { planted, ..Self::new(Box::new(backend), settings) }.compared()
    }
}

/// Why an attempt at a write was not committed.
enum Stop {
    /// It read records that it had not locked, so they are locked first in the next attempt.
    ReadUnlocked(Vec<Txid>),
    /// A record that it took for settled may not be settled any more.
    Overtaken,
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Failed(error.into())
    }
}

impl SqlBackend {
    /// One attempt, on `PostgreSQL` with the rows of `named` locked before anything is read.
    fn attempt(
        &self,
        transaction: &mut Transaction<'_>,
        named: &[Txid],
        trusts_settled: bool,
        work: &mut WriteWork<'_>,
    ) -> Result<(), Stop> {
        let held = match self.database.dialect() {
            Dialect::Sqlite => None,
            Dialect::Postgres if self.planted.has(ProofFault::LockedOnTheWay) => {
                Some(Held::on_the_way(trusts_settled))
            }
            Dialect::Postgres => Some(Held::lock(transaction, named, trusts_settled)?),
        };
        let held = if self.planted.has(ProofFault::AgreedNotKept) {
            held.map(Held::without_keeping_agreed)
        } else {
            held
        };
        let is_alone =
            named.contains(&WHOLE_STORE) && !self.planted.has(ProofFault::StatesNotLocked);
        if held.is_some() && is_alone {
            lock_states(transaction)?;
        }
        let view = SqlView::new(transaction, held);
        let outcome = work(&view);
        let (unlocked, relied_on) = view.into_held().map(Held::into_unlocked).unwrap_or_default();
        if !unlocked.is_empty() {
            // Whatever came of it, an error too, may rest on a record that changes meanwhile.
            return Err(Stop::ReadUnlocked(unlocked));
        }
        let writes = outcome?;
        commit(transaction, &writes)?;
        if let Some(generation) = relied_on
            && !writes.is_empty()
            && !self.planted.has(ProofFault::OvertakenIgnored)
        {
            let now = transaction.query_opt(GENERATION_SHARED, &[], |row| row.int(0))?;
            if now != Some(generation) {
                return Err(Stop::Overtaken);
            }
        }
        if self.database.dialect() == Dialect::Postgres && writes.unsettles() {
            transaction.execute(NEXT_GENERATION, &[])?;
        }
        crash_point("before_commit");
        Ok(())
    }
}

/// Lets one caller after the other change values of the store as a whole. A value that is not there
/// yet has no row to lock, so a row of its own is made first.
fn lock_states(transaction: &mut Transaction<'_>) -> Result<(), SqlError> {
    let name = [Value::from(STATES_LOCK)];
    if transaction.query_opt(LOCK_STATES, &name, |_| Ok(()))?.is_none() {
        transaction.execute(MAKE_STATES_LOCK, &name)?;
        transaction.query_opt(LOCK_STATES, &name, |_| Ok(()))?;
    }
    Ok(())
}

impl Backend for SqlBackend {
    fn mode(&self) -> OpenMode {
        self.database.mode()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn trouble(&self) -> Option<Trouble> {
        let trouble = self.database.trouble()?;
        Some(Trouble { reason: trouble.reason, passes: trouble.passes })
    }

    fn disk_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.database.disk_bytes(schema::TABLES)?)
    }

    fn file_damage(&self) -> Result<Option<String>, StoreError> {
        if self.database.dialect() != Dialect::Sqlite {
            return Ok(None);
        }
        self.database.read(|transaction| {
            let mut found = None;
            transaction.query(FILE_CHECK, &[], |row| {
                let what = row.opt_text(0)?.unwrap_or_default();
                if what != "ok" {
                    found.get_or_insert_with(|| what.to_owned());
                }
                Ok(())
            })?;
            Ok(found)
        })
    }

    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError> {
        self.database.read(|transaction| work(&SqlView::new(transaction, None)))
    }

    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError> {
        let mut named = match touched {
            Touched::Only(txids) => txids.clone(),
            Touched::Unknown => Vec::new(),
        };
        let (mut created_meanwhile, mut overtaken) = (0, 0);
        loop {
            let trusts_settled = overtaken < OVERTAKEN_MAX;
            let outcome = self
                .database
                .write(|transaction| self.attempt(transaction, &named, trusts_settled, &mut *work));
            match outcome {
                Ok(()) => {
                    crash_point("after_commit");
                    return Ok(());
                }
                // Each attempt names at least one more.
                Err(Stop::ReadUnlocked(more)) => named.extend(more),
                Err(Stop::Overtaken) => overtaken += 1,
                // A row that is not there cannot be locked: the second to insert it starts again,
                // and finds it.
                Err(Stop::Failed(StoreError::Sql(error)))
                    if error.is_constraint(ConstraintKind::Unique)
                        && created_meanwhile < CREATED_MEANWHILE_MAX =>
                {
                    created_meanwhile += 1;
                }
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
    }

    fn engine(&self) -> &'static str {
        self.database.dialect().name()
    }
}
