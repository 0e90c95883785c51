//! Every test runs on both engines, with the same statements.

#![allow(clippy::unwrap_used, reason = "a failed setup is a failed test")]

mod definitions;
mod in_doubt;
mod lost_file;
mod migrations;
mod place;
mod savepoints;
mod servers;
mod sets;
mod tls;
mod transactions;
mod values;
mod waiting;
