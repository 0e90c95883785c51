//! Errors of the chain index. Each says what happened and what to do; none leaves a half-applied
//! change behind.

use utxokeep_chains::{DecodeError, SourceError};
use utxokeep_core::{ChainHash, Corrupt, Height, InvalidBlock, Network, Partial, mmr::MmrRule};
use utxokeep_kv::KvError;

use crate::Cursor;

/// Reading or writing the tables failed, or what they hold makes no sense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The engine below failed.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// A row does not decode.
    #[error("{0}; run `utxokeep chain verify`, then import again into a new directory")]
    Corrupt(#[from] Corrupt),
    /// Somebody else writes to this database already.
    #[error("the database has a writer already; there can be only one")]
    SecondWriter,
    /// A row that another row implies is not there.
    #[error("table {table} has no row for {key}; run `utxokeep chain verify`")]
    MissingRow {
        /// Table that was read.
        table: &'static str,
        /// What was looked for.
        key: String,
    },
}

impl IndexError {
    /// Whether the tables hold something wrong, rather than the engine failing.
    pub(crate) const fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::MissingRow { .. })
    }

    #[allow(clippy::needless_pass_by_value)] // hashes and heights are moved in and printed
    pub(crate) fn missing(table: &'static str, key: impl ToString) -> Self {
        Self::MissingRow { table, key: key.to_string() }
    }
}

/// Why a database could not be opened. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexOpenError {
    /// The database follows another network.
    #[error("the database follows {found}, not {asked}; use another data directory")]
    WrongNetwork {
        /// Network of the database.
        found: String,
        /// Network asked for.
        asked: Network,
    },
    /// The database was written by a newer program.
    #[error("the database has format {found}, this program knows {known}; use a newer utxokeep")]
    NewerFormat {
        /// Format of the database.
        found: u64,
        /// Newest format this program knows.
        known: u64,
    },
    /// The database is there, holds nothing, and was not opened to create an index in it.
    #[error("there is no chain index in the database; nothing was created")]
    Empty,
    /// The database was written by an older program, and was opened for reading.
    #[error(
        "the database is of a format before {known}; nothing was changed: `utxokeep chain prune`, or \
         any other command that writes to it, brings it up to date"
    )]
    OlderFormat {
        /// Format of this program.
        known: u64,
    },
    /// A setting that is part of the database differs from the configuration.
    #[error(
        "the database was built with {name} = {found}, the configuration says {asked}; change the configuration back, or import again into a new directory"
    )]
    SettingChanged {
        /// Name of the setting.
        name: &'static str,
        /// Value of the database.
        found: bool,
        /// Value asked for.
        asked: bool,
    },
    /// The index cannot be switched off now.
    #[error("the index was not switched off: {why}; nothing was changed")]
    NotSwitchedOff {
        /// What stands against it.
        why: &'static str,
    },
    /// The database keeps another Merkle mountain range than the configuration says, or none.
    #[error("{}", mmr_changed(*found, *asked))]
    MmrChanged {
        /// Rule of the one in the database.
        found: Option<MmrRule>,
        /// Rule asked for.
        asked: Option<MmrRule>,
    },
    /// A Merkle mountain range needs every output of its chain, and the index would lack some.
    #[error("[index] store = \"mmr\" cannot be had here: {why}")]
    MmrRefused {
        /// What stands against it.
        why: &'static str,
    },
    /// The database keeps other outputs than the configuration says.
    #[error(
        "the database was built with a filter of {found} addresses and credentials, the configuration has another of {asked}; change [index] filter_addresses and filter_credentials back, or import again into a new directory"
    )]
    FilterChanged {
        /// Entries of the filter of the database.
        found: usize,
        /// Entries of the filter asked for.
        asked: usize,
    },
    /// The database follows a private chain with other genesis files.
    #[error("the database was built with other genesis files; use them, or another data directory")]
    GenesisChanged,
    /// The directory holds a database, but nothing that says what it is.
    #[error("the directory holds a database that utxokeep did not write")]
    NotOurs,
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

