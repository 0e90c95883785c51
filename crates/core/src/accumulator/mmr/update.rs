//! Changing many leaves at once: every touched row is read once and hashed once, lowest level first.

use std::{
    num::NonZero,
    ops::Range,
    panic,
    sync::LazyLock,
    thread::{self, available_parallelism},
};

use super::{CHILDREN, MmrRule, NodeHash, Row, RowKey, RowReader, TIER_LEVELS};

/// A node by its number in its level, and its hash unless everything below it is spent.
type Changed = (u64, Option<NodeHash>);

const PER_ROW: u64 = CHILDREN as u64;

/// Rows that are read, changed and hashed before the next ones are read. It bounds the memory of
/// [`update_rows`], and is enough for reads to be sorted and for hashes to be computed side by side.
const ROWS_AT_ONCE: usize = 4_096;

/// So many rows are worth a second thread, which takes some tens of microseconds to start.
const ROWS_FOR_TWO: usize = 256;

static HAS_TWO_CORES: LazyLock<bool> =
    LazyLock::new(|| available_parallelism().is_ok_and(|cores| cores > NonZero::<usize>::MIN));

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
    sizes: (u64, u64),
    changes: &[Changed],
) -> Result<Updated, R::Error> {
    let mut updated = Updated { rows: Vec::new(), nodes_before: 0, nodes_after: 0 };
    update_rows(rule, read, sizes, changes, |key, nodes_before, row| {
        updated.nodes_before += u64::from(nodes_before);
        updated.nodes_after += u64::from(row.len());
        updated.rows.push((key, *row));
    })?;
    Ok(updated)
}

/// [`update`] without memory for all rows: each is handed out as it is now, with the number of nodes
/// that it had, in order of their keys.
pub fn update_rows<R: RowReader>(
    rule: MmrRule,
    read: &R,
    (old, new): (u64, u64),
    changes: &[Changed],
    mut put: impl FnMut(RowKey, u32, &Row),
) -> Result<(), R::Error> {
    let mut above: Vec<Changed>;
    let mut nodes = changes;
    for tier in 0..=u64::BITS / TIER_LEVELS {
        let level = tier * TIER_LEVELS;
        let count = |leaves: u64| leaves.checked_shr(level).unwrap_or(0);
        let sizes = (count(old), count(new));
        if nodes.is_empty() && sizes.1 >= sizes.0 {
            break;
        }
        let tier = u8::try_from(tier).expect("there are at most 17 tiers");
        let mut next = Vec::new();
        let mut rest = nodes;
        for numbers in touched(sizes, nodes).chunks(ROWS_AT_ONCE) {
            let last = numbers.last().map_or(0, |number| number * PER_ROW + (PER_ROW - 1));
            let (own, after) = rest.split_at(rest.partition_point(|(number, _)| *number <= last));
            rest = after;
            let work = Work { rule, tier, sizes, numbers, nodes: own };
            for Done { numbers, nodes_before, rows, roots } in work.share(read)? {
                next.extend(numbers.iter().copied().zip(roots));
                for ((number, nodes_before), row) in numbers.iter().zip(nodes_before).zip(&rows) {
                    put(RowKey { tier, number: *number }, nodes_before, row);
                }
            }
        }
        above = next;
        nodes = &above;
    }
    Ok(())
}

/// Rows of one tier that are read, changed and hashed.
#[derive(Clone, Copy)]
struct Work<'w> {
    rule: MmrRule,
    tier: u8,
    /// Nodes that the tier had and has.
    sizes: (u64, u64),
    /// Numbers of the rows.
    numbers: &'w [u64],
    /// What changes in them.
    nodes: &'w [Changed],
}

/// What became of the rows, how many nodes each had, and the nodes above those that are full.
struct Done<'w> {
    numbers: &'w [u64],
    nodes_before: Vec<u32>,
    rows: Vec<Row>,
    roots: Vec<Option<NodeHash>>,
}

impl<'w> Work<'w> {
    /// Does the work, one half in a second thread where that is worth it: no row depends on another
    /// one of its tier.
    fn share<R: RowReader>(self, read: &R) -> Result<Vec<Done<'w>>, R::Error> {
        if self.numbers.len() < ROWS_FOR_TWO || !*HAS_TWO_CORES {
            return Ok(vec![self.alone(read)?]);
        }
        let (first, second) = self.halves();
        thread::scope(|scope| {
            let second = scope.spawn(|| second.alone(read));
            let first = first.alone(read);
            let second = second.join().unwrap_or_else(|payload| panic::resume_unwind(payload));
            Ok(vec![first?, second?])
        })
    }

    fn halves(self) -> (Self, Self) {
        let (low, high) = self.numbers.split_at(self.numbers.len() / 2);
        let end = high.first().map_or(u64::MAX, |number| number * PER_ROW);
        let at = self.nodes.partition_point(|(number, _)| *number < end);
        let (below, above) = self.nodes.split_at(at);
        (Self { numbers: low, nodes: below, ..self }, Self { numbers: high, nodes: above, ..self })
    }

    fn alone<R: RowReader>(self, read: &R) -> Result<Done<'w>, R::Error> {
        let Self { rule, tier, sizes, numbers, nodes } = self;
        let mut rows = read_rows(read, tier, sizes.0, numbers)?;
        let nodes_before = rows.iter().map(Row::len).collect();
        put_nodes(numbers, &mut rows, sizes.1, nodes);
        let full = numbers.partition_point(|number| (number + 1) * PER_ROW <= sizes.1);
        let roots = rule.row_roots(u32::from(tier) * TIER_LEVELS, &rows[..full]);
        Ok(Done { numbers, nodes_before, rows, roots })
    }
}

/// Numbers of the rows with changed nodes and of those with nodes that are cut off, in order.
fn touched((old, new): (u64, u64), nodes: &[Changed]) -> Vec<u64> {
    let mut numbers: Vec<u64> = nodes.iter().map(|(number, _)| number / PER_ROW).collect();
    numbers.dedup();
    if new < old {
        let first = new / PER_ROW;
        let first = if numbers.last() == Some(&first) { first + 1 } else { first };
        let cut: Range<u64> = first..(old - 1) / PER_ROW + 1;
        numbers.extend(cut);
    }
    numbers
}

/// Rows as they were; those beyond the `old` nodes are not asked for.
fn read_rows<R: RowReader>(
    read: &R,
    tier: u8,
    old: u64,
    numbers: &[u64],
) -> Result<Vec<Row>, R::Error> {
    let stored = numbers.partition_point(|number| number * PER_ROW < old);
    let keys: Vec<_> = numbers[..stored].iter().map(|&number| RowKey { tier, number }).collect();
    let mut rows = Vec::with_capacity(numbers.len());
    read.read_rows(&keys, &mut rows)?;
    rows.resize(numbers.len(), Row::EMPTY);
    Ok(rows)
}

/// Puts nodes into their rows and takes away those from number `new` on.
fn put_nodes(numbers: &[u64], rows: &mut [Row], new: u64, nodes: &[Changed]) {
    let mut nodes = nodes.iter().peekable();
    for (number, row) in numbers.iter().zip(rows) {
        let first = number * PER_ROW;
        let kept = new.saturating_sub(first);
        if kept < PER_ROW {
            row.truncate(usize::try_from(kept).expect("a row is short"));
        }
        while let Some((number, hash)) = nodes.next_if(|(number, _)| *number < first + PER_ROW) {
            row.set(usize::try_from(number - first).expect("a row is short"), *hash);
        }
    }
}
