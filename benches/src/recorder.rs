//! An engine that remembers what is written to it, so that the same rows can be written again to a
//! bare database: the bound of every measurement.

use std::{path::Path, sync::Mutex, sync::PoisonError, time::Duration};

use utxokeep_index::tables::TABLES;
use utxokeep_kv::{Batch, Durability, Kv, KvError, OpenMode, RocksKv, RocksOptions, SortedRows};
use utxokeep_testkit::{Hook, HookedKv};

use crate::clock::{Clock, Took};

/// A write, as it reached the engine.
#[derive(Clone)]
pub(crate) enum Write {
    Commit(Batch),
    Load(Batch, Batch),
}

/// A RocksDB that remembers its writes.
pub(crate) fn recording(kv: RocksKv) -> HookedKv<RocksKv, Recorder> {
    HookedKv::new(kv, Recorder::default())
}

/// Remembers writes.
#[derive(Default)]
pub(crate) struct Recorder {
    writes: Mutex<Vec<Write>>,
}

impl Recorder {
    fn record(&self, write: Write) {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).push(write);
    }

    /// What was written so far; starts afresh.
    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut *self.writes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Hook for Recorder {
    fn commit(&self, batch: &Batch) -> Result<(), KvError> {
        self.record(Write::Commit(batch.clone()));
        Ok(())
    }

    fn load(&self, tables: &[&dyn SortedRows], finish: &Batch) -> Result<(), KvError> {
        let mut rows = Batch::new();
        for source in tables {
            source.visit(&mut |key, value| {
                match value {
                    Some(value) => rows.put(source.table(), key, value),
                    None => rows.delete(source.table(), key),
                }
                Ok(())
            })?;
        }
        self.record(Write::Load(rows, finish.clone()));
        Ok(())
    }
}

/// Writes recorded rows, sorted beforehand, to a database and measures nothing else.
pub(crate) fn replay(
    kv: &RocksKv,
    writes: Vec<Write>,
    durability: Durability,
) -> anyhow::Result<(Took, Vec<Duration>)> {
    let sorted: Vec<_> = writes
        .into_iter()
        .map(|mut write| {
            let (Write::Commit(rows) | Write::Load(rows, _)) = &mut write;
            rows.sort();
            write
        })
        .collect();
    let mut each = Vec::with_capacity(sorted.len());
    let clock = Clock::start();
    for write in sorted {
        let one = Clock::start();
        match write {
            Write::Commit(rows) => kv.commit(rows, durability)?,
            Write::Load(mut rows, finish) => {
                let tables = rows.sorted_tables();
                let tables: Vec<&dyn SortedRows> = tables.iter().map(|rows| rows as _).collect();
                kv.load(&tables, finish)?;
            }
        }
        each.push(one.stop().wall);
    }
    Ok((clock.stop(), each))
}

/// The same rows through the ordinary write path, in batches of the size RocksDB likes best.
pub(crate) fn as_commits(writes: &[Write]) -> Vec<Write> {
    const ROWS_PER_BATCH: usize = 50_000;
    let mut commits = Vec::new();
    for write in writes {
        let (Write::Commit(rows) | Write::Load(rows, _)) = write;
        let mut sorted = rows.clone();
        sorted.sort();
        let mut batch = Batch::new();
        for row in sorted.rows() {
            match row.value {
                Some(value) => batch.put(row.table, row.key, value),
                None => batch.delete(row.table, row.key),
            }
            if batch.len() >= ROWS_PER_BATCH {
                commits.push(Write::Commit(std::mem::take(&mut batch)));
            }
        }
        commits.push(Write::Commit(batch));
    }
    commits
}

/// An empty database with every table.
pub(crate) fn bare(dir: &Path, options: RocksOptions) -> anyhow::Result<RocksKv> {
    Ok(RocksKv::open(dir, TABLES, options, OpenMode::Create)?)
}
