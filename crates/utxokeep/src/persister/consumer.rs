//! The persister as a consumer of the chain log.

use std::{io, time::Duration};

use utxokeep_chains::{BlockDecoder, BodyFinder, WantedBlock, cut_block};
use utxokeep_core::{
    Height,
    persisted::{BlockPlace, PersistedFiles, encode_files},
};
use utxokeep_fault::crash_point;
use utxokeep_index::{ChainIndex, ConsumerNeeds, Cursor, LogError, LogEvent, LoggedBlock};
use utxokeep_kv::Kv;

use super::{NAME, PersistedPlace, PersisterError, PersisterSettings, meter};
use crate::consumers::{ConsumerThread, FollowerState, LogConsumer, StepFailed, Stepped};

/// How long the persister waits for the log at the most, before it looks by itself.
const LOOK_AFTER: Duration = Duration::from_secs(60);

/// Undone blocks that are read from one snapshot.
const UNDONE_EVENTS_MAX: usize = 256;

/// Blocks that are looked for on the chain by way of the files, when the log has forgotten them.
const FILES_BACK_MAX: usize = 100_000;

/// Writes the files of blocks as the chain log tells of them.
#[derive(Debug)]
pub struct Persister<K> {
    index: ChainIndex<K>,
    place: PersistedPlace,
    bodies: BodyFinder,
    settings: PersisterSettings,
    /// Where it stands; `None` until the place was looked at.
    cursor: Option<Cursor>,
    /// Up to here old files were deleted, since the program started.
    deleted_below: Option<Height>,
    #[cfg(test)]
    pub(super) mistake: Option<Mistake>,
}

/// What a test lets the persister do wrong, to see whether it is noticed.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    /// The cursor in the database moves before the watermark in the place does.
    CursorBeforeWatermark,
    /// The watermark names blocks whose files are still to be written.
    WatermarkBeforeFiles,
}

impl<K: Kv> Persister<K> {
    /// Follows the log of a database into a place.
    #[must_use]
    pub fn new(
        index: ChainIndex<K>,
        place: PersistedPlace,
        bodies: BodyFinder,
        settings: PersisterSettings,
    ) -> Self {
        Self {
            index,
            place,
            bodies,
            settings,
            cursor: None,
            deleted_below: None,
            #[cfg(test)]
            mistake: None,
        }
    }

    /// Makes itself known, so that nobody prunes what it has not seen, whether or not the place
    /// answers.
    pub fn register(&self) -> Result<(), PersisterError> {
        let known = self.index.consumers()?;
        let own = known.into_iter().find(|consumer| consumer.name == NAME);
        let cursor = own.map_or(Cursor::START, |own| own.cursor);
        Ok(self.index.register_consumer(NAME, ConsumerNeeds::Blocks, cursor)?)
    }

    /// Reads on by some blocks; answers whether nothing is left until the chain moves.
    pub fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<bool, PersisterError> {
        let cursor = match self.cursor {
            Some(cursor) => cursor,
            None => self.resume()?,
        };
        let limit = self.settings.batch_blocks_max.max(UNDONE_EVENTS_MAX);
        let (events, tip) = {
            let view = self.index.view()?;
            let events = match view.log().events(cursor, limit) {
                Err(LogError::UnknownCursor { height, .. }) => {
                    drop(view);
                    let shared = self.back_to_chain(cursor, height)?;
                    self.go_back(shared, 1)?;
                    return Ok(false);
                }
                events => events?,
            };
            (events, view.tip().map(|(height, _)| height))
        };
        meter::stands(cursor.height(), tip);
        let is_undone = |event: &&LogEvent| matches!(event, LogEvent::Undone(_));
        let undone: Vec<&LogEvent> = events.iter().take_while(is_undone).collect();
        if let Some(last) = undone.last() {
            self.go_back(last.cursor(), undone.len())?;
            return Ok(false);
        }
        let applied: Vec<LoggedBlock> = events.iter().map(|event| *event.block()).collect();
        let Some(tip) = tip.filter(|_| !applied.is_empty()) else { return Ok(true) };
        self.persist(cursor, &applied, tip, is_stopped)?;
        Ok(false)
    }

