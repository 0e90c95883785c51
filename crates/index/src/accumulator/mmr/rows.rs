//! Rows of the tree: those that wait for a batch, those kept in memory, those in the table.

use rustc_hash::FxHashMap;
use utxokeep_core::mmr::{CHILDREN, Row, RowKey, RowReader, TIER_LEVELS};
use utxokeep_kv::{Batch, Read};

use crate::{error::IndexError, tables::MMR_NODES};

/// The most rows of one tier that stay in memory: every block touches most of them.
const KEPT_ROWS_MAX: u64 = 1 << 16;

/// Rows in memory. They hide those of the table.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Half a kilobyte each, so they stay where they are; only their places are sorted.
    rows: Vec<Row>,
    /// Rows of [`Self::rows`] that can be used again.
    free: Vec<u32>,
    places: FxHashMap<RowKey, Place>,
    /// Changed since the last batch.
    waiting: Vec<(RowKey, u32)>,
}

/// Where a row is in memory.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: u32,
    /// Whether it waits for the batch; otherwise it is as in the table.
    waits: bool,
}

impl Overlay {
    /// The rows as they stand.
    pub(crate) fn over<'a>(&'a self, read: &'a dyn Read) -> RowsOf<'a> {
        RowsOf { overlay: Some(self), read }
    }

    fn get(&self, key: &RowKey) -> Option<&Row> {
        self.places.get(key).map(|place| &self.rows[place.at as usize])
    }

    /// Takes changed rows.
    pub(crate) fn put(&mut self, rows: &[(RowKey, Row)]) {
        self.waiting.reserve(rows.len());
        for (key, row) in rows {
            let Self { rows, free, places, waiting } = self;
            let place = places.entry(*key).or_insert_with(|| Place {
                at: free.pop().unwrap_or_else(|| {
                    rows.push(Row::EMPTY);
                    u32::try_from(rows.len() - 1).expect("a batch is cut long before 2^32 rows")
                }),
                waits: false,
            });
            rows[place.at as usize] = *row;
            if !place.waits {
                place.waits = true;
                waiting.push((*key, place.at));
            }
        }
    }

    /// Rows that wait for a batch.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Memory of what waits for a batch, and of the batch.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.len() * (2 * size_of::<Row>() + 64)
    }

    /// Puts what changed into a batch, and keeps the upper tiers of a tree of so many leaves.
    pub(crate) fn write_into(&mut self, batch: &mut Batch, leaves: u64) {
        self.waiting.sort_unstable_by_key(|(key, _)| *key);
        for (key, at) in self.waiting.drain(..) {
            let row = &self.rows[at as usize];
            if row.is_empty() {
                MMR_NODES.delete(batch, &key);
            } else {
                MMR_NODES.put(batch, &key, row);
            }
            if rows_of_tier(key.tier, leaves) <= KEPT_ROWS_MAX {
                self.places.insert(key, Place { at, waits: false });
            } else {
                // The tree has outgrown it.
                self.places.remove(&key);
                self.free.push(at);
            }
        }
    }
}

/// Rows that a tier has in a tree of so many leaves.
fn rows_of_tier(tier: u8, leaves: u64) -> u64 {
    let level = (u32::from(tier) + 1) * TIER_LEVELS;
    leaves.checked_shr(level).unwrap_or(0)
}

/// Rows of a table, behind those in memory.
pub(crate) struct RowsOf<'a> {
    overlay: Option<&'a Overlay>,
    read: &'a dyn Read,
}

/// Rows of a table alone.
pub(crate) struct StoredRows<'a>(pub(crate) &'a dyn Read);

impl RowReader for RowsOf<'_> {
    type Error = IndexError;

    fn read_rows(&self, keys: &[RowKey], rows: &mut Vec<Row>) -> Result<(), IndexError> {
        let first = rows.len();
        let mut stored = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            let known = self.overlay.and_then(|overlay| overlay.get(key));
            if known.is_none() {
                stored.push((*key, first + at));
            }
            rows.push(known.copied().unwrap_or(Row::EMPTY));
        }
        let mut damage = None;
        MMR_NODES.multi_get(self.read, stored.iter().map(|(key, _)| key), |number, value| {
            match value.map(utxokeep_core::Encoded::read).transpose() {
                Ok(row) => rows[stored[number].1] = row.unwrap_or(Row::EMPTY),
                Err(error) => damage = Some(error),
            }
        })?;
        damage.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl RowReader for StoredRows<'_> {
    type Error = IndexError;

    fn read_rows(&self, keys: &[RowKey], rows: &mut Vec<Row>) -> Result<(), IndexError> {
        RowsOf { overlay: None, read: self.0 }.read_rows(keys, rows)
    }
}

/// The row of a leaf, and its place there.
pub(crate) fn row_of_leaf(leaf: u64) -> (RowKey, usize) {
    let at = usize::try_from(leaf % CHILDREN as u64).expect("a row is short");
    (RowKey { tier: 0, number: leaf / CHILDREN as u64 }, at)
}
