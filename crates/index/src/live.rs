//! Following a live node: what it says is the chain.
//!
//! A node has chosen between branches already, so its rollbacks are obeyed, not weighed.
//!
//! # Invariants
//!
//! * A block within the window of the node's tip has undo data, however it was applied.
//! * What readers see is the state behind one block, also while many blocks go into one batch.

use std::time::{Duration, Instant};

use utxokeep_core::{Block, BlockHash, ChainPoint, Height};
use utxokeep_kv::Kv;

use crate::{
    Applied, ChainWriter, FollowReport, Mode,
    error::{FollowError, IndexError, RollbackError},
    import::PRUNE_EVERY_BLOCKS,
    query::block_entry,
    staging::ONE_COMMIT_BLOCKS_MAX,
    stats,
};

/// From so many blocks below its source's tip on an index is far behind: a day of Bitcoin's blocks.
/// Readers are then shown several blocks at once.
pub const FAR_BLOCKS: u32 = 144;

/// How long a block may wait for others while somebody reads.
const SHARED_WAIT_MAX: Duration = Duration::from_secs(1);

/// Whether somebody reads while the index catches up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Nobody: many blocks go into one batch while there are more to come.
    Absent,
    /// Somebody: every block is a batch of its own, except far below the node's tip, where a second's
    /// blocks become one.
    Present,
}

/// Applies what a node announces.
#[derive(Debug)]
pub struct LiveFollower<K: Kv> {
    writer: ChainWriter<K>,
    readers: Readers,
    /// Whether blocks that the window will never reach are loaded without undo data.
    bulk: bool,
    /// Height of the node's tip, as it last said.
    source_height: Height,
    is_at_tip: bool,
    /// The mode that was last asked for: a writer may have reasons for another.
    asked_mode: Option<Mode>,
    /// When the first block of the present batch was applied.
    waiting_since: Option<Instant>,
    since_prune: u64,
    report: FollowReport,
    /// Set while the node has gone back and its new branch is still to come.
    switch: Option<Switch>,
}

/// A reorganisation of the node that is under way: staged, so that nobody sees the chain shrink.
#[derive(Debug, Clone, Copy)]
struct Switch {
    /// Height of the tip before.
    from: Height,
    /// Blocks undone.
    undone: u32,
    /// Blocks connected since.
    connected: u64,
}

impl<K: Kv> LiveFollower<K> {
    /// Takes over a writer.
    pub fn new(writer: ChainWriter<K>, readers: Readers) -> Self {
        Self {
            writer,
            readers,
            bulk: false,
            source_height: Height::GENESIS,
            is_at_tip: false,
            asked_mode: None,
            waiting_since: None,
            since_prune: 0,
            report: FollowReport::default(),
            switch: None,
        }
    }

    /// Loads blocks in bulk, without undo data, where the window will not reach them once the node's
    /// tip is reached. Only while nobody reads.
    #[must_use]
    pub fn with_bulk(self, bulk: bool) -> Self {
        Self { bulk, ..self }
    }

    /// The node says that its tip has this height.
    pub fn source_is_at(&mut self, height: u64) {
        self.source_height = Height::new(u32::try_from(height).unwrap_or(u32::MAX));
    }

    /// How the next block is to reach the tables.
    fn wanted_mode(&self) -> Mode {
        let Some(tip) = self.writer.tip().filter(|_| !self.is_at_tip) else { return Mode::Tip };
        let below = self.source_height.get().saturating_sub(tip.height.get());
        let horizon = self.writer.index().settings().window.horizon();
        match self.readers {
            Readers::Absent if self.bulk && below > horizon => Mode::Bulk,
            Readers::Absent => Mode::CatchUp,
            Readers::Present if below >= FAR_BLOCKS => Mode::Shared,
            Readers::Present => Mode::Tip,
        }
    }

    /// What happened so far.
    pub const fn report(&self) -> &FollowReport {
        &self.report
    }

    /// The last applied block.
    pub fn tip(&self) -> Option<ChainPoint> {
        self.writer.tip()
    }

    /// Points to look for on the node's chain, newest first, from the tip down to the deepest block
    /// that could still be the common one.
    pub fn points(&mut self) -> Result<Vec<ChainPoint>, IndexError> {
        self.abandon_switch()?;
        self.writer.flush()?;
        let Some(tip) = self.writer.tip() else { return Ok(Vec::new()) };
        let floor = self.writer.floor();
        // Each of the newest blocks, then steps of a tenth of the depth: a node that went another
        // way while nobody listened is met where it left, or a little below.
        let mut depths = Vec::new();
        let mut depth = 0u32;
        while tip.height.minus(depth) > floor {
            depths.push(depth);
            depth += 1.max(depth / 10);
        }
        let mut heights: Vec<Height> =
            depths.into_iter().map(|depth| tip.height.minus(depth)).collect();
        heights.push(floor);
        let mut points = Vec::with_capacity(heights.len());
        for height in heights {
            let entry = block_entry(self.writer.index().kv.as_ref(), height)?
                .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
            points.push(entry.point(height));
        }
        Ok(points)
    }

