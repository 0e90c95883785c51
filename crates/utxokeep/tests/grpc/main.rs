//! The node store over gRPC: a real server on a port of its own, and a real client.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod calls;
mod client_store;
mod conflicts;
mod conformance;
mod disk;
mod doors;
mod hanging_up;
mod limits;
mod memory;
mod program;
mod requests;
mod served;
mod stopping;
