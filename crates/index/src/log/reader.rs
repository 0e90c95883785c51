//! Reading the log from a cursor: what was undone, then what was applied.

use utxokeep_core::{BlockDelta, BlockEntry, BlockHash, ChainPoint, Corrupt, Encoded, Height};
use utxokeep_kv::{Read, RowKey, Scan};

use super::{Cursor, LogError};
use crate::{
    View,
    error::{IndexError, MmrError},
    meta,
    mmr::MmrRoot,
    query::block_entry,
    rollback::{Bodies, read_delta},
    side, switch,
    tables::BLOCKS,
};

/// A block, as the log knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedBlock {
    /// Where the block is, or was before it was undone.
    pub height: Height,
    /// Hash, parent, time, work and counters.
    pub entry: BlockEntry,
}

impl LoggedBlock {
    /// Height, slot and hash.
    #[must_use]
    pub fn point(&self) -> ChainPoint {
        self.entry.point(self.height)
    }

    /// Its number in the log's own sequence: unique among all blocks that ever were on the chain.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.entry.number(self.height)
    }

    /// The cursor of a reader that has this block.
    #[must_use]
    pub const fn cursor(&self) -> Cursor {
        Cursor::at(self.height, self.entry.hash)
    }

    /// The cursor of a reader that has come to its parent.
    #[must_use]
    pub fn parent(&self) -> Cursor {
        self.height.parent().map(|below| (below, self.entry.prev)).into()
    }
}

/// What became of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEvent {
    /// It left the chain.
    Undone(LoggedBlock),
    /// It joined the chain.
    Applied(LoggedBlock),
}

impl LogEvent {
    /// The block.
    #[must_use]
    pub const fn block(&self) -> &LoggedBlock {
        match self {
            Self::Undone(block) | Self::Applied(block) => block,
        }
    }

    /// Where a reader stands that has dealt with this event.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        match self {
            Self::Undone(block) => block.parent(),
            Self::Applied(block) => block.cursor(),
        }
    }
}

/// The log as of one moment.
#[derive(Debug, Clone, Copy)]
pub struct LogReader<'v, 'a, S> {
    view: &'v View<'a, S>,
}

impl<'a, S: Read> View<'a, S> {
    /// The chain log of this snapshot.
    #[must_use]
    pub const fn log(&self) -> LogReader<'_, 'a, S> {
        LogReader { view: self }
    }
}

impl<S: Read> LogReader<'_, '_, S> {
    /// The newest block.
    #[must_use]
    pub fn tip(&self) -> Option<LoggedBlock> {
        self.view.tip().map(|(height, entry)| LoggedBlock { height, entry })
    }

    /// The block of the chain at a height.
    pub fn block(&self, height: Height) -> Result<Option<LoggedBlock>, LogError> {
        Ok(block_entry(&self.view.read, height)?.map(|entry| LoggedBlock { height, entry }))
    }

    /// The next events of a reader, at most `limit`; none when it is at the tip.
    pub fn events(&self, from: Cursor, limit: usize) -> Result<Vec<LogEvent>, LogError> {
        let mut events = Vec::new();
        let mut at = from;
        while events.len() < limit {
            let Some(left) = self.left(at)? else { break };
            events.push(LogEvent::Undone(left));
            at = left.parent();
        }
        self.applied(at, limit, &mut events)?;
        Ok(events)
    }

    /// The highest block of the chain that the branch of a cursor shares.
    pub fn fork(&self, from: Cursor) -> Result<Cursor, LogError> {
        let mut at = from;
        while let Some(left) = self.left(at)? {
            at = left.parent();
        }
        Ok(at)
    }

    /// The block of a cursor, if it is not on the chain.
    fn left(&self, at: Cursor) -> Result<Option<LoggedBlock>, LogError> {
        let Some((height, hash)) = at.block() else { return Ok(None) };
        if self.is_on_chain(height, &hash)? {
            return Ok(None);
        }
        match side::undone(&self.view.read, height, &hash)? {
            Some(undone) => Ok(Some(LoggedBlock { height, entry: undone.entry })),
            None => Err(LogError::UnknownCursor { height, start_from: self.start_from()? }),
        }
    }

    fn is_on_chain(&self, height: Height, hash: &BlockHash) -> Result<bool, LogError> {
        Ok(block_entry(&self.view.read, height)?.is_some_and(|entry| entry.hash == *hash))
    }

