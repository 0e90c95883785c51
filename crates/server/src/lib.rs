//! The program `utxokeep`: the engine's operations over REST, gRPC and on the command line, and the
//! demo.
//!
//! # Invariants
//!
//! * Results reach stdout through one module of the command line; logs and progress go to stderr.
//! * Every face answers with the models of `utxokeep`; none has rules of its own.

pub mod access;
pub mod cli;
pub mod demo;
pub mod doors;
pub mod grpc;
mod held;
pub mod kinds;
pub mod rest;
mod server;

// The engine's modules by the names they have there.
use utxokeep::{
    clock, config, follow, json, memory, meters, node_store, pruning, store_bench, waiting,
    wallet_follow, wallets, watched,
};
