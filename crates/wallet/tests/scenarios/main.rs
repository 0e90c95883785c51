//! Scenarios of the ledger, each written once and run on `SQLite` and on `PostgreSQL`.
//!
//! Names start with a number; gaps belong to parts outside of the ledger, such as descriptors.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod coins;
mod ingest;
mod leases;
mod reorg;
mod spending;
mod world;
