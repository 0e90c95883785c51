//! Rows: sixteen neighbouring nodes of every fourth level.

use super::{MmrRule, NodeHash};
use crate::{Corrupt, StoreAs, StoredKey, StoredValue};

/// Levels between two levels that are stored.
pub const TIER_LEVELS: u32 = 4;
/// Nodes in a row.
pub const CHILDREN: usize = 1 << TIER_LEVELS;

/// Names a row. Rows of a tier are adjacent and in order, the lowest tier first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Which of the stored levels, from the leaves up: the nodes are of level `4 * tier`.
    pub tier: u8,
    /// Its number in the tier, from the left.
    pub number: u64,
}

/// Sixteen neighbouring nodes. A node is absent while its subtree is not full, and when everything
/// in it is spent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Row {
    present: u16,
    nodes: [NodeHash; CHILDREN],
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Row({:016b})", self.present)
    }
}

impl Row {
    /// A row without nodes. It is never stored.
    pub const EMPTY: Self = Self { present: 0, nodes: [[0; 32]; CHILDREN] };

    /// One of its nodes, from the left.
    #[must_use]
    pub fn node(&self, at: usize) -> Option<NodeHash> {
        (self.present >> at & 1 == 1).then(|| self.nodes[at])
    }

    /// Puts a node, or takes it away.
    pub fn set(&mut self, at: usize, node: Option<NodeHash>) {
        let bit = 1 << at;
        self.present = if node.is_some() { self.present | bit } else { self.present & !bit };
        self.nodes[at] = node.unwrap_or_default();
    }

    /// Takes away the nodes from `at` on.
    pub fn truncate(&mut self, at: usize) {
        for at in at..CHILDREN {
            self.set(at, None);
        }
    }

    /// Whether it has no node.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// How many nodes it has.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.present.count_ones()
    }

    /// Which nodes there are, the leftmost in the lowest bit, and all of them.
    pub(super) const fn nodes(&self) -> (u16, [NodeHash; CHILDREN]) {
        (self.present, self.nodes)
    }

    /// The node of a level above those of the row: `at` counts from the left, `up` from zero.
    #[must_use]
    pub fn inner(&self, rule: MmrRule, level: u32, up: u32, at: usize) -> Option<NodeHash> {
        let first = at << up;
        let mut nodes: Vec<_> = (first..first + (1 << up)).map(|at| self.node(at)).collect();
        for level in level..level + up {
            let pairs = nodes.as_chunks::<2>().0;
            nodes = pairs.iter().map(|&[left, right]| rule.combine(level, left, right)).collect();
        }
        nodes[0]
    }

    /// Which nodes are there, then their hashes.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.present.to_be_bytes());
        for at in 0..CHILDREN {
            if self.present >> at & 1 == 1 {
                out.extend_from_slice(&self.nodes[at]);
            }
        }
    }

    /// Inverse of [`Row::encode_into`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let wrong = || Corrupt::new("tree row", "its length is not that of its nodes");
        let (present, hashes) = bytes.split_first_chunk::<2>().ok_or_else(wrong)?;
        let present = u16::from_be_bytes(*present);
        let (hashes, rest) = hashes.as_chunks::<32>();
        if !rest.is_empty() || hashes.len() != present.count_ones() as usize || present == 0 {
            return Err(wrong());
        }
        let mut row = Self { present, ..Self::EMPTY };
        let places = (0..CHILDREN).filter(|at| present >> at & 1 == 1);
        for (at, hash) in places.zip(hashes) {
            row.nodes[at] = *hash;
        }
        Ok(row)
    }
}

impl StoredKey for RowKey {
    type Bytes<'k> = [u8; 9];
    type Read = Self;

    fn key_bytes(&self) -> [u8; 9] {
        let mut key = [self.tier; 9];
        key[1..].copy_from_slice(&self.number.to_be_bytes());
        key
    }

    fn read_key(bytes: &[u8]) -> Option<Self> {
        let (&tier, number) = bytes.split_first()?;
        Some(Self { tier, number: u64::from_be_bytes(number.try_into().ok()?) })
    }
}

impl StoredValue for Row {
    type Read<'v> = Self;

    fn read_value(bytes: &[u8]) -> Result<Self, Corrupt> {
        Self::decode(bytes)
    }
}

impl StoreAs<Self> for Row {
    fn write_value(&self, out: &mut Vec<u8>) {
        self.encode_into(out);
    }
}

/// Where rows are read from; several threads do.
pub trait RowReader: Sync {
    /// Why reading failed.
    type Error: Send;

    /// Appends the rows of sorted keys, [`Row::EMPTY`] where there is none.
    fn read_rows(&self, keys: &[RowKey], rows: &mut Vec<Row>) -> Result<(), Self::Error>;

    /// Reads one row.
    fn read_row(&self, key: RowKey) -> Result<Row, Self::Error> {
        let mut rows = Vec::with_capacity(1);
        self.read_rows(&[key], &mut rows)?;
        Ok(rows[0])
    }
}
