//! The Merkle mountain range beside the set: rows of nodes, and which leaf each output has.
//!
//! While a block is staged, each output that it leaves unspent gets the next leaf, and the leaves of
//! what it spends are looked up in one sorted read. Rows that changed wait in memory for the batch,
//! and are read there first. Below the window nobody asks for the root after one block, so bulk load
//! hashes once for each batch.

mod build;
mod rewind;
mod rows;
mod state;
mod verify;

use rustc_hash::FxHashMap;
use utxokeep_core::{
    BlockDelta, BlockHash, Corrupt, Height, MmrDelta, OutPoint, UtxoRecord,
    mmr::{MmrRule, NodeHash, PlaceKey, PlaceRows, Row, Updated, find_leaf, peaks, update},
};
use utxokeep_kv::{Batch, Read};

pub(crate) use self::{
    build::{forget, held_for_build},
    rewind::{Rewound, mmr_of, rewind},
    rows::StoredRows,
    state::State,
};
pub(crate) use build::has_unfinished_build;
pub use build::{MmrBlocks, MmrBuildStanding, MmrBuilt, OnMmrBuild};
pub(super) use verify::verify;

use super::Change;
use crate::{
    Mode, error::IndexError, meta::Switch, query::block_entry, rollback::Bodies, tables::MMR_PLACES,
};
use rows::{Overlay, RowsOf};

pub(super) const NAME: &str = "mmr";

pub(super) const SWITCH: Switch = Switch {
    name: "[index] store = \"mmr\"",
    is_on: |settings| settings.mmr.is_some(),
    note: |identity, is_on| {
        identity.mmr = if is_on { Some(identity.mmr.unwrap_or_default()) } else { None };
    },
    needs_credentials: false,
};

/// Which rule the range has, where there is one.
pub(crate) const RULE_SWITCH: Switch = Switch {
    name: "[index] mmr_rule = \"utreexo\"",
    is_on: |settings| settings.mmr == Some(MmrRule::Utreexo),
    note: |identity, is_on| {
        if is_on {
            identity.mmr = identity.mmr.map(|_| MmrRule::Utreexo);
        }
    },
    needs_credentials: false,
};

/// An output that a block spends, by what its record says.
#[derive(Debug, Clone, Copy)]
struct SpentPlace {
    row: PlaceKey,
    tx_index: u32,
    output_index: u32,
    outpoint: OutPoint,
}

/// The range as of the newest staged block.
#[derive(Debug)]
pub(crate) struct Kept {
    rule: MmrRule,
    /// As of the newest staged block, except for the root during bulk load.
    state: State,
    /// Leaves of the tree that the rows in [`Self::rows`] and below are of.
    hashed_leaves: u64,
    /// Its peaks, once they were asked for.
    peaks: Option<Vec<NodeHash>>,
    rows: Overlay,
    /// Leaf numbers of blocks that wait for their batch.
    places: FxHashMap<PlaceKey, Vec<u8>>,
    places_bytes: usize,
    /// Changed leaves below [`Self::hashed_leaves`] that are not hashed yet.
    spent_old: Vec<u64>,
    /// Leaves from there on, which are not hashed either.
    young: Vec<Option<NodeHash>>,
    block: BlockChanges,
    /// Room for the bytes of one output.
    room: Vec<u8>,
}

/// What the block that is being staged does.
#[derive(Debug, Default)]
struct BlockChanges {
    hash: BlockHash,
    created: Vec<NodeHash>,
    places: Option<PlaceRows>,
    spent: Vec<SpentPlace>,
    /// Outputs that are replaced by others of their name and keep their leaves.
    replaced: u64,
}

impl Kept {
    pub(crate) fn load(
        read: &dyn Read,
        rule: MmrRule,
        tip: Option<Height>,
    ) -> Result<Self, IndexError> {
        let state = match tip {
            Some(_) => State::read(read)?,
            None => State::empty(rule),
        };
        Ok(Self::at(rule, state))
    }

    fn at(rule: MmrRule, state: State) -> Self {
        Self {
            rule,
            state,
            hashed_leaves: state.leaves,
            peaks: None,
            rows: Overlay::default(),
            places: FxHashMap::default(),
            places_bytes: 0,
            spent_old: Vec::new(),
            young: Vec::new(),
            block: BlockChanges::default(),
            room: Vec::new(),
        }
    }

    /// Starts a block.
    pub(crate) fn begin(&mut self, hash: BlockHash) {
        self.block = BlockChanges { hash, ..BlockChanges::default() };
    }

    pub(crate) fn tell(
        &mut self,
        change: Change,
        outpoint: OutPoint,
        record: &UtxoRecord<'_>,
    ) -> Result<(), Corrupt> {
        match change {
            Change::Passed => {}
            Change::Created => {
                let hash =
                    self.rule.leaf_hash(outpoint, record, &self.block.hash, &mut self.room)?;
                self.block.created.push(hash);
                let leaves = self.state.leaves;
                let places =
                    self.block.places.get_or_insert_with(|| PlaceRows::new(record.height, leaves));
                places.push(record.tx_index, outpoint.index());
            }
            Change::Replaced if !self.rule.spends_replaced() => self.block.replaced += 1,
            Change::Spent | Change::Replaced => self.block.spent.push(SpentPlace {
                row: PlaceKey::of(record.height, record.tx_index),
                tx_index: record.tx_index,
                output_index: outpoint.index(),
                outpoint,
            }),
        }
        Ok(())
    }

