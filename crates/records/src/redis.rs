//! Redis and Valkey Cluster: cells as hashes, indexes as sorted sets, one function for conditional
//! writes.
//!
//! Everything of a shard has the shard's number as its hash tag, so that it is in one hash slot, and
//! a cell and its rows of indexes change in one function call. Calls go to the primaries that hold
//! the slots, one pipeline to each; redirections and short outages are followed up to a limit.
//!
//! # Invariants
//!
//! * A write is sent again only where it certainly did not happen. Whatever else went wrong is
//!   [`crate::Written::InDoubt`]: a lost connection, a barrier that was not reached, an answer that
//!   this crate does not know.
//! * A barrier is asked for in the same pipeline, on the same connection, as the writes it covers;
//!   a connection that was lost is never made again behind the back of its call.

mod classify;
#[cfg(feature = "bench")]
mod clear;
mod client;
mod cluster;
mod encode;
mod fred;
mod health;
mod node;
mod options;
mod probe;
mod send;
mod slots;
mod store;

pub use options::{REDIS_URL_FORM, RedisOptions};
pub use store::RedisRecords;
