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
    let (row, at) = (number >> (TIER_LEVELS - up), number & ((CHILDREN as u64 >> up) - 1));
    let tier = u8::try_from(tier).expect("there are at most 16 tiers");
    let row = read.read_row(RowKey { tier, number: row })?;
    let at = usize::try_from(at).expect("a row is short");
    Ok(row.inner(rule, level - up, up, at))
}

/// Level of the peak above a leaf.
pub(super) const fn peak_level(leaves: u64, leaf: u64) -> u32 {
    (leaf ^ leaves).ilog2()
}

/// The nodes beside the way from a leaf to its peak, from the leaf up.
pub(super) fn siblings<R: RowReader>(
    rule: MmrRule,
    read: &R,
    leaves: u64,
    leaf: u64,
) -> Result<Vec<Option<NodeHash>>, R::Error> {
    (0..peak_level(leaves, leaf))
        .map(|level| node(rule, read, level, (leaf >> level) ^ 1))
        .collect()
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
