//! The tree recomputed: every live output is a leaf, no other leaf is live, every row above follows
//! from the one below, and going back through the window gives the roots that deltas name.

use utxokeep_core::{
    Height, OutPoint, UtxoRecord,
    mmr::{CHILDREN, MmrRule, Row, RowKey, RowReader as _, TIER_LEVELS, peaks, update},
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
    tables::{MMR_NODES, UNSPENT},
    verify::Check,
};

/// Rows that going back block by block may hold in memory, 550 bytes each.
const REWOUND_ROWS_MAX: usize = 1_000_000;
/// Where the window changes more rows than that, so many of its remaining heights are gone back to,
/// each from the tip.
const REWOUND_MAX: u32 = 16;

pub(in crate::accumulator) fn verify<S: Read>(
    check: &mut Check<'_, '_, S>,
) -> Result<(), IndexError> {
    let Some(rule) = check.view.settings.mmr else { return Ok(()) };
    let Some(tip) = check.tip() else { return Ok(()) };
    (check.progress)(NAME, 0);
    let state = State::read(check.read())?;
    leaves(check, rule, &state)?;
    nodes(check, rule, &state)?;
    let peaks = peaks(rule, &StoredRows(check.read()), state.leaves)?;
    if rule.root(state.leaves, &peaks) != state.root {
        check.report.add(NAME, "the root is not that of its peaks");
    }
    window(check, rule, &state, tip)
}

/// Every live output has its leaf, and there are as many of the one as of the other.
fn leaves<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    state: &State,
) -> Result<(), IndexError> {
    let (mut seen, mut room) = (0, Vec::new());
    let mut wrong: Vec<String> = Vec::new();
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
            let read = check.read();
            let Ok(leaf) = leaf_of(read, outpoint, &record) else {
                wrong.push(format!("{named} has no leaf"));
                continue;
            };
            let hash = leaf_hash(rule, read, outpoint, &record, &mut room)?;
            let (row, at) = row_of_leaf(leaf);
            let row = StoredRows(read).read_row(row)?;
            if leaf >= state.leaves || row.node(at) != Some(hash) {
                wrong.push(format!("leaf {leaf} is not that of {named}"));
            }
        }
        Ok(())
    })?;
    for detail in wrong {
        check.report.add(NAME, detail);
    }
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
    let (mut nodes, mut live, mut expected) = (0, 0, None);
    for tier in 0..=u8::try_from(u64::BITS / TIER_LEVELS).unwrap_or(u8::MAX) {
        let seen = scan_tier(check, rule, state, tier)?;
        if expected.is_some_and(|expected| expected != seen.nodes) {
            check.report.add(NAME, format!("tier {tier} has nodes that have nothing below"));
        }
        if tier == 0 {
            live = seen.nodes;
        }
        nodes += seen.nodes;
        expected = Some(seen.nodes_above);
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
    let (mut seen, mut wrong, mut failed) = (Tier::default(), Vec::new(), None);
    let mut above: Option<(u64, Row)> = None;
    let mut compare = |above: Option<(u64, Row)>, wrong: &mut Vec<String>| {
        let Some((number, row)) = above else { return };
        match StoredRows(read).read_row(RowKey { tier: tier + 1, number }) {
            Ok(stored) if stored == row => {}
            Ok(_) => wrong.push(format!("row {number} of tier {} is another", tier + 1)),
            Err(error) => failed = Some(error),
        }
    };
    MMR_NODES.scan(read, &scan, |key, row| {
        let (Some(key), Ok(row)) = (key.read(), row.read()) else {
            wrong.push("a row cannot be read".to_owned());
            return true;
        };
        seen.nodes += u64::from(row.len());
        let first = key.number.saturating_mul(CHILDREN as u64);
        let last = (0..CHILDREN).rev().find(|at| row.node(*at).is_some()).unwrap_or(0);
        if first.saturating_add(last as u64) >= count {
            wrong.push(format!("row {} of tier {tier} is beyond the leaves", key.number));
        } else if first + CHILDREN as u64 <= count
            && let Some(hash) = row.inner(rule, level, TIER_LEVELS, 0)
        {
            let (number, at) = (key.number / CHILDREN as u64, key.number % CHILDREN as u64);
            if above.is_none_or(|(open, _)| open != number) {
                compare(above.replace((number, Row::EMPTY)), &mut wrong);
            }
            if let (Some((_, row)), Ok(at)) = (&mut above, usize::try_from(at)) {
                row.set(at, Some(hash));
            }
            seen.nodes_above += 1;
        }
        true
    })?;
    compare(above, &mut wrong);
    for detail in wrong {
        check.report.add(NAME, detail);
    }
    failed.map_or(Ok(seen), Err)
}

