//! The tree recomputed: every live output is a leaf, no other leaf is live, leaf numbers have no gap,
//! every row above follows from the one below, and going back through the window gives the leaves and
//! roots that deltas name.

#[cfg(test)]
mod tests;

use utxokeep_core::{
    BlockDelta, Height, MmrDelta, OutPoint, StoredKey as _, UtxoRecord, hex_encode,
    mmr::{
        CHILDREN, MmrRule, NodeHash, PlaceKey, Row, RowKey, RowReader as _, TIER_LEVELS,
        leaves_of_row, peaks, update,
    },
};
use utxokeep_kv::{Read, Scan};

use super::{
    NAME, Overlay, State, StoredRows, leaf_hash, leaf_of, mmr_of, rewind, rewind::restored_leaves,
    rows::row_of_leaf,
};
use crate::{
    error::IndexError,
    meta,
    rollback::{Bodies, read_delta},
    tables::{MMR_NODES, MMR_PLACES, UNSPENT},
    verify::{Check, VerifyReport},
};

/// Rows that going back block by block may hold in memory, 550 bytes each.
const REWOUND_ROWS_MAX: usize = 1_000_000;
/// Where the window changes more rows than that, so many of its remaining heights are gone back to,
/// each from the tip.
const REWOUND_MAX: u32 = 16;

pub(in crate::accumulator) fn verify<S: Read>(
    check: &mut Check<'_, '_, S>,
) -> Result<(), IndexError> {
    verify_within(check, REWOUND_ROWS_MAX)
}

fn verify_within<S: Read>(check: &mut Check<'_, '_, S>, rows_max: usize) -> Result<(), IndexError> {
    let Some(rule) = check.view.settings.mmr else { return Ok(()) };
    let Some(tip) = check.tip() else { return Ok(()) };
    (check.progress)(NAME, 0);
    let state = State::read(check.read())?;
    places(check, &state, tip)?;
    leaves(check, rule, &state)?;
    nodes(check, rule, &state)?;
    let peaks = peaks(rule, &StoredRows(check.read()), state.leaves);
    if let Some(peaks) = check.found(NAME, peaks)?
        && rule.root(state.leaves, &peaks) != state.root
    {
        check.report.add(NAME, "the root is not that of its peaks");
    }
    window(check, rule, &state, tip, rows_max)
}

/// Leaf numbers go on from row to row, from zero to the number of leaves, and belong to blocks that
/// are there.
fn places<S: Read>(
    check: &mut Check<'_, '_, S>,
    state: &State,
    tip: Height,
) -> Result<(), IndexError> {
    // Unknown behind a row that cannot be read.
    let mut next = Some(0);
    check.for_each_page(MMR_PLACES.id(), NAME, |check, page| {
        for (key, row) in page {
            let (Some(PlaceKey { height, group }), Ok(leaves)) =
                (PlaceKey::read_key(&key), leaves_of_row(&row))
            else {
                let detail = format!("row {} of leaf numbers is damaged", hex_encode(&key));
                check.report.add(NAME, detail);
                next = None;
                continue;
            };
            if height > tip {
                let detail = format!("leaf numbers of block {height}, which is above the tip");
                check.report.add(NAME, detail);
            }
            if let Some(next) = next.filter(|next| *next != leaves.start) {
                let detail = format!(
                    "leaf numbers of block {height}, row {group}, begin with {} where {next} is next",
                    leaves.start
                );
                check.report.add(NAME, detail);
            }
            next = Some(leaves.end);
        }
        Ok(())
    })?;
    if let Some(next) = next.filter(|next| *next != state.leaves) {
        let detail = format!("leaf numbers end with {next} where there are {}", state.leaves);
        check.report.add(NAME, detail);
    }
    Ok(())
}

/// Every live output has its leaf, and there are as many of the one as of the other.
fn leaves<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    state: &State,
) -> Result<(), IndexError> {
    let read = &check.view.read;
    let (mut seen, mut room) = (0, Vec::new());
    check.for_each_page(UNSPENT.id(), NAME, |check, page| {
        for (key, value) in page {
            let (Some(outpoint), Ok(record)) =
                (OutPoint::from_key(&key), UtxoRecord::decode(&value))
            else {
                // The check of live outputs tells of it.
                continue;
            };
            seen += 1;
            let named = check.network().outpoint(&outpoint);
            let leaf = match leaf_of(read, outpoint, &record) {
                Ok(leaf) => leaf,
                Err(error) if error.is_damage() => {
                    check.report.add(NAME, format!("{named} has no leaf"));
                    continue;
                }
                Err(engine) => return Err(engine),
            };
            let hash = leaf_hash(rule, read, outpoint, &record, &mut room);
            let Some(hash) = check.found(NAME, hash)? else { continue };
            let (row, at) = row_of_leaf(leaf);
            let stored = match StoredRows(read).read_row(row) {
                Ok(row) => row.node(at),
                Err(error) if error.is_damage() => None,
                Err(engine) => return Err(engine),
            };
            if leaf >= state.leaves || stored != Some(hash) {
                check.report.add(NAME, format!("leaf {leaf} is not that of {named}"));
            }
        }
        Ok(())
    })?;
    if seen + state.replaced != state.live {
        let detail = format!(
            "{} live leaves, {} of them replaced, where {seen} outputs are live",
            state.live, state.replaced
        );
        check.report.add(NAME, detail);
    }
    Ok(())
}

