//! Aerospike: a cell is a record, its fields a map, its rows of indexes another map under a secondary
//! index.
//!
//! Cell and rows are bins of one record, so that they change together. The condition of a write is a
//! filter on the version bin, in the same call: the 16-bit generation of the server is not used, since
//! it wraps and starts anew with a record that is made again.
//!
//! # Invariants
//!
//! * A write is sent again only where it certainly did not happen. Whatever else went wrong is
//!   [`crate::Written::InDoubt`].
//! * **A deleted cell leaves a tombstone** where the server has no durable deletes (the community
//!   edition). An old copy that comes back from a disk or from a node that was away is older than its
//!   tombstone, and loses. To every call a tombstone is no cell.
//! * A write is carried out within `write_deadline_ms` of being sent, by the clock of its node, or not at
//!   all: see [`clock`].
//! * No page of an index is answered while the secondary index is being built on any node.

mod client;
mod clock;
mod encode;
mod health;
mod options;
mod outcome;
mod probe;
mod rows;
mod scan;
mod store;

pub use options::{AEROSPIKE_URL_FORM, AerospikeOptions, Consistency};
pub use store::AerospikeRecords;