fn mmr_changed(found: Option<MmrRule>, asked: Option<MmrRule>) -> String {
    let store = "[index] store = \"mmr\"";
    match (found, asked) {
        (None, _) => format!(
            "the configuration says {store}, and the database keeps no Merkle mountain range; \
             build it with `chain mmr enable`, or take the setting out"
        ),
        (Some(_), None) => format!(
            "the database keeps a Merkle mountain range, and the configuration does not say \
             {store}; say it or leave the setting out, or drop the range with `chain mmr disable`"
        ),
        (Some(found), Some(asked)) => format!(
            "the database keeps a Merkle mountain range with mmr_rule = \"{found}\", the \
             configuration says \"{asked}\"; change the configuration back, or drop the range \
             with `chain mmr disable` and build it with `chain mmr enable --rule {asked}`"
        ),
    }
}

/// Why the Merkle mountain range was not built. What was there before is unchanged; what was built
/// so far stays, and the next pass goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MmrEnableError {
    /// The database has one.
    #[error("the database keeps a Merkle mountain range already; nothing was changed")]
    IsOn,
    /// Leaf numbers need every output that was ever created.
    #[error(
        "this database has not seen every output of its chain: {why}; a root needs an index that \
         was imported from the first block on, without a filter; nothing was changed"
    )]
    NotWhole {
        /// What it lacks.
        why: &'static str,
    },
    /// A pass with another rule has begun, and was interrupted.
    #[error(
        "an interrupted pass began to build the Merkle mountain range with the rule {began}, and is \
         asked to go on with {asked}; resume it with `chain mmr enable --rule {began}`, or drop what \
         it has built with `chain mmr disable` and begin anew; nothing was changed"
    )]
    OtherRule {
        /// The rule it began with.
        began: MmrRule,
        /// That asked for.
        asked: MmrRule,
    },
    /// The settings stand against it.
    #[error(transparent)]
    Settings(#[from] IndexOpenError),
    /// A block could not be had. The blocks before it are done, and the next pass begins with it.
    #[error(transparent)]
    Source(#[from] FollowError),
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

impl From<KvError> for MmrEnableError {
    fn from(error: KvError) -> Self {
        Self::Store(error.into())
    }
}

/// Why a root or a proof was not given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MmrError {
    /// None is kept.
    #[error(
        "this index keeps no Merkle mountain range; build it with `chain mmr enable`, or import with \
         [index] store = \"mmr\""
    )]
    Off,
    /// The index has no blocks.
    #[error("the index has no blocks yet")]
    Empty,
    /// What was asked for belongs to the other rule.
    #[error("the Merkle mountain range of this index has another rule than this question")]
    OtherRule,
    /// The output is not known.
    #[error(
        "no such output: it was never created on this chain, or it was spent so long ago that \
         nothing is known of it any more"
    )]
    Unknown,
    /// The index remembers every output that was ever spent, and this one is not among them.
    #[error(
        "no such output: no block of this chain has created it, or its script can never be spent"
    )]
    NeverExisted,
    /// The output came later.
    #[error("the output was created later, by the block at height {created}")]
    NotYet {
        /// Where it was created.
        created: Height,
    },
    /// The output never had a leaf.
    #[error("the output was created and spent by the block at height {height}: it has no leaf")]
    Passed {
        /// The block.
        height: Height,
    },
    /// Utreexo cannot prove what is not there.
    #[error("the output is spent; a forest of Utreexo has proofs of unspent outputs only")]
    SpentInUtreexo,
    /// The height is not in the window.
    #[error("height {height} is not inside the window: roots are known from {oldest} to {tip}")]
    OutsideWindow {
        /// Height asked about.
        height: Height,
        /// The oldest one.
        oldest: Height,
        /// The newest one.
        tip: Height,
    },
    /// Going back so far is more work than is allowed.
    #[error(
        "going back to height {height} undoes more than {max} changes, which is more work than is \
         done here; ask about a newer block, or allow more changes"
    )]
    TooMuchWork {
        /// Height asked about.
        height: Height,
        /// The most changes.
        max: u64,
    },
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

