//! The wallet ledger on both engines, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cardano;
mod histories;
mod processes;
mod regtest;
mod scenarios;
mod schema;
mod statements;
