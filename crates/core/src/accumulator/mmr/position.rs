//! Positions: nodes numbered from zero in the order in which appending creates them.
//!
//! They are how others name nodes, and what `docs/mmr.md` draws. Rows are keyed by level and number
//! instead, which need no search.

/// Position of a leaf.
#[must_use]
pub const fn leaf_position(leaf: u64) -> u64 {
    2 * leaf - leaf.count_ones() as u64
}

/// Position of node `number`, from the left, of a level; leaves are level 0.
#[must_use]
pub const fn node_position(level: u32, number: u64) -> u64 {
    leaf_position(((number + 1) << level) - 1) + level as u64
}

/// Nodes of a tree of so many leaves.
#[must_use]
pub const fn size(leaves: u64) -> u64 {
    2 * leaves - leaves.count_ones() as u64
}

/// Whether a tree can have so many nodes.
#[must_use]
pub fn is_valid_size(nodes: u64) -> bool {
    let mut rest = nodes;
    for height in (1..=63).rev() {
        let mountain = (1u64 << height) - 1;
        rest = rest.checked_sub(mountain).unwrap_or(rest);
    }
    rest == 0
}

/// Positions of the peaks of a tree, the highest first.
#[must_use]
pub fn peak_positions(leaves: u64) -> Vec<u64> {
    peak_levels(leaves).map(|level| node_position(level, (leaves >> level) - 1)).collect()
}

/// Levels of the peaks, the highest first: one for each bit of the number of leaves.
pub(super) fn peak_levels(leaves: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).rev().filter(move |level| leaves >> level & 1 == 1)
}

/// Positions of the parent and of the sibling of a node of a level.
#[must_use]
pub const fn parent_and_sibling(position: u64, level: u32, is_right: bool) -> (u64, u64) {
    let pair = 1u64 << (level + 1);
    if is_right {
        (position + 1, position + 1 - pair)
    } else {
        (position + pair, position + pair - 1)
    }
}