    /// Adds the blocks above `at`, up to `limit` events in all.
    fn applied(
        &self,
        at: Cursor,
        limit: usize,
        events: &mut Vec<LogEvent>,
    ) -> Result<(), LogError> {
        let Some((tip, _)) = self.view.tip() else { return Ok(()) };
        let first = match at.height() {
            Some(height) if height >= tip => return Ok(()),
            Some(height) => height.plus(1),
            None => meta::start(&self.view.read)?.unwrap_or(Height::GENESIS),
        };
        let mut parent = at.block().map(|(_, hash)| hash);
        let (mut next, mut damage) = (first, None);
        let key = first.to_key();
        let limit = limit.saturating_sub(events.len());
        let scan = Scan { from: &key, until: None, reverse: false, limit, within_prefix: false };
        BLOCKS.scan(&self.view.read, &scan, |key, value| {
            match logged(&key, value, next, parent) {
                Ok(block) => {
                    (next, parent) = (block.height.plus(1), Some(block.entry.hash));
                    events.push(LogEvent::Applied(block));
                }
                Err(error) => damage = Some(error),
            }
            damage.is_none()
        })?;
        damage.map_or(Ok(()), |error| Err(error.into()))
    }

    /// What a block changed, with the record of every output in it: for an undone block what undoing
    /// took back. An index with a filter, or one that started mid-chain, tells of what it keeps.
    pub fn changes(&self, event: &LogEvent) -> Result<BlockDelta, LogError> {
        self.view.set_standing().check_changes()?;
        match event {
            LogEvent::Applied(block) => self.applied_changes(block),
            LogEvent::Undone(LoggedBlock { height, entry }) => {
                let undone = side::undone(&self.view.read, *height, &entry.hash)?;
                match undone.and_then(|undone| undone.delta) {
                    Some(delta) => Ok(delta),
                    None => Err(self.past_window(*height)?),
                }
            }
        }
    }

    fn applied_changes(&self, block: &LoggedBlock) -> Result<BlockDelta, LogError> {
        let LoggedBlock { height, entry } = block;
        // The first block of a Bitcoin chain brings nothing into the set, and has no delta.
        if *height == Height::GENESIS && !self.view.settings.network().is_cardano() {
            return Ok(BlockDelta {
                height: *height,
                slot: block.point().slot,
                hash: entry.hash,
                prev: entry.prev,
                created: Vec::new(),
                spent: Vec::new(),
                replaced: Vec::new(),
                invalid_txs: Vec::new(),
                mmr: None,
            });
        }
        if *height <= meta::undo_base(&self.view.read)? {
            return Err(self.past_window(*height)?);
        }
        let delta = read_delta(&self.view.read, *height)?;
        if delta.hash != entry.hash {
            // The block left the chain of this snapshot, or never was on it.
            return Err(self.past_window(*height)?);
        }
        let bodies = Bodies::gather_later(&self.view.read, &delta)?;
        Ok(bodies.into_self_contained(delta)?)
    }

    /// Root of the Merkle mountain range after the block of a cursor: [`LogEvent::cursor`] has the one
    /// after an event. `None` where no range is kept, and where the chain of this snapshot has no such
    /// root: before the first block, below the window, and for a block that has left the chain, so
    /// that of blocks undone in a row the last one has a root.
    pub fn mmr_root(&self, after: Cursor) -> Result<Option<MmrRoot>, LogError> {
        let Some((height, hash)) = after.block() else { return Ok(None) };
        if !self.is_on_chain(height, &hash)? {
            return Ok(None);
        }
        match self.view.mmr_root(Some(height)) {
            Ok(root) => Ok(Some(root)),
            Err(MmrError::Store(error)) => Err(error.into()),
            // No range is kept, or the window does not have the block any more.
            Err(_) => Ok(None),
        }
    }

    /// The lowest height from which changes can be read on.
    pub fn start_from(&self) -> Result<Height, IndexError> {
        switch::deepest(&self.view.read, self.view.set_standing().is_at_tip())
    }

    fn past_window(&self, height: Height) -> Result<LogError, IndexError> {
        Ok(LogError::PastWindow { height, start_from: self.start_from()? })
    }
}

/// A row of the log, which must be the next block.
fn logged(
    key: &RowKey<'_, Height>,
    entry: Encoded<'_, BlockEntry>,
    next: Height,
    parent: Option<BlockHash>,
) -> Result<LoggedBlock, Corrupt> {
    let broken = |reason: &str| Corrupt::new("chain log", reason);
    let height = key.read().ok_or_else(|| broken("a key is not 4 bytes long"))?;
    let entry = entry.read()?;
    if height != next {
        return Err(broken("a block is missing"));
    }
    if parent.is_some_and(|parent| parent != entry.prev) {
        return Err(broken("a block does not follow the one below it"));
    }
    Ok(LoggedBlock { height, entry })
}
