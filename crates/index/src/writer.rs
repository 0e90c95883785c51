//! The one writer of a chain index: its state, its modes, and how batches are cut.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use utxokeep_core::{BlockEntry, BlockHash, ChainPoint, Height, MissingInput};
use utxokeep_kv::{Batch, Kv, SortedRows};

use crate::{
    ChainIndex, Cursor, Readers,
    accumulator::Accumulators,
    coin::Rows,
    error::IndexError,
    log::need_changes,
    meta,
    pending::{AddrRows, LiveRows, Pending},
    query::block_entry,
    staging::{Staging, WriterRead},
    stats, switch,
    times::KnownTimes,
};

/// Places in a batch are 32-bit numbers, whatever the configuration allows.
const BATCH_BYTES_MAX: usize = 2 << 30;

/// The most bytes of a batch that goes through the write path, where the engine holds it once more.
const SHARED_BATCH_BYTES_MAX: usize = 32 << 20;

/// Batches smaller than this are cheaper through the write path than as files.
const LOAD_ROWS_MIN: usize = 20_000;

/// How blocks reach the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One atomic batch per block, with undo data.
    Tip,
    /// Several blocks per batch, with undo data, in one atomic write: for blocks far below the tip of
    /// their source while somebody reads. Readers see the chain grow by whole batches.
    Shared,
    /// Several blocks per batch, with undo data, past the write path: for blocks inside the window
    /// while more are already waiting. Nobody may read meanwhile.
    CatchUp,
    /// As many blocks per batch as fit into memory, without undo data, past the write path: for
    /// blocks that are below the window already. Nobody may read meanwhile.
    Bulk,
}

/// The tip as the writer knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tip {
    pub(crate) height: Height,
    pub(crate) entry: BlockEntry,
}

/// The right to write; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct WriteRight(Arc<AtomicBool>);

impl WriteRight {
    fn take(has_writer: &Arc<AtomicBool>) -> Result<Self, IndexError> {
        if has_writer.swap(true, Ordering::AcqRel) {
            return Err(IndexError::SecondWriter);
        }
        Ok(Self(Arc::clone(has_writer)))
    }
}

impl Drop for WriteRight {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The one writer of a chain index.
#[derive(Debug)]
pub struct ChainWriter<K: Kv> {
    right: WriteRight,
    pub(crate) index: ChainIndex<K>,
    pub(crate) mode: Mode,
    /// The last staged block; on disk it may be older until the batch is cut.
    pub(crate) tip: Option<Tip>,
    pub(crate) undo_base: Height,
    /// The greatest number of a block that left the chain, if one ever did.
    pub(crate) undone_number: Option<u32>,
    /// Where the tables of the index stand, if that may not be the tip of the log.
    pub(crate) set_cursor: Option<Cursor>,
    /// Whether the block of the set cursor is taken for the tip, and who reads meanwhile.
    pub(crate) catching_up: Option<Readers>,
    /// Whether the index lacks blocks from before its first one.
    pub(crate) started_mid_chain: bool,
    /// The boundary block above the tip, if one came, and its parent. It is not stored: whoever
    /// goes on behind the tip meets it again.
    pub(crate) boundary: Option<(BlockHash, BlockHash)>,
    pub(crate) accumulators: Accumulators,
    pub(crate) pending: Pending,
    /// Rows of log, deltas and spent outputs that wait with [`Self::pending`].
    pub(crate) side_rows: Batch,
    /// Rows that go with the next connected block, and nowhere if it is refused.
    pub(crate) with_next: Batch,
    pub(crate) staged_blocks: usize,
    /// Times of the newest blocks.
    pub(crate) times: KnownTimes,
    /// Commits that wait to become one.
    pub(crate) staging: Option<Staging>,
}

impl<K: Kv> ChainWriter<K> {
    /// Starts writing where the database stands. There can be one writer at a time.
    pub fn new(index: ChainIndex<K>) -> Result<Self, IndexError> {
        let right = WriteRight::take(&index.has_writer)?;
        Self::load_state(index, right, None, None)
    }

