//! Moving a store from one engine to another, and comparing two.
//!
//! Passes go over both stores by ascending id. The first copies; each later one compares every
//! transaction and every value, and copies what differs, because others wrote to the source meanwhile.
//! A move is done after a pass that found no difference.
//!
//! # Invariants
//!
//! * The target bears a mark from before the first copy until it is done. A store with the mark is
//!   opened by this move only, so that nobody takes half a store for a whole one.
//! * The source changes in one way only, and only if it was asked for: it is retired. From then on it
//!   takes no writes and is not opened any more, and the passes end.
//! * A move that died goes on where it was; what it copied before is compared like everything else.

mod image;
mod walk;

use std::time::Duration;

use utxokeep_core::{Corrupt, ErrorKind, Txid, hex_encode};
use utxokeep_fault::crash_point;

use self::walk::{OF_ENGINE, copy_txs, differing, next_states, next_txs, write_states};
use crate::{
    agreed::MOVED_AWAY, backend::StoreReads, blob_place::BLOB_STORE, engine::NodeStore,
    error::StoreError,
};

/// In a target: whose copy it becomes, and how far the first pass is.
const MOVE: &str = "move";
/// In a source that is retired: where to.
const MOVED_TO: &str = "moved_to";

/// Values that belong to moves, and are not moved.
const MARKS: [&str; 3] = [MOVE, MOVED_TO, MOVED_AWAY];

/// Values of a store that are compared at once.
const STATES_AT_ONCE: usize = 500;

/// Calls that are ended in a source before its last pass.
const ENDED_MAX: usize = 10_000;

/// Differences after which a comparison goes on counting only.
const SHOWN_MAX: usize = 100;

/// How a store is moved.
#[derive(Debug, Clone)]
pub struct MoveOptions {
    /// Where the source is, without secrets: by it a target knows its source again.
    pub from: String,
    /// Where the target is, without secrets: a retired source names it.
    pub to: String,
    /// Whether the source is retired before the last pass.
    pub retires_source: bool,
    /// Transactions that are copied at once.
    pub batch: usize,
    /// Passes after which a source that still changes is given up.
    pub passes_max: u32,
    /// How long writes that a program began before the source was retired are waited for.
    pub quiet_ms: u64,
}

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveProgress {
    /// Number of the pass, counted from 1: the first copies.
    pub pass: u32,
    /// Whether the source was retired.
    pub is_retired: bool,
    /// Transactions that this pass has looked at.
    pub transactions: u64,
    /// Those of them, and values of the store, that it had to write.
    pub changed: u64,
    /// Where it is, in 65,536ths of all ids.
    pub at: u16,
}

/// What a move did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveReport {
    /// Transactions that the last pass compared and found to be the same.
    pub transactions: u64,
    /// Passes, the first and the last included.
    pub passes: u32,
}

/// Why a store was not moved. The source was not changed, unless it was to be retired; a target that
/// was begun keeps its mark, and the same command goes on with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target is a store already.
    #[error("the target is not empty; nothing was changed: name a new place")]
    NotEmpty,
    /// The target belongs to another move.
    #[error("the target is a half-moved copy of {from}; nothing was changed: name a new place")]
    OtherMove {
        /// The source of that move.
        from: String,
    },
    /// The source is half a store.
    #[error("the source is itself a half-moved copy of {from}; finish that move first")]
    HalfMovedSource {
        /// Where it comes from.
        from: String,
    },
    /// The source was moved elsewhere.
    #[error("the source was moved to {to} already; nothing was changed: use that store")]
    MovedAway {
        /// Where it is.
        to: String,
    },
    /// The move was done before.
    #[error("the source was moved to this target already; nothing was changed: use the target")]
    AlreadyMoved,
    /// Part of a transaction is not there yet.
    #[error(
        "transaction {0} is being created, and some of its outputs are not there yet; wait, or create \
         it once more, and repeat the command"
    )]
    Creating(Txid),
    /// Two stores would delete files of one blob store.
    #[error(
        "the source has bodies in a blob store, which goes over to the target; that needs \
         --retire-source, since two stores must not share one. Nothing was changed"
    )]
    BodiesInFiles,
    /// A body is in a file whose place is not known.
    #[error(
        "the body of {0} is in a file, and the source does not know its blob store; open it once with \
         [txstore] blobs set"
    )]
    NoBlobPlace(Txid),
    /// Others write to the source.
    #[error(
        "the source changed during each of {passes} passes; stop the programs that write to it and \
         repeat the command, or retire it with --retire-source"
    )]
    SourceChanges {
        /// Passes that were made.
        passes: u32,
    },
    /// Whoever watches the progress said so.
    #[error("the move was stopped; the same command goes on with it")]
    Stopped,
}