impl From<KvError> for MmrError {
    fn from(error: KvError) -> Self {
        Self::Store(error.into())
    }
}

fn stands_at(tip: Option<Height>) -> String {
    tip.map_or_else(
        || "the database has no blocks yet".to_owned(),
        |height| format!("the tip is at height {height}"),
    )
}

/// Why a block was not applied. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The block's parent is unknown: blocks are missing in between.
    #[error(
        "block {hash} does not connect: its parent {prev} is unknown and {}; apply the blocks in between first",
        stands_at(*tip)
    )]
    Gap {
        /// The block.
        hash: ChainHash,
        /// Its parent.
        prev: ChainHash,
        /// Height of the tip, if there is one.
        tip: Option<Height>,
    },
    /// The block's parent is in the chain but is not the tip: another block has its height.
    #[error(
        "block {hash} belongs at height {height}, where {existing} is; roll back to {} first",
        height.minus(1)
    )]
    Conflict {
        /// The block.
        hash: ChainHash,
        /// Height it belongs at.
        height: Height,
        /// Block that is there.
        existing: ChainHash,
    },
    /// The chain starts with another block.
    #[error(
        "the chain of {} starts with {expected}, not with {found}",
        expected.network()
    )]
    WrongGenesis {
        /// Its first block.
        expected: ChainHash,
        /// The block given.
        found: ChainHash,
    },
    /// The database is empty and the block is not the first of its chain.
    #[error(
        "block {hash} is not the first block of {}; start with the first block, or allow an index that starts mid-chain (--start-mid-chain)",
        hash.network()
    )]
    NotFirst {
        /// The block.
        hash: ChainHash,
    },
    /// The block breaks a rule.
    #[error(
        "block {hash} at height {height} is invalid: {}",
        reason.text(hash.network())
    )]
    Invalid {
        /// The block.
        hash: ChainHash,
        /// Height it would have had.
        height: Height,
        /// The rule.
        reason: InvalidBlock,
    },
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

/// Why a rollback was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RollbackError {
    /// The target lies below the oldest undo data.
    #[error("cannot roll back to {target}: the deepest height that can be reached is {safe}")]
    TooDeep {
        /// Height asked for.
        target: Height,
        /// Deepest height that can be reached.
        safe: Height,
    },
    /// The index is off, or catching up, and its tables could not follow.
    #[error(
        "cannot roll back to {target}: the tables of the index are behind the log, and can be taken \
         back to {safe} at most; below that the index would be lost. Roll back to {safe} or higher, or \
         import again into a new directory"
    )]
    BelowTables {
        /// Height asked for.
        target: Height,
        /// Deepest height that the tables can be taken back to.
        safe: Height,
    },
    /// The target lies above the tip.
    #[error("cannot roll back to {target}: the tip is at {tip}")]
    AboveTip {
        /// Height asked for.
        target: Height,
        /// Height of the tip.
        tip: Height,
    },
    /// There is nothing to roll back.
    #[error("cannot roll back: the database has no blocks")]
    Empty,
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

impl RollbackError {
    /// The deepest height that can be reached, when that is why it was refused.
    #[must_use]
    pub const fn safe_height(&self) -> Option<Height> {
        match self {
            Self::TooDeep { safe, .. } | Self::BelowTables { safe, .. } => Some(*safe),
            _ => None,
        }
    }
}

