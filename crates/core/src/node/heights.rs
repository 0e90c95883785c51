//! Where the chain is, as far as a store believes it: reports come in, verdicts come out.
//!
//! A height decides what is deleted, so one report alone never moves it far. A report that jumps is
//! held until a second witness agrees; everything else that a node says (persister, marks, block
//! assembly) is remembered beside it, so that a restart forgets nothing.
//!
//! # Invariants
//!
//! * The newest height rises by more than the limit only when two reports agree.
//! * What is persisted or complete never lies above the newest height.
//! * Once a persister has reported, nothing above its height is safe, until an operator says that
//!   there is none any more.
//! * Nothing above the height of the slowest named consumer of the chain log is safe, whoever told
//!   of the height and whoever asks for a run.
//! * Marks, block assembly and catching up are of the moment. What was said of them before a service
//!   started is shown and opens nothing for that service, until the node says it again.

mod codec;
mod consumer;
mod states;

use std::fmt;

pub use self::{
    consumer::{ConsumerBound, ConsumerName},
    states::{BlockState, TakenReports},
};
use crate::types::Height;

/// Where a report about the newest block comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Witness {
    /// A node announced a block.
    Block,
    /// A node set the block state of the store.
    BlockState,
    /// A persister has written a block.
    Persister,
    /// The log of a chain database that is followed.
    Log,
    /// A person.
    Operator,
}

impl Witness {
    /// Every witness.
    pub const ALL: [Self; 5] =
        [Self::Block, Self::BlockState, Self::Persister, Self::Log, Self::Operator];

    /// Its name in answers and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::BlockState => "block_state",
            Self::Persister => "persister",
            Self::Log => "log",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A height of the chain, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// Height of the newest block.
    pub height: Height,
    /// Who says so.
    pub by: Witness,
}

/// What block assembly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assembly {
    /// It runs, and is not in the middle of a reorganisation or a reset.
    pub is_running: bool,
    /// Height it has reached.
    pub height: Height,
}

/// One thing that a store is told about its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainReport {
    /// The chain has a block of this height.
    Newest(Sighting),
    /// A persister has written everything up to here.
    Persisted(Height),
    /// Transactions of all blocks up to here are marked as mined.
    MinedSet(Height),
    /// Block assembly changed its state.
    Assembly(Assembly),
    /// The node catches up with the chain, or does not any more.
    CatchingUp(bool),
    /// The chain went back to this block.
    Reorganised(Height),
    /// A run of the pruner at this height is complete.
    Completed(Height),
    /// The consumer of a chain log that has come least far, the pruner apart; `None` where there is
    /// none any more.
    Consumers(Option<ConsumerBound>),
    /// An operator says that there is no persister any more.
    NoPersister,
    /// An operator says that the node reports no marks and no block assembly any more, and that no
    /// chain log is followed.
    NoNodeState,
    /// A service started over the store: what the node does now is not known.
    Restarted,
}

impl ChainReport {
    /// Whether it shows that the node is there.
    const fn is_of_the_node(self) -> bool {
        match self {
            Self::Newest(_)
            | Self::Persisted(_)
            | Self::MinedSet(_)
            | Self::Assembly(_)
            | Self::CatchingUp(_)
            | Self::Reorganised(_) => true,
            Self::Completed(_)
            | Self::Consumers(_)
            | Self::NoPersister
            | Self::NoNodeState
            | Self::Restarted => false,
        }
    }
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// It is remembered.
    Believed,
    /// Its height lies too far ahead for one witness. It counts when a second one agrees.
    Held {
        /// The height that was reported.
        height: Height,
        /// The newest height that is believed.
        newest: Option<Height>,
    },
}

/// How often a node reported what is of the moment. A service remembers it from its start: what was
/// not reported more often since was said to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said {
    mined_set: u64,
    assembly: u64,
    catching_up: u64,
}

/// What a store knows of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Heights {
    newest: Option<Sighting>,
    held: Option<Sighting>,
    has_persister: bool,
    persisted: Option<Height>,
    mined_set: Option<Height>,
    assembly: Option<Assembly>,
    is_catching_up: Option<bool>,
    completed: Option<Height>,
    consumer: Option<ConsumerBound>,
    heard_ms: Option<u64>,
    said: Said,
    /// What had been said when a service last started.
    started: Said,
}