impl MoveError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Stopped => ErrorKind::Cancelled,
            _ => ErrorKind::Refused,
        }
    }
}

/// The mark of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    from: String,
    /// The last transaction of the first pass that was copied; `None` at its start.
    after: Option<Txid>,
    /// Whether the first pass is over.
    is_copied: bool,
}

impl Mark {
    /// Version, stage, last id (32 bytes), then the source.
    fn encode(&self) -> Vec<u8> {
        let stage = u8::from(self.after.is_some()) | u8::from(self.is_copied) << 1;
        let after = self.after.unwrap_or_default();
        [&[1, stage], after.as_bytes().as_slice(), self.from.as_bytes()].concat()
    }

    fn read(view: &StoreReads<'_>) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = view.state(MOVE)? else { return Ok(None) };
        let damaged = || Corrupt::new("mark of a move", "not as written");
        let (&[1, stage @ 0..=3], rest) = bytes.split_first_chunk::<2>().ok_or_else(damaged)?
        else {
            return Err(damaged().into());
        };
        let (after, from) = rest.split_at_checked(32).ok_or_else(damaged)?;
        let after = Txid::from_slice(after).filter(|_| stage & 1 == 1);
        let from = String::from_utf8(from.to_vec()).map_err(|_| damaged())?;
        Ok(Some(Self { from, after, is_copied: stage & 2 == 2 }))
    }

    fn write(&self, target: &NodeStore) -> Result<(), StoreError> {
        write_states(target, &[(MOVE.to_owned(), Some(self.encode()))])
    }
}

/// What a store says about moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is half a copy of another.
    HalfFrom(String),
    /// It was moved elsewhere.
    To(String),
}

/// Whether a store is half a store, or not to be used any more.
pub(crate) fn moved(view: &StoreReads<'_>) -> Result<Option<Moved>, StoreError> {
    if let Some(mark) = Mark::read(view)? {
        return Ok(Some(Moved::HalfFrom(mark.from)));
    }
    if view.state(MOVED_AWAY)?.is_none() {
        return Ok(None);
    }
    let to = view.state(MOVED_TO)?.unwrap_or_default();
    Ok(Some(Moved::To(String::from_utf8_lossy(&to).into_owned())))
}

/// Tells how far a move is; `false` stops it.
pub type WatchMove<'w> = dyn FnMut(&MoveProgress) -> bool + 'w;

/// One move under way.
struct Move<'m> {
    source: &'m NodeStore,
    target: &'m NodeStore,
    options: &'m MoveOptions,
    watch: &'m mut WatchMove<'m>,
    pass: u32,
    is_retired: bool,
}

/// Moves a store. Both were opened with [`crate::Agreement::Moving`].
pub fn move_store<'m>(
    source: &'m NodeStore,
    target: &'m NodeStore,
    options: &'m MoveOptions,
    watch: &'m mut WatchMove<'m>,
) -> Result<MoveReport, MoveError> {
    let mut moving = Move { source, target, options, watch, pass: 0, is_retired: false };
    moving.run()
}

/// Takes the retirement of a source back, whose move did not end; answers whether it was retired. The
/// target stays half a store.
pub fn abandon_move(
    source: &NodeStore,
    target: &NodeStore,
    options: &MoveOptions,
) -> Result<bool, MoveError> {
    let mark = target.read(|facts| Mark::read(facts.view))?;
    if mark.is_none_or(|mark| mark.from != options.from) {
        // It may be whole, and in use.
        return Err(MoveError::NotEmpty);
    }
    let was_retired = source.read(|facts| Ok(facts.view.state(MOVED_AWAY)?.is_some()))?;
    let names = [MOVED_AWAY, MOVED_TO].map(|name| (name.to_owned(), None));
    write_states(source, &names)?;
    Ok(was_retired)
}