/// Why a question could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The index is turned off.
    #[error("the index is off ([index] enabled = false): there is no UTXO set to ask")]
    Disabled,
    /// The index was off, and is on its way to the tip.
    #[error("{}", catching_up(at, *tip))]
    CatchingUp {
        /// The last block that its tables have.
        at: Cursor,
        /// Height of the tip.
        tip: Option<Height>,
    },
    /// The index that would answer is turned off.
    #[error(
        "that index is off ([index] {name} = false); import again into a new directory with it on"
    )]
    IndexOff {
        /// Name of its setting.
        name: &'static str,
    },
    /// The filter leaves out the owner asked about.
    #[error(
        "outputs of this owner are not kept here: the index keeps {partial} ([index] filter_addresses, filter_credentials); ask an index that keeps them"
    )]
    OwnerNotKept {
        /// What is kept.
        partial: Partial,
    },
    /// No record of the output, in an index that does not keep everything.
    #[error(
        "this output is not kept here, and may exist: the index keeps {partial}; ask an index of the whole chain"
    )]
    OutputNotKept {
        /// What is kept.
        partial: Partial,
    },
    /// A block from before the first of an index that starts in mid-chain, or one that may be.
    #[error(
        "block {block} is not known here: this index starts at height {start} and has no earlier block; it keeps {partial}; ask an index of the whole chain"
    )]
    BlockNotKept {
        /// The block, as the question names it.
        block: String,
        /// Height of the first block that is kept.
        start: Height,
        /// What is kept.
        partial: Partial,
    },
    /// Nothing has been applied yet.
    #[error("the database has no blocks yet; import some first")]
    Empty,
    /// The height asked about is outside the window.
    #[error("height {asked} cannot be answered: the window reaches from {floor} to {tip}")]
    OutsideWindow {
        /// Height asked about.
        asked: Height,
        /// Deepest height that can be answered.
        floor: Height,
        /// Height of the tip.
        tip: Height,
    },
    /// The slot asked about is outside the window.
    #[error(
        "slot {asked} cannot be answered: the window reaches from slot {floor_slot} (height {floor}) to slot {tip_slot} (height {tip})"
    )]
    SlotOutsideWindow {
        /// Slot asked about.
        asked: u64,
        /// Deepest height that can be answered.
        floor: Height,
        /// Its slot.
        floor_slot: u64,
        /// Height of the tip.
        tip: Height,
        /// Its slot.
        tip_slot: u64,
    },
    /// The chain has no slots.
    #[error("{network} has no slots; ask by height or by hash")]
    NoSlots {
        /// Network of the database.
        network: Network,
    },
    /// The block asked about is not on the chain.
    #[error("block {hash} is not on the followed chain")]
    UnknownBlock {
        /// The block, as the question names it.
        hash: String,
    },
    /// The block that an enumeration is made of has left the chain, or never was on it.
    #[error(
        "block {hash}, which the cursor was made at, is not, or no longer, on the followed chain: a reorganisation replaced it, or the cursor is of another database; start the list again without the cursor"
    )]
    BlockGone {
        /// The block.
        hash: ChainHash,
    },
    /// A cursor of one block, and a question about another.
    #[error(
        "the cursor was made at height {cursor}, the question is about height {asked}; leave one of them out"
    )]
    CursorElsewhere {
        /// Height of the cursor's block.
        cursor: Height,
        /// Height asked about.
        asked: Height,
    },
    /// The answer would have to add up more rows than allowed.
    #[error("there are more than {max} outputs, the most that one answer may look at")]
    TooManyRows {
        /// The limit.
        max: u64,
    },
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

/// What an index that is not at the tip yet says to whoever asks it.
pub(crate) fn catching_up(at: &Cursor, tip: Option<Height>) -> String {
    let tip = tip.map_or_else(|| "none".to_owned(), |tip| tip.to_string());
    format!(
        "the index was off and is catching up: it stands at {at}, the tip is at height {tip}; ask \
         again when it is there. `utxokeep serve`, `chain follow` and `chain import` take it on"
    )
}

