//! An engine of the node store beside a bare client of it: what `utxokeep store bench` measures.

use std::sync::atomic::AtomicBool;

use utxokeep::{
    config::TxStoreConfig,
    store_bench::{StoreBenchPlan, run},
};

use crate::output;

/// Measures the engine that a URL names; stores that exist are not touched.
pub(crate) fn measure(url: &str) -> anyhow::Result<()> {
    output::heading("node store and bare client: operations per second (and ratio to the client)");
    let stop = AtomicBool::new(false);
    run(url, &TxStoreConfig::default(), &StoreBenchPlan::default(), &stop, &mut |level, row| {
        let what = format!(
            "{level}, {}, batch {}, {} clients: {:.0}",
            row.operation.name(),
            row.batch,
            row.clients,
            row.store
        );
        let beside = row.bare.map_or_else(String::new, |bare| {
            let ratio = |rate: f64| output::ratio(row.store, rate);
            let (same, floor) = (ratio(bare.same), ratio(bare.floor));
            format!(", bare {:.0} ({same:.2}), floor {:.0} ({floor:.2})", bare.same, bare.floor)
        });
        output::line(&format!("{what}{beside}"));
    })?;
    Ok(())
}
