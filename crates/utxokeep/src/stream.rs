//! The change stream: what every block changed, in order, for programs that keep something of their
//! own in step with the chain.
//!
//! A reader holds a cursor ([`StreamCursor`]): the last block that it has, and inside a large block
//! how many of its changes. From there [`StreamReader`] tells what to undo and what to apply, made of
//! the chain log alone: no body of a block is read. [`Streams`] serves many readers at a time.
//!
//! # Invariants
//!
//! * The events from one cursor to another are a function of the two blocks and the changes between
//!   them. A reader that comes back gets what it would have got, whatever was cut off and whoever was
//!   restarted.
//! * Each step reads one snapshot and lets it go before anything is sent. No reader waits for the
//!   writer, and none is waited for.
//! * Everything is bounded: connections, work in a second, bytes that wait for a client, outputs of an
//!   event.

mod chain;
mod consumers;
mod cursor;
mod error;
mod event;
mod hub;
mod meter;
mod produce;
mod reader;
mod request;

pub use chain::{ChainConsumer, ChainCut, ChainEvent, ChainMoved, ChainSent, ChainSubscription};
pub use consumers::{CONSUMER_PREFIX, Consumer, ConsumerList, ConsumerPlace, StreamConsumers};
pub use cursor::{cursor_text, parse_cursor};
pub use error::StreamError;
pub use event::{BlockChanges, ChangedOutput, MmrAfter};
pub use hub::{Item, Sent, StreamFace, Streams, Subscription};
pub use meter::METRICS;
pub use produce::{Cut, CutReason};
pub use reader::{Step, StreamLimits, StreamReader};
pub use request::{Start, StreamRequest};
pub use utxokeep_core::StreamCursor;