    /// The chain now ends at a block of ours; `None` is before the first block. A block that is the
    /// tip changes nothing. Answers how many blocks were undone.
    pub fn roll_back(&mut self, to: Option<BlockHash>) -> Result<u32, FollowError> {
        let Some(hash) = to else { return self.roll_back_to_origin() };
        let passed = self.writer.boundary.filter(|(boundary, _)| *boundary == hash);
        let target = passed.map_or(hash, |(_, parent)| parent);
        let Some(height) = self.writer.height_of(&target)? else {
            let hash = self.writer.index().settings().network().hash_text(hash.as_bytes());
            return Err(FollowError::UnknownPoint { hash });
        };
        let from = self.writer.tip().map_or(height, |tip| tip.height);
        let depth = height.depth_below(from).unwrap_or(0);
        if depth == 0 {
            return Ok(0);
        }
        if self.switch.is_none() && depth <= ONE_COMMIT_BLOCKS_MAX {
            self.writer.begin_staging()?;
        }
        let undone = match self.writer.rollback(height) {
            Ok(undone) => undone,
            Err(error) => {
                self.abandon_switch()?;
                return Err(error.into());
            }
        };
        tracing::info!(depth = undone, %height, "the node went back");
        let mut switch = self.switch.unwrap_or(Switch { from, undone: 0, connected: 0 });
        switch.undone += undone;
        self.switch = Some(switch);
        if !self.writer.is_staging() || switch.undone > ONE_COMMIT_BLOCKS_MAX {
            self.settle_switch()?;
        }
        Ok(undone)
    }

    /// Commits what is staged of a reorganisation, and reports it.
    fn settle_switch(&mut self) -> Result<(), FollowError> {
        self.writer.commit_staged()?;
        if let Some(Switch { undone, connected, .. }) = self.switch.take() {
            self.report.connected += connected;
            self.report.disconnected += u64::from(undone);
            self.report.reorganisations += 1;
            self.report.deepest_reorganisation = self.report.deepest_reorganisation.max(undone);
            stats::reorganised();
        }
        Ok(())
    }

    /// Forgets a reorganisation whose new branch did not come: the chain stays as it was, and the
    /// next connection starts from there.
    fn abandon_switch(&mut self) -> Result<(), IndexError> {
        self.switch = None;
        self.writer.abandon_staged()
    }

    fn roll_back_to_origin(&self) -> Result<u32, FollowError> {
        if self.writer.tip().is_none() {
            return Ok(0);
        }
        stats::rollback_refused();
        let (target, safe) = (Height::GENESIS, self.writer.floor());
        Err(RollbackError::TooDeep { target, safe }.into())
    }

    /// Decodes the next block. Whoever else wants to read it can share it, before it is applied.
    pub fn decode(&self, raw: Vec<u8>) -> Result<Block, FollowError> {
        let after = self.writer.tip().map(|tip| tip.height);
        let decoder = &self.writer.index().settings().decoder;
        decoder.decode(raw).map_err(|source| FollowError::Undecodable { after, source })
    }

    /// Applies the next block.
    pub fn connect(&mut self, block: &Block) -> Result<Applied, FollowError> {
        // While a reorganisation is staged, it alone says what a batch is.
        let mode = self.wanted_mode();
        if self.asked_mode != Some(mode) && self.switch.is_none() {
            self.writer.set_mode(mode)?;
            self.asked_mode = Some(mode);
        }
        let applied = match self.writer.apply(block) {
            Ok(applied) => applied,
            Err(error) => {
                self.abandon_switch()?;
                return Err(error.into());
            }
        };
        if let Applied::Connected(height) = applied {
            self.since_prune += 1;
            match &mut self.switch {
                Some(switch) => {
                    switch.connected += 1;
                    if height >= switch.from || self.writer.is_staging_full() {
                        self.settle_switch()?;
                    }
                }
                None => self.report.connected += 1,
            }
        }
        self.cut_in_time()?;
        // Pruning cuts the batch, so that it waits for the end of one.
        let is_due = match self.writer.mode() {
            Mode::Tip => self.since_prune >= 1,
            Mode::Shared => {
                self.since_prune >= PRUNE_EVERY_BLOCKS && !self.writer.has_staged_blocks()
            }
            Mode::CatchUp | Mode::Bulk => self.since_prune >= PRUNE_EVERY_BLOCKS,
        };
        if is_due {
            // As many passes as there would have been one by one.
            for _ in 0..std::mem::take(&mut self.since_prune) {
                if !self.writer.prune_pass()?.more {
                    break;
                }
            }
        }
        Ok(applied)
    }

    /// Nothing has come for a moment. Readers do not wait for blocks that may come later.
    pub fn rest(&mut self) -> Result<(), FollowError> {
        self.cut_in_time()
    }

    /// Ends a batch that others read, when its first block has waited long enough.
    fn cut_in_time(&mut self) -> Result<(), FollowError> {
        if self.writer.mode() != Mode::Shared || !self.writer.has_staged_blocks() {
            self.waiting_since = None;
            return Ok(());
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= SHARED_WAIT_MAX {
            self.waiting_since = None;
            self.writer.flush()?;
        }
        Ok(())
    }

    /// The node has no more for now: what waits is committed, and from here on each block is.
    pub fn reached_tip(&mut self) -> Result<(), FollowError> {
        self.is_at_tip = true;
        // All the node has: where that is less than before, the chain is shorter now.
        self.settle_switch()?;
        self.writer.flush()?;
        Ok(())
    }

    /// The connection was lost: by the time it is back, there may be much to catch up with.
    pub fn lost_connection(&mut self) -> Result<(), FollowError> {
        self.is_at_tip = false;
        self.abandon_switch()?;
        self.writer.flush()?;
        Ok(())
    }

    /// Commits what waits and gives the writer back.
    pub fn into_writer(mut self) -> Result<(ChainWriter<K>, FollowReport), FollowError> {
        self.abandon_switch()?;
        self.writer.set_mode(Mode::Tip)?;
        Ok((self.writer, self.report))
    }
}
