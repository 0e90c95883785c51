//! Scenarios of the ledger, each written once and run on `SQLite` and on `PostgreSQL`.
//!
//! Names start with a number. Those that are missing here stand beside the rules (105, 126), in
//! the test of the schema (128), and in the one with several processes.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod block_locks;
mod bytes;
mod claims;
mod coins;
mod columns;
mod contention;
mod credits;
mod failing;
mod held_back;
mod horizons;
mod impossible;
mod ingest;
mod labels;
mod lease_clock;
mod leases;
mod pruned_undone;
mod pruning;
mod reorg;
mod rich;
mod set_aside;
mod spending;
mod tampering;
mod trust;
mod world;