/// Each delta of the window goes on where the one before ended, and the roots that they name come out
/// again when the tree goes back through the blocks.
fn window<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    state: &State,
    tip: Height,
) -> Result<(), IndexError> {
    let base = meta::undo_base(check.read())?.min(tip);
    let (mut leaves, mut root) = (state.leaves, state.root);
    for raw in (base.get() + 1..=tip.get()).rev() {
        let height = Height::new(raw);
        let delta = read_delta(check.read(), height)?;
        let Some(mmr) = &delta.mmr else {
            check.report.add(NAME, format!("delta {height} does not say what leaves changed"));
            return Ok(());
        };
        if mmr.leaves_before + mmr.inserts != leaves || mmr.root != root {
            check.report.add(NAME, format!("the root of height {height} is another in its delta"));
        }
        let created = delta.created.iter().map(|created| created.outpoint);
        let spent: rustc_hash::FxHashSet<_> = delta.spent.iter().map(|s| s.outpoint).collect();
        let passed = created.filter(|outpoint| spent.contains(outpoint)).count();
        let inserts = (delta.created.len() - passed) as u64;
        let replaced = if rule.spends_replaced() { delta.replaced.len() } else { 0 };
        let deletes = delta.spent.len() - passed + replaced;
        if (mmr.inserts, mmr.deletes.len()) != (inserts, deletes) {
            check.report.add(NAME, format!("delta {height} lists other leaves than outputs"));
        }
        leaves = mmr.leaves_before;
        root = rule.root(leaves, &mmr.peaks_before);
    }
    let left = step_back(check, rule, state, (base, tip))?;
    for height in spread(base, left) {
        if let Err(error) = rewind(check.read(), rule, (tip, height), 0) {
            check.report.add(NAME, error);
        }
    }
    Ok(())
}

/// Goes back block by block in memory and compares the peaks after each. Answers the height at which
/// it stopped: `base`, unless the window changes more rows than fit.
fn step_back<S: Read>(
    check: &mut Check<'_, '_, S>,
    rule: MmrRule,
    state: &State,
    (base, tip): (Height, Height),
) -> Result<Height, IndexError> {
    let read = &check.view.read;
    let (mut rows, mut leaves) = (Overlay::default(), state.leaves);
    for raw in (base.get() + 1..=tip.get()).rev() {
        let height = Height::new(raw);
        if rows.len() > REWOUND_ROWS_MAX {
            return Ok(height);
        }
        (check.progress)(NAME, u64::from(tip.get() - raw));
        let delta = read_delta(read, height)?;
        let bodies = Bodies::gather_spent(read, &delta)?;
        let mmr = mmr_of(&delta)?;
        let mut restored = Vec::with_capacity(mmr.deletes.len());
        let before = mmr.leaves_before;
        let gathered = restored_leaves(rule, read, &delta, &bodies, before, &mut restored);
        if let Err(error) = gathered {
            check.report.add(NAME, format!("delta {height}: {error}"));
            return Ok(base);
        }
        restored.sort_unstable_by_key(|(leaf, _)| *leaf);
        let updated = update(rule, &rows.over(read), (leaves, before), &restored)?;
        rows.put(&updated.rows);
        leaves = before;
        if peaks(rule, &rows.over(read), leaves)? != mmr.peaks_before {
            let detail = format!("undoing height {height} does not give the peaks from before it");
            check.report.add(NAME, detail);
            return Ok(base);
        }
    }
    Ok(base)
}

/// Heights from `base` up to `until`, evenly spread; none if nothing lies between.
fn spread(base: Height, until: Height) -> impl Iterator<Item = Height> {
    let between = until.get().saturating_sub(base.get());
    let step = between.div_ceil(REWOUND_MAX).max(1);
    (base.get()..until.get()).step_by(step as usize).map(Height::new)
}
