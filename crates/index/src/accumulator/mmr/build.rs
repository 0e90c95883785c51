//! Building the tree for a database that has none: a pass that can be interrupted anywhere.
//!
//! Leaf numbers need every output that was ever created, so the blocks are read again. Up to the
//! undo base nothing is ever undone, and the tree is written as of that block in one go: an output
//! has a leaf if its own block did not spend it, and the leaf is live if the output is in the set,
//! or was spent above. Above the undo base the deltas say what happened, and get the leaves that
//! undoing needs.
//!
//! Until the last batch of the pass the database says that it has no tree, and opens as before.
//!
//! # Invariants
//!
//! * A pass keeps the rule it began with.
//! * While a pass is unfinished, pruning leaves the undo data above its base alone, within a bound:
//!   see [`held_for_build`].

use rustc_hash::FxHashMap;
use utxokeep_core::{
    Block, BlockHash, Corrupt, Height, OutPoint, SpentRecord, UtxoRecord, in_block_prevouts,
    mmr::{MmrRule, NodeHash, PlaceRows},
};
use utxokeep_kv::{Batch, Durability, Kv, Read, Scan, TableId};

use super::{Kept, State, leaf_hash, rewind::mmr_of};
use crate::{
    ChainIndex, ChainWriter, IndexSettings, Mode,
    accumulator::Change,
    error::{FollowError, IndexError, IndexOpenError, MmrEnableError},
    meta,
    query::block_entry,
    rollback::{Bodies, read_delta},
    switch,
    tables::{DELTA, MMR_NODES, MMR_PLACES, SPENT, UNSPENT, UTXO_META},
};

const NAME: &[u8] = b"mmr_build";
/// Memory that may wait for a batch of the pass.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// The most blocks in a batch of the pass: what a crash makes a later pass do again.
const BATCH_BLOCKS_MAX: u32 = 2_000;
/// Rows deleted in one batch.
const DELETED_AT_ONCE: usize = 100_000;

/// How far a pass has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    rule: MmrRule,
    /// The undo base when the pass began.
    base: Height,
    /// The next block.
    next: Height,
}

impl Cursor {
    fn read(read: &dyn Read) -> Result<Option<Self>, IndexError> {
        let Some(row) = UTXO_META.get(read, NAME)? else { return Ok(None) };
        let bytes = row.into_bytes();
        let decoded = bytes.split_first().and_then(|(rule, heights)| {
            let (base, next) = heights.split_at_checked(4)?;
            Some((*rule, Height::from_key(base)?, Height::from_key(next)?))
        });
        let (rule, base, next) =
            decoded.ok_or_else(|| Corrupt::new("mmr build", "not 9 bytes long"))?;
        let rule = match rule {
            0 => MmrRule::Tombstone,
            1 => MmrRule::Utreexo,
            _ => {
                let detail = "its rule is not known; `chain mmr disable` gives the pass up";
                return Err(Corrupt::new("mmr build", detail).into());
            }
        };
        Ok(Some(Self { rule, base, next }))
    }

    fn write_into(self, batch: &mut Batch) {
        let rule = [u8::from(self.rule == MmrRule::Utreexo)];
        let row = [rule.as_slice(), &self.base.to_key(), &self.next.to_key()].concat();
        UTXO_META.put(batch, NAME, &row);
    }
}

/// Hands out the block of a height and hash; it is asked in the order of the chain.
pub type MmrBlocks<'b> = dyn FnMut(Height, &BlockHash) -> Result<Block, FollowError> + 'b;

/// Told the height that is done and the height of the tip; `false` stops the pass, to be gone on
/// with later.
pub type OnMmrBuild<'p> = dyn FnMut(Height, Height) -> bool + 'p;

/// Where an unfinished pass stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MmrBuildStanding {
    /// The rule it began with, and goes on with.
    pub rule: MmrRule,
    /// The block that the next pass goes on with: the first one where blocks that it went through
    /// have left the chain, or where the undo data that it needs is gone.
    pub next: Height,
    /// Undo data above this height is kept for it; `None` where the chain has grown too far since,
    /// or where it is gone already.
    pub holds_undo_above: Option<Height>,
}

/// What became of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MmrBuilt {
    /// The database has a tree now; it must be opened again.
    Done,
    /// It was stopped; the next one goes on from there.
    Stopped,
}