/// Rows above follow from rows below; nothing lies beyond the last leaf; counts are right.
fn nodes<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    state: &State,
) -> Result<(), IndexError> {
    let (mut rows, mut nodes, mut live, mut expected) = (0, 0, 0, None);
    for tier in 0..=u8::try_from(u64::BITS / TIER_LEVELS).unwrap_or(u8::MAX) {
        let seen = scan_tier(check, rule, state, tier)?;
        if expected.is_some_and(|expected| expected != seen.nodes) {
            check.report.add(NAME, format!("tier {tier} has nodes that have nothing below"));
        }
        if tier == 0 {
            live = seen.nodes;
        }
        rows += seen.rows;
        nodes += seen.nodes;
        expected = Some(seen.nodes_above);
    }
    let found = check.count(MMR_NODES.id())?;
    if found != rows {
        check.report.add(NAME, format!("{found} rows of nodes, of which {rows} are of the tree"));
    }
    if (nodes, live) != (state.nodes, state.live) {
        let detail = format!(
            "{nodes} nodes and {live} live leaves are stored, {} and {} are counted",
            state.nodes, state.live
        );
        check.report.add(NAME, detail);
    }
    Ok(())
}

/// What a tier has, and what follows for the one above.
#[derive(Default)]
struct Tier {
    rows: u64,
    nodes: u64,
    nodes_above: u64,
}

/// Compares the rows above a tier with what its rows hash to.
fn scan_tier<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    state: &State,
    tier: u8,
) -> Result<Tier, IndexError> {
    let level = u32::from(tier) * TIER_LEVELS;
    let count = state.leaves.checked_shr(level).unwrap_or(0);
    let (from, until) = ([tier], [tier + 1]);
    let scan = Scan { from: &from, until: Some(&until), ..Scan::ALL };
    let read = &check.view.read;
    let report = &mut check.report;
    let (mut seen, mut failed) = (Tier::default(), None);
    let mut above: Option<(u64, Row)> = None;
    let mut compare = |above: Option<(u64, Row)>, report: &mut VerifyReport| {
        let Some((number, row)) = above else { return };
        match StoredRows(read).read_row(RowKey { tier: tier + 1, number }) {
            Ok(stored) if stored == row => {}
            Err(error) if !error.is_damage() => failed = Some(error),
            _ => report.add(NAME, format!("row {number} of tier {} is another", tier + 1)),
        }
    };
    MMR_NODES.scan(read, &scan, |key, row| {
        seen.rows += 1;
        let (Some(key), Ok(row)) = (key.read(), row.read()) else {
            report.add(NAME, format!("a row of tier {tier} cannot be read"));
            return true;
        };
        seen.nodes += u64::from(row.len());
        let first = key.number.saturating_mul(CHILDREN as u64);
        let last = (0..CHILDREN).rev().find(|at| row.node(*at).is_some()).unwrap_or(0);
        if first.saturating_add(last as u64) >= count {
            report.add(NAME, format!("row {} of tier {tier} is beyond the leaves", key.number));
        } else if first.saturating_add(CHILDREN as u64) <= count
            && let Some(hash) = row.inner(rule, level, TIER_LEVELS, 0)
        {
            let (number, at) = (key.number / CHILDREN as u64, key.number % CHILDREN as u64);
            if above.is_none_or(|(open, _)| open != number) {
                compare(above.replace((number, Row::EMPTY)), report);
            }
            if let (Some((_, row)), Ok(at)) = (&mut above, usize::try_from(at)) {
                row.set(at, Some(hash));
            }
            seen.nodes_above += 1;
        }
        true
    })?;
    compare(above, report);
    failed.map_or(Ok(seen), Err)
}