impl Heights {
    /// What a store knows that has only ever been told its block state.
    #[must_use]
    pub fn of_block_state(height: Height) -> Self {
        let by = Witness::BlockState;
        Self { newest: Some(Sighting { height, by }), ..Self::default() }
    }

    /// Takes a report that came at a time. `jump_max` is how far one witness alone may move the
    /// newest height.
    pub fn take(&mut self, report: ChainReport, now_ms: Option<u64>, jump_max: u32) -> Taken {
        if report.is_of_the_node() {
            self.heard_ms = self.heard_ms.max(now_ms);
        }
        match report {
            ChainReport::Newest(sighting) => return self.see(sighting, jump_max),
            ChainReport::Persisted(height) => return self.persist(height, jump_max),
            ChainReport::MinedSet(height) => {
                self.mined_set = Some(height);
                self.said.mined_set = self.said.mined_set.saturating_add(1);
            }
            ChainReport::Assembly(assembly) => {
                self.assembly = Some(assembly);
                self.said.assembly = self.said.assembly.saturating_add(1);
            }
            ChainReport::CatchingUp(is_catching_up) => {
                self.is_catching_up = Some(is_catching_up);
                self.said.catching_up = self.said.catching_up.saturating_add(1);
            }
            ChainReport::Reorganised(fork) => self.go_back(fork),
            ChainReport::Completed(height) => {
                let newest = self.newest();
                self.completed = self.completed.max(newest.map(|newest| newest.min(height)));
            }
            ChainReport::Consumers(slowest) => self.consumer = slowest,
            ChainReport::NoPersister => {
                (self.has_persister, self.persisted) = (false, None);
                self.withdraw(Witness::Persister);
            }
            ChainReport::NoNodeState => {
                (self.mined_set, self.assembly, self.is_catching_up) = (None, None, None);
                self.consumer = None;
            }
            ChainReport::Restarted => self.started = self.said,
        }
        Taken::Believed
    }

    fn see(&mut self, seen: Sighting, jump_max: u32) -> Taken {
        let newest = self.newest();
        if let Some(known) = self.newest
            && seen.height <= known.height
        {
            // Going back is always safe; but who merely lags behind another must not pull it down.
            if seen.by == known.by || seen.by == Witness::Operator {
                self.newest = Some(seen);
                self.completed = self.completed.map(|completed| completed.min(seen.height));
            }
            self.withdraw(seen.by);
            return Taken::Believed;
        }
        let from = newest.unwrap_or(Height::GENESIS);
        let confirmed = self.held.filter(|held| agree(*held, seen, jump_max));
        if let Some(held) = confirmed {
            // The later report of one witness is the next block; of two, the lower is the safer.
            let height =
                if held.by == seen.by { seen.height } else { seen.height.min(held.height) };
            (self.newest, self.held) = (Some(Sighting { height, ..seen }), None);
            return Taken::Believed;
        }
        if seen.height.get() - from.get() <= jump_max {
            self.newest = Some(seen);
            self.withdraw(seen.by);
            return Taken::Believed;
        }
        self.held = Some(seen);
        Taken::Held { height: seen.height, newest }
    }

    /// A witness that reports a height near the newest has taken back what it said of a far one.
    fn withdraw(&mut self, by: Witness) {
        self.held = self.held.filter(|held| held.by != by);
    }

    fn persist(&mut self, height: Height, jump_max: u32) -> Taken {
        self.has_persister = true;
        // Nobody has written a block that the chain does not have.
        if self.newest() < Some(height) {
            let taken = self.see(Sighting { height, by: Witness::Persister }, jump_max);
            if self.newest() < Some(height) {
                return taken;
            }
        }
        self.withdraw(Witness::Persister);
        self.persisted = Some(height);
        Taken::Believed
    }

    fn go_back(&mut self, fork: Height) {
        let lower = |height: Height| height.min(fork);
        self.newest = self.newest.map(|s| Sighting { height: lower(s.height), ..s });
        self.persisted = self.persisted.map(lower);
        self.completed = self.completed.map(lower);
        self.mined_set = self.mined_set.map(lower);
        self.assembly = self.assembly.map(|a| Assembly { height: lower(a.height), ..a });
    }

    /// Height of the newest block that is believed.
    #[must_use]
    pub fn newest(&self) -> Option<Height> {
        self.newest.map(|sighting| sighting.height)
    }

