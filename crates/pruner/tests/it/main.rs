//! The pruner on every engine: its rules, its faults, and simulated chains.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
mod faults;
mod secondary_index;
mod simulation;
