//! Moving a store from one engine to another, and comparing two.
//!
//! Passes go over both stores by ascending id. The first copies; each later one compares every
//! transaction and every value, and copies what differs, because others wrote to the source meanwhile.
//! A move that retires its source has the source list its changes from before the first pass on. After
//! a pass that found no difference but what is listed, the list is followed until little is left; then
//! the source is retired, and the rest of the list is the last step. Without a list the move is done
//! after a pass that found no difference.
//!
//! # Invariants
//!
//! * The target bears a mark from before the first copy until it is done. A store with the mark is
//!   opened by this move only, so that nobody takes half a store for a whole one.
//! * The source changes only if it was asked for: it gets a list of changes, and is retired. From then
//!   on it takes no writes and is not opened any more, and the passes end.
//! * What is taken off the list is in the target first, by name: a move that dies then copies it again.
//! * A move that died goes on where it was; what it copied before is compared like everything else.
//! * Marks of the source are changed by the move that they name only, in the commit that compares them.

mod compare;
mod follow;
mod image;
mod mark;
mod owner;
mod walk;

use std::time::{Duration, Instant};

use utxokeep_core::{ErrorKind, Txid};
use utxokeep_fault::crash_point;

pub use self::{
    compare::{StoreComparison, StoreDifference, compare_stores},
    owner::abandon_move,
};
use self::{
    image::TxImage,
    mark::{MOVE, Mark, PENDING},
    owner::{SourceMarks, write_owned},
    walk::{OF_ENGINE, TxPage, copy_txs, differing, next_states, next_txs, write_states},
};
use crate::{
    admit::{CHANGED, Listed},
    agreed::{CHANGES_LISTED, MOVED_AWAY, MOVED_TO, is_moved_away},
    backend::StoreReads,
    blob_place::BLOB_STORE,
    engine::NodeStore,
    error::StoreError,
};

/// Values that belong to moves, and are not moved.
const MARKS: [&str; 5] = [MOVE, PENDING, MOVED_TO, MOVED_AWAY, CHANGES_LISTED];

/// Whether a value belongs to what is moved.
pub(crate) fn is_moved(name: &str) -> bool {
    !OF_ENGINE.contains(&name) && !MARKS.contains(&name) && !name.starts_with(CHANGED)
}

/// Values of a store that are compared at once.
const STATES_AT_ONCE: usize = 500;

/// Calls that are ended in a source before its last pass.
const ENDED_MAX: usize = 10_000;

/// Changes on the list that are few enough for the last step.
const LITTLE: u64 = 500;

/// How often the list is followed before the source is retired, however long it is by then.
const ROUNDS_MAX: u32 = 20;

/// Pages of the list that are followed in one such round.
const PAGES_MAX: u32 = 1_000;

/// How long a move waits before it looks again at a transaction that is being created.
const CREATING_POLL_MS: u64 = 200;

/// How a store is moved.
#[derive(Debug, Clone)]
pub struct MoveOptions {
    /// Where the source is, without secrets: by it a target knows its source again.
    pub from: String,
    /// Where the target is, without secrets: a retired source names it.
    pub to: String,
    /// Whether the source lists its changes and is retired before the last of them is copied.
    pub retires_source: bool,
    /// Transactions that are copied at once.
    pub batch: usize,
    /// Passes after which a source that still changes is given up.
    pub passes_max: u32,
    /// How long writes that a program began before the source was retired are waited for.
    pub quiet_ms: u64,
    /// How long the creation of a large transaction is waited for, wherever the move meets one.
    pub creating_wait_ms: u64,
}

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveProgress {
    /// Number of the pass, counted from 1: the first copies.
    pub pass: u32,
    /// Whether the passes are over, and the list of changes is followed.
    pub is_following: bool,
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
    /// Transactions that the last pass compared. What differed is on the list of changes, and was
    /// copied since.
    pub transactions: u64,
    /// Passes of this run, the first and the last included.
    pub passes: u32,
    /// Transactions and values that were copied because they were on the list of changes.
    pub followed: u64,
    /// For how long the source took no writes before the move was done; `None` where it was not retired
    /// by this run.
    pub last_step_ms: Option<u64>,
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
    /// Part of a transaction is not there yet, and was waited for in vain.
    #[error(
        "transaction {txid} has been in creation for {waited_ms} ms, and some of its outputs are not \
         there yet; create it once more if its creator died, and repeat the command"
    )]
    Creating {
        /// The transaction.
        txid: Txid,
        /// For how long the move has waited.
        waited_ms: u64,
    },
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
    /// The list of changes of the source belongs to another move.
    #[error(
        "the source is being moved to {to}; nothing was changed: finish that move, or give it up with \
         --abandon"
    )]
    OtherTarget {
        /// The target of that move.
        to: String,
    },
    /// The source was asked to list its changes and to be retired by this move, and now it was not.
    #[error(
        "the source lists its changes for this move, or is retired by it, and --retire-source is \
         missing; nothing was changed: repeat the command with --retire-source, or give the move up \
         with --abandon"
    )]
    RetirementBegun,
    /// Somebody gave the move up while it went on.
    #[error(
        "the move was given up while it went on (store move --abandon): the source no longer lists \
         its changes for it, and the target is half a copy; repeat the command, or remove the target"
    )]
    GivenUp,
    /// The target does not keep what was written.
    #[error("the target has {what} otherwise than it was copied; the source is as it was")]
    NotKept {
        /// A transaction, or a value of the store.
        what: String,
    },
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
    Ok(is_moved_away(view)?.map(Moved::To))
}

