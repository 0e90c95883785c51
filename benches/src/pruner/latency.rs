//! A pass over nothing, and what a run does to those who spend meanwhile.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use utxokeep_core::{
    Height,
    node::{SpendFlags, SpendRequest},
};
use utxokeep_pruner::{Control, MonotonicClock, PrunerSettings, Run};
use utxokeep_txstore::TxStore;

use super::{Family, MINED, WINDOW, fill, rocks};
use crate::{clock::peak_memory_bytes, output};

/// A run over a store in which nothing is due.
pub(super) fn measure_nothing(dir: &Path) -> anyhow::Result<()> {
    output::heading("pruner on RocksDB, fsync off: a run over nothing, and spends during a run");
    for records in [1_000, 200_000] {
        let place = dir.join(format!("prune-nothing-{records}"));
        let store = rocks::open(&place)?;
        fill::coins(&*store, records)?;
        let (settings, control) = (PrunerSettings::default(), Control::default());
        let clock = MonotonicClock::default();
        let run = Run { store: &*store, settings: &settings, clock: &clock, control: &control };
        let mut sample = Vec::new();
        for height in 0..200 {
            let started = Instant::now();
            let report = run.at(Height::new(MINED + WINDOW + height), &mut None)?;
            anyhow::ensure!(report.examined == 0, "something was due");
            sample.push(started.elapsed());
        }
        output::line(&format!(
            "a run over nothing, {records} records stored: {}",
            output::percentiles(sample)
        ));
        drop(store);
        std::fs::remove_dir_all(&place)?;
    }
    Ok(())
}

fn p99(mut sample: Vec<Duration>) -> f64 {
    sample.sort_unstable();
    let at = sample.len().saturating_sub(1) * 99 / 100;
    sample.get(at).map_or(0.0, Duration::as_secs_f64)
}

/// Spends of single transactions, at rest and during a run, with one chunk at a time and with two.
pub(super) fn measure_spends(dir: &Path, due: u64) -> anyhow::Result<()> {
    for parallel_chunks in [1, 2] {
        let settings =
            PrunerSettings::default().with(|settings| settings.parallel_chunks = parallel_chunks);
        measure_spends_with(dir, due, &settings)?;
    }
    Ok(())
}

fn measure_spends_with(dir: &Path, due: u64, settings: &PrunerSettings) -> anyhow::Result<()> {
    let place = dir.join("prune-latency");
    let store = rocks::open(&place)?;
    let coins = 400_000;
    fill::coins(&*store, coins)?;
    let family = Family { parents: due, children: 1, blocks: 1 };
    fill::parents(&*store, family)?;
    let mut next = 0;
    let mut spend = |until: &mut dyn FnMut() -> bool| -> anyhow::Result<Vec<Duration>> {
        let mut sample = Vec::new();
        while !until() && next < coins {
            let spender = fill::spender(next);
            let request =
                SpendRequest::of(&spender, Height::new(MINED + 1), SpendFlags::default())?;
            let started = Instant::now();
            anyhow::ensure!(store.spend(&[request])?[0].is_ok(), "a spend was refused");
            sample.push(started.elapsed());
            next += 1;
            // A client at a steady rate, well below what the store could do.
            thread::sleep(Duration::from_micros(100));
        }
        Ok(sample)
    };
    let started = Instant::now();
    let idle = spend(&mut || started.elapsed() > Duration::from_secs(5))?;
    let is_over = AtomicBool::new(false);
    let control = Control::default();
    let clock = MonotonicClock::default();
    let (busy, took) = thread::scope(|scope| -> anyhow::Result<_> {
        let run = scope.spawn(|| {
            let run = Run { store: &*store, settings, clock: &clock, control: &control };
            let started = Instant::now();
            let report = run.at(family.due(), &mut None);
            is_over.store(true, Ordering::Release);
            (report, started.elapsed())
        });
        let busy = spend(&mut || is_over.load(Ordering::Acquire))?;
        let (report, took) = run.join().expect("a run does not panic");
        anyhow::ensure!(report?.deleted == due, "something was kept");
        Ok((busy, took))
    })?;
    let ratio = p99(busy.clone()) / p99(idle.clone());
    output::line(&format!(
        "spends at rest: {}; while {due} records are deleted in {took:.1?}, {} chunks at a time: {}; \
         p99 {ratio:.1} times that at rest; {:.0} MB of memory at most",
        output::percentiles(idle),
        settings.parallel_chunks,
        output::percentiles(busy),
        output::mega(peak_memory_bytes())
    ));
    drop(store);
    std::fs::remove_dir_all(&place)?;
    Ok(())
}