impl<K: Kv> ChainWriter<K> {
    /// Builds the Merkle mountain range of a database that was opened without one. A pass that was
    /// interrupted is gone on with.
    pub fn build_mmr(
        mut self,
        rule: MmrRule,
        blocks: &mut MmrBlocks<'_>,
        progress: &mut OnMmrBuild<'_>,
    ) -> Result<MmrBuilt, MmrEnableError> {
        self.flush()?;
        let settings = IndexSettings { mmr: Some(rule), ..(*self.index.settings).clone() };
        if self.index.settings.mmr.is_some() {
            return Err(MmrEnableError::IsOn);
        }
        meta::check_mmr(&settings)?;
        if !self.keeps_set() {
            return Err(IndexOpenError::MmrRefused { why: switch::IS_BEHIND }.into());
        }
        if self.started_mid_chain {
            return Err(MmrEnableError::NotWhole { why: "it started in the middle of the chain" });
        }
        match Cursor::read(self.index.kv.as_ref())?.map(|cursor| cursor.rule) {
            Some(began) if began != rule => {
                return Err(MmrEnableError::OtherRule { began, asked: rule });
            }
            _ => {}
        }
        let mut built = MmrBuilt::Done;
        if let Some(tip) = self.tip.map(|tip| tip.height) {
            let cursor = self.cursor(rule)?;
            built = Pass::new(&self, cursor)?.run(blocks, tip, progress)?;
        }
        if built == MmrBuilt::Done {
            let mut batch = Batch::new();
            if self.tip.is_none() {
                self.clear_mmr()?;
            }
            UTXO_META.delete(&mut batch, NAME);
            meta::put_switches(&mut batch, &settings, true);
            self.index.kv.commit(batch, Durability::Synced)?;
        }
        Ok(built)
    }

    /// Where to go on; what cannot be gone on with is deleted.
    fn cursor(&self, rule: MmrRule) -> Result<Cursor, IndexError> {
        let read = self.index.kv.as_ref();
        if let Some(cursor) = Cursor::read(read)?
            && cursor.base >= self.undo_base
            && self.has_leaves(cursor)?
        {
            return Ok(cursor);
        }
        self.clear_mmr()?;
        let cursor = Cursor { rule, base: self.undo_base, next: Height::GENESIS };
        let mut batch = Batch::new();
        State::empty(rule).write_into(&mut batch);
        cursor.write_into(&mut batch);
        read.commit(batch, Durability::Synced)?;
        Ok(cursor)
    }

    /// Whether the deltas that an interrupted pass went through are still those it wrote.
    fn has_leaves(&self, cursor: Cursor) -> Result<bool, IndexError> {
        let read = self.index.kv.as_ref();
        let state = State::read(read)?;
        let Some(tip) = self.tip else { return Ok(false) };
        if cursor.next > tip.height.plus(1) {
            return Ok(false);
        }
        let mut expected: Option<(u64, NodeHash)> = None;
        for raw in cursor.base.get() + 1..cursor.next.get() {
            let delta = read_delta(read, Height::new(raw))?;
            let Some(mmr) = delta.mmr else { return Ok(false) };
            let before =
                (mmr.leaves_before, cursor.rule.root(mmr.leaves_before, &mmr.peaks_before));
            if expected.is_some_and(|expected| expected != before) {
                return Ok(false);
            }
            expected = Some((mmr.leaves_before + mmr.inserts, mmr.root));
        }
        Ok(expected.is_none_or(|expected| expected == (state.leaves, state.root)))
    }

    /// Deletes every row of a tree, and what an interrupted pass left.
    fn clear_mmr(&self) -> Result<(), IndexError> {
        let kv = self.index.kv.as_ref();
        let mut batch = Batch::new();
        forget(&mut batch);
        kv.commit(batch, Durability::Synced)?;
        for table in [MMR_NODES.id(), MMR_PLACES.id()] {
            while delete_rows(kv, table)? == DELETED_AT_ONCE {}
        }
        Ok(())
    }
}

