//! Heights that callers told, as far as several rows tell them: of one block, of a transaction and
//! those that spend it.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Height, Txid,
    node::{MinedBlock, Policy, Retentions, TxRecord},
};

use super::{PAGE, VerifyReport, read_each};
use crate::{error::StoreError, facts::Facts};

/// Blocks whose heights are remembered; those beyond are not compared.
const BLOCKS_MAX: usize = 4_000_000;

/// What records are compared with, besides their own rows.
pub(super) struct Told {
    pub(super) retentions: Retentions,
    /// How far a spend may be told above what is known of its spender: by a report that was held, and
    /// by an unmined mark that was dated back.
    slack_blocks: u32,
    heights: BTreeMap<u32, Height>,
}

impl Told {
    pub(super) fn new(retentions: Retentions, policy: &Policy) -> Self {
        let slack_blocks =
            policy.height_jump_blocks_max.saturating_add(policy.unmined_retention_blocks);
        Self { retentions, slack_blocks, heights: BTreeMap::new() }
    }

    /// One block has one height, whichever record tells it.
    pub(super) fn check_blocks(
        &mut self,
        txid: &Txid,
        record: &TxRecord,
        report: &mut VerifyReport,
    ) {
        for MinedBlock { id, height, .. } in &record.blocks {
            if self.heights.len() >= BLOCKS_MAX && !self.heights.contains_key(id) {
                continue;
            }
            let other = self.heights.entry(*id).or_insert(*height);
            if other != height {
                let detail = format!("block {id} has height {height} here, {other} elsewhere");
                report.add(*txid, detail);
            }
        }
    }

    /// Those that spend a record are above it on the longest chain, not far below its newest spend,
    /// and counted where they are gone.
    pub(super) fn check_spenders(
        &self,
        facts: &Facts<'_>,
        (txid, record): (&Txid, &TxRecord),
        spenders: &BTreeSet<Txid>,
        report: &mut VerifyReport,
    ) -> Result<(), StoreError> {
        let spenders: Vec<Txid> = spenders.iter().copied().collect();
        let (mut marked, mut are_all_there, mut newest) = (0, true, Height::GENESIS);
        for page in spenders.chunks(PAGE) {
            let found = read_each(page, &|ids| facts.view.records(ids));
            for (spender, found) in page.iter().zip(found) {
                // One that does not decode was reported with its record.
                let Ok(found) = found else {
                    are_all_there = false;
                    continue;
                };
                let Some(child) = found else {
                    are_all_there = false;
                    marked += u32::from(facts.view.is_deleted_child(txid, spender)?);
                    continue;
                };
                newest = newest.max(newest_known(&child));
                check_order((txid, record), (spender, &child), report);
            }
        }
        if record.deleted_children < marked {
            let says = record.deleted_children;
            let detail = format!("it says {says} deleted children, {marked} left a marker");
            report.add(*txid, detail);
        }
        let far = record.spent_at.filter(|at| *at > newest.plus(self.slack_blocks));
        if let Some(spent_at) = far.filter(|_| are_all_there && !spenders.is_empty()) {
            let detail = format!(
                "its newest spend is of height {spent_at}, and nothing is known of those that spend \
                 it above {newest}"
            );
            report.add(*txid, detail);
        }
        Ok(())
    }
}

/// Newest height that a record tells of itself.
fn newest_known(record: &TxRecord) -> Height {
    let mined = record.blocks.iter().map(|block| block.height).max();
    mined.max(record.unmined_since).max(record.spent_at).unwrap_or_default()
}

/// No block has a transaction that spends one of a later block. Either of them may name blocks of
/// several branches.
fn check_order(
    (parent, of_parent): (&Txid, &TxRecord),
    (child, of_child): (&Txid, &TxRecord),
    report: &mut VerifyReport,
) {
    let lowest = of_parent.blocks.iter().map(|block| block.height).min();
    let lowest = lowest.filter(|_| of_parent.settled_height().is_some());
    if let (Some(above), Some(below)) = (of_child.settled_height(), lowest)
        && above < below
    {
        let detail =
            format!("it is mined at height {above}, and spends {parent} of height {below}");
        report.add(*child, detail);
    }
}