    /// Ends a block: its leaves get their numbers, and above the window its root is known.
    pub(crate) fn stage(
        &mut self,
        read: &dyn Read,
        mode: Mode,
        delta: Option<&mut BlockDelta>,
        batch: &mut Batch,
    ) -> Result<(), IndexError> {
        let block = std::mem::take(&mut self.block);
        let deletes = self.find_leaves(read, &block.spent)?;
        let leaves_before = self.state.leaves;
        let inserts = block.created.len() as u64;
        for (key, row) in block.places.map(PlaceRows::finish).unwrap_or_default() {
            MMR_PLACES.put(batch, &key, &row);
            self.places_bytes += row.len();
            self.places.insert(key, row);
        }
        let peaks_before = match &delta {
            // After bulk load, and after a start.
            Some(_) => match self.peaks.take() {
                Some(peaks) => peaks,
                None => peaks(self.rule, &self.rows.over(read), leaves_before)?,
            },
            None => Vec::new(),
        };
        self.young.extend(block.created.into_iter().map(Some));
        self.state.leaves += inserts;
        self.state.replaced += block.replaced;
        self.state.live = (self.state.live + inserts)
            .checked_sub(deletes.len() as u64)
            .ok_or_else(|| Corrupt::new("mmr", "more leaves are spent than there are"))?;
        for leaf in &deletes {
            match leaf.checked_sub(self.hashed_leaves) {
                None => self.spent_old.push(*leaf),
                Some(at) => {
                    let at = usize::try_from(at).unwrap_or(usize::MAX);
                    let young = self.young.get_mut(at);
                    *young.ok_or_else(|| Corrupt::new("mmr", "there is no such leaf"))? = None;
                }
            }
        }
        if mode != Mode::Bulk {
            self.hash(read)?;
        }
        if let Some(delta) = delta {
            let root = self.state.root;
            delta.mmr = Some(MmrDelta { leaves_before, inserts, deletes, peaks_before, root });
        }
        Ok(())
    }

    /// Hashes what changed since the last time.
    fn hash(&mut self, read: &dyn Read) -> Result<(), IndexError> {
        let mut spent = std::mem::take(&mut self.spent_old);
        spent.sort_unstable();
        let old = spent.into_iter().map(|leaf| (leaf, None));
        let young = std::mem::take(&mut self.young);
        let changes: Vec<_> = old.chain((self.hashed_leaves..).zip(young)).collect();
        let sizes = (self.hashed_leaves, self.state.leaves);
        let Updated { rows, nodes_before, nodes_after } =
            update(self.rule, &self.rows.over(read), sizes, &changes)?;
        self.rows.put(&rows);
        self.hashed_leaves = self.state.leaves;
        self.state.nodes = (self.state.nodes + nodes_after).saturating_sub(nodes_before);
        let peaks = peaks(self.rule, &self.rows.over(read), self.state.leaves)?;
        self.state.root = self.rule.root(self.state.leaves, &peaks);
        self.peaks = Some(peaks);
        Ok(())
    }

    /// Leaves of outputs, in their order: among the blocks that wait, or in one sorted read.
    fn find_leaves(&self, read: &dyn Read, spent: &[SpentPlace]) -> Result<Vec<u64>, IndexError> {
        let mut leaves = vec![0; spent.len()];
        let find = |row: &[u8], spent: &SpentPlace| -> Result<u64, IndexError> {
            find_leaf(row, spent.tx_index, spent.output_index)?
                .ok_or_else(|| IndexError::missing("utxo_mmr_places", spent.outpoint))
        };
        let mut stored: Vec<(PlaceKey, usize)> = Vec::with_capacity(spent.len());
        for (at, spent) in spent.iter().enumerate() {
            match self.places.get(&spent.row) {
                Some(row) => leaves[at] = find(row, spent)?,
                None => stored.push((spent.row, at)),
            }
        }
        stored.sort_unstable();
        let mut keys: Vec<PlaceKey> = stored.iter().map(|(key, _)| *key).collect();
        keys.dedup();
        let mut damage = None;
        MMR_PLACES.multi_get(read, &keys, |number, row| {
            let first = stored.partition_point(|(key, _)| *key < keys[number]);
            let own = stored[first..].iter().take_while(|(key, _)| *key == keys[number]);
            for &(_, at) in own {
                let leaf = match &row {
                    Some(row) => find(row.bytes(), &spent[at]),
                    None => Err(IndexError::missing("utxo_mmr_places", spent[at].outpoint)),
                };
                match leaf {
                    Ok(leaf) => leaves[at] = leaf,
                    Err(error) => damage = Some(error),
                }
            }
        })?;
        damage.map_or(Ok(leaves), Err)
    }

