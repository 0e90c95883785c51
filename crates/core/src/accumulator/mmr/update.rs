//! Changing many leaves at once: every touched row is read once and hashed once.

use super::{CHILDREN, MmrRule, NodeHash, Row, RowKey, RowReader, TIER_LEVELS};

/// A node by its number in its level, and its hash unless everything below it is spent.
type Changed = (u64, Option<NodeHash>);

/// What changing leaves changes.
#[derive(Debug)]
pub struct Updated {
    /// Rows that take the place of those that were read, in order of their keys; an empty one means
    /// that there is none any more.
    pub rows: Vec<(RowKey, Row)>,
    /// Nodes that those rows had.
    pub nodes_before: u64,
    /// Nodes that they have now.
    pub nodes_after: u64,
}

/// Makes a tree of `old` leaves one of `new` leaves in which the leaves of `changes`, sorted and
/// each below `new`, have these hashes. When the tree grows, every new leaf is among the changes;
/// when it shrinks, leaves from `new` on are forgotten.
pub fn update<R: RowReader>(
    rule: MmrRule,
    read: &R,
    (old, new): (u64, u64),
    changes: &[Changed],
) -> Result<Updated, R::Error> {
    let mut changed_rows: Vec<(RowKey, Row)> = Vec::new();
    let mut nodes_before = 0;
    let mut above: Vec<Changed>;
    let mut nodes = changes;
    for tier in 0..=u64::BITS / TIER_LEVELS {
        let level = tier * TIER_LEVELS;
        let count = |leaves: u64| leaves.checked_shr(level).unwrap_or(0);
        let (old, new) = (count(old), count(new));
        if nodes.is_empty() && new >= old {
            break;
        }
        let tier = u8::try_from(tier).expect("there are at most 17 tiers");
        let rows = read_touched(read, tier, (old, new), nodes)?;
        nodes_before += rows.iter().map(|(_, row)| u64::from(row.len())).sum::<u64>();
        let from = changed_rows.len();
        changed_rows.extend(put_nodes(rows, new, nodes));
        let full: Vec<_> = changed_rows[from..]
            .iter()
            .filter(|(key, _)| (key.number + 1) * CHILDREN as u64 <= new)
            .collect();
        let rows: Vec<&Row> = full.iter().map(|(_, row)| row).collect();
        let roots = rule.row_roots(level, &rows);
        above = full.iter().map(|(key, _)| key.number).zip(roots).collect();
        nodes = &above;
    }
    let nodes_after = changed_rows.iter().map(|(_, row)| u64::from(row.len())).sum();
    Ok(Updated { rows: changed_rows, nodes_before, nodes_after })
}

/// The rows with changed nodes and those with nodes that are cut off, as they were.
fn read_touched<R: RowReader>(
    read: &R,
    tier: u8,
    (old, new): (u64, u64),
    nodes: &[Changed],
) -> Result<Vec<(RowKey, Row)>, R::Error> {
    const PER_ROW: u64 = CHILDREN as u64;
    let mut numbers: Vec<u64> = nodes.iter().map(|(number, _)| number / PER_ROW).collect();
    numbers.dedup();
    if new < old {
        let first = new / PER_ROW;
        let first = if numbers.last() == Some(&first) { first + 1 } else { first };
        numbers.extend(first..=(old - 1) / PER_ROW);
    }
    let keys: Vec<_> = numbers.into_iter().map(|number| RowKey { tier, number }).collect();
    let stored = keys.partition_point(|key| key.number * PER_ROW < old);
    let mut rows = Vec::with_capacity(keys.len());
    read.read_rows(&keys[..stored], &mut rows)?;
    rows.resize(keys.len(), Row::EMPTY);
    Ok(keys.into_iter().zip(rows).collect())
}

/// Puts nodes into their rows and takes away those from number `new` on.
fn put_nodes(
    mut rows: Vec<(RowKey, Row)>,
    new: u64,
    nodes: &[Changed],
) -> impl Iterator<Item = (RowKey, Row)> {
    let mut nodes = nodes.iter().peekable();
    for (key, row) in &mut rows {
        let first = key.number * CHILDREN as u64;
        let kept = new.saturating_sub(first);
        if kept < CHILDREN as u64 {
            row.truncate(usize::try_from(kept).expect("a row is short"));
        }
        while let Some((number, hash)) =
            nodes.next_if(|(number, _)| *number < first + CHILDREN as u64)
        {
            row.set(usize::try_from(number - first).expect("a row is short"), *hash);
        }
    }
    rows.into_iter()
}
