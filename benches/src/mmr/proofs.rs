//! How long a proof takes, at the tip and at earlier heights of the window.

use std::time::Instant;

use utxokeep_core::{Height, OutPoint, mmr::check_mmr_proof};
use utxokeep_index::{ChainIndex, tables::ids::UNSPENT};
use utxokeep_kv::{Read, RocksKv, Scan};

use crate::output;

/// Outputs proven at the tip.
const SAMPLES: usize = 2_000;
/// Outputs proven at each earlier height.
const EARLIER_SAMPLES: usize = 10;

pub(super) fn measure(index: &ChainIndex<RocksKv>) -> anyhow::Result<()> {
    output::heading("Merkle mountain range: proofs");
    let points = samples(index)?;
    for name in ["first time", "warm"] {
        let mut times = Vec::new();
        for &outpoint in &points {
            let started = Instant::now();
            let proof = index.view()?.mmr_proof(outpoint, None, None)?;
            times.push(started.elapsed());
            check_mmr_proof(&proof, None)?;
        }
        output::line(&format!("{name}: at the tip {}", output::percentiles(times)));
    }
    let (tip, oldest) = {
        let view = index.view()?;
        let (tip, _) = view.here()?;
        (tip, view.floor()?.unwrap_or_default())
    };
    for depth in [1, 2, 6, 22, 100, 288] {
        let at = tip.minus(depth);
        if at < oldest {
            continue;
        }
        describe_earlier(index, &points, (tip, at))?;
    }
    Ok(())
}

fn describe_earlier(
    index: &ChainIndex<RocksKv>,
    points: &[OutPoint],
    (tip, at): (Height, Height),
) -> anyhow::Result<()> {
    let view = index.view()?;
    let mut changes = 0;
    for raw in at.get() + 1..=tip.get() {
        if let Some(entry) = view.block(Height::new(raw))? {
            changes += entry.created + entry.spent;
        }
    }
    let mut times = Vec::new();
    for &outpoint in points {
        let started = Instant::now();
        // Some were created later than that.
        let Ok(proof) = view.mmr_proof(outpoint, Some(at), None) else { continue };
        times.push(started.elapsed());
        check_mmr_proof(&proof, None)?;
        if times.len() == EARLIER_SAMPLES {
            break;
        }
    }
    output::line(&format!(
        "{} blocks back, {changes} changes in between: {}",
        tip.get() - at.get(),
        output::percentiles(times)
    ));
    Ok(())
}

/// Live outputs, spread evenly.
fn samples(index: &ChainIndex<RocksKv>) -> anyhow::Result<Vec<OutPoint>> {
    let live = index.status()?.totals.map_or(0, |totals| totals.txouts);
    let step = (usize::try_from(live)? / SAMPLES).max(1);
    let (mut at, mut points) = (0, Vec::new());
    index.engine().scan(UNSPENT, &Scan::ALL, &mut |key, _| {
        if at % step == 0 {
            points.extend(OutPoint::from_key(key));
        }
        at += 1;
        true
    })?;
    Ok(points)
}