    fn load_state(
        index: ChainIndex<K>,
        right: WriteRight,
        staging: Option<Staging>,
        catching_up: Option<Readers>,
    ) -> Result<Self, IndexError> {
        let read = &WriterRead::new(index.kv.as_ref(), staging.as_ref());
        let set_cursor = switch::cursor(read)?;
        let tip = match meta::tip(read)? {
            _ if catching_up.is_some() => switch::tip(read, set_cursor.unwrap_or_default())?,
            Some((height, _)) => {
                let entry = block_entry(read, height)?
                    .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
                Some(Tip { height, entry })
            }
            None => None,
        };
        let is_at_tip = index.settings.enabled && set_cursor.is_none();
        let keeps_set = is_at_tip || catching_up.is_some();
        let start = meta::start(read)?;
        let undo_base = switch::deepest(read, keeps_set || set_cursor.is_some())?;
        let accumulators = if keeps_set {
            Accumulators::load(read, &index.settings, tip.map(|tip| tip.height))?
        } else {
            Accumulators::default()
        };
        Ok(Self {
            right,
            mode: Mode::Tip,
            tip,
            undo_base,
            undone_number: meta::undone_number(read)?,
            set_cursor,
            catching_up,
            started_mid_chain: start.is_some(),
            boundary: None,
            accumulators,
            pending: Pending::new(Rows::new(&index.settings)),
            side_rows: Batch::new(),
            with_next: Batch::new(),
            staged_blocks: 0,
            times: KnownTimes::default(),
            staging,
            index,
        })
    }

    /// The index this writes to.
    pub fn index(&self) -> &ChainIndex<K> {
        &self.index
    }

    /// The last applied block.
    pub fn tip(&self) -> Option<ChainPoint> {
        self.tip.map(|tip| tip.entry.point(tip.height))
    }

    /// Log entry of the last applied block.
    pub fn tip_entry(&self) -> Option<BlockEntry> {
        self.tip.map(|tip| tip.entry)
    }

    /// The deepest height that can still become the tip.
    pub fn floor(&self) -> Height {
        let tip = self.tip.map_or(Height::GENESIS, |tip| tip.height);
        self.index.settings.window.floor(tip, self.undo_base)
    }

    /// How blocks reach the tables at present.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode; what waits is committed first. While a named consumer reads what blocks
    /// change, bulk mode is catching up: each block must have its delta.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), IndexError> {
        self.flush()?;
        let must_tell =
            mode == Mode::Bulk && self.keeps_set() && need_changes(self.index.kv.as_ref())?;
        self.mode = if must_tell { Mode::CatchUp } else { mode };
        Ok(())
    }

    /// Whether blocks change the tables of the index, and not the log alone.
    pub(crate) fn keeps_set(&self) -> bool {
        let is_at_tip = self.index.settings.enabled && self.set_cursor.is_none();
        is_at_tip || self.catching_up.is_some()
    }

    /// The deepest height that a rollback may reach: the log alone can be undone down to its first
    /// block, or to where tables that are off can still follow.
    pub(crate) fn rollback_floor(&self) -> Height {
        if self.keeps_set() { self.floor() } else { self.undo_base }
    }

    pub(crate) fn rows(&self) -> Rows {
        Rows::new(&self.index.settings)
    }

    /// What to make of an input whose output is not there.
    pub(crate) fn missing_input(&self) -> MissingInput {
        if self.started_mid_chain || !self.index.settings.filter.is_empty() {
            MissingInput::Count
        } else {
            MissingInput::Refuse
        }
    }

    /// Whether others read while batches of many blocks are written, so that none may go past the
    /// write path.
    fn is_shared(&self) -> bool {
        self.mode == Mode::Shared || self.catching_up == Some(Readers::Present)
    }