/// Why the index did not catch up with the log. What it has come to stays, and the next attempt goes
/// on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatchUpError {
    /// The chain went another way from below what the tables can be taken back to.
    #[error(
        "the tables of the index stand on block {hash} at height {height}, which is not part of the \
         chain any more, and nothing is left to undo it with; import again into a new directory, or \
         go on without the index ([index] enabled = false)"
    )]
    TooDeep {
        /// The deepest block that the tables could be taken back to.
        hash: ChainHash,
        /// Its height.
        height: Height,
    },
    /// The body of a block is nowhere to be had.
    #[error(
        "block {hash} at height {height} was logged while the index was off, and its body is needed \
         now; name the files or the node that have it, or go on without the index ([index] enabled = \
         false)"
    )]
    MissingBody {
        /// The block.
        hash: ChainHash,
        /// Its height.
        height: Height,
    },
    /// A source that calls a block by another name.
    #[error("the source says block {hash}, its bytes are block {found}; fetch the file again")]
    OtherBlock {
        /// What was asked for.
        hash: ChainHash,
        /// What the bytes say.
        found: ChainHash,
    },
    /// Without the set nobody could tell that a block breaks a rule.
    #[error(
        "block {hash} at height {height} was logged while the index was off, and is invalid: \
         {reason}; take the log back below it with `utxokeep chain rollback {}`, and follow a chain \
         without it",
        height.minus(1)
    )]
    Refused {
        /// The block.
        hash: ChainHash,
        /// Its height.
        height: Height,
        /// The rule.
        reason: String,
    },
    /// A block could not be applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

/// Why following a source stopped. What was applied before stays applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// A better branch forks off below what can be undone.
    #[error(
        "a branch with more work (tip {tip}) forks off at height {fork}, below the deepest height that can be undone ({safe}); import again into a new directory with a larger [index] rollback_window_blocks"
    )]
    ReorganisationTooDeep {
        /// Tip of the better branch.
        tip: ChainHash,
        /// Height of the fork.
        fork: Height,
        /// Deepest height that can be reached.
        safe: Height,
    },
    /// An empty database, and no block to start it with.
    #[error("the database is empty and the source has no block that its chain can start with")]
    NoFirstBlock,
    /// A source that shares no block with the chain as far as it can be undone.
    #[error(
        "the source has no block of the chain here between heights {safe} and {tip} (its last is at slot {last_slot}); use the source this database was made from, or a new directory"
    )]
    NoCommonBlock {
        /// Deepest height that can be reached.
        safe: Height,
        /// Height of the tip.
        tip: Height,
        /// Slot of the last block of the source.
        last_slot: u64,
    },
    /// A source that calls a block by another name.
    #[error("the source says block {hash}, its bytes are block {found}; fetch the file again")]
    OtherBlock {
        /// What the source says.
        hash: ChainHash,
        /// What the bytes say.
        found: ChainHash,
    },
    /// The block that a source went back to is not part of our chain.
    #[error("the source went back to block {hash}, which is not part of the chain here")]
    UnknownPoint {
        /// Hash of the block, as people write it.
        hash: String,
    },
    /// A block that has to be connected is nowhere to be had.
    #[error("the body of block {hash} at height {height} is needed; import the file that holds it")]
    MissingBody {
        /// The block.
        hash: ChainHash,
        /// Its height.
        height: Height,
    },
    /// Bytes of a block do not decode.
    #[error("block {hash} does not decode")]
    Decode {
        /// The block.
        hash: ChainHash,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// Bytes that a node sent do not decode.
    #[error("the next block that the node sent does not decode, and {}", stands_at(*after))]
    Undecodable {
        /// Height of the last block that was applied.
        after: Option<Height>,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// Applying failed for a reason other than the block's own fault.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Rolling back failed.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] IndexError),
}

macro_rules! from_store {
    ($($error:ident),+) => {
        $(
            impl From<KvError> for $error {
                fn from(error: KvError) -> Self {
                    Self::Store(error.into())
                }
            }

            impl From<Corrupt> for $error {
                fn from(error: Corrupt) -> Self {
                    Self::Store(error.into())
                }
            }
        )+
    };
}

from_store!(CatchUpError, IndexOpenError, ApplyError, RollbackError, QueryError, FollowError);
