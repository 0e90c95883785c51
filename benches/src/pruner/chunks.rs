//! How many records go in one commit, and how many commits at a time: every choice in turn on the same
//! store, round by round, so that whatever else the machine does hits all alike.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use utxokeep_core::Height;
use utxokeep_kv::Durability;
use utxokeep_pruner::{Control, MonotonicClock, PrunerSettings, Run};
use utxokeep_sql::{Database, Durability as SqlDurability, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{NodeStore, StoreSettings};

use super::{MINED, Pace, WINDOW, fill, rocks};
use crate::output;

/// Records of one commit, and commits at a time.
const CHOICES: [(usize, usize); 9] =
    [(16, 1), (16, 2), (64, 1), (64, 2), (64, 4), (256, 1), (256, 2), (1_024, 1), (1_024, 2)];

/// Records that each run deletes, and how often each choice has its turn.
const RECORDS: u64 = 2_048;
const ROUNDS: u32 = 5;

pub(super) fn measure(dir: &Path) -> anyhow::Result<()> {
    for (name, durability) in [("off", Durability::Buffered), ("on", Durability::Synced)] {
        let store = rocks::open_with(&dir.join(format!("chunks-{name}")), durability)?;
        measure_on(&format!("RocksDB, fsync {name}"), &store)?;
    }
    for (name, durability) in [("off", SqlDurability::Relaxed), ("on", SqlDurability::Synced)] {
        let url = format!("sqlite:{}", dir.join(format!("chunks-{name}.db")).display());
        measure_on(&format!("SQLite, fsync {name}"), &open(&url, durability)?)?;
    }
    let server = TestDatabase::create()?;
    measure_on("PostgreSQL, fsync off", &open(server.url(), SqlDurability::Relaxed)?)
}

fn open(url: &str, durability: SqlDurability) -> anyhow::Result<NodeStore> {
    let database =
        Database::open(url, &Options::default().with(|settings| settings.durability = durability))?;
    Ok(NodeStore::on_sql(database, StoreSettings::default(), 0)?)
}

fn measure_on(engine: &str, store: &NodeStore) -> anyhow::Result<()> {
    output::heading(&format!(
        "pruner on {engine}: chunks, {ROUNDS} runs over {RECORDS} records of 2 children for each"
    ));
    let (control, clock) = (Control::default(), MonotonicClock::default());
    let mut paces: [Pace; CHOICES.len()] = Default::default();
    let mut runs = 0;
    for _ in 0..ROUNDS {
        for ((chunk_rows, parallel_chunks), pace) in CHOICES.into_iter().zip(&mut paces) {
            fill::block(store, u64::from(runs), RECORDS, MINED + runs)?;
            let default = PrunerSettings::default();
            let settings = default.with(|settings| {
                settings.chunk_rows = chunk_rows;
                settings.parallel_chunks = parallel_chunks;
            });
            let run = Run { store, settings: &settings, clock: &clock, control: &control };
            let started = Instant::now();
            let report = run.at(Height::new(MINED + runs + WINDOW), &mut None)?;
            let took = started.elapsed();
            anyhow::ensure!(report.deleted == RECORDS, "something was kept: {:?}", report.kept);
            pace.add(usize::try_from(report.deleted)?, took)?;
            runs += 1;
        }
    }
    let is_default = |choice: &(usize, usize)| {
        let settings = PrunerSettings::default();
        *choice == (settings.chunk_rows, settings.parallel_chunks)
    };
    let default = CHOICES.iter().position(is_default).map_or(1.0, |at| paces[at].per_second());
    for ((rows, at_a_time), pace) in CHOICES.into_iter().zip(&paces) {
        let per_second = pace.per_second();
        let rows_at_a_time = u32::try_from(rows * at_a_time)?;
        let commit = Duration::from_secs_f64(f64::from(rows_at_a_time) / per_second);
        output::line(&format!(
            "{rows} records in a commit, {at_a_time} at a time: {per_second:.0} records/s ({:.2} of \
             the default), a commit takes {commit:.1?}",
            per_second / default
        ));
    }
    Ok(())
}
