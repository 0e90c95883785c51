//! Safe deletion: verified against unverified, both beside bare deletes of the same rows; what a
//! pass over nothing costs; and what a run does to spends.

mod chains;
mod chunks;
mod fill;
mod latency;
mod rocks;
mod sql;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use utxokeep_core::{
    Height, Txid,
    node::{Check, PruneRules, Pruned},
};
use utxokeep_pruner::PrunerSettings;
use utxokeep_txstore::PruneStore;

use crate::output;

/// Height of the first block that has children in it.
const MINED: u32 = 100;
const WINDOW: u32 = 288;

/// Parents, children of each, and in how many blocks these are.
#[derive(Debug, Clone, Copy)]
struct Family {
    parents: u64,
    children: u32,
    blocks: u32,
}

impl Family {
    /// Height at which all of them are due, and every child is settled.
    const fn due(self) -> Height {
        Height::new(MINED + self.blocks - 1 + WINDOW)
    }

    /// Records of one commit: as a run has them, fewer of those with many rows.
    fn chunk(self) -> usize {
        let rows = PrunerSettings::default().chunk_rows;
        if self.children > 10 { rows / 8 } else { rows }
    }

    fn name(self) -> String {
        let Self { children, blocks, .. } = self;
        format!("{children} children each, all in {blocks} blocks")
    }
}

/// Families of each kind, with so many children in all.
fn families(children: u64) -> impl Iterator<Item = Family> {
    let kinds = [(1, 1), (3, 1), (3, 50), (100, 1), (100, 50)];
    kinds.into_iter().map(move |(each, blocks)| Family {
        parents: children / u64::from(each),
        children: each,
        blocks,
    })
}

pub(crate) fn measure(dir: &Path, due: u64) -> anyhow::Result<()> {
    output::heading(
        "pruner on RocksDB, fsync off: records deleted per second, ways taken in turn chunk by chunk",
    );
    for family in families(400_000) {
        rocks::measure(dir, family)?;
    }
    sql::measure(dir)?;
    chains::measure()?;
    latency::measure_nothing(dir)?;
    latency::measure_spends(dir, due)
}

/// Chains on PostgreSQL alone.
pub(crate) fn measure_chains() -> anyhow::Result<()> {
    chains::measure()
}

/// Sizes and numbers of chunks alone.
pub(crate) fn measure_chunks(dir: &Path) -> anyhow::Result<()> {
    chunks::measure(dir)
}

/// The rules of a run, and the same without a look at children.
fn rules(height: Height) -> [PruneRules; 2] {
    let verified = PruneRules::at(height, WINDOW);
    let children = [Check::ChildUnmined, Check::ChildStable, Check::ChildMissing];
    [verified, children.into_iter().fold(verified, PruneRules::unsafe_without)]
}

/// What a way of deleting did so far.
#[derive(Debug, Default)]
struct Pace {
    records: u32,
    took: Duration,
}

impl Pace {
    fn add(&mut self, records: usize, took: Duration) -> anyhow::Result<()> {
        self.records += u32::try_from(records)?;
        self.took += took;
        Ok(())
    }

    fn per_second(&self) -> f64 {
        f64::from(self.records) / self.took.as_secs_f64()
    }
}

fn prune(store: &dyn PruneStore, txids: &[Txid], rules: &PruneRules) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let answers = store.prune(txids, rules)?.map_err(|error| anyhow::anyhow!(error))?;
    let took = started.elapsed();
    let gone = answers.iter().filter(|one| matches!(one, Pruned::Deleted { .. })).count();
    anyhow::ensure!(gone == txids.len(), "something was kept");
    Ok(took)
}
