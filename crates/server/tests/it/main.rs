//! The program and its three faces: commands, REST and gRPC.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alone;
mod bitcoin_follow;
mod broadcast;
mod cardano_cli;
mod cardano_crash;
mod cardano_follow;
mod cardano_rest;
mod cli;
mod crash;
mod dependencies;
mod devnet;
mod faces;
mod generated_docs;
mod grpc;
mod http;
mod mmr;
mod persister;
mod program;
mod pruner;
mod reading;
mod rest;
mod serving;
mod standby;
mod store_bench;
mod store_move;
mod stream;
mod switch;
mod tx_cli;
mod wallet_cli;
mod wallet_events;
mod wallet_follow;
mod wallet_grpc;
mod wallet_rest;