    /// Whether the present batch is full.
    pub(crate) fn is_batch_full(&mut self) -> bool {
        if self.mode == Mode::Tip || self.is_staging() {
            return true;
        }
        let settings = &self.index.settings;
        let shared = self.is_shared().then_some(SHARED_BATCH_BYTES_MAX);
        let bytes_max = settings.bulk_batch_bytes_max.min(shared.unwrap_or(BATCH_BYTES_MAX));
        let is_over = |writer: &Self| {
            // The rows of a batch are sorted by an array beside them.
            let others = writer.side_rows.bytes() + writer.side_rows.len() * 48;
            let waiting = writer.pending.memory_bytes() + writer.accumulators.memory_bytes();
            waiting + others >= bytes_max
        };
        let blocks_max = settings.catch_up_blocks_max;
        let is_counted = matches!(self.mode, Mode::CatchUp | Mode::Shared);
        if is_counted && self.staged_blocks >= blocks_max {
            return true;
        }
        // Spent outputs may have left enough room to go on.
        is_over(self) && (!self.pending.shrink() || is_over(self))
    }

    /// Whether blocks wait for their batch to be cut.
    pub(crate) const fn has_staged_blocks(&self) -> bool {
        self.staged_blocks > 0
    }

    /// Commits every staged block; a no-op when there is none. After a failure nothing waits any more:
    /// the writer stands where the database does.
    pub fn flush(&mut self) -> Result<(), IndexError> {
        if let Err(error) = self.write_staged() {
            self.discard_staged()?;
            return Err(error);
        }
        Ok(())
    }

    fn write_staged(&mut self) -> Result<(), IndexError> {
        let Some(tip) = self.tip.filter(|_| self.staged_blocks > 0) else { return Ok(()) };
        if self.mode == Mode::Bulk {
            self.drop_undo_data()?;
        }
        let mut closing = std::mem::take(&mut self.side_rows);
        if self.catching_up.is_some() {
            switch::put_cursor(&mut closing, Cursor::at(tip.height, tip.entry.hash));
        } else {
            meta::put_tip(&mut closing, tip.height, &tip.entry.hash);
        }
        if self.mode == Mode::Bulk && self.keeps_set() {
            self.undo_base = tip.height;
            meta::put_undo_base(&mut closing, tip.height);
            self.accumulators.cut_bulk(tip.height, &mut closing);
        }
        let read = &WriterRead::new(self.index.kv.as_ref(), self.staging.as_ref());
        self.accumulators.cut(read, &mut closing)?;
        let total_rows = self.pending.rows() + closing.len();
        let is_small = total_rows < LOAD_ROWS_MIN || self.is_shared();
        if self.mode == Mode::Tip || self.is_staging() || is_small {
            self.pending.write_into(&mut closing)?;
            self.commit(closing)?;
        } else {
            self.load(closing)?;
            stats::committed(total_rows);
            self.index.signal.raise();
        }
        self.pending.clear();
        self.staged_blocks = 0;
        Ok(())
    }

    /// Writes everything past the write path: net rows straight from where they wait.
    fn load(&self, mut others: Batch) -> Result<(), IndexError> {
        let (live, addresses) = (LiveRows(&self.pending), AddrRows(&self.pending));
        let others = others.sorted_tables();
        // With the index off there are no such tables, not even for no rows.
        let mut tables: Vec<&dyn SortedRows> = Vec::new();
        if self.keeps_set() {
            tables.push(&live);
        }
        if self.keeps_set() && self.rows().index_rows_max() > 0 {
            tables.push(&addresses);
        }
        tables.extend(others.iter().map(|rows| rows as &dyn SortedRows));
        Ok(self.index.kv.load(&tables, Batch::new())?)
    }

    /// Drops what waits since the last commit and reads the tip again. Used after a failed batch, so
    /// that memory never runs ahead of the disk.
    pub(crate) fn discard_staged(&mut self) -> Result<(), IndexError> {
        // The new state must not give the right back when the old one goes.
        let lent = WriteRight(Arc::default());
        let right = std::mem::replace(&mut self.right, lent);
        let staging = self.staging.take();
        let state = Self::load_state(self.index.clone(), right, staging, self.catching_up)?;
        *self = Self { mode: self.mode, ..state };
        Ok(())
    }
}
