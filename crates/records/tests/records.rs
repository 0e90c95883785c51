//! The simulation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "records/simulated.rs"]
mod simulated;
