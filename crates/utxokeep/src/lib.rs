//! The program and facade library: configuration, command line, REST, gRPC, demo.
//!
//! # Invariants
//!
//! * Results reach stdout through one module of the command line; logs and progress go to stderr.
//! * The command line and REST answer with the same JSON models.
//! * Fixed settings of an existing database are taken from it, never guessed.

pub mod access;
pub mod cli;
mod clock;
pub mod config;
pub mod consumers;
pub mod cursor;
pub mod demo;
pub mod doors;
pub mod follow;
pub mod grpc;
pub mod json;
pub mod kinds;
pub mod memory;
pub mod node_store;
pub mod owners;
pub mod pruning;
pub mod rest;
mod server;
pub mod store_bench;
pub mod store_gauges;
mod waiting;
pub mod wallet_follow;
pub mod wallet_upkeep;
pub mod wallets;
pub mod watched;