    /// The root after the newest block; during bulk load that of the batch before.
    pub(crate) const fn root(&self) -> NodeHash {
        self.state.root
    }

    /// Memory that waits for the batch.
    pub(crate) fn memory_bytes(&self) -> usize {
        let young = self.young.len() * (size_of::<Option<NodeHash>>() + 32);
        // Each old leaf changes a row of leaves and shares those above with others.
        let old = self.spent_old.len() * 2 * size_of::<Row>();
        self.rows.bytes() + self.places_bytes + self.places.len() * 64 + young + old
    }

    /// Ends a batch: what waits goes into it.
    pub(crate) fn cut(&mut self, read: &dyn Read, batch: &mut Batch) -> Result<(), IndexError> {
        if self.hashed_leaves != self.state.leaves || !self.spent_old.is_empty() {
            self.hash(read)?;
        }
        self.rows.write_into(batch, self.state.leaves);
        self.places.clear();
        self.places_bytes = 0;
        self.state.write_into(batch);
        Ok(())
    }

    /// Goes back to before the block of `delta`. Nothing waits for a batch then.
    pub(crate) fn undo(
        &mut self,
        read: &dyn Read,
        delta: &BlockDelta,
        bodies: &Bodies,
        batch: &mut Batch,
    ) -> Result<(), IndexError> {
        let Some(mmr) = &delta.mmr else {
            return Err(Corrupt::new("block delta", "the leaves of the block are not in it").into());
        };
        if mmr.leaves_before + mmr.inserts != self.state.leaves || mmr.root != self.state.root {
            return Err(Corrupt::new("block delta", "it is not that of the newest root").into());
        }
        let mut restored = Vec::with_capacity(mmr.deletes.len());
        let leaves = mmr.leaves_before;
        rewind::restored_leaves(self.rule, read, delta, bodies, leaves, &mut restored)?;
        restored.sort_unstable_by_key(|(leaf, _)| *leaf);
        let sizes = (self.state.leaves, mmr.leaves_before);
        let Updated { rows, nodes_before, nodes_after } =
            update(self.rule, &self.rows.over(read), sizes, &restored)?;
        self.rows.put(&rows);
        let peaks = peaks(self.rule, &self.rows.over(read), mmr.leaves_before)?;
        if peaks != mmr.peaks_before {
            let detail = "undoing the block does not give back the peaks from before it";
            return Err(Corrupt::new("mmr", detail).into());
        }
        let left = if self.rule.spends_replaced() { 0 } else { delta.replaced.len() as u64 };
        self.state = State {
            leaves: mmr.leaves_before,
            replaced: self.state.replaced.saturating_sub(left),
            live: (self.state.live + restored.len() as u64).saturating_sub(mmr.inserts),
            nodes: (self.state.nodes + nodes_after).saturating_sub(nodes_before),
            root: self.rule.root(mmr.leaves_before, &peaks),
        };
        self.hashed_leaves = self.state.leaves;
        self.peaks = Some(peaks);
        delete_places(read, delta.height, batch)?;
        self.rows.write_into(batch, sizes.0);
        self.state.write_into(batch);
        Ok(())
    }
}

/// Deletes the leaf numbers of a block.
fn delete_places(read: &dyn Read, height: Height, batch: &mut Batch) -> Result<(), IndexError> {
    let (from, until) = (height.to_key(), height.plus(1).to_key());
    let scan = utxokeep_kv::Scan { from: &from, until: Some(&until), ..utxokeep_kv::Scan::ALL };
    MMR_PLACES.scan(read, &scan, |key, _| {
        MMR_PLACES.delete_row(batch, &key);
        true
    })?;
    Ok(())
}

/// Hash of the leaf of an output that is not of the block being staged.
fn leaf_hash(
    rule: MmrRule,
    read: &dyn Read,
    outpoint: OutPoint,
    record: &UtxoRecord<'_>,
    room: &mut Vec<u8>,
) -> Result<NodeHash, IndexError> {
    let block = match rule {
        MmrRule::Tombstone => BlockHash::default(),
        MmrRule::Utreexo => {
            let entry = block_entry(read, record.height)?;
            entry.ok_or_else(|| IndexError::missing("chain_blocks", record.height))?.hash
        }
    };
    Ok(rule.leaf_hash(outpoint, record, &block, room)?)
}

/// The leaf of an output, as the tables say.
pub(crate) fn leaf_of(
    read: &dyn Read,
    outpoint: OutPoint,
    record: &UtxoRecord<'_>,
) -> Result<u64, IndexError> {
    let missing = || IndexError::missing("utxo_mmr_places", outpoint);
    let key = PlaceKey::of(record.height, record.tx_index);
    let row = MMR_PLACES.get(read, &key)?.ok_or_else(missing)?;
    let leaf = find_leaf(row.encoded().bytes(), record.tx_index, outpoint.index())?;
    leaf.ok_or_else(missing)
}