impl<K: Kv> ChainIndex<K> {
    /// Where a pass that was interrupted stands; `None` where none was.
    pub fn mmr_build_standing(&self) -> Result<Option<MmrBuildStanding>, IndexError> {
        if self.settings.mmr.is_some() || !self.settings.enabled {
            return Ok(None);
        }
        let view = self.view()?;
        let Some(Cursor { rule, base, next }) = Cursor::read(&view.read)? else { return Ok(None) };
        let Some((tip, _)) = view.tip() else { return Ok(None) };
        let is_there = meta::undo_base(&view.read)? <= base;
        let goes_on = is_there && is_on_chain(&view.read, next, (base, tip))?;
        let holds_undo_above = held_for_build(&view.read, &self.settings, tip)?;
        Ok(Some(MmrBuildStanding {
            rule,
            next: if goes_on { next } else { Height::GENESIS },
            holds_undo_above: holds_undo_above.filter(|_| is_there),
        }))
    }
}

/// Whether a pass was interrupted.
pub(crate) fn has_unfinished_build(read: &dyn Read) -> Result<bool, IndexError> {
    Ok(Cursor::read(read)?.is_some())
}

/// Whether the last block that a pass went through is still there, with the leaves it gave it.
fn is_on_chain(
    read: &dyn Read,
    next: Height,
    (base, tip): (Height, Height),
) -> Result<bool, IndexError> {
    if next > tip.plus(1) {
        return Ok(false);
    }
    if next <= base.plus(1) {
        return Ok(true);
    }
    Ok(read_delta(read, next.minus(1))?.mmr.is_some())
}

/// Undo data above this height is what an unfinished pass has yet to go through: without it the pass
/// begins again with the first block. It is held no further behind the tip than a consumer of the
/// log holds its own.
pub(crate) fn held_for_build(
    read: &dyn Read,
    settings: &IndexSettings,
    tip: Height,
) -> Result<Option<Height>, IndexError> {
    if settings.mmr.is_some() || !settings.enabled {
        return Ok(None);
    }
    let base = Cursor::read(read)?.map(|cursor| cursor.base);
    let lag_max = settings.consumer_lag_blocks_max;
    Ok(base.filter(|base| !settings.window.is_left_behind(tip, *base, lag_max)))
}

fn delete_rows<K: Kv>(kv: &K, table: TableId) -> Result<usize, IndexError> {
    let mut batch = Batch::new();
    let scan = Scan { limit: DELETED_AT_ONCE, ..Scan::ALL };
    let rows = kv.scan(table, &scan, &mut |key, _| {
        batch.delete(table, key);
        true
    })?;
    kv.commit(batch, Durability::Buffered)?;
    Ok(rows)
}

/// Forgets how large the tree is and how far a pass has come; the rows stay.
pub(crate) fn forget(batch: &mut Batch) {
    UTXO_META.delete(batch, NAME);
    State::delete(batch);
}

/// A pass at work.
struct Pass<'w, K: Kv> {
    writer: &'w ChainWriter<K>,
    cursor: Cursor,
    kept: Kept,
    batch: Batch,
    /// Records that blocks above the base replaced, by output and height.
    replaced: FxHashMap<(OutPoint, Height), Vec<u8>>,
    room: Vec<u8>,
}

impl<'w, K: Kv> Pass<'w, K> {
    fn new(writer: &'w ChainWriter<K>, cursor: Cursor) -> Result<Self, IndexError> {
        let read = writer.index.kv.as_ref();
        let kept = Kept::at(cursor.rule, State::read(read)?);
        let mut replaced = FxHashMap::default();
        let tip = writer.tip.map_or(Height::GENESIS, |tip| tip.height);
        for raw in cursor.base.get() + 1..=tip.get() {
            for (outpoint, body) in read_delta(read, Height::new(raw))?.replaced {
                let height = UtxoRecord::decode(&body)?.height;
                replaced.insert((outpoint, height), body);
            }
        }
        Ok(Self { writer, cursor, kept, batch: Batch::new(), replaced, room: Vec::new() })
    }

