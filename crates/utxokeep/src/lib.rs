//! A UTXO state engine as a library: configuration, the chain index, the node store, the pruner, the
//! wallet ledger and what they do together. Its program is in `utxokeep-server`.
//!
//! # Invariants
//!
//! * Nothing here serves a transport: no HTTP, no gRPC, no command line. Webhooks are clients.
//! * Every face answers with the same models.
//! * Fixed settings of an existing database are taken from it, never guessed.

pub mod catch_up;
pub mod clock;
pub mod config;
pub mod consumers;
pub mod cursor;
pub mod engine;
pub mod follow;
pub mod json;
pub mod kinds;
pub mod memory;
pub mod mempool;
pub mod meters;
pub mod mmr;
pub mod node_store;
pub mod ops;
pub mod owners;
pub mod persister;
mod place_name;
pub mod pruning;
mod readers;
pub mod sse;
pub mod store_bench;
pub mod store_follow;
pub mod store_gauges;
pub mod stream;
pub mod times;
pub mod waiting;
pub mod wallet_follow;
pub mod wallet_rebroadcast;
pub mod wallet_upkeep;
pub mod wallets;
pub mod watched;
pub mod webhooks;

/// Compiles the example of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExample;