/// Each delta of the window goes on where the one before ended, its leaves are those of the outputs
/// that it spends, and the roots that deltas name come out again when the tree goes back through the
/// blocks: one by one, unless the window changes more than `rows_max` rows.
fn window<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    state: &State,
    tip: Height,
    rows_max: usize,
) -> Result<(), IndexError> {
    let read = &check.view.read;
    let base = meta::undo_base(read)?.min(tip);
    let mut after = (state.leaves, state.root);
    let mut back = Back { rule, rows: Overlay::default(), leaves: state.leaves };
    // Down to here the tree has not gone back block by block.
    let mut rest = None;
    for raw in (base.get() + 1..=tip.get()).rev() {
        let height = Height::new(raw);
        (check.progress)(NAME, u64::from(tip.get() - raw));
        let Some(delta) = check.found(NAME, read_delta(read, height))? else { return Ok(()) };
        let Some(mmr) = &delta.mmr else {
            check.report.add(NAME, format!("delta {height} does not say what leaves changed"));
            return Ok(());
        };
        if (mmr.leaves_before + mmr.inserts, mmr.root) != after {
            check.report.add(NAME, format!("the root of height {height} is another in its delta"));
        }
        if mmr.leaves_before + mmr.inserts != after.0 {
            return Ok(());
        }
        after = root_before(rule, mmr);
        count_leaves(&mut check.report, rule, (height, &delta), mmr);
        let bodies = Bodies::gather_spent(read, &delta);
        let Some(bodies) = check.found(NAME, bodies)? else { return Ok(()) };
        deleted_leaves(check, rule, (height, &delta), (mmr, &bodies))?;
        if rest.is_none() && back.rows.len() > rows_max {
            rest = Some(height);
        }
        if rest.is_none() {
            let undone = back.undo(read, &delta, &bodies);
            if check.found(NAME, undone)? != Some(true) {
                let detail =
                    format!("undoing height {height} does not give the peaks from before it");
                check.report.add(NAME, detail);
                rest = Some(base);
            }
        }
    }
    for height in spread(base, rest.unwrap_or(base)) {
        check.found(NAME, rewind(read, rule, (tip, height), 0))?;
    }
    Ok(())
}

/// Leaves and root before a block, as its delta says.
fn root_before(rule: MmrRule, mmr: &MmrDelta) -> (u64, NodeHash) {
    (mmr.leaves_before, rule.root(mmr.leaves_before, &mmr.peaks_before))
}

/// A delta has as many leaves as outputs.
fn count_leaves(
    report: &mut VerifyReport,
    rule: MmrRule,
    (height, delta): (Height, &BlockDelta),
    mmr: &MmrDelta,
) {
    let created = delta.created.iter().map(|created| created.outpoint);
    let spent: rustc_hash::FxHashSet<_> = delta.spent.iter().map(|s| s.outpoint).collect();
    let passed = created.filter(|outpoint| spent.contains(outpoint)).count();
    let inserts = (delta.created.len() - passed) as u64;
    let replaced = if rule.spends_replaced() { delta.replaced.len() } else { 0 };
    let deletes = delta.spent.len() - passed + replaced;
    if (mmr.inserts, mmr.deletes.len()) != (inserts, deletes) {
        report.add(NAME, format!("delta {height} lists other leaves than outputs"));
    }
}

/// The leaves that a block deleted are those of the outputs that it took out of the set.
fn deleted_leaves<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    (height, delta): (Height, &BlockDelta),
    (mmr, bodies): (&MmrDelta, &Bodies),
) -> Result<(), IndexError> {
    let kept = if rule.spends_replaced() { 0 } else { delta.replaced.len() };
    for ((outpoint, body), leaf) in bodies.left_the_set(delta).skip(kept).zip(&mmr.deletes) {
        let record = UtxoRecord::decode(body).map_err(IndexError::from);
        let own = record.and_then(|record| leaf_of(check.read(), outpoint, &record));
        match own {
            Ok(own) if own == *leaf => {}
            Err(error) if !error.is_damage() => return Err(error),
            _ => {
                let named = check.network().outpoint(&outpoint);
                let detail = format!("leaf {leaf}, deleted at {height}, is not that of {named}");
                check.report.add(NAME, detail);
            }
        }
    }
    Ok(())
}

/// The tree as it goes back through the window, in memory.
struct Back {
    rule: MmrRule,
    rows: Overlay,
    leaves: u64,
}

impl Back {
    /// Goes back one block; whether that gives the peaks that the block found.
    fn undo(
        &mut self,
        read: &dyn Read,
        delta: &BlockDelta,
        bodies: &Bodies,
    ) -> Result<bool, IndexError> {
        let mmr = mmr_of(delta)?;
        let mut restored = Vec::with_capacity(mmr.deletes.len());
        let before = mmr.leaves_before;
        restored_leaves(self.rule, read, delta, bodies, before, &mut restored)?;
        restored.sort_unstable_by_key(|(leaf, _)| *leaf);
        let sizes = (self.leaves, before);
        let updated = update(self.rule, &self.rows.over(read), sizes, &restored)?;
        self.rows.put(&updated.rows);
        self.leaves = before;
        Ok(peaks(self.rule, &self.rows.over(read), before)? == mmr.peaks_before)
    }
}

/// Heights from `base` up to `until`, evenly spread; none if nothing lies between.
fn spread(base: Height, until: Height) -> impl Iterator<Item = Height> {
    let between = until.get().saturating_sub(base.get());
    let step = between.div_ceil(REWOUND_MAX).max(1);
    (base.get()..until.get()).step_by(step as usize).map(Height::new)
}