    fn read(&self) -> &'w K {
        self.writer.index.kv.as_ref()
    }

    fn run(
        mut self,
        blocks: &mut MmrBlocks<'_>,
        tip: Height,
        progress: &mut OnMmrBuild<'_>,
    ) -> Result<MmrBuilt, MmrEnableError> {
        while self.cursor.next <= tip {
            let height = self.cursor.next;
            if height <= self.cursor.base {
                if let Err(error) = self.add_block(height, blocks) {
                    // What is done is not done again once the block can be had.
                    if matches!(error, MmrEnableError::Source(_)) {
                        self.commit()?;
                    }
                    return Err(error);
                }
            } else {
                self.add_delta(height)?;
            }
            self.cursor.next = height.plus(1);
            let is_last_below = height == self.cursor.base || height == tip;
            let waiting = self.kept.memory_bytes() + self.batch.bytes() >= BATCH_BYTES_MAX
                || height.get().is_multiple_of(BATCH_BLOCKS_MAX);
            let goes_on = progress(height, tip);
            if is_last_below || waiting || !goes_on || height > self.cursor.base {
                self.commit()?;
            }
            if !goes_on && height < tip {
                return Ok(MmrBuilt::Stopped);
            }
        }
        Ok(MmrBuilt::Done)
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        let read = self.read();
        self.kept.cut(read, &mut self.batch)?;
        self.cursor.write_into(&mut self.batch);
        Ok(read.commit(std::mem::take(&mut self.batch), Durability::Buffered)?)
    }

    /// Gives leaves to the outputs of a block that is never undone.
    fn add_block(
        &mut self,
        height: Height,
        blocks: &mut MmrBlocks<'_>,
    ) -> Result<(), MmrEnableError> {
        let read = self.read();
        let entry = block_entry(read, height)?
            .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
        let block = blocks(height, &entry.hash)?;
        if block.header.hash != entry.hash {
            let network = self.writer.index.settings.network();
            let (hash, found) = (network.hash(entry.hash), network.hash(block.header.hash));
            return Err(FollowError::OtherBlock { hash, found }.into());
        }
        let mut is_passed = vec![false; block.outputs.len()];
        for number in in_block_prevouts(&block).into_iter().flatten() {
            is_passed[number as usize] = true;
        }
        let mut outputs = Vec::with_capacity(block.outputs.len());
        let first = self.first_tx_index(&block, height);
        for (tx_index, tx) in (first..).zip(&block.txs) {
            for (output, number) in block.outputs_of(tx).iter().zip(tx.outputs.start as usize..) {
                if !is_passed[number] {
                    outputs.push((OutPoint::new(tx.txid, output.index), tx_index));
                }
            }
        }
        let mut hashes = self.live_hashes(height, &outputs)?;
        self.keep_replaced(&block, height, &outputs, &mut hashes)?;
        self.kept.append(height, &outputs, hashes, &mut self.batch);
        Ok(())
    }

    /// A coinbase that a later one has replaced has no record any more. Where it keeps its leaf, its
    /// hash comes from the block.
    fn keep_replaced(
        &mut self,
        block: &Block,
        height: Height,
        outputs: &[(OutPoint, u32)],
        hashes: &mut [Option<NodeHash>],
    ) -> Result<(), IndexError> {
        let network = self.writer.index.settings.network();
        let is_replaced = network.overwritten_at(height).is_some_and(|at| at <= self.cursor.base);
        let Some(coinbase) = block.txs.first().filter(|tx| tx.is_coinbase) else { return Ok(()) };
        if !is_replaced || self.cursor.rule.spends_replaced() {
            return Ok(());
        }
        for output in block.outputs_of(coinbase) {
            let outpoint = OutPoint::new(coinbase.txid, output.index);
            let record = UtxoRecord {
                address: block.address_of(output),
                value: output.value,
                details: block.details_of(output),
                height,
                place: None,
                tx_index: 0,
                is_coinbase: true,
            };
            let at = outputs.iter().position(|(other, _)| *other == outpoint);
            if let Some(hash @ None) = at.map(|at| &mut hashes[at]) {
                let of = &block.header.hash;
                *hash = Some(self.cursor.rule.leaf_hash(outpoint, &record, of, &mut self.room)?);
                self.kept.state.replaced += 1;
            }
        }
        Ok(())
    }

    /// As when the block was connected.
    fn first_tx_index(&self, block: &Block, height: Height) -> u32 {
        let is_second =
            block.header.slot.is_some_and(|slot| slot.slot == 0) && height != Height::GENESIS;
        self.writer.genesis_outputs(is_second)
    }

    /// Hashes of the leaves of outputs that were live after the base.
    fn live_hashes(
        &mut self,
        height: Height,
        outputs: &[(OutPoint, u32)],
    ) -> Result<Vec<Option<NodeHash>>, IndexError> {
        let read = self.read();
        let mut sorted: Vec<_> =
            outputs.iter().enumerate().map(|(at, (outpoint, _))| (*outpoint, at)).collect();
        sorted.sort_unstable();
        let mut bodies: Vec<Option<Vec<u8>>> = vec![None; outputs.len()];
        let outpoints = sorted.iter().map(|(outpoint, _)| outpoint);
        UNSPENT.multi_get(read, outpoints, |number, value| {
            bodies[sorted[number].1] = value.map(|value| value.bytes().to_vec());
        })?;
        let base = self.cursor.base;
        let mut damage = None;
        sorted.retain(|(_, at)| bodies[*at].is_none());
        let outpoints = sorted.iter().map(|(outpoint, _)| outpoint);
        SPENT.multi_get(read, outpoints, |number, value| {
            match value.map(|value| SpentRecord::decode(value.bytes())).transpose() {
                Ok(spent) => {
                    let spent = spent.filter(|spent| spent.spent_height > base);
                    bodies[sorted[number].1] = spent.map(|spent| spent.record.to_vec());
                }
                Err(error) => damage = Some(error),
            }
        })?;
        if let Some(error) = damage {
            return Err(error.into());
        }
        let mut hashes = Vec::with_capacity(outputs.len());
        for ((outpoint, tx_index), body) in outputs.iter().zip(bodies) {
            hashes.push(self.live_hash(height, *outpoint, *tx_index, body.as_deref())?);
        }
        Ok(hashes)
    }

    fn live_hash(
        &mut self,
        height: Height,
        outpoint: OutPoint,
        tx_index: u32,
        body: Option<&[u8]>,
    ) -> Result<Option<NodeHash>, IndexError> {
        let replaced = self.replaced.get(&(outpoint, height)).map(Vec::as_slice);
        for body in [replaced, body].into_iter().flatten() {
            let record = UtxoRecord::decode(body)?;
            // A later block may have created an output of the same name.
            if record.height == height {
                if record.tx_index != tx_index {
                    return Err(Corrupt::new("utxo record", "its block has it elsewhere").into());
                }
                let read = self.writer.index.kv.as_ref();
                let hash = leaf_hash(self.cursor.rule, read, outpoint, &record, &mut self.room)?;
                return Ok(Some(hash));
            }
        }
        Ok(None)
    }

    /// Goes through a block that can be undone, and writes its delta again with its leaves.
    fn add_delta(&mut self, height: Height) -> Result<(), IndexError> {
        let read = self.read();
        let mut delta = read_delta(read, height)?;
        let bodies = Bodies::gather_later(read, &delta)?;
        self.kept.begin(delta.hash);
        for (change, list) in [
            (Change::Replaced, delta.replaced.iter().map(|(o, b)| (*o, b.as_slice())).collect()),
            (Change::Spent, bodies.spent_before(&delta).collect::<Vec<_>>()),
        ] {
            for (outpoint, body) in list {
                self.kept.tell(change, outpoint, &UtxoRecord::decode(body)?)?;
            }
        }
        for (outpoint, body) in bodies.created_and_left(&delta) {
            let replaced = self.replaced.get(&(outpoint, height)).map(Vec::as_slice);
            let body = replaced.unwrap_or(body);
            self.kept.tell(Change::Created, outpoint, &UtxoRecord::decode(body)?)?;
        }
        delta.mmr = None;
        self.kept.stage(read, Mode::Tip, Some(&mut delta), &mut self.batch)?;
        mmr_of(&delta)?;
        DELTA.put(&mut self.batch, &height, &delta);
        Ok(())
    }
}

impl Kept {
    /// Appends the outputs of a block at once; one without a hash is spent already.
    fn append(
        &mut self,
        height: Height,
        outputs: &[(OutPoint, u32)],
        hashes: Vec<Option<NodeHash>>,
        batch: &mut Batch,
    ) {
        let mut places = PlaceRows::new(height, self.state.leaves);
        for (outpoint, tx_index) in outputs {
            places.push(*tx_index, outpoint.index());
        }
        for (key, row) in places.finish() {
            MMR_PLACES.put(batch, &key, &row);
        }
        self.state.leaves += hashes.len() as u64;
        self.state.live += hashes.iter().flatten().count() as u64;
        self.young.extend(hashes);
    }
}
