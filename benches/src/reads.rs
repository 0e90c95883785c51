//! Latency of point reads and first pages, with a warm cache and a cold one.

use std::{path::Path, time::Instant};

use utxokeep_core::{AddressRowKey, IndexKey, OutPoint};
use utxokeep_index::{
    ChainIndex, Paging,
    tables::ids::{ADDR, UNSPENT},
};
use utxokeep_kv::{Durability, OpenMode, Read, RocksKv, Scan, TableId};

use crate::{import::Setup, output};

const SAMPLES: usize = 2_000;
const PAGE_ROWS: usize = 100;

pub(crate) fn measure(setup: &Setup<'_>, database: &Path) -> anyhow::Result<()> {
    output::heading("reads");
    let open = || -> anyhow::Result<ChainIndex<RocksKv>> {
        let settings = setup.settings(Durability::Buffered);
        Ok(ChainIndex::open_dir(database, settings, setup.options(), OpenMode::Existing)?)
    };
    let (points, addresses, largest) = samples(&open()?)?;
    let dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    let cold = if dropped { "cold (reopened, page cache dropped)" } else { "cold (reopened)" };
    let index = open()?;
    for name in [cold, "warm"] {
        let times = points.iter().map(|&outpoint| {
            let started = Instant::now();
            let found = index.view()?.utxo(outpoint)?;
            anyhow::ensure!(found.is_some(), "a sampled output is gone");
            Ok(started.elapsed())
        });
        let times = times.collect::<anyhow::Result<Vec<_>>>()?;
        output::line(&format!("{name}: output by outpoint {}", output::percentiles(times)));
    }
    std::fs::write("/proc/sys/vm/drop_caches", "3").ok();
    drop(index);
    let index = open()?;
    let first =
        Paging { after: None, skip: 0, limit: PAGE_ROWS, reverse: false, scan_rows_max: u64::MAX };
    for name in [cold, "warm"] {
        let times = addresses.iter().map(|key| {
            let started = Instant::now();
            index.view()?.owner_utxos(key, first, None)?;
            Ok(started.elapsed())
        });
        let times = times.collect::<anyhow::Result<Vec<_>>>()?;
        output::line(&format!(
            "{name}: first page of an address (up to {PAGE_ROWS} rows) {}",
            output::percentiles(times)
        ));
    }
    let (key, rows) = largest;
    let mut times = Vec::new();
    for _ in 0..100 {
        let started = Instant::now();
        index.view()?.owner_utxos(key, first, None)?;
        times.push(started.elapsed());
    }
    output::line(&format!(
        "warm: first page of the largest address ({rows} outputs) {}",
        output::percentiles(times)
    ));
    let started = Instant::now();
    index.view()?.owner_balance(key, u64::MAX)?;
    output::line(&format!("warm: balance of that address in {:.3?}", started.elapsed()));
    let clock = crate::clock::Clock::start();
    let digest = index.view()?.digest(true)?;
    output::line(&format!(
        "muhash and ordered hash of {} outputs by scan: {}",
        digest.totals.txouts,
        clock.stop()
    ));
    Ok(())
}

type Samples = (Vec<OutPoint>, Vec<IndexKey>, (IndexKey, u64));

/// Outputs and addresses spread evenly over the tables, and the address with the most outputs.
fn samples(index: &ChainIndex<RocksKv>) -> anyhow::Result<Samples> {
    let txouts = index.status()?.totals.map_or(0, |totals| totals.txouts);
    let step = (usize::try_from(txouts)? / SAMPLES).max(1);
    let read = index.engine();
    let mut points = Vec::new();
    each(read, UNSPENT, &mut |at, key| {
        if at % step == 0 {
            points.extend(OutPoint::from_key(key));
        }
    })?;
    let mut addresses = Vec::new();
    let nobody = IndexKey::address(index.settings().network(), &[]);
    let (mut largest, mut current) = ((nobody, 0), (nobody, 0));
    each(read, ADDR, &mut |at, key| {
        let Some(row) = AddressRowKey::from_key(key) else { return };
        let owner = row.owner;
        current = if owner == current.0 { (owner, current.1 + 1) } else { (owner, 1) };
        if current.1 > largest.1 {
            largest = current;
        }
        if at % step == 0 {
            addresses.push(row.owner);
        }
    })?;
    Ok((points, addresses, largest))
}

fn each(
    read: &impl Read,
    table: TableId,
    visit: &mut dyn FnMut(usize, &[u8]),
) -> anyhow::Result<()> {
    let mut at = 0;
    read.scan(table, &Scan::ALL, &mut |key, _| {
        visit(at, key);
        at += 1;
        true
    })?;
    Ok(())
}