    /// Writes files of as many blocks as the limits allow, then moves the watermark.
    fn persist(
        &mut self,
        from: Cursor,
        applied: &[LoggedBlock],
        tip: Height,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), PersisterError> {
        let mut parent = from;
        let (mut files, mut bytes) = (Vec::new(), 0);
        for block in applied.iter().take(self.settings.batch_blocks_max) {
            if is_stopped() || (bytes >= self.settings.batch_bytes_max && !files.is_empty()) {
                break;
            }
            let (raw_bytes, encoded) = self.encode(block, parent, tip, is_stopped)?;
            bytes += raw_bytes;
            files.push(encoded);
            parent = block.cursor();
        }
        if files.is_empty() {
            return Ok(());
        }
        let blocks = files.len();
        #[cfg(test)]
        if self.mistake == Some(Mistake::WatermarkBeforeFiles) {
            self.stand_at(parent)?;
        }
        self.check_place(from)?;
        crash_point("persister_before_files");
        let (written, ended) = self.place.put_blocks(files, self.settings.parallel_files);
        meter::wrote(written);
        ended?;
        crash_point("persister_after_files");
        self.stand_at(parent)?;
        meter::persisted(blocks, bytes);
        meter::stands(parent.height(), Some(tip));
        self.delete_old(parent)
    }

