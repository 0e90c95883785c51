//! One row that says how large the tree is and what its root is.

use utxokeep_core::{
    Corrupt,
    mmr::{MmrRule, NodeHash},
};
use utxokeep_kv::{Batch, Read};

use crate::{error::IndexError, tables::UTXO_META};

const NAME: &[u8] = b"mmr";
const LEN: usize = 4 * 8 + 32;
/// More leaves than any chain has outputs; sums of counts below it do not overflow.
const LEAVES_MAX: u64 = 1 << 48;

/// The tree after the newest block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// Leaves, spent ones included.
    pub(crate) leaves: u64,
    /// Leaves that are not spent.
    pub(crate) live: u64,
    /// Of those, leaves of outputs that another one of the same name has replaced: the set does not
    /// have them any more. Only Utreexo has any.
    pub(crate) replaced: u64,
    /// Hashes in the rows of the tree.
    pub(crate) nodes: u64,
    /// The root.
    pub(crate) root: NodeHash,
}

impl State {
    /// A tree without leaves.
    pub(crate) fn empty(rule: MmrRule) -> Self {
        Self { leaves: 0, live: 0, replaced: 0, nodes: 0, root: rule.root(0, &[]) }
    }

    /// Reads the row.
    pub(crate) fn read(read: &dyn Read) -> Result<Self, IndexError> {
        let row = UTXO_META.get(read, NAME)?;
        let row = row.ok_or_else(|| IndexError::missing("utxo_meta", "mmr"))?;
        Ok(Self::decode(&row.into_bytes())?)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let bytes: &[u8; LEN] =
            bytes.try_into().map_err(|_| Corrupt::new("mmr", "not 64 bytes long"))?;
        let (numbers, root) = bytes.split_at(32);
        let number = |at: usize| {
            let bytes = numbers[8 * at..].first_chunk().expect("four numbers are 32 bytes");
            u64::from_be_bytes(*bytes)
        };
        let root = *root.first_chunk().expect("the rest is a hash");
        let state = Self {
            leaves: number(0),
            live: number(1),
            replaced: number(2),
            nodes: number(3),
            root,
        };
        let Self { leaves, live, replaced, nodes, .. } = state;
        if leaves > LEAVES_MAX || live > leaves || replaced > live || nodes > 2 * leaves {
            return Err(Corrupt::new("mmr", "no tree has these counts"));
        }
        Ok(state)
    }

    /// Leaves, live leaves, replaced ones among them, nodes, root.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers =
            [self.leaves, self.live, self.replaced, self.nodes].map(u64::to_be_bytes).concat();
        [numbers.as_slice(), &self.root].concat()
    }

    /// Writes the row.
    pub(crate) fn write_into(&self, batch: &mut Batch) {
        UTXO_META.put(batch, NAME, &self.encode());
    }

    /// Deletes the row.
    pub(crate) fn delete(batch: &mut Batch) {
        UTXO_META.delete(batch, NAME);
    }
}