impl Move<'_> {
    fn run(&mut self) -> Result<MoveReport, MoveError> {
        self.check_source()?;
        let mut mark = self.claim_target()?;
        if !mark.is_copied {
            self.copy(&mut mark)?;
        }
        if self.options.retires_source && !self.is_retired {
            // So that little is left to do while nobody may write.
            self.compare()?;
            self.retire()?;
        }
        loop {
            let (transactions, changed) = self.compare()?;
            if changed == 0 {
                write_states(self.target, &[(MOVE.to_owned(), None)])?;
                crash_point("move_done");
                return Ok(MoveReport { transactions, passes: self.pass });
            }
            if self.pass >= self.options.passes_max {
                return Err(MoveError::SourceChanges { passes: self.pass });
            }
        }
    }

    fn check_source(&mut self) -> Result<(), MoveError> {
        match self.source.read(|facts| moved(facts.view))? {
            Some(Moved::HalfFrom(from)) => return Err(MoveError::HalfMovedSource { from }),
            Some(Moved::To(to)) if to != self.options.to => {
                return Err(MoveError::MovedAway { to });
            }
            Some(Moved::To(_)) => self.is_retired = true,
            None => {}
        }
        let has_files = self.source.read(|facts| Ok(facts.view.state(BLOB_STORE)?.is_some()))?;
        if has_files && !self.options.retires_source && !self.is_retired {
            return Err(MoveError::BodiesInFiles);
        }
        Ok(())
    }

    /// Puts the mark on a target that is empty, or finds that of this move.
    fn claim_target(&self) -> Result<Mark, MoveError> {
        let from = self.options.from.clone();
        if let Some(mark) = self.target.read(|facts| Mark::read(facts.view))? {
            if mark.from != from {
                return Err(MoveError::OtherMove { from: mark.from });
            }
            return Ok(mark);
        }
        let is_empty = self.target.read(|facts| {
            let states = facts.view.states("", None, STATES_AT_ONCE)?;
            // Numbers that come with opening it, or belong to its engine.
            let is_new = |name: &str| name.starts_with("agreed/") || OF_ENGINE.contains(&name);
            let is_new = states.iter().all(|(name, _)| is_new(name));
            let is_moved = states.iter().any(|(name, _)| name == MOVED_AWAY);
            Ok(is_new && !is_moved && facts.view.txids_after(None, 1)?.is_empty())
        })?;
        if !is_empty {
            return Err(if self.is_retired {
                MoveError::AlreadyMoved
            } else {
                MoveError::NotEmpty
            });
        }
        let mark = Mark { from, after: None, is_copied: false };
        mark.write(self.target)?;
        crash_point("move_marked");
        Ok(mark)
    }

    /// The first pass.
    fn copy(&mut self, mark: &mut Mark) -> Result<(), MoveError> {
        self.pass += 1;
        let (mut transactions, mut changed) = (0, 0);
        loop {
            let (batch, after) = (self.options.batch, mark.after);
            let page = next_txs(self.source, self.target, after.as_ref(), batch, false)?;
            self.check_page(&page)?;
            changed += copy_txs(self.target, &page)?;
            transactions += page.txids.len() as u64;
            mark.after = page.txids.last().copied().or(mark.after);
            mark.is_copied = page.is_last;
            mark.write(self.target)?;
            crash_point("move_saved");
            self.tell(transactions, changed, mark.after.as_ref())?;
            if page.is_last {
                return Ok(());
            }
        }
    }

    /// A later pass: answers transactions, and what was written.
    fn compare(&mut self) -> Result<(u64, u64), MoveError> {
        self.pass += 1;
        let (mut transactions, mut changed) = (0, 0);
        let mut after = None;
        loop {
            let batch = self.options.batch;
            let page = next_txs(self.source, self.target, after.as_ref(), batch, true)?;
            self.check_page(&page)?;
            if !differing(self.target, &page)?.is_empty() {
                changed += copy_txs(self.target, &page)?;
            }
            transactions += page.source.iter().flatten().count() as u64;
            after = page.txids.last().copied().or(after);
            self.tell(transactions, changed, after.as_ref())?;
            if page.is_last {
                break;
            }
        }
        let mut after: Option<String> = None;
        loop {
            let (states, last) =
                next_states(self.source, self.target, after.as_deref(), STATES_AT_ONCE)?;
            write_states(self.target, &states)?;
            crash_point("move_states");
            changed += states.len() as u64;
            self.tell(transactions, changed, None)?;
            match last {
                Some(last) => after = Some(last),
                None => return Ok((transactions, changed)),
            }
        }
    }

    fn check_page(&self, page: &walk::TxPage) -> Result<(), MoveError> {
        for (txid, image) in page.txids.iter().zip(&page.source) {
            let Some(image) = image else { continue };
            if image.record.is_creating {
                return Err(MoveError::Creating(*txid));
            }
            if image.record.blob.is_some() {
                let has_place =
                    self.source.read(|facts| Ok(facts.view.state(BLOB_STORE)?.is_some()))?;
                if !has_place {
                    return Err(MoveError::NoBlobPlace(*txid));
                }
                if !self.options.retires_source && !self.is_retired {
                    return Err(MoveError::BodiesInFiles);
                }
            }
        }
        Ok(())
    }

    /// From now on the source takes no writes.
    fn retire(&mut self) -> Result<(), MoveError> {
        let to = self.options.to.clone().into_bytes();
        let states = [
            (MOVED_TO.to_owned(), Some(to)),
            (MOVED_AWAY.to_owned(), Some(1_u32.to_be_bytes().to_vec())),
        ];
        // On a cluster programs go by a stamp that they wrote earlier: it has to be gone first.
        self.source.change_compared(|| write_states(self.source, &states))?;
        crash_point("move_retired");
        self.is_retired = true;
        if self.source.backend.is_shared() {
            // A program that asked before may still commit.
            std::thread::sleep(Duration::from_millis(self.options.quiet_ms));
        }
        self.source.backend.end_unfinished(ENDED_MAX)?;
        Ok(())
    }

    fn tell(
        &mut self,
        transactions: u64,
        changed: u64,
        at: Option<&Txid>,
    ) -> Result<(), MoveError> {
        let at = at.map_or(u16::MAX, |txid| {
            let bytes = txid.as_bytes();
            u16::from_be_bytes([bytes[0], bytes[1]])
        });
        let (pass, is_retired) = (self.pass, self.is_retired);
        let progress = MoveProgress { pass, is_retired, transactions, changed, at };
        if (self.watch)(&progress) { Ok(()) } else { Err(MoveError::Stopped) }
    }
}

