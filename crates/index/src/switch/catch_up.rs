//! Taking the tables of an index that was off to the tip of the log.
//!
//! The writer works as if the block of the set cursor were its tip: what it undoes and applies is what
//! it always does, except that log, tip and side blocks stay as they are, and the cursor moves in
//! their place. The entries of the log are written again, with the totals that nobody knew while the
//! index was off.

use utxokeep_core::{Block, BlockHash, ChainHash, Corrupt, Height};
use utxokeep_kv::{Batch, Durability, Kv};

use super::{conclude, forget_entries, kept_entry, put_cursor};
use crate::{
    ChainWriter, Cursor, Mode, Readers,
    error::{ApplyError, CatchUpError, IndexError},
    import::PRUNE_EVERY_BLOCKS,
    query::block_entry,
    rollback::{Bodies, read_delta},
    staging::WriterRead,
    tables::{BLOCKS, DELTA},
    writer::Tip,
};

/// Hands out the block of a height and hash, asked in the order of the chain; `None` where there is
/// none to be had.
pub type LoggedBodies<'b, E> = dyn FnMut(Height, &BlockHash) -> Result<Option<Block>, E> + 'b;

/// Told the height that is done and the height of the tip; `false` stops, to be gone on with later.
pub type OnCatchUp<'p> = dyn FnMut(Height, Height) -> bool + 'p;

/// What became of a catch-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaughtUp {
    /// The tables are at the tip, and the index is on.
    Done,
    /// It was stopped; the next one goes on from there.
    Stopped,
}

impl<K: Kv> ChainWriter<K> {
    /// The block that the tables of the index stand at, while they have to catch up with the log;
    /// `None` where they are at the tip, or are not wanted.
    pub fn behind(&self) -> Option<Cursor> {
        self.set_cursor.filter(|_| self.index.settings.enabled)
    }

    /// Takes the tables of the index to the tip of the log; a no-op where they are there. What a
    /// failure or a stop leaves undone, the next one goes on with. Until the end, questions to the
    /// index are refused.
    pub fn catch_up<E: From<CatchUpError>>(
        &mut self,
        readers: Readers,
        blocks: &mut LoggedBodies<'_, E>,
        progress: &mut OnCatchUp<'_>,
    ) -> Result<CaughtUp, E> {
        let store = |error: IndexError| E::from(error.into());
        self.flush().map_err(store)?;
        if self.behind().is_none() {
            return Ok(CaughtUp::Done);
        }
        let Some(target) = self.tip else {
            // There is nothing to catch up with yet.
            self.finish_catching_up().map_err(store)?;
            return Ok(CaughtUp::Done);
        };
        let mode = std::mem::replace(&mut self.mode, Mode::CatchUp);
        self.catching_up = Some(readers);
        let caught = self
            .discard_staged()
            .map_err(store)
            .and_then(|()| self.advance_set(target.height, blocks, progress));
        if caught.is_err() {
            // What was applied before stays applied; the first failure is the one to tell.
            let _ = self.flush();
        }
        let concluded = match caught {
            Ok(CaughtUp::Done) => self.conclude_catching_up(),
            _ => Ok(()),
        };
        self.catching_up = None;
        self.mode = mode;
        self.discard_staged().map_err(store)?;
        concluded.map_err(store)?;
        if let Ok(CaughtUp::Done) = caught {
            while self.prune_pass().map_err(store)?.more {}
        }
        caught
    }

    fn finish_catching_up(&mut self) -> Result<(), IndexError> {
        self.conclude_catching_up()?;
        self.discard_staged()
    }

    /// The last commit.
    fn conclude_catching_up(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        let mut batch = Batch::new();
        conclude(self.index.kv.as_ref(), &self.index.settings, &mut batch)?;
        self.index.kv.commit(batch, Durability::Synced)?;
        self.index.signal.raise();
        Ok(())
    }

    /// Undoes down to the fork with the log, then applies along it.
    fn advance_set<E: From<CatchUpError>>(
        &mut self,
        target: Height,
        blocks: &mut LoggedBodies<'_, E>,
        progress: &mut OnCatchUp<'_>,
    ) -> Result<CaughtUp, E> {
        while !self.is_on_log().map_err(CatchUpError::from)? {
            self.undo_in_set()?;
            if let Some(tip) = self.tip
                && !progress(tip.height, target)
            {
                return Ok(CaughtUp::Stopped);
            }
        }
        self.restore_entries().map_err(CatchUpError::from)?;
        let mut since_prune = 0;
        loop {
            let next = match self.tip {
                Some(tip) if tip.height >= target => return Ok(CaughtUp::Done),
                Some(tip) => tip.height.plus(1),
                None => self.first_logged().map_err(CatchUpError::from)?,
            };
            self.apply_logged(next, blocks)?;
            since_prune += 1;
            if since_prune >= PRUNE_EVERY_BLOCKS {
                since_prune = 0;
                self.prune_pass().map_err(CatchUpError::from)?;
            }
            if !progress(next, target) {
                self.flush().map_err(CatchUpError::from)?;
                return Ok(CaughtUp::Stopped);
            }
        }
    }