    /// The files of a block, and its length as it is on chain.
    fn encode(
        &mut self,
        block: &LoggedBlock,
        parent: Cursor,
        tip: Height,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(usize, PersistedFiles), PersisterError> {
        let height = block.height;
        let decoder = self.index.settings().decoder.clone();
        let network = decoder.network();
        // A node is asked for what lies behind the parent, by its slot.
        let parent = match parent.block() {
            Some((below, hash)) => {
                let logged = self.index.view()?.log().block(below)?;
                logged.filter(|logged| logged.entry.hash == hash).map(|logged| logged.point())
            }
            None => None,
        };
        let wanted = WantedBlock { point: block.point(), parent, tip };
        let raw = match self.bodies.raw(&wanted, is_stopped)? {
            Some(raw) => raw,
            None => first_block(&decoder, block).ok_or_else(|| PersisterError::MissingBody {
                height,
                looked_in: self.bodies.places(),
            })?,
        };
        let undecodable = |source| PersisterError::Undecodable { height, source };
        let cut = cut_block(&raw, network).map_err(undecodable)?;
        let len = raw.len();
        let block_read = decoder.decode(raw.clone()).map_err(undecodable)?;
        let place = BlockPlace { network, height, parent: block.entry.prev };
        let files = encode_files(&raw, &cut, &block_read, place, self.settings.subtree_txs_log2)?;
        Ok((len, files))
    }

    /// Blocks left the chain, or the log does not know them any more.
    fn go_back(&mut self, to: Cursor, blocks: usize) -> Result<(), PersisterError> {
        crash_point("persister_before_undo");
        self.check_place(self.cursor.unwrap_or(to))?;
        self.stand_at(to)?;
        meter::undone(blocks);
        Ok(())
    }

    /// Refuses a place that has lost its watermark while this ran: it is another one, such as the
    /// directory below a disk that is not mounted any more.
    fn check_place(&self, stands: Cursor) -> Result<(), PersisterError> {
        if self.place.watermark()?.is_some() {
            return Ok(());
        }
        let height = stands.height().unwrap_or(Height::GENESIS);
        Err(PersisterError::Lost { place: self.place.name(), height })
    }

    /// Moves the watermark in the place, then the cursor in the database.
    fn stand_at(&mut self, cursor: Cursor) -> Result<(), PersisterError> {
        #[cfg(test)]
        if self.mistake == Some(Mistake::CursorBeforeWatermark) {
            self.index.register_consumer(NAME, ConsumerNeeds::Blocks, cursor)?;
        }
        let (written, ended) = self.place.put_watermark(cursor.block());
        meter::wrote(written);
        ended?;
        crash_point("persister_after_watermark");
        // One that was detached is attached again by this.
        self.index.register_consumer(NAME, ConsumerNeeds::Blocks, cursor)?;
        crash_point("persister_after_cursor");
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Where it left off, as database and place say.
    fn resume(&mut self) -> Result<Cursor, PersisterError> {
        let known = self.index.consumers()?;
        let own = known.into_iter().find(|consumer| consumer.name == NAME);
        let own = own.map_or(Cursor::START, |own| own.cursor);
        let found = self.place.watermark()?;
        let cursor = match (found.map(|mark| Cursor::from(mark.block)), own.height()) {
            (None, None) => Cursor::START,
            (None, Some(height)) => {
                return Err(PersisterError::Lost { place: self.place.name(), height });
            }
            (Some(mark), None) => mark,
            (Some(mark), Some(_)) => {
                let (of_mark, of_own) = (self.shared(mark)?, self.shared(own)?);
                // A place that was restored from an older copy, or a crash while going back.
                if of_mark.height() < of_own.height() { mark } else { own }
            }
        };
        // From here on the place is this chain's.
        if found.is_none() || cursor != own {
            self.stand_at(cursor)?;
        }
        self.cursor = Some(cursor);
        Ok(cursor)
    }

    /// The newest block of the chain that the branch of a cursor shares.
    fn shared(&self, cursor: Cursor) -> Result<Cursor, PersisterError> {
        let forked = self.index.view()?.log().fork(cursor);
        match forked {
            Err(LogError::UnknownCursor { height, .. }) => self.back_to_chain(cursor, height),
            fork => Ok(fork?),
        }
    }

    /// Finds the fork by way of the files, each of which names its parent.
    fn back_to_chain(&self, from: Cursor, height: Height) -> Result<Cursor, PersisterError> {
        let none = || PersisterError::NoCommonBlock { place: self.place.name(), height };
        let view = self.index.view()?;
        let mut at = from;
        for _ in 0..FILES_BACK_MAX {
            let Some((height, hash)) = at.block() else { return Ok(Cursor::START) };
            let logged = view.log().block(height)?;
            if logged.is_some_and(|block| block.entry.hash == hash) {
                return Ok(at);
            }
            let block = self.place.block(height, hash)?.ok_or_else(none)?;
            let below = height.parent().map(|below| (below, block.header.prev));
            at = below.into();
        }
        Err(none())
    }

    /// Deletes files of blocks that are older than the settings say.
    fn delete_old(&mut self, at: Cursor) -> Result<(), PersisterError> {
        let (Some(keep), Some(height)) = (self.settings.retention_blocks, at.height()) else {
            return Ok(());
        };
        let first = height.minus(keep);
        // Folders are of a thousand blocks: a look at each of them is enough.
        if self.deleted_below.is_some_and(|below| first.get() / 1_000 == below.get() / 1_000) {
            return Ok(());
        }
        meter::deleted(self.place.delete_below(first)?);
        crash_point("persister_after_deletion");
        self.deleted_below = Some(first);
        Ok(())
    }
}

/// The first block of a Bitcoin chain, which every program knows.
fn first_block(decoder: &BlockDecoder, block: &LoggedBlock) -> Option<Vec<u8>> {
    decoder.first_block().filter(|_| block.height == Height::GENESIS)
}

impl<K: Kv + 'static> Persister<K> {
    /// Follows on a thread of its own, until that is dropped.
    pub fn in_background(self, state: FollowerState) -> io::Result<ConsumerThread> {
        meter::describe();
        let signal = self.index.tip_signal().clone();
        // Known before anything that waits for named consumers starts.
        if let Err(error) = self.register() {
            tracing::warn!(%error, "the persister could not register with the chain log yet");
        }
        ConsumerThread::start(self, &signal, LOOK_AFTER, state)
    }
}

impl<K: Kv + 'static> LogConsumer for Persister<K> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
        match Self::step(self, is_stopped) {
            Ok(is_done) => Ok(Stepped { is_done, hindrance: None }),
            Err(error) => {
                // What is written, and where, is looked at again.
                self.cursor = None;
                Err(error.into())
            }
        }
    }
}
