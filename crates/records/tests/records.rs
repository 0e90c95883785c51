//! The port on every engine, and the simulation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "records/engines.rs"]
mod engines;
#[path = "records/simulated.rs"]
mod simulated;