/// What a pass over everything found.
#[derive(Debug, Clone, Copy, Default)]
struct Pass {
    transactions: u64,
    /// Transactions and values that it wrote.
    changed: u64,
    /// Those that differed and are not on the list of the source.
    unlisted: u64,
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
    is_following: bool,
    is_retired: bool,
    followed: u64,
    /// What was told last: transactions, changes, and where.
    told: (u64, u64, Option<Txid>),
}

/// Moves a store. Both were opened with [`crate::Agreement::Moving`].
pub fn move_store<'m>(
    source: &'m NodeStore,
    target: &'m NodeStore,
    options: &'m MoveOptions,
    watch: &'m mut WatchMove<'m>,
) -> Result<MoveReport, MoveError> {
    let (pass, followed, is_following, is_retired) = (0, 0, false, false);
    let told = (0, 0, None);
    let mut moving =
        Move { source, target, options, watch, pass, is_following, is_retired, followed, told };
    moving.run()
}

impl Move<'_> {
    fn run(&mut self) -> Result<MoveReport, MoveError> {
        self.check_source()?;
        let mut mark = self.claim_target()?;
        if self.options.retires_source && !self.is_retired {
            self.begin_list(&mut mark)?;
        }
        if !mark.is_copied {
            self.copy(&mut mark)?;
        }
        // A copy leaves the list of another move alone. Before there were lists a source was retired
        // without one: nobody writes to it.
        let is_listed =
            self.source.read(|facts| SourceMarks::read(facts.view))?.listed_to.is_some();
        if self.options.retires_source && is_listed {
            return self.end_by_list(mark);
        }
        loop {
            let Pass { transactions, changed, .. } = self.compare()?;
            if changed == 0 {
                self.end()?;
                return Ok(self.report(transactions, None));
            }
            self.check_passes()?;
        }
    }

    /// All that is left is on the list of the source, once a pass has found nothing else.
    fn end_by_list(&mut self, mut mark: Mark) -> Result<MoveReport, MoveError> {
        let transactions = loop {
            if let Some(transactions) = mark.compared {
                break transactions;
            }
            self.follow(u32::MAX)?;
            let Pass { transactions, unlisted, .. } = self.compare()?;
            if unlisted > 0 {
                self.check_passes()?;
                continue;
            }
            mark.compared = Some(transactions);
            mark.write(self.target)?;
            crash_point("move_compared");
        };
        self.is_following = true;
        let mut last_step = None;
        if !self.is_retired {
            // So that little is left to do while nobody may write.
            for _ in 0..ROUNDS_MAX {
                if self.follow(PAGES_MAX)? <= LITTLE {
                    break;
                }
            }
            last_step = Some(Instant::now());
            self.retire()?;
        }
        while self.follow(u32::MAX)? > 0 {}
        self.check_owned()?;
        self.end()?;
        let ms = |begin: Instant| u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(self.report(transactions, last_step.map(ms)))
    }

    fn check_passes(&self) -> Result<(), MoveError> {
        if self.pass >= self.options.passes_max {
            return Err(MoveError::SourceChanges { passes: self.pass });
        }
        Ok(())
    }

    /// From now on the target is a store like any other.
    fn end(&self) -> Result<(), MoveError> {
        let marks = [MOVE, PENDING].map(|name| (name.to_owned(), None));
        write_states(self.target, &marks)?;
        crash_point("move_done");
        Ok(())
    }

    const fn report(&self, transactions: u64, last_step_ms: Option<u64>) -> MoveReport {
        MoveReport { transactions, passes: self.pass, followed: self.followed, last_step_ms }
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
            self.refuse_unasked()?;
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
        self.refuse_unasked()?;
        let mark = Mark { from, after: None, is_copied: false, compared: None };
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
            let (source, target) = (self.source, self.target);
            let page = self.settled(|| next_txs(source, target, after.as_ref(), batch, false))?;
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

    /// A later pass.
    fn compare(&mut self) -> Result<Pass, MoveError> {
        self.pass += 1;
        let mut pass = Pass::default();
        let mut after = None;
        loop {
            let (source, target, batch) = (self.source, self.target, self.options.batch);
            let page = self.settled(|| next_txs(source, target, after.as_ref(), batch, true))?;
            let differing = differing(self.target, &page)?;
            if !differing.is_empty() {
                let listed = differing.into_iter().map(|(txid, _)| Listed::Tx(txid));
                pass.unlisted += self.count_unlisted(listed)?;
                pass.changed += copy_txs(self.target, &page)?;
            }
            pass.transactions += page.source.iter().flatten().count() as u64;
            after = page.txids.last().copied().or(after);
            self.tell(pass.transactions, pass.changed, after.as_ref())?;
            if page.is_last {
                break;
            }
        }
        let mut after: Option<String> = None;
        loop {
            let (states, last) =
                next_states(self.source, self.target, after.as_deref(), STATES_AT_ONCE)?;
            let listed = states.iter().map(|(name, _)| Listed::State(name.clone()));
            pass.unlisted += self.count_unlisted(listed)?;
            write_states(self.target, &states)?;
            crash_point("move_states");
            pass.changed += states.len() as u64;
            self.tell(pass.transactions, pass.changed, None)?;
            match last {
                Some(last) => after = Some(last),
                None => return Ok(pass),
            }
        }
    }

    /// How many of what differs the list of the source does not name. Whoever changed it before it was
    /// read has listed it by now.
    fn count_unlisted(&self, found: impl Iterator<Item = Listed>) -> Result<u64, StoreError> {
        let rows: Vec<String> = found.map(|listed| listed.row()).collect();
        self.source.read(|facts| {
            let mut unlisted = 0;
            for row in &rows {
                unlisted += u64::from(facts.view.state(row)?.is_none());
            }
            Ok(unlisted)
        })
    }

    /// Reads a page; again and again while a transaction on it is being created, for as long as that is
    /// waited for.
    fn settled(
        &mut self,
        read: impl Fn() -> Result<TxPage, StoreError>,
    ) -> Result<TxPage, MoveError> {
        let mut waited_ms = 0;
        loop {
            let page = read()?;
            let mut pairs = page.txids.iter().zip(&page.source);
            let is_creating = |image: &TxImage| image.record.is_creating;
            let creating = pairs.find(|(_, image)| image.as_ref().is_some_and(is_creating));
            let Some((txid, _)) = creating else {
                self.check_page(&page)?;
                return Ok(page);
            };
            if waited_ms >= self.options.creating_wait_ms {
                return Err(MoveError::Creating { txid: *txid, waited_ms });
            }
            let (transactions, changed, at) = self.told;
            self.tell(transactions, changed, at.as_ref())?;
            let pause_ms = CREATING_POLL_MS.min(self.options.creating_wait_ms - waited_ms);
            std::thread::sleep(Duration::from_millis(pause_ms));
            waited_ms += pause_ms;
        }
    }

    fn check_page(&self, page: &TxPage) -> Result<(), MoveError> {
        for (txid, image) in page.txids.iter().zip(&page.source) {
            let Some(image) = image else { continue };
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
        self.check_compared()?;
        let is_ours = |marks: &SourceMarks| marks.is_listed_for(&self.options.to);
        self.source
            .change_compared(|| write_owned(self.source, is_ours, &states))?
            .map_err(|_| MoveError::GivenUp)?;
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
        self.told = (transactions, changed, at.copied());
        let at = at.map_or(u16::MAX, |txid| {
            let bytes = txid.as_bytes();
            u16::from_be_bytes([bytes[0], bytes[1]])
        });
        let Self { pass, is_following, is_retired, .. } = *self;
        let progress = MoveProgress { pass, is_following, is_retired, transactions, changed, at };
        if (self.watch)(&progress) { Ok(()) } else { Err(MoveError::Stopped) }
    }
}
