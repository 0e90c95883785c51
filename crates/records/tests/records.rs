//! The port on every engine, the simulation, and a real cluster with faults.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "records/aerospike.rs"]
mod aerospike;
#[path = "records/engines.rs"]
mod engines;
#[path = "records/faults.rs"]
mod faults;
#[path = "records/simulated.rs"]
mod simulated;
