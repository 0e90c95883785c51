//! Scenarios of the ledger, each written once and run on `SQLite` and on `PostgreSQL`.
//!
//! Each is named by its rule; a comment has its number in the list of scenarios. Numbers that are
//! missing here stand beside the rules (S105, S126), in the test of the schema (S128), and in those
//! with several processes.

mod block_locks;
mod bytes;
mod claims;
mod coins;
mod columns;
mod contention;
mod credits;
mod events;
mod failing;
mod held_back;
mod horizons;
mod impossible;
mod ingest;
mod labels;
mod lease_clock;
mod leases;
mod mempool;
mod pruned_undone;
mod pruning;
mod readable;
mod reorg;
mod rich;
mod set_aside;
mod spending;
mod tampering;
mod trust;
mod webhooks;
mod world;

use world::on_both;
