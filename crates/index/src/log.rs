//! The chain log as a bus: every part of the program that follows the chain reads it from here.
//!
//! A consumer holds a [`Cursor`], the last block whose effects it has committed. From there
//! [`LogReader::events`] tells what became of the chain: blocks undone down to the fork, then blocks
//! applied up to the tip. Nothing is sent: [`TipSignal`] says that there is more, and a consumer that
//! was down, is slow or is new reads on from its own place. The path from a cursor to the tip is
//! derived from the log; there is no second record of what happened.
//!
//! A consumer may give itself a name ([`ChainIndex::register_consumer`]). Undo data that a named
//! consumer has not read yet stays, up to `consumer_lag_blocks_max` blocks.
//!
//! # Invariants
//!
//! * Events of one reader are those of one snapshot. Each undone block is the one below the last
//!   undone, each applied block the child of the one before.
//! * A block that left the chain is kept for readers for as long as the rollback window, and for as
//!   long as a named consumer stands on it.
//! * A consumer that is not registered holds nothing back.
//!
//! [`ChainIndex::register_consumer`]: crate::ChainIndex::register_consumer

mod consumers;
mod cursor;
mod error;
mod reader;
mod signal;

pub(crate) use self::consumers::{Held, held, need_changes};
pub use self::{
    consumers::{CONSUMERS_MAX, ConsumerNeeds, ConsumerState, ConsumerStatus},
    cursor::Cursor,
    error::LogError,
    reader::{LogEvent, LogReader, LoggedBlock},
    signal::TipSignal,
};
