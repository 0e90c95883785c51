//! Peaks, and the way from a leaf to its peak.

use super::{CHILDREN, MmrRule, NodeHash, RowKey, RowReader, TIER_LEVELS, position::peak_levels};

/// The peaks of a tree, the highest first.
pub fn peaks<R: RowReader>(
    rule: MmrRule,
    read: &R,
    leaves: u64,
) -> Result<Vec<NodeHash>, R::Error> {
    let peak = |level| {
        let node = node(rule, read, level, (leaves >> level) - 1)?;
        Ok(rule.fill(level, node))
    };
    peak_levels(leaves).map(peak).collect()
}

/// The node `number` of a level, which must be in the tree; `None` when all of it is spent.
pub(super) fn node<R: RowReader>(
    rule: MmrRule,
    read: &R,
    level: u32,
    number: u64,
) -> Result<Option<NodeHash>, R::Error> {
    let (tier, up) = (level / TIER_LEVELS, level % TIER_LEVELS);
    let at = number & ((CHILDREN as u64 >> up) - 1);
    let row = read.read_row(row_above(tier, number << up))?;
    let at = usize::try_from(at).expect("a row is short");
    Ok(row.inner(rule, level - up, up, at))
}

/// Level of the peak above a leaf.
pub(super) const fn peak_level(leaves: u64, leaf: u64) -> u32 {
    (leaf ^ leaves).ilog2()
}

/// The rows that [`peaks`] reads, and those that [`leaf_path`] of a leaf reads if there is such a
/// leaf, in order of their keys.
#[must_use]
pub fn path_rows(leaves: u64, leaf: u64) -> Vec<RowKey> {
    let height = if leaf < leaves { peak_level(leaves, leaf) } else { 0 };
    let on_the_way =
        (0..height.div_ceil(TIER_LEVELS)).map(|tier| row_above(tier, leaf >> (tier * TIER_LEVELS)));
    let of_peaks = peak_levels(leaves).map(|level| {
        let (tier, up) = (level / TIER_LEVELS, level % TIER_LEVELS);
        row_above(tier, ((leaves >> level) - 1) << up)
    });
    let mut rows: Vec<_> = on_the_way.chain(of_peaks).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// The row of a node of a stored level.
fn row_above(tier: u32, number: u64) -> RowKey {
    let tier = u8::try_from(tier).expect("there are at most 16 tiers");
    RowKey { tier, number: number >> TIER_LEVELS }
}

/// The nodes beside the way from a leaf to its peak, from the leaf up. All of a row come from one
/// read.
pub(super) fn siblings<R: RowReader>(
    rule: MmrRule,
    read: &R,
    leaves: u64,
    leaf: u64,
) -> Result<Vec<Option<NodeHash>>, R::Error> {
    let height = peak_level(leaves, leaf);
    let mut nodes = Vec::with_capacity(height as usize);
    for tier in 0..height.div_ceil(TIER_LEVELS) {
        let level = tier * TIER_LEVELS;
        let number = leaf >> level;
        let row = read.read_row(row_above(tier, number))?;
        for up in 0..TIER_LEVELS.min(height - level) {
            let at = (number >> up ^ 1) & ((CHILDREN as u64 >> up) - 1);
            let at = usize::try_from(at).expect("a row is short");
            nodes.push(row.inner(rule, level, up, at));
        }
    }
    Ok(nodes)
}

/// The path of a proof: see [`MmrProof::path`](super::MmrProof::path). The leaf must be below
/// `leaves`.
pub fn leaf_path<R: RowReader>(
    rule: MmrRule,
    read: &R,
    leaves: u64,
    leaf: u64,
) -> Result<Vec<NodeHash>, R::Error> {
    let beside = siblings(rule, read, leaves, leaf)?;
    let mut path: Vec<_> = (0..).zip(beside).map(|(level, node)| rule.fill(level, node)).collect();
    let peaks = peaks(rule, read, leaves)?;
    let level = peak_level(leaves, leaf);
    let own = peak_levels(leaves).position(|peak| peak == level).unwrap_or(0);
    path.extend(MmrRule::bag(&peaks[own + 1..]));
    path.extend(peaks[..own].iter().rev());
    Ok(path)
}
