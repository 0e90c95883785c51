//! The node store over gRPC: a real server on a port of its own, and a real client.

mod answers;
mod calls;
mod client_store;
mod cluster;
mod conflicts;
mod conformance;
mod creation_lock;
pub(crate) mod disk;
mod doors;
mod hanging_up;
mod limits;
mod memory;
pub(crate) mod program;
mod python;
mod requests;
mod served;
mod stopping;

use calls::take;