    /// A height that one witness reported and no second one yet.
    #[must_use]
    pub const fn held(&self) -> Option<Sighting> {
        self.held
    }

    /// Whether a persister has ever reported.
    #[must_use]
    pub const fn has_persister(&self) -> bool {
        self.has_persister
    }

    /// Height that a persister has reached.
    #[must_use]
    pub const fn persisted(&self) -> Option<Height> {
        self.persisted
    }

    /// Height up to which transactions are marked as mined, as the node says.
    #[must_use]
    pub const fn mined_set(&self) -> Option<Height> {
        self.mined_set
    }

    /// Block assembly, as the node says.
    #[must_use]
    pub const fn assembly(&self) -> Option<Assembly> {
        self.assembly
    }

    /// Whether the node catches up, as it says.
    #[must_use]
    pub const fn is_catching_up(&self) -> Option<bool> {
        self.is_catching_up
    }

    /// Newest height at which a run is complete.
    #[must_use]
    pub const fn completed(&self) -> Option<Height> {
        self.completed
    }

    /// When the last report came, in milliseconds.
    #[must_use]
    pub const fn heard_ms(&self) -> Option<u64> {
        self.heard_ms
    }

    /// The consumer of the chain log that has come least far, if there is one.
    #[must_use]
    pub const fn consumer(&self) -> Option<ConsumerBound> {
        self.consumer
    }

    /// The newest height that may be pruned at: not above the newest block, nor above what is
    /// persisted where there is a persister, or where one is waited for, nor above what every
    /// consumer of the log has.
    #[must_use]
    pub fn safe(&self, needs_persister: bool) -> Option<Height> {
        let written = self.written(needs_persister)?;
        let safe = self.consumer.map_or(written, |slowest| slowest.height.min(written));
        // Height 0 is no height to prune at.
        Some(safe).filter(|safe| self.consumer.is_none() || *safe > Height::GENESIS)
    }

    /// The same, whatever consumers have.
    pub(super) fn written(&self, needs_persister: bool) -> Option<Height> {
        let newest = self.newest()?;
        if self.has_persister || needs_persister {
            return self.persisted.map(|persisted| persisted.min(newest));
        }
        Some(newest)
    }

    /// How often the node has reported what is of the moment.
    #[must_use]
    pub const fn said(&self) -> Said {
        self.said
    }

    /// What the node reported before a service started, and not since: marks, block assembly, whether
    /// it catches up. `since` is from the start of that service; without it from the last start of any.
    pub(super) fn is_silent(&self, since: Option<Said>) -> [bool; 3] {
        let since = since.unwrap_or(self.started);
        [
            self.mined_set.is_some() && self.said.mined_set <= since.mined_set,
            self.assembly.is_some() && self.said.assembly <= since.assembly,
            self.is_catching_up.is_some() && self.said.catching_up <= since.catching_up,
        ]
    }

    /// Whether the node catches up, or may do so: it reported that once, and not since a service
    /// started.
    #[must_use]
    pub fn may_catch_up(&self, since: Option<Said>) -> bool {
        let [_, _, is_silent] = self.is_silent(since);
        self.is_catching_up == Some(true) || is_silent
    }

    /// What the node reported before a service started and not since, in words.
    #[must_use]
    pub fn not_said_again(&self, since: Option<Said>) -> Vec<&'static str> {
        let words = ["its marks (mined_set_height)", "its block assembly", "whether it catches up"];
        let silent = self.is_silent(since).into_iter().zip(words);
        silent.filter_map(|(is_silent, what)| is_silent.then_some(what)).collect()
    }

    /// Whether a claim lies too far above the chain to be true.
    #[must_use]
    pub fn is_far(&self, claim: Height, jump_max: u32) -> bool {
        claim > self.newest().unwrap_or(Height::GENESIS).plus(jump_max)
    }
}

/// Whether two reports are two witnesses of one height. Of one witness only a later block is a second
/// report: the same words twice are one, and a lower height takes the first one back.
fn agree(held: Sighting, seen: Sighting, jump_max: u32) -> bool {
    let is_second = held.by != seen.by || seen.height > held.height;
    is_second && held.height.get().abs_diff(seen.height.get()) <= jump_max
}

#[cfg(test)]
mod tests;