/// Something that two stores do not have alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreDifference {
    /// A transaction by its id, or a value of the store by its name.
    pub what: String,
    /// In what they differ.
    pub difference: &'static str,
}

/// What a comparison of two stores found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreComparison {
    /// Transactions that were compared, those that one store lacks included.
    pub transactions: u64,
    /// How many transactions and values differ.
    pub differing: u64,
    /// The first of them.
    pub differences: Vec<StoreDifference>,
}

impl StoreComparison {
    fn add(&mut self, what: String, difference: &'static str) {
        self.differing += 1;
        if self.differences.len() < SHOWN_MAX {
            self.differences.push(StoreDifference { what, difference });
        }
    }
}

/// Compares two stores; nothing is written. Values that only engines or moves have are left out.
pub fn compare_stores(
    one: &NodeStore,
    other: &NodeStore,
    batch: usize,
    watch: &mut dyn FnMut(u64),
) -> Result<StoreComparison, StoreError> {
    let mut found = StoreComparison::default();
    let mut after = None;
    loop {
        let page = next_txs(one, other, after.as_ref(), batch, true)?;
        for (txid, difference) in differing(other, &page)? {
            found.add(hex_encode(txid.as_bytes()), difference);
        }
        found.transactions += page.txids.len() as u64;
        watch(found.transactions);
        after = page.txids.last().copied().or(after);
        if page.is_last {
            break;
        }
    }
    let mut after: Option<String> = None;
    loop {
        let (states, last) = next_states(one, other, after.as_deref(), STATES_AT_ONCE)?;
        for (name, value) in states {
            found.add(name, if value.is_some() { "value" } else { "not expected" });
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_target_is_pinned() {
        let mark = Mark { from: "a".to_owned(), after: None, is_copied: false };
        assert_eq!(mark.encode(), [&[1, 0][..], &[0; 32], b"a"].concat());
        let after = Some(Txid::from_bytes([7; 32]));
        let mark = Mark { after, is_copied: true, ..mark };
        assert_eq!(mark.encode(), [&[1, 3][..], &[7; 32], b"a"].concat());
    }
}
