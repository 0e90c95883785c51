//! Chains of transactions in one block on PostgreSQL: chunks of a run hold parents and children of
//! each other.

use std::time::Duration;

use utxokeep_core::Height;
use utxokeep_pruner::{Control, MonotonicClock, PrunerSettings, Run};
use utxokeep_sql::{Database, Durability, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_txstore::{NodeStore, ProofFault, StoreSettings};

use super::{MINED, Pace, WINDOW, fill};
use crate::output;

const LENGTH: u64 = 200;
const RUNS: u32 = 20;

/// The order of locks, and the mistake that it replaced, with one chunk at a time and with two.
pub(super) fn measure() -> anyhow::Result<()> {
    output::heading("pruner on PostgreSQL, fsync off: chains of 200 in a block, 20 runs");
    for (name, fault) in
        [("one order of locks", None), ("locks on the way", Some(ProofFault::LockedOnTheWay))]
    {
        for parallel_chunks in [1, 2] {
            measure_with(name, fault, parallel_chunks)?;
        }
    }
    Ok(())
}

fn measure_with(
    name: &str,
    fault: Option<ProofFault>,
    parallel_chunks: usize,
) -> anyhow::Result<()> {
    let server = TestDatabase::create()?;
    let options = Options::default().with(|settings| settings.durability = Durability::Relaxed);
    let database = Database::open(server.url(), &options)?;
    let store = NodeStore::on_sql(database.clone(), StoreSettings::default(), 0)?;
    let store = match fault {
        Some(fault) => store.unsafe_with(fault),
        None => store,
    };
    let settings =
        PrunerSettings::default().with(|settings| settings.parallel_chunks = parallel_chunks);
    let (control, clock) = (Control::default(), MonotonicClock::default());
    let (mut pace, mut slowest) = (Pace::default(), Duration::ZERO);
    for run in 0..RUNS {
        fill::chain(&store, u64::from(run), LENGTH, MINED + run)?;
        let started = std::time::Instant::now();
        let run_once = Run { store: &store, settings: &settings, clock: &clock, control: &control };
        let report = run_once.at(Height::new(MINED + run + WINDOW), &mut None)?;
        let took = started.elapsed();
        slowest = slowest.max(took);
        pace.add(usize::try_from(report.deleted)?, took)?;
    }
    output::line(&format!(
        "{name}, {parallel_chunks} chunks at a time: {:.0} records/s, slowest run {slowest:.0?}, \
         {} transactions run again",
        pace.per_second(),
        database.retries()
    ));
    Ok(())
}