    /// Whether the block of the set cursor is part of the log.
    fn is_on_log(&self) -> Result<bool, IndexError> {
        let Some(tip) = self.tip else { return Ok(true) };
        let logged = block_entry(self.index.kv.as_ref(), tip.height)?;
        Ok(logged.is_some_and(|logged| logged.hash == tip.entry.hash))
    }

    fn first_logged(&self) -> Result<Height, IndexError> {
        Ok(crate::meta::start(self.index.kv.as_ref())?.unwrap_or(Height::GENESIS))
    }

    /// Undoes the block of the set cursor, which has left the log.
    fn undo_in_set(&mut self) -> Result<(), CatchUpError> {
        let Some(tip) = self.tip else { return Ok(()) };
        if tip.height <= self.undo_base {
            let hash = self.named(tip.entry.hash);
            return Err(CatchUpError::TooDeep { hash, height: tip.height });
        }
        let undone = self.undo_committed_in_set(tip);
        if undone.is_err() {
            self.discard_staged()?;
        }
        Ok(undone?)
    }

    fn undo_committed_in_set(&mut self, tip: Tip) -> Result<(), IndexError> {
        let read = &WriterRead::new(self.index.kv.as_ref(), None);
        let delta = read_delta(read, tip.height)?;
        if delta.hash != tip.entry.hash {
            return Err(Corrupt::new("block delta", "it belongs to another block").into());
        }
        let parent = tip.height.minus(1);
        let entry = kept_entry(read, parent)?;
        let mut batch = Batch::new();
        let bodies = Bodies::gather(read, &delta)?;
        self.undo_set(&mut batch, &delta, &bodies)?;
        self.accumulators.undo(read, &delta, &bodies, &mut batch)?;
        DELTA.delete(&mut batch, &tip.height);
        forget_entries(&mut batch, tip.height, tip.height.plus(1));
        put_cursor(&mut batch, Cursor::at(parent, entry.hash));
        self.commit(batch)?;
        self.tip = Some(Tip { height: parent, entry });
        Ok(())
    }

    /// Blocks that left the log and joined it again while the index was off have entries without
    /// totals: they get their own back.
    fn restore_entries(&mut self) -> Result<(), IndexError> {
        let Some(tip) = self.tip else { return Ok(()) };
        let read = self.index.kv.as_ref();
        let mut batch = Batch::new();
        for raw in self.undo_base.get()..=tip.height.get() {
            let height = Height::new(raw);
            let (kept, logged) = (kept_entry(read, height)?, block_entry(read, height)?);
            if logged.is_some_and(|logged| logged.hash == kept.hash && logged != kept) {
                BLOCKS.put(&mut batch, &height, &kept);
            }
        }
        if batch.is_empty() { Ok(()) } else { Ok(self.commit(batch)?) }
    }

    fn apply_logged<E: From<CatchUpError>>(
        &mut self,
        height: Height,
        blocks: &mut LoggedBodies<'_, E>,
    ) -> Result<(), E> {
        let read = self.index.kv.as_ref();
        let entry = block_entry(read, height)
            .and_then(|entry| entry.ok_or_else(|| IndexError::missing("chain_blocks", height)))
            .map_err(CatchUpError::from)?;
        let hash = self.named(entry.hash);
        let block = blocks(height, &entry.hash)?;
        let mut block = block.ok_or(CatchUpError::MissingBody { hash, height })?;
        if block.header.hash != entry.hash {
            let found = self.named(block.header.hash);
            return Err(CatchUpError::OtherBlock { hash, found }.into());
        }
        // The log has no boundary blocks, and links around them.
        block.header.prev = entry.prev;
        match self.apply(&block) {
            Ok(_) => Ok(()),
            Err(ApplyError::Invalid { hash, height, reason }) => {
                let reason = reason.text(hash.network());
                Err(CatchUpError::Refused { hash, height, reason }.into())
            }
            Err(error) => Err(CatchUpError::from(error).into()),
        }
    }

    fn named(&self, hash: BlockHash) -> ChainHash {
        self.index.settings.network().hash(hash)
    }
}
